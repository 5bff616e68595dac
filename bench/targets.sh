#!/usr/bin/env bash
# Repeats the figures of bench/README.md, in about seven minutes on a quiet machine of two cores.
#   bench/targets.sh [FOLDER]   FOLDER is a real disk for the durable rows (default: .)
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d "${1:-.}/mudax-targets-XXXXXX")
trap 'rm -rf "$folder"' EXIT
cmake --preset release -DMUDAX_BENCH=ON >/dev/null && cmake --build --preset release >/dev/null
bin=build/release
run() { "$bin/bench/load/mudax-bench" --daemon "$bin/daemon/mudaxd" "$@" 2>/dev/null; }

echo "== rows 1, 9: TCP, depth 1";         run --items 1000000 --rounds 9 --seconds 0.5 --transport tcp
echo "== rows 2, 9: Unix socket, depth 1 (row 3: its p50 over that of TCP)"
run --items 1000000 --rounds 9 --seconds 0.5 --transport unix
echo "== row 10: depth 64, uniform and Zipf"
run --items 1000000 --rounds 5 --seconds 0.5 --depth 64 --keys uniform,zipf --peers echo,memcached,redis
echo "== rows 1, 2, 9: 1 KiB"
run --items 200000 --value-size 1024 --rounds 5 --seconds 0.5 --transport tcp
run --items 200000 --value-size 1024 --rounds 5 --seconds 0.5 --transport unix
echo "== row 21: a reader beside a writer, in the process"
"$bin/bench/micro/bench-hit" 1000000
"$bin/bench/micro/bench-hit" 1000
echo "== row 14: 95 % reads, 5 % writes, and reads alone"
run --items 100000 --rounds 7 --seconds 0.4 --peers memcached --daemon-options '--sync none' --work mixed
run --items 100000 --rounds 7 --seconds 0.4 --peers memcached --daemon-options '--sync none'
echo "== row 20: filling and evicting; resident memory; what expires at once"
"$bin/bench/micro/bench-fill" 300000
echo "== floors of rows 16, 18, 19: bare RocksDB"
"$bin/bench/micro/bench-floors" "$folder"
echo "== row 16: misses (a cache of 1 MiB before 1,000,000 items in memory)"
run --items 1000000 --rounds 5 --seconds 0.5 --peers echo --daemon-options '--cache-memory 1M'
echo "== row 18: writes, not synced"
run --work write --items 100000 --rounds 5 --seconds 0.5 --peers echo --daemon-options '--sync none'
echo "== row 19: durable writes, 1 and 64 writers"
run --work write --items 1000 --rounds 5 --seconds 1 --connections 1,64 --peers none \
    --store "rocksdb:$folder/data"
