"""Complex numbers and arrays of them, against Python's and NumPy's."""

from __future__ import annotations

import cmath
import linecache
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.library import Complex
from retrograd.testing import check_gradient, check_inverse

LEVELS = pytest.mark.parametrize("level", [0, 1])
PARTS = st.integers(-16, 16).map(lambda n: n / 8)
NUMBERS = st.builds(complex, PARTS, PARTS)
CONSTANTS = np.array([1j, 2.0])


@reversible
def operators(z: complex, w: complex, u: complex, s: fixed):
    z += w * u
    z -= w / u
    z += 2 * w - 1j
    z += w.conjugate() * 1j + np.conj(u)
    z += u**3 + (-w) ** 2 + u**-2 + w**0
    s += abs(w) + w.real * u.imag
    t = w * u
    z += t
    if w != u:
        z += s
    z += w if s > 0 else complex(s, 1.0)


def reference(z, w, u, s):
    z += w * u - w / u + 2 * w - 1j + w.conjugate() * 1j + u.conjugate() + u**3 + (-w) ** 2 + u**-2 + 1
    s += abs(w) + w.real * u.imag
    z += w * u
    if w != u:
        z += s
    return z + (w if s > 0 else complex(s, 1.0)), s


@reversible
def functions(z: complex, w: complex):
    z += rg.exp(w)
    z += rg.log(w)
    z -= rg.sqrt(w)


@LEVELS
@settings(max_examples=25)
@given(w=NUMBERS, u=NUMBERS.filter(lambda u: abs(u) > 0.25))
def test_operators(level, w, u):
    own = operators.with_options(level=level)
    done = own(0.5j, w, u, 0.25)
    z, s = reference(0.5j, w, u, 0.25)
    assert done.s == pytest.approx(s, abs=1e-8)
    assert complex(done.z) == pytest.approx(z, abs=1e-5)
    assert (~own)(*done)[0] == 0.5j


@settings(max_examples=25)
@given(w=NUMBERS.filter(lambda w: abs(w) > 0.25))
def test_functions(w):
    expected = cmath.exp(w) + cmath.log(w) - cmath.sqrt(w)
    assert complex(functions(0j, w).z) == pytest.approx(expected, abs=1e-8)


@reversible
def circular(ys: Array[complex, 9], w: complex, v: complex):
    ys[0] += rg.sin(w)
    ys[1] += rg.cos(w)
    ys[2] += rg.sinh(w)
    ys[3] += rg.cosh(w)
    ys[4] += rg.sqrt(w)
    ys[5] += rg.tan(w)
    ys[6] += rg.tanh(w)
    ys[7] += w**v
    ys[8] += w**0.5


@pytest.mark.long
@LEVELS
@settings(max_examples=40)
@given(w=NUMBERS.filter(lambda w: w != 0), v=NUMBERS)
def test_circular_and_hyperbolic_functions_roots_and_powers(level, w, v):
    """Parts of a size up to 2: a few units of Q32.32; the errors of quotients and powers grow with their derivative."""
    found = circular.with_options(level=level)(np.zeros(9, complex), w, v).ys
    expected = [f(w) for f in (cmath.sin, cmath.cos, cmath.sinh, cmath.cosh, cmath.sqrt)]
    for y, z in zip(found, expected, strict=False):
        assert max(abs((y - z).real), abs((y - z).imag)) <= 2.5 * 2**-32
    assert abs(found[5] - cmath.tan(w)) <= 1e-7 * (1 + abs(cmath.tan(w)) ** 2)
    assert abs(found[6] - cmath.tanh(w)) <= 1e-7 * (1 + abs(cmath.tanh(w)) ** 2)
    assert found[7] == pytest.approx(w**v, abs=1e-6, rel=1e-6)
    assert found[8] == found[4]


def test_the_branch_of_the_square_root_is_that_of_numpy():
    zs = np.array([-4, 4, 2j, -2j, -1 - 1e-6j, -1 + 1e-6j, 0])

    @reversible
    def root(ys: Array[complex, "n"], zs: Array[complex, "n"]):
        ys += rg.sqrt(zs)

    assert np.allclose(root(np.zeros(7, complex), zs).ys, np.sqrt(zs), atol=1e-9)


def test_functions_of_arrays_and_of_constants():
    @reversible
    def f(ys: Array[complex, "n"], zs: Array[complex, "n"]):
        ys += rg.tanh(zs[::-1]) + rg.sinh(0.5j) * rg.exp(2j) + rg.sqrt(-1 + 0j)

    zs = np.array([1 + 1j, 0.25j])
    assert np.allclose(f(np.zeros(2, complex), zs).ys, np.tanh(zs[::-1]) + np.sinh(0.5j) * np.exp(2j) + 1j)


@pytest.mark.long
def test_gradients_of_functions():
    @reversible
    def f(s: fixed, w: complex):
        t = rg.sin(w) * rg.sqrt(w) + rg.tanh(w) * w ** (0.5 + 1j)
        s += t.real

    check_gradient(f, 0.0, 1 - 0.5j)
    check_inverse(f, 0.0, 1 - 0.5j)


@LEVELS
def test_the_laws(level):
    args = 0j, 1 + 2j, 0.5 - 1j, 0.0
    own = operators.with_options(level=level)
    check_inverse(own, *args)
    check_gradient(own, *args, loss="s", argnums=("w", "u"))
    for engine in ("reference", "threaded", "translated", "native"):
        assert rg.run(own, *args, engine=engine).values == own(*args)


