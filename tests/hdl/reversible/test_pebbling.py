"""Schedules under a budget of ancillas: right, within the budget, with more gates for fewer ancillas, and refused below the least."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from retrograd.hdl.reversible.builder import Bit, Bits, Builder
from retrograd.hdl.reversible.lowering import Game, Hold, Schedule, lower
from retrograd.hdl.reversible.verification import disagreement
from retrograd.isa.diagnostics import InputError
from retrograd.isa.expr import Expr, place
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

W = Format(8, 4)


def rows_of(names: Sequence[str], count: int) -> list[dict[str, int]]:
    rng = random.Random(3)
    return [{name: rng.getrandbits(8) >> rng.randrange(8) for name in names} for _ in range(count)]


def least_budget(name: str) -> int:
    with pytest.raises(InputError, match="RG1406") as caught:
        lower(TABLE[name], W, strategy="pebble", budget=0)
    return int(caught.value.diagnostics[0].message.split()[-1])


@pytest.mark.parametrize(
    "name", [*(pytest.param(n, marks=pytest.mark.long) for n in ("fsin.add", "fexp.sub")), "mod.xor", "fmul.add"]
)
def test_budgets_are_kept(name: str) -> None:
    opcode = TABLE[name]
    least, most = least_budget(name), len(lower(opcode, W).ancillas)
    gates = []
    for budget in sorted({least, (2 * least + most) // 3, (least + 2 * most) // 3, most, most + 50}):
        circuit = lower(opcode, W, strategy="pebble", budget=budget)
        assert len(circuit.ancillas) <= budget
        assert circuit.garbage == ()
        assert disagreement(circuit, opcode, W, rows_of(list(circuit.inputs), 24)) is None
        gates.append(len(circuit.gates))
    assert gates == sorted(gates, reverse=True)
    assert gates[-1] == len(lower(opcode, W).gates)
    with pytest.raises(InputError, match=f"smallest budget is {least}"):
        lower(opcode, W, strategy="pebble", budget=least - 1)


@pytest.mark.long
def test_less_room_takes_more_gates() -> None:
    """Not only no fewer: at the least budget the sine of a word is computed with several times the gates."""
    few, many = (
        lower(TABLE["fsin.add"], W, strategy="pebble", budget=n)
        for n in (least_budget("fsin.add"), len(lower(TABLE["fsin.add"], W).ancillas))
    )
    assert len(few.ancillas) < len(many.ancillas) / 3
    assert len(few.gates) > 3 * len(many.gates)


def chain(length: int) -> Expr:
    """A node for each step, each the only operand of the next."""
    x = place("x")
    for _ in range(length):
        x = x.sar(1)
    return x


def game(length: int) -> Game:
    """The game in which each node has one gate, and a pebble of one line."""

    def lower_node(b: Builder, node: Expr, operands: Sequence[Bits]) -> list[Bit]:
        if node.op == "const":
            return []
        (line,) = b.fresh()
        b.flip(line, operands[0][0])
        return [line]

    return Game({"x": [0]}, [chain(length)], 1, 1, lower_node, lambda b, words: None)


def played(schedule: Schedule) -> int:
    return 1 if isinstance(schedule, Hold) else 1 + 2 * played(schedule.first) + played(schedule.rest)


@pytest.mark.parametrize("length", [2, 4, 8, 16])
def test_chains(length: int) -> None:
    """A chain is Bennett's game: to hold all takes a pebble for each step, and splits take about log₂ as many."""
    found = game(length)
    assert isinstance(found.schedule(length), Hold)
    assert found.schedule(found.least() - 1) is None
    schedule = found.schedule(found.least())
    assert schedule is not None
    assert found.least() <= length.bit_length() + 1
    assert length < 3 or played(schedule) > 1


def test_budgets_go_with_the_strategy() -> None:
    with pytest.raises(ValueError, match="budget"):
        lower(TABLE["fsin.add"], W, strategy="pebble")
    with pytest.raises(ValueError, match="budget"):
        lower(TABLE["fsin.add"], W, budget=30)
