"""Functions of Python and NumPy on values of a run, comprehensions and membership: the values and slopes of Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from retrograd.compiler.language.foreign import OF_ARRAYS, WRITTEN

import retrograd as rg

Written = Callable[[Path, str], ModuleType]

HEAD = "import math\nimport numpy as np\nimport retrograd as rg\nfrom retrograd import Array, Stack, fixed, reversible\n\nK = 3\n"
#: expressions over x, y, n, a, whose values Python has for the same text
EXPRESSIONS = [
    "math.hypot(x, y)", "math.ceil(x)", "math.trunc(x)", "math.trunc(-x)", "math.copysign(y, x)", "math.copysign(y, -x)", "math.fmod(y, x)",
    "math.fmod(-y, x)", "math.pow(x, 2)", "math.pow(n, 3)", "math.fabs(-x)", "math.degrees(x)", "math.radians(x)", "math.tanh(x)", "math.log2(y)",
    "math.expm1(x)", "math.asin(x)", "math.cbrt(y)", "math.erf(x)", "math.ceil(x) // 2", "pow(x, 2)", "pow(n, 3)", "pow(y, x)",
    "divmod(n, 3)[0]", "divmod(n, 3)[1]", "divmod(y, x)[1]", "np.abs(-x)", "np.fabs(x)", "np.sign(x)", "np.sign(-n)", "np.floor(y)", "np.ceil(y)",
    "np.trunc(-y)", "np.rint(y + x)", "np.maximum(x, y)", "np.minimum(x, y)", "np.clip(x, 0, y)", "np.clip(y, 0.25, 1)", "np.where(x > y, x, y * 2)",
    "np.sqrt(x)", "np.exp(x)", "np.log(x)", "np.sin(x)", "np.cos(x)", "np.tan(x)", "np.arctan(x)", "np.arctan2(x, y)", "np.arcsin(x)", "np.hypot(x, y)",
    "np.power(x, 2)", "np.square(x)", "np.mod(y, x)", "np.floor_divide(n, 2)", "np.multiply(x, y)", "np.divide(x, y)", "np.negative(x)",
    "np.sum(a)", "np.mean(a)", "np.max(a)", "np.min(a)", "np.dot(a, a)", "np.matmul(a, a)", "a.sum()", "a.mean()", "a.max()", "a.min()", "a.dot(a)",
    "np.inner(a, a)", "np.outer(a, a[1:])[2, 1]", "np.transpose(a)[1]", "np.diff(a)[1]", "np.average(a)", "np.var(a)",
    "np.ptp(a)", "np.round(y + x)", "np.float64(n)", "np.any(a > y)", "np.all(a > x)", "np.all(a > y)",
    "np.any(a > 9)", "np.count_nonzero(a - 2)", "np.heaviside(x, y)", "np.heaviside(-x, y)",
    "np.heaviside(n - 5, 0.5)", "np.logaddexp(x, y)", "np.logaddexp(x, x)", "np.positive(x)",
    "np.logical_and(x, n > 4)", "np.logical_or(n > 6, n < 4)",
    "np.logical_xor(x, y)", "np.logical_not(n - 5)", "np.amax(a)", "np.amin(a)", "np.diff(np.outer(a, a))[1, 1]",
    "np.inner(np.outer(a, a), np.outer(a, a[::-1]))[0, 2]", "np.var(np.outer(a, a))",
    "(a * 2).sum()", "np.exp(a).sum()", "np.clip(a, 1, 2).sum()", "np.maximum(a, x).sum()", "np.where(a > y, a, 0).sum()",
    "all((x > 0, y > 0))", "all([x > 0, y < 0])", "any((x < 0, y < 0))", "any(v > 2 for v in a)", "all(v > 0 for v in a)", "all(())", "any([])",
    "sum([x, y])", "sum((x, y, n))", "max((x, y))", "min([x, y, n])", "max(v * x for v in a)",
    "n in (1, 2, 5)", "n in [1, 2]", "n not in (1, 5)", "n in range(3, 8)", "n in {5, 6}", "x in a", "2.0 in a", "n in ()",
    "sum(v * v for v in a)", "sum([v * w for v in a for w in (1, x)])", "sum(v * i for i, v in enumerate((x, y, 2)))", "sum(p * q for p, q in zip(a, (x, y)))", "[v for v in reversed(a)][0]", "sum(i * p * q for i, (p, q) in enumerate(zip(a, a)))", "[v * 2 for v in a][1]",
    "sum(a[i] * a[i + 1] for i in range(2))", "sum(v for v in (x, y, 4) if K > 2)", "sum(i for i in range(5) if i % 2)", "sum([p + q for p, q in ((x, y), (y, n))])",
    "sum(sum(v * w for v in a) for w in (x, y))",
]  # fmt: skip
X, Y, N, A = 0.75, 2.5, 5, np.array([1.0, 2.0, 3.5])
#: kinks at this point, and functions with no slope
STEP = 1e-4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, written: Written) -> ModuleType:
    parameters = "out: fixed, x: fixed, y: fixed, n: int, a: Array[fixed, 3]"
    text = HEAD + "\n".join(
        f"@reversible\ndef f{k}({parameters}):\n    out += {e}\n" for k, e in enumerate(EXPRESSIONS)
    )
    return written(tmp_path_factory.mktemp("foreign") / "foreign_of_test.py", text)


def value(text: str, x: float, y: float) -> float:
    return float(eval(text, {"math": math, "np": np, "K": 3, "x": x, "y": y, "n": N, "a": A}))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_the_values_and_slopes_of_python(made: ModuleType, expression: str) -> None:
    if "cbrt" in expression and not hasattr(math, "cbrt"):
        return  # Python 3.10 has no math.cbrt
    f = getattr(made, f"f{EXPRESSIONS.index(expression)}")
    assert f(0.0, X, Y, N, A).out == pytest.approx(value(expression, X, Y), abs=3e-8)
    found = rg.grad(f, ("x", "y"))(0.0, X, Y, N, A)
    for slope, (dx, dy) in zip(found, ((STEP, 0.0), (0.0, STEP)), strict=True):
        difference = (value(expression, X + dx, Y + dy) - value(expression, X - dx, Y - dy)) / (2 * STEP)
        assert slope == pytest.approx(difference, abs=2e-5)


def test_every_function_that_is_written_otherwise_is_among_the_expressions() -> None:
    texts = " ".join(EXPRESSIONS)
    names = {f.__name__ for f in WRITTEN | OF_ARRAYS}
    assert len(names) > 30
    left_out = {name for name in names if f"{name}(" not in texts}
    assert left_out <= {"absolute", "add", "subtract", "remainder", "vdot", "degrees", "radians"}


def test_vdot_conjugates_and_flattens() -> None:
    """Σ conj(aᵢ) bᵢ over all elements."""

    @rg.reversible
    def real(y: rg.fixed, a: rg.Array[rg.fixed, "n", "m"], b: rg.Array[rg.fixed, "k"]):
        y += np.vdot(a, b)

    @rg.reversible
    def wide(y: complex, a: rg.Array[complex, "n"], b: rg.Array[complex, "n"]):
        y += np.vdot(a, b)

    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0.5, -1.0, 2.0, 0.25])
    z, w = np.array([1 + 1j, 2j]), np.array([3.0, 1 - 1j])
    assert real(0.0, a, b).y == np.vdot(a, b)
    assert wide(0j, z, w).y == np.vdot(z, w) == 1 - 5j


def test_vdot_of_numbers_is_refused_with_a_product() -> None:
    @rg.reversible
    def numbers(y: rg.fixed, a: rg.fixed, x: rg.fixed):
        y += np.vdot(a, x)

    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*`np\.vdot` takes arrays[\s\S]*write `\*`"):
        numbers(0.0, 0.5, 2.0)


def test_one_value_in_each_place() -> None:
    """np.full, full_like, zeros_like and ones_like: with a value of the run, and with a length of the run."""

    @rg.reversible
    def alike(y: rg.Array[rg.fixed, "n"], n: rg.Array[int, "n"], x: rg.fixed, k: int):
        y += np.full_like(y, x * 2) * np.ones_like(n) + np.zeros_like(n) + np.full_like(n, k)

    @rg.reversible
    def filled(y: rg.Array[rg.fixed, 2, 3], x: rg.fixed, k: int):
        y += np.full(y.shape, x) @ np.full((3, 3), k) + np.full(3, x)

    ns, x, k = np.array([3, 4, 5]), 0.25, 7
    zeros = np.zeros(3)
    expected = np.full_like(zeros, x * 2) * np.ones_like(ns) + np.zeros_like(ns) + np.full_like(ns, k)
    assert list(alike(zeros, ns, x, k).y) == list(expected)
    flat = np.full((2, 3), x) @ np.full((3, 3), k) + np.full(3, x)
    assert np.array_equal(filled(np.zeros((2, 3)), x, k).y, flat)
    _, back = rg.vjp(filled, np.zeros((2, 3)), x, k)
    assert back({"y": np.ones((2, 3))}).x == 6 * (3 * k + 1)


NOT_NUMPYS = ["np.var(z)", "np.ptp(b)", "np.subtract(b, b)[0]", "np.negative(b)[1]"]
#: of bools, in which NumPy's sum is `or`
OF_BOOLS = [
    "np.inner(b, b)", "np.vdot(b, b)", "np.dot(b, b)", "np.matmul(b, b)", "np.diff(b)[0]", "np.add(b, b)[0]",
    "np.add(b, True)[1]", "np.multiply(b, b)[1]", "np.outer(b, b)[0, 2]", "np.add(np.max(b), b)[0]",
    "np.add(np.multiply(b, b), np.floor(b))[0]",
]  # fmt: skip


@pytest.mark.parametrize("expression", OF_BOOLS)
def test_bools_as_numpy_takes_them(expression: str, tmp_path: Path, written: Written) -> None:
    b = np.array([True, False, True])
    head = f"{HEAD}@reversible\ndef f(y: int, b: Array[bool, 3]):\n    y += "
    module = written(tmp_path / f"bools_{OF_BOOLS.index(expression)}.py", f"{head}{expression}\n")
    assert module.f(0, b).y == eval(expression, {"np": np, "b": b})


@pytest.mark.parametrize("expression", NOT_NUMPYS)
def test_where_numpy_has_another_value_the_call_is_refused(expression: str, tmp_path: Path, written: Written) -> None:
    """A variance of complex numbers is of |z − mean|²; bools have no difference. What is advised has a value."""
    z, b = np.array([1 + 1j, 2 - 1j, -0.5j]), np.array([True, False, True])
    head = f"{HEAD}@reversible\ndef f(y: fixed, z: Array[complex, 3], b: Array[bool, 3]):\n    y += "
    name = f"refused_{NOT_NUMPYS.index(expression)}"
    with pytest.raises(rg.CompileError, match="RG0703") as refused:
        written(tmp_path / f"{name}.py", f"{head}{expression}\n").f(0.0, z, b)
    advised = re.search("write `([^`]*)`", str(refused.value.diagnostics[0].hint))
    assert advised is not None
    text = advised[1] + re.findall(r"\)((?:\[\d\])?)$", expression)[0]
    text = f"({advised[1]}){text[len(advised[1]) :]}"
    found = written(tmp_path / f"{name}_advised.py", f"{head}{text}\n").f(0.0, z, b).y
    assert found == pytest.approx(float(eval(text, {"np": np, "rg": NumPyAsLanguage, "z": z, "b": b.astype(int)})))


class NumPyAsLanguage:
    """The functions of `rg` that advice names."""

    sum, max, min = np.sum, np.max, np.min


def test_full_like_keeps_the_numbers_of_its_array() -> None:
    """Where NumPy would cut 2.5 to 2, the call is refused, and what is advised has the number."""

    @rg.reversible
    def cut(y: rg.Array[rg.fixed, 2], n: rg.Array[int, 2], x: rg.fixed):
        y += np.full_like(n, x)

    @rg.reversible
    def kept(y: rg.Array[rg.fixed, 2], n: rg.Array[int, 2], x: rg.fixed):
        y += np.full(n.shape, x)

    with pytest.raises(rg.CompileError, match=r"RG0703[\s\S]*makes int of `x`[\s\S]*write `np\.full\(n\.shape, x\)`"):
        cut([0.0, 0.0], [1, 2], 2.5)
    assert list(kept([0.0, 0.0], [1, 2], 2.5).y) == [2.5, 2.5]


REFUSED = {
    "sum(v for v in (x, y) if v > 0)": "RG0717",
    "[v for v in n]": "RG0717",
    "math.gcd(n, 2)": "RG0701",
    "np.clip(x, 0)": "RG0701",
    "pow(n, 2, 3)": "RG0701",
    "all(x)": "RG0703",
    "n in n": "RG0701",
    "a.std()": "RG0702",
}  # fmt: skip


@pytest.mark.parametrize("expression", REFUSED)
def test_other_calls_are_refused(tmp_path: Path, written: Written, expression: str) -> None:
    parameters = "out: fixed, x: fixed, n: int, a: Array[fixed, 3], y: fixed"
    text = f"{HEAD}@reversible\ndef f({parameters}):\n    out += {expression}\n"
    module = written(tmp_path / "refused_of_test.py", text)
    with pytest.raises(rg.CompileError, match=REFUSED[expression]):
        module.f(0.0, X, N, A, Y)


@rg.reversible
def of_named_length(out: rg.fixed, a: rg.Array[rg.fixed, "n"]) -> None:
    out += sum(v * v for v in a)


@rg.reversible
def truths(n: int, s: rg.Stack[int, 4]) -> None:
    if not s:
        n += 1
    n += 2 * bool(s)
    assert bool(s) or not s


@rg.reversible
def extremes(y: rg.fixed, a: rg.fixed, b: rg.fixed) -> None:
    y += rg.max(a, b) - rg.min(a, b)


def test_stacks_are_true_or_false_and_reductions_take_numbers() -> None:
    assert truths(0, []).n == 1
    assert truths(0, [7]).n == 2
    assert extremes(0.0, 1.5, 4.0).y == 2.5


def test_the_length_of_an_argument_is_known() -> None:
    assert of_named_length(0.0, A).out == pytest.approx(float(A @ A))
