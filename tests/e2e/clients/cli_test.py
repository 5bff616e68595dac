#!/usr/bin/env python3
"""The command line against a real daemon: every verb, its output, its errors, its exit codes.

    cli_test.py MUDAX MUDAXD MODEL
"""
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
MODELS = pathlib.Path(os.environ.get("MUDAX_MODELS", MODEL.parent))


class Daemon:
    """Ends only what it started. The store is a database on disk, so that it outlives restarts."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mudax-cli-", dir="/tmp"))
        self.url = f"mudax+unix:{self.folder}/socket"
        self.process = None

    def start(self):
        (self.folder / "socket").unlink(missing_ok=True)
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [MUDAXD, "--listen", self.url, "--store", f"rocksdb:{self.folder}/data", "--store-memory", "16M",
                 "--cache-memory", "16M"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
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


def run(*words, url):
    environment = dict(os.environ, MUDAX_URL=url)
    return subprocess.run([MUDAX, *words], env=environment, capture_output=True, text=True, timeout=60)


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
                         "--tags", "Key=team,Value=shop", "Key=cost,Value=7")
        self.assertEqual(made["TableDescription"]["ProvisionedThroughput"]["WriteCapacityUnits"], 6)

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

    def test_stats_are_figures(self):
        figures = self.json("stats")
        self.assertTrue(figures)
        self.assertTrue(all(isinstance(value, (int, float)) for value in figures.values()))

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
                     "get-item", "delete-item", "update-item", "query", "stats", "import"):
            self.assertIn(f"  {verb} ", overview)
            self.assertIn("--url", self.mudax(verb, "help").stdout)

    def test_no_daemon_is_said_with_what_to_do(self):
        done = run("ping", url=f"mudax+unix:{self.daemon.folder}/nobody")
        self.assertEqual(done.returncode, 255)
        self.assertIn("no such socket; is mudaxd running there? (MudaxConnectError)", done.stderr)

    def test_a_model_with_indexes_is_refused_untouched(self):
        self.refused(252, "table OnlineShop has 2 secondary indexes", "import", MODEL)
        self.assertNotIn("OnlineShop", self.json("list-tables")["TableNames"])

    def test_models_are_imported_and_imported_again(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        daemon.start()
        models = sorted(MODELS.glob("*.json"))
        self.assertTrue(models)
        for path in models:
            for table in json.loads(path.read_text())["DataModel"]:
                items = table.get("TableData", [])
                for how in ("created", "was there"):
                    done = run("import", path, "--without-indexes", "--table-name", table["TableName"],
                               url=daemon.url)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"{table['TableName']}: table {how}, {len(items)} items put", done.stdout)
                keys = [part["AttributeName"] for part in table["KeyAttributes"].values()]
                for item in items:
                    got = run("get-item", "--table-name", table["TableName"], "--key",
                              json.dumps({key: item[key] for key in keys}), url=daemon.url)
                    self.assertEqual(json.loads(got.stdout)["Item"], item)

    def test_a_wrong_model_is_refused(self):
        path = self.daemon.folder / "model.json"
        for text, expected in (("[]", "model.json: "), ("{}", "it has no list DataModel"),
                               ('{"DataModel": [{}]}', "table 1 of the model has no TableName"),
                               ('{"DataModel": [{"TableName": "Wrong"}]}', "lacks a name, or a key")):
            path.write_text(text)
            self.refused(252, expected, "import", path)
        path.write_text(json.dumps({"DataModel": [{
            "TableName": "WrongItem", "KeyAttributes": {"PartitionKey": {
                "AttributeName": "p", "AttributeType": "S"}},
            "TableData": [{"p": {"S": "a"}}, {"q": {"S": "b"}}]}]}))
        done = self.mudax("import", path, code=254)
        self.assertIn("WrongItem: stopped after 1 of 2 items", done.stderr)
        self.assertIn("(ValidationException) when calling the PutItem operation", done.stderr)

    def test_a_killed_daemon_is_missed_and_found_again(self):
        daemon = Daemon()
        self.addCleanup(daemon.close)
        daemon.start()
        self.assertEqual(run("import", MODEL, "--without-indexes", url=daemon.url).returncode, 0)
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
