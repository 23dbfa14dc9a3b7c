"""Products and quotients by numbers of the source that have few bits at the point F, against exact rationals."""

from __future__ import annotations

import linecache
import random
import warnings
from fractions import Fraction
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, Format, fixed, reversible

SIZES = ((64, 32), (64, 48), (64, 8), (64, 63), (32, 16), (16, 12), (8, 4), (16, 0))
FORMATS = [Format(width, frac) for width, frac in SIZES]
ENGINES = ("reference", "threaded", "translated")
BODIES = {
    "x * c": "@rg.reversible\ndef f(y: fixed, x: fixed):\n    y += x * C",
    "c * x": "@rg.reversible\ndef f(y: fixed, x: fixed):\n    y -= -C * x",
    "x / c": "@rg.reversible\ndef f(y: fixed, x: fixed):\n    y += x / C",
    "c / x": "@rg.reversible\ndef f(y: fixed, x: fixed):\n    y += C / x",
    "f(x) = x * c": "@rg.functional\ndef f(x: fixed) -> fixed:\n    return x * C",
    "f(x) = x / c": "@rg.functional\ndef f(x: fixed) -> fixed:\n    return x / C",
    "f(x) = c / x": "@rg.functional\ndef f(x: fixed) -> fixed:\n    return C / x",
}
_MODULES = iter(range(10**9))


def compiled(text: str, **names: Any) -> Any:
    file = f"<factors {next(_MODULES)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType("factors_of_test")
    vars(module).update(rg=rg, fixed=fixed, Array=Array, __file__=file, **names)
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    return module.f


def outcome(made: Any) -> tuple[Any, str | None]:
    """The result, or the code of the trap."""
    try:
        return made(), None
    except rg.ProgramTrap as trap:
        return None, trap.code


def arguments(written: str, x: Any) -> tuple[Any, Any]:
    return (x, 0.0) if written.startswith("f(x)") else (0.0, x)


def value_of(written: str, c: Fraction, x: Fraction) -> Fraction:
    return x / c if written.endswith("x / c") else c / x if written.endswith("c / x") else x * c


def is_useful(written: str, c: float, w: Format) -> bool:
    """Whether some x has a result that is neither 0 nor out of range."""
    least, greatest = Fraction(1, 1 << w.frac), Fraction(w.sign, 1 << w.frac)
    if written.endswith("c / x") and round(abs(Fraction(c)) / (least**2 * (w.sign >> 1))) >= w.sign:
        return False
    found = sorted(abs(value_of(written, Fraction(c), x)) for x in (least, greatest))
    return found[1] > least / 2 and found[0] < greatest


def keeps_at_one_point(c: float, w: Format) -> bool:
    return w.keeps(c) and -w.sign <= round(Fraction(c) * (1 << w.frac)) < w.sign


def numbers(w: Format, rng: random.Random) -> list[float]:
    """Numbers of all sizes with few bits at the point F, and those at the ends of what has results."""
    w0, f = w.width, w.frac
    ends = [-w0, 1 - w0, w0 - 1, w0, -2 * f - 1, 2 * w0 - 3 - 2 * f]
    found = [1e-9, -6.674e-11, 6e23, 3.0, *(2.0**n * k for n in ends for k in (0.999, 1.001))]
    found += [rng.choice((1, -1)) * rng.uniform(1, 2) * 2.0 ** rng.randint(-w0, w0) for _ in range(10)]
    return [c for c in found if not keeps_at_one_point(c, w)]


