"""vjp and jacobian, against closed forms, central differences and each other."""

from __future__ import annotations

import builtins
import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError

import retrograd as rg
from retrograd import Array, fixed, lognum, reversible
from retrograd.derivatives._jacobians import colour
from retrograd.library import Complex, Vector3, matvec, rotate, softmax
from retrograd.library.linear_algebra import Quaternion
from retrograd.testing import fixed_numbers

X = np.array([0.5, -1.0, 2.0])


@reversible
def mixed(y: fixed, x: fixed, n: int, s: lognum):
    y += x * x * n
    y += fixed(s)
    s *= lognum(x)


@reversible
def turn(a: Array[fixed, 3], b: Array[fixed, 3], angle: fixed):
    """Every argument changes, and each depends on all before it."""
    rg.rot(a[0], a[1], angle)
    for i in range(3):
        b[i] += a[i] * a[(i + 1) % 3]
    angle += b[0] * b[1]
    a[2] += rg.sin(b[2])


def turned(v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    a, b, angle = v[:3].copy(), v[3:6].copy(), v[6]
    c, s = math.cos(angle), math.sin(angle)
    a[0], a[1] = c * a[0] - s * a[1], s * a[0] + c * a[1]
    b += a * np.roll(a, -1)
    a[2] += math.sin(b[2])
    return np.array([*a, *b, angle + b[0] * b[1]])


def central(function: Any, x: np.ndarray[Any, Any], h: float = 1e-6) -> np.ndarray[Any, Any]:
    """∂function/∂x, one column for each number in x."""
    steps = np.eye(x.size).reshape(x.size, *x.shape) * h
    return np.stack([(function(x + s) - function(x - s)) / (2 * h) for s in steps], axis=-1)


POINT = np.array([0.5, -1.0, 2.0, 0.25, 1.5, -0.75, 0.6])


def parts(v: Any) -> tuple[Any, Any, float]:
    return np.asarray(v[:3], dtype=float), np.asarray(v[3:6], dtype=float), float(v[6])


# ---------------------------------------------------------------------- vjp


def test_values_are_those_of_a_call() -> None:
    values, pullback = rg.vjp(mixed, 1.0, 3.0, 2, s=4.0)
    assert values == mixed(1.0, 3.0, 2, 4.0)
    assert type(values).__name__ == "mixed"
    assert pullback({"y": 1.0}) == (1.0, 12.0, 1.0)


def test_cotangents_by_name_and_by_position() -> None:
    _, pullback = rg.vjp(mixed, 1.0, 3.0, 2, 4.0)
    by_name = pullback({"y": 2.0, "s": None})
    assert by_name._fields == ("y", "x", "s")
    assert by_name == pullback((2.0, None, None, None)) == pullback([2, 0, None, 0.0]) == (2.0, 24.0, 2.0)
    assert pullback({}) == (0.0, 0.0, 0.0)
    # What comes back can be given again: a tuple with names goes by these, as it has none for integers.
    assert pullback(by_name) == pullback({"y": 2.0, "x": 24.0, "s": 2.0})
    values = mixed(1.0, 3.0, 2, 4.0)
    assert pullback(values._replace(n=None)) == pullback({"y": values.y, "x": values.x, "s": values.s})


def test_a_lognum_is_differentiated_by_itself_and_not_its_logarithm() -> None:
    # s' = s·x, and y' = y + 2x² + s.
    _, pullback = rg.vjp(mixed, 1.0, -3.0, 2, 4.0)
    assert pullback({"s": 1.0}) == pytest.approx((0.0, 4.0, -3.0), abs=1e-8)
    _, pullback = rg.vjp(mixed, 1.0, 3.0, 2, -4.0)
    assert pullback({"s": 0.5, "y": 1.0}) == pytest.approx((1.0, 12 - 2, 1 + 1.5), abs=1e-8)


def test_a_result_that_was_left_alone_adds_its_cotangent() -> None:
    _, pullback = rg.vjp(mixed, 1.0, 3.0, 2, 4.0)
    assert pullback({"y": 1.0, "x": 5.0}).x == 12 + 5


@settings(max_examples=15)
@given(
    st.lists(fixed_numbers(low=-2, high=2), min_size=7, max_size=7),
    st.lists(fixed_numbers(low=-2, high=2), min_size=7, max_size=7),
)
def test_all_arguments_at_once_against_differences(point: list[float], cotangents: list[float]) -> None:
    _, pullback = rg.vjp(turn, *parts(point))
    found = pullback(parts(cotangents))
    expected = np.array(cotangents) @ central(turned, np.array(point))
    assert [*found.a, *found.b, found.angle] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=15)
