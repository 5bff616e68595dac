#!/usr/bin/env python3
"""Every header compiles alone, and twice. Arguments: the compiler and its flags."""
import concurrent.futures
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def check(header):
    text = f'#include "{header}"\n#include "{header}"\nint headers_alone;\n'
    run = subprocess.run(sys.argv[1:] + ["-fsyntax-only", "-x", "c", "-"], input=text, text=True,
                         capture_output=True, cwd=ROOT, timeout=60)
    return header, run.returncode, run.stderr


headers = sorted(path.relative_to(ROOT).as_posix()
                 for folder in ("protocol", "backend", "cache", "daemon", "clients", "bench", "tests")
                 for path in (ROOT / folder).rglob("*.h"))
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    results = list(pool.map(check, headers))
bad = [(header, error) for header, code, error in results if code != 0]
for header, error in bad:
    print(f"{header} does not compile alone:\n{error}")
print(f"{len(headers)} headers, {len(bad)} findings")
sys.exit(1 if bad or not headers else 0)
