"""`rg.error_bound`: no result is farther from the same run with more bits, and runs come near the bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.isa.table import TABLE

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.cli.main import main
from retrograd.observe._ranges import units_of
from tests.number_ranges.samples import SAMPLES

COARSE = rg.Format(64, 24)
#: of the default tier
FEW = ["dot", "hypot", "logsumexp", "iexp", "product_by_lognum", "box_muller", "misfit"]
WITH_A_LOSS = [name for name, s in SAMPLES.items() if s.loss]
#: They carry the remainders of their products, which no bound of roundings one by one can see, or have a long chain of lognums.
LOOSE = ("bessel", "gmm_objective", "power", "iexp", "bessel_log")


@reversible
def constants(y: fixed, x: fixed) -> None:
    y += 0.1 * x + 0.3


@reversible
def turned(y: fixed, x: fixed, t: fixed) -> None:
    with rg.routine() as r:
        p = rg.zeros(2)
        p[0] += x
        rg.rot(p[0], p[1], t)
    y += p[1]
    ~r


@reversible
def uncomputed(y: fixed, x: fixed) -> None:
    """The square root is rounded in the routine and where it is undone."""
    with rg.routine() as r:
        s = rg.sqrt(x)
    y += s
    ~r


def errors(name: str, runs: int, seed: int) -> Iterator[tuple[float, rg.ErrorBound]]:
    """(the distance to the run with the finest format that holds it, the bound)"""
    s, rng = SAMPLES[name], np.random.default_rng(seed)
    for _ in range(runs):
        args = s.arguments(rng)
        bound = rg.error_bound(s.function, *args, loss=s.loss, format=COARSE)
        frac = rg.ranges(s.function, *args).fits(64, margin=2).frac
        assert frac > COARSE.frac + 6
        # In a finer format yet a loop that ends at a term of 0 makes more passes.
        fine = rg.Format(64, min(frac, 44))
        coarse, exact = (getattr(rg.run(s.function, *args, format=w).values, s.loss) for w in (COARSE, fine))
        yield abs(coarse - exact), bound


def bounds(name: str, runs: int, seed: int) -> None:
    found = list(errors(name, runs, seed))
    for error, bound in found:
        # The bound is of first order, and the fine run is rounded, too.
        assert error <= bound.bound * 1.001 + 2.0**-40, (name, error, bound)
    shares = [error / b.bound for error, b in found if b.bound]
    assert not shares or name in LOOSE or max(shares) > 0.05
    likely = [error / b.likely for error, b in found if b.likely]
    assert not likely or np.sqrt(np.mean(np.square(likely))) < (4 if runs < 20 else 2.5)


@pytest.mark.parametrize("name", FEW)
def test_no_error_is_beyond_the_bound(name: str) -> None:
    bounds(name, 4, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", WITH_A_LOSS)
def test_no_error_of_many_is_beyond_the_bound(name: str, seed: int) -> None:
    bounds(name, 100, 100 + seed)


def test_the_roundings_of_instructions_follow_from_their_trees() -> None:
    units = {o.entry.name: units_of(o) for o in TABLE}
    shifted = {"fmovp", "fmulp", "fdivp", "fsqrtp"}
    assert {n for n, e in units.items() if e == 0.5} == {"fmul", "fdiv", "fsqrt", "fmulld", "fmulst"} | shifted
    assert {n for n, e in units.items() if e == 1} == {
        "fexp", "flog", "fsin", "fcos", "fatan2", "ltof", "ftol", "ladd", "lsub", "llog", "lexp", "lpow"
    }  # fmt: skip
    assert {n for n, e in units.items() if e == 2} == {"rot"}


def error_of(x: float) -> float:
    """How far the word of a number is from it, in Q32.32."""
    w = rg.Format()
    return abs(float(w.to_real(w.from_real(x)) - Fraction(x)))


def test_parts_of_the_bound() -> None:
    unit = 2.0**-32
    found = rg.error_bound(constants, 0.0, 0.3)
    # The words of the argument and of the constants have known errors, and the product is rounded.
    assert found.arguments == pytest.approx(0.1 * error_of(0.3), rel=1e-6)
    assert found.bound == pytest.approx(found.arguments + 0.3 * error_of(0.1) + error_of(0.3) + 0.5 * unit, rel=1e-6)
    assert sum(x.roundings for x in found.lines) == 3
    exact = rg.error_bound(constants, 0.0, 0.25)
    assert exact.arguments == 0


@reversible
def scaled(y: fixed, x: fixed, c: rg.static) -> None:
    y += x * c


@reversible
def divided(y: fixed, x: fixed, c: rg.static) -> None:
    y += x / c


@reversible
def shifted(y: fixed, x: fixed, c: rg.static) -> None:
    y += (x + c) * 1e3


@reversible
def of_a_variable(y: fixed, x: fixed, c: rg.static) -> None:
    k = c
    y += x * k


@reversible
def of_an_array(y: fixed, x: fixed, c: rg.static) -> None:
    numbers = np.array([c, c, c])
    for i in range(3):
        y += x * numbers[i]


@reversible
def of_an_argument(y: fixed, x: fixed, k: fixed) -> None:
    y += x * k


FACTORS = [0.005, 1e-6, 1e-9, 1.0000000001, 0.50000000005, 4.0000000001, -0.99999999995, 2.0, 0.5, 6.674e-11, 1e-11]


@pytest.mark.filterwarnings("ignore::retrograd.isa.diagnostics.PrecisionWarning")
@pytest.mark.parametrize("c", FACTORS)
@pytest.mark.parametrize("f", [scaled, divided, shifted, of_a_variable, of_an_array, of_an_argument])
def test_constants_count_as_they_are_written(f: Any, c: float) -> None:
    """Beside 0, ±1 and powers of two, where words are folded away; the format that is proposed has the bound that it promises."""
    x = 0.0 if f is shifted else 1e3
    exact = {scaled: c * x, divided: x / c, shifted: c * 1e3, of_an_array: 3 * c * x}.get(f, c * x)
    w = rg.Format()
    # A number that is a factor or a divisor in its expression keeps all of its bits, in an array, too.
    if f is shifted and w.vanishes(c):
        with pytest.raises(rg.CompileError, match="RG0730"):
            rg.error_bound(f, 0.0, x, c)
        return
    if f is divided and c < 1e-5:
        return  # The derivative by c does not fit.
    found = rg.error_bound(f, 0.0, x, c)
    error = abs(rg.run(f, 0.0, x, c).values.y - exact)
    assert error <= found.bound * 1.01
    assert found.bound <= error * 1.01 + (3 if f is of_an_array else 1) * 2.0**-33
    for tolerance in (1e-3, 1e-6, 1e-9):
        fit = found.fits(tolerance)
        # A format that fails is not proposed, and no coarser one than a format that fails.
        assert (fit.frac <= w.frac) == (found.bound <= tolerance)
        if abs(exact) * 4 < 2.0 ** (fit.width - fit.frac - 1) > 1e10:
            again = rg.error_bound(f, 0.0, x, c, format=fit)
            assert again.bound <= tolerance
            assert abs(rg.run(f, 0.0, x, c, format=fit).values.y - exact) <= tolerance * 1.01


def test_exact_constants_have_no_error() -> None:
    for c in (2.0, 0.5, -0.25, 3.0):
        found = rg.error_bound(of_a_variable, 0.0, 4.0, c)
        assert found.bound <= 2.0**-33
        # In a format without places 0.5 would be 0.
        assert found.fits(0.25).frac >= (0 if c == int(c) else 1)


def test_an_uncomputed_rounding_counts_once() -> None:
    found = rg.error_bound(uncomputed, 0.0, 2.0)
    assert found.bound == 2.0**-33
    assert [x.roundings for x in found.lines] == [1]
    assert rg.error_bound(~uncomputed, 5.0, 2.0).bound == 2.0**-33


def test_a_rotation() -> None:
    found = rg.error_bound(turned, 0.0, 3.0, 0.5)
    assert 2 * 2.0**-32 < found.bound < 8 * 2.0**-32


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
def test_the_format_of_a_tolerance(tolerance: float) -> None:
    s, rng = SAMPLES["logsumexp"], np.random.default_rng(2)
    args = s.arguments(rng)
    w = rg.error_bound(s.function, *args).fits(tolerance)
    assert tolerance / 4 < rg.error_bound(s.function, *args, format=w, precision="ignore").bound <= tolerance * 1.01
    with pytest.raises(InputError, match="RG0604"):
        rg.error_bound(s.function, *args).fits(1e-30)
    with pytest.raises(InputError, match="RG0604"):
        rg.error_bound(s.function, *args).fits(0.0)


def test_wrong_arguments() -> None:
    @reversible
    def integers(n: int) -> None:
        n += 1

    with pytest.raises(rg.NotDifferentiable):
        rg.error_bound(integers, 3)
    with pytest.raises(rg.NotDifferentiable):
        rg.error_bound(constants, 0.0, 1.0, loss="z")

    @reversible
    def several(y: Array[fixed, "n"]) -> None:
        y[0] += y[1]

    assert rg.error_bound(several, [1.0, 2.0], loss="y[0]").bound == 0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.py"
    file.write_text("import retrograd as rg\n@rg.reversible\ndef f(y: rg.fixed, x: rg.fixed):\n    y += x * x\n")
    assert main(["ranges", f"{file}:f", "0", "0.1", "--loss", "y"]) == 0
    assert "rounding error at most" in capsys.readouterr().out
    assert main(["ranges", f"{file}:f", "0", "0.1", "--loss", "y", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["error_bound"]
    assert found["loss"] == "y"
    assert found["lines"][0]["roundings"] == 1


@reversible
def of_known_numbers(y: fixed, x: fixed) -> None:
    three: fixed = 3.0
    seven: fixed = 7.0
    for i in range(2):
        y += x * ((i + 1) / (i + 3))
    y += x * (three / seven)


def test_roundings_of_known_numbers_count() -> None:
    """The quotients are computed when the function is compiled, and are rounded all the same."""
    exact = 1e6 * (Fraction(1, 3) + Fraction(2, 4) + Fraction(3, 7))
    found = rg.error_bound(of_known_numbers, 0.0, 1e6)
    error = abs(Fraction(rg.run(of_known_numbers, 0.0, 1e6).values.y) - exact)
    assert 0 < error <= found.bound
    assert found.bound < 3 * 1e6 * 2.0**-33 + 5 * 2.0**-32
    assert len(found.lines) == 2


def test_a_recorded_program_computes_the_same() -> None:
    for name in FEW:
        s = SAMPLES[name]
        args = s.arguments(np.random.default_rng(5))
        plain, recorded = (rg.run(s.function.with_options(recorded=flag), *args).words for flag in (False, True))
        assert plain == recorded
