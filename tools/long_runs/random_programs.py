"""Run random programs with each transformation on and off, by shares that can be continued.

    python tools/long_runs/random_programs.py --count 100000 --store build/random-programs.txt

A share is 500 seeds. When it has ended, its line is added to the store, with a digest of the sources; a later run of the same sources leaves
such shares out. A seed that fails is printed with its error, and the command ends with 1. See tests/support/switches.py.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from shares import Store, digest, tests_module

SHARE = 500
#: folders whose files decide the outcome
SOURCES = ("isa", "compiler", "simulator", "tests/support", "tests/compiler")


def modules() -> tuple[Any, ...]:
    """The module of the checks, and the modules that it is given."""
    names = ("support/switches", "compiler/random_ir", "compiler/random_sums", "compiler/interpreter")
    return tuple(map(tests_module, names))


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


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--count", type=int, default=100_000, help="programs (default: 100000)")
    p.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    p.add_argument("--store", type=Path, help="the file of finished shares")
    p.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: one a core)")
    options = p.parse_args()
    if options.count < 1 or options.seed < 0 or options.jobs < 1:
        p.error("--count and --jobs are at least 1, and --seed at least 0")
    mark, total, store = digest(SOURCES), Counter[str](), Store(options.store)
    done = store.finished(mark)
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
            if not failures:
                store.add(mark, first, went)
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
