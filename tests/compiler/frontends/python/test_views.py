"""Views that are bijections, as blocks and as arguments, against the words that the changes must leave."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.library import Complex
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])
ENGINES = ("reference", "threaded", "translated", "native")
UNIT = 2.0**-32


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def add_int(y: int, x: int):
    y += x


@reversible
def add_all(y: Array[fixed, "n"], x: Array[fixed, "n"]):
    y += x


@reversible
def signs(x: fixed, y: fixed, n: int, b: bool, a: Array[fixed, 3]):
    with rg.view(-x) as m:
        m += y * 2
    with rg.view(~n) as m:
        m += 3
    with rg.view(not b) as m:
        m ^= n < 0
    with rg.view(-a) as m:
        m += y
        m[0] += 1
    with rg.view(-a[1]) as m:
        m += 1
    with rg.view(-a[::-2]) as m:
        m[0] += 1
    with rg.view(a[::-1]) as m:
        m[0] += y


@reversible
def scales(x: fixed, y: fixed, n: int, a: Array[fixed, 3]):
    with rg.view(2 * x) as m:
        m += y
    with rg.view(x / 4) as m:
        m += y
    with rg.view(n * 8) as m:
        m += 16
    with rg.view(n // 2) as m:
        m += 1
    with rg.view(4 * a) as m:
        m += y
    with rg.view(-(2 * a[1])) as m:
        m += y


@reversible
def conversions(x: fixed, n: int, z: lognum, a: Array[int, 3], b: bool, i: int):
    with rg.view(int(x)) as k:
        k ^= 5
    with rg.view(fixed(n)) as y:
        y += 2.0
    with rg.view(fixed(z)) as y:
        y += 1.0
    with rg.view(fixed(a)) as f:
        f += 3.0
    with rg.view(-fixed(a[i])) as f:
        f += 1.0
    with rg.view(int(b)) as k:
        k ^= 1


@reversible
def arguments(x: fixed, y: fixed, n: int, a: Array[fixed, 3], b: Array[fixed, 3]):
    add(-x, y)
    add(2 * x, y)
    add(-a[1], y)
    add_all(-a, b)
    add_all(2 * a, -b)
    add_int(~n, 3)
    add_all(-a[::-1], b)


@reversible
def parts(z: Complex, x: fixed, y: fixed):
    with rg.view(-z) as w:
        w.re += y
    Complex(x, z.im).rotate(0.5)
    with rg.view(Complex(y, x)) as w:
        w.add(z)


@reversible
def factors(z: lognum, x: lognum):
    with rg.view(-z) as w:
        w *= x
    with rg.view(3 * z) as w:
        w /= x


@reversible
def matrix(m: Array[fixed, 2, 3], y: fixed, x: fixed):
    with rg.view(-m.T) as t:
        t[0] += y
        t[1, 1] += y
    with rg.view(2 * m[1]) as row:
        row[2] += y
    x += rg.sum(m * m)


CASES = [
    (signs, (1.0, 2.0, 5, True, [1.0, 2.0, 3.0]), {"x": -3.0, "n": 2, "b": True, "a": [-2.0, -1.0, 2.0]}),
    (scales, (1.0, 2.0, 6, [1.0, 2.0, 3.0]), {"x": 10.0, "n": 10, "a": [1.5, 1.5, 3.5]}),
    (conversions, (2.0, 6, 1.0, [1, 2, 3], True, 1), {"x": 7.0, "n": 8, "z": 2.0, "a": [4, 4, 6], "b": False}),
    (
        arguments,
        (1.0, 2.0, 5, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0]),
        {"x": 0.0, "n": 2, "a": [-11.0, -12.5, -10.0], "b": [4.0, 5.0, 6.0]},
    ),
    (matrix, ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2.0, 0.0), {"m": [[-1.0, 2.0, 3.0], [2.0, 3.0, 7.0]]}),
]


@LEVELS
@pytest.mark.parametrize(("f", "args", "expected"), CASES, ids=[f.__name__ for f, _, _ in CASES])
def test_changes_through_views(f, args, expected, level):
    own = f.with_options(level=level)
    for engine in ENGINES:
        done = rg.run(own, *args, engine=engine)
        assert done.erased_bits == 0
        for name, value in expected.items():
            assert np.array_equal(getattr(done.values, name), value), name
    check_inverse(own, *args)
    check_gradient(own, *args, loss="x")


@LEVELS
def test_parts_and_factors(level):
    f, g = parts.with_options(level=level), factors.with_options(level=level)
    check_inverse(f, 1 + 2j, 3.0, 0.5)
    check_gradient(f, 1 + 2j, 3.0, 0.5, loss="x")
    done = f(1 + 2j, 3.0, 0.5)
    turned = complex(3.0, 2.0) * np.exp(0.5j)
    assert done.x == pytest.approx(turned.real + turned.imag)
    assert done.y == pytest.approx(0.5 + 0.5)
    assert g(2.0, 4.0).z == pytest.approx(2.0)
    check_inverse(g, 2.0, -4.0)


@reversible
def doubled(x: fixed, y: fixed):
    with rg.view(2 * x) as m:
        m += y


@reversible
def counted(x: fixed, by: int):
    with rg.view(int(x)) as k:
        k += by


@reversible
def eighths(n: int, by: int):
    with rg.view(n * 8) as m:
        m += by


@reversible
def powers(x: fixed, z: lognum):
    with rg.view(lognum(x)) as w:
        w *= z


@LEVELS
@given(x=st.integers(-9, 9), y=st.integers(-9, 9))
def test_what_has_no_inverse_is_tested_both_ways(level, x, y):
    """2x takes even words only, int(x) whole numbers, 8n multiples of 8."""
    for f, args, exact in (
        (doubled, (x * UNIT, y * UNIT), y % 2 == 0),
        (counted, (x / 2, y), x % 2 == 0),
        (eighths, (x, y), y % 8 == 0),
    ):
        own = f.with_options(level=level)
        for run in (own, ~own):
            if exact:
                run(*args)
                continue
            with pytest.raises(rg.ProgramTrap) as caught:
                run(*args)
            assert caught.value.code == "RG0814"


def test_lognums_of_numbers_that_are_small_are_exact():
    assert powers(0.3, 2.0).x == pytest.approx(0.6)
    check_inverse(powers, 0.3, 2.0)
    for x, z in ((1000.3, 2.0), (0.3, 1.0 + 2.0**-30)):
        with pytest.raises(rg.ProgramTrap, match="RG0814"):
            powers(x, z)


def test_a_shift_that_loses_bits_is_found():
    with pytest.raises(rg.ProgramTrap, match="RG0814"):
        eighths(1 << 62, 8)
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        doubled(1.5e9, 0.0)


def test_an_index_may_not_change_in_the_block():
    @reversible
    def f(a: Array[fixed, 3], i: int):
        with rg.view(-a[i]) as m:
            m += 1
            i += 1

    with pytest.raises(rg.CompileError, match=r"RG0718.*`m` was made from `i`"):
        f([1.0, 2.0, 3.0], 1)


def test_a_local_changed_through_a_view_is_tested_when_it_is_freed():
    @reversible
    def f(y: fixed, x: fixed, by: fixed):
        t = 2 * x
        with rg.view(-t) as m:
            m += 1
        y += t
        t += by

    assert f(0.0, 3.0, 1.0).y == 5.0
    with pytest.raises(rg.ProgramTrap, match="RG0802"):
        f(0.0, 3.0, 0.5)


def test_views_in_loops_branches_recursion_and_batches():
    @reversible
    def f(x: fixed, a: Array[fixed, 3], n: int):
        for i in range(3):
            with rg.view(-a[i]) as m:
                if m < 0:
                    with rg.view(2 * x) as d:
                        d += 2 * i
                m += i
        if n > 0:
            f(-x, -a, n - 1)

    check_inverse(f, 1.0, [1.0, -2.0, 3.0], 2)
    check_gradient(f, 1.0, [1.0, -2.0, 3.0], 2, loss="x")
    batch = rg.run_batch(f, np.arange(3.0), [1.0, -2.0, 3.0], 2, in_axes=(0, None, None)).values
    assert batch.x.tolist() == [f(x, [1.0, -2.0, 3.0], 2).x for x in (0.0, 1.0, 2.0)]


# ------------------------------------------------------------------ conjugates


@reversible
def add_complex(z: complex, w: complex):
    z += w


@reversible
def add_to_conjugates(z: complex, w: complex, zs: Array[complex, "n"], k: int, x: fixed):
    with rg.view(z.conjugate()) as c:
        c += w
        c.im += 0.5
    with rg.view(-np.conj(zs)) as c:
        c += w
    with rg.view(zs[k].conjugate()) as c:
        c.im += x
    with rg.view(x.conjugate()) as c:
        c += 1
    add_complex((-z).conjugate(), w)
    add_complex(zs[k].conj(), w * 2)


def conjugated(z: complex, w: complex, zs: list[complex], k: int, x: float) -> tuple[complex, list[complex]]:
    """The words of z and zs after `add_to_conjugates`: v̄(v(z) + w)."""
    z = (z.conjugate() + w + 0.5j).conjugate()
    zs = [-(-(v.conjugate()) + w).conjugate() for v in zs]
    zs[k] = ((zs[k].conjugate() + 1j * x) + w * 2).conjugate()
    return -(-z.conjugate() + w).conjugate(), zs


@LEVELS
@pytest.mark.parametrize("engine", ENGINES)
def test_a_complex_number_is_changed_through_its_conjugate(level: int, engine: str) -> None:
    z, w, zs = 1 + 2j, 3 - 5j, [1j, 2.5 - 1j, -3.0 + 0j]
    f = add_to_conjugates.with_options(level=level)
    for k in range(3):
        out = rg.run(f, z, w, zs, k, 0.75, engine=engine).values
        wanted, all_wanted = conjugated(z, w, zs, k, 0.75)
        assert out.z == wanted
        assert list(out.zs) == all_wanted
        assert out.x == 1.75
    check_inverse(f, z, w, zs, 1, 0.75)


def test_cotangents_go_through_a_conjugate() -> None:
    """An update z + w̄ gives w the conjugate of z's cotangent: here w̄ − w̄ in z, and 2 w̄ − w̄ in the element of zs."""
    _, back = rg.vjp(add_to_conjugates, 1 + 2j, 3 - 5j, [1j], 0, 0.0)
    found = back([1 + 1j, 0j, [2 + 3j], None, 0.0])
    assert found.z == 1 + 1j
    assert found.zs == [2 + 3j]
    assert found.w == 2 - 3j
