"""Run random programs with each transformation on and off, by shares that can be continued.

    python tools/random_programs.py --count 100000 --store build/random-programs.txt

A share is 500 seeds. When it has ended, its line is added to the store, with a digest of the sources; a later run of the same sources leaves
such shares out. A seed that fails is printed with its error, and the command ends with 1. See tests/programs/switches.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHARE = 500
#: folders whose files decide the outcome
SOURCES = ("isa", "compiler", "simulator", "tests/programs", "tests/compiler")


@cache
def modules() -> tuple[ModuleType, ...]:
    """The module of the checks, and the modules that it is given."""
    spec = importlib.util.spec_from_file_location("conftest_of_random_programs", ROOT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    conftest: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    names = ("programs/switches", "compiler/random_ir", "compiler/random_sums", "compiler/interpreter")
    return tuple(conftest.module_at(f"tests/{name}.py") for name in names)


def run(first: int) -> tuple[int, Counter[str], list[str]]:
    """A share of the seeds: its first seed, the counts, and the failures."""
    switches, *given = modules()
    went: Counter[str] = Counter()
    failures = []
    for seed in range(first, first + SHARE):
        try:
            went += switches.check(seed, *given)
        except Exception:
            failures.append(f"switches.check({seed}): {traceback.format_exc()}")
    return first, went, failures


def digest() -> str:
    """A digest of the sources."""
    found = sha256()
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            found.update(file.read_bytes())
    return found.hexdigest()[:16]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=100_000, help="programs (default: 100000)")
    p.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    p.add_argument("--store", type=Path, help="the file of finished shares")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    options = p.parse_args()
    if options.count < 1 or options.seed < 0 or options.jobs < 1:
        p.error("--count and --jobs are at least 1, and --seed at least 0")
    mark, total = digest(), Counter[str]()
    done = {}
    if options.store is not None and options.store.exists():
        for line in options.store.read_text().splitlines():
            # An interrupted line does not end in a dot.
            if line.startswith(mark) and line.endswith(" ."):
                _, first, *counts, _ = line.split()
                done[int(first)] = Counter({name: int(n) for name, n in (item.rsplit("=", 1) for item in counts)})
    shares = range(options.seed, options.seed + options.count, SHARE)
    for first in shares:
        total += done.get(first, Counter())
    failed = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for future in as_completed([pool.submit(run, first) for first in shares if first not in done]):
            first, went, failures = future.result()
            total += went
            failed += len(failures)
            print(f"{first} to {first + SHARE - 1}: {went['ended']} ended", *failures, sep="\n", flush=True)
            if options.store is not None and not failures:
                options.store.parent.mkdir(parents=True, exist_ok=True)
                with options.store.open("a") as file:
                    file.write(" ".join([mark, str(first), *(f"{name}={n}" for name, n in went.items()), "."]) + "\n")
    names = sorted(name for name in total if name[0] in "+-")
    print(
        f"{total['ended']} programs ended, {total['trapped']} trapped, {total['engines']} ran on engines, {failed} failed"
    )
    print(
        "fewest programs of a transformation: "
        + ", ".join(f"{n} {total[n]}" for n in sorted(names, key=total.__getitem__)[:3])
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
