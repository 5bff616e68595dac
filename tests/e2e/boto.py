#!/usr/bin/python3
"""mudaxd as the AWS SDK for Python and the AWS CLI see it: unmodified, at http://127.0.0.1:PORT.

usage: boto.py MUDAXD AWS
"""
import concurrent.futures
import gzip
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import zlib
from decimal import Decimal

import boto3
import botocore.config
import botocore.exceptions
from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.types import Binary

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

AWS = os.path.abspath(sys.argv.pop(2)) if len(sys.argv) > 2 else "aws"
PROGRAM = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "mudaxd"

SETTINGS = {"region_name": "us-east-1", "aws_access_key_id": "nobody", "aws_secret_access_key": "checks/this+or=",
            "config": botocore.config.Config(retries={"max_attempts": 0}, max_pool_connections=20)}


class OverHttp(unittest.TestCase):
    store = "memory:"

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="mudax-boto-")
        self.daemon = Daemon(PROGRAM, self.folder, "--store", self.store, "--cache-memory", "32M", "--store-memory", "32M",
                             "--listen", "http://127.0.0.1:0", *self.arguments())
        self.native = self.daemon.start()
        with open(os.path.join(self.folder, "mudaxd.log"), encoding="utf8") as file:
            self.port = int(re.search(r'url="http://127.0.0.1:0" port=(\d+)', file.read()).group(1))
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = boto3.client("dynamodb", endpoint_url=self.url, **SETTINGS)
        self.resource = boto3.resource("dynamodb", endpoint_url=self.url, **SETTINGS)

    def arguments(self):
        return ()

    def tearDown(self):
        self.native.close()
        self.daemon.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def table(self, name="Shop", sort="S"):
        keys = [("p", "HASH", "S")] + ([("s", "RANGE", sort)] if sort else [])
        table = self.resource.create_table(
            TableName=name, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": key, "KeyType": kind} for key, kind, _ in keys],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, _, kind in keys])
        table.wait_until_exists()
        return table

    def refused(self, name, call, *arguments, **named):
        with self.assertRaises(botocore.exceptions.ClientError) as caught:
            call(*arguments, **named)
        self.assertEqual(caught.exception.response["Error"]["Code"], name)
        return caught.exception.response["Error"]["Message"]

    def aws(self, *arguments):
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "checks", "AWS_MAX_ATTEMPTS": "1",
                       "AWS_DEFAULT_REGION": "us-east-1", "AWS_PAGER": "", "HOME": self.folder}
        run = subprocess.run([AWS, "dynamodb", *arguments, "--endpoint-url", self.url, "--output", "json"],
                             capture_output=True, text=True, env=environment, timeout=60, check=False)
        return json.loads(run.stdout or "{}") if run.returncode == 0 else run.stderr

    @staticmethod
    def verdict(reply):
        return reply["ResponseMetadata"]["HTTPHeaders"].get("x-mudax-cache", "none").split(" ")[0]