def words(w: Format, rng: random.Random) -> list[int]:
    sizes = [rng.randint(1, w.width - 1) for _ in range(8)]
    return [1, -w.sign, *(rng.choice((1, -1)) * rng.randrange(1, 1 << n) for n in sizes)]


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("written", BODIES)
def test_the_error_is_the_stated_one(written: str, w: Format) -> None:
    """|y − exact| ≤ ½ ulp, ¾ of c / x, and |exact|·2^(1 − W); refused if no x has a result; else a trap.

    All engines have the same words, and the way back ends at the first bit.
    """
    rng = random.Random(f"{written} {w}")
    ulp, computed = Fraction(1, 1 << w.frac), 0
    for c in numbers(w, rng):
        f = compiled(BODIES[written], C=c)
        if not is_useful(written, c, w):
            if not w.vanishes(c) and abs(c) < w.sign * ulp - ulp / 2:
                continue
            with pytest.raises(rg.CompileError, match=r"RG0730|RG0714"):
                rg.run(f, *arguments(written, rg.fixed.to_reals([1], w)[0]), format=w, precision="ignore")
            continue
        for word in words(w, rng):
            x = rg.fixed.to_reals([word & w.mask], w)[0]
            exact = value_of(written, Fraction(c), Fraction(word) * ulp)
            error = ulp * (Fraction(3, 4) if written.endswith("c / x") else Fraction(1, 2)) + abs(exact) / w.sign
            found, trap = outcome(lambda f=f, x=x: rg.run(f, *arguments(written, x), format=w, engine="reference"))
            if found is None:
                assert trap == "RG0404"
                assert abs(exact) + error > (w.sign - 1) * ulp, (c, word)
                continue
            y = w.signed(found.words["out" if written.startswith("f(x)") else "y"][0])
            assert abs(y * ulp - exact) <= error, (c, word)
            computed += 1
            for engine in ENGINES[1:]:
                assert rg.run(f, *arguments(written, x), format=w, engine=engine).words == found.words
            back = rg.run(~f, *found.values, format=w).words
            assert tuple(back[k][0] for k in back) == arguments(written, word & w.mask)
    assert computed > 10


@pytest.mark.parametrize("written", BODIES)
def test_nothing_is_reported_and_the_slope_is_that_of_the_number(written: str) -> None:
    """∂y/∂x = c, 1/c, −c/x²: within 2^−20 of it and the last place of a cotangent."""
    w = Format()
    for c, x in (
        (1e-9, 3.0),
        (-6.674e-11, 0.001),
        (2.5e-7, 0.01),
        (3e10, 2e-8 if not written.endswith("c / x") else 4e4),
    ):
        number = 1 / c if written.endswith("x / c") else c
        f = compiled(BODIES[written], C=number)
        slope = value_of(written, Fraction(number), Fraction(1))
        if written.endswith("c / x"):
            slope = -Fraction(number) / w.to_real(w.from_real(x)) ** 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gradient = rg.grad(f, "x", loss="out" if written.startswith("f(x)") else "y", precision="ignore")
            found = Fraction(gradient(*arguments(written, x)))
        assert abs(found - slope) <= abs(slope) / 2**20 + Fraction(1, 2**44), (c, found)


CHAINS = {
    "G * a * b": lambda g, a, b: g * a * b,
    "a * (b * G)": lambda g, a, b: a * b * g,
    "-(G * a) * b": lambda g, a, b: -(g * a) * b,
    "(a * G) / b": lambda g, a, b: a * g / b,
    "b / (a * G)": lambda g, a, b: b / (a * g),
    "(a / (1 / G)) * b": lambda g, a, b: a * g * b,
    "(a * G) ** 2 + b": lambda g, a, b: (a * g) ** 2 + b,
    "(a * G) * (b * G)": lambda g, a, b: a * g * b * g,
    "G * a + b * G": lambda g, a, b: g * (a + b),
}


