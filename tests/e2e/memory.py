#!/usr/bin/env python3
"""Resident memory stays within what was promised, and an idle connection costs little.

usage: memory.py MUDAXD
"""
import os
import resource
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import native  # noqa: E402
from daemon import Daemon  # noqa: E402

MIB = 1 << 20
BUDGET, STORE = 64 * MIB, 32 * MIB
CONNECTIONS, IDLE_MAX = 1500, 10 * 1024
IN_FLIGHT = 4 * MIB # so that the requests' own memory does not count for much


def resident(pid):
    for line in open(f"/proc/{pid}/status", encoding="ascii"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def pipelined(client, requests, size=1000):
    """Sends all, some at a time in flight; every reply must be good."""
    in_flight, depth = 0, min(64, max(2, IN_FLIGHT // size))
    for request in requests:
        client.ask(*request)
        in_flight += 1
        if in_flight == depth:
            while in_flight > depth // 2:
                assert client.next_reply()[1] == 0
                in_flight -= 1
    for _ in range(in_flight):
        assert client.next_reply()[1] == 0


def check(what, used, most):
    print(f"{what}: {used / MIB:.1f} MiB of {most / MIB:.1f} MiB")
    if used > most:
        sys.exit(f"{what} is over its limit")


def fill(daemon, client):
    """Several times the budget, of all sizes, by writes and by reads."""
    client.create_table("Sized", sort=False)
    client.create_table("Paged")
    most = BUDGET * 102 // 100 + STORE + 40 * MIB
    for round_, (count, size) in enumerate(((40000, 100), (40000, 1000), (8000, 16000), (600, 300000))):
        value = os.urandom(size)
        keys = [f"{round_}:{i}" for i in range(count)]
        pipelined(client, ((native.PUT, {native.TABLE: "Sized", native.ITEM: {"p": key, "v": value}}) for key in keys), size)
        pipelined(client, ((native.GET, {native.TABLE: "Sized", native.KEY: {"p": key}}) for key in keys), size)
        check(f"resident after {count} items of {size} bytes", resident(daemon.process.pid), most)
    pipelined(client, ((native.PUT, {native.TABLE: "Paged", native.ITEM: {"p": f"{i % 500}", "s": f"{i}", "v": "x" * 500}})
                       for i in range(20000)))
    for _ in range(2):
        pipelined(client, ((native.QUERY, {native.TABLE: "Paged", native.CONDITION: "p = :p", native.LIMIT: 1 + i % 40,
                                           native.VALUES: {":p": f"{i % 500}"}}) for i in range(20000)))
    check("resident after queries", resident(daemon.process.pid), most)
    stats = client.call(native.STATS, {})
    cache = {name: value for name, value in stats.items() if name.startswith("cache_memory") or "evict" in name}
    if not any("evict" in name and value for name, value in cache.items()):
        sys.exit(f"nothing was evicted, so this proves nothing: {cache}")


def idle(daemon):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, CONNECTIONS + 200), hard))
    clients = [daemon.client() for _ in range(50)]
    before = resident(daemon.process.pid)
    clients += [daemon.client() for _ in range(CONNECTIONS)]
    for client in clients:
        client.call(native.PING, {})
    each = (resident(daemon.process.pid) - before) / CONNECTIONS
    print(f"an idle connection: {each:.0f} bytes")
    if each > IDLE_MAX:
        sys.exit(f"an idle connection costs more than {IDLE_MAX} bytes")
    for client in clients:
        client.close()


def main():
    top = tempfile.mkdtemp(prefix="mudax-memory-")
    daemon = Daemon(os.path.abspath(sys.argv[1]), top, "--store", f"rocksdb:{top}/data", "--sync", "none",
                    "--cache-memory", str(BUDGET), "--store-memory", str(STORE), "--workers", "2")
    try:
        client = daemon.start()
        idle(daemon)
        fill(daemon, client)
        if daemon.stop() != 0:
            sys.exit("mudaxd did not end well")
    finally:
        daemon.close()
        shutil.rmtree(top, ignore_errors=True)


main()
