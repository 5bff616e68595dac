"""Starts and ends a mudaxd for tests that stand outside. Ends only what it started."""
import os
import signal
import subprocess
import time

import native


class Daemon:
    def __init__(self, program, folder, *arguments, environment=None):
        self.socket = os.path.join(folder, "mudaxd.sock")
        self.log = open(os.path.join(folder, "mudaxd.log"), "ab")
        self.command = [program, "--listen", "mudax+unix:" + self.socket, *arguments]
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None

    def start(self, seconds=30):
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env=self.environment)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                return self.client()
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("mudaxd did not start:\n" + open(self.log.name).read()[-2000:])

    def client(self, timeout=10):
        return native.Client(self.socket, timeout)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, seconds=30):
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        self.log.close()