class Sdk(OverHttp):
    def test_tables_come_and_go(self):
        self.assertEqual(self.client.list_tables()["TableNames"], [])
        for name in ("Apple", "Banana", "Cherry"):
            self.assertEqual(self.table(name).table_status, "ACTIVE")
        self.assertEqual([table.name for table in self.resource.tables.all()], ["Apple", "Banana", "Cherry"])
        page = self.client.list_tables(Limit=2)
        self.assertEqual((page["TableNames"], page["LastEvaluatedTableName"]), (["Apple", "Banana"], "Banana"))
        page = self.client.list_tables(Limit=2, ExclusiveStartTableName="Banana")
        self.assertEqual(page["TableNames"], ["Cherry"])
        self.assertNotIn("LastEvaluatedTableName", page)
        described = self.client.describe_table(TableName="Apple")["Table"]
        self.assertEqual(described["KeySchema"], [{"AttributeName": "p", "KeyType": "HASH"},
                                                  {"AttributeName": "s", "KeyType": "RANGE"}])
        self.assertEqual(described["BillingModeSummary"]["BillingMode"], "PAY_PER_REQUEST")
        self.assertGreater(described["CreationDateTime"].year, 2000)
        self.refused("ResourceInUseException", self.table, "Apple")
        self.resource.Table("Apple").delete()
        self.client.get_waiter("table_not_exists").wait(TableName="Apple", WaiterConfig={"Delay": 1, "MaxAttempts": 10})
        self.refused("ResourceNotFoundException", self.client.describe_table, TableName="Apple")
        self.refused("ResourceNotFoundException", self.client.delete_table, TableName="Apple")

    def test_all_ten_types_come_back_as_they_were(self):
        table = self.table()
        item = {"p": "c#1", "s": "o#7", "string": "\u00e9\u4e2d\U0001f600 \"quoted\" \\ \n \u0001 \u007f", "empty": "",
                "number": Decimal("12345678901234567890123456789012345678"), "small": Decimal("-1E-130"),
                "half": Decimal("0.5"), "zero": Decimal(0),
                "binary": Binary(bytes(range(256))), "none": Binary(b""), "yes": True, "no": False, "null": None,
                "list": [1, "two", [Binary(b"3"), {"four": None}], []], "map": {"a": {"b": {"c": Decimal("-7")}}}, "empty map": {},
                "strings": {"a", "b", "\u00e9"},
                "numbers": {Decimal(1), Decimal("-2.5"), Decimal("1E+30")}, "binaries": {Binary(b"\x00"), Binary(b"\xff\xfe")}}
        table.put_item(Item=item)
        for consistent in (False, True):
            self.assertEqual(table.get_item(Key={"p": "c#1", "s": "o#7"}, ConsistentRead=consistent)["Item"], item)
        plain = self.client.get_item(TableName="Shop", Key={"p": {"S": "c#1"}, "s": {"S": "o#7"}})["Item"]
        self.assertEqual(plain["number"], {"N": "12345678901234567890123456789012345678"})
        self.assertEqual(sorted(plain["numbers"]["NS"]), ["-2.5", "1", "1000000000000000000000000000000"])

    def test_numbers_are_exact_or_refused(self):
        self.table(sort=None)

        def put(text):
            self.client.put_item(TableName="Shop", Item={"p": {"S": "k"}, "a": {"N": text}})
            return self.client.get_item(TableName="Shop", Key={"p": {"S": "k"}})["Item"]["a"]["N"]

        for text in ("12345678901234567890123456789012345678", "-0.00012345678901234567890123456789012345678", "1", "-1", "0",
                     "18446744073709551615", "-9223372036854775808", "18446744073709551616"):
            self.assertEqual(put(text), text)
        self.assertEqual(put("9.9999999999999999999999999999999999999E+125"), "9" * 38 + "0" * 88)
        self.assertEqual(put("1e3"), "1000")
        self.assertEqual(put("007.50"), "7.5")
        self.assertEqual(put("1e-130"), "0." + "0" * 129 + "1")
        for text in ("123456789012345678901234567890123456789", "1e126", "1e-131", "NaN", "", " 1"):
            self.refused("ValidationException", put, text)

    def test_large_items_are_taken_however_they_are_spelled(self):
        table = self.table(sort=None)
        text = "\u00e9" * 204000  # 408,000 bytes; the SDK writes 1.2 MB of \u00e9
        table.put_item(Item={"p": "k", "d": text})
        self.assertEqual(table.get_item(Key={"p": "k"})["Item"]["d"], text)
        self.assertIn("size", self.refused("ValidationException", table.put_item, Item={"p": "k", "d": text + "\u00e9" * 1000}))
        self.assertEqual(table.get_item(Key={"p": "k"})["Item"]["d"], text)
        many = [None] * 200000  # 400 KB of the smallest values, 2.8 MB of JSON
        table.put_item(Item={"p": "m", "d": many})
        self.assertEqual(table.get_item(Key={"p": "m"})["Item"]["d"], many)
        several = {f"{number:05x}": number for number in range(36000)}  # not in the order of its names: encoded again
        table.put_item(Item={"p": "s", "d": dict(reversed(several.items()))})
        self.assertEqual(table.get_item(Key={"p": "s"})["Item"]["d"], several)
        packed = Binary(os.urandom(400000))
        table.put_item(Item={"p": "b", "d": packed})
        self.assertEqual(table.get_item(Key={"p": "b"})["Item"]["d"], packed)

    def test_queries_find_ranges_in_both_directions_and_pages(self):
        table = self.table()
        for number in range(30):
            table.put_item(Item={"p": "c", "s": f"o{number:02}", "n": number, "pad": "x" * 1000})
        table.put_item(Item={"p": "other", "s": "o00"})

        def found(condition, **more):
            return [int(item["n"]) for item in table.query(KeyConditionExpression=condition, **more)["Items"]]

        here = Key("p").eq("c")
        self.assertEqual(found(here), list(range(30)))
        self.assertEqual(found(here & Key("s").begins_with("o1")), list(range(10, 20)))
        self.assertEqual(found(here & Key("s").between("o05", "o08")), [5, 6, 7, 8])
        self.assertEqual(found(here & Key("s").gte("o28")), [28, 29])
        self.assertEqual(found(here & Key("s").lt("o02"), ScanIndexForward=False), [1, 0])
        self.assertEqual(found(here & Key("s").eq("o07"), Select="ALL_ATTRIBUTES"), [7])
        page = table.query(KeyConditionExpression=here, Limit=10)
        self.assertEqual((page["Count"], page["ScannedCount"], page["LastEvaluatedKey"]), (10, 10, {"p": "c", "s": "o09"}))
        pages = list(self.client.get_paginator("query").paginate(
            TableName="Shop", KeyConditionExpression="#p = :p", ExpressionAttributeNames={"#p": "p"},
            ExpressionAttributeValues={":p": {"S": "c"}}, PaginationConfig={"PageSize": 7}))
        self.assertEqual([page["Count"] for page in pages], [7, 7, 7, 7, 2])
        self.assertEqual([int(item["n"]["N"]) for page in pages for item in page["Items"]], list(range(30)))
        self.assertEqual(found(here, ScanIndexForward=False, Limit=3, ExclusiveStartKey={"p": "c", "s": "o03"}), [2, 1, 0])

    def test_numbers_sort_by_value(self):
        table = self.table(sort="N")
        for text in ("10", "9", "-0.6", "-0.7", "0", "1e2", "0.05"):
            table.put_item(Item={"p": "k", "s": Decimal(text)})

        def found(**more):
            return [str(item["s"]) for item in table.query(**more)["Items"]]

        self.assertEqual(found(KeyConditionExpression=Key("p").eq("k")), ["-0.7", "-0.6", "0", "0.05", "9", "10", "100"])
        self.assertEqual(found(KeyConditionExpression=Key("p").eq("k") & Key("s").gt(9)), ["10", "100"])
        self.assertEqual(found(KeyConditionExpression=Key("p").eq("k"), ScanIndexForward=False, Limit=2), ["100", "10"])

    def test_the_cache_says_what_it_did(self):
        table = self.table()
        key = {"p": "c", "s": "1"}
        reply = table.get_item(Key=key)
        self.assertNotIn("Item", reply)
        self.assertEqual(self.verdict(reply), "miss")
        reply = table.get_item(Key=key)
        self.assertNotIn("Item", reply)
        self.assertRegex(reply["ResponseMetadata"]["HTTPHeaders"]["x-mudax-cache"], r"^hit age=\d+ms$")
        self.assertEqual(self.verdict(table.put_item(Item={**key, "n": 1})), "none")
        reply = table.get_item(Key=key)
        self.assertEqual((reply["Item"]["n"], self.verdict(reply)), (1, "hit"))
        self.assertEqual(self.verdict(table.get_item(Key=key, ConsistentRead=True)), "bypass")
        condition = {"KeyConditionExpression": Key("p").eq("c")}
        self.assertEqual([self.verdict(table.query(**condition)) for _ in range(3)], ["miss", "hit", "hit"])
        # Whoever writes or reads over another protocol does it in the same cache.
        self.native.call(native.PUT, {native.TABLE: "Shop", native.ITEM: {**key, "n": 2}})
        reply = table.get_item(Key=key)
        self.assertEqual((reply["Item"]["n"], self.verdict(reply)), (2, "hit"))
        reply = table.query(**condition)
        self.assertEqual((reply["Items"][0]["n"], self.verdict(reply)), (2, "miss"))
        other = {"p": "d", "s": "1"}
        self.native.call(native.GET, {native.TABLE: "Shop", native.KEY: other})
        self.assertEqual(self.verdict(table.get_item(Key=other)), "hit")
        table.delete_item(Key=key)
        self.assertIsNone(self.native.call(native.GET, {native.TABLE: "Shop", native.KEY: key}))
        self.assertNotIn("Item", table.get_item(Key=key))
        self.assertEqual(table.query(**condition)["Items"], [])

    def test_errors_have_dynamodbs_names(self):
        table = self.table()
        key = {"p": {"S": "c"}, "s": {"S": "1"}}
        self.refused("ResourceNotFoundException", self.client.get_item, TableName="None", Key=key)
        self.refused("ResourceNotFoundException", self.client.put_item, TableName="None", Item=key)
        text = self.refused("ValidationException", self.client.get_item, TableName="Shop", Key={"p": {"S": "c"}})
        self.assertIn("keys", text)
        self.refused("ValidationException", self.client.put_item, TableName="Shop", Item={**key, "p": {"S": ""}})
        self.refused("ValidationException", self.client.put_item, TableName="Shop", Item={**key, "a": {"SS": []}})
        self.refused("ValidationException", self.client.put_item, TableName="Shop", Item={**key, "a": {"SS": ["x", "x"]}})
        self.refused("ValidationException", self.client.query, TableName="Shop", KeyConditionExpression="p = :p")
        self.refused("ValidationException", self.client.query, TableName="Shop")
        # What cannot be served is said, not left out.
        self.refused("UnknownOperationException", self.client.list_backups)
        self.assertEqual(self.client.list_tables()["TableNames"], ["Shop"])

    def test_consumed_capacity_is_what_the_store_was_charged(self):
        table = self.table()
        reply = table.put_item(Item={"p": "c", "s": "1", "v": "x" * 2000}, ReturnConsumedCapacity="TOTAL")
        self.assertEqual(reply["ConsumedCapacity"], {"TableName": "Shop", "CapacityUnits": 2.0})
        key = {"p": "c", "s": "1"}
        reply = table.get_item(Key=key, ConsistentRead=True, ReturnConsumedCapacity="INDEXES")
        self.assertEqual(reply["ConsumedCapacity"], {"TableName": "Shop", "CapacityUnits": 1.0,
                                                     "Table": {"CapacityUnits": 1.0}})
        table.get_item(Key=key)
        reply = table.get_item(Key=key, ReturnConsumedCapacity="TOTAL")  # a hit
        self.assertEqual(reply["ConsumedCapacity"], {"TableName": "Shop", "CapacityUnits": 0.0})
        reply = table.query(KeyConditionExpression=Key("p").eq("c"), ReturnConsumedCapacity="TOTAL")
        self.assertEqual(reply["ConsumedCapacity"]["CapacityUnits"], 0.5)

    def test_batches_of_reads_and_writes(self):
        table, other = self.table(), self.table("Other", sort=None)
        with table.batch_writer() as batch:
            for number in range(60):
                batch.put_item(Item={"p": "c", "s": f"{number:03}", "n": number})
        self.assertEqual(table.query(KeyConditionExpression=Key("p").eq("c"), Select="COUNT")["Count"], 60)
        other.put_item(Item={"p": "k"})
        keys = [{"p": "c", "s": f"{number:03}"} for number in range(99)]
        reply = self.resource.batch_get_item(RequestItems={
            "Shop": {"Keys": keys, "ProjectionExpression": "#n", "ExpressionAttributeNames": {"#n": "n"}},
            "Other": {"Keys": [{"p": "k"}], "ConsistentRead": True}}, ReturnConsumedCapacity="TOTAL")
        self.assertEqual(reply["UnprocessedKeys"], {})
        self.assertEqual(sorted(item["n"] for item in reply["Responses"]["Shop"]), list(range(60)))
        self.assertEqual(reply["Responses"]["Other"], [{"p": "k"}])
        self.assertEqual({each["TableName"] for each in reply["ConsumedCapacity"]}, {"Shop", "Other"})
        reply = self.resource.batch_get_item(RequestItems={"Shop": {"Keys": keys[:3]}})
        self.assertEqual(self.verdict(reply), "hit")
        reply = self.resource.batch_write_item(RequestItems={"Shop": [
            {"DeleteRequest": {"Key": keys[0]}}, {"PutRequest": {"Item": {**keys[1], "n": -1}}}]})
        self.assertEqual(reply["UnprocessedItems"], {})
        reply = self.resource.batch_get_item(RequestItems={"Shop": {"Keys": keys[:2]}})
        self.assertEqual(reply["Responses"]["Shop"], [{**keys[1], "n": -1}])
        self.assertIn("duplicates", self.refused(
            "ValidationException", self.resource.batch_get_item, RequestItems={"Shop": {"Keys": keys[:1] * 2}}))
        keys = [{"p": "d", "s": str(number)} for number in range(101)]
        self.assertIn("Too many items", self.refused(
            "ValidationException", self.resource.batch_get_item, RequestItems={"Shop": {"Keys": keys}}))
        self.assertIn("Too many items", self.refused(
            "ValidationException", self.resource.batch_write_item, RequestItems={"Shop": [
                {"PutRequest": {"Item": key}} for key in keys[:26]]}))

    def test_transactions(self):
        table = self.table(sort=None)
        client, typed = self.client, lambda key: {"p": {"S": key}}
        table.put_item(Item={"p": "doc", "version": 1})
        reply = client.transact_write_items(ReturnConsumedCapacity="TOTAL", TransactItems=[
            {"Update": {"TableName": "Shop", "Key": typed("doc"), "UpdateExpression": "SET version = :new",
                        "ConditionExpression": "version = :old",
                        "ExpressionAttributeValues": {":new": {"N": "2"}, ":old": {"N": "1"}}}},
            {"Put": {"TableName": "Shop", "Item": {**typed("doc#v1"), "version": {"N": "1"}},
                     "ConditionExpression": "attribute_not_exists(p)"}},
            {"Delete": {"TableName": "Shop", "Key": typed("draft")}},
            {"ConditionCheck": {"TableName": "Shop", "Key": typed("lock"),
                                "ConditionExpression": "attribute_not_exists(p)"}}])
        self.assertEqual(reply["ConsumedCapacity"],
                         [{"TableName": "Shop", "CapacityUnits": 8.0, "WriteCapacityUnits": 8.0}])
        reply = client.transact_get_items(TransactItems=[
            {"Get": {"TableName": "Shop", "Key": typed("doc")}},
            {"Get": {"TableName": "Shop", "Key": typed("none")}},
            {"Get": {"TableName": "Shop", "Key": typed("doc#v1"), "ProjectionExpression": "version"}}])
        self.assertEqual(reply["Responses"], [{"Item": {**typed("doc"), "version": {"N": "2"}}}, {},
                                              {"Item": {"version": {"N": "1"}}}])
        with self.assertRaises(client.exceptions.TransactionCanceledException) as caught:
            client.transact_write_items(TransactItems=[
                {"Put": {"TableName": "Shop", "Item": typed("new")}},
                {"Put": {"TableName": "Shop", "Item": typed("doc"), "ConditionExpression": "attribute_not_exists(p)",
                         "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}])
        reasons = caught.exception.response["CancellationReasons"]
        self.assertEqual([reason["Code"] for reason in reasons], ["None", "ConditionalCheckFailed"])
        self.assertEqual(reasons[1]["Item"], {**typed("doc"), "version": {"N": "2"}})
        self.assertNotIn("Item", table.get_item(Key={"p": "new"}))
        add = [{"Update": {"TableName": "Shop", "Key": typed("doc"), "UpdateExpression": "ADD version :one",
                           "ExpressionAttributeValues": {":one": {"N": "1"}}}}]
        for _ in range(3):
            client.transact_write_items(TransactItems=add, ClientRequestToken="only-once")
        self.assertEqual(table.get_item(Key={"p": "doc"})["Item"]["version"], 3)
        add[0]["Update"]["ExpressionAttributeValues"][":one"]["N"] = "2"
        self.refused("IdempotentParameterMismatchException", client.transact_write_items, TransactItems=add,
                     ClientRequestToken="only-once")

    def test_secondary_indexes(self):
        self.client.create_table(
            TableName="Shop", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "SK", "KeyType": "RANGE"}],
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": kind} for name, kind in
                                  (("PK", "S"), ("SK", "S"), ("GSI1PK", "S"), ("GSI1SK", "S"), ("created", "N"))],
            GlobalSecondaryIndexes=[{"IndexName": "GSI1", "KeySchema": [
                {"AttributeName": "GSI1PK", "KeyType": "HASH"}, {"AttributeName": "GSI1SK", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "ALL"}}],
            LocalSecondaryIndexes=[{"IndexName": "by-created", "KeySchema": [
                {"AttributeName": "PK", "KeyType": "HASH"}, {"AttributeName": "created", "KeyType": "RANGE"}],
                "Projection": {"ProjectionType": "KEYS_ONLY"}}])
        table = self.resource.Table("Shop")
        self.assertEqual([index["IndexStatus"] for index in table.global_secondary_indexes], ["ACTIVE"])
        with table.batch_writer() as batch:
            for number in range(30):
                item = {"PK": f"USER#{number % 3}", "SK": f"ORDER#{number:02}", "created": 1000 - number}
                if number % 5 == 0:  # sparse: open orders only
                    item.update(GSI1PK="OPEN", GSI1SK=f"{number:02}")
                batch.put_item(Item=item)
        newest = table.query(IndexName="by-created", KeyConditionExpression=Key("PK").eq("USER#1"), Limit=5,
                             ScanIndexForward=False)
        self.assertEqual([item["SK"] for item in newest["Items"]], ["ORDER#01", "ORDER#04", "ORDER#07", "ORDER#10", "ORDER#13"])
        self.assertEqual(set(newest["Items"][0]), {"PK", "SK", "created"})
        self.assertEqual(set(newest["LastEvaluatedKey"]), {"PK", "SK", "created"})
        rest = table.query(IndexName="by-created", KeyConditionExpression=Key("PK").eq("USER#1"), ScanIndexForward=False,
                           ExclusiveStartKey=newest["LastEvaluatedKey"])
        self.assertEqual(rest["Count"], 5)
        opened = table.query(IndexName="GSI1", KeyConditionExpression=Key("GSI1PK").eq("OPEN"))
        self.assertEqual([item["GSI1SK"] for item in opened["Items"]], ["00", "05", "10", "15", "20", "25"])
        table.update_item(Key={"PK": "USER#0", "SK": "ORDER#00"}, UpdateExpression="REMOVE GSI1PK")
        opened = table.query(IndexName="GSI1", KeyConditionExpression=Key("GSI1PK").eq("OPEN"))
        self.assertEqual(opened["Count"], 5)
        self.assertEqual(table.scan(IndexName="GSI1")["Count"], 5)
        pages = [table.scan(Segment=segment, TotalSegments=4, Select="COUNT")["Count"] for segment in range(4)]
        self.assertEqual(sum(pages), 30)
        self.assertIn("Consistent reads", self.refused(
            "ValidationException", table.query, IndexName="GSI1", ConsistentRead=True,
            KeyConditionExpression=Key("GSI1PK").eq("OPEN")))

    def test_what_a_table_is_deployed_with_is_told(self):
        described = self.client.create_table(
            TableName="Deployed", BillingMode="PAY_PER_REQUEST", TableClass="STANDARD_INFREQUENT_ACCESS",
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "alias/own"})["TableDescription"]
        self.assertEqual(described["TableClassSummary"], {"TableClass": "STANDARD_INFREQUENT_ACCESS"})
        self.assertEqual(described["SSEDescription"], {"Status": "ENABLED", "SSEType": "KMS",
                                                       "KMSMasterKeyArn": "arn:aws:kms:local:000000000000:alias/own"})
        changed = self.client.update_table(TableName="Deployed", SSESpecification={"Enabled": False})
        self.assertNotIn("SSEDescription", changed["TableDescription"])
        self.client.delete_table(TableName="Deployed")

    def test_tables_change_in_use(self):
        table = self.table(sort=None)
        with table.batch_writer() as batch:
            for number in range(200):
                batch.put_item(Item={"p": f"k{number}", "g": f"g{number % 4}", "exp": 1})
        self.client.update_table(TableName="Shop", AttributeDefinitions=[{"AttributeName": "g", "AttributeType": "S"}],
                                 GlobalSecondaryIndexUpdates=[{"Create": {
                                     "IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                                     "Projection": {"ProjectionType": "KEYS_ONLY"}}}])
        until = time.monotonic() + 30
        while time.monotonic() < until:
            index = self.client.describe_table(TableName="Shop")["Table"]["GlobalSecondaryIndexes"][0]
            if index["IndexStatus"] == "ACTIVE":
                break
            time.sleep(0.05)
        self.assertEqual((index["IndexStatus"], index["ItemCount"]), ("ACTIVE", 200))
        self.assertEqual(table.query(IndexName="by-g", KeyConditionExpression=Key("g").eq("g1"))["Count"], 50)
        self.client.update_table(TableName="Shop", GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "by-g"}}])
        self.refused("ValidationException", table.query, IndexName="by-g", KeyConditionExpression=Key("g").eq("g1"))
        self.assertEqual(self.client.describe_time_to_live(TableName="Shop")["TimeToLiveDescription"],
                         {"TimeToLiveStatus": "DISABLED"})
        self.client.update_time_to_live(TableName="Shop", TimeToLiveSpecification={"AttributeName": "exp", "Enabled": True})
        self.assertEqual(self.client.describe_time_to_live(TableName="Shop")["TimeToLiveDescription"],
                         {"TimeToLiveStatus": "ENABLED", "AttributeName": "exp"})
        self.assertEqual(table.scan(Select="COUNT")["Count"], 200)  # more than five years ago: never expired

    def test_tables_have_tags(self):
        made = self.client.create_table(
            TableName="Shop", BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}], Tags=[{"Key": "team", "Value": "shop"}])
        arn = made["TableDescription"]["TableArn"]
        self.client.tag_resource(ResourceArn=arn, Tags=[{"Key": f"k{n}", "Value": str(n)} for n in range(49)])
        pages = list(self.client.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn))
        self.assertEqual([len(page["Tags"]) for page in pages], [50])
        self.assertIn("Number of Tags", self.refused("ValidationException", self.client.tag_resource, ResourceArn=arn,
                                                     Tags=[{"Key": "one more", "Value": ""}]))
        self.client.untag_resource(ResourceArn=arn, TagKeys=[f"k{n}" for n in range(49)] + ["none"])
        self.assertEqual(self.client.list_tags_of_resource(ResourceArn=arn)["Tags"], [{"Key": "team", "Value": "shop"}])
        self.refused("ResourceNotFoundException", self.client.list_tags_of_resource, ResourceArn=arn + "s")
        self.refused("ValidationException", self.client.list_tags_of_resource, ResourceArn=arn + "/index/x")

    def test_a_batch_reads_16_mb_at_most_and_names_what_it_left(self):
        table = self.table(sort=None)
        for begin in (0, 20):
            self.client.batch_write_item(RequestItems={"Shop": [
                {"PutRequest": {"Item": {"p": {"S": f"{number:02}"}, "v": {"S": "x" * 409500}}}} for number in range(begin, begin + 20 + begin // 20)]})
        keys = [{"p": {"S": f"{number:02}"}} for number in range(41)]  # 41 of them have 12 KB too many
        for _ in range(2):  # from the cache or not
            reply = self.client.batch_get_item(RequestItems={"Shop": {"Keys": keys[:40]}})
            self.assertEqual((len(reply["Responses"]["Shop"]), reply["UnprocessedKeys"]), (40, {}))
            reply = self.client.batch_get_item(RequestItems={"Shop": {"Keys": keys, "ProjectionExpression": "p, v"}})
            self.assertEqual(len(reply["Responses"]["Shop"]), 40)
            self.assertEqual(reply["UnprocessedKeys"], {"Shop": {"Keys": keys[40:], "ProjectionExpression": "p, v"}})
        self.assertEqual(table.get_item(Key={"p": "40"})["Item"]["p"], "40")

    def test_items_are_updated_and_written_under_conditions(self):
        table = self.table(sort=None)
        key = {"p": "c"}
        self.assertNotIn("Attributes", table.update_item(Key=key, UpdateExpression="SET a = :a, m = :m", ExpressionAttributeValues={
            ":a": 1, ":m": {"x": [1, "two"], "tags": {"red", "blue"}}}))
        self.assertEqual(table.update_item(
            Key=key, UpdateExpression="SET #a = #a + :n, m.x[2] = :s REMOVE m.x[0] ADD hits :n DELETE m.tags :red",
            ConditionExpression=Attr("a").lt(5) & Attr("m.tags").contains("red"),
            ExpressionAttributeNames={"#a": "a"}, ExpressionAttributeValues={":n": 2, ":s": None, ":red": {"red"}},
            ReturnValues="ALL_NEW")["Attributes"],
            {"p": "c", "a": 3, "hits": 2, "m": {"x": ["two", None], "tags": {"blue"}}})
        self.assertEqual(table.update_item(Key=key, UpdateExpression="REMOVE hits", ReturnValues="UPDATED_OLD")["Attributes"],
                         {"hits": 2})
        self.refused("ConditionalCheckFailedException", table.update_item, Key=key, UpdateExpression="SET a = :z",
                     ConditionExpression=Attr("a").eq(0), ExpressionAttributeValues={":z": 0})
        with self.assertRaises(self.client.exceptions.ConditionalCheckFailedException):
            table.put_item(Item=key, ConditionExpression=Attr("p").not_exists())
        self.assertEqual(table.get_item(Key=key, ProjectionExpression="a, m.x[0]")["Item"], {"a": 3, "m": {"x": ["two"]}})
        self.refused("ConditionalCheckFailedException", table.delete_item, Key=key, ConditionExpression=Attr("a").gt(3))
        self.assertEqual(table.delete_item(Key=key, ConditionExpression=Attr("a").between(3, 4), ReturnValues="ALL_OLD")[
            "Attributes"]["a"], 3)
        self.assertNotIn("Item", table.get_item(Key=key))

    def test_parameters_older_than_expressions_do_the_same(self):
        table = self.table(sort="N")
        for n in range(6):
            item = {"p": "c", "s": n, "name": f"n{n}", "tags": {f"t{n % 2}", "all"}}
            table.put_item(Item={**item, "odd": True} if n % 2 else item)
        here = {"p": {"AttributeValueList": ["c"], "ComparisonOperator": "EQ"}}

        def found(**more):
            return [int(item["s"]) for item in table.query(KeyConditions=here, **more)["Items"]]

        def filtered(operator, *values, name="name", **more):
            condition = {"ComparisonOperator": operator, **({"AttributeValueList": list(values)} if values else {})}
            return found(QueryFilter={name: condition}, **more)

        self.assertEqual(found(), list(range(6)))
        self.assertEqual([int(item["s"]) for item in table.query(KeyConditions={**here, "s": {
            "AttributeValueList": [2, 3], "ComparisonOperator": "BETWEEN"}}, ScanIndexForward=False)["Items"]], [3, 2])
        for operator, values, wanted in (
                ("EQ", ["n1"], [1]), ("NE", ["n1"], [0, 2, 3, 4, 5]), ("LT", ["n2"], [0, 1]), ("LE", ["n2"], [0, 1, 2]),
                ("GT", ["n4"], [5]), ("GE", ["n4"], [4, 5]), ("BETWEEN", ["n1", "n3"], [1, 2, 3]), ("BEGINS_WITH", ["n"], list(range(6))),
                ("IN", ["n5", "n0", "x"], [0, 5]), ("CONTAINS", ["3"], [3]), ("NOT_CONTAINS", ["3"], [0, 1, 2, 4, 5])):
            self.assertEqual(filtered(operator, *values), wanted, operator)
        self.assertEqual(filtered("NULL", name="odd"), [0, 2, 4])
        self.assertEqual(filtered("NOT_NULL", name="odd"), [1, 3, 5])
        self.assertEqual(filtered("NE", True, name="odd"), [0, 2, 4])  # also where there is none
        self.assertEqual(filtered("NOT_CONTAINS", "x", name="none"), list(range(6)))
        self.assertEqual(filtered("CONTAINS", "t1", name="tags"), [1, 3, 5])
        both = {"name": {"ComparisonOperator": "GT", "AttributeValueList": ["n3"]}, "odd": {"ComparisonOperator": "NULL"}}
        self.assertEqual(found(QueryFilter=both), [4])
        self.assertEqual(found(QueryFilter=both, ConditionalOperator="OR"), [0, 2, 4, 5])
        self.assertEqual(table.query(KeyConditions=here, AttributesToGet=["name"], Limit=1)["Items"], [{"name": "n0"}])

        key = {"p": "c", "s": 0}
        self.assertEqual(table.get_item(Key=key, AttributesToGet=["name", "none"])["Item"], {"name": "n0"})
        new = {"p": "new", "s": 1}
        table.put_item(Item=new, Expected={"p": {"Exists": False}})
        self.refused("ConditionalCheckFailedException", table.put_item, Item=new, Expected={"p": {"Exists": False}})
        self.assertEqual(table.update_item(
            Key=new, ReturnValues="ALL_NEW", Expected={"a": {"ComparisonOperator": "NULL"}, "p": {"Value": "new"}},
            AttributeUpdates={"a": {"Value": 1}, "l": {"Action": "ADD", "Value": ["x"]}, "n": {"Action": "ADD", "Value": 5},
                              "t": {"Action": "ADD", "Value": {"r", "b"}}})["Attributes"],
            {**new, "a": 1, "l": ["x"], "n": 5, "t": {"r", "b"}})
        self.assertEqual(table.update_item(
            Key=new, ReturnValues="UPDATED_NEW", AttributeUpdates={
                "a": {"Action": "DELETE"}, "l": {"Action": "ADD", "Value": ["y"]}, "n": {"Action": "ADD", "Value": -2},
                "t": {"Action": "DELETE", "Value": {"r"}}})["Attributes"],
            {"l": ["x", "y"], "n": 3, "t": {"b"}})
        for name, action, value in (("n", "ADD", {"b"}), ("t", "ADD", 1), ("t", "ADD", {1}), ("t", "DELETE", {1}),
                                    ("n", "DELETE", {"b"}), ("n", "ADD", ["x"]), ("l", "ADD", 1)):
            self.assertIn("Type mismatch for attribute to update", self.refused(
                "ValidationException", table.update_item, Key=new,
                AttributeUpdates={name: {"Action": action, "Value": value}}))
        for action, value in (("ADD", "x"), ("ADD", True), ("DELETE", 1)):
            self.assertIn(f"{action} action {'with value ' if action == 'DELETE' else ''}is not supported for the type",
                          self.refused("ValidationException", table.update_item, Key=new,
                                       AttributeUpdates={"n": {"Action": action, "Value": value}}))
        for expected, operator, is_right in (
                ({"n": {"Value": 3}}, "AND", True), ({"n": {"Value": 4}}, "AND", False), ({"n": {"Exists": False}}, "AND", False),
                ({"n": {"Value": 4}, "a": {"Exists": False}}, "AND", False), ({"n": {"Value": 4}, "a": {"Exists": False}}, "OR", True),
                ({"n": {"AttributeValueList": [3, 4], "ComparisonOperator": "IN"}}, "AND", True)):
            call = {"Key": new, "Expected": expected, "ConditionalOperator": operator, "AttributeUpdates": {}}
            if is_right:
                table.update_item(**call)
            else:
                self.refused("ConditionalCheckFailedException", table.update_item, **call)
        self.refused("ConditionalCheckFailedException", table.delete_item, Key=new, Expected={"n": {"Value": 4}})
        self.assertEqual(table.delete_item(Key=new, Expected={"n": {"Value": 3}}, ReturnValues="ALL_OLD")["Attributes"]["n"], 3)
        self.assertIn("Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}", self.refused(
            "ValidationException", table.get_item, Key=key, AttributesToGet=["a"], ProjectionExpression="a"))

    def test_tables_and_indexes_are_scanned(self):
        self.resource.create_table(
            TableName="Shop", BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "p", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}],
            GlobalSecondaryIndexes=[{"IndexName": "ByG", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                                     "Projection": {"ProjectionType": "ALL"}}])
        table = self.resource.Table("Shop")
        for n in range(20):
            table.put_item(Item={"p": f"k{n}", "n": n, **({"g": f"g{n % 2}"} if n < 6 else {})})

        def found(**more):
            return sorted(int(item["n"]) for item in table.scan(**more)["Items"])

        self.assertEqual(found(), list(range(20)))
        self.assertEqual(found(FilterExpression=Attr("n").lt(3)), [0, 1, 2])
        self.assertEqual(found(ScanFilter={"p": {"AttributeValueList": ["k1"], "ComparisonOperator": "BEGINS_WITH"}}),
                         [1, *range(10, 20)])
        self.assertEqual(found(IndexName="ByG"), list(range(6)))
        self.assertEqual(sorted(n for segment in range(3) for n in found(Segment=segment, TotalSegments=3)), list(range(20)))
        self.refused("ValidationException", table.scan, Segment=0)
        self.refused("ValidationException", table.scan, Segment=2, TotalSegments=2)
        pages = self.client.get_paginator("scan").paginate(TableName="Shop", PaginationConfig={"PageSize": 7})
        self.assertEqual(sorted(int(item["n"]["N"]) for page in pages for item in page["Items"]), list(range(20)))
        self.assertEqual(table.scan(Select="COUNT")["Count"], 20)
        self.assertEqual(sorted(int(item["n"]) for item in table.query(
            IndexName="ByG", KeyConditionExpression=Key("g").eq("g1"))["Items"]), [1, 3, 5])
        self.assertEqual(len(table.query(IndexName="ByG", KeyConditions={
            "g": {"AttributeValueList": ["g0"], "ComparisonOperator": "EQ"}})["Items"]), 3)

    def test_queries_are_filtered_projected_and_counted(self):
        table = self.table(sort="N")
        for n in range(6):
            table.put_item(Item={"p": "c", "s": n, "even": n % 2 == 0, "name": f"n{n}"})
        query = {"KeyConditionExpression": Key("p").eq("c")}
        page = table.query(**query, FilterExpression=Attr("even").eq(True), ProjectionExpression="#n",
                           ExpressionAttributeNames={"#n": "name"})
        self.assertEqual(page["Items"], [{"name": "n0"}, {"name": "n2"}, {"name": "n4"}])
        self.assertEqual((page["Count"], page["ScannedCount"]), (3, 6))
        page = table.query(**query, FilterExpression=Attr("name").begins_with("n") & ~Attr("even").eq(True), Limit=3)
        self.assertEqual(([item["s"] for item in page["Items"]], page["ScannedCount"], page["LastEvaluatedKey"]),
                         ([1], 3, {"p": "c", "s": 2}))
        count = table.query(**query, FilterExpression=Attr("s2").not_exists(), Select="COUNT")
        self.assertNotIn("Items", count)
        self.assertEqual((count["Count"], count["ScannedCount"]), (6, 6))
        table.update_item(Key={"p": "c", "s": 1}, UpdateExpression="SET even = :t", ExpressionAttributeValues={":t": True})
        self.assertEqual(table.query(**query, FilterExpression=Attr("even").eq(True), Select="COUNT")["Count"], 4)

    def test_many_threads_share_a_client(self):
        table = self.table(sort=None)
        client = self.client

        def work(worker):
            for turn in range(20):
                key = {"p": {"S": f"k{worker}"}}
                client.put_item(TableName="Shop", Item={**key, "n": {"N": str(turn)}})
                if client.get_item(TableName="Shop", Key=key)["Item"]["n"]["N"] != str(turn):
                    return False
            return True

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(work, range(16))), [True] * 16)
        self.assertEqual(table.get_item(Key={"p": "k3"})["Item"]["n"], 19)


