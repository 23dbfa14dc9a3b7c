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
    # See compiler/types.py.
    from typing import Annotated as Array
    from typing import Annotated as Stack

    from retrograd.assembler.assemble import assemble, assemble_file
    from retrograd.assembler.disassemble import disassemble
    from retrograd.assembler.image import from_image, to_image
    from retrograd.assembler.verify import verify
    from retrograd.batch_runs import ElementTrap
    from retrograd.batches import BatchResult, run_batch, vmap
    from retrograd.compiler.compiled import Compiled, Options
    from retrograd.compiler.intrinsics import (
        atan,
        atan2,
        copy,
        cos,
        cswap,
        erase,
        exp,
        external,
        flip,
        floor,
        free,
        irot,
        log,
        mean,
        neg,
        pop,
        push,
        rol,
        ror,
        rot,
        routine,
        select,
        sin,
        sqrt,
        stack,
        sum,
        swap,
        tan,
        zeros,
        zeros_like,
    )
    from retrograd.compiler.pure import pure
    from retrograd.compiler.structs import struct
    from retrograd.compiler.types import static
    from retrograd.differentiation import (
        Gradient,
        GradientReport,
        NotDifferentiable,
        SparseJacobian,
        grad,
        gradient,
        gradient_report,
        hessian,
        hvp,
        jacobian,
        jvp,
        value_and_grad,
        vjp,
    )
    from retrograd.energy_advice import Advice, advise
    from retrograd.energy_report import EnergyReport
    from retrograd.energy_runs import energy
    from retrograd.energy_sweeps import energy_sweep
    from retrograd.execution import ProgramTrap, Result, run, uncomputing_level
    from retrograd.functions import Inverse, Reversible, reversible, use_format
    from retrograd.isa.diagnostics import (
        AssemblyError,
        CompileError,
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
    from retrograd.learning import Consistency, learn_by_consistency
    from retrograd.numbers import fixed, lognum
    from retrograd.simulator.machine import Machine, Outcome, Stop, Trap

__version__ = "0.1.0"

#: public name -> the module that defines it; imported on first use, so that `import retrograd` costs nothing
_HOMES = {
    "BatchResult": "batches",
    "ElementTrap": "batch_runs",
    "run_batch": "batches",
    "vmap": "batches",
    "assemble": "assembler.assemble",
    "assemble_file": "assembler.assemble",
    "disassemble": "assembler.disassemble",
    "from_image": "assembler.image",
    "to_image": "assembler.image",
    "verify": "assembler.verify",
    "atan": "compiler.intrinsics",
    "atan2": "compiler.intrinsics",
    "copy": "compiler.intrinsics",
    "cos": "compiler.intrinsics",
    "cswap": "compiler.intrinsics",
    "erase": "compiler.intrinsics",
    "exp": "compiler.intrinsics",
    "external": "compiler.intrinsics",
    "flip": "compiler.intrinsics",
    "floor": "compiler.intrinsics",
    "free": "compiler.intrinsics",
    "irot": "compiler.intrinsics",
    "log": "compiler.intrinsics",
    "mean": "compiler.intrinsics",
    "neg": "compiler.intrinsics",
    "pop": "compiler.intrinsics",
    "push": "compiler.intrinsics",
    "rol": "compiler.intrinsics",
    "ror": "compiler.intrinsics",
    "rot": "compiler.intrinsics",
    "routine": "compiler.intrinsics",
    "select": "compiler.intrinsics",
    "sin": "compiler.intrinsics",
    "sqrt": "compiler.intrinsics",
    "stack": "compiler.intrinsics",
    "sum": "compiler.intrinsics",
    "swap": "compiler.intrinsics",
    "tan": "compiler.intrinsics",
    "zeros": "compiler.intrinsics",
    "zeros_like": "compiler.intrinsics",
    "Compiled": "compiler.compiled",
    "Options": "compiler.compiled",
    "pure": "compiler.pure",
    "struct": "compiler.structs",
    "Array": "compiler.types",
    "Stack": "compiler.types",
    "static": "compiler.types",
    "Gradient": "differentiation",
    "GradientReport": "differentiation",
    "NotDifferentiable": "differentiation",
    "SparseJacobian": "differentiation",
    "grad": "differentiation",
    "gradient": "differentiation",
    "gradient_report": "differentiation",
    "hessian": "differentiation",
    "hvp": "differentiation",
    "jacobian": "differentiation",
    "jvp": "differentiation",
    "value_and_grad": "differentiation",
    "vjp": "differentiation",
    "Advice": "energy_advice",
    "advise": "energy_advice",
    "EnergyReport": "energy_report",
    "energy": "energy_runs",
    "energy_sweep": "energy_sweeps",
    "ProgramTrap": "execution",
    "Result": "execution",
    "run": "execution",
    "uncomputing_level": "execution",
    "CompileError": "isa.diagnostics",
    "Inverse": "functions",
    "Reversible": "functions",
    "reversible": "functions",
    "use_format": "functions",
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
    "Consistency": "learning",
    "learn_by_consistency": "learning",
    "fixed": "numbers",
    "lognum": "numbers",
    "Machine": "machines",
    "Outcome": "simulator.machine",
    "Stop": "simulator.machine",
    "Trap": "simulator.machine",
}

__all__ = [
    "TABLE",
    "Advice",
    "Array",
    "AssemblyError",
    "BatchResult",
    "CompileError",
    "Compiled",
    "Consistency",
    "Diagnostic",
    "ElementTrap",
    "EnergyReport",
    "Format",
    "Gradient",
    "GradientReport",
    "ImageError",
    "InputError",
    "Instruction",
    "Inverse",
    "Machine",
    "NotDifferentiable",
    "Options",
    "Outcome",
    "Program",
    "ProgramTrap",
    "Result",
    "RetrogradError",
    "Reversible",
    "SparseJacobian",
    "Stack",
    "Stop",
    "Table",
    "Trap",
    "VerificationError",
    "advise",
    "assemble",
    "assemble_file",
    "atan",
    "atan2",
    "copy",
    "cos",
    "cswap",
    "decode",
    "disassemble",
    "encode",
    "energy",
    "energy_sweep",
    "erase",
    "exp",
    "external",
    "fixed",
    "flip",
    "floor",
    "free",
    "from_image",
    "grad",
    "gradient",
    "gradient_report",
    "hessian",
    "hvp",
    "irot",
    "jacobian",
    "jvp",
    "learn_by_consistency",
    "log",
    "lognum",
    "mean",
    "neg",
    "pop",
    "pure",
    "push",
    "reversible",
    "rol",
    "ror",
    "rot",
    "routine",
    "run",
    "run_batch",
    "select",
    "sin",
    "sqrt",
    "stack",
    "static",
    "struct",
    "sum",
    "swap",
    "tan",
    "to_image",
    "uncomputing_level",
    "use_format",
    "value_and_grad",
    "verify",
    "vjp",
    "vmap",
    "zeros",
    "zeros_like",
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
