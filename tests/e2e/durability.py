#!/usr/bin/env python3
"""What was acknowledged is there after a power loss, nothing half-written is, and this test would notice.

Writers overwrite a few keys with ascending numbers while the daemon is killed at random moments. With the
preload of tests/support/forget.c, whatever was not synced is then taken from the files, as a power loss
would. Every key must then hold a number from the last acknowledged to the last sent, whole.

usage: durability.py MUDAXD FORGET_SO [ROUNDS]
"""
import os
import random
import shutil
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon

WRITERS, KEYS, DEPTH = 4, 8, 16
PADDING = 300


def item_of(writer, key, number):
    return {"p": f"writer {writer}", "s": f"key {key}", "n": number, "copy": str(number),
            "padding": chr(97 + number % 26) * PADDING}


class Writer(threading.Thread):
    """Writes until the connection breaks; knows for each key what was sent and what was acknowledged."""

    def __init__(self, daemon, number, sent, acknowledged):
        super().__init__(daemon=True)
        self.client, self.number = daemon.client(), number
        self.sent, self.acknowledged = sent, acknowledged

    def run(self):
        asked = {}
        try:
            while True:
                while len(asked) < DEPTH:
                    key = random.randrange(KEYS)
                    if any(other == key for other, _ in asked.values()):
                        key = next(k for k in list(range(KEYS)) + [None] if k is None or
                                   all(other != k for other, _ in asked.values()))
                        if key is None:
                            break
                    value = self.sent[self.number, key] + 1
                    self.sent[self.number, key] = value
                    asked[self.client.ask(native.PUT, {native.TABLE: "Kept", native.ITEM: item_of(
                        self.number, key, value)})] = key, value
                number, status, _, _ = self.client.next_reply()
                key, value = asked.pop(number)
                if status == 0:
                    self.acknowledged[self.number, key] = value
        except OSError:
            pass


def forget(folder, journal):
    """Takes from the files what a power loss would take."""
    synced = {}
    for line in open(journal, encoding="utf8"):
        kind, *rest = line.split()
        if kind == "sync":
            synced[rest[1]] = int(rest[0])
        elif rest[0] in synced:
            synced[rest[1]] = synced.pop(rest[0])
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not os.path.isfile(path) or name in ("LOCK", "IDENTITY") or name.startswith("LOG"):
            continue
        if path not in synced:
            os.unlink(path)
        elif os.path.getsize(path) > synced[path]:
            os.truncate(path, synced[path])


def check(client, sent, acknowledged):
    lost = 0
    for (writer, key), value in acknowledged.items():
        item = client.call(native.GET, {native.TABLE: "Kept", native.CONSISTENT: True,
                                        native.KEY: {"p": f"writer {writer}", "s": f"key {key}"}})
        if item is None and value == 0:
            continue
        number = item["n"] if item is not None else 0
        if item is not None and item != item_of(writer, key, number):
            sys.exit(f"half-written: {item}")
        if number > sent[writer, key]:
            sys.exit(f"writer {writer}, key {key}: {number} was never sent")
        if number < value:
            lost += 1
            acknowledged[writer, key] = number
        sent[writer, key] = max(number, sent[writer, key])
    return lost


def run(program, preload, rounds, sync):
    """Number of acknowledged writes that were lost."""
    top = tempfile.mkdtemp(prefix="mudax-durability-")
    folder, journal = os.path.join(top, "data"), os.path.join(top, "journal")
    environment = {"MUDAX_FORGET_DIR": folder, "MUDAX_FORGET_JOURNAL": journal, "LD_PRELOAD": preload}
    daemon = Daemon(program, top, "--store", "rocksdb:" + folder, "--sync", sync, "--workers", "2",
                    environment=environment)
    sent = {(w, k): 0 for w in range(WRITERS) for k in range(KEYS)}
    acknowledged = dict(sent)
    lost = written = 0
    try:
        client = daemon.start()
        client.create_table("Kept")
        for _ in range(rounds):
            before = sum(acknowledged.values())
            writers = [Writer(daemon, number, sent, acknowledged) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            time.sleep(random.uniform(0.02, 0.4))
            daemon.kill()
            for writer in writers:
                writer.join(10)
            written += sum(acknowledged.values()) - before
            forget(folder, journal)
            client = daemon.start()
            if sync != "always": # the table itself may be gone
                try:
                    client.create_table("Kept")
                except native.Refused:
                    pass
            lost += check(client, sent, acknowledged)
        print(f"--sync {sync}: {rounds} power losses, {written} writes acknowledged, {lost} of {WRITERS * KEYS} keys "
              f"a round lost some")
        return lost, written
    finally:
        daemon.close()
        shutil.rmtree(top, ignore_errors=True)


def main():
    program, preload = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    seed = int(os.environ.get("MUDAX_SEED", random.randrange(1 << 32)))
    print(f"MUDAX_SEED={seed}")
    random.seed(seed)
    lost, written = run(program, preload, rounds, "always")
    if lost or written < 100:
        sys.exit("acknowledged writes were lost" if lost else "too few writes to prove anything")
    lost, _ = run(program, preload, 3, "none")
    if not lost:
        sys.exit("nothing was lost without sync: this test would not notice a store that does not sync")


main()
