"""`python -m benchmarks [--quick] [--json FILE]`: measure, and hold the figures against their bars.

A missed bar is printed as missed; times never fail the command, since they depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

from benchmarks import assembler, compiler, energy, engines, gradients, machine, startup


def main() -> None:
    """Run every benchmark and print one table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer repeats")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures too (schema retrograd.bench/1)")
    options = parser.parse_args()
    parts = (assembler, machine, compiler, gradients, engines, energy, startup)
    rows = [row for part in parts for row in part.measure(options.quick)]
    width = max(len(row.name) for row in rows)
    for row in rows:
        value = f"{row.value:,.0f}" if row.value > 1000 else f"{row.value:.3f}"
        bar = "" if row.bar is None else f"bar {'≤' if row.lower_is_better else '≥'} {row.bar:g}"
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        print(f"{row.name:<{width}}  {value:>12} {row.unit:<15} {bar:<14} {verdict}".rstrip())
    if options.json:
        figures = [{**vars(row), "met": row.met} for row in rows]
        report = {"schema": "retrograd.bench/1", "python": platform.python_version(), "rows": figures}
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