class Cli(OverHttp):
    def test_the_cli_works_unmodified(self):
        made = self.aws("create-table", "--table-name", "Shop", "--billing-mode", "PAY_PER_REQUEST",
                        "--attribute-definitions", "AttributeName=p,AttributeType=S", "AttributeName=s,AttributeType=N",
                        "--key-schema", "AttributeName=p,KeyType=HASH", "AttributeName=s,KeyType=RANGE")
        self.assertEqual(made["TableDescription"]["TableStatus"], "ACTIVE")
        item = {"p": {"S": "c"}, "s": {"N": "1"}, "tags": {"SS": ["a", "b"]}}
        self.assertEqual(self.aws("put-item", "--table-name", "Shop", "--item", json.dumps(item)), {})
        key = json.dumps({"p": {"S": "c"}, "s": {"N": "1"}})
        self.assertEqual(self.aws("get-item", "--table-name", "Shop", "--key", key), {"Item": item})
        page = self.aws("query", "--table-name", "Shop", "--key-condition-expression", "p = :p AND s BETWEEN :a AND :b",
                        "--expression-attribute-values", '{":p": {"S": "c"}, ":a": {"N": "0"}, ":b": {"N": "9"}}')
        self.assertEqual((page["Items"], page["Count"]), ([item], 1))
        self.assertEqual(self.aws("delete-item", "--table-name", "Shop", "--key", key), {})
        self.assertEqual(self.aws("get-item", "--table-name", "Shop", "--key", key), {})
        self.assertEqual(self.aws("scan", "--table-name", "Shop")["Items"], [])
        self.assertIn("(UnknownOperationException)", self.aws("list-backups"))
        self.assertIn("(ResourceNotFoundException)", self.aws("describe-table", "--table-name", "None"))


