"""Proofs that a step of the core is the table's: the table's trees as terms, opcodes, and faults that must be refuted."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
from retrograd.hdl.formal.claims import Claim, ClaimKind, claims
from retrograd.hdl.formal.proofs import Meaning, Prover, legal, next_pc
from retrograd.hdl.microcode import Microcode, dispatch_address
from retrograd.hdl.microword import TRAPS
from retrograd.hdl.parameters import Parameters
from retrograd.isa.encoding import IMMEDIATE_MIN
from retrograd.isa.entries import NOT_JUMPING
from retrograd.isa.expr import apply_operation, evaluate
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

Q8, Q32 = Format(8, 4), Format(32, 16)
Plant = Callable[[str, str, str], type]


@cache
def prover_of(w: Format) -> Prover:
    return Prover(w)


# ---------------------------------------------------------------- the table as terms


@pytest.mark.parametrize("w", [Q8, Q32, Format(64, 32)], ids=str)
def test_terms_of_known_words_are_values_of_trees(w: Format) -> None:
    draw = random.Random(7)
    for opcode in TABLE:
        words = {name: draw.choice((0, 1, w.mask, w.sign, draw.getrandbits(w.width))) for name in "dabm"}
        words |= {"br": draw.choice((0, 5)), "imm": draw.getrandbits(w.width)}
        meaning = Meaning(w, words, lambda op, parameter, v: apply_operation(w, op, parameter, v))
        for tree in opcode.transition(w).values():
            assert meaning.of(tree) == evaluate(tree, w, words)
        failed = [
            (guard.mode, TRAPS[guard.code].value)
            for guard in opcode.guards(w)
            if guard != NOT_JUMPING and not evaluate(opcode.guard_predicate(guard, w), w, words)
        ]
        for modes in ({"overflow": 0, "strict": 0}, {"overflow": 1, "strict": 1}):
            active = [code for mode, code in failed if modes.get(mode, 1)]
            assert meaning.trap(opcode, (), modes, 4) == (active or [0])[0]


def test_the_steps_of_pc() -> None:
    def of(br: int, backward: bool, bits: int) -> int:
        found: int = next_pc(5, br, backward, bits, Q8)
        return found

    assert [of(br, back, 8) for br in (0, 3, 0xFE) for back in (False, True)] == [6, 4, 8, 2, 3, 7]
    assert [of(0x80, back, bits) for bits in (6, 12) for back in (False, True)] == [5, 5, 0xF85, 0x85]


def test_legal_encodings() -> None:
    def of(name: str, w: Format, imm: int, ra: int = 2, rd: int = 1) -> int:
        found: int = legal(TABLE[name], {"rd": rd, "ra": ra, "rb": 0, "imm": imm % (1 << 32)}, w)
        return found

    assert [of("mov.add", Q8, 0, ra) for ra in (1, 2)] == [0, 1]
    assert [of("goto", Q8, imm) for imm in (-129, -128, -127, 127, 128)] == [0, 0, 1, 1, 0]
    assert [of("muli.add", Q8, imm) for imm in (-129, -128, 127, 128)] == [0, 1, 1, 0]
    assert [of("goto", Q32, imm) for imm in (IMMEDIATE_MIN, IMMEDIATE_MIN + 1)] == [0, 1]


# ---------------------------------------------------------------- proofs


@pytest.mark.long
def test_an_instruction_is_the_tables() -> None:
    found = prover_of(Q8).prove_transition(TABLE["assertz"])
    assert (found.holds, found.counterexample, found.witnessed) == (True, "", True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("w", "name"),
    [*((Q8, o.name) for o in TABLE), *((Q32, name) for name in ("mov.add", "goto.lt", "exch", "imm.add"))],
    ids=str,
)
def test_every_transition_is_the_tables(w: Format, name: str) -> None:
    wanted = [claim for claim in claims(w, {name}) if claim.kind is ClaimKind.TRANSITION]
    assert len({(claim.lifted, claim.backward) for claim in wanted}) == 4
    prover = prover_of(w)
    prover.seconds = 300
    for claim in wanted:
        found = prover.prove_claim(claim)
        assert found.holds, (claim.name, found.counterexample)
        assert found.witnessed or w != Q8


# ---------------------------------------------------------------- faults


#: (unit, its source there, the planted source, the opcode that refutes it, the first place that differs)
FAULTS = [
    # the test of BR in the step of PC, and its least number, which has no opposite
    ("core.units.BranchUnit", "Mux(br == 0, beside", "Mux(br[:4] == 0, beside", "goto", "PC"),
    ("core.sequencer", "h.negatable & least", "h.negatable & (least != least)", "goto", "the condition of an illegal"),
    # the size of the memory, and of the code
    (
        "core.memories",
        "self.address < self.size",
        "self.address <= self.size",
        "exch",
        "the condition of an address",
    ),
    ("core.units.BranchUnit", "self.pc < self.size", "self.pc <= self.size", "not", "the condition of PC outside"),
    # a signed comparison without its overflow
    ("core.units.LogicUnit", "less.eq(word[-1] ^ overflow)", "less.eq(word[-1])", "goto.lt", "BR"),
    # the last guard that fails is reported
    (
        "core.units.GuardUnit",
        "check.order < held.order",
        "check.order > held.order",
        "fdiv.add",
        "the condition of a trap",
    ),
    # overflow traps on every machine
    (
        "core.units.GuardUnit",
        "(self.overflow | ~check.overflow)",
        "(self.last == 0)",
        "fmov.add",
        "the condition of a trap",
    ),
    # a trap has changed BR
    ("core.units", "self.commit | self.turn", "self.prepare | self.turn", "assertz", "PC"),
    # the decoder accepts an illegal encoding
    ("core.sequencer", "(same & h.distinct).any()", "(same & h.distinct).all()", "swap", "the condition of an illegal"),
]


@pytest.mark.parametrize(
    ("unit", "old", "new", "name", "where"),
    [pytest.param(*case, marks=[] if k in (0, 1, 3) else [pytest.mark.long]) for k, case in enumerate(FAULTS)],
    ids=[f"{unit} {new}" for unit, _, new, _, _ in FAULTS],
)
def test_planted_faults_are_refuted(planted: Plant, unit: str, old: str, new: str, name: str, where: str) -> None:
    planted(unit, old, new)
    found = Prover(Q8).prove_transition(TABLE[name])
    assert not found.holds
    assert found.counterexample.startswith(where)


@pytest.mark.long
@pytest.mark.parametrize("unit", ["core.units.LogicUnit", "core.units.BranchUnit"])
def test_faults_that_can_be_undone_pass_the_proofs_that_steps_are_undone(planted: Plant, unit: str) -> None:
    """Such faults are the reason for these proofs."""
    case = next(case for case in FAULTS if case[0] == unit)
    planted(*case[:3])
    prover = Prover(Q8)
    assert prover.prove(TABLE[case[3]]).holds
    assert not prover.prove_transition(TABLE[case[3]]).holds


@pytest.mark.long
@pytest.mark.parametrize("names", [("mov.add", "mov.sub"), ("fmovp.add", "shli.add"), ("fmulp.add", "fdivp.add")])
def test_a_microprogram_of_another_function_is_refuted(
    microcode: Callable[[Parameters], Microcode], names: tuple[str, str]
) -> None:
    """Two opcodes exchanged, in both directions: each step is undone, and is not the table's."""
    code = microcode(Parameters(Q8, code_words=8, data_words=4))
    for backward, same in product((False, True), repeat=2):
        x, y = (dispatch_address(TABLE[name].code, backward, False, same) for name in names)
        code.dispatch[x], code.dispatch[y] = code.dispatch[y], code.dispatch[x]
    prover = Prover(Q8, code)
    assert prover.prove(TABLE[names[0]]).holds
    found = prover.prove_claim(Claim(TABLE[names[0]], ClaimKind.TRANSITION))
    assert not found.holds
    assert found.counterexample.startswith(("d:", "the condition of a trap"))
