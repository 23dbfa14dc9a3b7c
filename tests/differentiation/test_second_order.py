"""jvp, hvp and hessian, against closed forms, high precision, first derivatives and each other."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.examples import bessel
from retrograd.simulator.engines.batch import loops

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.derivatives import _requests, _tangents
from retrograd.library import Complex, Vector3, logsumexp


@reversible
def quadratic(y: fixed, x: fixed, z: fixed):
    y += 2 * x * x + 3 * x * z + 4 * z * z


@reversible
def mixed(y: fixed, x: fixed, n: int, s: lognum):
    y += x * x * n * fixed(s)


@reversible
def turn(a: Array[fixed, 3], b: Array[fixed, 3], angle: fixed):
    """Every argument changes, and each depends on all before it."""
    rg.rot(a[0], a[1], angle)
    for i in range(3):
        b[i] += a[i] * a[(i + 1) % 3]
    angle += b[0] * b[1]
    a[2] += rg.sin(b[2])


POINT = np.array([0.5, -1.0, 2.0, 0.25, 1.5, -0.75, 0.6])


def parts(v: Any) -> tuple[Any, Any, float]:
    return np.asarray(v[:3], dtype=float), np.asarray(v[3:6], dtype=float), float(v[6])


def exactly(x: float) -> Any:
    """The number that the machine is given for x."""
    return mpmath.mpf(float(fixed.to_reals(fixed.to_words(x))))


# ---------------------------------------------------------------------- golden values


def test_golden_of_a_quadratic_is_exact() -> None:
    assert rg.hvp(quadratic, ("x", "z"))((0.0, 3.0, 4.0), (7.0, 8.0)) == (52.0, 85.0)
    assert rg.hessian(quadratic, ("x", "z"))(0.0, 3.0, 4.0) == ((4.0, 3.0), (3.0, 8.0))
    values, _tangents = rg.jvp(quadratic, (0.0, 3.0, 4.0), {"x": 7.0, "z": 8.0})
    assert values == quadratic(0.0, 3.0, 4.0)
    assert _tangents == ((12 + 12) * 7.0 + (9 + 32) * 8.0, 7.0, 8.0)


@pytest.mark.parametrize(
    # The terms of `bessel` are held 2^16 times as large, and a cotangent of theirs is as many times smaller: it needs the scale.
    # With `bessel_log` the scale changes nothing.
    ("f", "scale", "error"),
    [(bessel.bessel, 14, 3e-9), (bessel.bessel, 20, 3e-10), (bessel.bessel_log, 0, 1e-8)],
)
def test_golden_of_bessel(f: rg.Reversible, scale: int, error: float) -> None:
    assert rg.hessian(f, "z", scale=scale)(0.0, 1.0) == pytest.approx(0.13446683853, rel=0, abs=error)
    assert rg.hvp(f, "z", scale=scale)((0.0, 1.0), 2.0) == pytest.approx(2 * 0.13446683853, rel=0, abs=2 * error)
    derivative = rg.jvp(f, (0.0, 1.0), {"z": 1.0}, scale=min(scale, 8))[1].out
    assert derivative == pytest.approx(0.2102436158518, rel=0, abs=1e-8)


def test_softmax_is_the_gradient_of_logsumexp_and_its_jacobian_the_hessian() -> None:
    x = np.array([0.5, -1.0, 2.0])
    p = np.exp(x) / np.exp(x).sum()
    found = rg.hessian(logsumexp, "x")(0.0, x)
    assert found == pytest.approx(np.diag(p) - np.outer(p, p), abs=2e-9)


# ---------------------------------------------------------------------- elementary functions


@reversible
def waves(y: fixed, x: fixed, z: fixed):
    y += rg.exp(x * z) + rg.sin(x) * rg.cos(z)


@reversible
def logarithm(y: fixed, x: fixed, z: fixed):
    y += rg.log(x + z * z) * z


@reversible
def angle_of(y: fixed, x: fixed, z: fixed):
    y += rg.atan2(x, z)


@reversible
def root(y: fixed, x: fixed, z: fixed):
    y += rg.sqrt(x * x + x * z)


@reversible
def quotient(y: fixed, x: fixed, z: fixed):
    y += x / (z * z + x)


@reversible
def tangent(y: fixed, x: fixed, z: fixed):
    y += rg.tan(x) * rg.atan(z)


@reversible
def lognums(y: fixed, x: fixed, z: fixed):
    with rg.routine() as r:
        p = lognum(x)
        p *= lognum(x) * lognum(z)
        p /= lognum(x) + lognum(z)
    y += fixed(p - lognum(x))
    ~r


@reversible
def powers(y: fixed, x: fixed, z: fixed):
    y += x**3 * z**2 - x * z**4


@reversible
def rotated(y: fixed, x: fixed, z: fixed):
    with rg.routine() as r:
        a, b = x * z, z
        rg.rot(a, b, x)
    y += a * a * b
    ~r


def rotated_exactly(x: Any, z: Any) -> Any:
    c, s = mpmath.cos(x), mpmath.sin(x)
    return (c * x * z - s * z) ** 2 * (s * x * z + c * z)


ELEMENTARY = [
    (waves, lambda x, z: mpmath.exp(x * z) + mpmath.sin(x) * mpmath.cos(z)),
    (logarithm, lambda x, z: mpmath.log(x + z * z) * z),
    (angle_of, mpmath.atan2),
    (root, lambda x, z: mpmath.sqrt(x * x + x * z)),
    (quotient, lambda x, z: x / (z * z + x)),
    (tangent, lambda x, z: mpmath.tan(x) * mpmath.atan(z)),
    (lognums, lambda x, z: x * x * z / (x + z) - x),
    (powers, lambda x, z: x**3 * z**2 - x * z**4),
    (rotated, rotated_exactly),
]


@pytest.mark.parametrize(("f", "exact"), ELEMENTARY, ids=lambda p: getattr(p, "__name__", ""))
@pytest.mark.parametrize("point", [(0.75, 1.25), (1.1, 0.3), (0.25, 2.0)])
def test_hessians_against_high_precision(f: rg.Reversible, exact: Any, point: tuple[float, float]) -> None:
    (xx, xz), (zx, zz) = rg.hessian(f, ("x", "z"))(0.0, *point)
    with mpmath.workdps(40):
        x, z = map(exactly, point)
        expected = [float(mpmath.diff(exact, (x, z), n)) for n in ((2, 0), (1, 1), (0, 2))]
    # Worst found: 3e-9 of lognums, whose own steps are 1.6e-10 of them.
    assert [xx, xz, zz] == pytest.approx(expected, rel=0, abs=1e-8)
    assert zx == pytest.approx(xz, rel=0, abs=5e-9)


@pytest.mark.parametrize(("f", "exact"), ELEMENTARY, ids=lambda p: getattr(p, "__name__", ""))
def test_tangents_against_high_precision(f: rg.Reversible, exact: Any) -> None:
    with mpmath.workdps(40):
        x, z = exactly(0.75), exactly(1.25)
        expected = float(2 * mpmath.diff(exact, (x, z), (1, 0)) - mpmath.diff(exact, (x, z), (0, 1)))
    assert rg.jvp(f, (0.0, 0.75, 1.25), (None, 2.0, -1.0))[1].y == pytest.approx(expected, rel=0, abs=1e-8)


@settings(max_examples=20)
@given(st.lists(st.integers(-4, 4), min_size=9, max_size=9), st.lists(st.integers(-8, 8), min_size=6, max_size=6))
def test_quadratic_forms_are_exact_symmetric_and_linear_in_the_vector(a: list[int], xv: list[int]) -> None:
    m, x, v = np.array(a, dtype=float).reshape(3, 3), np.array(xv[:3]) / 4, np.array(xv[3:]) / 2
    hessian = rg.hessian(form, "x")(0.0, x, m)
    assert hessian.tolist() == (m + m.T).tolist()
    assert rg.hvp(form, "x")((0.0, x, m), v).tolist() == ((m + m.T) @ v).tolist()
    # y = xᵀMx: by x and M the second derivatives are ∂(Mx + Mᵀx)ᵢ/∂Mⱼₖ.
    (xx, xm), (mx, mm) = rg.hessian(form, ("x", "m"))(0.0, x, m)
    assert xx.tolist() == hessian.tolist()
    expected = np.einsum("ij,k->ijk", np.eye(3), x) + np.einsum("ik,j->ijk", np.eye(3), x)
    assert xm.tolist() == expected.tolist()
    assert mx.tolist() == np.moveaxis(expected, 0, -1).tolist()
    assert mm.shape == (3, 3, 3, 3)
    assert not mm.any()


@reversible
def form(y: fixed, x: Array[fixed, 3], m: Array[fixed, 3, 3]):
    for i in range(3):
        for j in range(3):
            y += x[i] * m[i, j] * x[j]


# ---------------------------------------------------------------------- forward and backward agree


@settings(max_examples=15)
@given(st.lists(st.integers(-64, 64), min_size=14, max_size=14))
def test_jvp_is_the_adjoint_of_vjp(numbers: list[int]) -> None:
    xdot, ybar = np.array(numbers[:7]) / 32, np.array(numbers[7:]) / 32
    values, _tangents = rg.jvp(turn, parts(POINT), parts(xdot))
    same, pullback = rg.vjp(turn, *parts(POINT))
    assert all(np.array_equal(x, y) for x, y in zip(values, same, strict=True))
    # ⟨ȳ, J ẋ⟩ = ⟨Jᵀ ȳ, ẋ⟩
    assert ybar @ np.hstack(_tangents) == pytest.approx(np.hstack(pullback(parts(ybar))) @ xdot, abs=1e-7)


def test_tangents_of_an_inverse_are_the_way_back() -> None:
    values, _tangents = rg.jvp(turn, parts(POINT), parts(np.arange(7.0) - 3))
    before, back = rg.jvp(~turn, values, _tangents)
    assert np.hstack(before) == pytest.approx(POINT, abs=2.0**-32)
    assert np.hstack(back) == pytest.approx(np.arange(7.0) - 3, abs=1e-7)


def test_hessians_of_inverses() -> None:
    # ~f takes away what f adds.
    assert rg.hessian(~quadratic, ("x", "z"))(0.0, 3.0, 4.0) == ((-4.0, -3.0), (-3.0, -8.0))
    assert rg.hvp(~quadratic, "x")((118.0, 3.0, 4.0), 2.0) == -8.0


@reversible
def halving(y: fixed, x: fixed):
    """A loop that runs as long as the data say."""
    with rg.routine() as r:
        k = 0
        p = fixed(0)
        p += x * x
        while (p > 0.125, k > 0):
            q = p / 2
            p -= q
            k += 1
            rg.free(q, p)
    y += p * x * k
    ~r


@reversible
def descending(y: fixed, x: fixed, n: int):
    """Recursion, each call with an array of its own."""
    t = rg.zeros(2)
    with rg.routine() as r:
        t[0] += x
        t[1] += t[0] * x
    if n > 0:
        y += t[1] * n
        descending(y, t[1], n - 1)
    ~r


@reversible
def uncalling(y: fixed, x: fixed):
    """y += x³, by a call and an uncall with another argument."""
    t = fixed(0)
    cube(t, x)
    y += t * 2
    ~cube(t, x)
    ~cube(y, x)


@reversible
def cube(y: fixed, x: fixed):
    y += x * x * x


@reversible
def branching(y: fixed, x: fixed):
    if x > 1:
        y += x * x
    elif x > -1:
        y += x * x * x
    else:
        y -= rg.exp(x)


@reversible
def changing(y: fixed, x: fixed):
    """The argument itself changes: the derivative is by what it was."""
    x += 1
    y += x * x * x
    rg.neg(x)
    y += x


@reversible
def pushing(y: fixed, x: fixed):
    """3x², by way of a stack."""
    s = rg.stack(fixed, 4)
    with rg.routine() as r:
        t = fixed(0)
        t += x * x
        rg.push(s, t)
        t += x * 3
        rg.push(s, t)
        rg.pop(s, t)
    y += t * x
    ~r


@reversible
def sorting(y: fixed, v: Array[fixed, 3]):
    """What is exchanged takes its tangent along."""
    for i in range(2):
        if (v[i] > v[i + 1], v[i] < v[i + 1]):
            v[i], v[i + 1] = v[i + 1], v[i]
    y += v[0] * v[0] * v[2]


PROGRAMS = [
    # x² = 0.5625 is halved three times.
    (halving, (0.0, 0.75), 3 * 3 * 0.75**2 / 8, 6 * 3 * 0.75 / 8),
    # 3x² + 2x⁴ + x⁸
    (descending, (0.0, 0.75, 3), 6 * 0.75 + 8 * 0.75**3 + 8 * 0.75**7, 6 + 24 * 0.75**2 + 56 * 0.75**6),
    (uncalling, (0.0, 0.75), 3 * 0.75**2, 6 * 0.75),
    (branching, (0.0, 1.5), 3.0, 2.0),
    (branching, (0.0, 0.75), 3 * 0.75**2, 6 * 0.75),
    (branching, (0.0, -2.0), -math.exp(-2), -math.exp(-2)),
    (changing, (0.0, 0.75), 3 * 1.75**2 - 1, 6 * 1.75),
    (pushing, (0.0, 0.75), 6 * 0.75, 6.0),
]


@pytest.mark.parametrize(
    ("f", "arguments", "first", "second"), PROGRAMS, ids=lambda p: getattr(p, "__name__", None) or ""
)
@pytest.mark.parametrize("level", [0, 1])
def test_programs_of_every_kind(
    f: rg.Reversible, arguments: tuple[Any, ...], first: float, second: float, level: int
) -> None:
    compiled = f.with_options(level=level)
    assert rg.jvp(compiled, arguments, {"x": 1.0})[1].y == pytest.approx(first, abs=5e-9)
    assert rg.grad(compiled, "x")(*arguments) == pytest.approx(first, abs=5e-9)
    assert rg.hessian(compiled, "x")(*arguments) == pytest.approx(second, abs=2e-8)


def test_an_exchange_takes_tangents_along() -> None:
    values, _tangents = rg.jvp(sorting, (0.0, [3.0, 1.0, 2.0]), {"v": [1.0, 10.0, 100.0]})
    assert values.v.tolist() == [1.0, 2.0, 3.0]
    assert _tangents.v.tolist() == [10.0, 100.0, 1.0]
    assert _tangents.y == 2 * 1 * 3 * 10 + 1
    expected = np.zeros((3, 3))
    expected[1, 1], expected[0, 1], expected[1, 0] = 6, 2, 2  # v[1]²·v[0] of what was given
    assert rg.hessian(sorting, "v")(0.0, [3.0, 1.0, 2.0]).tolist() == expected.tolist()


@pytest.mark.parametrize(("x", "slope"), [(2.0, 1.0), (-2.0, -1.0), (0.0, 1.0)])
def test_at_a_kink_tangents_go_the_way_of_gradients(x: float, slope: float) -> None:
    @reversible
    def kinked(y: fixed, x: fixed, z: fixed):
        y += abs(x) + max(x, z) * 0 + rg.select(x > 0, x * x, 0)

    smooth = 2 * x if x > 0 else 0.0
    assert rg.jvp(kinked, (0.0, x, 0.0), {"x": 1.0})[1].y == slope + smooth
    assert rg.grad(kinked, "x")(0.0, x, 0.0) == slope + smooth
    if x:
        assert rg.hessian(kinked, "x")(0.0, x, 0.0) == (2.0 if x > 0 else 0.0)
        return
    with pytest.raises(rg.ProgramTrap, match="abs has no second derivative at 0"):
        rg.hessian(kinked, "x")(0.0, x, 0.0)


def test_at_a_tie_the_second_argument_moves() -> None:
    @reversible
    def larger(y: fixed, x: fixed, z: fixed):
        y += max(x, z)

    for dx, dz in ((1.0, 0.0), (0.0, 1.0)):
        assert rg.jvp(larger, (0.0, 1.0, 1.0), {"x": dx, "z": dz})[1].y == dz
    assert rg.grad(larger)(0.0, 1.0, 1.0) == (0.0, 1.0)


def test_what_is_freed_by_chance_drops_its_tangent() -> None:
    @reversible
    def lucky(y: fixed, x: fixed):
        t = fixed(0)
        t += x
        y += t * t
        t -= 3.0  # which is zero for x = 3 only

    values, _tangents = rg.jvp(lucky, (0.0, 3.0), {"x": 1.0})
    assert (values.y, _tangents.y) == (9.0, 6.0)
    # Beside x = 3 there is no function to be differentiated again.
    with pytest.raises(rg.ProgramTrap, match=r"`t` holds 1\.0"):
        lucky(0.0, 4.0)


# ---------------------------------------------------------------------- arguments of every form


def test_however_the_columns_of_hessians_are_cut_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of one column and of some, as one; each is the product with a unit vector."""

    @reversible
    def f(y: fixed, x: Array[fixed, 3], s: lognum, z: Array[fixed, 2]):
        y += x[0] * x[1] * z[0] + fixed(s) * x[2] + z[1] * z[1]

    args = (0.0, np.array([1.5, -2.0, 0.5]), 3.0, np.array([0.25, 4.0]))
    names = ("x", "s", "z")
    whole = rg.hessian(f, names)(*args)
    for piece in (1, 7, 12, 1 << 20):
        monkeypatch.setattr(_tangents, "PIECE", piece)
        assert all(
            np.array_equal(a, b)
            for row, other in zip(rg.hessian(f, names)(*args), whole, strict=True)
            for a, b in zip(row, other, strict=True)
        )
    products = rg.hvp(f, names)
    for k in range(3):
        by_x = products(args, (np.eye(3)[k], None, None))
        assert all(np.array_equal(by_x[i], np.asarray(whole[i][0])[..., k]) for i in range(3))