@given(st.lists(st.integers(-64, 64), min_size=3, max_size=3), st.integers(-4, 4), st.integers(-4, 4))
def test_pullbacks_are_linear(ybar: list[int], p: int, q: int) -> None:
    _, pullback = rg.vjp(matvec, X, a=np.arange(9.0).reshape(3, 3) / 4, x=X)
    one, other = np.array(ybar) / 8, np.array([1.0, -2.0, 0.5])
    name = matvec.parameters[0].name
    left = pullback({name: p * one + q * other})
    first, second = pullback({name: one}), pullback({name: other})
    for name in ("a", "x"):
        assert getattr(left, name) == pytest.approx(p * getattr(first, name) + q * getattr(second, name), abs=1e-8)


def test_a_pullback_can_be_called_again_and_keeps_nothing() -> None:
    _, pullback = rg.vjp(turn, *parts(POINT))
    rows = np.eye(7)
    once = [pullback(parts(row)) for row in rows]
    again = [pullback(parts(row)) for row in rows[::-1]][::-1]
    for x, y in zip(once, again, strict=True):
        assert all(np.array_equal(u, v) for u, v in zip(x, y, strict=True))


def test_a_pullback_that_trapped_leaves_the_next_one_right() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += rg.log(x)

    _, pullback = rg.vjp(f, 0.0, 2**-20)
    with pytest.raises(rg.ProgramTrap) as caught:
        pullback({"y": 2.0**20})
    trapped = caught.value.machine.state()
    assert pullback({"y": 1.0}).x == 2.0**20
    # Whoever caught the trap has that machine to himself.
    assert caught.value.machine.state() == trapped


def test_the_inverse_has_the_inverse_jacobian() -> None:
    values, pullback = rg.vjp(turn, *parts(POINT))
    before, back = rg.vjp(~turn, *values)
    assert [*before.a, *before.b, before.angle] == pytest.approx(POINT, abs=2.0**-33)
    there = np.array([np.hstack(pullback(parts(row))) for row in np.eye(7)])
    here = np.array([np.hstack(back(parts(row))) for row in np.eye(7)])
    assert there @ here == pytest.approx(np.eye(7), abs=1e-7)


def test_scale_gives_cotangents_more_places() -> None:
    @reversible
    def f(y: fixed, x: fixed):
        y += x / 60000

    tiny = 2.0**-32
    assert rg.vjp(f, 0.0, 1.0, scale=0)[1]({"y": tiny}).x == 0.0
    assert rg.vjp(f, 0.0, 1.0, scale=30)[1]({"y": tiny}).x == pytest.approx(tiny / 60000, rel=1e-3, abs=0)


@reversible
def product(z: Complex, a: Complex, b: Complex):
    z.add_product(a, b)


@pytest.mark.parametrize("zbar", [2 + 1j, np.complex128(2 + 1j), Complex(2.0, 1.0), {"re": 2.0, "im": 1.0}])
def test_cotangents_of_complex_numbers(zbar: Any) -> None:
    _, pullback = rg.vjp(product, 0j, 1 + 2j, 3 - 1j)
    found = pullback({"z": zbar})
    # ∂L/∂re + i ∂L/∂im: ā = z̄·conj(b)
    assert found.a == Complex(*_pair((2 + 1j) * (3 + 1j)))
    assert found.b == Complex(*_pair((2 + 1j) * (1 - 2j)))
    assert found.z == Complex(2.0, 1.0)


def _pair(z: complex) -> tuple[float, float]:
    return z.real, z.imag


@reversible
def products(z: Array[Complex, "n"], a: Array[Complex, "n"]):
    for i in range(len(z)):
        z[i].add_product(a[i], a[i])


@pytest.mark.parametrize(
    "zbar", [np.array([1j, 2.0]), [1j, 2 + 0j], [Complex(0.0, 1.0), Complex(2.0, 0.0)], [{"im": 1.0}, {"re": 2.0}]]
)
def test_cotangents_of_arrays_of_structs(zbar: Any) -> None:
    _, pullback = rg.vjp(products, np.zeros(2, complex), np.array([1 + 1j, 2.0]))
    found = pullback({"z": zbar})
    assert [complex(v) for v in found.a] == [1j * (2 - 2j), 8]
    assert [complex(v) for v in pullback([[None, 1 + 0j], None]).a] == [0, 4]


