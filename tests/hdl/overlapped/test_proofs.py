"""The overlapped core undoes its own steps, and each is the table's: proofs for an opcode, on all states at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from retrograd.hdl.formal.claims import ClaimKind, claims
from retrograd.hdl.formal.proofs import Stuck
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

pytest.importorskip("z3")
Q8 = Format(8, 4)
#: sums, exchanges, jumps, products, memory and freed ancillas: one opcode at least of each
OPCODES = ["imm.xor", "mov.add", "mul.add", "ld.add", "swap", "exch", "assertz", "goto.eq", "goto.lt"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def prover(module: Callable[[str], ModuleType]) -> Callable[..., Any]:
    """A prover of the fast core at 8 bits: the same one, unless another microcode is given."""
    kind = module("tests/hdl/overlapped/prover.py").OverlappedProver

    @cache
    def of_the_table() -> Any:
        return kind(Q8)

    return lambda microcode=None: of_the_table() if microcode is None else kind(Q8, microcode)


@pytest.mark.parametrize("name", OPCODES)
def test_each_opcode_is_undone(prover: Any, name: str) -> None:
    for claim in claims(Q8, {name}):
        if claim.kind is not ClaimKind.TRANSITION:
            found = prover().prove_claim(claim)
            assert found.holds, (claim.name, found.counterexample)
            assert found.witnessed, claim.name


@pytest.mark.parametrize("name", ["mov.add", "swap", "goto.lt", "ld.add", "exch", "mul.add"])
def test_a_step_is_the_tables(prover: Any, name: str) -> None:
    wanted = [claim for claim in claims(Q8, {name}) if claim.kind is ClaimKind.TRANSITION]
    assert wanted
    for claim in wanted:
        found = prover().prove_claim(claim)
        assert found.holds, (claim.name, found.counterexample)
        assert found.witnessed, claim.name


@pytest.mark.parametrize(("name", "other"), [("mov.add", "mov.add"), ("goto.lt", "goto.ge"), ("swap", "mov.xor")])
def test_the_wrong_microprogram_is_refuted(
    prover: Any, microcode: Callable[[Parameters], Microcode], name: str, other: str
) -> None:
    """The microprogram of another opcode, or of the same one with the inverse, is not undone."""
    code = microcode(Parameters(Q8, code_words=8, data_words=4, core="fast"))
    for lifted in (0, 1):
        forward, backward = TABLE[name].code | lifted << 9, TABLE[other].code | 1 << 8 | lifted << 9
        code.dispatch[backward] = code.dispatch[forward if name == other else TABLE[other].code | lifted << 9]
        code.dispatch[TABLE[name].code | 1 << 8 | lifted << 9] = code.dispatch[backward]
    with suppress(Stuck):
        assert not prover(code).prove(TABLE[name]).holds


def test_a_planted_fault_is_refuted(prover: Any, planted: Callable[[str, str, str], type], module: Any) -> None:
    """A lost write of a memory word's cotangent: sums are undone, and exchanges with memory are not."""
    planted(
        "core.overlapped.core",
        "memory.write_cotangent.eq(commit.memory_cotangent & writes)",
        "memory.write_cotangent.eq(0)",
    )
    again = module("tests/hdl/overlapped/prover.py").OverlappedProver(Q8)
    assert again.prove(TABLE["mov.add"], lifted=True).holds
    assert not again.prove(TABLE["exch"], lifted=True).holds
