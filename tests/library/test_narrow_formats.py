"""Elementary functions in formats with few bits before the point: wherever argument and result fit there is a value, within the stated error.

Arguments are drawn over the whole range, and lie at its ends, around 0 and beside the powers of two. Derivatives that fit have values, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from retrograd.isa.words import Format

import retrograd as rg
from retrograd import fixed, reversible

FORMATS = (
    "Q2.6", "Q3.5", "Q4.4", "Q2.14", "Q3.13", "Q4.12", "Q2.30", "Q3.29", "Q4.28", "Q2.62", "Q3.61", "Q4.60",
)  # fmt: skip
BELOW_1 = ("Q1.15", "Q1.31", "Q1.63")

Real = Callable[[Any], Any]
#: name → (its value, its derivative; None where there is none, the error in units)
CASES: dict[str, tuple[Real, Real, float]] = {
    "tanh": (mpmath.tanh, lambda x: mpmath.sech(x) ** 2, 2),
    "sinh": (mpmath.sinh, mpmath.cosh, 2.5),
    "cosh": (mpmath.cosh, mpmath.sinh, 3),
    "asin": (lambda x: mpmath.asin(x) if abs(x) <= 1 else None, lambda x: _slope(1 - x * x), 8),
    "acos": (lambda x: mpmath.acos(x) if abs(x) <= 1 else None, lambda x: -_slope(1 - x * x), 8),
    "log2": (lambda x: mpmath.log(x, 2) if x > 0 else None, lambda x: 1 / (x * mpmath.log(2)), 5),
    "log10": (lambda x: mpmath.log10(x) if x > 0 else None, lambda x: 1 / (x * mpmath.log(10)), 3),
    "exp2": (lambda x: mpmath.power(2, x), lambda x: mpmath.power(2, x) * mpmath.log(2), 1),
    "expm1": (mpmath.expm1, mpmath.exp, 2.5),
    "log1p": (lambda x: mpmath.log(1 + x) if x > -1 else None, lambda x: 1 / (1 + x), 4),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), lambda x: _slope(mpmath.cbrt(abs(x)) ** 4) / 3, 1.5),
    "erf": (mpmath.erf, lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x), 8),
}


def _slope(square: Any) -> Any:
    """1/√square, and 0 in place of an infinite slope."""
    return 1 / mpmath.sqrt(square) if square else mpmath.mpf(0)


def bound(name: str, x: Any, w: Format) -> Any:
    """The stated error in units of the format: constants are float64, also factors of logarithms, and the quadrature of erf is off by 10⁻¹⁴."""
    units, inexact = mpmath.mpf(CASES[name][2]), mpmath.mpf(1e-14 if name == "erf" else 2.0**-51)
    if name == "exp2":
        units += (1 + abs(x)) * mpmath.power(2, x) / 2
        inexact *= max(1, abs(x) * mpmath.power(2, x))
    elif name.startswith("log"):
        inexact *= max(1, abs(CASES[name][0](x)))
    return units + inexact * 2**w.frac


def words(w: Format, seed: str, count: int) -> list[int]:
    """Words over the whole range, at its ends, around 0, and beside the powers of two."""
    rng, top = np.random.default_rng(zlib.crc32(seed.encode())), 1 << (w.width - 1)
    near = {s * (1 << k) + d for k in range(w.width) for s in (1, -1) for d in (-1, 0, 1)}
    return sorted(x for x in near | {int(v) for v in rng.integers(-top, top, count)} if -top <= x < top)


def numbers(found: list[int], w: Format) -> Any:
    return rg.fixed.to_reals(np.array([w.wrap(x) for x in found], dtype=np.uint64), str(w))


def fits(value: Any, w: Format) -> bool:
    top = 1 << (w.width - 1)
    return value is not None and -top <= value * 2**w.frac <= top - 1


@pytest.fixture(autouse=True)
def _exact() -> Any:
    with mpmath.workprec(160):
        yield


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_a_result_that_fits_is_found(name: str, format: str) -> None:
    """By `acos` beside 2 only where it is not beyond the end by the error of `fatan2`."""
    w, value = Format.named(format), CASES[name][0]
    margin = CASES[name][2] if name == "acos" else 0
    given = [(x, value(mpmath.mpf(x) / 2**w.frac)) for x in words(w, name + format, 150)]
    given = [(x, y) for x, y in given if fits(y, w) and fits(y + mpmath.mpf(margin) / 2**w.frac, w)]
    xs = numbers([x for x, _ in given], w)
    out = rg.run_batch(getattr(rg, name), xs, np.zeros(len(xs)), format=format).values[1]
    for (x, y), word in zip(given, rg.fixed.to_words(out, format).tolist(), strict=True):
        real = mpmath.mpf(x) / 2**w.frac
        assert abs(w.signed(int(word)) - y * 2**w.frac) <= bound(name, real, w), f"{name}({float(real)}) in {format}"


@pytest.mark.parametrize("format", [f for f in FORMATS if Format.named(f).width > 8])
@pytest.mark.parametrize("name", CASES)
def test_a_derivative_that_fits_is_found(name: str, format: str) -> None:
    """Within a few units, as steep as the function is."""
    w, (value, slope, _) = Format.named(format), CASES[name]
    f = rg.grad(getattr(rg, name).with_options(format=format), "x")
    top = 1 << (w.width - 1)
    found = [
        *words(w, name + format, 3)[:: w.width],
        -top,
        -top + 1,
        -1,
        0,
        1,
        top - 1,
        1 << w.frac - 1,
        -(1 << w.frac - 2),
    ]
    for x in found:
        real = mpmath.mpf(x) / 2**w.frac
        if not fits(value(real), w) or not fits(slope(real), w):
            continue
        wanted = slope(real)
        error = abs(mpmath.mpf(float(f(*numbers([x], w)))) - wanted)
        least = mpmath.mpf(2) ** -min(w.frac, 45)
        assert error <= 16 * least * max(1, abs(wanted)) ** 3, f"{name}'({float(real)}) in {format}"


@pytest.mark.parametrize("format", [*BELOW_1, "Q2.14", "Q2.30", "Q2.62", "Q3.13"])
def test_hypot(format: str) -> None:
    w = Format.named(format)
    top = 1 << (w.width - 1)
    ends = [0, 1, -1, 3, top // 2, -(top // 2), top - 1, 1 - top, top // 4, top // 8 + 1]
    rng = np.random.default_rng(20261128)
    some = [
        int(v) >> int(k) for v, k in zip(rng.integers(-top + 1, top, 30), rng.integers(0, w.width, 30), strict=True)
    ]
    pairs = [(x, y, mpmath.sqrt(mpmath.mpf(x) ** 2 + mpmath.mpf(y) ** 2)) for x in ends + some for y in [*ends, x, -x]]
    pairs = [p for p in pairs if p[2] <= top - 1]
    xs, ys = (numbers([p[i] for p in pairs], w) for i in (0, 1))
    out = rg.run_batch(rg.hypot, xs, ys, np.zeros(len(pairs)), format=format).values[2]
    for (x, y, size), word in zip(pairs, rg.fixed.to_words(out, format).tolist(), strict=True):
        most = 5.0 if format in BELOW_1 else 1.5 + 2 * max(abs(x), abs(y)) / 2**w.frac
        assert abs(int(word) - size) <= most, (x, y)
    for x, y in (
        (0.0, 0.0),
        (0.25, 0.25),
        (-0.5, 0.0),
        (0.125, -0.0625),
        (0.6, 0.3),
        (0.0, 1 - 2.0 ** -min(w.frac, 50)),
    ):
        size = mpmath.hypot(x, y) or 1
        slopes = rg.grad(rg.hypot.with_options(format=format))(x, y)
        assert tuple(map(float, slopes)) == pytest.approx(
            (float(x / size), float(y / size)), abs=32 * 2.0**-w.frac + 1e-12
        )


@reversible
def size(y: fixed, z: complex) -> None:
    y += abs(z)


@reversible
def powers(ys: rg.Array[fixed, 5], x: fixed) -> None:
    ys[0] += x**2.5
    ys[1] += x**1.5
    ys[2] += x**1.7
    ys[3] += x**0.3
    ys[4] += x**9.3


@reversible
def inverse_power(y: fixed, x: fixed) -> None:
    y += x**-1.5


@rg.functional
def functional_power(x: fixed) -> fixed:
    return x**2.5


@pytest.mark.parametrize("format", ["Q2.14", "Q3.13", "Q4.12", "Q2.30", "Q4.28", "Q2.62"])
def test_powers(format: str) -> None:
    """Neither the exponent nor its product with the logarithm has to fit. The logarithm has the error of the instruction."""
    w = Format.named(format)
    unit = 2.0**-w.frac
    rough = 4 + 2.0 ** (w.frac - w.width + 10)
    for x in (unit, 3 * unit, 2.0**-9, 0.11, 0.25, 0.5, 0.75, 0.9375, 1.0, 1.06):
        x = round(x / unit) * unit
        for y, p in zip(
            rg.run(powers, np.zeros(5), x, format=format).values.ys, (2.5, 1.5, 1.7, 0.3, 9.3), strict=True
        ):
            allowed = (4 if p in (1.5, 2.5) else rough) * max(1, p) * max(1.0, x**p)
            assert abs(float(y) - x**p) <= allowed * unit + 4e-16 * p, (x, p)
        assert abs(float(rg.run(functional_power, x, format=format).values.out) - x**2.5) <= 5 * unit + 1e-15
    for x in (0.75, 1.0, 1.5, 1.9):
        x = round(x / unit) * unit
        assert abs(float(rg.run(inverse_power, 0.0, x, format=format).values.y) - x**-1.5) <= 8 * unit + 1e-15
    assert float(rg.grad(inverse_power.with_options(format=format), "x")(0.0, 1.25)) == pytest.approx(
        -1.5 * 1.25**-2.5, abs=16 * unit + 1e-12
    )
    assert float(rg.grad(powers.with_options(format=format), "x", "ys[0]")(np.zeros(5), 0.5)) == pytest.approx(
        2.5 * 0.5**1.5, abs=16 * unit + 1e-12
    )


@pytest.mark.parametrize("format", ["Q2.14", "Q2.30", "Q2.62", "Q3.13"])
def test_the_size_of_a_complex_number(format: str) -> None:
    unit = 2.0 ** -Format.named(format).frac
    for z in (0j, 1 + 1j, 0.25 - 0.25j, -1.25 + 0.5j, complex(0, -1.75), complex(unit, unit)):
        assert abs(float(rg.run(size, 0.0, z, format=format).values.y) - abs(z)) <= 4 * unit + 4e-16
    d = rg.grad(size.with_options(format=format), "z")(0.0, 0.75 - 0.75j)
    assert complex(d) == pytest.approx(0.5**0.5 * (1 - 1j), abs=16 * unit + 1e-12)


@pytest.mark.parametrize("format", ["Q2.14", "Q3.61", "Q6.58"])
@pytest.mark.parametrize("name", CASES)
def test_engines_agree(name: str, format: str) -> None:
    f, w = getattr(rg, name), Format.named(format)
    xs = numbers([round(x * 2**w.frac) for x in (0.28125, 0.375, 0.9375)], w)
    batch = rg.fixed.to_words(rg.run_batch(f, xs, np.zeros(len(xs)), format=format).values[1], format)
    for engine in ("reference", "native"):
        found = [rg.run(f, x, format=format, engine=engine).values[1] for x in xs]
        assert [int(rg.fixed.to_words(y, format)) for y in found] == batch.tolist(), engine


@pytest.mark.parametrize("name", CASES)
def test_a_format_without_the_function_is_named(name: str) -> None:
    """At the call, with a format that has it."""

    @rg.functional
    def caller(x: fixed) -> fixed:
        return getattr_of(x)

    getattr_of = getattr(rg, name)
    for f, line in ((caller, "return getattr_of(x)"), (getattr(rg, name), f"def {name}")):
        with pytest.raises(rg.CompileError) as refused:
            rg.run(f, 0.25, format="Q1.15")
        (found,) = refused.value.diagnostics
        assert (found.code, found.message) == ("RG0714", f"rg.{name} has no values in Q1.15, where 1 does not fit")
        assert "Q2.14" in str(refused.value)
        assert line in str(refused.value)


def test_products_of_formats_in_which_1_does_not_fit() -> None:
    assert rg.run(squared, 0.0, 0.5, format="Q1.15").values.y == 0.25


@reversible
def squared(y: fixed, x: fixed) -> None:
    y += x * x
