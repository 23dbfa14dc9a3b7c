"""Numbers of the source as words: numbers that would become 0 are refused, and numbers that lose more than half of their bits are warned of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, Format, fixed, lognum, reversible

Position = Callable[[Any], Callable[[Format], Any]]


def _static(c: Any) -> Callable[[Format], Any]:
    @reversible
    def f(y: fixed, x: fixed, k: rg.static) -> None:
        y += x + k

    return lambda w: rg.run(f, 0.0, 0.0, c, format=w)


def _captured(c: Any) -> Callable[[Format], Any]:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += x + c

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _default(c: Any) -> Callable[[Format], Any]:
    @reversible
    def inner(y: fixed, x: fixed, k: rg.static = c) -> None:
        y += x - k

    @reversible
    def f(y: fixed, x: fixed) -> None:
        inner(y, x)

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _of_a_class(c: Any) -> Callable[[Format], Any]:
    class Settings:
        rate = c

    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += rg.sqrt(x + Settings.rate + 1)

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _variable(c: Any) -> Callable[[Format], Any]:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        k = c
        y += x + k

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _argument(c: Any) -> Callable[[Format], Any]:
    @reversible
    def inner(y: fixed, x: fixed, k: fixed) -> None:
        y += x * k

    @reversible
    def f(y: fixed, x: fixed) -> None:
        inner(y, x, c)

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _array(c: Any) -> Callable[[Format], Any]:
    numbers = np.array([0.0, float(c), 0.0])

    @reversible
    def f(y: fixed, x: fixed) -> None:
        for i in range(3):
            y += x + numbers[i]

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _whole(c: Any) -> Callable[[Format], Any]:
    numbers = [0.0, float(c)]

    @reversible
    def f(y: Array[fixed, 2]) -> None:
        t = np.array(numbers)
        y += t

    return lambda w: rg.run(f, [0.0, 0.0], format=w)


def _parts(c: Any) -> Callable[[Format], Any]:
    @reversible
    def f(z: complex, v: complex) -> None:
        z += v - complex(c, c)

    return lambda w: rg.run(f, 0j, 0j, format=w)


def _functional(c: Any) -> Callable[[Format], Any]:
    number = float(c)

    @rg.functional
    def f(x: fixed) -> fixed:
        return -x + number

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


def _selected(c: Any) -> Callable[[Format], Any]:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += rg.select(x > 0, c, max(x, c))

    return lambda w: rg.run(f, 0.0, 0.0, format=w)


#: where a number may stand in a program
POSITIONS: list[Position] = [
    _static, _captured, _default, _of_a_class, _variable, _argument, _array, _whole, _parts, _functional, _selected
]  # fmt: skip
NUMBERS = [
    0.5, 3.0, -2.0**-15, 0.1, 1 / 3, 1e-3, -1e-4, 1e-6, 3e-9, 1e-9, -1e-9, 1.1 * 2.0**-33, 2.0**-33, -2.0**-33, 2.0**-34,
    6.674e-11, -1e-12, 1e-300, 5e-324,
]  # fmt: skip
FORMATS = [Format(), Format(64, 48), Format(32, 16), Format(16, 12)]


@pytest.mark.parametrize("w", FORMATS, ids=str)
@pytest.mark.parametrize("c", NUMBERS)
@pytest.mark.parametrize("position", POSITIONS, ids=lambda p: p.__name__.strip("_"))
def test_a_number_is_kept_warned_of_or_refused(position: Position, c: float, w: Format) -> None:
    """In every position, and by the same rule."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run = position(c)
        if w.vanishes(c):
            with pytest.raises(rg.CompileError) as error:
                run(w)
            (d,) = error.value.diagnostics
            assert d.code == "RG0730"
            assert str(w) in d.message
            assert f"{abs(c):.6g}" in d.message or str(abs(c)) in d.message
            assert d.span is not None
            assert d.span.file.endswith("test_constants.py")
            assert d.line
            assert d.hint is not None
            # Lognums are no values of functional programs.
            remedy = w.remedy(c).replace(", but a lognum does" if position is _functional else "\0", "")
            assert remedy in d.hint
            return
        run(w)
        run(w)
    told = [x for x in found if x.category is rg.PrecisionWarning]
    # Once a compilation, at its place.
    assert len(told) == (0 if w.keeps(c) else 1)
    for x in told:
        assert x.filename.endswith("test_constants.py")
        assert all(text in str(x.message) for text in (str(w), w.remedy(c)))
        assert f"{c:.6g}" in str(x.message) or str(c) in str(x.message)


def outcome(run: Callable[[], Any]) -> str | None:
    """The code of the error that it raises, if it raises one."""
    try:
        run()
    except rg.RetrogradError as error:
        return error.code
    return None


def code_of(run: Callable[[], Any]) -> rg.Diagnostic:
    with pytest.raises(rg.CompileError) as error:
        run()
    return error.value.diagnostics[0]


def test_the_caret_is_under_the_number() -> None:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += (x + 0.5) * (x + -6.674e-11)

    d = code_of(lambda: f(0.0, 1.0))
    assert d.code == "RG0730"
    assert d.span is not None
    assert d.line is not None
    assert d.line[d.span.column - 1 : d.span.end - 1] == "6.674e-11"


