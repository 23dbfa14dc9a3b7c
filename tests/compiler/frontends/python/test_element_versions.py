"""Variables made from elements of an array of which other elements change: explicit schemes, as they stand in books."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])


@LEVELS
def test_a_filter_of_one_dimension(level: int) -> None:
    @reversible(level=level)
    def kalman(x: Array[fixed, "n"], p: Array[fixed, "n"], z: Array[fixed, "m"], q: fixed, r: fixed) -> None:
        for k in range(len(z)):
            gain = (p[k] + q) / (p[k] + q + r)
            x[k + 1] += x[k] + gain * (z[k] - x[k])
            p[k + 1] += (1 - gain) * (p[k] + q)

    z = [1.0, 2.0, 1.0, 2.0]
    out = kalman([0.0] * 5, [1.0] + [0.0] * 4, z, 0.01, 0.5)
    x, p = 0.0, 1.0
    for k, observed in enumerate(z):
        gain = (p + 0.01) / (p + 0.51)
        x, p = x + gain * (observed - x), (1 - gain) * (p + 0.01)
        assert out.x[k + 1] == pytest.approx(x, abs=1e-8)
        assert out.p[k + 1] == pytest.approx(p, abs=1e-8)
    back = (~kalman)(*out)
    assert not any(back.x)
    assert back.p.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]


@reversible
def kalman_filter(
    x: Array[fixed, "t", "n"],
    p: Array[fixed, "t", "n", "n"],
    z: Array[fixed, "m"],
    f: Array[fixed, "n", "n"],
    q: Array[fixed, "n", "n"],
    h: Array[fixed, "n"],
    r: fixed,
) -> None:
    """x[k + 1], p[k + 1] += mean and covariance of the state after the observation z[k]"""
    for k in range(len(z)):
        predicted = f @ x[k]
        spread = f @ p[k] @ f.T + q
        s = h @ (spread @ h) + r
        gain = spread @ h / s
        x[k + 1] += predicted + gain * (z[k] - h @ predicted)
        p[k + 1] += spread - gain[:, None] * (h @ spread)[None, :]


def test_a_filter_of_matrices() -> None:
    z = np.array([1.0, 2.0, 2.5, 4.0])
    f, q, h = np.array([[1.0, 1.0], [0.0, 1.0]]), np.eye(2) / 128, np.array([1.0, 0.0])
    x, p = np.zeros((5, 2)), np.zeros((5, 2, 2))
    p[0] = np.eye(2)
    out = kalman_filter(x, p, z, f, q, h, 0.5)
    mean, spread = np.zeros(2), np.eye(2)
    for k, observed in enumerate(z):
        mean, spread = f @ mean, f @ spread @ f.T + q
        gain = spread @ h / (h @ spread @ h + 0.5)
        mean, spread = mean + gain * (observed - h @ mean), spread - np.outer(gain, h @ spread)
        assert np.allclose(out.x[k + 1], mean, atol=1e-8)
        assert np.allclose(out.p[k + 1], spread, atol=1e-8)
    check_inverse(kalman_filter, x, p, z, f, q, h, 0.5)


def test_a_scheme_of_two_steps() -> None:
    @reversible
    def verlet(x: Array[fixed, "n"], dt: fixed) -> None:
        for k in range(1, len(x) - 1):
            force = -x[k]
            x[k + 1] += 2 * x[k] - x[k - 1] + force * dt * dt

    x = [1.0, 1.0] + [0.0] * 8
    out = verlet(x, 0.25)
    assert out.x[9] == pytest.approx(np.cos(8 * 2 * np.arcsin(0.125)), abs=0.3)
    check_inverse(verlet, x, 0.25)
    check_gradient(verlet, x, 0.25, loss="x[9]")


@LEVELS
def test_elements_that_are_certainly_others(level: int) -> None:
    @reversible(level=level)
    def f(a: Array[int, "n", 2], b: Array[int, "m"], n: int, y: int) -> None:
        t = a[0, 1] * a[1, 1]
        s = rg.sum(b[:n])
        for i in range(len(a)):
            if a[i, 1] > 2:
                a[i, 0] += t
        b[n] += s
        y += t + s
        del s
        u = b[n]
        for i in range(n):
            b[i] += u
        y += u

    out = f([[1, 2], [3, 4]], [5, 6, 7], 2, 0)
    assert out.a.tolist() == [[1, 2], [11, 4]]
    assert out.b.tolist() == [23, 24, 18]
    assert out.y == 8 + 11 + 18
    assert (~f)(*out).a.tolist() == [[1, 2], [3, 4]]
    assert (~f)(*out).b.tolist() == [5, 6, 7]


@reversible
def added(x: fixed, y: fixed) -> None:
    x += y


@reversible
def added_to_all(x: Array[fixed, "n"], y: fixed) -> None:
    x += y


@LEVELS
def test_bijections_and_calls_change_their_elements_only(level: int) -> None:
    @reversible(level=level)
    def f(y: fixed, a: Array[fixed, 6], n: Array[int, 3], i: int, s: rg.Stack[fixed, 4]) -> None:
        c = a[0] * 2
        m = n[i] * 3
        a[1], a[2] = a[2], a[1]
        rg.rot(a[1], a[2], 0.5)
        rg.neg(a[3])
        rg.cswap(y > 0, a[1], a[3])
        rg.swap(a[4:6], a[2:4])
        rg.rol(n[i + 1], 1)
        rg.flip(n[i + 2])
        added(a[5], a[4])
        added_to_all(a[3:5], y)
        rg.push(s, a[1])
        y += c + m

    args = (1.0, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1, 2, 3], 0, [7.0])
    assert f(*args).y == 1.0 + 2.0 + 3
    check_inverse(f, *args)
    check_gradient(f, *args)


def moved_index(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[i + 1]
    i += 1
    a[i] += 5
    i -= 1
    y += t


def longer_loop(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[i]
    i += 1
    for k in range(i):
        a[k] += 5
    i -= 1
    y += t


def shorter_slice(a: Array[int, "n"], i: int, y: int) -> None:
    t = rg.sum(a[:i])
    i -= 1
    a[i] += 5
    i += 1
    y += t


def undone_elsewhere(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[1]
    a[i] += 5
    i += 1
    a[i] -= 5
    i -= 1
    y += t


def unknown_element(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[0]
    a[i] += 5
    y += t


def swapped(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[0] + a[1]
    a[0], a[2] = a[2], a[0]
    y += t


def turned_bits(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[1]
    rg.rol(a[i], 3)
    y += t


def negated(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[1]
    rg.neg(a[i])
    y += t


@reversible
def one_more(x: Array[int, "n"]) -> None:
    x += 1


def called_on_a_slice(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[1]
    one_more(a[i:])
    y += t


def called_on_a_turned_slice(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[1]
    one_more(a[::-1])
    y += t


def called_on_two_parts(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[2]
    one_more(a[:1])
    one_more(a[1:])
    y += t


def changed_in_a_branch(a: Array[int, "n"], i: int, y: int) -> None:
    t = a[0]
    if i > 0:
        a[1] += 5
        a[0] += 1
    y += t


def former_value_of_a_variable(a: Array[int, "n"], i: int, y: int) -> None:
    i += y
    t = i * 2
    i -= y
    i += len(a)
    a[0] += t


@pytest.mark.parametrize(
    "f",
    [
        moved_index,
        undone_elsewhere,
        longer_loop,
        shorter_slice,
        unknown_element,
        swapped,
        turned_bits,
        negated,
        called_on_a_slice,
        called_on_a_turned_slice,
        called_on_two_parts,
        changed_in_a_branch,
        former_value_of_a_variable,
    ],
)
def test_a_value_that_may_have_changed_is_refused(f: Callable[..., None]) -> None:
    with pytest.raises(rg.RetrogradError) as error:
        reversible(f)([1, 2, 3], 1, 0)
    assert error.value.code == "RG0718"


@LEVELS
def test_the_gradient_of_a_sum_by_an_element_at_a_variable_index(level: int) -> None:
    """The element and its index are both promoted to registers in the gradient program."""

    @reversible(level=level)
    def f(y: fixed, a: fixed, n: Array[int, 3], i: int) -> None:
        m = n[i] * 3
        n[i + 1] += 2
        y += a * m

    assert rg.grad(f, "a")(1.0, 2.0, [1, 2, 3], 0) == 3.0
    assert rg.grad(f, "a")(1.0, 2.0, [1, 2, 3], 1) == 6.0
