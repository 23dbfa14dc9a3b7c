"""Multiplier, divider and ROM: proofs of their functions, all words of 8 bits, and faults that must be refuted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.hdl import Signal
from retrograd.hdl.core.core import Core
from retrograd.hdl.formal.parts import PARTS, part_claims, prove_parts
from retrograd.hdl.formal.unit_proofs import UnitProver
from retrograd.hdl.microcode import microcode_for
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.reversible.circuit import transposed
from retrograd.hdl.simulation.bit_netlist import BitNetlist
from retrograd.isa.expr import apply_operation, half
from retrograd.isa.words import Format

Q8 = Format(8, 4)
Plant = Callable[[str, str, str], type]


def test_a_claim_of_each_kind() -> None:
    prover = UnitProver(Q8)
    kinds: dict[str, Any] = {}
    for claim in prover.claims():
        kinds.setdefault(claim.name.split(" ")[0] + claim.name.split(" ")[-1 if ">>" not in claim.name else -3], claim)
    assert len(kinds) > 5
    for claim in kinds.values():
        found = prover.prove(claim)
        assert (found.holds, found.witnessed) == (True, True), (found.opcode, found.counterexample)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["multiplier", "divider"])
def test_every_claim_on_a_unit_of_the_fast_core(unit: str) -> None:
    """Four digits a cycle, and whether the word fits."""
    for found in prove_parts(Q8, [unit], 300, "fast"):
        assert found.holds, (found.opcode, found.counterexample)


@pytest.mark.parametrize(
    ("unit", "old", "new"), [("multiplier", "width - 1 :", "width :"), ("divider", "void | fits(", "fits(")]
)
def test_a_wrong_flag_is_refuted(planted: Plant, unit: str, old: str, new: str) -> None:
    planted(f"core.units.{unit}", old, new)
    prover = UnitProver(Q8, core="fast")
    results = [
        claim for claim in prover.claims() if claim.unit == unit and ("result" in claim.name or unit == "multiplier")
    ]
    found = [prover.prove(claim) for claim in results]
    assert any(proof.counterexample.startswith("whether it fits") for proof in found)


@pytest.mark.slow
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("part", PARTS)
def test_every_claim(part: str, width: int) -> None:
    w = Format(width, width // 2)
    found = [*prove_parts(w, [part], 300)]
    assert [proof.opcode for proof in found] == [*part_claims(w, [part])]
    assert len(found) >= 8
    for proof in found:
        assert proof.holds, (proof.opcode, proof.counterexample)


class Lanes:
    """A unit without memories on all pairs of words of 8 bits at once: pair k is x = k mod 256, y = k div 256."""

    ones = (1 << 65536) - 1

    def __init__(self, unit: Any) -> None:
        self.netlist = BitNetlist(unit)
        self.state = [self.ones * bit for bit in self.netlist.initial]
        self.inputs = [0] * len(self.netlist.inputs)
        for signal, words in ((unit.x, [k & 255 for k in range(65536)]), (unit.y, [k >> 8 for k in range(65536)])):
            for line, column in zip(self.netlist.signal(signal), transposed(words, 8), strict=True):
                self.inputs[line - self.netlist.inputs.start] = column

    def set(self, signal: Signal, word: int) -> None:
        for k, line in enumerate(self.netlist.signal(signal)):
            self.inputs[line - self.netlist.inputs.start] = self.ones * (word >> k & 1)

    def tick(self) -> None:
        v = self.netlist.evaluate(self.inputs, self.state, self.ones)
        self.state = [v[self.netlist.next[j]] for j in range(len(self.state))]

    def get(self, signal: Signal) -> list[int]:
        v = self.netlist.evaluate(self.inputs, self.state, self.ones)
        return transposed([v[line] for line in self.netlist.signal(signal)], 65536)


PAIRS = [[k & 255, k >> 8] for k in range(65536)]


@pytest.mark.slow
def test_all_products_of_8_bits() -> None:
    unit = Core(Parameters(Q8, code_words=8, data_words=4)).multiplier
    for index, added in enumerate(unit.halves):
        lanes = Lanes(unit)
        lanes.set(unit.start, 1)
        lanes.set(unit.half, index)
        lanes.tick()
        lanes.set(unit.start, 0)
        lanes.tick()
        for k, shift in enumerate(unit.shifts):
            if added in (0, half(shift, Q8)):
                lanes.set(unit.shift, k)
                operation = "mulround" if added else "mulshift"
                assert lanes.get(unit.result) == [apply_operation(Q8, operation, shift, pair) for pair in PAIRS]


@pytest.mark.slow
def test_all_quotients_and_roots_of_8_bits() -> None:
    core = Core(Parameters(Q8, code_words=8, data_words=4))
    unit, seen = core.divider, set()
    for index, division in enumerate(microcode_for(core.parameters).divisions):
        lanes = Lanes(unit)
        lanes.set(unit.start, 1)
        lanes.set(unit.division, index)
        lanes.tick()
        lanes.set(unit.start, 0)
        for _ in range(unit.plans[index].cycles):
            lanes.tick()
        for k, shift in enumerate(unit.shifts):
            if shift and division.root:
                continue
            operation = "sqrtround" if division.root else "divround" if division.rounded else "divshift"
            param = division.s - shift
            if not division.root and division.rounded and param % 8 != division.s:
                continue  # no microprogram uses this shift
            seen.add(operation)
            lanes.set(unit.shift, k)
            assert lanes.get(unit.result) == [apply_operation(Q8, operation, param, pair) for pair in PAIRS], (
                division,
                shift,
            )
    assert seen == {"divshift", "divround", "sqrtround"}


#: (unit, its source there, the planted source, a claim that refutes it, the fact that fails)
FAULTS = [
    # the multiplicand without its sign
    ("core.units.multiplier", "word[at:].as_signed() if", "word[at:] if", "multiplier", "the product"),
    # a product that the next operands change
    ("core.units.multiplier", "with m.If(started):", "with m.If(started | 1):", "multiplier", "it is held"),
    # a divider that truncates
    ("core.units.divider", "Mux(negative, remains == 0, 0)", "Mux(negative, 1, 0)", "result", "the result"),
    # a division by 0 that is no 0
    ("core.units.divider", "self.y == 0", "self.y == 1", "result", "the result"),
    # a remainder that may be the divisor
    (
        "core.units.divider",
        "digit = ~difference[-1]",
        "digit = ~difference[-1] & (difference != 0)",
        "cycle",
        "the bound",
    ),
    # a cycle too few
    ("core.units.divider", "left.eq(p.cycles)", "left.eq(p.cycles - 1)", "start", "left"),
    # a table at the place of another
    ("core.units.rom", "Const(base >> bits,", "Const((base >> bits) ^ 1,", "ROM", "the entry"),
]


@pytest.mark.share(0)
@pytest.mark.parametrize(
    ("unit", "old", "new", "claim", "fact"),
    [pytest.param(*case, marks=[] if k % 3 == 0 else [pytest.mark.slow]) for k, case in enumerate(FAULTS)],
    ids=[new for _, _, new, _, _ in FAULTS],
)
def test_planted_faults_are_refuted(planted: Plant, unit: str, old: str, new: str, claim: str, fact: str) -> None:
    planted(unit, old, new)
    prover = UnitProver(Q8)
    found = [prover.prove(one) for one in prover.claims() if claim in one.name]
    refuted = [proof for proof in found if not proof.holds]
    assert refuted
    assert any(proof.counterexample.startswith(fact) for proof in refuted)
