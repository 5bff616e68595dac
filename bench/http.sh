#!/usr/bin/env bash
# Figures of DynamoDB's API over HTTP, in about a minute: against a raw echo of the same bytes, and, with wrk
# and 16 connections, against libevent's evhttp with a fixed body, and against dynalite if a command of that
# name is there.
#   bench/http.sh [BUILD]   BUILD is a release build (default: build/release, which is made)
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${1:-build/release}
if [ $# = 0 ]; then
    cmake --preset release -DMUDAX_BENCH=ON >/dev/null && cmake --build --preset release >/dev/null
fi
folder=$(mktemp -d)
started=""
trap 'for pid in $started; do kill "$pid" 2>/dev/null || true; done; rm -rf "$folder"' EXIT

echo "== inside the process"
"$bin/bench/micro/bench-http"
echo "== GetItem hit, one connection, client and server on one CPU, against a raw echo of the same bytes"
"$bin/bench/load/mudax-bench" --daemon "$bin/daemon/mudaxd" --transport http --items 100000 --rounds 9 --seconds 0.5 \
    --pin same --peers echo 2>/dev/null

command -v wrk >/dev/null || { echo "wrk is not installed: nothing more to compare with" >&2; exit 0; }
echo "== GetItem hit, wrk with 16 connections on CPU 0, one server thread on CPU 1"
declare -A pid
start() { # PEER COMMAND...
    local peer=$1
    shift
    taskset -c 1 "$@" >"$folder/$peer.log" 2>&1 &
    pid[$peer]=$!
    started="$started $!"
}
call() { # PORT OPERATION BODY
    curl -sf -o /dev/null "http://127.0.0.1:$1/" -H "X-Amz-Target: DynamoDB_20120810.$2" \
        -H 'Content-Type: application/x-amz-json-1.0' -H 'X-Amz-Date: 20240101T000000Z' \
        -H 'Authorization: AWS4-HMAC-SHA256 Credential=x/20240101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=00' \
        -d "$3"
}
prepare() { # PORT
    for _ in $(seq 100); do
        curl -sf -o /dev/null "http://127.0.0.1:$1/" && break || sleep 0.1
    done
    call "$1" CreateTable '{"TableName": "bench", "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}'
    for _ in $(seq 100); do
        call "$1" PutItem '{"TableName": "bench", "Item": {"p": {"S": "user:0000000000000000000"}, "v": {"S": "'"$(printf 'v%.0s' $(seq 100))"'"}}}' \
            && break || sleep 0.1
    done
}
cpu_ns() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
measure() { # PEER SECONDS: requests a second, us of the server's CPU for each
    local before after
    before=$(cpu_ns "${pid[$1]}")
    taskset -c 0 wrk -t 1 -c 16 -d "$2" -s bench/http.lua "http://127.0.0.1:${port[$1]}/" >"$folder/wrk"
    after=$(cpu_ns "${pid[$1]}")
    awk -v ns=$((after - before)) '/^RATE/ { if ($6 != 0) exit 1; print $2, ns / 1000 / $4 }' "$folder/wrk"
}
peers="mudaxd evhttp"
declare -A port=([mudaxd]=18331 [evhttp]=18332 [dynalite]=18333)
start mudaxd "$bin/daemon/mudaxd" --listen "http://127.0.0.1:${port[mudaxd]}" --store memory: --workers 1 --log-level warn
start evhttp "$bin/bench/micro/bench-evhttp" "${port[evhttp]}" 160
if command -v dynalite >/dev/null; then
    start dynalite dynalite --host 127.0.0.1 --port "${port[dynalite]}" --createTableMs 0
    peers="$peers dynalite"
    prepare "${port[dynalite]}"
fi
prepare "${port[mudaxd]}"
for peer in $peers; do measure "$peer" 1 >/dev/null; done # warm
for round in 1 2 3 4 5; do
    for peer in $peers; do echo "$peer $(measure "$peer" 2)"; done
done >"$folder/rounds"
median() { sort -g | sed -n 3p; }
column() { awk -v peer="$1" -v column="$2" '$1 == peer { print $column }' "$folder/rounds" | median; }
ratio() { # PEER COLUMN: the median of the rounds' ratios, mudaxd's over the peer's
    awk -v peer="$1" -v column="$2" '$1 == "mudaxd" { mine = $column } $1 == peer { printf "%.2f\n", mine / $column }' \
        "$folder/rounds" | median
}
for peer in $peers; do
    echo "$peer: $(column "$peer" 2) requests/s, $(column "$peer" 3) us of CPU a request; medians of 5 rounds"
done
for peer in $peers; do
    [ "$peer" = mudaxd ] || echo "mudaxd / $peer: rate $(ratio "$peer" 2)x, CPU $(ratio "$peer" 3)x"
done
