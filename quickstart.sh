#!/usr/bin/env bash
# Fresh machine to a running daemon with data, a first miss and a first hit. Can be run twice.
#   ./quickstart.sh          build, start, import, show; leaves the daemon running
#   ./quickstart.sh --stop   stop it
set -euo pipefail
cd "$(dirname "$0")"
. tests/support/packages.sh

state=build/quickstart
bin=build/release
url=mudax://127.0.0.1:8110
http=http://127.0.0.1:8000
far_url=mudax://127.0.0.1:8120
model=tests/support/models/an-online-shop.json

# stop_daemon PIDFILE: ends the mudaxd that this script started, if it still runs.
stop_daemon() {
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    if [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = mudaxd ]; then
        kill "$pid"
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        echo "stopped mudaxd (process $pid)"
    fi
    rm -f "$1"
}

# start_daemon NAME URL ARGUMENTS...: in the background, ready when this returns. Its cache is off
# until switch_cache_on, so that what is imported does not lie in it already.
start_daemon() {
    local name=$1 address=$2
    shift 2
    echo "cache = off" >"$state/$name.ini"
    nohup "$bin/daemon/mudaxd" --config "$state/$name.ini" "$@" >"$state/$name.log" 2>&1 </dev/null &
    echo $! >"$state/$name.pid"
    for _ in $(seq 100); do
        "$bin/clients/cli/mudax" ping --url "$address" >/dev/null 2>&1 && return 0
        kill -0 "$(cat "$state/$name.pid")" 2>/dev/null || break
        sleep 0.1
    done
    echo "mudaxd did not start:" >&2
    cat "$state/$name.log" >&2
    return 1
}

switch_cache_on() { # NAME
    echo "cache = on" >"$state/$1.ini"
    kill -HUP "$(cat "$state/$1.pid")"
    for _ in $(seq 100); do
        grep -q event=reloaded "$state/$1.log" && return 0
        sleep 0.05
    done
    echo "mudaxd did not reload its settings, see $state/$1.log" >&2
    return 1
}

mkdir -p "$state"
if [ "${1:-}" = --stop ]; then
    stop_daemon "$state/mudaxd.pid"
    stop_daemon "$state/far.pid" # of a start that was broken off
    exit 0
elif [ $# -gt 0 ]; then
    echo "usage: ./quickstart.sh [--stop]" >&2
    exit 2
fi

# shellcheck disable=SC2086
install_packages $packages_build
echo "building (release)"
cmake --preset release -DMUDAX_TESTS=OFF -DMUDAX_BENCH=OFF >"$state/build.log" 2>&1 &&
    cmake --build --preset release -j"$(nproc)" >>"$state/build.log" 2>&1 || {
    tail -40 "$state/build.log" >&2
    exit 1
}

mudax() { "$bin/clients/cli/mudax" "$@"; }
show() { # title, then a mudax command; its result is cut short, its verdict is kept
    printf '  %-34s' "$1"
    shift
    mudax "$@" --verdict 2>&1 >"$state/result.json"
}
customer='{":p": {"S": "c#12345"}}'
get=(get-item --table-name OnlineShop --key '{"PK": {"S": "c#12345"}, "SK": {"S": "c#12345"}}')
query=(query --table-name OnlineShop --key-condition-expression 'PK = :p' --expression-attribute-values "$customer")
index=(query --table-name OnlineShop --index-name GSI1 --key-condition-expression '#p = :p'
    --expression-attribute-names '{"#p": "GSI1-PK"}' --expression-attribute-values '{":p": {"S": "sh#98765"}}')
# A new order on every run, so that the count of items shows that the Query is fresh.
order=$(date +%s)
put=(put-item --table-name OnlineShop --item
    "{\"PK\": {\"S\": \"c#12345\"}, \"SK\": {\"S\": \"o#$order\"}, \"EntityType\": {\"S\": \"order\"}}")

tour() { # URL
    show "GetItem, first time:" "${get[@]}" --url "$1"
    show "GetItem, again:" "${get[@]}" --url "$1"
    show "Query of a customer, first time:" "${query[@]}" --url "$1"
    show "Query of a customer, again:" "${query[@]}" --url "$1"
    printf '  %-34s%s\n' "items in the result:" "$(grep -c '"SK"' "$state/result.json")"
    mudax "${put[@]}" --url "$1"
    echo "  PutItem of an order of that customer"
    show "the same Query, at once:" "${query[@]}" --url "$1"
    printf '  %-34s%s\n' "items in the result:" "$(grep -c '"SK"' "$state/result.json")"
    show "Query of an index, first time:" "${index[@]}" --url "$1"
    show "Query of an index, again:" "${index[@]}" --url "$1"
    printf '  %-34s%s\n' "items of the shipment:" "$(grep -c '"SK"' "$state/result.json")"
}

stop_daemon "$state/mudaxd.pid"
stop_daemon "$state/far.pid"
echo "starting mudaxd on loopback, data in $state/data"
listen=(--listen "$url" --listen admin://127.0.0.1:8112)
if (: <>/dev/tcp/127.0.0.1/8000) 2>/dev/null; then
    echo "port 8000 is taken: DynamoDB's API is left out"
else
    listen+=(--listen "$http")
fi
start_daemon mudaxd "$url" "${listen[@]}" --store "rocksdb:$state/data"
mudax import "$model" --url "$url"
switch_cache_on mudaxd
echo "from the embedded store:"
tour "$url"

echo "the same before a store that is 4 ms away (memory:?delay=4ms):"
start_daemon far "$far_url" --listen "$far_url" --store 'memory:?delay=4ms'
mudax import "$model" --url "$far_url"
switch_cache_on far
tour "$far_url"
stop_daemon "$state/far.pid" >/dev/null

cat <<EOF

mudaxd runs in the background (process $(cat "$state/mudaxd.pid"), log $state/mudaxd.log). Go on with:
  $bin/clients/cli/mudax query --table-name OnlineShop --key-condition-expression 'PK = :p' \\
      --expression-attribute-values '$customer' --verdict
  $bin/clients/cli/mudax stats
  curl -s http://127.0.0.1:8112/metrics
  AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any \\
      aws dynamodb scan --table-name OnlineShop --region local --endpoint-url $http
  ./quickstart.sh --stop
EOF
