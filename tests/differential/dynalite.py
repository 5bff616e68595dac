#!/usr/bin/env python3
"""Random requests to a mudaxd and to dynalite, an implementation of DynamoDB's API by other people: what they answer, texts
included, must be the same but for what `known.py` lists, each with its reason.

usage: dynalite.py MUDAXD FOLDER SECONDS [--seed N] [--tables N] [--differences N]
dynalite is installed into FOLDER once, by package-lock.json. Exits with 77 where that cannot be.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import known  # noqa: E402
import model  # noqa: E402
import requests  # noqa: E402
from daemon import Daemon  # noqa: E402
from differential import Server, in_no_order, item_of, show  # noqa: E402

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "dynalite")
REQUESTS = 300  # of a table, until the next


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def install(folder):
    if not shutil.which("node") or not shutil.which("npm"):
        skip("no node or npm")
    major = int(subprocess.run(["node", "-p", "process.versions.node.split('.')[0]"], capture_output=True, text=True).stdout or 0)
    if major < 20:
        skip(f"node {major} is older than 20")
    os.makedirs(folder, exist_ok=True)
    lock, done = os.path.join(HERE, "package-lock.json"), os.path.join(folder, "installed.json")
    with open(lock, encoding="utf8") as file:
        wanted = file.read()
    if os.path.exists(done):
        with open(done, encoding="utf8") as file:
            if file.read() == wanted:
                return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(os.path.join(HERE, name), folder)
    made = subprocess.run(["npm", "ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", "1"],
                          capture_output=True, text=True)
    if made.returncode:
        print(made.stderr[-2000:])
        skip("npm could not install dynalite")
    shutil.copy(lock, done)


class Dynalite:
    """Ends only what it started. Begun again when it has died, which some requests make it do."""

    def __init__(self, folder):
        self.folder, self.process, self.starts = folder, None, 0
        self.start()

    def start(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        program = os.path.join(self.folder, "node_modules", "dynalite", "cli.js")
        self.log = open(os.path.join(self.folder, "dynalite.log"), "wb")
        self.process = subprocess.Popen(
            ["node", program, "--host", "127.0.0.1", "--port", str(self.port), "--createTableMs", "0", "--deleteTableMs", "0",
             "--updateTableMs", "0"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.starts += 1
        until = time.monotonic() + 30
        while True:
            try:
                self.server = Signed(self.port)
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError("dynalite did not start") from None
                time.sleep(0.05)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.log.close()

    def restart(self):
        self.end()
        self.start()


class Signed(Server):
    """With an Authorization of the right form, which dynalite wants to see and does not check."""

    HEAD = (b"Host: 127.0.0.1\r\nContent-Type: application/x-amz-json-1.0\r\nX-Amz-Date: 20260101T000000Z\r\nAuthorization: "
            b"AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0\r\n")


class Steady(requests.Maker):
    """Indexes stay: dynalite keeps what UpdateTable takes away."""

    def alter(self):
        return self.write()


class Died(Exception):
    pass


class Twins:
    """A table of mudax and one of dynalite. The model only remembers what there is, for the maker to look at."""

    def __init__(self, mudax, dynalite, name, maker):
        self.mudax, self.dynalite, self.name, self.maker = mudax, dynalite, name, maker
        self.create()

    def create(self):
        self.model = model.Table(self.maker.keys, dict(self.maker.first))
        self.maker.items = self.model.items
        for server in (self.mudax, self.dynalite.server):
            reply = self.ask(server, "CreateTable", self.maker.definition())
            if not isinstance(reply, dict):
                raise RuntimeError(reply)
            self.wait(server)

    def drop(self):
        for server in (self.mudax, self.dynalite.server):
            self.ask(server, "DeleteTable", {"TableName": "@T@"})
            while isinstance(self.ask(server, "DescribeTable", {"TableName": "@T@"}), dict):
                time.sleep(0.005)

    def wait(self, server):
        until = time.monotonic() + 20
        while time.monotonic() < until:
            table = self.ask(server, "DescribeTable", {"TableName": "@T@"})["Table"]
            if table["TableStatus"] == "ACTIVE" and all(
                    index["IndexStatus"] == "ACTIVE" for index in table.get("GlobalSecondaryIndexes", [])):
                return
            time.sleep(0.005)
        raise RuntimeError(f"{self.name} does not become active")

    def ask(self, server, operation, body):
        try:
            return server.call(operation, body, self.name)
        except (OSError, AttributeError, ValueError):
            if server is self.mudax:
                raise
            raise Died() from None

    # -- answers that can be compared

    def answer(self, server, operation, body):
        """(error's name, text), or what there is, without the order that nobody promises."""
        if operation == "Scan":
            return self.scan(server, body)
        reply = self.ask(server, operation, body)
        if not isinstance(reply, dict):
            return reply[0], reply[1].get("message", reply[1].get("Message"))
        if operation == "Query":
            return self.page(reply, body)
        if operation == "BatchGetItem":
            items = [model.decode_item(item) for item in reply["Responses"].get(self.name, [])]
            return {"Items": in_no_order(items), "UnprocessedKeys": reply["UnprocessedKeys"]}
        for name in ("Item", "Attributes"):
            if name in reply:
                reply[name] = model.decode_item(reply[name])
        return reply

    def page(self, reply, body):
        told = {"Count": reply["Count"], "ScannedCount": reply["ScannedCount"], "Last": item_of(reply, "LastEvaluatedKey")}
        if "Items" in reply:
            told["Items"] = list(map(model.decode_item, reply["Items"]))
            if "IndexName" in body:  # the order of equal keys is open
                told["Items"] = in_no_order(told["Items"])
        return told

    def scan(self, server, body):
        """All pages: a table's order is each one's own."""
        items, count, scanned, more = [], 0, 0, {}
        while True:
            reply = self.ask(server, "Scan", {**body, **more})
            if not isinstance(reply, dict):
                return reply[0], reply[1].get("message", reply[1].get("Message"))
            items += map(model.decode_item, reply.get("Items", []))
            count, scanned = count + reply["Count"], scanned + reply["ScannedCount"]
            if "LastEvaluatedKey" not in reply:
                return {"Items": in_no_order(items), "Count": count, "ScannedCount": scanned}
            more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]

    # -- one request

    def compare(self, request):
        """(what mudax answered, what dynalite answered, why they may differ or None), or None: not asked or the same."""
        operation, body, plan = request
        if operation == "Again":
            self.drop()
            self.maker.indexes = dict(self.maker.first)
            self.create()
            return None
        reason = known.not_asked(operation, body, plan)
        if reason is not None:
            return None, None, f"not asked: {reason}"
        theirs = self.answer(self.dynalite.server, operation, body)
        ours = self.answer(self.mudax, operation, body)
        self.remember(operation, plan)
        if ours == theirs:
            return None
        why = known.why(operation, body, ours, theirs)
        if why is None and body.get("IndexName") in self.maker.indexes and self.has_broken(body["IndexName"]):
            why = "an index of dynalite's does not show what its own table holds"
        if why is not None and operation in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"):
            self.align()
        return ours, theirs, why

    def has_broken(self, index):
        """Whether dynalite's index and its table differ in their keys."""
        names = [name for name, _ in self.maker.keys + self.maker.indexes[index]["keys"]]
        whole, shown = (self.scan(self.dynalite.server, {"TableName": "@T@", **more})["Items"] for more in ({}, {"IndexName": index}))
        keys = [[[item[name] for name in names] for item in items if all(name in item for name in names)] for items in (whole, shown)]
        return sorted(map(repr, keys[0])) != sorted(map(repr, keys[1]))

    def remember(self, operation, plan):
        """The maker wants to know what is stored."""
        if operation in ("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"):
            found = self.scan(self.mudax, {"TableName": "@T@", "ConsistentRead": True})["Items"]
            self.model.items.clear()
            self.model.items.update({self.model.key_of(item): item for item in found})

    def align(self):
        """Behind a known difference: dynalite gets what mudax has."""
        whole = {"TableName": "@T@", "ConsistentRead": True}
        ours, theirs = (self.scan(server, whole)["Items"] for server in (self.mudax, self.dynalite.server))
        for item in theirs:
            if item not in ours:
                key = {name: item[name] for name, _ in self.maker.keys}
                self.ask(self.dynalite.server, "DeleteItem", {"TableName": "@T@", "Key": model.encode_item(key)})
        for item in ours:
            if item not in theirs:
                reply = self.ask(self.dynalite.server, "PutItem", {"TableName": "@T@", "Item": model.encode_item(item)})
                if not isinstance(reply, dict):
                    raise RuntimeError(f"dynalite does not take {show(item)}: {reply}")