def test_programs_with_several_tangents_are_short_enough_for_lanes() -> None:
    assert _requests.LONGEST <= loops.LONGEST_FOR_LANES


@pytest.mark.long
def test_matrices() -> None:
    @reversible
    def entropy(y: fixed, a: Array[fixed, "n", "m"], t: fixed):
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                y += a[i, j] * rg.log(a[i, j]) * t

    a = np.array([[0.5, 1.0, 2.0], [4.0, 0.25, 1.5]])
    v = np.arange(6.0).reshape(2, 3) - 2
    by_a, by_t = rg.hvp(entropy, ("a", "t"))((0.0, a, 3.0), (v, 0.5))
    assert by_a == pytest.approx(3 * v / a + 0.5 * (np.log(a) + 1), abs=1e-8)
    assert by_t == pytest.approx(np.sum(v * (np.log(a) + 1)), abs=1e-8)
    whole = rg.hessian(entropy)(0.0, a, 3.0)
    assert whole._fields == whole.a._fields == ("a", "t")
    assert whole.a.a.reshape(6, 6) == pytest.approx(np.diag(3 / a.ravel()), abs=1e-8)
    assert whole.a.t == pytest.approx(np.log(a) + 1, abs=1e-8)
    assert whole.t.a == pytest.approx(np.log(a) + 1, abs=1e-8)
    assert whole.t.t == 0.0
    _tangents = rg.jvp(entropy, (0.0, a, 3.0), {"a": v})[1]
    assert _tangents.y == pytest.approx(3 * by_t, abs=1e-7)
    assert _tangents.a.tolist() == v.tolist()


