#!/usr/bin/env python3
"""Random requests to a mudaxd, cache on, over DynamoDB's API, and to a model of DynamoDB: both must answer the same.

usage: differential.py MUDAXD SECONDS [--seed N] [--store URL] [--tables N] [--differences N]
       [-- OPTION OF MUDAXD ...]
An @ in URL is a folder that is there for the run.
The seed is printed. Of the first disagreement the shortest list of requests that still shows it is printed, and both answers.
"""
import argparse
import json
import os
import random
import re
import shutil
import socket
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import model  # noqa: E402
import requests  # noqa: E402
from daemon import Daemon  # noqa: E402

REQUESTS = 400  # of a table, until the next


class Server:
    """DynamoDB's API over one connection."""

    HEAD = b""  # further header fields

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.calls, self.verdict, self.verdicts, self.outcomes = 0, "none", {}, {}

    def call(self, operation, body, table):
        """The reply's body, or (error's name, body)."""
        raw = json.dumps(body).replace("@T@", table).encode()
        self.socket.sendall(b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.%s\r\n%sContent-Length: %d\r\n\r\n" %
                            (operation.encode(), self.HEAD, len(raw)) + raw)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.more()
        head, _, got = got.partition(b"\r\n\r\n")
        size = int(re.search(rb"Content-Length: (\d+)", head, re.I).group(1))
        while len(got) < size:
            got += self.more()
        self.calls += 1
        verdict = re.search(rb"x-mudax-cache: (\w+)", head)
        self.verdict = verdict.group(1).decode() if verdict else "none"
        self.verdicts[self.verdict] = self.verdicts.get(self.verdict, 0) + 1
        reply = json.loads(got)
        outcome = operation + (" " + reply["__type"].split("#")[1] if "__type" in reply else "")
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if b"200 OK" in head.split(b"\r\n")[0]:
            return reply
        return reply["__type"].split("#")[1], reply

    def more(self):
        got = self.socket.recv(1 << 20)
        if not got:
            raise ConnectionError("mudaxd closed the connection")
        return got


class Difference(Exception):
    def __init__(self, wanted, got):
        super().__init__(f"wanted {wanted}\n   got {got}")


def same(wanted, got, reply):
    if wanted != got:
        raise Difference(show(wanted), json.dumps(reply))


def show(wanted):
    """Of the model's values what can be read."""
    if isinstance(wanted, dict):
        return json.dumps(model.encode_item(wanted), sort_keys=True)
    if isinstance(wanted, (list, tuple)):
        return "[" + ", ".join(show(each) if isinstance(each, (dict, list, tuple)) else str(each) for each in wanted) + "]"
    return str(wanted)


def item_of(holder, name="Item"):
    return model.decode_item(holder[name]) if name in holder else None


def in_no_order(items):
    return sorted(items, key=lambda item: show(item) if item is not None else "")


