#!/usr/bin/env python3
"""`mudax` and `aws dynamodb` are given the same words, each before a daemon of its own: what they print
is the same JSON, what they refuse the same text.

    aws_test.py MUDAX MUDAXD AWS
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MUDAX, MUDAXD, AWS = sys.argv[1:4]
TABLE = ("--table-name", "Shop")
ARN = ("--resource-arn", "arn:aws:dynamodb:local:000000000000:table/Shop")
GETS = {"Shop": {"Keys": [{"p": {"S": "a"}, "s": {"N": "1"}}, {"p": {"S": "none"}, "s": {"N": "1"}}],
                 "ProjectionExpression": "p, #n", "ExpressionAttributeNames": {"#n": "n"}}}
WRITES = {"Shop": [{"PutRequest": {"Item": {"p": {"S": "a"}, "s": {"N": str(number)}, "n": {"N": "5"}, "g": {"S": "x"},
                                            "l": {"L": [{"NULL": True}, {"BOOL": False}]}}}}
                   for number in range(3)] + [{"DeleteRequest": {"Key": {"p": {"S": "z"}, "s": {"N": "1"}}}}]}
ACTIONS = [{"Update": {"TableName": "Shop", "Key": {"p": {"S": "a"}, "s": {"N": "1"}}, "UpdateExpression": "ADD n :one",
                       "ExpressionAttributeValues": {":one": {"N": "1"}}}},
           {"ConditionCheck": {"TableName": "Shop", "Key": {"p": {"S": "a"}, "s": {"N": "9"}},
                               "ConditionExpression": "attribute_not_exists(p)"}}]
COMMANDS = [
    ("create-table", *TABLE, "--attribute-definitions", "AttributeName=p,AttributeType=S",
     "AttributeName=s,AttributeType=N", "AttributeName=g,AttributeType=S", "--key-schema",
     "AttributeName=p,KeyType=HASH", "AttributeName=s,KeyType=RANGE", "--provisioned-throughput",
     "ReadCapacityUnits=5,WriteCapacityUnits=6", "--global-secondary-indexes",
     "IndexName=by-g,KeySchema=[{AttributeName=g,KeyType=HASH},{AttributeName=s,KeyType=RANGE}],"
     "Projection={ProjectionType=INCLUDE,NonKeyAttributes=[n,l]},"
     "ProvisionedThroughput={ReadCapacityUnits=1,WriteCapacityUnits=2}"),
    ("batch-write-item", "--request-items", json.dumps(WRITES), "--return-consumed-capacity", "INDEXES"),
    ("batch-get-item", "--request-items", json.dumps(GETS), "--return-consumed-capacity", "TOTAL"),
    ("query", *TABLE, "--index-name", "by-g", "--key-condition-expression", "g = :g AND s > :s",
     "--expression-attribute-values", '{":g": {"S": "x"}, ":s": {"N": "0"}}', "--no-scan-index-forward",
     "--return-consumed-capacity", "INDEXES"),
    ("query", *TABLE, "--key-condition-expression", "p = :p", "--expression-attribute-values", ":p={S=none}",
     "--select", "COUNT"),
    ("scan", *TABLE, "--filter-expression", "s = :s", "--expression-attribute-values", ":s={N=2}"),
    ("scan", *TABLE, "--segment", "0", "--total-segments", "1", "--select", "COUNT"),
    ("transact-write-items", "--transact-items", json.dumps(ACTIONS), "--client-request-token", "once"),
    ("transact-get-items", "--transact-items", json.dumps(
        [{"Get": {"TableName": "Shop", "Key": {"p": {"S": "a"}, "s": {"N": str(number)}}}} for number in (1, 8)])),
    ("put-item", *TABLE, "--item", "p={S=a},s={N=9}", "--return-values", "ALL_OLD", "--return-consumed-capacity",
     "TOTAL"),
    ("transact-write-items", "--transact-items", json.dumps(ACTIONS)),
    ("put-item", *TABLE, "--item", "p={S=a},s={N=9}", "--condition-expression", "attribute_not_exists(p)"),
    ("update-time-to-live", *TABLE, "--time-to-live-specification", "Enabled=true,AttributeName=until"),
    ("describe-time-to-live", *TABLE),
    ("tag-resource", *ARN, "--tags", "Key=team,Value=shop", "Key=Env,Value=a b"),
    ("tag-resource", *ARN, "--tags", "Key=aws:team,Value=shop"),
    ("untag-resource", *ARN, "--tag-keys", "team", "none"),
    ("list-tags-of-resource", *ARN),
    ("list-tags-of-resource", "--resource-arn", "arn:aws:dynamodb:local:000000000000:table/None"),
    ("update-table", *TABLE, "--billing-mode", "PAY_PER_REQUEST"),
    ("update-table", *TABLE, "--global-secondary-index-updates", "Delete={IndexName=by-g}"),
    ("delete-table", *TABLE),
]
# Differs from daemon to daemon, and from second to second.
OWN = {"CreationDateTime", "TableId", "LastUpdateToPayPerRequestDateTime"}


def strip(value):
    if isinstance(value, dict):
        return {name: strip(member) for name, member in value.items() if name not in OWN}
    return [strip(member) for member in value] if isinstance(value, list) else value


def told(done):
    """What a command answered: whether it failed (version 1 has other codes), JSON, and the error's line."""
    error = [line.replace(" (reached max retries: 0)", "") for line in done.stderr.splitlines()
             if line.startswith("An error occurred")]
    return done.returncode != 0, strip(json.loads(done.stdout)) if done.stdout.strip() else None, error


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder, *urls):
    listen = [word for url in urls for word in ("--listen", url)]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen([MUDAXD, *listen, "--store", "memory:"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def wait_ready(process, url):
    until = time.monotonic() + 30
    while subprocess.run([MUDAX, "--url", url, "ping"], capture_output=True).returncode != 0:
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError("mudaxd did not start")
        time.sleep(0.02)


def compare(folder, url, endpoint):
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "checks",
                   "AWS_MAX_ATTEMPTS": "1", "AWS_DEFAULT_REGION": "us-east-1", "AWS_PAGER": "", "HOME": str(folder)}
    wrong = 0
    for words in COMMANDS:
        ours = told(subprocess.run([MUDAX, "--url", url, *words], capture_output=True, text=True, timeout=60))
        # mudax shows one page; so does aws, if it is told.
        paging = ["--no-paginate"] if words[0] in ("query", "scan") else []
        theirs = told(subprocess.run([AWS, "dynamodb", *words, *paging, "--endpoint-url", endpoint, "--output", "json"],
                                     capture_output=True, text=True, timeout=60, env=environment))
        if ours != theirs:
            wrong += 1
            print(f"{' '.join(words)}\n  mudax: {ours}\n  aws:   {theirs}")
    return wrong


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mudax-aws-", dir="/tmp"))
    ours, theirs = (f"mudax+unix:{folder}/{name}" for name in ("ours", "theirs"))
    endpoint = f"http://127.0.0.1:{free_port()}"
    processes = []
    try:
        processes.append(start(folder, ours))
        processes.append(start(folder, theirs, endpoint))
        wait_ready(processes[0], ours)
        wait_ready(processes[1], theirs)
        wrong = compare(folder, ours, endpoint)
    finally:
        for process in processes:
            process.terminate()
            process.wait(30)
        shutil.rmtree(folder)
    print(f"{len(COMMANDS)} commands, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