def test_several_arguments_by_position_by_name_and_none() -> None:
    at = (0.0, 3.0, 4.0)
    by_name = rg.hvp(quadratic)(at, {"x": 7.0, "z": 8.0})
    assert by_name._fields == ("x", "z")
    assert by_name == (52.0, 85.0)
    assert rg.hvp(quadratic, (2, "x"))(at, [8, 7]) == (85.0, 52.0)
    assert rg.hvp(quadratic, ("x", "z"))(at, (None, 1.0)) == (3.0, 8.0)
    assert rg.hvp(quadratic)({"y": 0.0, "z": 4.0, "x": 3.0}, {"z": 1.0}) == (3.0, 8.0)
    assert rg.hvp(quadratic, -1)(at, 1.0) == 8.0
    assert rg.hvp(quadratic, "x")(at, None) == 0.0
    assert rg.hvp(quadratic)(vectors=(7.0, 8.0), args=at) == (52.0, 85.0)
    assert rg.hessian(quadratic, "z")(0.0, z=4.0, x=3.0) == 8.0
    assert rg.hessian(quadratic, ("y", "x"))(*at) == ((0.0, 0.0), (0.0, 4.0))
    assert rg.hessian(quadratic, "x", loss="z")(*at) == 0.0
    # Each asks for another program of one and the same function.
    assert [rg.hessian(quadratic, which)(*at) for which in ("x", ("z",), "x")] == [4.0, ((8.0,),), 4.0]


