"""`retrograd hdl build`: the bitstream of the co-processor for a board."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from retrograd.cli.commands.hdl.hardware import (
    SOME_LANES,
    core_name,
    format_option,
    frequency,
    memory_options,
    parameters,
)
from retrograd.cli.options import Parser, fail, integer
from retrograd.cli.terminal import OK
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import check_output, write_file


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl build`."""
    p.add_argument("--board", choices=("ulx3s",), default="ulx3s", help="the board (default: ulx3s, with an ECP5-85F)")
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    p.add_argument("--mhz", metavar="MHZ", default="25", help="the clock of the co-processor (default: 25)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument("--folder", metavar="DIR", help="keep the files of the tools here")
    p.add_argument("-o", "--output", metavar="FILE.bit", required=True, help="the bitstream to write")


def execute(options: argparse.Namespace) -> int:
    """Build, and write the bitstream if it is reliable."""
    from retrograd.hdl.flow.synthesis import BOARDS, build, pll_for
    from retrograd.hdl.netlist import ECPPACK, NEXTPNR, YOSYS, need, version

    p, mhz, seed = parameters(options), frequency(options.mhz), integer(options.seed, "--seed", 0)
    check_output(options.output)
    board = BOARDS[options.board]
    try:
        pll = pll_for(board.mhz, mhz)
    except ValueError as error:
        raise fail("RG0507", f"--mhz: {error}") from None
    need((YOSYS, NEXTPNR, ECPPACK))
    with tempfile.TemporaryDirectory() as temporary:
        print("synthesis, place and route take minutes …", file=sys.stderr)
        built = build(board, p, Path(options.folder or temporary), pll, seed)
    if not built.reliable:
        raise fail(
            "RG1010",
            f"the placement with seed {seed} runs at {built.placed.mhz:.1f} MHz, and not at {built.mhz:.1f}",
            f"--mhz {int(built.placed.mhz)}, or another --seed",
        )
    write_file(options.output, built.bitstream)
    print(f"{printable(options.output)}: {board.title}, {p.format}, core {core_name(p)}: {built.placed}")
    print(f"clock {built.mhz:.1f} MHz, seed {seed}, {version(YOSYS)}, {version(NEXTPNR)}")
    return OK