def test_structs_against_a_matrix() -> None:
    half = math.sqrt(0.5)
    q = Quaternion(0.0, 0.0, half, half)  # a quarter turn about z
    _, pullback = rg.vjp(rotate, Vector3(0.0, 0.0, 0.0), Vector3(1.0, 2.0, 3.0), q)
    found = pullback({"out": Vector3(1.0, 0.0, 5.0)})
    assert [found.v.x, found.v.y, found.v.z] == pytest.approx([0.0, -1.0, 5.0], abs=1e-8)


# ---------------------------------------------------------------------- jacobian


def test_jacobians_against_closed_forms() -> None:
    p = np.exp(X) / np.exp(X).sum()
    assert rg.jacobian(softmax, "x")(np.zeros(3), X) == pytest.approx(np.diag(p) - np.outer(p, p), abs=1e-8)
    m = np.arange(9.0).reshape(3, 3)
    by_matrix, by_vector = rg.jacobian(matvec, ("a", "x"))(np.zeros(3), a=m, x=X)
    assert by_vector.tolist() == m.tolist()
    assert by_matrix.tolist() == np.einsum("ij,k->ijk", np.eye(3), X).tolist()


def test_shapes_are_those_of_outputs_and_arguments() -> None:
    x, m = X, np.ones((3, 2))

    @reversible
    def f(out: Array[fixed, 2, 3], x: Array[fixed, 3], m: Array[fixed, 3, 2], t: fixed):
        for i in range(2):
            for j in range(3):
                out[i, j] += m[j, i] * x[j] * t

    every = rg.jacobian(f)(np.zeros((2, 3)), x, m, 2.0)
    assert every._fields == ("x", "m", "t")
    assert [v.shape for v in every] == [(2, 3, 3), (2, 3, 3, 2), (2, 3)]
    assert every.m[1, 2, 2, 1] == 2.0 * 2.0
    assert np.count_nonzero(every.m) == 6
    alone = rg.jacobian(f, "m")(np.zeros((2, 3)), x, m, 2.0)
    assert alone.tolist() == every.m.tolist()
    own = rg.jacobian(f, 0)(np.zeros((2, 3)), x, m, 2.0)
    assert own.reshape(6, 6).tolist() == np.eye(6).tolist()
    scalar = rg.jacobian(f, ("t",), outputs="t")(np.zeros((2, 3)), x, m, 2.0)
    assert scalar == (1.0,)
    assert isinstance(scalar[0], float)


@pytest.mark.parametrize(("outputs", "part"), [("a", slice(0, 3)), (1, slice(3, 6)), ("angle", slice(6, 7))])
def test_any_argument_can_be_the_outputs(outputs: Any, part: slice) -> None:
    found = rg.jacobian(turn, (0, 1, 2), outputs)(*parts(POINT))
    size = part.stop - part.start
    expected = central(turned, POINT)[part]
    assert np.hstack([np.reshape(v, (size, -1)) for v in found]) == pytest.approx(expected, abs=1e-6)


def test_jacobians_of_inverses() -> None:
    after = turn(*parts(POINT))
    blocks = [rg.jacobian(~turn, (0, 1, 2), k)(*after) for k in range(3)]
    rows = [np.hstack([np.reshape(v, (n, -1)) for v in row]) for row, n in zip(blocks, (3, 3, 1), strict=True)]
    assert np.vstack(rows) @ central(turned, POINT) == pytest.approx(np.eye(7), abs=1e-5)


def test_lognum_outputs_and_arguments() -> None:
    found = rg.jacobian(mixed, ("y", "x", "s"), outputs="s")(1.0, 3.0, 2, -4.0)
    assert found == pytest.approx((0.0, -4.0, 3.0), abs=1e-8)

    @reversible
    def f(s: Array[lognum, 2], t: lognum):
        s[0] *= t * t
        s[1] /= t

    found = rg.jacobian(f, ("s", "t"))([1e-100, 2e100], 5.0)
    assert found[0] == pytest.approx(np.diag([25.0, 0.2]), rel=1e-6)
    assert found[1] == pytest.approx([1e-99, -2e100 / 25], rel=1e-6, abs=0)


