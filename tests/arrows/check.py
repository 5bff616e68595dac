#!/usr/bin/env python3
"""Who may include whom: the table of ARCHITECTURE.md, checked line by line.

Prints every include that it does not allow and exits 1 if there was one. With --planted it first
checks that it would notice: it adds a forbidden include to a copy in memory and expects a finding.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')

# Folder -> (folders whose headers it may include, third-party headers by file pattern)
BACKEND_PUBLIC = {"backend/backend.h", "backend/lane.h"}
RULES = [
    # (files, allowed own headers, allowed libraries)
    ("protocol/encoding/msgpack.c", ["protocol/"], ["msgpack"]),
    ("protocol/dynamodb/", ["protocol/"], ["libdeflate.h"]),
    ("protocol/hash.c", ["protocol/"], ["xxhash.h"]),
    ("protocol/sigv4.c", ["protocol/"], ["openssl/"]),
    ("protocol/", ["protocol/"], []),
    ("backend/rocksdb/", ["protocol/", "backend/lane.h", "backend/engine/kv.h", "backend/rocksdb/"],
     ["rocksdb/"]),
    ("backend/redis/", ["protocol/", "backend/lane.h", "backend/engine/kv.h", "backend/redis/"],
     ["hiredis/", "event2/"]),
    ("backend/engine/", ["protocol/", "backend/backend.h", "backend/batch.h", "backend/lane.h",
                         "backend/engine/",
                         "backend/expression/"], []),
    ("backend/expression/", ["protocol/", "backend/expression/"], []),
    ("backend/", ["protocol/", "backend/backend.h", "backend/batch.h", "backend/lane.h"], []),
    ("cache/", ["protocol/", "backend/backend.h", "backend/batch.h", "backend/lane.h",
                "backend/expression/projection.h", "cache/"], ["ck_", "sanitizer/"]),
    ("daemon/config.c", ["protocol/", "daemon/"], ["ini.h"]),
    ("daemon/", ["protocol/", "backend/backend.h", "backend/lane.h", "backend/engine/engine.h",
                 "cache/cache.h", "daemon/"], ["event2/"]),
    ("clients/c/include/", [], []),
    ("clients/c/examples/", [], ["mudax.h"]),
    ("clients/c/", ["protocol/", "clients/c/"], ["mudax.h"]),
    ("clients/cli/", ["protocol/encoding/json.h", "clients/cli/"], ["mudax.h"]),
    ("bench/load/", ["protocol/", "bench/load/"], ["hiredis/"]),
    ("bench/micro/evhttp.c", [], ["event2/"]),
    ("bench/micro/floors.c", [], ["rocksdb/"]),
    ("bench/micro/engine.c", ["protocol/", "backend/engine/engine.h", "tests/support/session.h"],
     ["rocksdb/"]),
    ("bench/micro/", ["protocol/", "backend/backend.h", "cache/cache.h", "bench/micro/"], []),
    ("bench/trace/", ["protocol/", "backend/backend.h", "cache/cache.h", "bench/trace/"], []),
]
# Inside protocol/, the top level may not know how things are spelled on a wire.
FORBIDDEN = [
    (re.compile(r"^protocol/[^/]+\.h$"), re.compile(r"^protocol/(encoding|native|dax|dynamodb)/")),
    (re.compile(r"^(backend|cache)/"), re.compile(r"^protocol/(native|dax|dynamodb)/|^protocol/wire\.h")),
]
LIBRARIES = re.compile(
    r"^(event2?/|event\.h|evhttp|msgpack|hiredis|ck_|rocksdb/|xxhash|jansson|cbor|ini\.h|openssl/|"
    r"libdeflate|cmocka|jemalloc|sanitizer/|mudax\.h)")


def rule_of(path):
    for prefix, own, libraries in RULES:
        if path.startswith(prefix):
            return own, libraries
    return None


def findings(path, text):
    rule = rule_of(path)
    if rule is None:
        return
    own, libraries = rule
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        kind, header = match.groups()
        if LIBRARIES.match(header):
            allowed = any(header.startswith(name) for name in libraries)
        elif kind == '"':
            allowed = any(header.startswith(name) for name in own)
        else:
            continue  # the C library and the system
        for files, headers in FORBIDDEN:
            if files.match(path) and headers.match(header):
                allowed = False
        if not allowed:
            yield f"{path}:{number}: must not include {header}"


def sources():
    for folder in ("protocol", "backend", "cache", "daemon", "clients", "bench"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            yield path.relative_to(ROOT).as_posix(), path.read_text()


def planted():
    """Every folder must notice an include that it may not have."""
    for path, header in (("protocol/value.c", '"backend/backend.h"'),
                         ("protocol/value.h", '"protocol/native/frame.h"'),
                         ("protocol/native/native.c", "<libdeflate.h>"),
                         ("backend/engine/engine.c", "<rocksdb/c.h>"),
                         ("cache/cache.c", '"backend/engine/engine.h"'),
                         ("cache/cache.c", '"protocol/wire.h"'),
                         ("daemon/server.c", '"cache/shard.h"'),
                         ("clients/cli/main.c", '"protocol/native/frame.h"'),
                         ("daemon/server.c", "<ck_epoch.h>")):
        if not list(findings(path, f"#include {header}\n")):
            yield f"a planted include of {header} in {path} was not noticed"


def main():
    bad = list(planted())
    count = 0
    for path, text in sources():
        count += 1
        bad.extend(findings(path, text))
    for line in bad:
        print(line)
    print(f"{count} files, {len(bad)} findings")
    return 1 if bad or count == 0 else 0


sys.exit(main())