def test_integers_and_constants_are_let_be() -> None:
    found = rg.hessian(mixed)(0.0, 3.0, 2, 4.0)
    assert found._fields == ("x", "s")
    assert np.array(found) == pytest.approx(np.array([[2 * 2 * 4, 2 * 2 * 3], [2 * 2 * 3, 0]]), abs=1e-7)
    values, _tangents = rg.jvp(mixed, (0.0, 3.0, 2, 4.0), (None, 1.0, None, None))
    assert values.n == 2
    assert _tangents._fields == ("y", "x", "s")


@pytest.mark.parametrize("s", [4.0, -4.0, 0.125, 300.0])
def test_lognums_are_differentiated_by_themselves(s: float) -> None:
    # The machine's shadows are those of logarithms: d²/ds² is not their second derivative.
    @reversible
    def f(y: fixed, s: lognum, x: lognum):
        y += fixed(s * s * x / lognum(256))
        s *= x

    given_s = f(0.0, s, 2.0).s / 2
    (ss, sx), (xs, xx) = rg.hessian(f, ("s", "x"))(0.0, s, 2.0)
    # Inside, the derivative by ln|s| is rounded to 2^-32, and divided by s² here.
    assert ss == pytest.approx(2 * 2 / 256, rel=0, abs=1e-8 + 2.0**-30 / s**2)
    assert [sx, xs] == pytest.approx([2 * given_s / 256] * 2, rel=1e-6, abs=2.0**-30 / abs(s))
    assert xx == pytest.approx(0.0, abs=1e-6)
    values, _tangents = rg.jvp(f, (0.0, s, 2.0), {"s": 0.5, "x": 0.25})
    assert _tangents.s == pytest.approx(0.5 * 2 + 0.25 * given_s, rel=1e-6)
    assert _tangents.y == pytest.approx(2 * given_s * 0.5 / 256 * 2 + given_s**2 / 256 * 0.25, rel=1e-6)
    assert values.s == pytest.approx(2 * s, rel=1e-8)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_a_lognum_beyond_floats_has_a_tangent_all_the_same(size: float) -> None:
    @reversible
    def small(s: lognum, t: lognum, x: fixed):
        s *= t
        x += 1

    values, _tangents = rg.jvp(small, (size, size, 0.0), {"x": 2.0})
    assert values.s in (0.0, math.inf)
    # What is zero inside is zero, though the number it belongs to has no float.
    assert _tangents == (0.0, 0.0, 2.0)


