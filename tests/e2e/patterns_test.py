#!/usr/bin/python3
"""Access patterns of single-table design, as the AWS SDK for Python and the AWS CLI ask them: the rows, keys,
patterns and answers of patterns.json.

usage: patterns_test.py MUDAXD AWS
"""
import concurrent.futures
import json
import os
import re
import string
import unittest

import boto  # takes MUDAXD and AWS
import botocore.exceptions
from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeSerializer

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "patterns.json"), encoding="utf8") as world:
    WORLD = json.load(world)
EVENTS = WORLD["events"]
TENANTS = ("acme", "acme2", "birch")
PLACES = ("DE#", "DE#BY#", "DE#BY#Munich#")


def keys_of(kind, row):
    """The keys of a row; none of an index where the row has not all that they are made of."""
    made = {name: string.Template(template).safe_substitute(row) for name, template in WORLD["keys"][kind].items()}
    return {name: text for name, text in made.items() if "$" not in text}


def event(n):
    return {"tenant": EVENTS["tenant"], "day": EVENTS["day"], "shard": n % EVENTS["shards"], "at": f"{n:02}", "n": n}


def items():
    rows = {**WORLD["rows"], "events": [event(n) for n in range(EVENTS["count"])]}
    return [{**keys_of(kind, row), **row} for kind, group in rows.items() for row in group]


def schema(partition, sort):
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


TABLE = {"TableName": "World", "BillingMode": "PAY_PER_REQUEST", "KeySchema": schema("PK", "SK"),
         "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"}
                                  for name in ("PK", "SK", "GSI1PK", "GSI1SK", "GSI2PK", "GSI2SK")],
         "GlobalSecondaryIndexes": [{"IndexName": name, "KeySchema": schema(f"{name}PK", f"{name}SK"),
                                     "Projection": {"ProjectionType": "ALL"}} for name in ("GSI1", "GSI2")]}


def refused(save):
    """Saves a document by `save(old version, text)` three times, then too late and too early: why not these two."""
    for number, text in enumerate(("first", "second", "third")):
        save(number, text)
    return [re.search(r"\[(.*?)\]", str(save(number, text))).group(1) for number, text in ((1, "too late"), (7, "too early"))]


class Patterns:
    """answers() are functions by pattern. Reads are asked so many times as `turns`: of the store, then of the cache."""
    turns = 2

    def test_each_access_pattern_has_its_answer(self):
        answers = self.answers()
        for pattern, expected in [*WORLD["reads"].items()] * self.turns + [*WORLD["changes"].items()]:
            with self.subTest(pattern):
                self.assertEqual(answers[pattern](), expected)