def test_numbers_that_are_folded_are_rounded_once() -> None:
    large = 1e9

    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += x * (6.674e-11 * large) + (1e-12 - 1e-12)

    @rg.functional
    def g(x: fixed) -> fixed:
        return x * (-6.674e-11 * 1e9)

    assert f(0.0, 4.0).y == 4 * float(Format().to_real(Format().from_real(6.674e-11 * 1e9)))
    assert g(4.0) == -f(0.0, 4.0).y


@given(st.sampled_from(FORMATS), st.floats(-1, 1).map(lambda x: x**31), st.sampled_from(["<", "<=", ">", ">="]))
def test_comparisons(w: Format, c: float, op: str) -> None:
    """A number in a comparison may lose bits, since no word lies between it and its own; it may not become 0."""
    made = {
        "<": lambda x: x < c, "<=": lambda x: x <= c, ">": lambda x: x > c, ">=": lambda x: x >= c,
    }  # fmt: skip

    @reversible
    def less(n: int, x: fixed) -> None:
        n += x < c

    @reversible
    def greater(n: int, x: fixed) -> None:
        n += x > c

    f = less if op == "<" else greater
    unit = 2.0**-w.frac
    for x in (-3 * unit, -unit, 0.0, unit, 2 * unit):
        if w.vanishes(c):
            d = code_of(lambda f=f, x=x: rg.run(f, 0, x, format=w))
            assert d.code == "RG0730"
            assert "compare with 0" in str(d.hint)
        else:
            own = float(w.to_real(w.from_real(c)))
            assert rg.run(f, 0, x, format=w).values.n == (x < own if f is less else x > own)
    assert made[op](c) in (True, False)


def test_an_array_has_one_report() -> None:
    vanishing = np.array([1.0, 1e-9, 1e-9, 1e-12, 1e-13])

    @reversible
    def f(y: fixed, x: fixed, numbers: rg.static) -> None:
        for i in range(len(numbers)):
            y += x + numbers[i]

    assert "1e-12, element 3 of an array," in code_of(lambda: f(0.0, 1.0, vanishing)).message
    with pytest.warns(rg.PrecisionWarning, match="1e-09, element 1 of an array") as told:
        f(0.0, 1.0, vanishing[:3])
    assert len(told) == 1
    # cos(π/2) is 6e-17 in float64.
    turn = np.array([np.cos(np.pi / 2), 1.0])
    with pytest.warns(rg.PrecisionWarning, match=r"6\.12323e-17, element 0 of an array, is 0 .* round the array first"):
        f(0.0, 1.0, turn)
    f(0.0, 1.0, turn.round(15))


def test_a_part_of_a_complex_number_may_stand_for_zero() -> None:
    @reversible
    def f(z: complex, v: complex, c: rg.static) -> None:
        z += v * c

    @reversible
    def g(z: complex, v: complex, c: rg.static) -> None:
        z += v + c

    assert f(0j, 1j, np.exp(1j * np.pi).item()).z == -1j
    assert code_of(lambda: g(0j, 1j, 1 + 1e-12j)).code == "RG0730"


def test_lognums_hold_all_numbers() -> None:
    @reversible
    def f(z: lognum) -> None:
        z *= 1e-300

    assert f(1e300).z == pytest.approx(1, rel=1e-6)


def test_warnings_come_with_a_compilation() -> None:
    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += x + 1.1e-9
        y += 2 * (x + 1.1e-9)

    with pytest.warns(rg.PrecisionWarning) as told:
        f(0.0, 1.0)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(0.0, 2.0)
        rg.grad(f)(0.0, 2.0)
        rg.error_bound(f, 0.0, 2.0)
        rg.run_batch(f, [0.0, 0.0], [1.0, 2.0])


def test_a_filter_that_shows_a_warning_once_shows_it_once() -> None:
    @reversible
    def f(y: Array[fixed, "n"], x: fixed) -> None:
        y += x - 1.2e-9

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for n in (1, 2, 3):
            f([0.0] * n, 1.0)
    assert len(told) == 1


@pytest.mark.parametrize(
    "w", [Format(8, 4), Format(16, 8), Format(16, 12), Format(32, 16), Format(32, 28), Format(64, 32)], ids=str
)
@pytest.mark.parametrize("name", [
    "acos", "asin", "cbrt", "cosh", "erf", "exp2", "expm1", "hypot", "log1p", "log2", "log10", "sinh", "tanh",
])  # fmt: skip
def test_constants_of_the_library_are_not_reported(name: str, w: Format) -> None:
    function = getattr(rg, name)

    @reversible
    def f(y: fixed, x: fixed) -> None:
        y += function(x, x) if name == "hypot" else function(x)

    # Numbers and addresses that are too great for a format are refused.
    assert outcome(rg.reversible(f.fn, format=w).compiled) in (None, "RG0714", "RG0421")


def test_specialisations_and_repeated_lowering_have_one_report() -> None:
    rates = np.array([1.0, 1.3e-9])

    @reversible
    def inner(y: Array[fixed, "n"], x: fixed) -> None:
        for i in range(2):
            y += x + rates[i]
        y += x + 1.4e-9

    @reversible
    def again(y: fixed, x: fixed, n: int) -> None:
        if n > 0:
            y += x + rates[n % 2] + 1.5e-9
            again(y, x, n - 1)

    @reversible
    def f(a: Array[fixed, 2], b: Array[fixed, 3], y: fixed, x: fixed) -> None:
        inner(a, x)
        inner(b, x)
        again(y, x, 3)

    with pytest.warns(rg.PrecisionWarning) as told:
        f([0.0] * 2, [0.0] * 3, 0.0, 1.0)
    assert len(told) == 3