@rg.functional
def weighed(items: list[fixed]):
    match items:
        case [x, *_]:
            return x * x
        case []:
            return 0.0


@rg.struct
class Mixed:
    a: fixed
    n: int
    s: lognum
    w: Array[fixed, 2]


@reversible
def of_a_struct(y: fixed, p: Mixed, zs: Array[complex, 2], q: fixed):
    y += p.a * p.w[0] * p.w[0] * p.n + fixed(p.s) * p.w[1] * zs[1].imag + zs[0].real * zs[1].real * q


def test_hessians_by_structs_and_complex_numbers():
    """A struct is an axis of its words, with 0 for ints, as in a Jacobian; so is a complex number, of two words."""
    args = 0.0, Mixed(2.0, 3, 1.5, [0.5, 4.0]), np.array([1 + 2j, 3 - 1j]), 0.25
    h = rg.hessian(of_a_struct)(*args)
    assert h.p.p.shape == (5, 5)
    wanted = np.zeros((5, 5))  # a, n, s, w[0], w[1]
    wanted[0, 3] = wanted[3, 0] = 2 * 0.5 * 3
    wanted[3, 3] = 2 * 2.0 * 3
    wanted[2, 4] = wanted[4, 2] = -1.0
    np.testing.assert_allclose(h.p.p, wanted, rtol=0, atol=1e-7)
    assert h.p.zs.shape == (5, 2, 2)
    assert h.p.zs[2, 1, 1] == pytest.approx(4.0, abs=1e-7)
    assert h.p.zs[4, 1, 1] == pytest.approx(1.5, abs=1e-7)
    assert np.count_nonzero(abs(h.p.zs) > 1e-7) == 2
    np.testing.assert_allclose(h.zs.p, np.moveaxis(h.p.zs, 0, -1), rtol=0, atol=1e-7)
    assert h.zs.zs[0, 0, 1, 0] == h.zs.zs[1, 0, 0, 0] == pytest.approx(0.25, abs=1e-8)
    assert h.zs.q.tolist() == [[3.0, 0.0], [1.0, 0.0]]
    alone = rg.hessian(of_a_struct, "zs")(*args)
    assert np.array_equal(alone, h.zs.zs)
    product = rg.hvp(of_a_struct, "p")(args, Mixed(1.0, 0, 0.0, [0.0, 0.0]))
    assert [product.a, product.n, product.s, *product.w] == pytest.approx(h.p.p[0].tolist(), abs=1e-7)


def test_a_hessian_by_an_array_of_structs():
    h = rg.hessian(product)(0.0, 1j, np.array([2 + 3j, 5 - 1j]))
    assert h.z.z.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert h.z.w[0].tolist() == [[3.0, 2.0], [-1.0, 5.0]]
    assert h.w.w.shape == (2, 2, 2, 2)
    assert not h.w.w.any()