@pytest.mark.parametrize("text", CHAINS)
def test_a_product_with_such_a_number_keeps_its_bits_as_a_factor(text: str) -> None:
    """Each factor has 30 bits here, so results are within 2^−29 and one unit; 6.674e-11 · 5 at F is off by a third."""
    f = compiled(f"@rg.reversible\ndef f(y: fixed, a: fixed, b: fixed):\n    y += {text}", G=6.674e-11)
    for a, b in ((5.0, 2.0**30), (12345.678, -(2.0**20)), (-(2.0**30), 1000.25)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found, trap = outcome(lambda f=f, a=a, b=b: rg.run(f, 0.0, a, b, precision="ignore"))
        exact = CHAINS[text](Fraction(6.674e-11), *map(Fraction, (a, b)))
        if found is None:
            assert trap == "RG0404"
            assert abs(exact) >= 2**31
            continue
        y = Fraction(found.values.y)
        assert abs(y - exact) <= abs(exact) / 2**29 + Fraction(1, 2**32), (a, b, float(y), float(exact))
        bound = rg.error_bound(f, 0.0, a, b, precision="ignore")
        assert abs(y - exact) <= Fraction(bound.bound) + Fraction(1, 2**80)
        assert tuple((~f)(*found.values)) == (0.0, *found.values[1:])


def test_numbers_of_arrays_structs_and_complex_numbers() -> None:
    """Element by element, in batches too, with the bits of one run each."""
    scale = 3e-10

    @reversible
    def f(ys: Array[fixed, "n"], z: complex, xs: Array[fixed, "n"], v: complex) -> None:
        ys += xs * scale
        z += v * scale

    rng = np.random.default_rng(1)
    xs, v = rng.uniform(-1e9, 1e9, (4, 3)), rng.uniform(-1e9, 1e9, 4) * (1 + 2j)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = rg.run_batch(f, np.zeros((4, 3)), np.zeros(4, complex), xs, v)
    assert np.abs(found.values.ys - xs * scale).max() <= 2.0**-32
    assert np.abs(found.values.z - v * scale).max() <= 2.0**-31
    for k in range(4):
        assert (rg.run(f, [0.0] * 3, 0j, xs[k], v[k], engine="reference").values.ys == found.values.ys[k]).all()


ARRAYS = {
    "W * x": ("reversible", "y += W * x", lambda c, x: c * x),
    "-W[i] * x": ("reversible", "for i in range(n):\n        y[i] -= -W[i] * x[i]", lambda c, x: c * x),
    "x / W": ("reversible", "y += x / W", lambda c, x: x / c),
    "W / x": ("reversible", "y += W / x", lambda c, x: c / x),
    "D @ x": ("reversible", "y += D @ x", lambda c, x: c * x),
    "W[::-1]": ("reversible", "y[::-1] += x[::-1] * W[::-1]", lambda c, x: c * x),
    "sum(W * x)": ("reversible", "for i in range(n):\n        y[i] += rg.sum(D[i] * x)", lambda c, x: c * x),
    "f(x) = W * x": ("functional", "return W * x", lambda c, x: c * x),
    "f(x) = x / W": ("functional", "return x / W", lambda c, x: x / c),
    "f(x) = D @ x": ("functional", "return D @ x", lambda c, x: c * x),
}


def array_function(written: str, c: np.ndarray[Any, Any]) -> Any:
    decorator, body, _ = ARRAYS[written]
    given = "x: Array[fixed, n]"
    head = f"y: Array[fixed, n], {given}" if decorator == "reversible" else given
    text = f"@rg.{decorator}\ndef f({head}):\n    {body}"
    return compiled(text, W=c, D=np.diag(c), n=len(c))


def spread(w: Format, rng: random.Random) -> np.ndarray[Any, Any]:
    """Numbers of which one at least has few bits at the point F, and all have enough beside the greatest."""
    greatest = rng.randint(-w.width, w.width)
    sizes = [greatest, *(rng.randint(greatest - w.width // 4, greatest) for _ in range(2))]
    return np.array([rng.choice((1, -1)) * rng.uniform(1, 2) * 2.0**n for n in sizes])


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("written", ARRAYS)
def test_elements_of_an_array_keep_their_bits_as_factors(written: str, w: Format) -> None:
    """|y − c·x| ≤ ½ ulp + |x|·max|c|·2^(1 − W), ¾ ulp of c / x, on all engines; else it is reported, or traps."""
    rng = random.Random(f"{written} {w}")
    ulp, value, functional = Fraction(1, 1 << w.frac), ARRAYS[written][2], ARRAYS[written][0] == "functional"
    computed = 0
    while computed < 5:
        c = spread(w, rng)
        if all(keeps_at_one_point(float(v), w) for v in c):
            continue
        f, own = array_function(written, c), rng.choices(words(w, rng), k=len(c))
        x = rg.fixed.to_reals([word & w.mask for word in own], w)
        given = (x,) if functional else (np.zeros(len(c)), x)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                found, trap = outcome(lambda f=f, a=given: rg.run(f, *a, format=w, engine="reference"))
        except (rg.CompileError, rg.PrecisionWarning) as refused:
            # An element has no result; a dividend may reach too far to the left.
            factors = 1 / c if "x / W" in written else c
            expected = written == "W / x" or any(not is_useful("x * c", v, w) for v in factors)
            if not expected or getattr(refused, "code", "RG0730") not in ("RG0730", "RG0714"):
                raise
            continue
        exact = [value(Fraction(v), word * ulp) for v, word in zip(c.tolist(), own, strict=True)]
        size = max(abs(value(Fraction(v), word * ulp)) for v in c.tolist() for word in own)
        error = ulp * (Fraction(3, 4) if written == "W / x" else Fraction(1, 2)) + size * 2 / w.sign
        if found is None:
            assert trap == "RG0404"
            assert max(map(abs, exact)) + error > (w.sign - 1) * ulp, c
            continue
        name = "out" if functional else "y"
        for word, true in zip(found.words[name], exact, strict=True):
            assert abs(w.signed(word) * ulp - true) <= error, (c, own)
        computed += 1
        for engine in ENGINES[1:]:
            assert rg.run(f, *given, format=w, engine=engine).words == found.words
        if not functional:
            assert rg.run(~f, *found.values, format=w).words["y"] == [0] * len(c)


def test_an_element_in_chains_gradients_bounds_and_ranges() -> None:
    """(w[i]·a)·b keeps the bits of w[i] as a factor; its slope and its error bound are right."""
    rates = np.array([6.674e-11, -3e-9, 1e-7])

    @reversible
    def f(y: fixed, a: fixed, b: fixed) -> None:
        for i in range(3):
            y += rates[i] * a * b

    exact = sum(map(Fraction, rates.tolist())) * Fraction(12345.5) * Fraction(2.0**20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = f(0.0, 12345.5, 2.0**20)
        slope = rg.grad(f, "b", loss="y")(0.0, 12345.5, 2.0**20)
        bound = rg.error_bound(f, 0.0, 12345.5, 2.0**20)
        ranges = rg.ranges(f, 0.0, 12345.5, 2.0**20)
    assert abs(Fraction(found.y) - exact) <= min(Fraction(1, 2**31), Fraction(bound.bound) + Fraction(1, 2**80))
    assert abs(Fraction(slope) / (exact / 2**20) - 1) < 2.0**-25
    assert tuple((~f)(*found)) == (0.0, 12345.5, 2.0**20)
    assert rg.run(f, 0.0, 12345.5, 2.0**20, format=ranges.fits(), precision="error").values.y


READ = {
    "y += x * U[n]": None, "y += x / B[n]": None, "y += B[n] * x": None, "y += B[n] + x": "RG0714",
} | dict.fromkeys((
    "y += W[n] + x", "y += W[n] * W[n + 1]", "y += W[n] * 0.5 * x", "t = W[n]\n    y += t * x", "g(y, W)", "v[:2] += W",
    "y += rg.select(x > 0, W[n], x)", "y += rg.select(x > W[n], 2.0, x)", "y += (W[n] + x) * W[n]", "y += h(W, x)",
    "y += x / Z[n]", "y += x * V[n]", "y += x // W[n]",
), "RG0730")  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_arrays_that_are_more_than_factors_are_reported(text: str) -> None:
    """By their place, and as numbers by themselves: also in a program where they are factors elsewhere."""
    names = {
        "W": np.array([1e-11, 3e-10]), "V": np.array([1.0, 1e-15]),
        "Z": np.array([0.0, 1e-11]), "U": np.array([1.0, 1e-9]),
        "B": np.array([6e12, 3e13]), "g": G_OF_ARRAY, "h": H_OF_ARRAY,
    }  # fmt: skip
    head = "@rg.reversible\ndef f(y: fixed, n: int, x: fixed, v: Array[fixed, 3]):\n    y += W[n] * x\n    "
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = 0.0, 0, 2.0**-32 if "B[n]" in text else 1.5, [0.0] * 3
        if READ[text] is None:
            rg.run(compiled(head + text, **names), *given)
            return
        with pytest.raises(rg.CompileError) as error:
            rg.run(compiled(head + text, **names), *given)
    (found,) = error.value.diagnostics
    assert found.code == READ[text]
    assert found.span is not None
    assert found.line
    assert "element" in found.message or READ[text] == "RG0714"


@reversible
def G_OF_ARRAY(y: fixed, a: Array[fixed, 2]) -> None:
    y += a[0]


@rg.functional
def H_OF_ARRAY(a: Array[fixed, 2], x: fixed) -> fixed:
    return a[0] + x


@pytest.mark.parametrize(
    "text", ["y += x + G", "y += rg.select(x > 0, G, x)", "y += (x + G) * G", "n += x > G", "k = G\n    n += x >= k"]
)
def test_sums_choices_and_comparisons_refuse_what_would_be_zero(text: str) -> None:
    f = compiled(f"@rg.reversible\ndef f(y: fixed, n: int, x: fixed):\n    {text}", G=6.674e-11)
    with pytest.raises(rg.CompileError, match="RG0730"):
        f(0.0, 0, 1.0)
