#!/usr/bin/env python3
"""A warm start: what was hot before a clean stop is fetched again after it, and is never older than the store.

usage: warm_test.py MUDAXD
"""
import os
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "mudaxd"
ITEMS = 300


class Warm(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-warm-")
        self.file = os.path.join(self.folder, "hot keys")
        self.daemon = None

    def tearDown(self):
        if self.daemon is not None:
            self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, *arguments, keeps=True):
        if keeps:
            arguments += ("--warm-file", self.file)
        self.daemon = Daemon(PROGRAM, self.folder, "--store", "rocksdb:" + os.path.join(self.folder, "data"),
                             "--cache-memory", "16M", "--store-memory", "32M", "--workers", "2", *arguments)
        return self.daemon.start()

    def end(self):
        self.assertEqual(self.daemon.stop(), 0)
        self.daemon.close()

    def put(self, client, table, item):
        client.call(native.PUT, {native.TABLE: table, native.ITEM: item})

    def verdict(self, client, table, key):
        body, meta = client.call(native.GET, {native.TABLE: table, native.KEY: key, native.VERDICT: True}, True)
        return native.VERDICTS[meta.get(0)], body

    def figures(self, client):
        stats = client.call(native.STATS, {})
        return [int(stats[f"warm_{name}_total"]) for name in ("keys", "fetched", "skipped")]

    def wait(self, client, done):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if sum(self.figures(client)[1:]) >= done:
                return
            time.sleep(0.02)
        self.fail(f"after 30 s: {self.figures(client)}")

    def fill(self, client):
        """Keys of every type, one of them long, and a table that will be gone."""
        client.create_table("Shop", sort=False)
        client.create_table("Numbers", types=("S", "N"))
        client.create_table("Gone", sort=False)
        for n in range(ITEMS):
            self.put(client, "Shop", {"p": f"key {n}", "v": n})
        self.put(client, "Numbers", {"p": "x" * 2048, "s": -12, "v": "old"})
        self.put(client, "Gone", {"p": "a"})
        self.verdict(client, "Shop", {"p": "absent"})
        for key in [f"key {n}" for n in range(ITEMS)] + ["absent"]:
            self.assertEqual(self.verdict(client, "Shop", {"p": key})[0], "hit")
        self.verdict(client, "Numbers", {"p": "x" * 2048, "s": -12})
        self.verdict(client, "Gone", {"p": "a"})
        return ITEMS + 3

    def test_what_was_hot_is_hit_at_once_and_as_the_store_has_it(self):
        client = self.begin()
        count = self.fill(client)
        self.end()
        # Without a cache that keeps anything: what it changes, a kept entry could not know.
        client = self.begin("--cache", "off", keeps=False)
        self.put(client, "Shop", {"p": "key 7", "v": "changed"})
        client.call(native.DELETE, {native.TABLE: "Shop", native.KEY: {"p": "key 8"}})
        client.call(native.DROP, {native.TABLE: "Gone"})
        self.end()
        client = self.begin()
        self.wait(client, count)
        self.assertEqual(self.figures(client), [count, count - 1, 1])
        for n in range(ITEMS):
            verdict, body = self.verdict(client, "Shop", {"p": f"key {n}"})
            self.assertEqual(verdict, "hit")
            expected = {7: {"p": "key 7", "v": "changed"}, 8: None}
            self.assertEqual(body, expected.get(n, {"p": f"key {n}", "v": n}))
        self.assertEqual(self.verdict(client, "Numbers", {"p": "x" * 2048, "s": -12})[0], "hit")
        self.assertEqual(self.verdict(client, "Shop", {"p": "absent"}), ("hit", None))

    def test_a_stop_before_all_are_fetched_keeps_the_rest(self):
        count = self.fill(self.begin())
        self.end()
        client = self.begin("--warm-rate", "10")
        self.wait(client, 1)
        self.assertLess(self.figures(client)[1], 100)
        self.end()
        client = self.begin()
        self.wait(client, count)
        self.assertEqual(self.figures(client), [count, count, 0])

    def test_the_most_used_come_first(self):
        client = self.begin()
        self.fill(client)
        for _ in range(2):
            for n in range(200, 210):
                self.verdict(client, "Shop", {"p": f"key {n}"})
        self.end()
        client = self.begin("--warm-rate", "10")
        self.wait(client, 10)
        hits = [n for n in range(200, 210) if self.verdict(client, "Shop", {"p": f"key {n}"})[0] == "hit"]
        self.assertEqual(len(hits), 10)

    def test_a_file_cut_short_is_used_as_far_as_it_goes(self):
        self.fill(self.begin())
        self.end()
        with open(self.file, "r+b") as file:
            file.truncate(os.path.getsize(self.file) // 2)
        client = self.begin()
        time.sleep(0.5)
        keys, fetched, skipped = self.figures(client)
        self.assertTrue(0 < fetched < keys and skipped == 0)
        self.assertEqual(self.verdict(client, "Shop", {"p": "key 1"})[1], {"p": "key 1", "v": 1})

    def test_an_empty_file_is_written(self):
        with open(self.file, "wb"):
            pass
        count = self.fill(self.begin())
        self.end()
        client = self.begin()
        self.wait(client, count)
        self.assertEqual(self.figures(client), [count, count, 0])

    def test_a_file_of_somebody_else_stays(self):
        with open(self.file, "wb") as file:
            file.write(b"dear diary, " * 10)
        client = self.begin()
        self.fill(client)
        self.end()
        with open(self.file, "rb") as file:
            self.assertEqual(file.read(), b"dear diary, " * 10)

    def test_without_a_place_to_write_the_daemon_stops_as_ever(self):
        self.file = os.path.join(self.folder, "no such folder", "keys")
        self.fill(self.begin())
        self.end()
        with open(os.path.join(self.folder, "mudaxd.log"), encoding="utf8") as log:
            self.assertIn("warm_keys_not_saved", log.read())


if __name__ == "__main__":
    unittest.main()