@reversible
def product(y: fixed, z: Complex, w: Array[Complex, "n"]):
    """|z|² + Re z · Σ Re w · Im w"""
    with rg.routine() as r:
        p = z.re * z.re + z.im * z.im
        for i in range(len(w)):
            p += w[i].re * w[i].im * z.re
    y += p
    ~r


def test_complex_numbers_and_arrays_of_them() -> None:
    at = (0.0, 1 + 2j, np.array([1j, 2 + 1j]))
    values, _tangents = rg.jvp(product, at, {"z": 1j, "w": [1 + 0j, None]})
    assert _tangents.z == Complex(0.0, 1.0)
    assert [complex(v) for v in _tangents.w] == [1, 0]
    assert _tangents.y == 2 * 2 + 1
    assert values.y == product(*at).y
    found = rg.hvp(product)(at, {"z": 1 + 1j, "w": [{"re": 2.0}, Complex(0.0, 3.0)]})
    assert found.z == Complex(2.0 + 2 * 1 + 2 * 3, 2.0)
    # ∂²/∂re∂im of each is z.re, and by z.re the other factor.
    assert [complex(v) for v in found.w] == [1 + 2j, (3 + 1) + 2j]
    assert rg.hvp(product, "z")(at, Complex(1.0, 0.0)) == Complex(2.0, 0.0)


def test_vectors_of_structs() -> None:
    @reversible
    def volume(y: fixed, v: Vector3):
        y += v.x * v.y * v.z

    assert rg.hvp(volume, "v")((0.0, Vector3(1.0, 2.0, 3.0)), {"x": 1.0}) == Vector3(0.0, 3.0, 2.0)
    assert rg.jvp(volume, (0.0, Vector3(1.0, 2.0, 3.0)), {"v": Vector3(0.0, 0.0, 1.0)})[1].y == 2.0


def test_an_array_of_no_elements() -> None:
    assert rg.hessian(logsum, "v")(0.0, np.zeros(0)).shape == (0, 0)
    assert rg.hvp(logsum, "v")((0.0, np.zeros(0)), np.zeros(0)).shape == (0,)


@reversible
def logsum(y: fixed, v: Array[fixed, "n"]):
    for x in v:
        y += rg.log(x)


def test_the_scale_gives_more_places_of_small_derivatives() -> None:
    @reversible
    def faint(y: fixed, x: fixed):
        y += x * x / 60000 / 60000

    exact = 2 / 60000**2
    assert rg.hessian(faint, "x", scale=0)(0.0, 1.0) != pytest.approx(exact, rel=1e-2)
    assert rg.hessian(faint, "x", scale=28)(0.0, 1.0) == pytest.approx(exact, rel=1e-6, abs=0)
    assert rg.hvp(faint, "x", scale=28)((0.0, 1.0), 4.0) == pytest.approx(4 * exact, rel=1e-6, abs=0)
    assert rg.jvp(faint, (0.0, 1.0), {"x": 1.0}, scale=28)[1] == (pytest.approx(exact, rel=1e-6, abs=0), 1.0)


def test_other_formats() -> None:
    narrow = quadratic.with_options(format=rg.Format(32, 16))
    assert rg.hessian(narrow, ("x", "z"))(0.0, 3.0, 4.0) == ((4.0, 3.0), (3.0, 8.0))
    assert rg.jvp(narrow, (0.0, 3.0, 4.0), {"x": 1.0})[1].y == 24.0
    assert rg.hessian(angle_of.with_options(format=rg.Format(32, 16)), "x")(0.0, 1.0, 2.0) == pytest.approx(
        -0.16, abs=2e-4
    )


SEEN: list[float] = []


def test_the_host_is_shown_what_a_jvp_runs() -> None:
    @reversible
    def shown(y: fixed, x: fixed):
        y += x * x
        with rg.external():
            SEEN.append(y)

    SEEN.clear()
    assert rg.jvp(shown, (0.0, 3.0), {"x": 1.0})[1].y == 6.0
    assert SEEN == [9.0]


# ---------------------------------------------------------------------- refusals

AT = (0.0, 3.0, 2, 4.0)


