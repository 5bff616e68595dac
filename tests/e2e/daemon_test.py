#!/usr/bin/env python3
"""mudaxd from outside: start-up errors, limits, reload, stop, figures, bad input.

usage: daemon_test.py MUDAXD
"""
import gzip
import http.client
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

REDIS = shutil.which("redis-server")
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "mudaxd"


class Outside(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-daemon-")
        self.daemon = None

    def tearDown(self):
        if self.daemon is not None:
            self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def begin(self, *arguments, store="memory:"):
        self.daemon = Daemon(PROGRAM, self.folder, "--store", store, "--cache-memory", "16M", "--store-memory", "32M",
                             "--listen", "admin://127.0.0.1:0", *arguments)
        return self.daemon.start()

    def log(self):
        with open(os.path.join(self.folder, "mudaxd.log"), encoding="utf8") as file:
            return file.read()

    def wait_for_log(self, text):
        for _ in range(500):
            if text in self.log():
                return
            time.sleep(0.01)
        self.fail(f"no {text} in\n{self.log()}")

    def page(self, path, method="GET", body=None, **headers):
        port = re.search(r'url="admin://127.0.0.1:0" port=(\d+)', self.log()).group(1)
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method, headers=headers,
                                         data=body and body.encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Starting(Outside):
    def refused(self, *arguments):
        run = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=30, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertLessEqual(len(run.stderr.splitlines()), 4, run.stderr)
        return run.stderr

    def test_mistakes_are_told_with_what_was_expected(self):
        self.assertIn("expected a size", self.refused("--cache-memory", "much"))
        self.assertIn("there is no option --cache-memroy", self.refused("--cache-memroy", "1M"))
        self.assertIn("expected mudax://HOST:PORT", self.refused("--store", "memory:", "--listen", "tcp://127.0.0.1:1"))
        self.assertIn("--insecure", self.refused("--store", "memory:", "--listen", "mudax://0.0.0.0:0"))
        self.assertIn("has neither authentication nor TLS", self.refused("--store", "memory:", "--listen", "http://0.0.0.0:0"))
        self.assertIn("has no TLS", self.refused("--store", "memory:", "--access-key", "A:b", "--listen", "http://0.0.0.0:0"))
        self.assertIn("no store answers", self.refused("--store", "mysql://x"))
        self.assertIn("is it running?", self.refused("--store", "redis://127.0.0.1:1"))
        self.assertIn("write memory:", self.refused("--store", "memory:?delay=soon"))

    def test_a_foreign_directory_is_not_touched(self):
        path = os.path.join(self.folder, "photos")
        os.mkdir(path)
        with open(os.path.join(path, "cat.jpg"), "w", encoding="utf8") as file:
            file.write("meow")
        self.assertIn("holds other files", self.refused("--store", "rocksdb:" + path))
        self.assertEqual(os.listdir(path), ["cat.jpg"])

    def test_a_directory_in_use_is_refused(self):
        path = os.path.join(self.folder, "data")
        self.begin(store="rocksdb:" + path)
        self.assertIn("is in use", self.refused("--store", "rocksdb:" + path, "--listen", "mudax://127.0.0.1:0"))

    def test_help_and_version(self):
        run = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=30, check=True)
        self.assertIn("--item-ttl", run.stdout)
        run = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=30, check=True)
        self.assertRegex(run.stdout, r"^mudaxd \d+\.\d+\.\d+$")