def test_a_struct_is_one_more_axis() -> None:
    found = rg.jacobian(product, ("a", "z"), outputs="z")(0j, 1 + 2j, 3 - 1j)
    assert found[0].tolist() == [[3.0, 1.0], [-1.0, 3.0]]
    assert found[1].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    of_array = rg.jacobian(products, "a")(np.zeros(2, complex), np.array([1 + 1j, 2.0]))
    assert of_array.shape == (2, 2, 2, 2)
    assert of_array[0, :, 0].tolist() == [[2.0, -2.0], [2.0, 2.0]]
    assert not of_array[0, :, 1].any()


# ---------------------------------------------------------------------- sparse jacobians


@reversible
def stencil(y: Array[fixed, "n"], x: Array[fixed, "n"], t: fixed):
    for i in range(1, len(x)):
        y[i] += x[i] * x[i - 1]
    y[0] += x[0] * t


def test_a_band_goes_back_in_two() -> None:
    n = 7
    x = np.arange(1.0, n + 1)
    pattern = np.eye(n, n + 1, dtype=bool) | np.eye(n, n + 1, -1, dtype=bool)
    pattern[0, n] = True
    found = rg.jacobian(stencil, ("x", "t"), pattern=pattern)(np.zeros(n), x, 0.5)
    dense = rg.jacobian(stencil, ("x", "t"))(np.zeros(n), x, 0.5)
    assert isinstance(found, rg.SparseJacobian)
    assert found.runs == 2
    assert found.shape == (n, n + 1)
    assert found.toarray().tolist() == np.column_stack(dense).tolist()
    assert found.indptr.tolist() == [0, *np.cumsum(pattern.sum(axis=1))]
    assert found.indices.tolist() == np.nonzero(pattern)[1].tolist()
    assert np.array_equal(found.to_scipy().toarray(), found.toarray())


@pytest.mark.parametrize(
    ("n", "shown"), [(6, "`y[5]` of `stencil`"), (7, "`y[5]`, … of `stencil`")], ids=["six", "seven"]
)
def test_rows_that_share_a_run_are_named_as_far_as_there_is_room(n: int, shown: str) -> None:
    pattern = np.eye(n, n + 1, dtype=bool)
    with pytest.raises(InputError, match=re.escape(shown)):
        rg.jacobian(stencil, ("x", "t"), pattern=pattern)(np.zeros(n), np.arange(1.0, n + 1), 0.5)


def test_patterns_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    n = 5
    x = np.arange(1.0, n + 1)
    pattern = np.eye(n) + np.eye(n, k=-1)
    dense = rg.jacobian(stencil, "x", pattern=pattern)(np.zeros(n), x, 0.5)
    for make in (sparse.csr_array, sparse.coo_matrix, sparse.csc_array, sparse.lil_array, sparse.dia_array):
        found = rg.jacobian(stencil, "x", pattern=make(pattern))(np.zeros(n), x, 0.5)
        assert found.toarray().tolist() == dense.toarray().tolist()
    # What is stored counts, once, though it be zero.
    twice = sparse.coo_array(
        (np.zeros(2 * n - 1 + 2), ([*range(n), *range(1, n), 2, 0], [*range(n), *range(n - 1), 2, 4]))
    )
    found = rg.jacobian(stencil, "x", pattern=twice)(np.zeros(n), x, 0.5)
    assert found.toarray().tolist() == dense.toarray().tolist()
    assert len(found.data) == 2 * n


def test_the_scale_and_lognums_of_sparse_jacobians() -> None:
    @reversible
    def f(s: Array[lognum, "n"], t: Array[lognum, "n"]):
        for i in range(len(s)):
            s[i] *= t[i]

    found = rg.jacobian(f, "t", pattern=np.eye(3), scale=4)([1e-50, -2.0, 3e50], [2.0, 4.0, -5.0])
    assert found.runs == 1
    assert found.data == pytest.approx([1e-50, -2.0, 3e50], rel=1e-8, abs=0)


