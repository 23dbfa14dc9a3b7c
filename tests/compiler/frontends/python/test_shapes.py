"""Other shapes of an array: `a.reshape(…)`, `a.ravel()`, `a.flatten()` name and copy the elements that NumPy's do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import retrograd as rg
from retrograd import Array, fixed, reversible
from retrograd.testing import check_gradient, check_inverse

Written = Callable[[Path, str], ModuleType]

HEAD = "import numpy as np\nimport retrograd as rg\nfrom retrograd import Array, fixed, reversible\n\n"
#: an expression of a 4 × 6 array, and whether it names elements of the array itself
SHAPES = [
    ("a.reshape(8, 3)", True),
    ("a.reshape((2, 2, 6))", True),
    ("a.reshape(2, -1, 3)", True),
    ("np.reshape(a, (12, 2))", True),
    ("a.ravel()", True),
    ("np.ravel(a)", True),
    ("a.reshape(-1)", True),
    ("a.reshape(1, 4, 1, 6, 1)", True),
    ("a[1].reshape(2, 3)", True),
    ("a[::-2].reshape(2, 3, 2)", True),
    ("a[:, ::-1].reshape(2, 2, 6)", True),
    ("a[:, 1].reshape(2, 2)", True),
    ("a.T.reshape(2, 3, 4)", True),
    ("a.reshape(8, 3).T.reshape(3, 2, 4)", True),
    ("a[1:3, :4].reshape(2, 2, 2)", True),
    ("a.T.reshape(-1)", False),
    ("a.T.reshape(4, 6)", False),
    ("a[:, ::2].reshape(6, 2)", True),
    ("a[:, :4].ravel()", False),
    ("a[1, ::-1].ravel()", False),
    ("np.ravel(a[:, 2])", False),
    ("a[:, 2].reshape(-1)", True),
    ("a[1:, None, :].ravel()", True),
    ("a[::-1].reshape(12, 2)", False),
    ("a.flatten()", False),
    ("(a * 2).reshape(3, 8)", False),
    ("(a + a).T.ravel()", False),
]


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory, written: Written) -> ModuleType:
    lines = []
    for k, (expression, own) in enumerate(SHAPES):
        value = np.arange(24.0).reshape(4, 6)
        shape = eval(expression, {"np": np, "a": value}).shape
        lengths = ", ".join(map(str, shape))
        lines.append(
            f"@reversible\ndef read_{k}(a: Array[fixed, 4, 6], b: Array[fixed, {lengths}]):\n    b += {expression}\n"
        )
        if own:
            lines.append(
                f"@reversible\ndef write_{k}(a: Array[fixed, 4, 6], b: Array[fixed, {lengths}]):\n"
                f"    s = {expression}\n    s += b\n"
            )
        elif "(a " not in expression:
            lines.append(
                f"@reversible\n"
                f"def copy_{k}(a: Array[fixed, 4, 6], b: Array[fixed, {lengths}], c: Array[fixed, 4, 6]):\n"
                f"    s = {expression}\n    s += b\n    c += a\n    s -= b\n"
            )
    return written(tmp_path_factory.mktemp("shapes") / "shapes_of_test.py", HEAD + "\n".join(lines))


@pytest.mark.parametrize(("k", "expression", "own"), [(k, *case) for k, case in enumerate(SHAPES)])
def test_shapes_are_those_of_numpy(shapes: ModuleType, k: int, expression: str, own: bool) -> None:
    a = np.random.default_rng(k).integers(-9, 9, (4, 6)) / 4
    wanted = eval(expression, {"np": np, "a": a})
    read = getattr(shapes, f"read_{k}")
    assert read(a, np.zeros(wanted.shape)).b.tolist() == wanted.tolist()
    assert own == np.shares_memory(wanted, a)
    if hasattr(shapes, f"copy_{k}"):
        assert getattr(shapes, f"copy_{k}")(a, np.ones(wanted.shape), np.zeros((4, 6))).c.tolist() == a.tolist()
    if own:
        write = getattr(shapes, f"write_{k}")
        b = np.random.default_rng(k).integers(-9, 9, wanted.shape) / 4
        changed = a.copy()
        view = eval(expression, {"np": np, "a": changed})
        view += b
        found = write(a, b)
        assert found.a.tolist() == changed.tolist()
        assert (~write)(*found).a.tolist() == a.tolist()


@reversible
def add(ys: Array[fixed, "n", "m"], k: fixed) -> None:
    ys += k
    ys[0] += k * k


@reversible
def through(y: fixed, a: Array[fixed, 4, 6], k: fixed) -> None:
    """Shapes as arguments, as views, in loops, and computed."""
    add(a.reshape(8, 3), k)
    with rg.view(-a[1].reshape(2, 3).T) as m:
        m[2, 1] += k
    for i, row in enumerate(a.reshape(-1, 2)):
        y += row[0] * row[1] + a.T.ravel()[i] ** 2
    total = a.sum()
    y += total * a.ravel()[7]


def test_shapes_in_calls_views_loops_and_derivatives() -> None:
    a, k = np.arange(24.0).reshape(4, 6) / 8, 0.5
    wanted = a.copy()
    wanted.reshape(8, 3)[:] += k
    wanted.reshape(8, 3)[0] += k * k
    wanted[1, 5] -= k
    pairs = wanted.reshape(-1, 2)
    y = (pairs[:, 0] * pairs[:, 1] + wanted.T.ravel()[:12] ** 2).sum() + wanted.sum() * wanted.ravel()[7]
    found = through(0.0, a, k)
    assert found.a.tolist() == wanted.tolist()
    assert found.y == pytest.approx(y, abs=1e-8)
    check_inverse(through, 0.0, a, k)
    check_gradient(through, 0.0, a, k)


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("b = a.reshape(4, 5)", "RG0712"),
        ("b = a.reshape(-1, -1)", "RG0712"),
        ("b = a.reshape(0, -1)", "RG0712"),
        ("b = a.reshape(-4, -6)", "RG0712"),
        ("b = a.reshape(n, 6)", "RG0717"),
        ("b = a.reshape(2.0, 12)", "RG0717"),
        ("b = a.reshape(4, 6, order='F')", "RG0715"),
        ("b = a.ravel(3)", "RG0715"),
        ("b = rg.zeros(n)\n    c = b.reshape(2, 2)", "RG0717"),
        ("with rg.view(a.T.ravel()) as m:\n        m[0] += 1", "RG0709"),
    ],
)
def test_what_is_no_shape_is_refused(tmp_path: Path, written: Written, statement: str, code: str) -> None:
    text = f"@reversible\ndef f(a: Array[fixed, 4, 6], n: int):\n    {statement}\n"
    with pytest.raises(rg.CompileError, match=code):
        written(tmp_path / "shapes_refused.py", HEAD + text).f(np.zeros((4, 6)), 4)


#: two slices that are exchanged, i and j, and the code where a word of one is another word of the other
EXCHANGES = [
    ("a[0:2]", "a[1:3]", 0, 0, "RG0705"),
    ("a[:]", "a[::-1]", 0, 0, "RG0705"),
    ("b[0:2]", "b[1:3]", 0, 0, "RG0705"),
    ("a[i:i + 2]", "a[j:j + 2]", 1, 2, "RG0805"),
    ("b[i:i + 2]", "b[j:j + 2]", 1, 0, "RG0805"),
    ("a[i:i + 2]", "a[j:j + 2]", 0, 2, ""),
    ("a[::2]", "a[1::2]", 0, 0, ""),
    ("b[i]", "b[j]", 1, 1, ""),
    ("b[i]", "b[j]", 0, 2, ""),
    ("b[:, i]", "b[:, j]", 0, 1, ""),
    ("b[:, 0]", "b[:, 1]", 0, 0, ""),
    ("b[:2, 0]", "b[1:, 1]", 0, 0, ""),
]


@pytest.mark.parametrize(("x", "y", "i", "j", "code"), EXCHANGES)
def test_slices_are_exchanged_where_they_have_no_common_words(
    written: Written, tmp_path: Path, x: str, y: str, i: int, j: int, code: str
) -> None:
    arguments = "a: Array[fixed, 4], b: Array[fixed, 3, 2], i: int, j: int"
    f = written(tmp_path / "e.py", HEAD + f"@reversible\ndef f({arguments}):\n    {x}, {y} = {y}, {x}\n").f
    a, b = np.arange(4.0), np.arange(6.0).reshape(3, 2)
    if code:
        with pytest.raises(rg.RetrogradError, match=f"{code}.*two slices that overlap are exchanged"):
            f(a, b, i, j)
        return
    found = f(a, b, i, j)
    names = {"a": a.copy(), "b": b.copy(), "i": i, "j": j}
    exec(f"{x}, {y} = {y}.copy(), {x}.copy()", names)
    assert (found.a.tolist(), found.b.tolist()) == (names["a"].tolist(), names["b"].tolist())
    back = (~f)(*found)
    assert (back.a.tolist(), back.b.tolist()) == (a.tolist(), b.tolist())


@reversible
def unpacked(y: fixed, x: Array[fixed, 2], m: Array[fixed, 2, 2]):
    a, b = x  # numbers are new variables
    (c, d), row = m  # rows are other names
    a += 1
    row[0] += d
    [e, f] = m[1, :]
    y += a * b * 100 + c * 10 + e * f
    a -= 1


def test_arrays_are_unpacked(tmp_path: Path, written: Written) -> None:
    given = 0.0, [2.0, 3.0], [[1.0, 2.0], [3.0, 4.0]]
    found = unpacked(*given)
    assert (found.y, found.x.tolist(), found.m.tolist()) == (930, [2, 3], [[1, 2], [5, 4]])
    check_inverse(unpacked, *given)
    check_gradient(unpacked, *given)
    for statement, words in (("a, b, c = x", "3 names for 2 values"), ("a, b = x + 1", "not several values")):
        f = written(tmp_path / "u.py", HEAD + f"@reversible\ndef f(x: Array[fixed, 2]):\n    {statement}\n").f
        with pytest.raises(rg.CompileError, match=f"RG0703.*{words}"):
            f([1.0, 2.0])
    f = written(
        tmp_path / "w.py",
        HEAD + "@reversible\ndef f(y: fixed, x: Array[fixed, 2]):\n    t = x + 1\n    a, b = t\n    y += a * b\n",
    ).f
    assert f(0.0, [1.0, 2.0]).y == 6
