"""Vector loops for processors that the tests do not run on: LLVM compiles them to the vector instructions of ARM (NEON).

The same form with two lanes runs on this host in test_vector_loops.py, which compares it with the reference machine.
"""

from __future__ import annotations

import re

import llvmlite.binding as llvm
import pytest
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, VectorUnit
from retrograd.simulator.engines.llvm.jit import JitCompiler
from retrograd.simulator.engines.translator.flow import Variant
from retrograd.simulator.engines.translator.loops import vector_loops
from retrograd.simulator.engines.translator.translate import translate

import retrograd as rg
from tests.simulator.engines.test_vector_loops import BODIES, loop_of

ARM = "aarch64-unknown-linux-gnu"
#: functions of the C library and of LLVM's run-time library that a linker has on each host
KNOWN = {"memcpy", "memset", "memmove", "usleep", "sched_yield", "__udivti3", "__umodti3", "__divti3", "__modti3"}
VECTORISED = [name for name, (_, reason) in BODIES.items() if not reason]


@pytest.fixture(scope="module")
def arm() -> JitCompiler:
    """A compiler for AArch64, whose code cannot be loaded here."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    compiler = JitCompiler()
    compiler.triple, compiler.cpu, compiler._features = ARM, "generic", ""
    compiler.divide, compiler.vector_unit = None, VectorUnit(2, False)
    return compiler


def assembly(compiler: JitCompiler, program: rg.Program, variant: Variant) -> str:
    """The optimised program as assembly text."""
    module = ModuleBuilder(divide=compiler.divide, vector_unit=compiler.vector_unit)
    translate(program, variant, module)
    text = module.text()
    assert compiler.compile(text, 2)[:4] == b"\x7fELF"
    parsed = llvm.parse_assembly(text)
    parsed.triple = ARM
    machine = compiler._machine(2)
    parsed.data_layout = str(machine.target_data)
    compiler._optimise(parsed, machine, 2)
    return str(machine.emit_assembly(parsed))


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Code is compiled and not run."""


@pytest.mark.parametrize("name", VECTORISED)
def test_neon(arm: JitCompiler, name: str) -> None:
    for backward in (False, True):
        program, variant = loop_of(*BODIES[name][0]), Variant(backward=backward)
        (finding,) = vector_loops(program, variant, 2)
        # Two loops have a vector form forward only.
        assert finding.loop is not None or (backward and name in ("later words", "erased"))
        found = assembly(arm, program, variant)
        assert finding.loop is None or re.search(r"\b(add|sub)\s+v\d+\.2d", found)
        called = set(re.findall(r"\bbl\s+(\w+)", found))
        defined = set(re.findall(r"^(\w+):", found, re.MULTILINE))
        assert called <= KNOWN | defined
