"""`retrograd hdl registers`: the register map of the co-processor for drivers, debuggers and documentation."""

from __future__ import annotations

import argparse
import json

from retrograd.cli.commands.hdl.hardware import format_option, memory_options, parameters
from retrograd.cli.options import Parser, fail, integer
from retrograd.cli.terminal import OK, answer
from retrograd.isa.files import check_output, write_file
from retrograd.presentation import columns


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl registers`."""
    p.add_argument(
        "--as", dest="kind", choices=("c", "svd", "markdown"),
        help="a C header, a CMSIS-SVD file, or the page of the documentation (default: a table)",
    )  # fmt: skip
    p.add_argument("--base", metavar="ADDRESS", default="0", help="byte address of the device, for svd (default: 0)")
    format_option(p)
    memory_options(p)
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")
    p.json_option("retrograd.registers/1")


def execute(options: argparse.Namespace) -> int:
    """Write or print the map."""
    from retrograd.hdl.bus.register_documents import as_dict, header, markdown, svd
    from retrograd.hdl.bus.register_map import Area

    options.core = "small"
    p, base = parameters(options), integer(options.base, "--base", 0)
    if base + Area.CODE.address(p.code_words) > 1 << 32:
        raise fail("RG0507", f"--base: from {options.base[:40]} on, the device does not fit 32 bits of address")
    if options.output is not None:
        check_output(options.output)
    match options.kind:
        case _ if options.json:
            text = json.dumps(as_dict(), indent=2) + "\n"
        case "c":
            text = header()
        case "svd":
            text = svd(p, base)
        case "markdown":
            text = markdown()
        case _:
            text = _table()
    if options.output is None:
        answer(text.removesuffix("\n"))
    else:
        write_file(options.output, text)
    return OK


def _table() -> str:
    from retrograd.hdl.bus.register_documents import bits_of, described
    from retrograd.hdl.bus.register_map import HostRegister

    rows = [["address", "name", "access", "bits", "meaning"]]
    for slot in HostRegister:
        rows.append([f"{slot.address:#06x}", slot.name, slot.access.value, "", described(slot)])
        rows += [["", f"  {field.name}", "", bits_of(field), described(field)] for field in slot.fields]
    return columns(rows) + "\n"