def test_derivatives_are_those_by_the_parts():
    """∂L/∂re + i ∂L/∂im: of |w|² it is 2w."""

    @reversible
    def squared(s: fixed, w: complex):
        s += w.real**2 + w.imag**2

    assert rg.grad(squared, "w")(0.0, 1 + 2j) == 2 + 4j
    assert rg.jvp(squared, (0.0, 1 + 2j), {"w": 1j})[1].s == 4.0
    assert rg.vmap(rg.grad(squared, "w"), in_axes=(None, 0))(0.0, np.array([1j, 2.0])).tolist() == [2j, 4]
    z = rg.jacobian(operators, "w", outputs="z")(0j, 1 + 2j, 0.5 - 1j, 1.0)
    assert z.shape == (2, 2)


@reversible
def arrays(s: complex, r: fixed, zs: Array[complex, "n"], ws: Array[complex, "n"], m: Array[complex, "n", "n"]):
    zs += ws * 1j + 1
    s += rg.sum(zs * ws.conjugate())
    with rg.routine() as q:
        t = zs * ws
        c = rg.copy(ws)
        c[0] += 1
    s += t[0] + c[0]
    ~q
    r += rg.sum(abs(zs)) + rg.sum(zs.real)
    zs += m @ ws
    zs[0] -= 1
    for k in reversed(range(len(zs))):
        zs[k] += 0.5j
    with rg.view(-zs) as v:
        v += 1
    zs.imag += CONSTANTS.shape[0]
    for i in range(len(zs)):
        zs[i] += CONSTANTS[i] * s


ARGS = 0j, 0.0, np.array([1 + 1j, 2 - 1j]), np.array([0.5j, 1.0]), np.eye(2) * 1j


def test_arrays():
    s, r, zs, ws, m = ARGS
    zs = zs + ws * 1j + 1
    s = (zs * ws.conjugate()).sum() + (zs * ws)[0] + ws[0] + 1
    r = abs(zs).sum() + zs.real.sum()
    zs = zs + m @ ws
    zs[0] -= 1
    zs = zs + 0.5j - 1 + 2j + CONSTANTS * s
    done = arrays(*ARGS)
    assert isinstance(done.zs, np.ndarray)
    assert done.zs.dtype == np.complex128
    assert np.allclose(done.zs, zs)
    assert complex(done.s) == pytest.approx(s)
    assert done.r == pytest.approx(r)
    assert repr(done.zs).startswith("array(")


@LEVELS
def test_laws_of_arrays(level):
    own = arrays.with_options(level=level)
    check_inverse(own, *ARGS)
    check_gradient(own, *ARGS, loss="r")
    assert rg.grad(own, "zs", loss="r")(*ARGS).shape == (2,)


@reversible
def product(z, w, u):
    z += w * u


def test_arguments_without_annotations_and_their_words():
    """Parts of numbers that a float64 would round come back as they were."""
    assert product(0j, 1 + 2j, 3j).z == -6 + 3j
    zs = product(np.zeros(2, complex), np.array([1j, 2.0]), 1j).z
    assert zs.tolist() == [-1, 2j]
    back = (~product)(*product(0j, (1 + 1j) / 3, 123456.789 + 1e5j))
    assert back.z == 0
    ws = np.array([1 / 3 + 1j / 7] * 3)
    after = product(np.zeros(3, complex), ws, ws * 1e6)
    assert (~product)(*after).z.tolist() == [0, 0, 0]
    kept = pickle.loads(pickle.dumps(after))
    assert (~product)(*kept).z.tolist() == [0, 0, 0]
    changed = after.z + 0
    assert type(changed) is np.ndarray
    after.z[0] = 0
    assert (~product)(*after).z[0] != 0
    assert type(product(0j, 1.0, 1j).z) is type(product(0j, 1j, 1j).z)


def test_batches():
    column = np.arange(3) * 1j
    batch = rg.run_batch(product, np.zeros(3, complex), column, 1j, in_axes=(0, 0, None)).values
    assert batch.z.tolist() == [0, -1, -2]
    assert rg.run_batch(~product, *batch).values.z.tolist() == [0, 0, 0]


def test_structs_with_methods_are_complex_numbers_too():
    @reversible
    def f(z: Complex, w: Complex):
        z += w * w
        z.conjugate()
        z += w.conjugate() + 1

    @reversible
    def g(y: complex, w: Complex):
        f(y, w)
        y += add(w, 2.0) * 2

    @reversible
    def add(out: complex, a: complex, b: complex):
        out += a + b

    done = f(0j, 1 + 2j)
    assert isinstance(done.z, Complex)
    assert complex(done.z) == -1 - 6j
    assert g(0j, 1 + 2j).y == -1 - 6j + 2 * (3 + 2j)


@pytest.mark.parametrize("arguments", ["1", "w", "x=1", "1, 2", "*()", "**{}"])
def test_conjugate_takes_no_arguments(arguments: str) -> None:
    """As in Python."""
    text = f"@reversible\ndef f(z: complex, w: complex):\n    z += w.conjugate({arguments})\n"
    names: dict[str, Any] = {"reversible": reversible}
    linecache.cache["conjugates.py"] = (len(text), None, text.splitlines(keepends=True), "conjugates.py")
    exec(compile(text, "conjugates.py", "exec"), names)
    with pytest.raises(rg.CompileError):
        names["f"](0j, 1j)


def test_a_size_neither_overflows_nor_loses_digits():
    @reversible
    def size(s: fixed, z: complex):
        s += abs(z)

    assert size(0.0, 3e8 + 4e8j).s == pytest.approx(5e8)
    assert size(0.0, 3e-5 + 4e-5j).s == pytest.approx(5e-5, abs=1e-9)
    assert size(0.0, 0j).s == 0.0
    assert rg.grad(size)(0.0, 0j).z == 0