class Sdk(Patterns, boto.OverHttp):
    def setUp(self):
        super().setUp()
        self.world = self.resource.create_table(**TABLE)
        with self.world.batch_writer() as batch:
            for item in items():
                batch.put_item(Item=item)

    def query(self, attribute, condition, **more):
        return [item[attribute] for item in self.world.query(KeyConditionExpression=condition, **more)["Items"]]

    def customers(self, tenant, attribute):
        return self.query(attribute, Key("GSI1PK").eq(f"{tenant}#C"), IndexName="GSI1")

    def wishing(self, product):
        return self.query("customer", Key("GSI1PK").eq(f"acme#W#{product}"), IndexName="GSI1")

    def stores(self, place):
        return self.query("store", Key("GSI1PK").eq("acme#S") & Key("GSI1SK").begins_with(place), IndexName="GSI1")

    def open(self, tenant):
        return self.query("total", Key("GSI2PK").eq(f"{tenant}#open"), IndexName="GSI2")

    def answers(self):
        ann, orders = Key("PK").eq("acme#C#ann"), Key("SK").begins_with("O#")
        return {
            "item collection: a customer, the orders and the wishes": self.collection,
            "one-to-many: a customer's orders": lambda: self.query("total", ann & orders),
            "begins_with: a customer's orders of February": lambda: self.query("total", ann & Key("SK").begins_with("O#2026-02")),
            "BETWEEN: a customer's orders from February 25th to May 1st":
                lambda: self.query("total", ann & Key("SK").between("O#2026-02-25", "O#2026-05-01")),
            "newest five first": lambda: self.query("total", ann & orders, ScanIndexForward=False, Limit=5),
            "adjacency list: what a customer wishes, and who wishes a desk":
                lambda: [self.query("product", ann & Key("SK").begins_with("W#")), self.wishing("desk")],
            "overloaded index: one finds customers, who wishes a lamp, and Austrian stores":
                lambda: [self.customers("acme", "customer"), self.wishing("lamp"), self.stores("AT#")],
            "hierarchical sort key: stores of a country, a state, a city": lambda: [self.stores(place) for place in PLACES],
            "tenant isolation: customers and open orders of acme, acme2, birch":
                lambda: [[self.customers(tenant, "name"), self.open(tenant)] for tenant in TENANTS],
            "write sharding: events of the third shard, and of all, gathered": self.gather,
            "batch get of 100: the events that there are": self.batch,
            "sparse index: open orders, before one is closed and after": self.close,
            "version control: three versions, one too late, one too early": self.versions}

    def collection(self):
        found = self.world.query(KeyConditionExpression=Key("PK").eq("acme#C#ann"))["Items"]
        return {kind: [item[attribute] for item in found if attribute in item]
                for kind, attribute in (("customers", "name"), ("orders", "total"), ("wishes", "product"))}

    def gather(self):
        parts = [self.query("n", Key("PK").eq(f"acme#E#2026-03-05#{shard}")) for shard in range(4)]
        return [parts[2], sorted(sum(parts, []))]

    def batch(self):
        keys = [keys_of("events", event(n)) for n in range(100)]
        reply = self.resource.batch_get_item(RequestItems={"World": {"Keys": keys}})
        self.assertEqual(reply["UnprocessedKeys"], {})
        return sorted(item["n"] for item in reply["Responses"]["World"])

    def close(self):
        before = self.open("acme")
        self.world.update_item(Key={"PK": "acme#C#ann", "SK": "O#2026-02-11"}, UpdateExpression="REMOVE #s, GSI2PK",
                               ExpressionAttributeNames={"#s": "status"})
        return [before, self.open("acme")]

    def versions(self):
        def save(old, text):
            try:
                self.resource.meta.client.transact_write_items(TransactItems=[
                    {"Update": {"TableName": "World", "Key": {"PK": "acme#D#plan", "SK": "LATEST"},
                                "UpdateExpression": "SET version = :new, body = :text", "ConditionExpression": "version = :old",
                                "ExpressionAttributeValues": {":new": old + 1, ":text": text, ":old": old}}},
                    {"Put": {"TableName": "World", "Item": {"PK": "acme#D#plan", "SK": f"V#{old + 1}", "body": text},
                             "ConditionExpression": "attribute_not_exists(PK)"}}])
            except botocore.exceptions.ClientError as error:
                return error

        why = refused(save)
        latest = self.world.get_item(Key={"PK": "acme#D#plan", "SK": "LATEST"})["Item"]
        return {"refused": why, "latest": [latest["version"], latest["body"]],
                "versions": self.query("body", Key("PK").eq("acme#D#plan") & Key("SK").begins_with("V#"))}


def typed(item):
    """DynamoDB JSON."""
    return {name: TypeSerializer().serialize(value) for name, value in item.items()}


def at_once(function, values):
    """Of a list: each command has a process of its own."""
    with concurrent.futures.ThreadPoolExecutor(len(values)) as pool:
        return list(pool.map(function, values))


