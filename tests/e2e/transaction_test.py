#!/usr/bin/env python3
"""Transactions from outside: money that moves is neither made nor lost, whoever looks and whatever dies.

usage: transaction_test.py MUDAXD
"""
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "mudaxd"
UPDATE, SCAN, TRANSACT_GET, TRANSACT_WRITE, PARTS, TOKEN, EXPRESSION, CONDITION, FAILED = 11, 12, 15, 16, 27, 28, 23, 18, 29
ACCOUNTS, START, CLIENTS = 8, 100, 4


class Money(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-money-")
        self.daemon = Daemon(PROGRAM, self.folder, "--store", "rocksdb:" + os.path.join(self.folder, "data"), "--cache-memory",
                             "16M", "--store-memory", "32M")
        client = self.daemon.start()
        client.create_table("Bank", sort=False)
        for number in range(ACCOUNTS):
            client.call(native.PUT, {native.TABLE: "Bank", native.ITEM: {"p": f"a{number}", "money": START}})
        client.close()
        self.wrong, self.done, self.refused = [], 0, 0

    def tearDown(self):
        self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def move(client, source, target, amount, token=None):
        parameters = {PARTS: [
            [UPDATE, {native.TABLE: "Bank", native.KEY: {"p": source}, EXPRESSION: "SET money = money - :m",
                      CONDITION: "money >= :m", native.VALUES: {":m": amount}}],
            [UPDATE, {native.TABLE: "Bank", native.KEY: {"p": target}, EXPRESSION: "SET money = money + :m",
                      native.VALUES: {":m": amount}}]]}
        if token is not None:
            parameters[TOKEN] = token
        client.call(TRANSACT_WRITE, parameters)

    def mover(self, seed, stop):
        choice = random.Random(seed)
        try:
            client = self.daemon.client()
            while not stop.is_set():
                source, target = choice.sample(range(ACCOUNTS), 2)
                try:
                    self.move(client, f"a{source}", f"a{target}", choice.randrange(1, 60))
                    self.done += 1
                except native.Refused as refused:
                    self.refused += 1
                    if "ConditionalCheckFailed" not in refused.text:
                        self.wrong.append(refused.text)
            client.close()
        except (OSError, ConnectionError):
            pass  # killed

    def looker(self, stop):
        try:
            client = self.daemon.client()
            while not stop.is_set():
                items = client.call(TRANSACT_GET, {PARTS: [
                    [native.GET, {native.TABLE: "Bank", native.KEY: {"p": f"a{number}"}}] for number in range(ACCOUNTS)]})
                page = client.call(SCAN, {native.TABLE: "Bank"})[0]
                for seen in (items, page):
                    if sum(item["money"] for item in seen) != ACCOUNTS * START or min(item["money"] for item in seen) < 0:
                        self.wrong.append(seen)
            client.close()
        except (OSError, ConnectionError):
            pass

    def run_for(self, seconds, seed):
        stop = threading.Event()
        threads = [threading.Thread(target=self.mover, args=(seed + number, stop)) for number in range(CLIENTS)]
        threads.append(threading.Thread(target=self.looker, args=(stop,)))
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        return stop, threads

    def total(self, client):
        return sum(item["money"] for item in client.call(SCAN, {native.TABLE: "Bank", native.CONSISTENT: True})[0])

    def test_transfers_move_money_and_make_none(self):
        stop, threads = self.run_for(2, 1)
        stop.set()
        for thread in threads:
            thread.join(30)
        self.assertEqual(self.wrong, [])
        self.assertGreater(self.done, 50)
        self.assertGreater(self.refused, 0)
        client = self.daemon.client()
        self.assertEqual(self.total(client), ACCOUNTS * START)
        client.close()

    def test_a_kill_leaves_each_transfer_whole_or_undone(self):
        for round_number in range(3):
            stop, threads = self.run_for(0.4, 10 * round_number)
            self.daemon.kill()
            stop.set()
            for thread in threads:
                thread.join(30)
            client = self.daemon.start()
            self.assertEqual(self.total(client), ACCOUNTS * START)
            body = client.call(native.DESCRIBE, {native.TABLE: "Bank"})["Table"]
            self.assertEqual(body["ItemCount"], ACCOUNTS)
            client.close()
        self.assertEqual(self.wrong, [])

    def test_a_token_moves_money_once_over_a_kill_and_between_many(self):
        client = self.daemon.client()
        self.move(client, "a0", "a1", 30, token="once")
        self.daemon.kill()
        client = self.daemon.start()
        self.move(client, "a0", "a1", 30, token="once")

        def again():
            other = self.daemon.client()
            for number in range(20):
                self.move(other, "a2", "a3", 1, token=f"t{number}")
            other.close()
        threads = [threading.Thread(target=again) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        money = {item["p"]: item["money"] for item in client.call(SCAN, {native.TABLE: "Bank"})[0]}
        self.assertEqual((money["a0"], money["a1"], money["a2"], money["a3"]), (70, 130, 80, 120))
        client.close()


class Large(unittest.TestCase):
    def test_a_hundred_items_of_twenty_indexes_are_one_transaction(self):
        """Some 4,000 places in indexes: within the deadline, by far (0.04 s)."""
        folder = tempfile.mkdtemp(prefix="mudax-large-")
        daemon = Daemon(PROGRAM, folder, "--store", "memory:", "--cache-memory", "16M", "--store-memory", "32M")
        try:
            client = daemon.start()
            names = [f"g{number}" for number in range(20)]
            client.call(native.CREATE, {native.DEFINITION: {
                "TableName": "Wide", "BillingMode": "PAY_PER_REQUEST",
                "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ["p", *names]],
                "GlobalSecondaryIndexes": [{"IndexName": "by-" + name, "Projection": {"ProjectionType": "KEYS_ONLY"},
                                            "KeySchema": [{"AttributeName": name, "KeyType": "HASH"}]}
                                           for name in names]}})
            for time_ in range(2):  # the second moves all of them
                client.call(TRANSACT_WRITE, {PARTS: [
                    [native.PUT, {native.TABLE: "Wide", native.ITEM: {
                        "p": f"k{item}", **{name: f"{name} {item} {time_}" for name in names}}}]
                    for item in range(100)]})
                self.assertEqual(len(client.call(SCAN, {native.TABLE: "Wide", native.INDEX: "by-g19"})[0]), 100)
                hits = 0
                for item in range(100):
                    body, meta = client.call(native.GET, {native.TABLE: "Wide", native.KEY: {"p": f"k{item}"},
                                                          native.VERDICT: True}, with_meta=True)
                    self.assertEqual(body["g7"], f"g7 {item} {time_}")
                    hits += native.VERDICTS[meta.get(0)] == "hit"
                # Two of them that share a stripe of this small cache drop each other's image.
                self.assertGreater(hits, 50)
            client.close()
        finally:
            daemon.close()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    unittest.main()
