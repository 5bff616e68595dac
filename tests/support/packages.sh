# packages.sh - installs Debian packages that are missing. Sourced by quickstart.sh and test.sh.

packages_build="gcc libc6-dev cmake ninja-build pkg-config libevent-dev libmsgpack-dev libck-dev
 libhiredis-dev librocksdb-dev libxxhash-dev libinih-dev libssl-dev libdeflate-dev"
packages_test="clang libclang-rt-14-dev clang-format libcmocka-dev libjansson-dev redis-server memcached python3 git
 python3-boto3 awscli"
packages_all="clang-tidy cppcheck gcovr"

# install_packages NAME...: as root or with sudo; says what it installs, is silent when nothing is missing.
install_packages() {
    local missing="" name as_root=""
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing="$missing $name"
    done
    [ -z "$missing" ] && return 0
    if ! command -v apt-get >/dev/null; then
        echo "missing:$missing - this script installs with apt-get, which is not here; install them by hand" >&2
        return 1
    fi
    if [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "missing:$missing - run this as root, or install sudo" >&2
            return 1
        fi
        as_root=sudo
    fi
    echo "installing$missing"
    # shellcheck disable=SC2086
    if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/tmp/mudax-apt.log 2>&1; then
        $as_root apt-get update -qq >/tmp/mudax-apt.log 2>&1
        # shellcheck disable=SC2086
        if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >>/tmp/mudax-apt.log 2>&1; then
            tail -20 /tmp/mudax-apt.log >&2
            return 1
        fi
    fi
}
