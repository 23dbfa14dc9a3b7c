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

from retrograd.version import __version__ as __version__

if TYPE_CHECKING:
    # See compiler/language/types.py.
    from typing import Annotated as Array
    from typing import Annotated as Stack

    from retrograd.assembler.assemble import assemble, assemble_file
    from retrograd.assembler.disassemble import disassemble
    from retrograd.assembler.image import from_image, to_image
    from retrograd.assembler.verify import verify
    from retrograd.batch.batches import BatchResult, run_batch, vmap
    from retrograd.batch.runs import ElementTrap
    from retrograd.compiler.compiled import Compiled, Options
    from retrograd.compiler.frontends.python.sources.structs import struct
    from retrograd.compiler.language.intrinsics import (
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
    from retrograd.compiler.language.purity import pure
    from retrograd.compiler.language.types import static
    from retrograd.differentiation import (
        GradientReport,
        NotDifferentiable,
        ReversibleGradient,
        SparseJacobian,
        grad,
        gradient_report,
        hessian,
        hvp,
        jacobian,
        jvp,
        reversible_gradient,
        value_and_grad,
        vjp,
    )
    from retrograd.functions.execution import ProgramTrap
    from retrograd.functions.requests import Result
    from retrograd.functions.reversible import Inverse, Reversible, reversible, run, uncomputing_level, use_format
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
    from retrograd.pricing.advice import Advice, advise
    from retrograd.pricing.report import EnergyReport
    from retrograd.pricing.runs import energy
    from retrograd.pricing.sweeps import energy_sweep
    from retrograd.simulator.machine import Machine, Outcome, Stop, Trap
    from retrograd.values.numbers import fixed, lognum


#: public name -> the module that defines it; imported on first use, so that `import retrograd` costs nothing
_HOMES = {
    "BatchResult": "batch.batches",
    "ElementTrap": "batch.runs",
    "run_batch": "batch.batches",
    "vmap": "batch.batches",
    "assemble": "assembler.assemble",
    "assemble_file": "assembler.assemble",
    "disassemble": "assembler.disassemble",
    "from_image": "assembler.image",
    "to_image": "assembler.image",
    "verify": "assembler.verify",
    "atan": "compiler.language.intrinsics",
    "atan2": "compiler.language.intrinsics",
    "copy": "compiler.language.intrinsics",
    "cos": "compiler.language.intrinsics",
    "cswap": "compiler.language.intrinsics",
    "erase": "compiler.language.intrinsics",
    "exp": "compiler.language.intrinsics",
    "external": "compiler.language.intrinsics",
    "flip": "compiler.language.intrinsics",
    "floor": "compiler.language.intrinsics",
    "free": "compiler.language.intrinsics",
    "irot": "compiler.language.intrinsics",
    "log": "compiler.language.intrinsics",
    "mean": "compiler.language.intrinsics",
    "neg": "compiler.language.intrinsics",
    "pop": "compiler.language.intrinsics",
    "push": "compiler.language.intrinsics",
    "rol": "compiler.language.intrinsics",
    "ror": "compiler.language.intrinsics",
    "rot": "compiler.language.intrinsics",
    "routine": "compiler.language.intrinsics",
    "select": "compiler.language.intrinsics",
    "sin": "compiler.language.intrinsics",
    "sqrt": "compiler.language.intrinsics",
    "stack": "compiler.language.intrinsics",
    "sum": "compiler.language.intrinsics",
    "swap": "compiler.language.intrinsics",
    "tan": "compiler.language.intrinsics",
    "zeros": "compiler.language.intrinsics",
    "zeros_like": "compiler.language.intrinsics",
    "Compiled": "compiler.compiled",
    "Options": "compiler.compiled",
    "pure": "compiler.language.purity",
    "struct": "compiler.frontends.python.sources.structs",
    "Array": "compiler.language.types",
    "Stack": "compiler.language.types",
    "static": "compiler.language.types",
    "GradientReport": "differentiation",
    "NotDifferentiable": "differentiation",
    "ReversibleGradient": "differentiation",
    "SparseJacobian": "differentiation",
    "grad": "differentiation",
    "gradient_report": "differentiation",
    "hessian": "differentiation",
    "hvp": "differentiation",
    "jacobian": "differentiation",
    "jvp": "differentiation",
    "reversible_gradient": "differentiation",
    "value_and_grad": "differentiation",
    "vjp": "differentiation",
    "Advice": "pricing.advice",
    "advise": "pricing.advice",
    "EnergyReport": "pricing.report",
    "energy": "pricing.runs",
    "energy_sweep": "pricing.sweeps",
    "ProgramTrap": "functions.execution",
    "Result": "functions.requests",
    "run": "functions.reversible",
    "uncomputing_level": "functions.reversible",
    "CompileError": "isa.diagnostics",
    "Inverse": "functions.reversible",
    "Reversible": "functions.reversible",
    "reversible": "functions.reversible",
    "use_format": "functions.reversible",
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
    "fixed": "values.numbers",
    "lognum": "values.numbers",
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
    "ReversibleGradient",
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
    "reversible_gradient",
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
