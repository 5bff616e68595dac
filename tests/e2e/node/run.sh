#!/usr/bin/env bash
# Stock clients for Node.js against a mudaxd. Installs them into FOLDER once, by package-lock.json; 77 where that cannot be.
# usage: run.sh MUDAXD FOLDER
set -euo pipefail
export MUDAXD=$1
folder=$2
here=$(cd "$(dirname "$0")" && pwd)
skip() { echo "skipped: $1"; exit 77; }

command -v node >/dev/null && command -v npm >/dev/null || skip "no node or npm"
[ "$(node -p 'Number(process.versions.node.split(".")[0])')" -ge 18 ] || skip "node $(node --version) is older than 18"
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/installed.json"; then
    cp "$here/package.json" "$here/package-lock.json" "$folder"
    npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --fetch-retries 1 >"$folder/npm.log" 2>&1 || {
        tail -5 "$folder/npm.log"
        skip "npm could not install the clients"
    }
    cp "$here/package-lock.json" "$folder/installed.json"
fi
export NODE_PATH=$folder/node_modules AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE=1
exec node --test "$here"/*.test.js