class Cli(Patterns, boto.OverHttp):
    turns = 1  # they are slow

    def setUp(self):
        super().setUp()
        self.aws("create-table", "--cli-input-json", json.dumps(TABLE))
        puts = [{"PutRequest": {"Item": typed(item)}} for item in items()]
        for begin in range(0, len(puts), 25):
            left = self.aws("batch-write-item", "--request-items", json.dumps({"World": puts[begin:begin + 25]}))
            self.assertEqual(left, {"UnprocessedItems": {}})

    def query(self, find, condition, values, *more):
        """What `find`, in JMESPath, makes of the reply; `values` are those that the condition names."""
        return self.aws("query", "--table-name", "World", "--key-condition-expression", condition, "--query", find,
                        "--expression-attribute-values", json.dumps(typed(values)), *more)

    def orders(self, condition, values, *more):
        return self.query("Items[].to_number(total.N)", f"PK = :p AND {condition}", {":p": "acme#C#ann", **values}, *more)

    def customers(self, tenant, attribute):
        return self.query(f"Items[].{attribute}.S", "GSI1PK = :p", {":p": f"{tenant}#C"}, "--index-name", "GSI1")

    def wishing(self, product):
        return self.query("Items[].customer.S", "GSI1PK = :p", {":p": f"acme#W#{product}"}, "--index-name", "GSI1")

    def stores(self, place):
        return self.query("Items[].store.S", "GSI1PK = :p AND begins_with(GSI1SK, :s)", {":p": "acme#S", ":s": place},
                          "--index-name", "GSI1")

    def open(self, tenant):
        return self.query("Items[].to_number(total.N)", "GSI2PK = :p", {":p": f"{tenant}#open"}, "--index-name", "GSI2")

    def answers(self):
        begins = "begins_with(SK, :s)"
        return {
            "item collection: a customer, the orders and the wishes": lambda: self.query(
                "{customers: Items[].name.S, orders: Items[?total].to_number(total.N), wishes: Items[].product.S}", "PK = :p",
                {":p": "acme#C#ann"}),
            "one-to-many: a customer's orders": lambda: self.orders(begins, {":s": "O#"}),
            "begins_with: a customer's orders of February": lambda: self.orders(begins, {":s": "O#2026-02"}),
            "BETWEEN: a customer's orders from February 25th to May 1st":
                lambda: self.orders("SK BETWEEN :a AND :b", {":a": "O#2026-02-25", ":b": "O#2026-05-01"}),
            "newest five first": lambda: self.orders(begins, {":s": "O#"}, "--no-scan-index-forward", "--limit", "5"),
            "adjacency list: what a customer wishes, and who wishes a desk":
                lambda: [self.query("Items[].product.S", f"PK = :p AND {begins}", {":p": "acme#C#ann", ":s": "W#"}), self.wishing("desk")],
            "overloaded index: one finds customers, who wishes a lamp, and Austrian stores":
                lambda: [self.customers("acme", "customer"), self.wishing("lamp"), self.stores("AT#")],
            "hierarchical sort key: stores of a country, a state, a city": lambda: at_once(self.stores, PLACES),
            "tenant isolation: customers and open orders of acme, acme2, birch":
                lambda: at_once(lambda tenant: [self.customers(tenant, "name"), self.open(tenant)], TENANTS),
            "write sharding: events of the third shard, and of all, gathered": self.gather,
            "batch get of 100: the events that there are": self.batch,
            "sparse index: open orders, before one is closed and after": self.close,
            "version control: three versions, one too late, one too early": self.versions}

    def gather(self):
        parts = at_once(lambda shard: self.query("Items[].to_number(n.N)", "PK = :p", {":p": f"acme#E#2026-03-05#{shard}"}), range(4))
        return [parts[2], sorted(sum(parts, []))]

    def batch(self):
        keys = [typed(keys_of("events", event(n))) for n in range(100)]
        reply = self.aws("batch-get-item", "--request-items", json.dumps({"World": {"Keys": keys}}))
        self.assertEqual(reply["UnprocessedKeys"], {})
        return sorted(int(item["n"]["N"]) for item in reply["Responses"]["World"])

    def close(self):
        before = self.open("acme")
        self.aws("update-item", "--table-name", "World", "--key", "PK={S=acme#C#ann},SK={S=O#2026-02-11}",
                 "--update-expression", "REMOVE #s, GSI2PK", "--expression-attribute-names", "#s=status")
        return [before, self.open("acme")]

    def versions(self):
        def save(old, text):
            return self.aws("transact-write-items", "--transact-items", json.dumps([
                {"Update": {"TableName": "World", "Key": typed({"PK": "acme#D#plan", "SK": "LATEST"}),
                            "UpdateExpression": "SET version = :new, body = :text", "ConditionExpression": "version = :old",
                            "ExpressionAttributeValues": typed({":new": old + 1, ":text": text, ":old": old})}},
                {"Put": {"TableName": "World", "Item": typed({"PK": "acme#D#plan", "SK": f"V#{old + 1}", "body": text}),
                         "ConditionExpression": "attribute_not_exists(PK)"}}]))

        return {"refused": refused(save),
                "latest": self.aws("get-item", "--table-name", "World", "--key", "PK={S=acme#D#plan},SK={S=LATEST}",
                                   "--query", "[to_number(Item.version.N), Item.body.S]"),
                "versions": self.query("Items[].body.S", "PK = :p AND begins_with(SK, :s)", {":p": "acme#D#plan", ":s": "V#"})}


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")  # the SDK leaves its sockets to the collector
