"""The overlapped core undoes its own steps, and each is the table's: proofs for an opcode, on all states at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from retrograd.hdl.formal.claims import ClaimKind, claims
from retrograd.hdl.formal.proofs import Prover, Stuck
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

pytest.importorskip("z3")
Q8 = Format(8, 4)
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def prover() -> Callable[..., Prover]:
    """A prover of the fast core at 8 bits: the same one, unless another microcode is given."""

    @cache
    def of_the_table() -> Prover:
        return Prover(Q8, core="fast")

    return lambda microcode=None: of_the_table() if microcode is None else Prover(Q8, microcode, core="fast")


@pytest.mark.parametrize("name", [o.name for o in TABLE])
def test_every_claim_holds(prover: Any, name: str) -> None:
    """The opcode is undone, and its step is the table's."""
    wanted = claims(Q8, {name})
    assert {claim.kind for claim in wanted} >= {ClaimKind.TRANSITION}
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


#: unit, the text there, the planted text, an opcode whose step is then another, and an opcode with the same step
FAULTS = [
    ("core.core", "memory.write_cotangent.eq(commit.memory_cotangent & writes)", "memory.write_cotangent.eq(0)", "exch", "mov.add"),
    ("core.overlapped", "chained.chain.eq(slot.chain)", "chained.chain.eq(0)", "fmul.add", "mov.add"),
    ("core.overlapped", "logic.fits), multiplier.fits", "logic.fits), Const(1)", "fmul.add", "mul.add"),
    ("core.units", "(check.sum & over[k])", "(check.sum & ~self.holds0)", "fmov.add", "mov.xor"),
    ("core.units", "(check.sum & over[k])", "(check.sum & check.result)", "fmov.add", "mov.xor"),
    ("core.core", "writes.eq(~fails)", "writes.eq(1)", "fmov.add", "mov.xor"),
    ("core.units.OverlappedGuards", "held.valid.eq(f.valid & (", "held.valid.eq(f.valid & ~f.valid & (", "unerase", "mov.xor"),
]  # fmt: skip


@pytest.mark.parametrize(("unit", "old", "new", "wrong", "right"), FAULTS)
def test_a_planted_fault_is_refuted(
    planted: Callable[[str, str, str], type], unit: str, old: str, new: str, wrong: str, right: str
) -> None:
    """A lost write, a product that is not passed, stale flags, a trap that is too late, and a trap that is forgotten."""
    planted(unit, old, new)
    again = Prover(Q8, core="fast")

    def holds(name: str) -> bool:
        wanted = [claim for claim in claims(Q8, {name}) if claim.kind is ClaimKind.TRANSITION and claim.lifted]
        with suppress(Stuck):
            return all(again.prove_claim(claim).holds for claim in wanted)
        return False

    assert holds(right)
    assert not holds(wrong)
