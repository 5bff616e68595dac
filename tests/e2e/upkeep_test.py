#!/usr/bin/env python3
"""What mudaxd does of itself: items expire by rule, new indexes are filled, over a kill and beside writes.

usage: upkeep_test.py MUDAXD
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
UPDATE_TABLE, UPDATE_TTL, INDEX, SCAN, BATCH_WRITE, PARTS, SELECT, DESCRIBE_HEAT = 18, 19, 24, 12, 14, 27, 22, 24


class Upkeep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-upkeep-")
        self.daemon = None

    def tearDown(self):
        if self.daemon is not None:
            self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, *arguments, store="memory:"):
        self.daemon = Daemon(PROGRAM, self.folder, "--store", store, "--cache-memory", "16M", "--store-memory", "32M",
                             "--expiry-interval", "50ms", *arguments)
        return self.daemon.start()

    def wait(self, what, condition):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if condition():
                return
            time.sleep(0.02)
        self.fail("waited in vain until " + what)

    def get(self, client, key):
        return client.call(native.GET, {native.TABLE: "Shop", native.KEY: {"p": key}})

    def query(self, client, group):
        return client.call(native.QUERY, {native.TABLE: "Shop", INDEX: "by-g", native.CONDITION: "g = :g",
                                          native.VALUES: {":g": group}})[0]

    def create(self, client, **more):
        attributes = [{"AttributeName": "p", "AttributeType": "S"}]
        if "GlobalSecondaryIndexes" in more:
            attributes.append({"AttributeName": "g", "AttributeType": "S"})
        client.call(native.CREATE, {native.DEFINITION: {
            "TableName": "Shop", "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": attributes, **more}})

    BY_G = {"IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
            "Projection": {"ProjectionType": "ALL"}}

    def test_only_what_has_expired_by_the_rule_goes_and_goes_everywhere(self):
        client = self.begin()
        self.create(client, GlobalSecondaryIndexes=[self.BY_G])
        now = int(time.time())
        kept = {"text": str(now - 60), "milliseconds": (now - 60) * 1000, "ancient": now - 6 * 366 * 86400,
                "later": now + 3600}
        for name, value in {**kept, "gone": now - 60, "rescued": now - 60}.items():
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": name, "g": "x", "exp": value}})
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "none", "g": "x"}})
        # Before the sweep an expired item is an item like any other, and cached like any other.
        self.assertEqual(self.get(client, "gone")["exp"], now - 60)
        self.assertEqual(len(self.query(client, "x")), 7)
        client.call(11, {native.TABLE: "Shop", native.KEY: {"p": "rescued"}, 23: "REMOVE exp"})
        client.call(UPDATE_TTL, {native.DEFINITION: {
            "TableName": "Shop", "TimeToLiveSpecification": {"AttributeName": "exp", "Enabled": True}}})
        self.wait("the expired item is gone", lambda: self.get(client, "gone") is None)
        self.assertEqual(sorted(item["p"] for item in self.query(client, "x")),
                         sorted([*kept, "none", "rescued"]))
        time.sleep(0.3)  # further rounds
        for name in [*kept, "none", "rescued"]:
            self.assertIsNotNone(self.get(client, name))
        body = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]
        self.assertEqual(body["ItemCount"], 6)
        self.assertEqual(body["GlobalSecondaryIndexes"][0]["ItemCount"], 6)

    def test_many_expired_items_go_page_by_page(self):
        client = self.begin()
        self.create(client)
        now = int(time.time())
        for first in range(0, 3000, 25):
            client.call(BATCH_WRITE, {PARTS: [
                [native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": f"k{n}", "exp": now - 10 + (n % 3) * 86400}}]
                for n in range(first, first + 25)]})
        client.call(UPDATE_TTL, {native.DEFINITION: {
            "TableName": "Shop", "TimeToLiveSpecification": {"AttributeName": "exp", "Enabled": True}}})
        self.wait("a third is gone", lambda: client.call(SCAN, {native.TABLE: "Shop", SELECT: 4})[0] == 2000)

    def test_a_new_index_is_filled_over_a_kill_and_beside_writes(self):
        client = self.begin(store="rocksdb:" + os.path.join(self.folder, "data"))
        self.create(client)
        for first in range(0, 5000, 25):
            client.call(BATCH_WRITE, {PARTS: [
                [native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": f"k{n}", "g": f"g{n % 50}", "n": n}}]
                for n in range(first, first + 25)]})
        client.call(UPDATE_TABLE, {native.DEFINITION: {
            "TableName": "Shop", "AttributeDefinitions": [{"AttributeName": "g", "AttributeType": "S"}],
            "GlobalSecondaryIndexUpdates": [{"Create": self.BY_G}]}})
        with self.assertRaisesRegex(native.Refused, "backfilling"):
            self.query(client, "g1")
        self.daemon.kill()
        client = self.daemon.start()
        expected = {n: n % 50 for n in range(5000)}
        for n in range(0, 1000, 5):
            if n % 2:
                client.call(native.DELETE, {native.TABLE: "Shop", native.KEY: {"p": f"k{n}"}})
                del expected[n]
            else:
                client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": f"k{n}", "g": "moved", "n": n}})
                expected[n] = "moved"

        def is_ready():
            body = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]
            return body["GlobalSecondaryIndexes"][0]["IndexStatus"] == "ACTIVE"
        self.wait("the index is ready", is_ready)
        for group in range(50):
            found = sorted(item["n"] for item in self.query(client, f"g{group}"))
            self.assertEqual(found, sorted(n for n, g in expected.items() if g == group))
        self.assertEqual(len(self.query(client, "moved")), 100)
        body = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]
        self.assertEqual(body["ItemCount"], len(expected))
        self.assertEqual(body["GlobalSecondaryIndexes"][0]["ItemCount"], len(expected))

    def write_for(self, client, seconds, items):
        """Puts and deletes until the time is over; `items` are then what there is."""
        until = time.monotonic() + seconds
        number = len(items) * 7
        while time.monotonic() < until:
            number += 1
            key = f"k{number % 1500}"
            if number % 5 == 0 and key in items:
                client.call(native.DELETE, {native.TABLE: "Shop", native.KEY: {"p": key}})
                del items[key]
            else:
                items[key] = {"p": key, "g": f"g{number % 3}", "pad": "x" * (number % 300)}
                client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: items[key]})

    def heat(self, client):
        return [place["Partitions"] for place in client.call(DESCRIBE_HEAT, {native.TABLE: "Shop"})["Heat"]]

    def test_partitions_are_split_beside_writes_and_over_kills(self):
        arguments = ("--partitions", "1", "--partition-size", "3K", "--sync", "none")
        client = self.begin(*arguments, store="rocksdb:" + os.path.join(self.folder, "data"))
        self.create(client, GlobalSecondaryIndexes=[self.BY_G])
        items = {}
        for seconds in (1.0, 1.1, 0.3, 1.2, 0.9, 1.05):
            self.write_for(client, seconds, items)
            self.daemon.kill()
            client = self.daemon.start()
            body = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]
            self.assertEqual(body["ItemCount"], len(items))
            self.assertEqual(body["GlobalSecondaryIndexes"][0]["ItemCount"], len(items))
            self.assertEqual(client.call(SCAN, {native.TABLE: "Shop", SELECT: 4})[0], len(items))
        self.wait("all are split", lambda: all(row["Bytes"] <= 3072 and not row.get("IsCounting")
                                               for rows in self.heat(client) for row in rows))
        table, index = self.heat(client)
        self.assertGreater(len(table), 16)
        self.assertGreater(len([row for row in index if "FirstKey" in row]), 8)  # it has three keys
        for rows in (table, index):
            self.assertEqual(sum(row["Items"] for row in rows), len(items))
        # As many as there are: what is deleted is taken off the partition in which it lies.
        for key in list(items):
            client.call(native.DELETE, {native.TABLE: "Shop", native.KEY: {"p": key}})
        for rows in self.heat(client):
            self.assertEqual([(row["Items"], row["Bytes"]) for row in rows], [(0, 0)] * len(rows))

    def test_a_partition_that_stays_hot_is_split_where_throughput_is_emulated(self):
        client = self.begin("--partitions", "1", "--emulate-throughput", "--partition-write-units", "40",
                            "--partition-heat-time", "1s")
        self.create(client)
        written = set()

        def is_split():
            for number in range(100):
                try:
                    client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": f"k{number}"}})
                    written.add(number)
                except native.Refused as refusal:
                    self.assertIn("Throughput exceeds", str(refusal))
            return len(self.heat(client)[0]) > 1
        self.wait("the hot partition is split", is_split)
        self.wait("it is counted", lambda: not any(row.get("IsCounting") for row in self.heat(client)[0]))
        self.assertEqual(sum(row["Items"] for row in self.heat(client)[0]), len(written))
        self.assertTrue(all(row["Items"] > len(written) / 5 for row in self.heat(client)[0]))

    def test_a_stop_waits_for_no_split(self):
        client = self.begin("--partitions", "1", "--partition-size", "1K")
        self.create(client)
        self.write_for(client, 1.5, {})
        begun = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - begun, 3)


if __name__ == "__main__":
    unittest.main()
