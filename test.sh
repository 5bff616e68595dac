#!/usr/bin/env bash
# Fresh machine to all tests run. Without arguments: what every change must pass, under 15 minutes on
# two cores. --all adds release, coverage, clang-tidy, cppcheck and the long runs.
set -euo pipefail
cd "$(dirname "$0")"
. tests/support/packages.sh

all=false
for argument in "$@"; do
    case "$argument" in
    --all) all=true ;;
    *) echo "usage: ./test.sh [--all]" >&2; exit 2 ;;
    esac
done

command -v npm >/dev/null || packages_test="$packages_test nodejs npm" # Node.js brings its own npm elsewhere
# shellcheck disable=SC2086
install_packages $packages_build $packages_test
# shellcheck disable=SC2086
$all && install_packages $packages_all

began=$SECONDS
step() { printf '\n== %s (%d s)\n' "$1" $((SECONDS - began)); }

build() { # preset, further cmake arguments
    local preset=$1
    shift
    cmake --preset "$preset" -DMUDAX_WERROR=ON "$@" >build-"$preset".log 2>&1 || { cat build-"$preset".log; exit 1; }
    cmake --build --preset "$preset" -j2 >build-"$preset".log 2>&1 || { tail -60 build-"$preset".log; exit 1; }
    rm -f build-"$preset".log
}

step "format"
git ls-files '*.c' '*.h' | xargs clang-format --dry-run --Werror

step "clang, Address- and UndefinedBehaviorSanitizer: unit, conformance, scenario"
build asan -DMUDAX_BENCH=OFF
ctest --preset asan -L 'unit|conformance|scenario'
whole='^(e2e/(daemon|upkeep|warm|transaction|client|cli)|check/trouble)$' # the daemon itself, as it is used
if $all; then
    ctest --preset asan -R "$whole"
fi

step "clang, ThreadSanitizer: race"
build tsan -DMUDAX_BENCH=OFF
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/tests/support/tsan.supp"
ctest --preset tsan -L race
if $all; then
    ctest --preset tsan -R "$whole"
fi

step "fuzz: ${MUDAX_FUZZ_SECONDS:=10} s a target"
export MUDAX_FUZZ_SECONDS
build fuzz
ctest --preset fuzz -L fuzz

if $all; then
    step "release"
    # At -O3 gcc warns of what its inlining made up.
    build release -DMUDAX_WERROR=OFF -DMUDAX_CHECK_OPERATIONS=500000
    ctest --preset release -LE long
    step "coverage"
    build coverage -DMUDAX_BENCH=OFF
    ctest --preset coverage -L 'unit|conformance|scenario|e2e'
    gcovr -r . build/coverage --gcov-ignore-parse-errors --exclude 'tests/' --exclude 'bench/' --print-summary -o build/coverage/report.txt
    step "clang-tidy"
    git ls-files 'protocol/*.c' 'backend/*.c' 'cache/*.c' 'daemon/*.c' 'clients/*.c' |
        xargs -P2 -n1 clang-tidy -p build/asan --quiet --warnings-as-errors='*'
    step "cppcheck"
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,performance,portability \
        --inline-suppr --suppress=missingIncludeSystem -I . -D_GNU_SOURCE protocol backend cache daemon clients
fi

step "gcc, all tests"
build dev
if $all; then
    ctest --preset dev
else
    ctest --preset dev -LE long
fi
