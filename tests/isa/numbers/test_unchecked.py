"""Results that do not fit, on a machine that does not check: docs/reference/numbers.md, Conventions."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from retrograd.isa.entries import Function
from retrograd.isa.expr import evaluate
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import fixed, reversible

FORMATS = (Format(32, 16), Format(64, 32))


def value(name: str, w: Format, a: int, b: int = 0) -> int:
    entry = next(e for e in TABLE.entries if e.name == name)
    assert isinstance(entry, Function)
    return evaluate(entry.value(w), w, {"a": a & w.mask, "b": b & w.mask})


def near(found: int, exact: int, w: Format, units: int = 1) -> bool:
    """Whether a word is that of a number modulo 2^W, to within a rounding."""
    return abs(w.signed((found - exact) & w.mask)) <= units


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_products_quotients_and_conversions_wrap(w: Format) -> None:
    rng = random.Random(1)
    for _ in range(200):
        a, b = w.signed(rng.getrandbits(w.width)), w.signed(rng.getrandbits(rng.randrange(2, w.width))) or 1
        assert near(value("fmul", w, a, b), a * b >> w.frac, w)
        assert near(value("fdiv", w, a, b), (a << w.frac) // b, w)
        assert value("itof", w, a) == (a << w.frac) & w.mask


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("name", ["fexp", "ltof"])
def test_powers_wrap_up_to_twice_the_range_and_are_zero_beyond(name: str, w: Format) -> None:
    rng = random.Random(2)
    kinds = set()
    with localcontext() as context:
        context.prec = 60
        for _ in range(200):
            places = Fraction(rng.uniform(w.width - w.frac - 3, w.width - w.frac + 5))
            a = int(places * (1 if name == "ltof" else Fraction(693147, 10**6)) * 2**w.frac)
            base = Decimal(2) if name == "ltof" else Decimal(1).exp()
            exact = int(base ** (Decimal(a) / 2**w.frac) * 2**w.frac)
            found = value(name, w, a)
            # Close to the limit a rounding decides.
            kinds.add(exact.bit_length() - w.width)
            if exact < 2**w.width - 4:
                assert near(found, exact, w, 2)
            elif exact > 2**w.width + 4:
                assert found == 0
    assert {-1, 0, 1} <= kinds


@reversible
def e_to_the(y: fixed, x: fixed) -> None:
    y += rg.exp(x)


@pytest.mark.parametrize("level", [0, 1])
def test_a_run_without_checks_gives_these_words(level: int) -> None:
    f = e_to_the.with_options(level=level)
    for x, wrapped in ((22.0, 3584912846.131592 - 2**32), (23.0, 0.0), (1e6, 0.0)):
        assert abs(rg.run(f, 0.0, x, overflow=False).values[0] - wrapped) < 1e-5
        with pytest.raises(rg.ProgramTrap):
            f(0.0, x)