def no_function(x: float) -> float:
    return x


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: rg.jvp(no_function, (1.0,), (1.0,)), "`no_function` is no reversible function"),
        (lambda: rg.hvp(no_function), "`no_function` is no reversible function"),
        (lambda: rg.hessian(3), "`3` is no reversible function"),
        # tangents
        (lambda: rg.jvp(mixed, AT, {"n": 1.0}), "`n` of `mixed` is int: int has no derivative"),
        (lambda: rg.jvp(mixed, AT, {"q": 1.0}), "`mixed` has no argument 'q', and no tangent of it"),
        (lambda: rg.jvp(mixed, AT, {1: 1.0}), "`mixed` has no argument 1, and no tangent of it"),
        (lambda: rg.jvp(mixed, AT, (1.0,)), "1 tangent is given for the 4 arguments of `mixed`"),
        (lambda: rg.jvp(mixed, AT, 1.0), "tangents are a mapping by name or a sequence by position, not of type float"),
        (lambda: rg.jvp(mixed, AT, "abcd"), "not of type str"),
        (lambda: rg.jvp(mixed, AT, None), "not of type NoneType"),
        (lambda: rg.jvp(mixed, AT, {"x": [1.0]}), r"the tangent of `x` has shape \(1,\), and `x` is one fixed"),
        (lambda: rg.jvp(mixed, AT, {"x": "a"}), "the tangent of `x` is a str, and `x` is fixed"),
        (lambda: rg.jvp(mixed, AT, {"x": 1j}), "the tangent of `x` is a complex"),
        (lambda: rg.jvp(form, (0.0, np.ones(3), np.eye(3)), {"m": np.ones(9)}), r"of `m` has shape \(9,\)"),
        (lambda: rg.jvp(mixed, AT, {"x": 1.0}, scale=99), "scale = 99"),
        (lambda: rg.jvp(mixed, AT, {"x": 1.0}, scale="a"), "scale = 'a'"),
        # arguments
        (lambda: rg.jvp(mixed, 3.0, {"x": 1.0}), "the arguments of `mixed` are given as one float"),
        (lambda: rg.jvp(mixed, np.ones(4), {"x": 1.0}), "the arguments of `mixed` are given as one ndarray"),
        (lambda: rg.jvp(mixed, "abcd", {"x": 1.0}), "the arguments of `mixed` are given as one str"),
        (lambda: rg.jvp(mixed, {1: 0.0}, {"x": 1.0}), "`mixed` has no argument '1'"),
        (lambda: rg.jvp(mixed, {"y": 0.0, "q": 0.0}, {"x": 1.0}), "`mixed` has no argument 'q'"),
        (lambda: rg.hvp(mixed, "x")(3.0, 1.0), "the arguments of `mixed` are given as one float"),
        (lambda: rg.hvp(mixed, "x")(None, 1.0), "the arguments of `mixed` are given as one NoneType"),
        # what is differentiated, and by what
        (lambda: rg.hvp(mixed, "q"), "`mixed` has no argument 'q'"),
        (lambda: rg.hessian(mixed, "x", loss="q"), "`mixed` has no argument 'q'"),
        (lambda: rg.hessian(mixed, 4), "`mixed` has no argument 4"),
        (lambda: rg.hvp(mixed, ("x", "x")), "`x` of `mixed` is chosen twice"),
        (lambda: rg.hvp(mixed, True), "True is neither the position nor the name"),
        (lambda: rg.hessian(mixed, "n")(*AT), "`n` of `mixed` is int: int has no derivative"),
        (lambda: rg.hvp(mixed, "x", loss="n")(AT, 1.0), "the loss `n` of `mixed` is int"),
        (lambda: rg.hessian(mixed, "x", loss="s")(*AT), "the loss `s` of `mixed` is lognum"),
        (lambda: rg.hessian(form, "m", loss="x")(0.0, np.ones(3), np.eye(3)), "the loss `x` of `form` is Array"),
        (lambda: rg.hessian(mixed, "x", scale=-33)(*AT), "scale = -33"),
        (lambda: rg.hessian(weighed)([1.0, 2.0]), "`items` of `weighed` is list"),
        # vectors
        (lambda: rg.hvp(mixed, "x")(AT, [1.0]), r"the vector of `x` has shape \(1,\)"),
        (lambda: rg.hvp(mixed, "x")(AT, {"x": 1.0}), "the vector of `x` is a dict"),
        (lambda: rg.hvp(form, "x")((0.0, np.ones(3), np.eye(3)), 1.0), r"the vector of `x` has shape \(\)"),
        (lambda: rg.hvp(mixed, ("x", "s"))(AT, 1.0), "the vectors of 2 arguments are a sequence, not of type float"),
        (lambda: rg.hvp(mixed, ("x", "s"))(AT, "xs"), "not of type str"),
        (lambda: rg.hvp(mixed, ("x", "s"))(AT, (1.0,)), "1 vector is given for 2 arguments of `mixed`"),
        (lambda: rg.hvp(mixed)(AT, 1.0), "vectors are a mapping by name or a sequence by position, not of type float"),
        (lambda: rg.hvp(mixed)(AT, {"n": 1.0}), "`mixed` has no argument 'n', and no vector of it"),
        (lambda: rg.hvp(mixed)(AT, {"y": 1.0}), "`mixed` has no argument 'y', and no vector of it"),
        (lambda: rg.hvp(mixed)(AT), "is called with two things"),
        (lambda: rg.hvp(mixed)(*AT), "is called with two things"),
        (lambda: rg.hvp(mixed)(AT, vector=(1.0,)), "is called with two things"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(ask: Any, said: str) -> None:
    with pytest.raises(rg.NotDifferentiable, match=said) as caught:
        ask()
    assert caught.value.diagnostics[0].code == "RG0603"
    # Where Python would raise a TypeError, so does this.
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, rg.InputError)