@st.composite
def patterns(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    rows, columns = draw(st.integers(0, 8)), draw(st.integers(1, 8))
    cells = draw(st.lists(st.booleans(), min_size=rows * columns, max_size=rows * columns))
    return np.array(cells, dtype=bool).reshape(rows, columns)


@settings(max_examples=200)
@given(patterns())
def test_groups_share_no_column(pattern: np.ndarray[Any, Any]) -> None:
    groups = colour([np.flatnonzero(row) for row in pattern], pattern.shape[1])
    assert sorted(i for group in groups for i in group) == list(range(len(pattern)))
    for group in groups:
        assert pattern[group].sum(axis=0).max(initial=0) <= 1
    # Never more groups than a row has neighbours, and one; never fewer than a column has rows.
    meets = (pattern.astype(int) @ pattern.T.astype(int)) > 0
    np.fill_diagonal(meets, False)
    most = meets.sum(axis=1).max(initial=0)
    assert pattern.sum(axis=0).max(initial=0) <= len(groups) <= most + 1


def test_long_rows_choose_first() -> None:
    # In the given order the short rows would take one group, and each long one another of its own.
    rows = [np.array(columns) for columns in ([0], [2], [0, 1], [1, 2])]
    assert colour(rows, 3) == [[2, 1], [3, 0]]


@reversible
def bilinear(y: Array[fixed, "m"], x: Array[fixed, "n"], a: Array[fixed, "m", "n"]):
    for i in range(len(y)):
        for j in range(len(x)):
            if a[i, j] != 0:
                y[i] += a[i, j] * x[j] * x[j]


@settings(max_examples=20)
@given(patterns().filter(lambda p: len(p) > 0), st.data())
def test_sparse_is_dense(pattern: np.ndarray[Any, Any], data: st.DataObject) -> None:
    m, n = pattern.shape
    x = np.array(data.draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))) / 4
    arguments = np.zeros(m), x, pattern * (1.0 + np.arange(m * n).reshape(m, n))
    dense = rg.jacobian(bilinear, "x")(*arguments)
    found = rg.jacobian(bilinear, "x", pattern=pattern)(*arguments)
    assert found.toarray().tolist() == dense.tolist()
    assert found.runs <= m


def test_what_falls_outside_of_the_pattern_is_told() -> None:
    pattern = np.eye(3, dtype=bool)
    with pytest.raises(rg.InputError) as caught:
        rg.jacobian(stencil, ("x", "t"), pattern=np.column_stack([pattern, [False] * 3]))(np.zeros(3), X, 0.5)
    # Column 3 is t, which y[0] depends on; all three rows went back together.
    said = str(caught.value)
    assert caught.value.diagnostics[0].code == "RG0603"
    assert "one of `y[0]`, `y[1]`, `y[2]` of `stencil` depends on `t` (column 3)" in said
    alone = np.array([[1, 1, 1], [1, 1, 1], [1, 0, 1]])
    with pytest.raises(rg.InputError, match=r"\]: `y\[2\]` of `stencil` depends on `x\[1\]` \(column 1\)"):
        rg.jacobian(stencil, "x", pattern=alone)(np.zeros(3), X, 0.5)


def test_an_empty_row_is_looked_at_too() -> None:
    with pytest.raises(rg.InputError, match="`y\\[1\\]`"):
        rg.jacobian(stencil, "x", pattern=[[1, 0], [0, 0]])(np.zeros(2), X[:2], 0.5)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (np.eye(3), r"the pattern has shape \(3, 3\), and the Jacobian \(3, 4\)"),
        (np.ones(3), r"shape \(3,\)"),
        (np.ones((3, 4, 1)), r"shape \(3, 4, 1\)"),
        (1, r"shape \(\)"),
        ("all", "the pattern is of <U3"),
        ([[1], [1, 2]], "rows of different lengths"),
    ],
)
def test_patterns_that_do_not_fit(pattern: Any, said: str) -> None:
    with pytest.raises(rg.NotDifferentiable, match=said):
        rg.jacobian(stencil, ("x", "t"), pattern=pattern)(np.zeros(3), X, 0.5)


