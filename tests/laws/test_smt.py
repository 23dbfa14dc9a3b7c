"""The inverse law proved, for all states at once, by an SMT solver."""

from __future__ import annotations

import pytest
from retrograd.isa import smtlib
from retrograd.isa.derivatives import NoDerivative, bar, lift
from retrograd.isa.effects import transition
from retrograd.isa.entries import Opcode
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

NAMES = [opcode.name for opcode in TABLE]
CHEAP = [opcode.name for opcode in TABLE if not opcode.multiplies]


def check(text: str) -> str:
    """The solver's verdict: sat is a counterexample."""
    import z3  # type: ignore[import-untyped]

    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.from_string(text)
    return str(solver.check())


@pytest.mark.parametrize("name", NAMES)
def test_every_opcode_at_16_bits(name: str) -> None:
    assert check(smtlib.reversibility(TABLE[name], Format(16, 8))) == "unsat"


@pytest.mark.parametrize("w", [Format(32, 16), Format(64, 32)], ids=str)
@pytest.mark.parametrize("name", CHEAP)
def test_opcodes_without_products_at_full_width(name: str, w: Format) -> None:
    assert check(smtlib.reversibility(TABLE[name], w)) == "unsat"


@pytest.mark.parametrize("name", NAMES)
def test_the_assumptions_can_be_met(name: str) -> None:
    """The proof speaks of states where the guards hold; were there none, unsat would say nothing."""
    text = smtlib.reversibility(TABLE[name], Format(16, 8))
    lines = text.splitlines()
    assert lines[-1].startswith("(assert (or false")
    # Erasures meet their inverse only as a trap: no state has both run.
    expected = "unsat" if name in ("erase", "unerase") else "sat"
    assert check("\n".join(lines[:-1])) == expected


def differentiable() -> list[Opcode]:
    out = []
    for opcode in TABLE:
        try:
            if lift(opcode, Format(16, 8)):
                out.append(opcode)
        except NoDerivative:
            continue
    return out


def test_lifts_can_be_stated() -> None:
    """Cotangent shadows are places too: their names must be symbols that a solver reads."""
    w = Format(16, 8)
    opcodes = differentiable()
    assert len(opcodes) > 10
    for opcode in opcodes:
        after = transition(lift(opcode, w), w)
        assert any(name.endswith(bar("")) for name in after)
        commands, _ = smtlib.define(list(after.values()), w)
        assert check("\n".join(commands)) == "sat", opcode.name
