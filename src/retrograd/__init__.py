"""Retrograd: programs that run backward, exactly.

>>> import retrograd as rg
>>> machine = rg.Machine(rg.assemble("start\\n add r1, 5\\n mul.add r2, r1, r1\\n finish"))
>>> machine.run().steps, machine.registers[2]
(3, 25)
>>> machine.run_back().steps, machine.registers[2]
(3, 0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retrograd.assembler.assemble import assemble, assemble_file
    from retrograd.assembler.disassemble import disassemble
    from retrograd.assembler.image import from_image, to_image
    from retrograd.assembler.verify import verify
    from retrograd.isa.diagnostics import (
        AssemblyError,
        Diagnostic,
        ImageError,
        InputError,
        RetrogradError,
        VerificationError,
    )
    from retrograd.isa.encoding import Instruction, decode, encode
    from retrograd.isa.program import Program
    from retrograd.isa.table import TABLE, Table
    from retrograd.isa.words import Format
    from retrograd.numbers import fixed, lognum
    from retrograd.simulator.machine import Machine, Outcome, Stop, Trap

__version__ = "0.1.0"

#: public name -> the module that defines it; imported on first use, so that `import retrograd` costs nothing
_HOMES = {
    "assemble": "assembler.assemble",
    "assemble_file": "assembler.assemble",
    "disassemble": "assembler.disassemble",
    "from_image": "assembler.image",
    "to_image": "assembler.image",
    "verify": "assembler.verify",
    "AssemblyError": "isa.diagnostics",
    "Diagnostic": "isa.diagnostics",
    "ImageError": "isa.diagnostics",
    "InputError": "isa.diagnostics",
    "RetrogradError": "isa.diagnostics",
    "VerificationError": "isa.diagnostics",
    "Instruction": "isa.encoding",
    "decode": "isa.encoding",
    "encode": "isa.encoding",
    "Program": "isa.program",
    "TABLE": "isa.table",
    "Table": "isa.table",
    "Format": "isa.words",
    "fixed": "numbers",
    "lognum": "numbers",
    "Machine": "simulator.machine",
    "Outcome": "simulator.machine",
    "Stop": "simulator.machine",
    "Trap": "simulator.machine",
}

__all__ = [
    "TABLE",
    "AssemblyError",
    "Diagnostic",
    "Format",
    "ImageError",
    "InputError",
    "Instruction",
    "Machine",
    "Outcome",
    "Program",
    "RetrogradError",
    "Stop",
    "Table",
    "Trap",
    "VerificationError",
    "assemble",
    "assemble_file",
    "decode",
    "disassemble",
    "encode",
    "fixed",
    "from_image",
    "lognum",
    "to_image",
    "verify",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'retrograd' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"retrograd.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
