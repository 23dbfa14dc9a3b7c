"""Directed states against the reference machine: the places where a fault in the hardware would pass random programs by."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.ports import Space
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.entries import NOT_JUMPING, REGISTER_FIELDS, Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import lockstep

import retrograd as rg

Execute = Callable[[Sequence[Order]], list[OrderReport]]
Simulate = Callable[[Format], Execute]
#: checks the hardware, and returns how often machines trapped, by code
Check = Callable[[Any, Execute, Format], dict[str, int]]
Q8, Q32, Q64 = Format(8, 4), Format(32, 16), Format(64, 32)
WIDTHS = [Q32, *(pytest.param(w, marks=pytest.mark.long) for w in (Q8, Q64))]


def raw(w: Format, *body: Instruction) -> rg.Program:
    return rg.Program([encode(i) for i in (Instruction(TABLE["start"]), *body, Instruction(TABLE["finish"]))], [], 6, w)


# ---------------------------------------------------------------- where control may stand


def ends_of_the_code(execute: Execute, w: Format) -> dict[str, int]:
    """PC just outside the code, where older words lie in the code memory: it traps, whichever way it came."""
    add = Instruction(TABLE["imm.add"], rd=1, imm=1)
    p = raw(w, add, add)
    both = lockstep.Lockstep(p, (1,))
    for behind in (len(p.code), len(p.code) + 1, 255):
        both._writes.append((Space.CODE, behind, encode(add)))
    for pc in (len(p.code), -1, len(p.code) + 1, len(p.code) - 1, 0):
        for direction in (1, -1):
            both.place(pc, 0, direction)
            both.run(2)
    # Control goes there by itself, past `finish` in a jump that is under way.
    for pc, direction in ((len(p.code) - 2, 1), (1, -1)):
        both.place(pc, 0, direction)
        both.run(1)
    _, traps = both.check(execute)
    assert traps["RG0410"] >= 6
    return dict(traps)


def least_branch_register(execute: Execute, w: Format) -> dict[str, int]:
    """BR = −2^(W−1), of which all bits but one are zero, is a jump under way; and so is BR = 2^(W−2)."""
    p = raw(
        w, Instruction(TABLE["imm.add"], rd=2, imm=1), Instruction(TABLE["swapbr"], rd=1),
        Instruction(TABLE["goto.lt"], ra=2, rb=3, imm=1), Instruction(TABLE["finish"]),
    )  # fmt: skip
    both = lockstep.Lockstep(p, (1, 2, 3))
    for word in (w.sign, w.sign >> 1, 1 << (w.width // 2)):
        for pc in range(len(p.code)):
            for direction in (1, -1):
                both.place(pc, w.signed(word), direction)
                both.run(1)
                both.place(pc, w.signed(word), direction)
                both.turn()
                both.run(0)
        for direction in (1, -1):
            both.set(Space.REGISTERS, 1, word)
            both.place(2, 0, direction)
            both.run(2)
    _, traps = both.check(execute)
    assert traps["RG0405"] > 6
    return dict(traps)


# ---------------------------------------------------------------- turning round


def turned_and_back(execute: Execute, w: Format) -> dict[str, int]:
    """A cotangent that was dropped does not come back, however often the machine was turned round before, and after."""
    freed = Instruction(TABLE["assertz"], rd=1)
    found: dict[str, int] = {}
    for before in range(4):
        for after in (1, 2, 3):
            both = lockstep.Lockstep(raw(w, freed, freed), (1,))
            both.differentiate(True)
            for _ in range(before):
                both.turn()
                both.run(0)
            both.set(Space.REGISTER_COTANGENTS, 1, 5)
            both.place(1, 0, 1)
            both.run(1)
            for _ in range(after):
                both.turn()
                both.run(0)
            both.run(3)
            _, traps = both.check(execute)
            for code, n in traps.items():
                found[code] = found.get(code, 0) + n
    assert found["RG0409"] >= 4
    return found


# ---------------------------------------------------------------- of several guards that fail, the first


def two_failures(w: Format) -> Iterator[tuple[Opcode, dict[str, int], str, str]]:
    """(opcode, words, code of the first guard that fails, code of another): a state for each pair of codes that there is."""
    rng = random.Random(1)
    corners = (0, 1, 2, w.mask, w.sign, w.sign - 1, 1 << w.frac, w.sign >> 1)
    for opcode in TABLE:
        guards = [g for g in opcode.guards(w) if g is not NOT_JUMPING and g.mode != "strict"]
        if len({g.code for g in guards}) < 2:
            continue
        places = sorted(opcode.reads - {"br", "imm", "m"})
        seen = set()
        for _ in range(300):
            words = {name: rng.choice((*corners, rng.getrandbits(w.width))) for name in places}
            env = {"br": 0, "imm": 0, "m": 0} | words
            failed = [g.code for g in guards if not evaluate(opcode.guard_predicate(g, w), w, env)]
            for other in failed[1:]:
                if other != failed[0] and (failed[0], other) not in seen:
                    seen.add((failed[0], other))
                    yield opcode, words, failed[0], other


def first_of_two_guards(execute: Execute, w: Format) -> dict[str, int]:
    """Where two guards fail the trap is that of the first, with cotangents and without."""
    cases = list(two_failures(w))
    numbers = {"d": 1, "a": 2, "b": 3}
    named = [{field: numbers[p] for p, field in REGISTER_FIELDS.items() if field in o.fields} for o, *_ in cases]
    assert len({(first, other) for _, _, first, other in cases}) >= 2
    p = raw(w, *(Instruction(opcode, **fields) for (opcode, *_), fields in zip(cases, named, strict=True)))
    both = lockstep.Lockstep(p, (1, 2, 3))
    for lifted in (False, True):
        both.differentiate(lifted)
        for at, (_, words, _, _) in enumerate(cases, 1):
            for name, word in words.items():
                both.set(Space.REGISTERS, numbers[name], word)
                if lifted:
                    both.set(Space.REGISTER_COTANGENTS, numbers[name], w.sign - 1)
            both.place(at, 0, 1)
            both.run(1)
    _, traps = both.check(execute)
    assert sum(traps.values()) == 2 * len(cases)
    return dict(traps)


CHECKS: list[Check] = [ends_of_the_code, least_branch_register, turned_and_back, first_of_two_guards]


@pytest.mark.parametrize("w", WIDTHS, ids=str)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_is_the_reference_machines(simulate: Simulate, check: Check, w: Format) -> None:
    assert check(simulate(w), w)


# ---------------------------------------------------------------- the checks can fail

#: a check; the unit, what stands there, what is planted
FAULTS = [
    (ends_of_the_code, "core.units", "(self.pc < self.size)", "(self.pc <= self.size)"),
    (ends_of_the_code, "core.units", "(self.pc >= 0) &", "(self.pc >= -1) &"),
    (least_branch_register, "core.units", "Mux(br == 0,", "Mux(br[:-1] == 0,"),
    (
        turned_and_back,
        "core.units",
        "self.turned.eq(self.turned ^ self.turn)",
        "self.turned.eq(self.turned | self.turn)",
    ),
    (
        turned_and_back,
        "core.units",
        "(lost == point) & (lost_turned != self.turned)",
        "(lost == point) & (lost_turned == self.turned)",
    ),
    (first_of_two_guards, "core.units", "(check.order < held.order)", "(check.order > held.order)"),
]


@pytest.mark.long
@pytest.mark.parametrize(
    ("check", "unit", "old", "new"),
    [pytest.param(*fault, marks=pytest.mark.long if k else []) for k, fault in enumerate(FAULTS)],
)
def test_a_planted_fault_is_found(
    planted: Callable[[str, str, str], None], check: Check, unit: str, old: str, new: str
) -> None:
    made = planted(unit, old, new)
    execute = Simulation((made if unit == "core" else Core)(Parameters(Q32, code_words=256, data_words=16))).run
    with pytest.raises(AssertionError, match="order"):
        check(execute, Q32)