class Raw(OverHttp):
    """Bytes, without an SDK."""

    @staticmethod
    def request(operation, body, *fields):
        body = json.dumps(body).encode()
        head = ["POST / HTTP/1.1", "Host: x", f"X-Amz-Target: DynamoDB_20120810.{operation}", *fields,
                f"Content-Length: {len(body)}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        return connection, connection.makefile("rb")

    @staticmethod
    def head(stream):
        status = int(stream.readline().split()[1])
        return status, dict(line.decode().strip().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n")), b""

    def reply(self, stream):
        """Status, header fields, body."""
        status, fields, _ = self.head(stream)
        body = stream.read(int(fields.get("content-length", 0)))
        if body:
            self.assertEqual(int(fields["x-amz-crc32"]), zlib.crc32(body))
        return status, fields, body


class Wire(Raw):
    """What SDKs do not do, or not so that one can see it."""
    store = "memory:?delay=20ms"

    def test_replies_come_in_the_order_of_requests(self):
        self.table(sort=None)
        connection, stream = self.connect()
        wanted, sent = [], b""
        for number in range(20):
            key = {"p": {"S": f"k{number}"}}
            sent += self.request("PutItem", {"TableName": "Shop", "Item": key})
            sent += self.request("ListTables", {})  # needs no store, and waits all the same
            sent += self.request("GetItem", {"TableName": "Shop", "Key": key})
            sent += self.request("GetItem", {"TableName": "None", "Key": key})
            sent += b"GET / HTTP/1.1\r\n\r\n"
            wanted += [(200, {}), (200, {"TableNames": ["Shop"]}), (200, {"Item": key}), (400, None), (200, None)]
        connection.sendall(sent)
        ids = set()
        for status, body in wanted:
            got = self.reply(stream)
            self.assertEqual(got[0], status)
            ids.add(got[1]["x-amzn-requestid"])
            if body is not None:
                self.assertEqual(json.loads(got[2]), body)
        self.assertEqual(len(ids), len(wanted))
        connection.close()

    def test_what_is_far_too_much_is_a_validation_error_over_either_protocol(self):
        self.table("Shop", sort=None)
        many, arn = range(100000), "arn:aws:dynamodb:local:000000000000:table/Shop"
        keys = [{"p": {"S": str(n)}} for n in many]
        attributes = [{"AttributeName": f"a{n}", "AttributeType": "S"} for n in many]
        shop = {"TableName": "Shop"}
        made = {"TableName": "Made", "BillingMode": "PAY_PER_REQUEST", "AttributeDefinitions": attributes[:1],
                "KeySchema": [{"AttributeName": "a0", "KeyType": "HASH"}]}
        definitions = [
            ("TagResource", native.TAG, {"ResourceArn": arn, "Tags": [{"Key": f"k{n}", "Value": ""} for n in many]}),
            ("UntagResource", native.TAG + 1, {"ResourceArn": arn, "TagKeys": [f"k{n}" for n in many]}),
            ("CreateTable", native.CREATE, {**made, "AttributeDefinitions": attributes}),
            ("CreateTable", native.CREATE, {**made, "KeySchema": made["KeySchema"] * 100000}),
            ("UpdateTable", 18, {**shop, "AttributeDefinitions": attributes}),
            ("UpdateTable", 18, {**shop, "OnDemandThroughput": {f"m{n}": 1 for n in many}}),
            ("UpdateTable", 18, {**shop, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": f"i{n}"}} for n in many]}),
            ("UpdateTimeToLive", 19, {**shop, "TimeToLiveSpecification": {f"m{n}": True for n in many}})]
        connection, stream = self.connect()
        for operation, body in [(operation, body) for operation, _, body in definitions] + [
                ("BatchGetItem", {"RequestItems": {"Shop": {"Keys": keys}}}),
                ("BatchGetItem", {"RequestItems": {f"T{n}": {"Keys": keys[:1]} for n in many}}),
                ("BatchWriteItem", {"RequestItems": {"Shop": [{"PutRequest": {"Item": key}} for key in keys]}}),
                ("TransactGetItems", {"TransactItems": [{"Get": {**shop, "Key": key}} for key in keys]}),
                ("TransactWriteItems", {"TransactItems": [{"Delete": {**shop, "Key": key}} for key in keys]}),
                ("GetItem", {**shop, "Key": keys[0], "ProjectionExpression": "#a1",
                             "ExpressionAttributeNames": {f"#a{n}": f"a{n}" for n in many}}),
                ("PutItem", {**shop, "Item": keys[0], "ConditionExpression": "a = :a1",
                             "ExpressionAttributeValues": {f":a{n}": {"S": "v"} for n in many}})]:
            connection.sendall(self.request(operation, body))
            status, _, body = self.reply(stream)
            self.assertEqual((operation, status, json.loads(body)["__type"].split("#")[1]),
                             (operation, 400, "ValidationException"))
        connection.close()
        table, parts = {native.TABLE: "Shop"}, native.PARTS
        for operation, parameters in [(operation, {native.DEFINITION: body}) for _, operation, body in definitions] + [
                (13, {parts: [[native.GET, {**table, native.KEY: {"p": str(n)}}] for n in many]}),
                (14, {parts: [[native.PUT, {**table, native.ITEM: {"p": str(n)}}] for n in many]}),
                (15, {parts: [[native.GET, {**table, native.KEY: {"p": str(n)}}] for n in many]}),
                (16, {parts: [[native.PUT, {**table, native.ITEM: {"p": str(n)}}] for n in many]}),
                (native.PUT, {**table, native.ITEM: {"p": "0"}, 18: "#a1 = :a", native.VALUES: {":a": 0},
                              native.NAMES: {f"#a{n}": f"a{n}" for n in many}})]:
            with self.assertRaises(native.Refused) as caught:
                self.native.call(operation, parameters)
            self.assertEqual((operation, caught.exception.status), (operation, 1))  # ValidationException

    def test_a_connection_ends_after_the_reply_that_was_to_be_the_last(self):
        self.table(sort=None)
        slow = self.request("GetItem", {"TableName": "Shop", "Key": {"p": {"S": "k"}}}, "Connection: close")
        for sent in (slow, self.request("ListTables", {}, "Connection: close"), b"GET / HTTP/1.0\r\n\r\n",
                     self.request("Nothing", {}, "Connection: close")):
            connection, stream = self.connect()
            connection.sendall(sent + self.request("ListTables", {}))
            _, fields, _ = self.reply(stream)
            self.assertEqual(fields["connection"], "close")
            self.assertEqual(stream.read(), b"")
            connection.close()

    def test_bytes_may_come_one_by_one_and_chunks_too(self):
        self.table(sort=None)
        connection, stream = self.connect()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = self.request("ListTables", {})
        chunked = (b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.DescribeTable\r\nTransfer-Encoding: chunked\r\n\r\n"
                   b"5\r\n{\"Tab\r\n10\r\nleName\": \"Shop\"}\r\n0\r\n\r\n")
        for byte in whole + chunked:
            connection.sendall(bytes([byte]))
        self.assertEqual(json.loads(self.reply(stream)[2]), {"TableNames": ["Shop"]})
        self.assertEqual(json.loads(self.reply(stream)[2])["Table"]["TableName"], "Shop")
        connection.close()

    def test_who_waits_for_it_is_told_to_go_on(self):
        connection, stream = self.connect()
        head, body = self.request("ListTables", {}, "Expect: 100-continue").split(b"\r\n\r\n")
        for _ in range(2):
            connection.sendall(head + b"\r\n\r\n")
            self.assertEqual(stream.readline() + stream.readline(), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertEqual(json.loads(self.reply(stream)[2]), {"TableNames": []})
        connection.close()

    def test_bodies_may_be_packed_and_have_16_mb(self):
        self.table(sort=None)
        item = {"p": {"S": "k"}, "d": {"S": "x" * 100000}}
        connection, stream = self.connect()
        for size, status in ((16 << 20, 200), ((16 << 20) + 1, 413)):
            body = json.dumps({"TableName": "Shop", "Item": item}).encode()
            packed = gzip.compress(body + b" " * (size - len(body)))
            connection.sendall(b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.PutItem\r\nContent-Encoding: gzip\r\n"
                               b"Content-Length: %d\r\n\r\n" % len(packed) + packed)
            self.assertEqual(self.reply(stream)[0], status)
        body = b'{"TableName": "Shop", "Key": {"p": {"S": "k"}}}'
        connection.sendall(b"POST / HTTP/1.1\r\nX-Amz-Target: DynamoDB_20120810.GetItem\r\n"
                           b"Content-Length: %d\r\n\r\n" % (16 << 20) + body + b"\n" * ((16 << 20) - len(body)))
        self.assertEqual(json.loads(self.reply(stream)[2])["Item"], item)
        connection.close()

    def test_older_clients_may_keep_their_connection(self):
        connection, stream = self.connect()
        for method, size in ((b"GET", 18), (b"HEAD", 0), (b"GET", 18)):
            connection.sendall(method + b" / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
            status, fields, _ = self.reply(stream) if size else self.head(stream)
            self.assertEqual((status, fields["connection"]), (200, "keep-alive"))
        connection.close()

    def test_nonsense_is_answered_once(self):
        for sent, status in ((b"\x16\x03\x01\x02\x00\x01\x00", 400), (b"HELLO\r\n\r\n", 400),
                             (b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
                             (b"GET / HTTP/1.1\r\nX: " + b"x" * 20000, 431)):
            connection, stream = self.connect()
            connection.sendall(sent)
            got = self.reply(stream)
            self.assertEqual((got[0], got[1]["connection"]), (status, "close"))
            self.assertIn("message", json.loads(got[2].lower()))
            self.assertEqual(stream.read(), b"")
            connection.close()
        self.assertEqual(self.client.list_tables()["TableNames"], [])


class Signed(Raw):
    """With keys: they are in a file, which SIGHUP makes the daemon read again."""

    def write_keys(self, *keys):
        with open(os.path.join(self.folder, "mudaxd.ini"), "w", encoding="utf8") as file:
            file.writelines(f"access_key = {key}\n" for key in keys)

    def arguments(self):
        self.write_keys("nobody:checks/this+or=")
        return ("--config", os.path.join(self.folder, "mudaxd.ini"))

    def client_with(self, key, secret):
        return boto3.client("dynamodb", endpoint_url=self.url, **{
            **SETTINGS, "aws_access_key_id": key, "aws_secret_access_key": secret})

    def test_what_the_wire_answers_is_signed_too(self):
        self.assertEqual(self.client.describe_limits()["TableMaxReadCapacityUnits"], 40000)
        self.assertEqual(self.client.describe_endpoints()["Endpoints"][0]["Address"], f"127.0.0.1:{self.port}")
        self.refused("UnrecognizedClientException", self.client_with("somebody", "x").describe_limits)

    def test_who_has_no_key_is_refused(self):
        table = self.table()
        item = {"p": "k", "s": "\u00e9", "n": [1, {"x": None}]}
        table.put_item(Item=item)
        self.assertEqual(table.get_item(Key={"p": "k", "s": "\u00e9"})["Item"], item)
        self.assertEqual(self.client_with("nobody", "checks/this+or=").list_tables()["TableNames"], ["Shop"])
        self.assertIn("does not match", self.refused(
            "InvalidSignatureException", self.client_with("nobody", "checks that").list_tables))
        self.assertIn("security token", self.refused(
            "UnrecognizedClientException", self.client_with("somebody", "checks/this+or=").list_tables))
        connection, stream = self.connect()
        connection.sendall(self.request("ListTables", {}) + b"GET / HTTP/1.1\r\n\r\n")
        status, _, body = self.reply(stream)
        self.assertEqual(status, 400)
        self.assertIn("#MissingAuthenticationTokenException", json.loads(body)["__type"])
        self.assertEqual(self.reply(stream)[0], 200)
        connection.close()

    def test_keys_are_read_again(self):
        self.write_keys("new:secret", "newer:secret")
        self.daemon.process.send_signal(signal.SIGHUP)
        client = self.client_with("new", "secret")
        until = time.monotonic() + 10
        while True:
            try:
                self.assertEqual(client.list_tables()["TableNames"], [])
                break
            except botocore.exceptions.ClientError:
                self.assertLess(time.monotonic(), until)
        self.refused("UnrecognizedClientException", self.client.list_tables)
        self.assertEqual(self.client_with("newer", "secret").list_tables()["TableNames"], [])


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")  # the SDK leaves its sockets to the collector
