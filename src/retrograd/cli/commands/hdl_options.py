"""The grammar of `retrograd hdl`."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def add_commands(p: argparse.ArgumentParser, program: Callable[[argparse.ArgumentParser, str], None]) -> None:
    """Give `retrograd hdl` its commands."""
    commands = p.add_subparsers(dest="hdl_command", metavar="COMMAND", required=True)

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", epilog=p.epilog)

    def built_for(p: argparse.ArgumentParser, default: str = "32,16") -> None:
        p.add_argument("--format", metavar="W,F", default=default, help=f"word width and fraction (default: {default})")

    def sized(p: argparse.ArgumentParser) -> None:
        p.add_argument("--code", metavar="N", default="1024", help="room for so many instructions (default: 1024)")
        p.add_argument("--data", metavar="N", default="1024", help="room for so many words of data (default: 1024)")

    p = command("run", "run a program or a reversible function on the simulated co-processor")
    program(p, " or FILE.py:FUNCTION")
    p.add_argument("args", nargs="*", metavar="ARG", help="of a function, as for `retrograd run`")
    p.add_argument(
        "--grad",
        metavar="LOSS",
        help="then run back with cotangents: of a function's argument, a register, a data label or an address",
    )
    p.add_argument("--scale", metavar="K", default="0", help="the loss's cotangent is 2^K, and divided by it")
    p.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="sets",
        help="of a program: set a register or the word at a data label",
    )
    p.add_argument("--format", metavar="W,F", help="of a function: word width and fraction (default: 64,32)")
    p.add_argument("--backward", action="store_true", help="start at `finish` and run back to `start`")
    p.add_argument(
        "--max-steps", metavar="N", default="100000", help="stop after N instructions (exit code 4; default: 100000)"
    )
    p.add_argument("--no-overflow", action="store_true", help="of a program: let fixed-point results wrap")
    p.add_argument("--strict", action="store_true", help="of a program: refuse to erase")
    p.add_argument(
        "--verilator",
        action="store_true",
        help="simulate by Verilator, some hundred times as fast once it has compiled",
    )
    p.add_argument("--vcd", metavar="FILE", help="write waveforms, and FILE.gtkw for GTKWave")
    p.add_argument("--json", action="store_true", help="print the outcome as JSON (schema retrograd.hdl-run/1)")

    p = command("verilog", "write the co-processor as Verilog")
    built_for(p)
    sized(p)
    p.add_argument(
        "--serial", metavar="N", help="with a serial line in place of the Wishbone bus, N clock cycles for each bit"
    )
    p.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: standard output)")

    p = command("synth", "place and route the co-processor for an ECP5-85F: how large it is, and how fast")
    built_for(p)
    sized(p)
    p.add_argument("--mhz", metavar="MHZ", default="60", help="the clock to aim for (default: 60)")
    p.add_argument("--seed", metavar="N", default="1", help="of the placement (default: 1)")
    p.add_argument("--folder", metavar="DIR", default="synthesis", help="where files go (default: synthesis)")
    p.add_argument("--path", action="store_true", help="tell the critical path, too")
    p.add_argument("--json", action="store_true", help="print it as JSON (schema retrograd.synth/1)")

    p = command("formal", "prove that the hardware takes back what it did, opcode by opcode")
    p.add_argument("opcodes", nargs="*", metavar="OPCODE", help="such as mul.add (default: all)")
    built_for(p, "8,4")
    p.add_argument("--classes", action="store_true", help="the shortest opcode of each class only")
    p.add_argument("--seconds", metavar="N", default="60", help="for each proof at most (default: 60)")
    p.add_argument("--jobs", metavar="N", default="1", help="processes that prove (default: 1)")
    p.add_argument("--json", action="store_true", help="print it as JSON (schema retrograd.formal/2)")

    p = command("stat", "count the gates of each function unit")
    built_for(p)
    p.add_argument("-o", "--output", metavar="FILE", help="write them as JSON (schema retrograd.gates/1)")
    p.add_argument("--json", action="store_true", help="print them as JSON")