class Serving(Outside):
    def fill(self, client):
        client.create_table("Shop")
        for number in range(10):
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": f"o{number}", "n": number}})

    def query(self, client):
        body, meta = client.call(native.QUERY, {native.TABLE: "Shop", native.CONDITION: "p = :p", native.VERDICT: True,
                                                native.VALUES: {":p": "c"}}, with_meta=True)
        return body, native.VERDICTS[meta.get(0)]

    def get(self, client, sort, **more):
        body, meta = client.call(native.GET, {native.TABLE: "Shop", native.VERDICT: True, native.KEY: {"p": "c", "s": sort},
                                              **{getattr(native, name): value for name, value in more.items()}},
                                 with_meta=True)
        return body, native.VERDICTS[meta.get(0)]

    def test_reads_are_cached_and_fresh_after_every_write(self):
        client = self.begin()
        self.fill(client)
        other = self.daemon.client()
        body, verdict = self.query(client)
        self.assertEqual((len(body[0]), body[1], body[2], verdict), (10, 10, None, "miss"))
        self.assertEqual(self.query(other)[1], "hit")
        other.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "o3", "n": 33}})
        body, verdict = self.query(client)
        self.assertEqual((body[0][3]["n"], verdict), (33, "miss"))
        self.assertEqual(self.get(client, "o3"), ({"p": "c", "s": "o3", "n": 33}, "hit"))
        self.assertEqual(self.get(client, "none"), (None, "miss"))
        self.assertEqual(self.get(client, "none"), (None, "hit"))
        client.call(native.DELETE, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": "o3"}})
        self.assertEqual(self.get(other, "o3"), (None, "hit"))
        self.assertEqual(len(self.query(other)[0][0]), 9)
        self.assertEqual(self.get(client, "o4", CONSISTENT=True)[1], "bypass")

    def test_metrics_tell_what_happened(self):
        client = self.begin()
        self.fill(client)
        for _ in range(3):
            self.query(client)
        status, page = self.page("/metrics")
        self.assertEqual(status, 200)
        self.assertIn('mudax_requests_total{table="Shop",operation="PutItem",verdict="none"} 10\n', page)
        self.assertIn('mudax_requests_total{table="Shop",operation="Query",verdict="hit"} 2\n', page)
        self.assertIn('mudax_request_duration_seconds_count{operation="Query",verdict="miss"} 1\n', page)
        self.assertIn('mudax_store_duration_seconds_count{operation="PutItem"} 10\n', page)
        for name in ("mudax_cache_hits_total", "mudax_store_commits_total", "mudax_cache_entries", "mudax_cache_class_bytes", "mudax_cache_epoch_lag_seconds",
                     "mudax_connections"):
            self.assertIn("\n" + name, page)
        for line in page.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) mudax_\w+ .+|mudax_\w+(\{.*\})? [-+0-9.e]+)$')
        # A metric's lines are together.
        names = [re.match(r"(?:# \w+ )?(\w+)", line).group(1) for line in page.splitlines()]
        families = [name for name, _ in itertools.groupby(re.sub("_(bucket|sum|count)$", "", name) for name in names)]
        self.assertEqual(len(families), len(set(families)))
        self.assertEqual(self.page("/healthz"), (200, "ok\n"))
        self.assertEqual(self.page("/readyz"), (200, "ready\n"))
        self.assertEqual(self.page("/nothing")[0], 404)
        stats = client.call(native.STATS, {})
        self.assertEqual(stats['requests_total{table="Shop",operation="PutItem",verdict="none"}'], 10)

    def test_hot_keys_and_reasons_of_misses_are_told(self):
        client = self.begin()
        self.fill(client)
        deadline = time.monotonic() + 20
        told = {}
        label = r'table="Shop",kind="item",key="{\"p\":\"c\",\"s\":\"o1\"}"'
        name = "cache_hot_key_requests_per_second{" + label + "}"
        while name not in told and time.monotonic() < deadline:
            for _ in range(300):
                self.get(client, "o1")
            told = client.call(native.STATS, {})
        self.assertIn(name, told)
        self.assertIn("cache_hot_key_hits_per_second{" + label + "}", told)
        self.get(client, "none")
        self.get(client, "o1", CONSISTENT=True)
        page = self.page("/metrics")[1]
        rate = re.search(r"\nmudax_cache_hot_key_requests_per_second" + re.escape("{" + label + "}") + " (.*)\n", page)
        self.assertGreater(float(rate.group(1)), 10)
        self.assertIn('mudax_cache_miss_reasons_total{table="Shop",kind="item",reason="cold"} 1\n', page)
        self.assertIn('mudax_cache_miss_reasons_total{table="Shop",kind="item",reason="consistent_read"} 1\n', page)

    def test_a_purge_is_seen_by_the_next_read(self):
        client = self.begin()
        self.fill(client)
        self.assertEqual(self.get(client, "o1")[1], "hit") # its write left it there
        self.assertEqual(client.call(native.PURGE, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": "o1"}}),
                         {"Items": 1, "Pages": 0})
        self.assertEqual(self.get(client, "o1")[1], "miss")
        self.assertEqual(self.get(client, "o2")[1], "hit")
        self.query(client)
        self.assertEqual(self.query(client)[1], "hit")
        key = "%7B%22p%22:%7B%22S%22:%22c%22%7D%7D" # {"p":{"S":"c"}}
        self.assertEqual(self.page("/purge?table=Shop&key=" + key, "POST"), (200, '{"Items":10,"Pages":1}\n'))
        self.assertEqual(self.query(client)[1], "miss")
        self.assertEqual(self.get(client, "o2")[1], "miss")
        self.assertEqual(self.page("/purge?table=Shop", "POST"), (200, '{"Items":1,"Pages":1}\n'))
        self.assertEqual(self.page("/purge", "POST"), (200, '{"Items":0,"Pages":0}\n'))
        self.assertEqual(self.page("/purge")[0], 405)
        self.assertEqual(self.page("/purge", "POST", Origin="http://example.com")[0], 403)
        self.get(client, "o1")
        self.assertEqual(self.page("/purge", "POST", body='{"TableName": "Shop"}')[0], 400)
        self.assertEqual(self.get(client, "o1")[1], "hit")
        for wrong in ("tables=Shop", "table=None", "key=" + key, "table=Shop&index=none", "table=Shop&key=x"):
            self.assertEqual(self.page("/purge?" + wrong, "POST")[0], 400, wrong)
        self.assertIn('mudax_cache_purged_total{kind="item"} 12\n', self.page("/metrics")[1])

    def test_more_connections_than_allowed_are_closed(self):
        clients = [self.begin("--max-connections", "3")]
        clients += [self.daemon.client() for _ in range(2)]
        with self.assertRaises(OSError):
            self.daemon.client(5)
        clients[0].close()
        for _ in range(100):
            try:
                self.daemon.client(5).call(native.PING, {})
                break
            except OSError:
                time.sleep(0.02)
        else:
            self.fail("a closed connection did not make room")

    def test_the_limit_of_requests_in_flight_throttles_at_once(self):
        client = self.begin("--max-connection-requests", "4", store="memory:?delay=200ms")
        client.create_table("Shop")
        begun = time.monotonic()
        for number in range(10):
            client.ask(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": str(number)}})
        statuses = [client.next_reply()[1] for _ in range(6)]
        self.assertEqual(statuses, [5] * 6)
        self.assertLess(time.monotonic() - begun, 0.15)
        self.assertEqual([client.next_reply()[1] for _ in range(4)], [0] * 4)

    def test_five_hundred_callers_of_one_cold_key_cost_one_fetch(self):
        first = self.begin(store="memory:?delay=300ms")
        first.create_table("Shop")
        clients = [first] + [self.daemon.client() for _ in range(9)]
        for _ in range(50):
            for client in clients:
                client.ask(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": "cold"}, native.VERDICT: True})
        for client in clients:
            self.assertEqual([(reply[1], reply[3]) for reply in (client.next_reply() for _ in range(50))], [(0, None)] * 50)
        stats = first.call(native.STATS, {})
        self.assertEqual((stats["cache_flights_total"], stats["cache_flights_joined_total"]), (1, 499))

    def test_a_deadline_answers_and_says_whose_it_was(self):
        client = self.begin(store="memory:?delay=300ms")
        client.create_table("Shop")
        with self.assertRaises(native.Refused) as refused:
            client.call(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": "x"}, native.TIMEOUT: 30})
        self.assertEqual(refused.exception.status, 8)
        self.assertIn("did not answer GetItem within 3", refused.exception.text)

    def test_a_hot_partition_and_provisioned_throughput_are_felt_where_they_are_emulated(self):
        client = self.begin("--emulate-throughput", "on", "--partition-read-units", "20", "--partition-write-units", "10",
                            "--query-ttl", "0")
        client.create_table("Shop", sort=False)

        def put(key, table="Shop", many=1, **more):
            done = 0
            try:
                for _ in range(many):
                    client.call(native.PUT, {native.TABLE: table, native.ITEM: {"p": key, **more}})
                    done += 1
            except native.Refused as refused:
                return done, refused
            return done, None
        done, refused = put("hot", many=100)
        self.assertTrue(10 <= done < 40, done)
        self.assertRegex(refused.text, "check if you have a hot key")
        self.assertEqual(sum(put(f"cold{number}")[0] for number in range(20)) > 10, True)  # other partitions
        # What the cache answers costs nothing.
        client.call(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "hot"}})
        for _ in range(200):
            client.call(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "hot"}})
        with self.assertRaises(native.Refused):
            for _ in range(200):
                client.call(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "hot"}, native.CONSISTENT: True})
        # An index that has too little holds back its table.
        client.call(native.CREATE, {native.DEFINITION: {
            "TableName": "Narrow", "ProvisionedThroughput": {"ReadCapacityUnits": 1000, "WriteCapacityUnits": 1000},
            "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}],
            "GlobalSecondaryIndexes": [{"IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                                        "Projection": {"ProjectionType": "ALL"},
                                        "ProvisionedThroughput": {"ReadCapacityUnits": 1, "WriteCapacityUnits": 1}}]}})
        refusals = [put(f"k{number}", table="Narrow", g="one")[1] for number in range(60)]
        self.assertIn("configured provisioned throughput", str([r for r in refusals if r][0].text))
        self.assertEqual(put("outside", table="Narrow")[1], None)
        # An on-demand table may have a maximum.
        client.call(native.CREATE, {native.DEFINITION: {
            "TableName": "Metered", "BillingMode": "PAY_PER_REQUEST", "OnDemandThroughput": {"MaxWriteRequestUnits": 1},
            "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}})
        refusals = [put(f"k{number}", table="Metered")[1] for number in range(400)]
        self.assertIn("exceeds the maximum OnDemandThroughput", str([r for r in refusals if r][0].text))

    def test_a_thousand_frames_of_noise_harm_nobody(self):
        client = self.begin()
        self.fill(client)
        random.seed(7)
        template = b"\x93\x02\x01\x82\x00\xa4Shop\x01\x82\xa1p\xa1c\xa1s\xa2o1"
        for round_ in range(1000):
            noise = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            noise.connect(self.daemon.socket)
            noise.settimeout(10)
            noise.sendall(bytes.fromhex("0000000c930000820f0111a464656d6f"))
            body = bytearray(template)
            for _ in range(random.randrange(1, 4)):
                body[random.randrange(len(body))] = random.randrange(256)
            if round_ % 3 == 0:
                body = body[:random.randrange(len(body))]
            noise.sendall(len(body).to_bytes(4, "big") + body)
            noise.shutdown(socket.SHUT_WR)
            while noise.recv(65536):
                pass
            noise.close()
        self.assertEqual(self.get(client, "o1")[0]["n"], 1)

    def test_a_flood_of_long_writes_does_not_take_all_memory(self):
        client = self.begin("--max-request-memory", "16M", store="memory:?delay=500ms")
        client.create_table("Big", sort=False)
        item = {"p": "x", "v": "y" * 300000}
        statuses = []

        def flood():
            one = self.daemon.client()
            for _ in range(200):
                one.ask(native.PUT, {native.TABLE: "Big", native.ITEM: item})
            statuses.extend(one.next_reply()[1] for _ in range(200))

        threads = [threading.Thread(target=flood) for _ in range(4)] # 240 MB
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            most = max(most, client.call(native.STATS, {})["request_memory_bytes"])
            time.sleep(0.01)
        self.assertEqual(set(statuses), {0, 5})
        self.assertEqual(len(statuses), 800)
        self.assertGreater(most, 8 << 20)
        self.assertLess(most, 20 << 20)

    def test_a_flood_of_packed_bodies_does_not_take_all_memory(self):
        client = self.begin("--max-request-memory", "16M", "--workers", "2", "--listen", "http://127.0.0.1:0",
                            store="memory:?delay=2s")
        client.create_table("Big", sort=False)
        port = int(re.search(r'url="http://127.0.0.1:0" port=(\d+)', self.log()).group(1))
        put = b'{"TableName": "Big", "Item": {"p": {"S": "x"}}}'
        body = gzip.compress(put + b" " * (8 << 20))
        statuses = []

        def flood():
            one = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            one.request("POST", "/", body, {"X-Amz-Target": "DynamoDB_20120810.PutItem", "Content-Encoding": "gzip"})
            answer = one.getresponse()
            statuses.append((answer.status, b"ThrottlingException" in answer.read()))
            one.close()

        threads = [threading.Thread(target=flood) for _ in range(20)] # 160 KB, unpacked 160 MB and more
        for thread in threads:
            thread.start()
        most = 0
        while any(thread.is_alive() for thread in threads):
            most = max(most, client.call(native.STATS, {})["request_memory_bytes"])
            time.sleep(0.01)
        self.assertEqual(set(statuses), {(200, False), (400, True)})
        self.assertGreater(most, 16 << 20)
        self.assertLess(most, 80 << 20) # the limit, and one of each worker: text and room for what it says

    def test_a_client_that_does_not_read_stops_nobody(self):
        client = self.begin("--write-timeout", "1s")
        client.create_table("Big", sort=False)
        client.call(native.PUT, {native.TABLE: "Big", native.ITEM: {"p": "x", "v": "y" * 300000}})
        deaf = self.daemon.client()
        stop = threading.Event()

        def shout():
            try:
                while not stop.is_set():
                    deaf.ask(native.GET, {native.TABLE: "Big", native.KEY: {"p": "x"}})
            except OSError:
                pass

        thread = threading.Thread(target=shout, daemon=True)
        thread.start()
        for _ in range(200):
            client.call(native.PING, {})
        thread.join(15) # the daemon closes it
        stop.set()
        self.assertFalse(thread.is_alive())


class Stopping(Outside):
    def test_a_stop_answers_what_is_in_flight(self):
        client = self.begin(store="memory:?delay=300ms")
        client.create_table("Shop")
        client.ask(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1"}})
        time.sleep(0.05)
        self.daemon.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.next_reply()[1], 0)
        with self.assertRaises(ConnectionError):
            client.next_reply()
        self.assertEqual(self.daemon.process.wait(10), 0)
        self.assertIn("event=stopped", self.log())

    def test_a_stop_waits_no_longer_than_its_deadline(self):
        client = self.begin("--shutdown-timeout", "100ms", store="memory:?delay=1s")
        client.create_table("Shop")
        client.ask(native.GET, {native.TABLE: "Shop", native.KEY: {"p": "c", "s": "1"}})
        time.sleep(0.05)
        begun = time.monotonic()
        self.daemon.process.send_signal(signal.SIGTERM)
        with self.assertRaises(ConnectionError):
            client.next_reply()
        self.assertLess(time.monotonic() - begun, 0.8)
        self.assertEqual(self.daemon.process.wait(10), 0)

    def test_idle_connections_do_not_hold_up_a_stop(self):
        self.begin()
        clients = [self.daemon.client() for _ in range(50)]
        begun = time.monotonic()
        self.assertEqual(self.daemon.stop(), 0)
        self.assertLess(time.monotonic() - begun, 3)
        self.assertEqual(len(clients), 50)
        self.assertFalse(os.path.exists(self.daemon.socket))

    def test_a_reload_changes_what_it_can_and_lists_the_rest(self):
        path = os.path.join(self.folder, "mudaxd.ini")
        with open(path, "w", encoding="utf8") as file:
            file.write("item_ttl = 5m\nworkers = 1\n")
        client = self.begin("--config", path)
        client.create_table("Shop")
        get = {native.TABLE: "Shop", native.VERDICT: True, native.KEY: {"p": "c", "s": "1"}}
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1"}})
        self.assertEqual(client.call(native.GET, get, with_meta=True)[1][0], 1)
        with open(path, "w", encoding="utf8") as file:
            file.write("cache = off\nworkers = 2\n")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.wait_for_log("event=reloaded")
        self.assertIn("name=cache effect=now", self.log())
        self.assertIn("name=workers effect=after_restart", self.log())
        self.assertEqual(client.call(native.GET, get, with_meta=True)[1][0], 3)
        with open(path, "w", encoding="utf8") as file:
            file.write("workers = many\n")
        self.daemon.process.send_signal(signal.SIGHUP)
        self.wait_for_log("event=reload_failed")
        self.assertIn("mudaxd.ini:1: workers", self.log())
        client.call(native.PING, {})

    def configure(self, text):
        """Writes the INI file and, if the daemon is there, has it read again. What it said since."""
        path = os.path.join(self.folder, "mudaxd.ini")
        with open(path, "w", encoding="utf8") as file:
            file.write(text)
        if self.daemon is None:
            return path
        before = len(self.log())
        self.daemon.process.send_signal(signal.SIGHUP)
        for _ in range(500):
            said = self.log()[before:]
            if "event=reloaded" in said or "event=reload_failed" in said:
                return said
            time.sleep(0.01)
        self.fail("no reload in\n" + self.log())

    def verdict(self, client, p, s):
        get = {native.TABLE: "Shop", native.VERDICT: True, native.KEY: {"p": p, "s": s}}
        body, meta = client.call(native.GET, get, with_meta=True)
        return native.VERDICTS[meta.get(0)], body and body["v"]

    def test_policies_are_changed_while_it_serves(self):
        orders = '[policy "orders"]\ntable = Shop\npartition_key = USER#*\nsort_key = ORDER#*\n'
        path = self.configure(orders + 'item_ttl = 1h\n[policy "carts"]\nsort_key = CART\ncache = off\n')
        client = self.begin("--config", path)
        client.create_table("Shop")

        def put(s, value):
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "USER#1", "s": s, "v": value}})

        for s in ("ORDER#1", "CART", "PROFILE"):
            put(s, 1)
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1"), ("hit", 1))
        self.assertEqual(self.verdict(client, "USER#1", "PROFILE"), ("hit", 1))
        self.assertEqual(self.verdict(client, "USER#1", "CART"), ("bypass", 1))
        time.sleep(0.05)
        said = self.configure(orders + "item_ttl = 20ms\n")
        self.assertIn("name=policies effect=now", said)
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1"), ("miss", 1))
        self.assertEqual(self.verdict(client, "USER#1", "PROFILE"), ("hit", 1))
        self.assertEqual(self.verdict(client, "USER#1", "CART"), ("miss", 1))
        self.assertEqual(self.verdict(client, "USER#1", "CART"), ("hit", 1))
        self.configure(orders + "item_ttl = 1h\n")
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1")[1], 1)
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1"), ("hit", 1))
        put("ORDER#1", 2)
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1"), ("hit", 2))
        told = client.call(native.EXPLAIN, {native.PARTS: [[native.GET, {
            native.TABLE: "Shop", native.KEY: {"p": "USER#1", "s": "ORDER#1"}}]]})
        self.assertEqual((told["Policy"], told["Cached"]), ("orders", True))
        said = self.configure(orders + "item_ttl = soon\n")
        self.assertIn('policy \\"orders\\": item_ttl: got \\"soon\\", expected a time', said)
        self.assertEqual(self.verdict(client, "USER#1", "ORDER#1"), ("hit", 2))
        page = self.page("/metrics")[1]
        self.assertRegex(page, r'\nmudax_cache_policy_hits_total{policy="orders",kind="item"} [4-9]\n')
        self.assertIn('\nmudax_cache_policy_miss_reasons_total{policy="orders",kind="item",reason="expired"} 1\n', page)
        self.assertIn('\nmudax_cache_policy_miss_reasons_total{policy="carts",kind="item",reason="cache_off"} 1\n', page)
        self.assertIn('\nmudax_cache_policy_entries{policy="orders"} 1\n', page)
        stats = client.call(native.STATS, {})
        self.assertEqual(stats['cache_policy_entries{policy="orders"}'], 1)

    def test_what_a_policy_by_type_does_not_keep_is_told_as_such(self):
        client = self.begin("--config", self.configure('[policy "carts"]\ntype = Cart\ncache = off\n'))
        client.create_table("Shop")
        for s, kind in (("1", "Cart"), ("2", "Order")):
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": s, "v": 1, "Type": kind}})

        def told(s):
            get = {native.TABLE: "Shop", native.KEY: {"p": "c", "s": s}}
            body = client.call(native.EXPLAIN, {native.PARTS: [[native.GET, get]]})
            return tuple(body.get(name) for name in ("Policy", "Cacheable", "Cached", "Because"))

        for _ in range(2):
            self.assertEqual(self.verdict(client, "c", "1"), ("bypass", 1))
        self.assertEqual(self.verdict(client, "c", "2"), ("hit", 1))
        self.assertEqual(told("1"), ("carts", False, None, "cache_off"))
        self.assertEqual(told("2"), ("default", True, True, None))
        self.assertEqual(told("3"), ("default", True, False, "cold"))
        page = self.page("/metrics")[1]
        self.assertIn('\nmudax_cache_miss_reasons_total{table="Shop",kind="item",reason="cache_off"} 2\n', page)
        self.assertIn('\nmudax_cache_policy_miss_reasons_total{policy="carts",kind="item",reason="cache_off"} 2\n', page)
        self.assertNotIn('reason="cold"', page)

    def test_a_policy_takes_no_more_than_its_share(self):
        path = self.configure('[policy "tenant"]\ntable = Shop\npartition_key = T#*\nmax_bytes = 256K\n')
        client = self.begin("--config", path)
        client.create_table("Shop")
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "other", "s": "1", "v": 1}})
        for number in range(1000):
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": f"T#{number}", "s": "1", "v": "x" * 1000}})
        stats = client.call(native.STATS, {})
        self.assertLessEqual(int(stats['cache_policy_entry_bytes{policy="tenant"}']), 256 << 10)
        self.assertGreater(int(stats['cache_policy_entry_bytes{policy="tenant"}']), 200 << 10)
        self.assertGreater(int(stats['cache_policy_removed_total{policy="tenant",why="evicted"}']), 700)
        self.assertEqual(self.verdict(client, "other", "1"), ("hit", 1))

    def begin_redis(self):
        """A Redis of the test's own; its URL."""
        path = os.path.join(self.folder, "redis.sock")
        redis = subprocess.Popen([REDIS, "--port", "0", "--unixsocket", path, "--save", "", "--dir", self.folder],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(redis.wait)
        self.addCleanup(redis.kill)
        for _ in range(500):
            if os.path.exists(path):
                break
            time.sleep(0.02)
        os.mkdir(os.path.join(self.folder, "other"))
        return "redis+unix:" + path

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_tables_that_another_daemon_makes_and_deletes_are_known_soon(self):
        store = self.begin_redis()
        client = self.begin(store=store)
        other = Daemon(PROGRAM, os.path.join(self.folder, "other"), "--store", store, "--cache-memory", "16M")
        try:
            others = other.start()
            others.create_table("Shop")
            others.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 1}})
            self.wait_for_log("event=tables_changed")
            self.assertEqual(self.verdict(client, "c", "1"), ("miss", 1))
            others.call(native.DROP, {native.TABLE: "Shop"})
            for _ in range(500):
                if client.call(native.LIST, {})["TableNames"] == []:
                    break
                time.sleep(0.01)
            with self.assertRaises(native.Refused):
                self.verdict(client, "c", "1")
        finally:
            other.close()

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_a_shadow_tells_what_was_written_past_the_daemon(self):
        store = self.begin_redis()
        config = self.configure('[policy "tried"]\ntable = Shop\nshadow = on\n')
        client = self.begin("--config", config, store=store)
        client.create_table("Shop")
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 1}})
        self.assertEqual(self.verdict(client, "c", "1"), ("bypass", 1))
        other = Daemon(PROGRAM, os.path.join(self.folder, "other"), "--store", store, "--cache-memory", "16M")
        try:
            other.start().call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 2}})
        finally:
            other.close()
        self.assertEqual(self.verdict(client, "c", "1"), ("bypass", 2))
        stats = client.call(native.STATS, {})
        self.assertEqual(stats['cache_policy_shadow_total{policy="tried",answer="same"}'], 1)
        self.assertEqual(stats['cache_policy_shadow_total{policy="tried",answer="differs"}'], 1)
        self.wait_for_log("event=cache_differs")
        self.assertRegex(self.log(), r'policy=tried table=Shop kind=item age_ms=\d+ key=')

    def slow_get(self, client, milliseconds):
        get = {native.TABLE: "Shop", native.VERDICT: True, native.KEY: {"p": "c", "s": "1"}, native.TIMEOUT: milliseconds}
        try:
            body, meta = client.call(native.GET, get, with_meta=True)
        except native.Refused as refused:
            return refused.text
        return native.VERDICTS[meta.get(0)], body["v"], meta.get(1)

    def test_what_is_stale_is_shown_while_a_slow_store_is_asked(self):
        client = self.begin("--item-ttl", "200ms", "--stale-while-refetch", "1m", store="memory:?delay=100ms")
        client.create_table("Shop")
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 1}})
        time.sleep(0.3)
        verdict, value, age = self.slow_get(client, 50)
        self.assertEqual((verdict, value), ("stale", 1))
        self.assertGreaterEqual(age, 200)
        deadline = time.monotonic() + 5
        while self.slow_get(client, 50)[0] != "hit" and time.monotonic() < deadline:
            time.sleep(0.01)
        stats = client.call(native.STATS, {})
        self.assertEqual(stats["cache_refetches_total"], 1)
        self.assertGreaterEqual(int(stats['cache_policy_stale_total{policy="default",why="refetching"}']), 1)
        self.assertEqual(stats['cache_misses_total{kind="item"}'], 0)
        time.sleep(0.25)
        self.slow_get(client, 50) # one more fetch is on its way: a stop waits for it
        self.assertEqual(self.daemon.stop(), 0)

    def test_what_is_stale_is_shown_when_the_store_is_too_slow(self):
        client = self.begin("--item-ttl", "50ms", "--stale-if-error", "1m", store="memory:?delay=300ms")
        client.create_table("Shop")
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 1}})
        time.sleep(0.1)
        verdict, value, age = self.slow_get(client, 40)
        self.assertEqual((verdict, value), ("stale", 1))
        self.assertGreaterEqual(age, 50)
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 2}})
        time.sleep(0.1)
        self.assertEqual(self.slow_get(client, 40)[:2], ("stale", 2))
        self.assertEqual(self.slow_get(client, 5000)[1], 2)
        stats = client.call(native.STATS, {})
        self.assertGreaterEqual(int(stats['cache_stale_total{why="error"}']), 2)
        self.assertGreaterEqual(int(stats['requests_total{table="Shop",operation="GetItem",verdict="stale"}']), 2)

    @unittest.skipUnless(REDIS, "no redis-server")
    def test_what_is_stale_is_shown_when_the_store_is_gone(self):
        path = os.path.join(self.folder, "redis.sock")
        redis = subprocess.Popen([REDIS, "--port", "0", "--unixsocket", path, "--save", "", "--dir", self.folder],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(500):
                if os.path.exists(path):
                    break
                time.sleep(0.02)
            client = self.begin("--item-ttl", "50ms", "--stale-if-error", "2s", store="redis+unix:" + path)
            client.create_table("Shop")
            client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1", "v": 1}})
        finally:
            redis.kill()
            redis.wait()
        time.sleep(0.1)
        self.assertEqual(self.slow_get(client, 1000)[:2], ("stale", 1))
        time.sleep(2.1)
        self.assertIsInstance(self.slow_get(client, 500), str)

    def test_data_outlives_a_stop_and_a_kill(self):
        path = "rocksdb:" + os.path.join(self.folder, "data")
        client = self.begin(store=path)
        client.create_table("Shop")
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "1"}})
        arn = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]["TableArn"]
        tags = [{"Key": "team", "Value": "shop"}]
        client.call(native.TAG, {native.DEFINITION: {"ResourceArn": arn, "Tags": tags}})
        self.assertEqual(self.daemon.stop(), 0)
        client = self.daemon.start()
        client.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {"p": "c", "s": "2"}})
        self.daemon.kill()
        client = self.daemon.start()
        body = client.call(native.QUERY, {native.TABLE: "Shop", native.CONDITION: "p = :p", native.VALUES: {":p": "c"}})
        self.assertEqual([item["s"] for item in body[0]], ["1", "2"])
        table = client.call(native.DESCRIBE, {native.TABLE: "Shop"})["Table"]
        self.assertEqual(table["ItemCount"], 2)
        self.assertEqual(client.call(native.TAGS, {native.DEFINITION: {"ResourceArn": arn}}), {"Tags": tags})


unittest.main(verbosity=2, warnings="ignore")