class Pair:
    """A table of the server and one of the model."""

    def __init__(self, server, name, maker):
        self.server, self.name, self.maker = server, name, maker
        self.create()

    def create(self):
        self.model = model.Table(self.maker.keys, dict(self.maker.first))
        self.maker.items = self.model.items
        reply = self.ask("CreateTable", self.maker.definition())
        if not isinstance(reply, dict):
            raise RuntimeError(reply)

    def drop(self):
        self.server.call("DeleteTable", {"TableName": "@T@"}, self.name)

    def ask(self, operation, body):
        return self.server.call(operation, body, self.name)

    def compare(self, request):
        """Raises Difference."""
        operation, body, plan = request
        plans = plan if isinstance(plan, list) else [plan]
        try:
            if any(each.get("unused") for each in plans):
                raise model.invalid()
            getattr(self, operation)(body, plan)
        except model.Refused as refused:
            reply = self.ask(operation, body)
            if isinstance(reply, dict):
                raise Difference(refused, json.dumps(reply)) from None
            same(refused.name, reply[0], reply)
            self.compare_error(refused, reply[1])

    def compare_error(self, refused, reply):
        if refused.name == "ConditionalCheckFailedException":
            same(refused.more, item_of(reply), reply)
        elif refused.name == "TransactionCanceledException":
            same([(code, item) for code, item in refused.more],
                 [(reason["Code"], item_of(reason)) for reason in reply["CancellationReasons"]], reply)

    def fine(self, operation, body, wanted):
        reply = self.ask(operation, body)
        if not isinstance(reply, dict):
            raise Difference(show(wanted), json.dumps(reply))
        return reply

    def Again(self, _body, _plan):
        """Dropped, and made again under its name: nothing of it may come back."""
        self.drop()
        self.maker.indexes = dict(self.maker.first)
        self.create()

    def UpdateTable(self, body, plan):
        if plan["index"] is None:
            wanted = {name: index for name, index in self.model.indexes.items() if name != plan["name"]}
        else:
            wanted = {**self.model.indexes, plan["name"]: plan["index"]}
        if len(wanted) == len(self.model.indexes):
            return  # left over by shortening
        self.fine("UpdateTable", body, {})
        until = time.monotonic() + 20
        while True:
            table = self.ask("DescribeTable", {"TableName": "@T@"})["Table"]
            found = {index["IndexName"]: index["IndexStatus"] for index in table.get("GlobalSecondaryIndexes", [])}
            if found == {name: "ACTIVE" for name, index in wanted.items() if not index["local"]}:
                break
            if time.monotonic() > until:
                raise Difference(str(list(wanted)), str(found))
            time.sleep(0.005)
        self.model.indexes = wanted

    # Each asks the model first, which may raise Refused, then the server.

    def PutItem(self, body, plan, operation="PutItem"):
        wanted = self.model.write(plan)
        reply = self.fine(operation, body, wanted)
        same(wanted, item_of(reply, "Attributes") or {}, reply)

    def UpdateItem(self, body, plan):
        self.PutItem(body, plan, "UpdateItem")

    def DeleteItem(self, body, plan):
        self.PutItem(body, plan, "DeleteItem")

    def GetItem(self, body, plan):
        wanted = self.model.get(plan["key"], plan.get("paths"))
        for _ in range(2):  # the second is a hit
            reply = self.fine("GetItem", body, wanted)
            same(wanted, item_of(reply), reply)

    def BatchGetItem(self, body, plan):
        wanted = [item for item in map(self.model.get, plan) if item is not None]
        reply = self.fine("BatchGetItem", body, wanted)
        same(in_no_order(wanted), in_no_order(map(model.decode_item, reply["Responses"].get(self.name, []))), reply)
        same({}, reply["UnprocessedKeys"], reply)

    def TransactGetItems(self, body, plan):
        wanted = [self.model.get(key) for key in plan]
        reply = self.fine("TransactGetItems", body, wanted)
        same(wanted, [item_of(each) for each in reply["Responses"]], reply)

    def BatchWriteItem(self, body, plan):
        self.model.batch_write(plan)
        reply = self.fine("BatchWriteItem", body, {})
        same({}, reply["UnprocessedItems"], reply)

    def TransactWriteItems(self, body, plan):
        self.model.transact(plan)
        self.fine("TransactWriteItems", body, {})

    def Query(self, body, plan):
        items, scanned, end, may_end = self.model.query(plan)
        for _ in range(2):
            reply = self.fine("Query", body, items)
            while self.maker.is_large and "LastEvaluatedKey" in reply:  # at 1 MB
                more = self.fine("Query", {**body, "ExclusiveStartKey": reply.pop("LastEvaluatedKey")}, items)
                reply = {**more, **{name: reply[name] + more[name] for name in ("Items", "Count", "ScannedCount") if name in more}}
            if "Items" in reply or plan.get("select") != "COUNT":
                same(items, list(map(model.decode_item, reply["Items"])), reply)
            same([len(items), scanned], [reply["Count"], reply["ScannedCount"]], reply)
            last = item_of(reply, "LastEvaluatedKey")
            if last is not None or not may_end:
                same(end, last, reply)
        if end:
            self.maker.remember(plan, end)

    def Scan(self, body, plan):
        items, scanned = self.model.scan(plan)
        for _ in range(2):
            found, count, examined, replies = [], 0, 0, []
            for segment in range(plan.get("segments", 1)):
                more = {"Segment": segment, "TotalSegments": plan["segments"]} if "segments" in plan else {}
                while True:
                    reply = self.fine("Scan", {**body, **more}, items)
                    replies.append(reply)
                    found += map(model.decode_item, reply.get("Items", []))
                    count, examined = count + reply["Count"], examined + reply["ScannedCount"]
                    if reply["ScannedCount"] > plan.get("limit", reply["ScannedCount"]):
                        raise Difference(f"a page of {plan['limit']}", json.dumps(reply))
                    if "LastEvaluatedKey" not in reply:
                        break
                    more["ExclusiveStartKey"] = reply["LastEvaluatedKey"]
            if plan.get("select") != "COUNT":
                same(in_no_order(items), in_no_order(found), replies)
            same([len(items), scanned], [count, examined], replies)