def told(answer):
    """An answer that can be read."""
    if isinstance(answer, tuple):
        return f"{answer[0]}: {answer[1]}"
    return ", ".join(f"{name} {show(value) if name in ('Item', 'Attributes', 'Items', 'Last') else value}"
                     for name, value in sorted(answer.items())) or "nothing"


def run(mudax, dynalite, arguments):
    until = time.monotonic() + arguments.seconds
    tables = total = differences = deaths = 0
    reasons = {}
    while time.monotonic() < until and tables < arguments.tables and differences < arguments.differences:
        maker = Steady(random.Random(arguments.seed + tables))
        maker.is_large = False  # pages of 1 MB: the model's test
        twins = None
        try:
            twins = Twins(mudax, dynalite, f"Table{tables}", maker)
            for number in range(REQUESTS):
                request = maker.request()
                total += 1
                found = twins.compare(request)
                if found is not None and found[2] is not None:
                    reasons[found[2]] = reasons.get(found[2], 0) + 1
                elif found is not None:
                    print(f"seed {arguments.seed + tables}, request {number}:\nCreateTable {json.dumps(maker.definition())}\n"
                          f"{request[0]} {json.dumps(request[1])}\n mudax:    {told(found[0])}\n dynalite: {told(found[1])}\n", flush=True)
                    differences += 1
                    break
            twins.drop()
        except Died:
            deaths += 1
            dynalite.restart()
            mudax.call("DeleteTable", {"TableName": "@T@"}, f"Table{tables}")
        tables += 1
    print(f"{tables} tables, {total} requests; mudax answered {mudax.calls}; dynalite died {deaths} times; known differences:")
    for reason in sorted(reasons):
        print(f"{reasons[reason]:8} {reason}")
    return not differences and total > deaths * 20


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mudaxd")
    parser.add_argument("folder")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 9))
    parser.add_argument("--differences", type=int, default=1, help="stop after so many")
    parser.add_argument("--tables", type=int, default=10 ** 9)
    arguments = parser.parse_args()
    install(arguments.folder)
    print(f"seed {arguments.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="mudax-dynalite-")
    daemon = Daemon(os.path.abspath(arguments.mudaxd), folder, "--store", "memory:", "--cache-memory", "32M", "--store-memory", "32M",
                    "--listen", "http://127.0.0.1:0")
    dynalite = None
    try:
        daemon.start().close()
        with open(os.path.join(folder, "mudaxd.log"), encoding="utf8") as file:
            port = int(re.search(r'url="http://127.0.0.1:0" port=(\d+)', file.read()).group(1))
        dynalite = Dynalite(arguments.folder)
        return 0 if run(Server(port), dynalite, arguments) else 1
    finally:
        if dynalite is not None:
            dynalite.end()
        daemon.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
