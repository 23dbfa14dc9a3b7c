"""`retrograd hdl stat`: gates of each function unit."""

from __future__ import annotations

import argparse
import json

from retrograd.cli.commands.hdl.hardware import SOME_LANES, format_option, parameters
from retrograd.cli.options import Parser
from retrograd.cli.terminal import OK, answer
from retrograd.isa.files import check_output, write_file
from retrograd.presentation import columns


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl stat`."""
    format_option(p)
    p.core_option(str(SOME_LANES))
    p.add_argument("-o", "--output", metavar="FILE", help="write them as JSON (schema retrograd.gates/1)")
    p.json_option("retrograd.gates/1")


def execute(options: argparse.Namespace) -> int:
    """Count, write and show."""
    from retrograd.hdl.flow.gates import as_dict, units

    p = parameters(options)
    if options.output is not None:
        check_output(options.output)
    found, levels = units(p)
    text = json.dumps(as_dict(p, found, levels), indent=2)
    if options.output is not None:
        write_file(options.output, text + "\n")
    if options.json:
        answer(text)
        return OK
    rows = [["unit", "AND", "XOR", "flip-flops", "bits of memory"]]
    rows += [[name, *map(str, (g.and_gates, g.xor_gates, g.flip_flops, g.memory_bits))] for name, g in found.items()]
    print(columns(rows, right=range(1, 5)))
    cells = ", ".join(f"{n} {kind}" for kind, n in sorted(levels.cells.items()))
    print(f"in levels: {levels.levels} levels, {cells}")
    return OK