def shows(server, name, maker, requests_):
    """Does a list of requests end with a disagreement?"""
    pair = Pair(server, name, maker)
    try:
        for request in requests_:
            pair.compare(request)
    except Difference:
        return request is requests_[-1]
    finally:
        pair.drop()
    return False


def shorten(server, maker, history):
    """The same disagreement with as few requests as leaving some out can make it."""
    names = (f"Short{number}" for number in range(10 ** 6))
    step = max(1, len(history) // 2)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        begin = 0
        while begin < len(history) - 1:
            fewer = history[:begin] + history[min(begin + step, len(history) - 1):]
            if shows(server, next(names), maker, fewer):
                history = fewer
            else:
                begin += step
        if step == 1:
            break
        step //= 2
    return history


def run(server, arguments):
    until = time.monotonic() + arguments.seconds
    tables = total = differences = 0
    while time.monotonic() < until and tables < arguments.tables and differences < arguments.differences:
        seed = arguments.seed + tables
        maker = requests.Maker(random.Random(seed))
        pair = Pair(server, f"Table{tables}", maker)
        history = []
        for _ in range(REQUESTS // 4 if maker.is_large else REQUESTS):
            history.append(maker.request())
            try:
                pair.compare(history[-1])
            except Difference as difference:
                print(f"seed {seed}, request {len(history)}:\n{difference}\n   (cache: {server.verdict})\nthe fewest requests that show it:")
                print("CreateTable", json.dumps(maker.definition()))
                for operation, body, _ in shorten(server, maker, history):
                    print(operation, json.dumps(body))
                print(flush=True)
                differences += 1
                break
        pair.drop()
        tables, total = tables + 1, total + len(history)
    print(f"{tables} tables, {total} requests, {server.calls} calls; cache: {server.verdicts}")
    for outcome in sorted(server.outcomes):
        print(f"{server.outcomes[outcome]:8} {outcome}")
    return not differences and server.verdicts.get("hit", 0) > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mudaxd")
    parser.add_argument("seconds", type=float)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10 ** 9))
    parser.add_argument("--store", default="memory:")
    parser.add_argument("--differences", type=int, default=1, help="stop after so many")
    parser.add_argument("--tables", type=int, default=10 ** 9)
    own = sys.argv[1:sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    arguments, options = parser.parse_args(own), sys.argv[len(own) + 2:]
    print(f"seed {arguments.seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="mudax-differential-")
    store = arguments.store.replace("@", folder)
    daemon = Daemon(os.path.abspath(arguments.mudaxd), folder, "--store", store, "--cache-memory", "32M", "--store-memory", "32M",
                    "--listen", "http://127.0.0.1:0", *options)
    try:
        daemon.start().close()
        with open(os.path.join(folder, "mudaxd.log"), encoding="utf8") as file:
            port = int(re.search(r'url="http://127.0.0.1:0" port=(\d+)', file.read()).group(1))
        return 0 if run(Server(port), arguments) else 1
    finally:
        daemon.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
