#!/usr/bin/env bash
# Figures of DynamoDB's API over HTTP, in about three minutes: against a raw echo of the same bytes, and, with wrk
# and 16 connections, against a server that does nothing but read and write (the limit), libevent's evhttp with
# a fixed body, and dynalite if a command of that name is there.
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
start() { # PEER CPUS COMMAND...
    local peer=$1 cpus=$2
    shift 2
    taskset -c "$cpus" "$@" >"$folder/$peer.log" 2>&1 &
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
measure() { # PEER SECONDS CPUS THREADS: requests a second, us of the server's CPU for each
    local before after
    before=$(cpu_ns "${pid[$1]}")
    taskset -c "$3" wrk -t "$4" -c 16 -d "$2" -s bench/http.lua "http://127.0.0.1:${port[$1]}/" >"$folder/wrk"
    after=$(cpu_ns "${pid[$1]}")
    awk -v ns=$((after - before)) '/^RATE/ { if ($6 != 0) exit 1; print $2, ns / 1000 / $4 }' "$folder/wrk"
}
rounds() { # CPUS THREADS PEER...: of wrk, and whom to ask in turn
    local cpus=$1 threads=$2 peer
    shift 2
    for peer in "$@"; do measure "$peer" 1 "$cpus" "$threads" >/dev/null; done # warm
    for _ in $(seq 9); do
        for peer in "$@"; do echo "$peer $(measure "$peer" 2 "$cpus" "$threads")"; done
    done >"$folder/rounds"
    for peer in "$@"; do
        echo "$peer: $(column "$peer" 2) requests/s, $(column "$peer" 3) us of CPU a request; medians of 9 rounds"
    done
    for peer in "${@:2}"; do echo "$1 / $peer: rate $(ratio "$1" "$peer" 2)x, CPU $(ratio "$1" "$peer" 3)x"; done
}
median() { sort -g | sed -n 5p; }
column() { awk -v peer="$1" -v column="$2" '$1 == peer { print $column }' "$folder/rounds" | median; }
ratio() { # PEER PEER COLUMN: the median of the rounds' ratios
    awk -v one="$1" -v peer="$2" -v column="$3" '$1 == one { mine = $column } $1 == peer { printf "%.2f\n", mine / $column }' \
        "$folder/rounds" | median
}
declare -A port=([mudaxd]=18331 [evhttp]=18332 [dynalite]=18333 [workers]=18334 [fixed]=18335)
mudaxd() { # PEER CPUS WORKERS
    start "$1" "$2" "$bin/daemon/mudaxd" --listen "http://127.0.0.1:${port[$1]}" --store memory: --workers "$3" --log-level warn
    prepare "${port[$1]}"
}
has_dynalite=""
command -v dynalite >/dev/null && has_dynalite=dynalite
mudaxd mudaxd 1 1
start fixed 1 "$bin/bench/micro/bench-fixed" "${port[fixed]}" 160
start evhttp 1 "$bin/bench/micro/bench-evhttp" "${port[evhttp]}" 160
if [ -n "$has_dynalite" ]; then
    start dynalite 1 dynalite --host 127.0.0.1 --port "${port[dynalite]}" --createTableMs 0
    prepare "${port[dynalite]}"
fi
# shellcheck disable=SC2086
rounds 0 1 mudaxd fixed evhttp $has_dynalite
[ -n "$has_dynalite" ] || { echo "dynalite is not installed: nothing more to compare with" >&2; exit 0; }
echo "== the same with two threads of wrk and a worker a CPU, on the CPUs that the system gives them"
mudaxd workers 0,1 0
taskset -a -c -p 0,1 "${pid[dynalite]}" >/dev/null
rounds 0,1 2 workers dynalite
