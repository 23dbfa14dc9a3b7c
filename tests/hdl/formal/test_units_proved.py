"""Multiplier, divider and ROM: proofs of their functions, all words of 8 bits, and faults that must be refuted."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Signal
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.divider import ScaledDivider
from retrograd.hdl.formal.proofs import PARTS, part_claims, prove_parts
from retrograd.hdl.formal.unit_proofs import UnitProver
from retrograd.hdl.microcode import microcode_for
from retrograd.hdl.microword import Division
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.bit_netlist import BitNetlist
from retrograd.isa.expr import apply_operation, half
from retrograd.isa.microarchitecture.micro_operations import CORES
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


@pytest.mark.long
@pytest.mark.parametrize("unit", ["multiplier", "divider"])
def test_every_claim_on_a_unit_of_the_fast_core(unit: str) -> None:
    """Operands that are scaled, roots of four digits a cycle, and whether the word fits."""
    for found in prove_parts(Q8, [unit], 300, "fast"):
        assert found.holds, (found.opcode, found.counterexample)


#: a row without its sign; a product of limbs that is not among the sum; a product that the next operands change
@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("for pair in row).as_signed()", "for pair in row)", "whether it fits"),
        ("- {0}, key=abs)", "- {0, 1}, key=abs)", "the product"),
        ("with m.If(self.start):", "if True:", "it is held"),
        ("", "", ""),
    ],
)
def test_products_of_several_limbs_in_two_cycles(planted: Plant, old: str, new: str, fact: str) -> None:
    if old:
        planted("core.units", old, new)
    prover = UnitProver(Format(32, 16), core="fast")
    (claim,) = (claim for claim in prover.claims() if claim.name == "multiplier: (x·y + 32768) >> 16")
    found = prover.prove(claim)
    assert found.holds == (not fact), found.counterexample
    assert found.counterexample.startswith(fact)


@pytest.mark.parametrize(
    ("unit", "source", "old", "new"),
    [
        ("multiplier", "core.units", "width - 1 :", "width :"),
        ("divider", "core.divider.ScaledDivider", "void | fits(", "fits("),
    ],
)
def test_a_wrong_flag_is_refuted(planted: Plant, unit: str, source: str, old: str, new: str) -> None:
    planted(source, old, new)
    prover = UnitProver(Q8, core="fast")
    results = [
        claim for claim in prover.claims() if claim.unit == unit and ("result" in claim.name or unit == "multiplier")
    ]
    found = [prover.prove(claim) for claim in results]
    assert any(proof.counterexample.startswith("whether it fits") for proof in found)


@pytest.mark.long
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("part", PARTS)
def test_every_claim(part: str, width: int) -> None:
    w = Format(width, width // 2)
    found = [*prove_parts(w, [part], 300)]
    assert [proof.opcode for proof in found] == [*part_claims(w, [part])]
    assert len(found) >= 8
    for proof in found:
        assert proof.holds, (proof.opcode, proof.counterexample)


#: all pairs of words of 8 bits: pair k is x = k mod 256, y = k div 256
PAIRS = [[k & 255, k >> 8] for k in range(65536)]


def columns(words: Sequence[int], width: int) -> list[int]:
    """Bit k of column i is bit i of `words[k]`."""
    rows = np.array(words, dtype=np.uint64)
    bits = [np.packbits((rows >> i & 1).astype(np.uint8), bitorder="little") for i in range(width)]
    return [int.from_bytes(column.tobytes(), "little") for column in bits]


def rows(found: Sequence[int]) -> list[int]:
    """The words of 65536 rows, from their columns."""
    out = np.zeros(65536, dtype=np.uint64)
    for i, column in enumerate(found):
        bits = np.unpackbits(np.frombuffer(column.to_bytes(8192, "little"), np.uint8), bitorder="little")
        out |= bits.astype(np.uint64) << i
    return [int(word) for word in out]


class Lanes:
    """A unit on 65536 pairs of words at once. Its memories are tables."""

    ones = (1 << 65536) - 1

    def __init__(self, unit: Any, pairs: Sequence[Sequence[int]] = PAIRS) -> None:
        self.netlist = BitNetlist(unit)
        self.state = [self.ones * bit for bit in self.netlist.initial]
        self.inputs = [0] * len(self.netlist.inputs)
        for signal, words in zip((unit.x, unit.y), zip(*pairs, strict=True), strict=True):
            for line, column in zip(self.netlist.signal(signal), columns(words, len(signal)), strict=True):
                self.inputs[line - self.netlist.inputs.start] = column

    def set(self, signal: Signal, word: int) -> None:
        for k, line in enumerate(self.netlist.signal(signal)):
            self.inputs[line - self.netlist.inputs.start] = self.ones * (word >> k & 1)

    def tick(self) -> None:
        v = self.netlist.evaluate(self.inputs, self.state, self.ones)
        after = {j: v[line] for j, line in self.netlist.next.items()}
        for port in self.netlist.reads:
            table = self.netlist.memories[port.memory][2]
            words = [table[at] for at in rows([v[line] for line in port.address])]
            after |= {port.first + k: column for k, column in enumerate(columns(words, port.width))}
        self.state = [after[j] for j in range(len(self.state))]

    def get(self, signal: Signal) -> list[int]:
        v = self.netlist.evaluate(self.inputs, self.state, self.ones)
        return rows([v[line] for line in self.netlist.signal(signal)])


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("name", [*CORES])
def test_all_quotients_and_roots_of_8_bits(name: str) -> None:
    core = core_of(Parameters(Q8, code_words=8, data_words=4, core=name))
    unit, units, seen = core.divider, CORES[name], set()
    for index, division in enumerate(microcode_for(core.parameters).divisions):
        lanes = Lanes(unit)
        lanes.set(unit.start, 1)
        lanes.set(unit.division, index)
        lanes.tick()
        lanes.set(unit.start, 0)
        for _ in range(units.latency(division.operation, Q8, division.s) - 2):
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


@pytest.mark.parametrize("draw", range(16))
@pytest.mark.parametrize(("w", "k"), [(Q8, 2), (Q8, 4), (Format(16, 8), 4), (Format(16, 8), 8), (Format(16, 8), 16)])
def test_quotients_by_every_divisor(w: Format, k: int, draw: int) -> None:
    """Of 8 bits all pairs, 16 divisions; of 16 bits all y with drawn x, extremes among them."""
    rng, units = random.Random(draw), replace(CORES["fast"], scaled=k)
    pairs = PAIRS
    if w.width == 16:
        extremes = (0, 1, w.mask, w.sign, w.sign - 1)
        pairs = [[extremes[draw] if draw < len(extremes) else rng.getrandbits(16), y] for y in range(65536)]
    rounded = draw % 2 == 1
    division = Division(False, draw // 2 * w.width // 8, rounded)
    unit = ScaledDivider(w.width, [division], [0, w.width], units, roots=False, flags=True)
    lanes = Lanes(unit, pairs)
    lanes.set(unit.start, 1)
    lanes.tick()
    lanes.set(unit.start, 0)
    for _ in range(units.latency(division.operation, w, division.s) - 2):
        lanes.tick()
    whole = [((2 * w.signed(x) << division.s) // w.signed(y) + rounded) // 2 if y else 0 for x, y in pairs]
    for index, shift in enumerate(unit.shifts):
        lanes.set(unit.shift, index)
        assert lanes.get(unit.result) == [word >> shift & w.mask for word in whole]
        assert lanes.get(unit.fits) == [w.signed(word >> shift & w.mask) == word >> shift for word in whole]


#: (unit, its source there, the planted source, a claim that refutes it, the fact that fails)
FAULTS = [
    # the multiplicand without its sign
    ("core.units", "word[at:].as_signed() if", "word[at:] if", "multiplier", "the product"),
    # a product that the next operands change
    ("core.units", "with m.If(started):", "with m.If(started | 1):", "multiplier", "it is held"),
    # a divider that truncates
    ("core.divider", "Mux(negative, remains == 0, 0)", "Mux(negative, 1, 0)", "result", "the result"),
    # a division by 0 that is no 0
    ("core.divider.Divider", "self.y == 0", "self.y == 1", "result", "the result"),
    # a remainder that may be the divisor
    (
        "core.divider",
        "digit = ~difference[-1]",
        "digit = ~difference[-1] & (difference != 0)",
        "cycle",
        "the bound",
    ),
    # a cycle too few
    ("core.divider", "left.eq(p.cycles)", "left.eq(p.cycles - 1)", "start", "left"),
    # a table at the place of another
    ("core.units", "Const(base >> bits,", "Const((base >> bits) ^ 1,", "ROM", "the entry"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("unit", "old", "new", "claim", "fact"),
    [pytest.param(*case, marks=[] if k % 3 == 0 else [pytest.mark.long]) for k, case in enumerate(FAULTS)],
    ids=[new for _, _, new, _, _ in FAULTS],
)
def test_planted_faults_are_refuted(planted: Plant, unit: str, old: str, new: str, claim: str, fact: str) -> None:
    planted(unit, old, new)
    prover = UnitProver(Q8)
    found = [prover.prove(one) for one in prover.claims() if claim in one.name]
    refuted = [proof for proof in found if not proof.holds]
    assert refuted
    assert any(proof.counterexample.startswith(fact) for proof in refuted)


#: in the steps of two digits: a wrong square, a subtraction too few, and a remainder of which a step takes the wrong bits
PAIR_FAULTS = [
    ("Cat(Const(9, 4), digits)", "Cat(Const(8, 4), digits)", "the invariant"),
    ("Mux(three, left[2], Mux(two", "Mux(three & 0, left[2], Mux(two", "the invariant"),
    ("len(down) - 4 * k - 4 : len(down) - 4 * k]", "len(down) - 4 : len(down)]", "the invariant"),
    ("three | (one & ~two), two", "one & ~two, two", "the invariant"),
    ("", "", ""),
]


@pytest.mark.parametrize(("old", "new", "fact"), PAIR_FAULTS)
def test_a_cycle_of_two_pairs_of_digits(planted: Plant, old: str, new: str, fact: str) -> None:
    if old:
        planted("core.divider", old, new)
    prover = UnitProver(Q8, core="fast")
    (claim,) = (claim for claim in prover.claims() if claim.name == "divider 0, root: a cycle")
    found = prover.prove(claim)
    assert found.holds == (not fact), found.counterexample
    assert found.counterexample.startswith(fact)


#: (its source in the scaled divider, the planted source, the fact that fails)
SCALED_FAULTS = [
    # reciprocals that are one off
    ("init=[a | b <<", "init=[a + 16 | b <<", "the bound of the reciprocal"),
    # an address that is one off
    ("_leading(top, 1, table.index)", "_leading(top, 1, table.index) ^ 1", "the entry"),
    # a dividend without its sign
    ("(scale << k - 1) + negative", "(scale << k - 1)", "the dividend"),
    # a digit too few
    ("left.eq(places[whole:] + 1)", "left.eq(places[whole:])", "the digits that are left"),
    # digits that do not overlap
    ("(digits << k) + digit", "(digits << k) + digit[:k]", "the digits"),
    # a correction too few
    ("carried = Cat(error,", "carried = Cat(error & 0,", "the result"),
    # a quotient that starts a root
    ("roots.start.eq(self.start & is_root)", "roots.start.eq(self.start)", "the start of roots"),
]


@pytest.mark.parametrize(("old", "new", "fact"), SCALED_FAULTS, ids=[new for _, new, _ in SCALED_FAULTS])
def test_faults_of_the_scaled_divider_are_refuted(planted: Plant, old: str, new: str, fact: str) -> None:
    planted("core.divider", old, new)
    prover = UnitProver(Format(16, 8), core="fast")
    claims = [
        one for one in prover.claims() if one.name.startswith("scaled") and ("table" in one.name) == ("bound" in fact)
    ]
    refuted = [proof for proof in map(prover.prove, claims) if not proof.holds]
    assert refuted
    assert all(proof.counterexample.startswith(fact) for proof in refuted)
