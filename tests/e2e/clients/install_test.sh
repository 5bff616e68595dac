#!/usr/bin/env bash
# Programs from outside, built against an installed copy and run against a daemon: the examples by
# find_package and by pkg-config, shared and static; a C++ program; and what symbols are visible.
#   install_test.sh BUILD_DIR SOURCE_DIR MUDAXD CC
set -euo pipefail
build=$1 source=$2 mudaxd=$3 cc=$4
scratch=$(mktemp -d /tmp/mudax-install-XXXXXX)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    wait
    rm -rf "$scratch"
}
trap finish EXIT
fail() {
    echo "install_test: $*" >&2
    exit 1
}

cmake --install "$build" --prefix "$scratch/root" >"$scratch/install.log"
library=$(dirname "$(find "$scratch/root" -name mudax.pc)")/..
export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"

# mudax_* is visible, and nothing else.
nm -D --defined-only "$library/libmudax.so" | grep ' T mudax_open' >/dev/null || fail "libmudax.so lacks mudax_open"
nm -g --defined-only "$library/libmudax.a" | grep ' T mudax_open' >/dev/null || fail "libmudax.a lacks mudax_open"
visible=$(nm -D --defined-only "$library/libmudax.so" | awk '$3 !~ /^mudax_/ && $3 != "MUDAX_0" {print $3}')
[ -z "$visible" ] || fail "libmudax.so shows $visible"
visible=$(nm -g --defined-only "$library/libmudax.a" | awk 'NF == 3 && $3 !~ /^mudax_/ {print $3}')
[ -z "$visible" ] || fail "libmudax.a shows $visible"
[ "$(find "$scratch/root" -name '*.h' | wc -l)" = 1 ] || fail "mudax.h is not the only header"

# The name in the URL is the socket's: start the daemon there.
url=mudax+unix:$scratch/socket
"$mudaxd" --listen "$url" --store memory: >"$scratch/mudaxd.log" 2>&1 </dev/null &
daemon=$!
for _ in $(seq 200); do
    "$scratch/root/bin/mudax" ping --url "$url" >/dev/null 2>&1 && break
    kill -0 "$daemon" || fail "mudaxd did not start: $(cat "$scratch/mudaxd.log")"
    sleep 0.05
done

check() { # program
    "$1/items$2" "$url" >"$scratch/out" || fail "$1/items$2 failed"
    diff - "$scratch/out" <<'EXPECTED' || fail "$1/items$2 printed something else"
Ada, 1.65 m, 2 languages (from the cache)
Ada, 1.65 m, 2 languages (from the cache)
no such user
EXPECTED
}
check_all() { # folder
    check "$1" ""
    "$1/pages" "$url" >"$scratch/out" || fail "$1/pages failed"
    [ "$(head -1 "$scratch/out")" = "page of 10: 25 24 23 22 21 20 19 18 17 16" ] || fail "$1/pages"
    [ "$(wc -l <"$scratch/out")" = 3 ] || fail "$1/pages: not three pages"
    [ "$("$1/pipeline" "$url")" = "1000 items written, 0 failed" ] || fail "$1/pipeline"
    "$1/transfer" "$url" >"$scratch/out" || fail "$1/transfer failed"
    diff - "$scratch/out" <<'EXPECTED' || fail "$1/transfer printed something else"
70 from 0 to 1: done
70 from 0 to 2: TransactionCanceledException
  part 0: ConditionalCheckFailed, balance 30
  part 1: None
account 0: 30
account 1: 170
account 2: 100
EXPECTED
}

# find_package
cmake -S "$source/clients/c/examples" -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$scratch/root" \
    -DCMAKE_C_COMPILER="$cc" >"$scratch/cmake.log" || fail "$(cat "$scratch/cmake.log")"
cmake --build "$scratch/cmake" >"$scratch/cmake.log" || fail "$(cat "$scratch/cmake.log")"
check_all "$scratch/cmake"
check "$scratch/cmake" _static

# pkg-config
mkdir "$scratch/pkg"
for example in items pages pipeline transfer; do
    # shellcheck disable=SC2046
    "$cc" -std=c99 -Wall -Wextra -Wpedantic -Werror -o "$scratch/pkg/$example" \
        "$source/clients/c/examples/$example.c" $(pkg-config --cflags --libs mudax)
done
check_all "$scratch/pkg"

# C++
if command -v c++ >/dev/null; then
    printf '#include <mudax.h>\nint main() { return mudax_type(nullptr) == MUDAX_NONE ? 0 : 1; }\n' >"$scratch/main.cc"
    # shellcheck disable=SC2046
    c++ -Wall -Wextra -Werror -o "$scratch/main" "$scratch/main.cc" $(pkg-config --cflags --libs mudax)
    "$scratch/main" || fail "the C++ program failed"
else
    echo "no C++ compiler here: that part is left out"
fi
echo "installed copy: fine"
