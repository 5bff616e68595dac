#!/usr/bin/env python3
"""mudax-check against daemons in trouble: slow and failing stores, timeouts, tiny caches, lives of
milliseconds, reloads, indexes that come and go.

usage: check_test.py MUDAXD MUDAX_CHECK OPERATIONS [REDIS_SERVER]
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

PROGRAM, CHECK, OPERATIONS = sys.argv[1], sys.argv[2], int(sys.argv[3])
REDIS = sys.argv[4] if len(sys.argv) > 4 else None
UPDATE_TABLE, DESCRIBE_HEAT = 18, 24


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Trouble(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-check-")
        self.daemon = None
        self.stop = threading.Event()
        self.helpers = []

    def tearDown(self):
        self.stop.set()
        for helper in self.helpers:
            helper.join(30)
        if self.daemon is not None:
            self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, store, *arguments):
        self.http = free_port()
        self.daemon = Daemon(PROGRAM, self.folder, "--store", store, "--store-memory", "32M", "--listen",
                             f"http://127.0.0.1:{self.http}", *arguments)
        self.daemon.start().close()

    def beside(self, work):
        helper = threading.Thread(target=work)
        helper.start()
        self.helpers.append(helper)

    def check(self, share, *arguments):
        """The line that tells what was judged, when nothing was found."""
        local = "mudax+unix:" + self.daemon.socket
        run = subprocess.run([CHECK, "--operations", str(int(OPERATIONS * share)), *arguments, local, local,
                              f"http://127.0.0.1:{self.http}"], capture_output=True, text=True, timeout=1500, check=False)
        self.assertEqual(run.returncode, 0, run.stdout[-4000:] + run.stderr[-1000:])
        print("   ", self.id().split(".")[-1] + ":", run.stdout.strip().splitlines()[-1])
        return run.stdout

    def not_counted(self, *figures):
        """Those of the figures that are 0 or not there."""
        client = self.daemon.client()
        stats = client.call(native.STATS, {})
        client.close()
        return [name for name in figures if int(stats.get(name, 0)) == 0]

    def test_a_tiny_cache(self):
        self.begin("memory:", "--cache-memory", "1M")
        self.check(1)
        self.assertEqual(self.not_counted('cache_purged_total{kind="item"}', 'cache_purged_total{kind="query"}'), [])

    def test_a_store_that_is_far_away(self):
        self.begin("memory:?delay=1ms", "--cache-memory", "4M")
        self.check(0.5, "--clients", "24")

    def test_outcomes_that_are_unknown_and_lives_of_milliseconds(self):
        self.begin("memory:?delay=3ms", "--cache-memory", "4M", "--item-ttl", "30ms", "--query-ttl", "20ms")
        text = self.check(0.3, "--clients", "24", "--timeout", "5")
        self.assertNotIn("(0 of unknown outcome)", text)

    def test_reloads_and_indexes_that_come_and_go(self):
        settings = os.path.join(self.folder, "mudaxd.ini")

        # What is stale is past its TTL, never older than a write through the daemon.
        stale = "stale_while_refetch = 1s\nstale_if_error = 1s\nrefresh_ahead = 50%\n"
        some = '[policy "some"]\ntable = MudaxCheck\nitem_ttl = 5ms\nquery_ttl = 5ms\nmax_bytes = 64K\n' + stale
        one = '[policy "one"]\ntable = MudaxCheck\nsort_key = S1*\ncache = off\n'
        shadow = '[policy "tried"]\ntable = *\ncache = queries\nshadow = on\n'

        def write(cache, ttl, policies=""):
            with open(settings + ".new", "w", encoding="utf8") as file:
                file.write(f"cache = {cache}\nitem_ttl = {ttl}\nquery_ttl = {ttl}\n{policies}")
            os.replace(settings + ".new", settings)

        write("on", "5m")
        self.begin("rocksdb:" + os.path.join(self.folder, "data"), "--config", settings, "--cache-memory", "2M",
                   "--sync", "none")

        def reload():
            number = 0
            while not self.stop.wait(0.05):
                number += 1
                write("off" if number % 4 == 0 else "on", ("5m", "10ms", "0", "1s")[number % 4],
                      ("", some, one + some, stale, shadow, one, stale + some)[number % 7])
                self.daemon.process.send_signal(signal.SIGHUP)

        def alter():
            client = self.daemon.client()
            definition = {"IndexName": "extra", "KeySchema": [{"AttributeName": "pad", "KeyType": "HASH"}],
                          "Projection": {"ProjectionType": "KEYS_ONLY"}}
            while not self.stop.wait(0.1):
                for change in ({"AttributeDefinitions": [{"AttributeName": "pad", "AttributeType": "S"}],
                                "GlobalSecondaryIndexUpdates": [{"Create": definition}]},
                               {"GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": "extra"}}]}):
                    try:
                        client.call(UPDATE_TABLE, {native.DEFINITION: {"TableName": "MudaxCheck", **change}})
                    except native.Refused:
                        pass
                    time.sleep(0.05)
            client.close()
        self.beside(reload)
        self.beside(alter)
        self.check(0.5)
        for _ in range(30): # on a fast machine that was over before each of the settings had its turn
            missing = self.not_counted('cache_stale_total{why="refetching"}',
                                       'cache_policy_shadow_total{policy="tried",answer="same"}',
                                       'cache_policy_miss_reasons_total{policy="one",kind="item",reason="cache_off"}')
            if not missing:
                break
            self.check(0.1)
        self.assertEqual(missing, [])

    def test_partitions_that_are_split_all_the_time(self):
        self.begin("memory:", "--cache-memory", "2M", "--partitions", "1", "--partition-size", "1K")
        most = [0]

        def watch():
            client = self.daemon.client()
            while not self.stop.wait(0.1):
                try:
                    heat = client.call(DESCRIBE_HEAT, {native.TABLE: "MudaxCheck"})["Heat"]
                    most[0] = max(most[0], *(len(place["Partitions"]) for place in heat))
                except native.Refused:
                    pass
            client.close()
        self.beside(watch)
        self.check(4)
        self.assertGreater(most[0], 8)

    def begin_redis(self, *arguments):
        self.redis_port = free_port()
        self.redis_command = [REDIS, "--port", str(self.redis_port), "--save", "", "--dir", self.folder, *arguments]
        self.addCleanup(self.end_redis)
        self.start_redis()
        self.begin(f"redis://127.0.0.1:{self.redis_port}", "--cache-memory", "2M")

    def start_redis(self):
        self.redis = subprocess.Popen(self.redis_command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(500):
            try:
                self.tell_redis("PING")
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("redis-server did not start")

    def tell_redis(self, command):
        with socket.create_connection(("127.0.0.1", self.redis_port), 5) as redis:
            redis.sendall(command.encode() + b"\r\n")
            reply = redis.recv(200)
        if not reply.startswith(b"+"):
            raise OSError(reply)

    def end_redis(self):
        self.stop.set()
        for helper in self.helpers:
            helper.join(30)
        self.redis.send_signal(signal.SIGCONT)
        self.redis.kill()
        self.redis.wait()

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_redis_that_pauses(self):
        self.begin_redis("--appendonly", "no")

        def pause():
            while not self.stop.wait(0.3):
                self.redis.send_signal(signal.SIGSTOP)
                time.sleep(0.05)
                self.redis.send_signal(signal.SIGCONT)
        self.beside(pause)
        self.check(0.3, "--clients", "16", "--timeout", "30")

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_redis_that_is_killed_and_starts_again(self):
        self.begin_redis("--appendonly", "yes", "--appendfsync", "always")

        kills = [0]

        def kill():
            while not self.stop.wait(0.8):
                self.redis.kill()
                self.redis.wait()
                self.start_redis()
                kills[0] += 1
        self.beside(kill)
        text = self.check(0.3, "--clients", "16", "--seconds", "60")
        self.assertGreater(kills[0], 0)
        self.assertNotIn("(0 of unknown outcome)", text)

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_redis_that_is_full_now_and_then(self):
        self.begin_redis("--appendonly", "no", "--maxmemory-policy", "noeviction")

        def fill():
            while not self.stop.wait(0.1):
                self.tell_redis("CONFIG SET maxmemory 1")
                time.sleep(0.05)
                self.tell_redis("CONFIG SET maxmemory 0")
        self.beside(fill)
        text = self.check(0.3, "--clients", "16", "--seconds", "60")
        self.assertNotIn("(0 of unknown outcome)", text) # refused for want of memory counts as that


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