@pytest.mark.parametrize(
    ("ask", "code", "said"),
    [
        (lambda: rg.jvp(mixed, AT, {"x": math.nan}), "RG0602", "tangent of `x`: element 0"),
        (lambda: rg.jvp(mixed, AT, {"x": 1e12}), "RG0601", "tangent of `x`: element 0"),
        (lambda: rg.jvp(mixed, AT, {"s": math.inf}), "RG0601", "tangent of `s`"),
        (lambda: rg.hvp(mixed, "x")(AT, math.nan), "RG0602", "vector of `x`: element 0"),
        (lambda: rg.hvp(mixed, "x")(AT, 1e12), "RG0601", "vector of `x`: element 0"),
        (lambda: rg.jvp(mixed, (1.0,), (1.0,)), "RG0603", "`mixed` is called without `x`"),
        (lambda: rg.hessian(mixed)(1.0), "RG0603", "`mixed` is called without `x`"),
        (lambda: rg.hessian(mixed)(*AT, q=1.0), "RG0603", "`mixed` has no parameter `q`"),
        (lambda: rg.hvp(mixed, "x")((*AT, 1.0), 1.0), "RG0603", "`mixed` takes 4 arguments, and is given 5"),
        (lambda: rg.jvp(mixed, (0.0, "a", 2, 4.0), {}), "RG0603", "`x` of `mixed`"),
    ],
)
def test_numbers_without_a_word_name_their_argument(ask: Any, code: str, said: str) -> None:
    with pytest.raises(rg.InputError, match=said) as caught:
        ask()
    assert caught.value.diagnostics[0].code == code


def test_a_derivative_that_overflows_says_so() -> None:
    for ask in (
        lambda: rg.jvp(quadratic, (0.0, 3.0, 4.0), {"x": 2.0**30}, scale=0),
        lambda: rg.jvp(quadratic, (0.0, 3.0, 4.0), {"x": 2.0**38}),
        lambda: rg.hvp(quadratic, "x", scale=0)((0.0, 3.0, 4.0), 2.0**30),
        lambda: rg.hessian(quadratic, "x", scale=30)(0.0, 3.0, 4.0),
    ):
        with pytest.raises(rg.ProgramTrap, match=r"a derivative does not fit in Q32\.32") as caught:
            ask()
        d = caught.value.diagnostics[0]
        assert d.code == "RG0404"
        assert d.hint is not None
        assert "scale" in d.hint
        assert caught.value.trap is not None
        assert caught.value.machine.retired > 0
    # What overflows without a derivative says what it always says.
    with pytest.raises(rg.ProgramTrap) as caught:
        rg.jvp(quadratic, (0.0, 2.0**20, 4.0), {"x": 1.0})
    assert "a derivative" not in str(caught.value)


def test_programs_that_erase_have_no_way_back() -> None:
    erasing = halving.with_options(erase=True)
    assert rg.jvp(erasing, (0.0, 0.75), {"x": 1.0})[1].y == pytest.approx(9 * 0.75**2 / 8, abs=1e-8)
    with pytest.raises(rg.ProgramTrap) as caught:
        rg.hessian(erasing, "x")(0.0, 0.75)
    assert caught.value.diagnostics[0].code == "RG0409"


def test_names_say_what_they_are() -> None:
    assert repr(rg.hvp(quadratic)) == "<hvp(quadratic)>"
    assert repr(rg.hessian(~quadratic)) == "<hessian(~quadratic)>"
    assert "h(args, vectors)" in (rg.hvp(quadratic).__doc__ or "")


@reversible
def waves(y: fixed, z: Array[complex, "n"], w: complex, x: fixed) -> None:
    for i in range(len(z)):
        t = z[i] * w * x
        y += t.real**2 * t.imag + rg.exp(t.imag)


def test_hessians_by_complex_numbers_are_those_of_their_parts() -> None:
    """Against differences with 60 digits of the same function of Python's kind, by (re, im) of each number."""
    z, w, x = [0.5 + 0.25j, -0.75 + 1j], 0.5 - 0.5j, 1.25

    def value(v):
        a, b, c = (mpmath.mpc(v[k], v[k + 1]) for k in (0, 2, 4))
        return sum((t.real**2 * t.imag + mpmath.exp(t.imag) for t in (a * c * v[6], b * c * v[6])), mpmath.mpf(0))

    at, h = [0.5, 0.25, -0.75, 1.0, 0.5, -0.5, 1.25], mpmath.mpf(10) ** -15
    with mpmath.workdps(60):

        def moved(i, j, s, t):
            v = [mpmath.mpf(c) for c in at]
            v[i] += s * h
            v[j] += t * h
            return value(v)

        signs = [(s, t) for s in (1, -1) for t in (1, -1)]
        wanted = np.array(
            [
                [float(sum(s * t * moved(i, j, s, t) for s, t in signs) / (4 * h * h)) for j in range(7)]
                for i in range(7)
            ]
        )
    blocks = rg.hessian(waves, ("z", "w", "x"))(0.0, z, w, x)
    sizes, found = (4, 2, 1), np.zeros((7, 7))
    ends = np.cumsum((0, *sizes))
    for i, row in enumerate(blocks):
        for j, block in enumerate(row):
            found[ends[i] : ends[i + 1], ends[j] : ends[j + 1]] = np.asarray(block).reshape(sizes[i], sizes[j])
    np.testing.assert_allclose(found, wanted, atol=2e-7)
    # A real number is a vector of a complex one.
    product = rg.hvp(waves, ("z", "w"))((0.0, z, w, x), ([1j, 2], 1))
    direction = wanted @ np.array([0.0, 1.0, 2.0, 0.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(product[0], [complex(*direction[:2]), complex(*direction[2:4])], atol=4e-7)
    assert product[1] == pytest.approx(complex(*direction[4:6]), abs=4e-7)
