"""Options and values that the commands of `retrograd hdl` share: format and sizes of the co-processor."""

from __future__ import annotations

import argparse

from retrograd.cli.options import Parser, fail, integer
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import LANES, MAX_LANES
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.words import format_of

#: the lanes of a core that is written or placed, unless --lanes is given
SOME_LANES = 4


def format_option(p: Parser, default: str = "32,16") -> None:
    """--format of the hardware."""
    p.add_argument("--format", metavar="W,F", default=default, help=f"word width and fraction (default: {default})")


def memory_options(p: Parser) -> None:
    """--code and --data."""
    p.add_argument("--code", metavar="N", default="1024", help="instructions that fit (default: 1024)")
    p.add_argument("--data", metavar="N", default="1024", help="words of data that fit (default: 1024)")


def dma_option(p: Parser) -> None:
    """--dma."""
    p.add_argument("--dma", action="store_true", help="with direct memory access: a bus to a memory of the host's")


def frequency(text: str) -> float:
    """The value of --mhz. Raises InputError RG0507."""
    try:
        mhz = float(text)
    except ValueError:
        mhz = 0.0
    if not 1 <= mhz <= 1000:
        raise fail("RG0507", f"--mhz: `{text[:40]}` is no frequency from 1 to 1000")
    return mhz


def lanes_given(options: argparse.Namespace) -> int | None:
    """The value of --lanes, None where it is not given. Raises InputError RG0502, RG0512, RG1125."""
    lanes: str | None = getattr(options, "lanes", None)
    if options.core != LANES:
        core_units(options.core)
        if lanes is not None:
            raise fail("RG0512", f"--lanes is for the core lanes, and not for {options.core}", "--core lanes")
    number = None if lanes is None else integer(lanes, "--lanes", 1)
    if number is not None and number > MAX_LANES:
        raise fail("RG0507", f"--lanes {lanes}: a core has 1 to {MAX_LANES} lanes")
    return number


def core_name(p: Parameters) -> str:
    """The core as text: small, or lanes with 4 lanes."""
    return f"{p.core} with {p.lanes} lane{'s' * (p.lanes > 1)}" if p.core == LANES else p.core


def parameters(options: argparse.Namespace) -> Parameters:
    """The co-processor that the options describe. Raises InputError RG0507, RG0604, RG1125."""
    w = format_of(options.format)
    code = integer(getattr(options, "code", "1024"), "--code", 2)
    data = integer(getattr(options, "data", "1024"), "--data", 2)
    lanes = lanes_given(options) or (SOME_LANES if options.core == LANES else 1)
    try:
        return Parameters(w, code, data, core=options.core, lanes=lanes, dma=getattr(options, "dma", False))
    except ValueError as error:
        raise fail("RG0507", str(error)) from None
