#!/usr/bin/env python3
"""The command line against a real daemon: every verb, its output, its errors, its exit codes.

    cli_test.py MUDAX MUDAXD MODEL
"""
import gzip
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MUDAX, MUDAXD, MODEL = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
# Further models, where they are at hand: a folder beside the checkout's.
MODELS = pathlib.Path(os.environ.get("MUDAX_MODELS", MODEL.parents[3].parent / "shared" / "models"))


class Daemon:
    """Ends only what it started. The store is a database on disk, so that it outlives restarts."""

    def __init__(self, *arguments):
        self.arguments = arguments
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mudax-cli-", dir="/tmp"))
        self.url = f"mudax+unix:{self.folder}/socket"
        self.process = None

    def start(self):
        (self.folder / "socket").unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [MUDAXD, "--listen", self.url, "--store", f"rocksdb:{self.folder}/data", "--store-memory", "16M",
                 "--cache-memory", "16M", *self.arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 30
        while run("ping", url=self.url).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)

    def end(self, number=signal.SIGTERM):
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(30)
            self.process = None

    def close(self):
        self.end()
        shutil.rmtree(self.folder)


def run(*words, url, text_in=""):
    environment = dict(os.environ, MUDAX_URL=url)
    return subprocess.run([MUDAX, *words], env=environment, input=text_in, capture_output=True, text=True, timeout=60)


