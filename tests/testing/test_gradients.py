"""check_gradient: what it accepts, what it finds, and what it says."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.examples import bessel
from retrograd.simulator.machine import Machine

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex, complex_abs, dot, logsumexp, norm
from retrograd.testing import LawBroken, check_gradient, gradients
from retrograd.testing.gradients import Slope, noise_of, slopes

X = np.array([0.5, -1.0, 2.0])
N16 = rg.Format(32, 16)


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


@reversible
def relu(y: fixed, x: fixed):
    y += rg.select(x > 0, x, 0)


@reversible
def stairs(y: fixed, x: fixed):
    y += rg.floor(x)
    y += x


@reversible
def many(y: fixed, x: fixed, n: int):
    for _ in range(n):
        y += rg.sin(x)


@reversible
def square(y: fixed, x: fixed):
    y += x * x * 1000


@reversible
def area(out: fixed, z: Complex, s: lognum):
    out += z.re * z.im
    out += fixed(s)


@reversible
def wave(y: fixed, x: fixed):
    y += rg.sin(x) * rg.exp(x)


@reversible
def several(zs: Array[Complex, 2], out: fixed, _w: fixed, n: int):
    for z in zs:
        out += _w * z.re
        out -= z.im * z.im


def message(check: Callable[[], Any]) -> tuple[str, str]:
    """(code, what is wrong) of the law that is broken."""
    with pytest.raises(LawBroken) as caught:
        check()
    return caught.value.code, caught.value.diagnostics[0].message


@pytest.fixture
def off_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """off_by(change): every gradient is changed before it is looked at."""
    right = gradients.value_and_grad

    def plant(change: Callable[[Any], Any], formats: Any = None) -> None:
        def wrong(f: rg.Reversible, *args: Any, **keywords: Any) -> Any:
            def both(*values: Any) -> Any:
                value, found = right(f, *args, **keywords)(*values)
                if formats is not None and f.format not in formats:
                    return value, found
                return value, tuple(change(g) for g in found)

            return both

        monkeypatch.setattr(gradients, "value_and_grad", wrong)

    return plant


# ---------------------------------------------------------------------- what holds


@pytest.mark.parametrize(
    ("f", "args", "expected"),
    [
        (root, (0.0, 2.0), [0.5 / math.sqrt(2)]),
        (root, (0.0, 1e-3), [0.5 / math.sqrt(1e-3)]),
        (dot, (0.0, X, 2 * X), [*(2 * X), *X]),
        (area, (0.0, Complex(2.0, 3.0), 4.0), [3.0, 2.0, 1.0]),
        (area, (0.0, Complex(2.0, 3.0), -0.01), [3.0, 2.0, 1.0]),
        (square, (0.0, 900.0), [1.8e6]),
        (many, (0.0, 0.5, 300), [300 * math.cos(0.5)]),
    ],
)
def test_differences_are_the_slopes(f: rg.Reversible, args: Any, expected: list[float]) -> None:
    report = check_gradient(f, *args)
    for element, slope in zip(report.elements, expected, strict=True):
        # The differences are those of a program whose arguments are words: 2^-33 of x off.
        size = max(1.0, abs(slope)) * 2.0**-30
        assert element.difference == pytest.approx(slope, abs=element.bound + (size if f is not root else 100 * size))
        assert element.bound < 1e-6


def test_softmax_to_eleven_places() -> None:
    report = check_gradient(logsumexp, 0.0, X)
    expected = np.exp(X) / np.exp(X).sum()
    assert [e.name for e in report.elements] == ["x[0]", "x[1]", "x[2]"]
    assert [e.difference for e in report.elements] == pytest.approx(expected, abs=1e-11)
    assert report.format == rg.Format(64, 48)
    assert report.notes == ()
    assert "x[2]: 0.78559703" in str(report)


def test_arguments_are_chosen_as_for_gradients() -> None:
    zs = [Complex(1.0, 2.0), Complex(-1.5, 0.5)]
    report = check_gradient(several, zs, 0.0, 1.5, 3, loss="out")
    assert [e.name for e in report.elements] == ["zs[0].re", "zs[0].im", "zs[1].re", "zs[1].im", "_w"]
    assert [e.gradient for e in report.elements] == [1.5, -4.0, 1.5, -1.0, -0.5]
    assert [e.name for e in check_gradient(several, zs, 0.0, 1.5, 3, loss=1, argnums="_w").elements] == ["_w"]
    assert [e.name for e in check_gradient(several, zs, 0.0, 1.5, 3, loss=-3, argnums=[2, 1]).elements] == ["_w", "out"]


@pytest.mark.parametrize(("format", "finer"), [(N16, 48), (rg.Format(64, 48), 60), (rg.Format(64, 60), 60)])
def test_other_formats(format: rg.Format, finer: int) -> None:
    report = check_gradient(wave.with_options(format=format), 0.0, 0.5)
    assert report.format == rg.Format(64, finer)
    expected = math.exp(0.5) * (math.sin(0.5) + math.cos(0.5))
    assert report.elements[0].difference == pytest.approx(expected, abs=1e-10)


def test_what_does_not_fit_a_finer_format_is_differenced_in_its_own() -> None:
    assert check_gradient(square, 0.0, 900.0).format == rg.Format(64, 32)


def test_rounding_is_told_from_faults() -> None:
    # With scale 0 the cotangents of z and of its square have 32 places: the gradient is off by 2·10⁻⁶.
    (note,) = check_gradient(bessel.bessel, 0.0, 1.0, scale=0).notes
    assert note == "`z`: 2e-06 off by rounding in Q32.32"
    assert check_gradient(bessel.bessel, 0.0, 1.0).notes == ()
    code, said = message(lambda: check_gradient(bessel.bessel, 0.0, 1.0, scale=0, tolerance=1e-7))
    assert code == "RG0902"
    assert "1.8e-06 off, where 1e-07 is allowed" in said


@pytest.mark.parametrize(("x", "codes"), [(0.0005, {"RG0906"}), (768 * 2.0**-32, {"RG0903", "RG0906"})])
def test_what_rounding_has_taken_is_not_called_a_wrong_gradient(x: float, codes: set[str]) -> None:
    # The square of 0.0005 has 11 significant bits in 32 places, that of 2^-22 has none.
    assert message(lambda: check_gradient(norm, 0.0, [x]))[0] in codes


def test_what_rounding_takes_can_be_allowed() -> None:
    check_gradient(norm, 0.0, [0.0005], tolerance=1e-3)
    with pytest.raises(LawBroken, match="RG0902"):
        check_gradient(norm, 0.0, [0.0005], tolerance=1e-6)


# ---------------------------------------------------------------------- kinks


def test_either_slope_of_a_kink_will_do(off_by: Callable[..., None]) -> None:
    (note,) = check_gradient(relu, 0.0, 0.0).notes
    assert "the gradient is that from the left (one-sided: left 0" in note
    off_by(lambda g: 1.0)
    (note,) = check_gradient(relu, 0.0, 0.0).notes
    assert "from the right" in note


def test_what_lies_between_the_slopes_is_not_called_a_wrong_gradient(off_by: Callable[..., None]) -> None:
    off_by(lambda g: 0.5)
    code, said = message(lambda: check_gradient(relu, 0.0, 0.0))
    assert code == "RG0903"
    assert "do not converge (one-sided: left 0 ± " in said
    assert "right 1 ± " in said
    assert "the gradient 0.5 is the slope of neither side" in said


@pytest.mark.parametrize(("x", "slope"), [(1e-3, 1.0), (-1e-3, 0.0), (1e-6, 1.0)])
def test_beside_a_kink_the_slope_is_certain(x: float, slope: float, off_by: Callable[..., None]) -> None:
    report = check_gradient(relu, 0.0, x)
    assert report.elements[0].difference == pytest.approx(slope, abs=1e-6)
    assert report.notes == ()
    off_by(lambda g: 0.5)
    assert message(lambda: check_gradient(relu, 0.0, x))[0] == "RG0902"


def test_at_a_jump_there_is_one_side(off_by: Callable[..., None]) -> None:
    (note,) = check_gradient(stairs, 0.0, 0.0).notes
    assert "that from the right (one-sided: left unsettled, right 1 ± " in note
    assert check_gradient(stairs, 0.0, 0.5).notes == ()
    off_by(lambda g: 2.0)
    assert message(lambda: check_gradient(stairs, 0.0, 0.0))[0] == "RG0903"


def test_at_the_border_of_a_domain_there_is_no_slope() -> None:
    code, said = message(lambda: check_gradient(root, 0.0, 2.0**-32))
    assert code == "RG0903"
    assert "left none" in said


def test_a_pole_nearer_than_every_step_is_seen() -> None:
    @reversible
    def pole(y: fixed, x: fixed):
        y += 2.0**-28 / x

    code, said = message(lambda: check_gradient(pole, 0.0, 2.0**-29))
    assert code == "RG0903"
    assert "left unsettled, right " in said


def test_a_structure_smaller_than_most_steps_is_seen(off_by: Callable[..., None]) -> None:
    # |z| beside 0: like a kink from afar, where the slope is 0 from both sides together; like a parabola from near.
    z = Complex(2.0**-32, 1494 * 2.0**-32)
    off_by(lambda g: Complex(0.0, g.im))
    code, said = message(lambda: check_gradient(complex_abs, 0.0, z))
    assert code == "RG0903"
    assert "by `a.re` do not converge" in said


# ---------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (root, (0.0, 2.0)), (logsumexp, (0.0, X)), (dot, (0.0, X, X)), (many, (0.0, 0.5, 300)), (area, (0.0, Complex(2.0, 3.0), 4.0)),
        (wave.with_options(format=N16), (0.0, 0.5)), (wave.with_options(format=rg.Format(64, 60)), (0.0, 0.5)),
    ],
)  # fmt: skip
def test_a_gradient_off_by_a_millionth_is_found(f: rg.Reversible, args: Any, off_by: Callable[..., None]) -> None:
    check_gradient(f, *args)

    def change(g: Any) -> Any:
        return Complex(g.re, g.im + 1e-6) if isinstance(g, Complex) else g + 1e-6

    off_by(change)
    code, said = message(lambda: check_gradient(f, *args))
    assert code == "RG0902"
    assert "and differences say" in said
    assert any(f"1{digit}e-06 off" in said for digit in ("", ".0"))


def test_the_message_names_the_element_and_the_function(off_by: Callable[..., None]) -> None:
    off_by(lambda g: g + np.array([0, 0, 1e-3]))
    with pytest.raises(LawBroken) as caught:
        check_gradient(logsumexp, 0.0, X)
    assert "the gradient of `logsumexp` by `x[2]` is 0.78659" in str(caught.value)
    assert "def logsumexp(" in str(caught.value)


def test_a_fault_in_the_programs_own_format_alone_is_found(off_by: Callable[..., None]) -> None:
    off_by(lambda g: g * 1.001, formats=(None,))
    code, said = message(lambda: check_gradient(root, 0.0, 2.0))
    assert code == "RG0902"
    assert "; in Q16.48 it is 0.35355339" in said


def test_a_wrong_sign_and_a_lost_gradient(off_by: Callable[..., None]) -> None:
    off_by(lambda g: -g)
    assert message(lambda: check_gradient(root, 0.0, 2.0))[0] == "RG0902"
    off_by(lambda g: 0 * g)
    assert message(lambda: check_gradient(square, 0.0, 900.0))[0] == "RG0902"


def test_a_value_that_is_not_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    right = gradients.value_and_grad

    def wrong(*args: Any, **keywords: Any) -> Any:
        both = right(*args, **keywords)

        def shifted(*values: Any) -> Any:
            value, found = both(*values)
            return value + 2.0**-32, found

        return shifted

    monkeypatch.setattr(gradients, "value_and_grad", wrong)
    code, said = message(lambda: check_gradient(root, 0.0, 2.0))
    assert code == "RG0902"
    assert "value_and_grad says" in said


def test_inputs_come_back_from_the_run_with_cotangents(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Machine.turn

    def faulty(machine: Machine) -> None:
        turn(machine)
        machine.memory[2] ^= 1

    monkeypatch.setattr(Machine, "turn", faulty)
    code, said = message(lambda: check_gradient(dot, 0.0, X, X))
    assert code == "RG0901"
    assert said.startswith("after `dot` and back with cotangents: ")
    assert "`x[1]` was -1.0 (0xffffffff00000000), and is" in said


def test_tolerance_and_step() -> None:
    assert check_gradient(root, 0.0, 2.0, tolerance=1e-8, step=2.0**-8).notes == ()
    code, said = message(lambda: check_gradient(root, 0.0, 1e-3, tolerance=1e-10))
    assert code == "RG0902"
    assert "where 1e-10 is allowed" in said


@pytest.mark.parametrize(
    ("f", "args", "options", "said"),
    [
        (~root, (0.0, 2.0), {}, "`~root` is an inverse"),
        (root, (0.0, 2.0), {"argnums": "z"}, "no argument 'z'"),
        (root, (0.0, 2.0), {"argnums": 7}, "no argument 7"),
        (many, (0.0, 0.5, 3), {"argnums": "n"}, "no derivative"),
        (many, (0.0, 0.5, 3), {"loss": "n"}, "a loss is one fixed number"),
    ],
)
def test_what_has_no_gradient_is_refused(f: Any, args: Any, options: Any, said: str) -> None:
    with pytest.raises(rg.InputError) as caught:
        check_gradient(f, *args, **options)
    assert said in str(caught.value)


def test_nothing_to_compare_is_no_success() -> None:
    @reversible
    def f(y: fixed, n: int):
        y += n

    with pytest.raises(rg.InputError, match="no argument with a derivative besides the loss"):
        check_gradient(f, 0.0, 3)


# ---------------------------------------------------------------------- the differences themselves


def rounded(function: Callable[[float], float], frac: int, seed: int | None = None) -> Callable[[int], int]:
    """The function at 1 + k·2^-frac as words, rounded with some noise."""
    rng = np.random.default_rng(seed)
    noise = {} if seed is None else {k: int(n) for k, n in enumerate(rng.integers(-8, 9, 1 << 12))}

    def line(k: int) -> int:
        return round(function(1 + k * 2.0**-frac) * 2**frac) + noise.get(k % (1 << 12) if noise else 0, 0)

    return line


@pytest.mark.parametrize("seed", [None, *range(5)])
@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (math.exp, math.e),
        (lambda x: x**7, 7.0),
        (lambda x: 1 / x, -1.0),
        (lambda x: math.sin(20 * x), 20 * math.cos(20)),
    ],
)
def test_bounds_are_bounds(function: Callable[[float], float], slope: float, seed: int | None) -> None:
    frac = 28
    line = rounded(function, frac, seed)
    noise = noise_of([line(k) for k in range(7)])
    assert 0.5 <= noise < 20
    found = slopes(line, line(0), [1 << (frac - k) for k in range(5, 19)], noise, 0.0)
    for side in (found.central, found.left, found.right):
        assert abs(side.value - slope) <= side.bound
        assert side.bound < 1e-3 * max(1.0, abs(slope)) * (1 if seed is None else 10)
    assert found.smooth()


def test_a_polynomial_is_no_noise_and_noise_is_seen() -> None:
    assert noise_of([5 * k * k + k for k in range(7)]) == 0.5
    assert noise_of([0, 40, -40, 40, -40, 40, 0]) > 20
    assert math.isinf(noise_of([1, 2, None, 4]))
    assert Slope(2.0, 1.0).scaled(-3.0) == Slope(-6.0, 3.0)
