"""`retrograd hdl verilog`: the co-processor as Verilog."""

from __future__ import annotations

import argparse

from retrograd.cli.commands.hdl.hardware import (
    SOME_LANES,
    core_name,
    dma_option,
    format_option,
    memory_options,
    parameters,
)
from retrograd.cli.options import Parser, fail, integer
from retrograd.cli.terminal import OK
from retrograd.isa.diagnostics import printable
from retrograd.isa.files import check_output, write_file


def arguments(p: Parser) -> None:
    """Options of `retrograd hdl verilog`."""
    format_option(p)
    memory_options(p)
    p.core_option(str(SOME_LANES))
    p.add_argument(
        "--serial", metavar="N", help="with a serial line in place of the Wishbone bus, N clock cycles for each bit"
    )
    dma_option(p)
    p.add_argument("--axi-lite", action="store_true", help="with AXI4-Lite in place of the Wishbone bus")
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")


def execute(options: argparse.Namespace) -> int:
    """Write or print the Verilog."""
    from retrograd.hdl.bus.top import AxiLiteCoprocessor, Coprocessor, SerialCoprocessor
    from retrograd.hdl.netlist import convert

    p = parameters(options)
    if options.serial is not None and options.axi_lite:
        raise fail("RG0512", "--serial and --axi-lite are two buses", "Choose one of them.")
    bits = None if options.serial is None else integer(options.serial, "--serial", 4)
    if options.output is not None:
        check_output(options.output)
    made = AxiLiteCoprocessor(p) if options.axi_lite else Coprocessor(p) if bits is None else SerialCoprocessor(p, bits)
    text = convert(made, "retrograd")
    if options.output is None:
        print(text)
        return OK
    write_file(options.output, text)
    print(
        f"{printable(options.output)}: the co-processor for {p.format}, core {core_name(p)}, {len(text)} bytes of Verilog"
    )
    return OK
