"""`retrograd hdl synth`: size and clock of the co-processor, placed and routed for an ECP5-85F."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from retrograd.cli.commands.hdl.hardware import format_option, memory_options, parameters
from retrograd.cli.exit_codes import OK
from retrograd.cli.options import Parser, fail, integer
from retrograd.cli.report import print_json
from retrograd.presentation.tables import columns


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl synth`."""
    format_option(p)
    memory_options(p)
    p.core_option()
    p.add_argument("--mhz", metavar="MHZ", default="60", help="the clock to aim for (default: 60)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument("--folder", metavar="DIR", default="synthesis", help="where files go (default: synthesis)")
    p.add_argument("--path", action="store_true", help="print the critical path, too")
    p.json_option("retrograd.synth/1")


def execute(options: argparse.Namespace) -> int:
    """Place and route, and show the result."""
    from retrograd.hdl.flow.synthesis import place

    p = parameters(options)
    try:
        mhz = float(options.mhz)
    except ValueError:
        mhz = 0.0
    if not 1 <= mhz <= 1000:
        raise fail("RG0507", f"--mhz: `{options.mhz[:40]}` is no frequency from 1 to 1000")
    print("place and route takes minutes …", file=sys.stderr)
    found = place(p, Path(options.folder), mhz, integer(options.seed, "--seed", 0))
    if options.json:
        out = {
            "format": {"width": p.format.width, "frac": p.format.frac}, "device": "ECP5-85F",
            "core": p.core, "code_words": p.code_words, "data_words": p.data_words, "luts": found.luts, "registers": found.registers,
            "multipliers": found.multipliers, "memories": found.memories, "mhz": found.mhz, "aim_mhz": mhz,
        }  # fmt: skip
        print_json("retrograd.synth/1", out)
        return OK
    rows = [
        ["format", "core", "LUTs", "registers", "multipliers", "block RAMs", "MHz"],
        [
            str(p.format),
            p.core,
            *map(str, (found.luts, found.registers, found.multipliers, found.memories)),
            f"{found.mhz:.1f}",
        ],
    ]
    print(columns(rows, right=range(2, 7)))
    if options.path:
        print("\n" + "\n".join(f"{time:6.2f} ns  {cell}" for time, cell in found.path))
    return OK
