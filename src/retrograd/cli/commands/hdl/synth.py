"""`retrograd hdl synth`: size and clock of the co-processor, placed and routed for an ECP5-85F."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from retrograd.cli.commands.hdl.hardware import (
    SOME_LANES,
    core_name,
    dma_option,
    format_option,
    frequency,
    memory_options,
    parameters,
)
from retrograd.cli.options import Parser, integer
from retrograd.cli.report import print_json
from retrograd.cli.terminal import OK
from retrograd.presentation import columns


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl synth`."""
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    dma_option(p)
    p.add_argument("--mhz", metavar="MHZ", default="60", help="the clock to aim for (default: 60)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument(
        "--seeds", metavar="N", help="place with N seeds, from --seed on: the least, median and greatest clock"
    )
    p.add_argument("--grade", choices=("6", "7", "8"), default="6", help="the speed grade (default: 6, the slowest)")
    p.add_argument("--folder", metavar="DIR", default="synthesis", help="where files go (default: synthesis)")
    p.add_argument("--path", action="store_true", help="print the critical path, too")
    p.json_option("retrograd.synth/1")


def execute(options: argparse.Namespace) -> int:
    """Place and route, and show the result."""
    from retrograd.hdl.flow.synthesis import place, spread
    from retrograd.hdl.netlist import NEXTPNR, YOSYS, need, version

    p, mhz, first = parameters(options), frequency(options.mhz), integer(options.seed, "--seed", 0)
    number = 1 if options.seeds is None else integer(options.seeds, "--seeds", 1)
    grade = int(options.grade)
    need((YOSYS, NEXTPNR))
    print("place and route takes minutes …", file=sys.stderr)
    found = place(p, Path(options.folder), mhz, range(first, first + number), grade)
    best, versions = max(found, key=lambda placed: placed.mhz), [version(YOSYS), version(NEXTPNR)]
    least, middle, most = spread(found)
    if options.json:
        out = {
            "format": {"width": p.format.width, "frac": p.format.frac}, "device": "ECP5-85F", "grade": grade,
            "core": p.core, "lanes": p.lanes, "code_words": p.code_words, "data_words": p.data_words, "dma": p.dma, "luts": best.luts, "registers": best.registers,
            "multipliers": best.multipliers, "memories": best.memories, "mhz": best.mhz, "aim_mhz": mhz, "seed": best.seed,
            "seeds": [{"seed": placed.seed, "mhz": placed.mhz} for placed in found], "tools": versions,
        }  # fmt: skip
        print_json("retrograd.synth/1", out)
        return OK
    rows = [
        ["format", "core", "grade", "LUTs", "registers", "multipliers", "block RAMs", "MHz", "seed"],
        [
            str(p.format),
            core_name(p),
            str(grade),
            *map(str, (best.luts, best.registers, best.multipliers, best.memories)),
            f"{best.mhz:.1f}",
            str(best.seed),
        ],
    ]
    print(columns(rows, right=range(2, 9)))
    if options.seeds is not None:
        print(f"{number} seeds: {least:.1f} MHz at least, {middle:.1f} in the median, {most:.1f} at most")
    print(", ".join(versions))
    if options.path:
        print("\n" + "\n".join(f"{time:6.2f} ns  {cell}" for time, cell in best.path))
    return OK