def test_without_scipy_there_is_a_way(monkeypatch: pytest.MonkeyPatch) -> None:
    found = rg.jacobian(stencil, "x", pattern=np.tri(3))(np.zeros(3), X, 0.5)
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == "scipy":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(rg.InputError, match="SciPy") as caught:
        found.to_scipy()
    assert "toarray" in str(caught.value)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("cotangents", "said"),
    [
        ({"q": 1.0}, "has no argument 'q'"),
        ({"n": 1.0}, "`n` of `mixed` is int: int has no derivative"),
        ((1.0,), "1 cotangent is given for the 4 arguments of `mixed`"),
        ((1.0,) * 5, "5 cotangents are given"),
        (1.0, "a mapping by name or a sequence by position, not of type float"),
        ("y", "not of type str"),
        ({"y": [1.0]}, r"the cotangent of `y` has shape \(1,\), and `y` is one fixed, of shape \(\)"),
        ({"y": "a"}, "the cotangent of `y` is a str"),
        ({"y": 1j}, "the cotangent of `y` is a complex"),
    ],
)
def test_cotangents_that_do_not_fit(cotangents: Any, said: str) -> None:
    _, pullback = rg.vjp(mixed, 1.0, 3.0, 2, 4.0)
    with pytest.raises(rg.NotDifferentiable, match=said):
        pullback(cotangents)


def test_cotangents_of_another_shape() -> None:
    _, pullback = rg.vjp(turn, *parts(POINT))
    with pytest.raises(rg.NotDifferentiable, match=r"of `a` has shape \(2,\), and `a` has shape \(3,\)"):
        pullback({"a": [1.0, 2.0]})
    with pytest.raises(rg.NotDifferentiable, match="of `a` has rows of different lengths"):
        pullback({"a": [[1.0], 2.0]})
    _, pullback = rg.vjp(products, np.zeros(2, complex), np.ones(2, complex))
    with pytest.raises(rg.NotDifferentiable, match=r"of `z` has shape \(3,\), and `z` has shape \(2,\)"):
        pullback({"z": [1j, 1j, 1j]})
    with pytest.raises(rg.NotDifferentiable, match=r"of `z\[1\]` is a Vector3, and `z\[1\]` is Complex"):
        pullback({"z": [1j, Vector3(1.0, 2.0, 3.0)]})
    with pytest.raises(rg.NotDifferentiable, match="has no field 'x'"):
        pullback({"z": [1j, {"x": 1.0}]})


@pytest.mark.parametrize(("value", "code"), [(1e12, "RG0601"), (math.nan, "RG0602"), (math.inf, "RG0601")])
def test_cotangents_without_a_word_name_their_argument(value: float, code: str) -> None:
    _, pullback = rg.vjp(turn, *parts(POINT))
    with pytest.raises(rg.InputError, match="cotangent of `b`: element 1") as caught:
        pullback({"b": [0.0, value, 0.0]})
    assert caught.value.diagnostics[0].code == code
    assert pullback({"angle": 1.0}) is not None


def test_outputs_without_a_derivative() -> None:
    with pytest.raises(rg.NotDifferentiable, match="`n` of `mixed` is int"):
        rg.jacobian(mixed, outputs="n")(1.0, 3.0, 2, 4.0)
    with pytest.raises(rg.NotDifferentiable, match="`n` of `mixed` is int"):
        rg.jacobian(mixed, "n")(1.0, 3.0, 2, 4.0)
    with pytest.raises(rg.NotDifferentiable, match="no argument 'q'"):
        rg.jacobian(mixed, outputs="q")


# ---------------------------------------------------------------------- formats with one or two places before the point


@reversible
def root(y: fixed, x: fixed):
    y += rg.sqrt(x)


@pytest.mark.parametrize("format", ["Q1.15", "Q2.14", "Q1.31", "Q2.30", "Q1.63", "Q2.62"])
def test_the_slope_of_a_root_fits_where_twice_the_root_does_not(format: str) -> None:
    """1 / 2√x in every mode, of cotangents of 1/4 and of 1 at the scale of the result."""
    for x in (0.3, 0.5, 0.96, 1.5 if format.startswith("Q2") else 0.75):
        found = [
            rg.grad(root, format=format)(0.0, x).x,
            rg.gradient_report(root, format=format)(0.0, x).gradients.x,
            *rg.vmap(rg.grad(root, format=format), (None, 0))(0.0, [x, x]).x,
            4 * rg.vjp(root, 0.0, x, format=format)[1]({"y": 0.25}).x,
            4 * rg.jvp(root, (0.0, x), {"x": 0.25}, format=format)[1].y,
        ]
        assert found == pytest.approx([0.5 / math.sqrt(x)] * len(found), rel=1e-3)
        bend = 4 * rg.hvp(root, format=format)((0.0, x), {"x": 0.25}).x
        assert bend == pytest.approx(-0.25 * x**-1.5, rel=2e-2)