class CommandLine(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.daemon.start()

    @classmethod
    def tearDownClass(cls):
        cls.daemon.close()

    def mudax(self, *words, code=0):
        done = run(*words, url=self.daemon.url)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def json(self, *words):
        return json.loads(self.mudax(*words).stdout)

    def refused(self, code, text, *words):
        done = self.mudax(*words, code=code)
        self.assertEqual(done.stdout, "")
        self.assertIn(text, done.stderr)

    def own_daemon(self, *arguments):
        daemon = Daemon(*arguments)
        self.addCleanup(daemon.close)
        daemon.start()
        return daemon

    def create(self, name, sort=False):
        definitions = ["AttributeName=p,AttributeType=S"] + ["AttributeName=s,AttributeType=N"] * sort
        schema = ["AttributeName=p,KeyType=HASH"] + ["AttributeName=s,KeyType=RANGE"] * sort
        return self.json("create-table", "--table-name", name, "--attribute-definitions", *definitions,
                         "--key-schema", *schema, "--billing-mode", "PAY_PER_REQUEST")

    def test_ping_answers(self):
        self.assertEqual(self.mudax("ping").stdout, "PONG\n")

    def test_a_table_is_made_described_listed_and_deleted(self):
        made = self.create("Life", sort=True)["TableDescription"]
        self.assertEqual(made["TableName"], "Life")
        self.assertEqual(made["KeySchema"], [{"AttributeName": "p", "KeyType": "HASH"},
                                             {"AttributeName": "s", "KeyType": "RANGE"}])
        self.assertEqual(self.json("describe-table", "--table-name", "Life")["Table"]["TableStatus"], "ACTIVE")
        self.assertIn("Life", self.json("list-tables")["TableNames"])
        self.refused(254, "An error occurred (ResourceInUseException) when calling the CreateTable operation: ",
                     "create-table", "--table-name", "Life", "--attribute-definitions",
                     '[{"AttributeName": "p", "AttributeType": "S"}]', "--key-schema",
                     "AttributeName=p,KeyType=HASH", "--billing-mode", "PAY_PER_REQUEST")
        self.assertEqual(self.json("delete-table", "--table-name", "Life")["TableDescription"]["TableName"], "Life")
        self.refused(254, "(ResourceNotFoundException) when calling the DescribeTable operation",
                     "describe-table", "--table-name", "Life")

    def test_tables_are_listed_page_by_page(self):
        for name in ("PageA", "PageB", "PageC"):
            self.create(name)
        first = self.json("list-tables", "--limit", "1", "--exclusive-start-table-name", "PageA")
        self.assertEqual(first, {"TableNames": ["PageB"], "LastEvaluatedTableName": "PageB"})

    def test_provisioned_throughput_and_tags_reach_the_daemon(self):
        made = self.json("create-table", "--table-name", "Provisioned", "--attribute-definitions",
                         "AttributeName=p,AttributeType=S", "--key-schema", "AttributeName=p,KeyType=HASH",
                         "--provisioned-throughput", "ReadCapacityUnits=5,WriteCapacityUnits=6",
                         "--tags", "Key=team,Value=shop", "Key=cost,Value=7",
                         "--stream-specification", "StreamEnabled=true,StreamViewType=NEW_IMAGE",
                         "--sse-specification", "Enabled=true", "--warm-throughput", "ReadUnitsPerSecond=9")
        self.assertEqual(made["TableDescription"]["ProvisionedThroughput"]["WriteCapacityUnits"], 6)
        self.assertEqual(made["TableDescription"]["StreamSpecification"],
                         {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"})
        exported = json.loads(self.mudax("export", "--table-name", "Provisioned", "--definition").stdout.splitlines()[0])
        self.assertIn('"StreamViewType": "NEW_IMAGE"', json.dumps(exported))
        self.assertIn('"SSESpecification": {"Enabled": true, "KMSMasterKeyId": '
                      '"arn:aws:kms:local:000000000000:alias/aws/dynamodb", "SSEType": "KMS"}', json.dumps(exported))
        self.assertEqual(made["TableDescription"]["WarmThroughput"],
                         {"ReadUnitsPerSecond": 9, "Status": "ACTIVE", "WriteUnitsPerSecond": 6})
        arn = ("--resource-arn", made["TableDescription"]["TableArn"])
        self.assertEqual(self.json("list-tags-of-resource", *arn),
                         {"Tags": [{"Key": "team", "Value": "shop"}, {"Key": "cost", "Value": "7"}]})
        self.refused(254, "(ValidationException) when calling the TagResource operation: The Tag Value provided is invalid, "
                     "Value: a, b", "tag-resource", *arn, "--tags", '[{"Key": "team", "Value": "a, b"}]')
        self.assertEqual(self.mudax("tag-resource", *arn, "--tags", "Key=team,Value=new").stdout, "")
        self.assertEqual(self.mudax("untag-resource", *arn, "--tag-keys", "cost", "none").stdout, "")
        self.assertEqual(self.mudax("untag-resource", *arn, "--tag-keys", '["none"]').stdout, "")
        self.assertEqual(self.json("list-tags-of-resource", *arn), {"Tags": [{"Key": "team", "Value": "new"}]})
        self.refused(254, "(ResourceNotFoundException) when calling the ListTagsOfResource operation",
                     "list-tags-of-resource", "--resource-arn", arn[1] + "s")

    def test_an_item_is_put_got_and_deleted(self):
        self.create("Items")
        item = {"p": {"S": "a"}, "n": {"N": "12.5"}, "b": {"B": "AP8="}, "t": {"BOOL": True}, "z": {"NULL": True},
                "l": {"L": [{"S": "x"}, {"M": {"k": {"N": "1"}}}]}, "ss": {"SS": ["a", "b"]}}
        key = ("--table-name", "Items", "--key", '{"p": {"S": "a"}}')
        self.assertEqual(self.mudax("put-item", "--table-name", "Items", "--item", json.dumps(item)).stdout, "")
        got = self.mudax("get-item", *key)
        self.assertEqual(json.loads(got.stdout), {"Item": item})
        self.assertTrue(got.stdout.startswith('{\n    "Item": {\n        "b": {\n            "B": "AP8="\n'))
        self.assertEqual(self.json("get-item", *key, "--consistent-read"), {"Item": item})
        self.assertEqual(self.mudax("delete-item", *key).stdout, "")
        self.assertEqual(self.mudax("get-item", *key).stdout, "")

    def test_an_item_is_updated_under_conditions(self):
        self.create("Updates")
        key = ("--table-name", "Updates", "--key", '{"p": {"S": "a"}}')
        one = ("--expression-attribute-values", '{":one": {"N": "1"}}')
        self.assertEqual(self.mudax("update-item", *key, "--update-expression", "ADD n :one", *one).stdout, "")
        self.assertEqual(self.json("update-item", *key, "--update-expression", "SET #t = n + :one REMOVE gone",
                                   "--expression-attribute-names", '{"#t": "total"}', *one,
                                   "--condition-expression", "n = :one", "--return-values", "UPDATED_NEW"),
                         {"Attributes": {"total": {"N": "2"}}})
        self.refused(254, "(ConditionalCheckFailedException) when calling the UpdateItem operation: The conditional "
                     "request failed", "update-item", *key, "--condition-expression", "attribute_not_exists(p)")
        self.refused(252, "'--return-values': there is no OLD", "update-item", *key, "--return-values", "OLD")
        self.refused(254, "(ConditionalCheckFailedException) when calling the PutItem operation", "put-item",
                     "--table-name", "Updates", "--item", '{"p": {"S": "a"}}', "--condition-expression",
                     "attribute_not_exists(p)")
        self.assertEqual(self.json("get-item", *key, "--projection-expression", "n"), {"Item": {"n": {"N": "1"}}})
        self.assertEqual(self.json("delete-item", *key, "--return-values", "ALL_OLD"),
                         {"Attributes": {"n": {"N": "1"}, "p": {"S": "a"}, "total": {"N": "2"}}})

    def test_a_query_is_filtered_projected_and_counted(self):
        self.create("Filters")
        self.mudax("put-item", "--table-name", "Filters", "--item", '{"p": {"S": "a"}, "n": {"N": "1"}}')
        query = ("query", "--table-name", "Filters", "--key-condition-expression", "p = :p")
        values = ("--expression-attribute-values", '{":p": {"S": "a"}, ":n": {"N": "1"}}')
        self.assertEqual(self.json(*query, *values, "--filter-expression", "n > :n"),
                         {"Items": [], "Count": 0, "ScannedCount": 1})
        self.assertEqual(self.json(*query, *values, "--filter-expression", "n = :n", "--projection-expression", "n"),
                         {"Items": [{"n": {"N": "1"}}], "Count": 1, "ScannedCount": 1})
        self.assertEqual(self.json(*query, *values, "--filter-expression", "n = :n", "--select", "COUNT"),
                         {"Count": 1, "ScannedCount": 1})
        self.assertEqual(self.json(*query, *values, "--filter-expression", "n > :n", "--select", "COUNT"),
                         {"Count": 0, "ScannedCount": 1})

    def test_a_table_is_scanned_in_segments(self):
        self.create("Scans")
        for name in "abcdefgh":
            self.mudax("put-item", "--table-name", "Scans", "--item", json.dumps({"p": {"S": name}}))
        names = []
        for segment in "012":
            page = self.json("scan", "--table-name", "Scans", "--segment", segment, "--total-segments", "3")
            names += [item["p"]["S"] for item in page["Items"]]
        self.assertEqual(sorted(names), list("abcdefgh"))
        page = self.json("scan", "--table-name", "Scans", "--filter-expression", "p > :p",
                         "--expression-attribute-values", '{":p": {"S": "f"}}', "--return-consumed-capacity", "TOTAL")
        self.assertEqual((page["Count"], page["ScannedCount"]), (2, 8))
        self.assertEqual(page["ConsumedCapacity"], {"TableName": "Scans", "CapacityUnits": 0.5})
        self.refused(252, "--segment and --total-segments go together", "scan", "--table-name", "Scans",
                     "--segment", "0")

    def test_an_item_nests_32_levels_however_it_comes(self):
        def nested(key, levels):
            value = {"S": "x"}
            for _ in range(levels - 1):
                value = {"L": [value]}
            return {"p": {"S": key}, "a": value}
        self.create("Nested")
        puts = {"put-item": lambda item: ("--table-name", "Nested", "--item", json.dumps(item)),
                "batch-write-item": lambda item: ("--request-items", json.dumps({"Nested": [{"PutRequest": {"Item": item}}]})),
                "transact-write-items": lambda item: ("--transact-items", json.dumps([{"Put": {"TableName": "Nested",
                                                                                               "Item": item}}]))}
        for verb, words in puts.items():
            self.mudax(verb, *words(nested(verb, 32)))
            self.refused(252, "Nesting Levels have exceeded supported limits", verb, *words(nested(verb, 33)))
        self.mudax("batch-write-item", "--cli-input-json", json.dumps({"RequestItems": {"Nested": [
            {"PutRequest": {"Item": nested("input", 32)}}]}}))
        path = self.daemon.folder / "nested.json"
        for levels in (32, 33):
            table = {"TableName": f"Nested{levels}", "KeyAttributes": {"PartitionKey": {"AttributeName": "p", "AttributeType": "S"}},
                     "TableData": [nested("model", levels)]}
            path.write_text(json.dumps({"DataModel": [table]}))
            done = run("import", str(path), url=self.daemon.url)
            self.assertEqual(done.returncode == 0, levels == 32, done.stderr)
        for key in (*puts, "input"):
            got = self.json("get-item", "--table-name", "Nested", "--key", json.dumps({"p": {"S": key}}))
            self.assertEqual(got["Item"], nested(key, 32))
        got = self.json("get-item", "--table-name", "Nested32", "--key", json.dumps({"p": {"S": "model"}}))
        self.assertEqual(got["Item"], nested("model", 32))

    def test_a_batch_is_written_and_read(self):
        self.create("Batches")
        items = [{"p": {"S": str(number)}, "n": {"N": "1"}} for number in range(3)]
        written = self.json("batch-write-item", "--request-items", json.dumps({"Batches": [
            {"PutRequest": {"Item": item}} for item in items] + [{"DeleteRequest": {"Key": {"p": {"S": "9"}}}}]}))
        self.assertEqual(written, {"UnprocessedItems": {}})
        for verb, operation in (("batch-write-item", "BatchWriteItem"), ("batch-get-item", "BatchGetItem")):
            self.refused(254, f"(ValidationException) when calling the {operation} operation: 1 validation error "
                         "detected: Value '{}' at 'requestItems' failed to satisfy constraint: Member must have length "
                         "greater than or equal to 1", verb, "--request-items", "{}")
        path = self.daemon.folder / "keys.json"
        path.write_text(json.dumps({"Batches": {"Keys": [{"p": {"S": "2"}}, {"p": {"S": "9"}}, {"p": {"S": "0"}}],
                                                "ConsistentRead": True, "ProjectionExpression": "#p",
                                                "ExpressionAttributeNames": {"#p": "p"}}}))
        self.assertEqual(self.json("batch-get-item", "--request-items", f"file://{path}", "--return-consumed-capacity",
                                   "TOTAL"),
                         {"Responses": {"Batches": [{"p": {"S": "2"}}, {"p": {"S": "0"}}]}, "UnprocessedKeys": {},
                          "ConsumedCapacity": [{"TableName": "Batches", "CapacityUnits": 3}]})
        for wrong, text in (('{"Batches": [{}]}', "RequestItems.Batches: expected one PutRequest or DeleteRequest"),
                            ('{"Batches": {}}', "expected a list of PutRequest"),
                            ('{"Batches": [{"PutRequest": {"Key": {}}}]}', "no member Key here"),
                            ('{"Batches": [{"PutRequest": {"Item": {"p": "a"}}}]}', "Item: ")):
            self.refused(252, text, "batch-write-item", "--request-items", wrong)
        self.refused(252, 'expected {"Keys": [KEY, ...]}', "batch-get-item", "--request-items", '{"Batches": {}}')

    def test_a_transaction_is_done_or_says_why_not(self):
        self.create("Actions")
        update = {"Update": {"TableName": "Actions", "Key": {"p": {"S": "a"}}, "UpdateExpression": "ADD n :one",
                             "ExpressionAttributeValues": {":one": {"N": "1"}}}}
        check = {"ConditionCheck": {"TableName": "Actions", "Key": {"p": {"S": "b"}},
                                    "ConditionExpression": "attribute_not_exists(p)",
                                    "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}}
        write = ("transact-write-items", "--transact-items", json.dumps([update, check]))
        for _ in range(2):
            self.assertEqual(self.mudax(*write, "--client-request-token", "once").stdout, "")
        self.mudax(*write)
        get = ("transact-get-items", "--transact-items", json.dumps(
            [{"Get": {"TableName": "Actions", "Key": {"p": {"S": name}}}} for name in "ab"]))
        self.assertEqual(self.json(*get), {"Responses": [{"Item": {"p": {"S": "a"}, "n": {"N": "2"}}}, {}]})
        self.mudax("put-item", "--table-name", "Actions", "--item", '{"p": {"S": "b"}}')
        done = self.mudax(*write, code=254)
        self.assertEqual(done.stdout, "")
        self.assertIn("An error occurred (TransactionCanceledException) when calling the TransactWriteItems operation: "
                      "Transaction cancelled, please refer cancellation reasons for specific reasons "
                      "[None, ConditionalCheckFailed]\n", done.stderr)
        self.assertEqual(json.loads(done.stderr[done.stderr.index("{"):]), {"CancellationReasons": [
            {"Code": "None"}, {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed",
                               "Item": {"p": {"S": "b"}}}]})
        self.refused(254, "(IdempotentParameterMismatchException)", "transact-write-items", "--transact-items",
                     json.dumps([check]), "--client-request-token", "once")
        self.refused(252, "TransactItems: expected one of Put, Update", "transact-write-items", "--transact-items",
                     '[{"Get": {}}]')
        self.refused(252, "TransactItems.Put: no member Key here", "transact-write-items", "--transact-items",
                     '[{"Put": {"Key": {}}}]')

    def test_the_item_that_fails_a_condition_is_shown(self):
        self.create("Failing")
        put = ("put-item", "--table-name", "Failing", "--item", "p={S=a},n={N=1}")
        self.mudax(*put)
        done = self.mudax(*put, "--condition-expression", "attribute_not_exists(p)",
                          "--return-values-on-condition-check-failure", "ALL_OLD", code=254)
        self.assertIn("(ConditionalCheckFailedException)", done.stderr)
        self.assertEqual(json.loads(done.stderr[done.stderr.index("{"):]),
                         {"Item": {"p": {"S": "a"}, "n": {"N": "1"}}})
        self.refused(252, "there is no SOME", *put, "--return-values-on-condition-check-failure", "SOME")

    def test_consumed_capacity_is_told_and_a_hit_consumes_nothing(self):
        self.create("Units")
        put = self.json("put-item", "--table-name", "Units", "--item", "p={S=a}", "--return-consumed-capacity", "TOTAL")
        self.assertEqual(put, {"ConsumedCapacity": {"TableName": "Units", "CapacityUnits": 1}})
        get = ("get-item", "--table-name", "Units", "--key", "p={S=a}", "--return-consumed-capacity", "TOTAL")
        self.assertEqual(self.json(*get), {"Item": {"p": {"S": "a"}}, "ConsumedCapacity": {
            "TableName": "Units", "CapacityUnits": 0}})
        self.assertEqual(self.json(*get, "--consistent-read")["ConsumedCapacity"]["CapacityUnits"], 1)

    def test_the_size_of_item_collections_is_told_of_tables_with_a_local_index(self):
        self.mudax("create-table", "--table-name", "Local", "--billing-mode", "PAY_PER_REQUEST",
                   "--attribute-definitions", "AttributeName=p,AttributeType=S", "AttributeName=s,AttributeType=S",
                   "AttributeName=l,AttributeType=S", "--key-schema", "AttributeName=p,KeyType=HASH",
                   "AttributeName=s,KeyType=RANGE", "--local-secondary-indexes",
                   "IndexName=by-l,KeySchema=[{AttributeName=p,KeyType=HASH},{AttributeName=l,KeyType=RANGE}],"
                   "Projection={ProjectionType=ALL}")
        size = {"ItemCollectionKey": {"p": {"S": "a"}}, "SizeEstimateRangeGB": [0, 1]}
        wanted = ("--return-item-collection-metrics", "SIZE")
        put = ("put-item", "--table-name", "Local", "--item", "p={S=a},s={S=b}")
        self.assertEqual(self.json(*put, *wanted), {"ItemCollectionMetrics": size})
        self.assertEqual(self.mudax(*put, "--return-item-collection-metrics", "NONE").stdout, "")
        batch = {"Local": [{"PutRequest": {"Item": {"p": {"S": "a"}, "s": {"S": name}}}} for name in "bc"]}
        self.assertEqual(self.json("batch-write-item", "--request-items", json.dumps(batch), *wanted)
                         ["ItemCollectionMetrics"], {"Local": [size]})
        actions = [{"Delete": {"TableName": "Local", "Key": {"p": {"S": "a"}, "s": {"S": "b"}}}}]
        self.assertEqual(self.json("transact-write-items", "--transact-items", json.dumps(actions), *wanted),
                         {"ItemCollectionMetrics": {"Local": [size]}})
        self.refused(252, "there is no SOME", *put, "--return-item-collection-metrics", "SOME")

    def test_a_table_has_indexes_from_the_start_or_later(self):
        made = self.json("create-table", "--table-name", "Indexed", "--billing-mode", "PAY_PER_REQUEST",
                         "--attribute-definitions", "AttributeName=p,AttributeType=S", "AttributeName=g,AttributeType=S",
                         "--key-schema", "AttributeName=p,KeyType=HASH", "--global-secondary-indexes",
                         "IndexName=by-g,KeySchema=[{AttributeName=g,KeyType=HASH}],Projection={ProjectionType=ALL}")
        index, = made["TableDescription"]["GlobalSecondaryIndexes"]
        self.assertEqual((index["IndexName"], index["KeySchema"]), ("by-g", [{"AttributeName": "g", "KeyType": "HASH"}]))
        for name in "ab":
            self.mudax("put-item", "--table-name", "Indexed", "--item", f"p={{S={name}}},g={{S=x}},h={{S=y}}")
        query = lambda index, name, value: ("query", "--table-name", "Indexed", "--index-name", index,
                                            "--key-condition-expression", f"{name} = :v",
                                            "--expression-attribute-values", f":v={{S={value}}}", "--verdict")
        for verdict in ("miss", "hit"):
            page = self.mudax(*query("by-g", "g", "x"))
            self.assertEqual(json.loads(page.stdout)["Count"], 2)
            self.assertIn(f"cache: {verdict}", page.stderr)
        changed = self.json("update-table", "--table-name", "Indexed", "--attribute-definitions",
                            "AttributeName=h,AttributeType=S", "--global-secondary-index-updates", json.dumps([
                                {"Create": {"IndexName": "by-h", "KeySchema": [{"AttributeName": "h", "KeyType": "HASH"}],
                                            "Projection": {"ProjectionType": "KEYS_ONLY"}}}]),
                            "--deletion-protection-enabled")["TableDescription"]
        self.assertTrue(changed["DeletionProtectionEnabled"])
        until = time.monotonic() + 30
        while {"CREATING"} & {index["IndexStatus"] for index in self.json("describe-table", "--table-name", "Indexed")[
                "Table"]["GlobalSecondaryIndexes"]} and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(self.json(*query("by-h", "h", "y"))["Items"], [{"p": {"S": "a"}, "h": {"S": "y"}},
                                                                        {"p": {"S": "b"}, "h": {"S": "y"}}])
        self.mudax("update-table", "--table-name", "Indexed", "--no-deletion-protection-enabled",
                   "--global-secondary-index-updates", "Delete={IndexName=by-g}")
        self.refused(254, "(ValidationException)", *query("by-g", "g", "x")[:-1])

    def test_a_time_to_live_is_set_described_and_removed(self):
        self.create("Expiring")
        table = ("--table-name", "Expiring")
        self.assertEqual(self.json("update-time-to-live", *table, "--time-to-live-specification",
                                   "Enabled=true,AttributeName=until"),
                         {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": "until"}})
        self.assertEqual(self.json("describe-time-to-live", *table),
                         {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED", "AttributeName": "until"}})
        self.json("update-time-to-live", *table, "--time-to-live-specification",
                  '{"Enabled": false, "AttributeName": "until"}')
        self.assertEqual(self.json("describe-time-to-live", *table),
                         {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})

    def test_shorthand_is_read_as_the_AWS_CLI_reads_it(self):
        index = {"IndexName": "a,b ]", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
                 "Projection": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["one", "two three"]}}
        create = ("create-table", "--table-name", "Short", "--billing-mode", "PAY_PER_REQUEST",
                  "--attribute-definitions", "AttributeName=p,AttributeType=S", "--key-schema",
                  "AttributeName=p,KeyType=HASH", "--global-secondary-indexes")
        for text in ("IndexName='a,b ]',KeySchema=[{AttributeName=g,KeyType=HASH}],Projection={ProjectionType=INCLUDE,"
                     'NonKeyAttributes=[one,"two three"]}',
                     "KeySchema=[{KeyType=HASH,AttributeName=g}],Projection={NonKeyAttributes=one,two three,"
                     'ProjectionType=INCLUDE},IndexName="a,b ]"',
                     json.dumps([index])):
            # The daemon's text shows that all of it arrived: only the name is wrong.
            self.refused(254, "a,b ]", *create, text)
        for text in ("IndexName", "IndexName=a,,", "Projection={ProjectionType=ALL", "=a", "KeySchema=[{]}", "a='b"):
            self.refused(252, "'--global-secondary-indexes': expected a JSON array or NAME=VALUE", *create, text)

    def test_flags_of_all_verbs_may_stand_before_the_verb(self):
        for words in (("--url", self.daemon.url, "ping"), ("--timeout", "9000", "--url", self.daemon.url, "ping")):
            self.assertEqual(run(*words, url="mudax+unix:/nowhere").stdout, "PONG\n")
        self.refused(252, "the verb is missing", "--url")
        self.refused(252, "the verb is missing: --item", "--item", "{}", "ping")

    def test_values_are_read_from_files(self):
        self.create("Files")
        path = self.daemon.folder / "item.json"
        path.write_text('{"p": {"S": "from a file"}}')
        self.mudax("put-item", "--table-name", "Files", "--item", f"file://{path}")
        self.assertEqual(self.json("get-item", "--table-name", "Files", "--key", f"file://{path}"),
                         {"Item": {"p": {"S": "from a file"}}})
        path.write_text(json.dumps({"TableName": "Files", "KeyConditionExpression": "#p = :p", "Limit": 1,
                                    "ExpressionAttributeNames": {"#p": "p"}, "ScanIndexForward": False,
                                    "ExpressionAttributeValues": {":p": {"S": "from a file"}}}))
        self.assertEqual(self.json("query", "--cli-input-json", f"file://{path}")["Count"], 1)
        self.refused(252, "/nowhere cannot be read", "put-item", "--table-name", "Files", "--item",
                     "file:///nowhere")
        path.write_text('{"TableName": "Files", "Item": {}}')
        self.refused(252, "no parameter Item here", "query", "--cli-input-json", f"file://{path}")

    def test_a_query_is_read_page_by_page_in_both_directions(self):
        self.create("Pages", sort=True)
        for number in range(1, 6):
            self.mudax("put-item", "--table-name", "Pages", "--item", json.dumps(
                {"p": {"S": "x"}, "s": {"N": str(number)}}))
        query = ("query", "--table-name", "Pages", "--key-condition-expression", "p = :p AND s > :s",
                 "--expression-attribute-values", '{":p": {"S": "x"}, ":s": {"N": "1"}}')
        numbers = lambda page: [int(item["s"]["N"]) for item in page["Items"]]
        self.assertEqual(numbers(self.json(*query)), [2, 3, 4, 5])
        page = self.json(*query, "--no-scan-index-forward", "--max-items", "3")
        self.assertEqual(numbers(page), [5, 4, 3])
        self.assertEqual((page["Count"], page["ScannedCount"]), (3, 3))
        page = self.json(*query, "--no-scan-index-forward", "--exclusive-start-key",
                         json.dumps(page["LastEvaluatedKey"]))
        self.assertEqual(numbers(page), [2])
        self.assertNotIn("LastEvaluatedKey", page)
        empty = self.json("query", "--table-name", "Pages", "--key-condition-expression", "p = :p",
                          "--expression-attribute-values", '{":p": {"S": "nobody"}}')
        self.assertEqual(empty, {"Items": [], "Count": 0, "ScannedCount": 0})

    def test_a_miss_is_followed_by_a_hit_until_a_write(self):
        self.create("Verdicts", sort=True)
        put = ("put-item", "--table-name", "Verdicts", "--item")
        query = ("query", "--table-name", "Verdicts", "--key-condition-expression", "p = :p",
                 "--expression-attribute-values", '{":p": {"S": "x"}}', "--verdict")
        self.mudax(*put, '{"p": {"S": "x"}, "s": {"N": "1"}}')
        self.assertRegex(self.mudax(*query).stderr, r"^cache: miss time=[0-9.]+(us|ms|s)\n$")
        self.assertRegex(self.mudax(*query).stderr, r"^cache: hit age=\d+ms time=[0-9.]+(us|ms|s)\n$")
        self.assertRegex(self.mudax(*query, "--consistent-read").stderr, r"^cache: bypass time=")
        self.mudax(*put, '{"p": {"S": "x"}, "s": {"N": "2"}}')
        after = self.mudax(*query)
        self.assertIn("cache: miss", after.stderr)
        self.assertEqual(json.loads(after.stdout)["Count"], 2)

    def test_what_is_cached_is_purged(self):
        daemon = self.own_daemon()
        mudax = lambda *words: run(*words, url=daemon.url)
        self.assertEqual(mudax("import", MODEL).returncode, 0)
        get = ("get-item", "--table-name", "OnlineShop", "--key", "PK={S=c#12345},SK={S=c#12345}", "--verdict")
        self.assertIn("cache: hit", mudax(*get).stderr)
        purged = json.loads(mudax("purge", "--table-name", "OnlineShop", "--key", "PK={S=c#12345},SK={S=c#12345}").stdout)
        self.assertEqual(purged, {"Items": 1, "Pages": 0})
        self.assertIn("cache: miss", mudax(*get).stderr)
        self.assertGreater(json.loads(mudax("purge").stdout)["Items"], 1)
        self.assertIn("cache: miss", mudax(*get).stderr)

    def test_the_heat_of_partitions_is_told(self):
        self.create("Hot")
        self.mudax("put-item", "--table-name", "Hot", "--item", "p={S=a}")
        table, = self.json("describe-heat", "--table-name", "Hot")["Heat"]
        self.assertEqual((table["Name"], sum(part["Items"] for part in table["Partitions"])), ("Hot", 1))

    def test_the_partition_keys_that_cost_the_store_most_are_named(self):
        self.create("Skewed", sort=True)
        for number in range(30):
            self.mudax("put-item", "--table-name", "Skewed", "--item", "p={S=hot},s={N=%d}" % number)
        self.mudax("put-item", "--table-name", "Skewed", "--item", "p={S=cold},s={N=1}")
        for _ in range(5):
            self.mudax("get-item", "--table-name", "Skewed", "--consistent-read", "--key", "p={S=read},s={N=1}")
        place, = self.json("heat", "--table-name", "Skewed", "--json")["Tables"][0]["Heat"]
        keys = {key["PartitionKey"]: (key["ReadUnitsPerSecond"], key["WriteUnitsPerSecond"]) for key in place["HotKeys"]}
        self.assertEqual(place["HotKeys"][0]["PartitionKey"], "hot")
        self.assertEqual(set(keys), {"hot", "cold", "read"})
        self.assertEqual((keys["hot"][0], keys["read"][1], keys["cold"][0]), (0, 0, 0))
        self.assertGreater(keys["hot"][1], keys["cold"][1])
        self.assertGreater(keys["read"][0], 0)
        self.assertRegex(self.mudax("heat", "--table-name", "Skewed").stdout,
                         r'(?m)^Skewed, partition keys that cost the store most:\n +READ/S +WRITE/S  PARTITION KEY\n.*"hot"$')

    def test_stats_are_figures(self):
        figures = self.json("stats")
        self.assertTrue(figures)
        self.assertTrue(all(isinstance(value, (int, float)) for value in figures.values()))
        self.assertFalse([name for name in figures if "_bucket{" in name])
        asked = self.json("stats", "--only", "request_duration_seconds_b")
        self.assertTrue(asked and all(name.startswith("request_duration_seconds_bucket{") for name in asked))
        self.assertEqual(self.json("stats", "--only", "no_such_figure"), {})

    def test_top_tells_the_purges_of_keys_partitions_and_tables(self):
        self.mudax("create-table", "--table-name", "purged", "--billing-mode", "PAY_PER_REQUEST",
                   "--attribute-definitions", "AttributeName=p,AttributeType=S", "AttributeName=s,AttributeType=S",
                   "--key-schema", "AttributeName=p,KeyType=HASH", "AttributeName=s,KeyType=RANGE")
        key = '{"p": {"S": "a"}, "s": {"S": "%s"}}'
        get = ("get-item", "--table-name", "purged", "--verdict", "--key")
        for sort in "123":
            self.mudax("put-item", "--table-name", "purged", "--item", key % sort)
        self.assertIn("hit", self.mudax(*get, key % "1").stderr)
        self.assertEqual(self.json("purge", "--table-name", "purged", "--key", key % "1"), {"Items": 1, "Pages": 0})
        self.assertIn("miss", self.mudax(*get, key % "1").stderr)
        self.assertIn("hit", self.mudax(*get, key % "2").stderr)
        self.assertEqual(self.json("purge", "--table-name", "purged", "--partition-key", '{"p": {"S": "a"}}'),
                         {"Items": 3, "Pages": 0})
        self.assertIn("miss", self.mudax(*get, key % "2").stderr)
        self.assertEqual(self.json("purge", "--table-name", "purged"), {"Items": 1, "Pages": 0})
        self.assertIn("miss", self.mudax(*get, key % "2").stderr)
        self.refused(254, "does not have the specified index", "purge", "--table-name", "purged", "--index-name", "none")
        self.refused(252, "--partition-key", "purge", "--table-name", "purged", "--key", key % "1", "--partition-key",
                     '{"p": {"S": "a"}}')
        told = self.mudax("top", "--once").stdout
        # A key whose note another one took counts as cold.
        self.assertRegex(told, r"(?m)^ +[23]  item   purged +purge$")
        self.assertRegex(told, r"(?m)^REQUESTS/S +HITS  KIND   TABLE +KEY$")

    def lines(self, *words, url=None):
        """What `explain` says, by its titles."""
        told, title = {}, None
        for line in run("explain", *words, url=url or self.daemon.url).stdout.splitlines():
            title = line[:12].strip() or title
            told[title] = told[title] + " " + line[12:] if title in told else line[12:]
        return told

    def test_a_page_too_large_for_a_first_time_is_explained(self):
        self.create("large", sort=True)
        for sort in "123":
            self.mudax("put-item", "--table-name", "large", "--item",
                       '{"p": {"S": "a"}, "s": {"N": "%s"}, "v": {"S": "%s"}}' % (sort, 100000 * "x"))
        query = ("--table-name", "large", "--key-condition-expression", "p = :p", "--expression-attribute-values",
                 '{":p": {"S": "a"}}')
        for wanted in "no, cold: ", "no, not_kept: ", "yes, ":
            self.assertTrue(self.lines(*query)["cached"].startswith(wanted), self.lines(*query))
            self.mudax("query", *query)

    def test_a_read_is_explained_and_what_a_write_would_drop(self):
        self.create("explained", sort=True)
        table, key = ("--table-name", "explained"), ("--key", '{"p": {"S": "a"}, "s": {"N": "1"}}')
        told = self.lines(*table, *key)
        self.assertEqual(told["request"], "GetItem of explained")
        self.assertRegex(told["cached"], "^no, cold: ")
        self.mudax("put-item", *table, "--item", '{"p": {"S": "a"}, "s": {"N": "1"}}')
        told = self.lines(*table, *key)
        self.assertRegex(told["cached"], r"^yes, for [0-9.]+(us|ms|s) now, in \d+ bytes$")
        self.assertRegex(told["expires"], r"^in (300|299)\.\ds$")
        self.assertEqual(told["dropped by"], "a write of this key")
        self.assertRegex(self.lines(*table, *key, "--consistent-read")["cached"], "^never, consistent_read: ")
        query = (*table, "--key-condition-expression", "p = :p AND s < :s", "--expression-attribute-values",
                 '{":p": {"S": "a"}, ":s": {"N": "5"}}')
        self.assertRegex(self.lines(*query)["cached"], "^no, cold: ")
        self.mudax("query", *query)
        told = self.lines(*query)
        self.assertEqual((told["request"], told["cached"][:4]), ("Query of explained", "yes,"))
        self.assertEqual((told["partition"], told["policy"]), ('"a"', "default"))
        self.assertEqual(told["dropped by"], "a write in this partition of a sort key in the interval")
        self.assertEqual(told["interval"], "< 5")
        self.assertNotEqual(self.lines(*query, "--no-scan-index-forward")["cached"][:4], "yes,")
        plain = self.json("explain", *query, "--json")
        self.assertEqual((plain["Kind"], plain["Cacheable"], plain["Cached"]), ("page", True, True))
        self.mudax("scan", *table)
        self.assertEqual(self.lines(*table)["interval"], "all")
        self.assertEqual(self.lines(*table)["dropped by"], "any write of the table or index")
        self.assertRegex(self.lines(*table)["cached"], "^yes, ")
        self.assertRegex(self.lines(*table, "--write", *key)["would drop"], "^1 items and 2 pages of the table")
        other = ("--key", '{"p": {"S": "a"}, "s": {"N": "7"}}')
        self.assertEqual(self.json("explain", *table, "--write", *other, "--json"),
                         {"Kind": "write", "Table": "explained", "Items": 0, "Pages": 1})
        self.mudax("delete-item", *table, *key)
        self.assertRegex(self.lines(*query)["cached"], "^no, delete: ")
        self.refused(252, "--write needs a --key or an --item", "explain", *table, "--write")
        self.refused(252, "give one of them", "explain", *query, *key)
        self.refused(254, "(ResourceNotFoundException) when calling the Explain operation", "explain", "--table-name",
                     "none")
        self.refused(254, "(ValidationException) when calling the Explain operation", "explain", *table, "--key",
                     '{"q": {"S": "a"}}')

    def test_what_is_past_its_ttl_and_kept_is_explained_as_that(self):
        daemon = self.own_daemon("--item-ttl", "1ms", "--stale-if-error", "1h")
        self.assertEqual(run("create-table", "--table-name", "stale", "--attribute-definitions",
                             "AttributeName=p,AttributeType=S", "--key-schema", "AttributeName=p,KeyType=HASH",
                             "--billing-mode", "PAY_PER_REQUEST", url=daemon.url).returncode, 0)
        self.assertEqual(run("put-item", "--table-name", "stale", "--item", '{"p": {"S": "a"}}',
                             url=daemon.url).returncode, 0)
        time.sleep(0.002)
        told = self.lines("--table-name", "stale", "--key", '{"p": {"S": "a"}}', url=daemon.url)
        self.assertEqual(told["cached"][:4], "yes,")
        self.assertEqual(told["expires"], "past its TTL, kept for stale_while_refetch or stale_if_error")

    def test_a_write_to_a_table_with_indexes_is_explained(self):
        table = ("--table-name", "explained-indexes")
        self.mudax("create-table", *table, "--billing-mode", "PAY_PER_REQUEST", "--key-schema",
                   '[{"AttributeName": "p", "KeyType": "HASH"}]', "--attribute-definitions",
                   '[{"AttributeName": "p", "AttributeType": "S"}, {"AttributeName": "g", "AttributeType": "S"}]',
                   "--global-secondary-indexes",
                   '[{"IndexName": "by-g", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], '
                   '"Projection": {"ProjectionType": "KEYS_ONLY"}}]')
        self.mudax("put-item", *table, "--item", '{"p": {"S": "a"}, "g": {"S": "x"}}')
        for group in "xy":
            self.mudax("query", *table, "--index-name", "by-g", "--key-condition-expression", "g = :g",
                       "--expression-attribute-values", '{":g": {"S": "%s"}}' % group)
        told = self.lines(*table, "--write", "--key", '{"p": {"S": "a"}}')
        self.assertEqual(told["request"], "a write of explained-indexes")
        self.assertRegex(told["would drop"], "^1 items and 0 pages of the table .* 1 pages of index by-g .*--item$")
        told = self.lines(*table, "--item", '{"p": {"S": "a"}, "g": {"S": "y"}}')
        self.assertEqual(told["request"], "a PutItem of explained-indexes")
        self.assertRegex(told["would drop"], " 2 pages of index by-g$")
        self.assertEqual(self.json("explain", *table, "--item", '{"p": {"S": "a"}, "g": {"S": "x"}}', "--json"),
                         {"Kind": "write", "Table": "explained-indexes", "Items": 1, "Pages": 0, "Indexes": {"by-g": 0}})
        self.refused(252, "give one of them", "explain", *table, "--item", '{"p": {"S": "a"}}', "--key",
                     '{"p": {"S": "a"}}')
        self.refused(252, "--index-name is of queries and scans", "explain", *table, "--index-name", "by-g", "--write",
                     "--key", '{"p": {"S": "a"}}')

    def skewed(self, name):
        """A table of 1,200 items; the sizes of all, by partition key."""
        self.create(name, sort=True)
        path, sizes = self.daemon.folder / "skewed.jsonl", {}
        with open(path, "w") as out:
            for number in range(1200):
                key = "tenant#big" if number % 3 == 0 else f"user#{number}" if number % 3 == 1 else f"plain{number % 7}"
                item = {"p": {"S": key}, "s": {"N": str(number + 1)}, "t": {"S": "x" * (number % 50)},
                        "Type": {"S": "\u00e9" if number % 2 else "a\nb"}}
                if number % 10 == 0:
                    del item["Type"]
                digits = str(number + 1).strip("0")
                size = (1 + len(key) + 1 + (len(digits) + 1) // 2 + 1 + 1 + number % 50
                        + (4 + len(item["Type"]["S"].encode()) if "Type" in item else 0))
                sizes.setdefault(key, []).append((size, number))
                out.write(json.dumps({"Item": item}) + "\n")
        self.mudax("import", path, "--table-name", name)
        return sizes

    def test_heat_shows_partitions_and_names_skewed_groups(self):
        sizes = self.skewed("heated")
        table = ("--table-name", "heated")
        bytes_of = {key: sum(size for size, _ in found) for key, found in sizes.items()}
        told = self.json("heat", *table, "--items", "--top", "3", "--json")
        largest = sorted(bytes_of, key=bytes_of.get, reverse=True)[:3]
        self.assertEqual(told["Groups"], [{"Group": key, "Items": len(sizes[key]), "Bytes": bytes_of[key]} for key in largest])
        self.assertEqual((told["By"], told["Items"], told["Bytes"], told["IsAllOfThem"]),
                         ("p", 1200, sum(bytes_of.values()), False))
        everything = self.json("heat", *table, "--items", "--top", "5000", "--total-segments", "3", "--json")
        self.assertEqual({group["Group"]: group["Bytes"] for group in everything["Groups"]}, bytes_of)
        self.assertTrue(everything["IsAllOfThem"])
        prefixes = self.json("heat", *table, "--by", "key-prefix", "--json")["Groups"]
        self.assertEqual({group["Group"]: group["Items"] for group in prefixes},
                         {"tenant#": 400, "user#": 400, "(no #)": 400})
        types = self.json("heat", *table, "--by", "Type", "--json")["Groups"]
        self.assertEqual({group["Group"]: group["Items"] for group in types},
                         {"\u00e9": 600, "a\\x0ab": 480, "(none)": 120})
        lines = self.mudax("heat", *table, "--items", "--top", "1").stdout.splitlines()
        self.assertRegex(lines[0], r"^heated by p: 1200 items, [0-9.]+ KB$")
        self.assertRegex(lines[2], r"^ +400  33\.3% +[0-9.]+ KB +[0-9.]+%  tenant#big$")
        self.assertEqual(lines[3], "and smaller ones")
        heat = self.json("heat", *table, "--json")["Tables"]
        self.assertEqual([place["Name"] for place in heat[0]["Heat"]], ["heated"])
        partitions = heat[0]["Heat"][0]["Partitions"]
        self.assertEqual((sum(part["Items"] for part in partitions), sum(part["Bytes"] for part in partitions)),
                         (1200, sum(bytes_of.values())))
        self.assertTrue(all(part["WriteUnitsPerSecond"] == 0 for part in partitions))
        self.assertRegex(self.mudax("heat", *table).stdout,
                         r"^heated, table: \d+ partitions, 1200 items, [0-9.]+ KB\n  PARTITION +ITEMS ")
        self.assertIn("heated, table: ", self.mudax("heat").stdout)
        self.refused(252, "--by and --items", "heat", *table, "--items", "--by", "Type")
        self.refused(252, "of one table: --table-name", "heat", "--items")
        self.refused(252, "--top is at most 100000", "heat", *table, "--items", "--top", "100001")
        for words in (("heat",), ("heat", "--items")):
            self.refused(254, "(ResourceNotFoundException) when calling the Describe", *words, "--table-name", "none")

    def test_heat_shows_rates_and_hot_keys(self):
        daemon = self.own_daemon()
        mudax = lambda *words: run(*words, url=daemon.url)
        mudax("create-table", "--table-name", "Rates", "--attribute-definitions", "AttributeName=p,AttributeType=S",
              "--key-schema", "AttributeName=p,KeyType=HASH")
        get = ("get-item", "--table-name", "Rates", "--key", '{"p": {"S": "hot"}}')
        puts = json.dumps({"Rates": [{"PutRequest": {"Item": {"p": {"S": "hot"}, "n": {"S": "x" * 100000}}}}]})
        heat = subprocess.Popen([MUDAX, "--url", daemon.url, "heat", "--seconds", "2", "--json"],
                                stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        for _ in range(5):
            self.assertEqual(mudax("batch-write-item", "--request-items", puts).returncode, 0)
            self.assertEqual(mudax(*get, "--consistent-read").returncode, 0)
        told = json.loads(heat.communicate(timeout=30)[0])["Tables"][0]
        used = [part for part in told["Heat"][0]["Partitions"] if part["WriteUnitsPerSecond"] > 0]
        self.assertEqual(len(used), 1)
        self.assertAlmostEqual(used[0]["WriteUnitsPerSecond"], 5 * 98 / 2, delta=60)
        self.assertAlmostEqual(used[0]["ReadUnitsPerSecond"], 5 * 25 / 2, delta=20)

    def test_pay_tells_whom_the_cache_serves(self):
        folder = tempfile.mkdtemp(prefix="mudax-cli-pay-", dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "ini"), "w", encoding="utf8") as file:
            file.write("price_read_unit = 1000000\nprice_cache_hour = 10\n"
                       '[policy "served"]\npartition_key = s*\n[policy "passing"]\npartition_key = p*\n')
        daemon = self.own_daemon("--config", os.path.join(folder, "ini"))
        mudax = lambda *words: run(*words, url=daemon.url)
        mudax("create-table", "--table-name", "Pay", "--attribute-definitions", "AttributeName=p,AttributeType=S",
              "--key-schema", "AttributeName=p,KeyType=HASH")
        mudax("put-item", "--table-name", "Pay", "--item", '{"p": {"S": "s1"}, "v": {"S": "' + "x" * 5000 + '"}}')
        pay = subprocess.Popen([MUDAX, "--url", daemon.url, "pay", "--seconds", "4", "--json"],
                               stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        for number in range(10):
            self.assertEqual(mudax("get-item", "--table-name", "Pay", "--key", '{"p": {"S": "s1"}}').returncode, 0)
            mudax("get-item", "--table-name", "Pay", "--key", json.dumps({"p": {"S": f"p{number}"}}))
            mudax("get-item", "--table-name", "Pay", "--key", '{"p": {"S": "s1"}}', "--consistent-read")
        told = {one["Policy"]: one for one in json.loads(pay.communicate(timeout=30)[0])["Policies"]}
        self.assertEqual(set(told), {"default", "served", "passing", "(all)"})
        served = told["served"]
        self.assertEqual(served["HitShare"], 1) # a ConsistentRead could not have been one
        self.assertAlmostEqual(served["RequestsPerSecond"], 2.5, delta=0.3)
        self.assertAlmostEqual(served["ReadUnitsSavedPerHour"], 2.5 * 3600, delta=1000) # 5 KB: a unit each
        self.assertAlmostEqual(served["SavedPerHour"], served["ReadUnitsSavedPerHour"], delta=1) # a unit costs 1
        self.assertGreater(served["CostPerHour"], 5) # it has the larger part of the memory in use
        self.assertAlmostEqual(served["PaysFromRequestsPerSecond"], served["CostPerHour"] / 3600, delta=0.06)
        self.assertEqual(served["Verdict"], "pays")
        self.assertEqual((told["passing"]["HitShare"], told["passing"]["Verdict"]), (0, "better off without: no hits"))
        self.assertNotIn("PaysFromRequestsPerSecond", told["passing"])
        self.assertEqual(told["default"]["Verdict"], "idle")
        self.assertAlmostEqual(told["(all)"]["HitShare"], 0.5, delta=0.01)
        lines = mudax("pay", "--seconds", "1").stdout.splitlines()
        self.assertRegex(lines[0], "POLICY +REQUESTS/S")
        self.assertIn("At 1e+06 a million read units and 10 an hour of the cache", "\n".join(lines))

    def test_service_errors_are_the_aws_clis(self):
        self.create("Errors")
        self.refused(254, "\nAn error occurred (ValidationException) when calling the GetItem operation: "
                          "The provided key element does not match the schema\n",
                     "get-item", "--table-name", "Errors", "--key", '{"x": {"S": "a"}}')
        self.refused(254, "(ResourceNotFoundException) when calling the PutItem operation",
                     "put-item", "--table-name", "Nowhere", "--item", '{"p": {"S": "a"}}')

    def test_usage_errors_say_what_was_expected(self):
        for words, text in (
                ((), "the verb is missing"),
                (("fetch",), "there is no verb fetch"),
                (("get-item",), "the following arguments are required: --table-name, --key"),
                (("get-item", "--table-name"), "--table-name: expected one argument"),
                (("get-item", "--item", "{}"), "unknown option: --item"),
                (("ping", "--url", "http://127.0.0.1:8000"), "the scheme is not known"),
                (("ping", "now"), "unexpected word: now"),
                (("ping", "--timeout", "soon"), "'--timeout': expected a number"),
                (("get-item", "--table-name", "T", "--key", '{"p"'), "'--key': Not JSON at line 1"),
                (("get-item", "--table-name", "T", "--key", '{"p": "a"}'), "'--key': "),
                (("get-item", "--table-name", "T", "--table-name", "T"), "--table-name is given twice"),
                (("create-table", "--table-name", "T", "--key-schema", "AttributeName"),
                 "'--key-schema': expected a JSON array or NAME=VALUE"),
                (("import",), "the following arguments are required: FILE")):
            with self.subTest(words):
                self.refused(252, text, *words)

    def test_help_is_given(self):
        overview = self.mudax("help").stdout
        for verb in ("ping", "create-table", "describe-table", "list-tables", "delete-table", "put-item",
                     "get-item", "delete-item", "update-item", "query", "scan", "batch-get-item", "batch-write-item",
                     "transact-get-items", "transact-write-items", "update-table", "update-time-to-live",
                     "describe-time-to-live", "tag-resource", "untag-resource", "list-tags-of-resource", "describe-heat",
                     "purge", "stats", "explain", "heat", "top", "pay", "import", "export"):
            self.assertIn(f"  {verb} ", overview)
            self.assertIn("--url", self.mudax(verb, "help").stdout)
        self.assertIn("usage: mudax import FILE [options]", self.mudax("import", "help").stdout)

    def test_no_daemon_is_said_with_what_to_do(self):
        done = run("ping", url=f"mudax+unix:{self.daemon.folder}/nobody")
        self.assertEqual(done.returncode, 255)
        self.assertIn("no such socket; is mudaxd running there? (MudaxConnectError)", done.stderr)

    def test_models_are_imported_and_imported_again(self):
        daemon = self.own_daemon()
        for path in [MODEL, *sorted(MODELS.glob("*.json"))]:
            for table in json.loads(path.read_text())["DataModel"]:
                items, name = table.get("TableData", []), table["TableName"]
                run("delete-table", "--table-name", name, url=daemon.url)
                for how in ("created", "was there"):
                    done = run("import", path, "--table-name", name, url=daemon.url)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"{name}: table {how}, {len(items)} items put", done.stdout)
                keys = [part["AttributeName"] for part in table["KeyAttributes"].values()]
                for item in items:
                    got = run("get-item", "--table-name", name, "--key",
                              json.dumps({key: item[key] for key in keys}), url=daemon.url)
                    self.assertEqual(json.loads(got.stdout)["Item"], item)

    def check_indexes(self, path):
        """Each partition of each index of a model is what the model's items say it is."""
        daemon = self.own_daemon()
        done = run("import", path, url=daemon.url)
        self.assertEqual(done.returncode, 0, done.stderr)
        for table in json.loads(path.read_text())["DataModel"]:
            items = table.get("TableData", [])
            for index in table.get("GlobalSecondaryIndexes", []):
                names = [part["AttributeName"] for part in index["KeyAttributes"].values()]
                there = [item for item in items if all(name in item for name in names)]
                partitions = {item[names[0]]["S"] for item in there} | {"nobody's"}
                for partition in partitions:
                    page = run("query", "--table-name", table["TableName"], "--index-name", index["IndexName"],
                               "--key-condition-expression", "#p = :p",
                               "--expression-attribute-names", json.dumps({"#p": names[0]}),
                               "--expression-attribute-values", json.dumps({":p": {"S": partition}}), url=daemon.url)
                    self.assertEqual(page.returncode, 0, page.stderr)
                    by_text = lambda item: json.dumps(item, sort_keys=True)
                    self.assertEqual(sorted(json.loads(page.stdout)["Items"], key=by_text),
                                     sorted((item for item in there if item[names[0]]["S"] == partition), key=by_text))

    def test_the_model_of_this_repository_answers_a_query_of_each_of_its_indexes(self):
        self.check_indexes(MODEL)

    @unittest.skipUnless(MODELS.is_dir(), f"no further models: {MODELS} is not there")
    def test_further_models_answer_a_query_of_each_of_their_indexes(self):
        paths = sorted(MODELS.glob("*.json"))
        self.assertTrue(paths)
        for path in paths:
            with self.subTest(path.name):
                self.check_indexes(path)

    def test_a_model_is_imported_without_its_indexes(self):
        daemon = self.own_daemon()
        done = run("import", MODEL, "--without-indexes", url=daemon.url)
        self.assertIn("OnlineShop: table created, 19 items put, 2 indexes left out", done.stdout)
        table = json.loads(run("describe-table", "--table-name", "OnlineShop", url=daemon.url).stdout)["Table"]
        self.assertNotIn("GlobalSecondaryIndexes", table)
        self.assertEqual(len(table["AttributeDefinitions"]), 2)

    def test_an_export_is_imported_as_the_same_table(self):
        daemon = self.own_daemon()
        mudax = lambda *words: run(*words, url=daemon.url)
        self.assertEqual(mudax("import", MODEL).returncode, 0)
        mudax("update-time-to-live", "--table-name", "OnlineShop", "--time-to-live-specification",
              "Enabled=true,AttributeName=until")
        arn = json.loads(mudax("describe-table", "--table-name", "OnlineShop").stdout)["Table"]["TableArn"]
        mudax("tag-resource", "--resource-arn", arn, "--tags", "Key=team,Value=shop", "Key=stage,Value=")
        tags = json.loads(mudax("list-tags-of-resource", "--resource-arn", arn).stdout)["Tags"]
        self.assertEqual(len(tags), 2)
        big = {"PK": {"S": "big"}, "SK": {"S": "1"}, "b": {"B": "AP8="}, "l": {"L": [{"NULL": True}, {"N": "-1.5"}]},
               "t": {"S": "a line\nand \"more\" \u00e9\u0000" + "x" * 200000}, "ns": {"NS": ["1", "2"]}}
        for number in range(30):  # more than one page, and batches that are full by their size
            big["SK"]["S"] = str(number)
            path = daemon.folder / "big.json"
            path.write_text(json.dumps(big))
            self.assertEqual(mudax("put-item", "--table-name", "OnlineShop", "--item", f"file://{path}").returncode, 0)
        first, second = daemon.folder / "first", daemon.folder / "second"
        done = mudax("export", "--table-name", "OnlineShop", "--output", first, "--definition")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        self.assertRegex(done.stderr, r"^OnlineShop: 49 items, ")
        described = mudax("describe-table", "--table-name", "OnlineShop").stdout
        expires = mudax("describe-time-to-live", "--table-name", "OnlineShop").stdout
        mudax("delete-table", "--table-name", "OnlineShop")
        done = mudax("import", first)
        self.assertIn("OnlineShop: table created, 49 items put, 2 indexes", done.stdout, done.stderr)
        strip = lambda text: {name: value for name, value in json.loads(text)["Table"].items()
                              if name in ("KeySchema", "AttributeDefinitions", "BillingModeSummary")}
        again = mudax("describe-table", "--table-name", "OnlineShop").stdout
        self.assertEqual(strip(again).keys(), {"KeySchema", "AttributeDefinitions", "BillingModeSummary"})
        self.assertEqual(strip(again)["KeySchema"], strip(described)["KeySchema"])
        indexes = lambda text: [(index["IndexName"], index["KeySchema"], index["Projection"])
                                for index in json.loads(text)["Table"]["GlobalSecondaryIndexes"]]
        self.assertEqual(indexes(again), indexes(described))
        self.assertEqual(mudax("describe-time-to-live", "--table-name", "OnlineShop").stdout, expires)
        self.assertEqual(json.loads(mudax("list-tags-of-resource", "--resource-arn", arn).stdout)["Tags"], tags)
        self.assertEqual(mudax("export", "--table-name", "OnlineShop", "--output", second, "--definition",
                               "--total-segments", "3").returncode, 0)
        lines = first.read_text().splitlines()
        self.assertEqual(sorted(lines), sorted(second.read_text().splitlines()))
        self.assertTrue(all(line.startswith('{"Item":{') for line in lines[1:]))
        self.assertEqual(json.loads(lines[0])["TimeToLiveSpecification"], {"Enabled": True, "AttributeName": "until"})
        self.assertEqual(json.loads(lines[0])["Table"]["Tags"], tags)
        mudax("untag-resource", "--resource-arn", arn, "--tag-keys", "team", "stage")
        self.assertEqual(mudax("export", "--table-name", "OnlineShop", "--output", second, "--definition").returncode, 0)
        self.assertNotIn("Tags", json.loads(second.read_text().splitlines()[0])["Table"])

    def test_items_are_imported_from_lines_of_either_form(self):
        self.create("Lines")
        path = self.daemon.folder / "lines.jsonl"
        forms = ['{"Item":{"p":{"S":"a"}}}', '', '  { "Item" : {"p": {"S": "b"}, "Item": {"S": "x"}} } ',
                 '{"p":{"S":"c"}}', '{"Item":{"S":"an attribute"},"p":{"S":"d"}}', '{"p":{"S":"a"},"n":{"N":"2"}}']
        path.write_text("\n".join(forms))
        self.refused(252, "--table-name is needed", "import", path)
        done = self.mudax("import", path, "--table-name", "Lines")  # a comes twice: the last one is kept
        self.assertRegex(done.stdout, r"^Lines: 5 items put, ")
        items = self.json("scan", "--table-name", "Lines")["Items"]
        self.assertEqual(sorted(items, key=lambda item: item["p"]["S"]), [
            {"p": {"S": "a"}, "n": {"N": "2"}}, {"p": {"S": "b"}, "Item": {"S": "x"}}, {"p": {"S": "c"}},
            {"p": {"S": "d"}, "Item": {"S": "an attribute"}}])
        self.assertEqual(run("import", "/dev/stdin", "--table-name", "Lines", url=self.daemon.url,
                             text_in=path.read_text()).returncode, 0)

    def test_thousands_of_items_are_imported_and_exported(self):
        self.create("Many")
        path = self.daemon.folder / "many.jsonl"
        with open(path, "w") as out:
            for number in range(5000):
                out.write(json.dumps({"Item": {"p": {"S": str(number)}, "n": {"N": str(number)}}}) + "\n")
        self.assertIn("Many: 5000 items put", self.mudax("import", path, "--table-name", "Many").stdout)
        done = self.mudax("export", "--table-name", "Many")
        numbers = [int(json.loads(line)["Item"]["n"]["N"]) for line in done.stdout.splitlines()]
        self.assertEqual(sorted(numbers), list(range(5000)))

    def test_a_busy_daemon_is_asked_again(self):
        daemon = self.own_daemon("--max-connection-requests", "2")
        path = daemon.folder / "items.jsonl"
        path.write_text("".join(f'{{"p":{{"S":"{number}"}}}}\n' for number in range(1000)))
        definition = json.dumps({"Table": {"TableName": "Busy", "BillingMode": "PAY_PER_REQUEST", "KeySchema": [
            {"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [
                {"AttributeName": "p", "AttributeType": "S"}]}})
        path.write_text(definition + "\n" + path.read_text())
        done = run("import", path, url=daemon.url)
        self.assertIn("Busy: table created, 1000 items put", done.stdout, done.stderr)
        done = run("export", "--table-name", "Busy", url=daemon.url)
        self.assertEqual(len(done.stdout.splitlines()), 1000, done.stderr)
        self.assertGreater(json.loads(run("stats", url=daemon.url).stdout)["requests_throttled_total"], 0)

    def test_an_import_that_fails_says_where(self):
        self.create("Stops")
        path = self.daemon.folder / "stops.jsonl"
        path.write_text("".join(f'{{"p":{{"S":"{number}"}}}}\n' for number in range(30)) + '{"p":{"S":"x"}')
        done = self.mudax("import", path, "--table-name", "Stops", code=252)
        self.assertIn("Stops: stopped after 30 items", done.stderr)
        self.assertIn("line 31: ", done.stderr)
        path.write_text('{"p":{"S":"1"}}\n{"p":{"S":"2"}}\n{"p":{"N":"3"}}\n{"p":{"S":"4"}}\n')
        done = self.mudax("import", path, "--table-name", "Stops", code=254)
        self.assertIn("Stops: stopped after 2 items; item 3 is refused", done.stderr)
        self.assertIn("(ValidationException) when calling the PutItem operation", done.stderr)
        self.refused(254, "(ResourceNotFoundException) when calling the BatchWriteItem operation", "import", path,
                     "--table-name", "Nowhere")
        path.write_bytes(gzip.compress(path.read_bytes()))
        self.refused(252, "is compressed: gunzip it first", "import", path, "--table-name", "Stops")

    def test_an_export_that_fails_touches_no_file(self):
        path = self.daemon.folder / "untouched"
        self.refused(254, "(ResourceNotFoundException)", "export", "--table-name", "Nowhere", "--output", path)
        self.assertFalse(path.exists())
        self.create("Empty")
        self.refused(252, "cannot be written", "export", "--table-name", "Empty", "--output", "/nowhere/at/all")
        self.assertEqual(self.mudax("export", "--table-name", "Empty").stdout, "")
        self.refused(252, "takes nothing more", "export", "--table-name", "Empty", "--definition", "--output",
                     "/dev/full")

    def test_a_wrong_model_is_refused(self):
        path = self.daemon.folder / "model.json"
        for text, expected in (("[]", "model.json: "), ('{"a": 1}', "it has no list DataModel"),
                               ('{"DataModel": [{}]}', "table 1 of the model has no TableName"),
                               ('{"DataModel": [{"TableName": "Wrong"}]}', "lacks a name, or a key")):
            path.write_text(text)
            self.refused(252, expected, "import", path)
        path.write_text(json.dumps({"DataModel": [{
            "TableName": "WrongItem", "KeyAttributes": {"PartitionKey": {
                "AttributeName": "p", "AttributeType": "S"}},
            "TableData": [{"p": {"S": "a"}}, {"q": {"S": "b"}}]}]}))
        done = self.mudax("import", path, code=254)
        self.assertIn("WrongItem: stopped after 1 items; item 2 is refused", done.stderr)
        self.assertIn("(ValidationException) when calling the PutItem operation", done.stderr)

    def test_a_killed_daemon_is_missed_and_found_again(self):
        daemon = self.own_daemon()
        self.assertEqual(run("import", MODEL, url=daemon.url).returncode, 0)
        daemon.end(signal.SIGKILL)
        query = ("query", "--table-name", "OnlineShop", "--key-condition-expression", "PK = :p",
                 "--expression-attribute-values", '{":p": {"S": "c#12345"}}')
        lost = run(*query, url=daemon.url)
        self.assertEqual(lost.returncode, 255)
        self.assertIn("connection refused", lost.stderr)
        daemon.start()
        self.assertEqual(json.loads(run(*query, url=daemon.url).stdout)["Count"], 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
