"""Functions of NumPy on arrays of the run: values, kinds of numbers and slopes beside NumPy's, for the same text."""

from __future__ import annotations

import ast
import itertools
import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.functional.numpy_functions import ACCUMULATED, EXPRESSIONS
from retrograd.compiler.language.foreign import OF_ARRAYS, WRITTEN
from retrograd.isa.diagnostics import CompileError

import retrograd as rg


def function_of(text: str, head: str, **names: Any) -> Callable[..., Any]:
    """A Python function with this value."""
    source = f"def f({head}):\n    return {text}\n"
    name = f"<{head}: {text}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"np": np, "rg": rg, "fixed": rg.fixed, "uint": rg.uint, **names}
    exec(compile(source, name, "exec"), scope)
    made: Callable[..., Any] = scope["f"]
    return made


# -----------------------------------------------------------------------------
# Every function of the tables for every kind of number: NumPy's value, or a refusal.

NUMBERS: dict[str, Any] = {
    "bool": np.array([[True, False], [True, True]]), "int": np.array([[3, -2], [2, 5]]),
    "uint": np.array([[3, 2], [2, 5]], np.uint64), "fixed": np.array([[0.75, -0.5], [0.5, 2.0]]),
}  # fmt: skip
FUNCTIONS = [
    f
    for f in dict.fromkeys(
        [*WRITTEN, *OF_ARRAYS, *ACCUMULATED, *EXPRESSIONS, np.sum, np.mean, np.min, np.max, np.hypot]
    )
    if getattr(f, "__module__", None) != "math" and f is not pow
]


def arity(f: Any) -> int:
    text = WRITTEN.get(f) or OF_ARRAYS.get(f)
    if text is None:
        return 2 if f is np.hypot else 1
    return len({n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} & {"x", "y", "z"})


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_kinds_of_numbers(f: Any) -> None:
    """Numbers, vectors and matrices of every kind: NumPy's value, a bool where NumPy has one, or a refusal.

    Trap: `or` and not a sum is NumPy's addition of bools, so a bool must not become 1 on the way.
    """
    names = "xyz"[: arity(f)]
    computed = 0
    for kinds, form in itertools.product(itertools.product(NUMBERS, repeat=arity(f)), range(3)):
        if form and "uint" in kinds:
            continue  # an array of unsigned words is one of ints, where these are in its range
        given = [NUMBERS[k][::-1].copy() if i % 2 else NUMBERS[k] for i, k in enumerate(kinds)]
        given = [(x[0, 0], x[0], x)[form] for x in given]
        with warnings.catch_warnings(action="ignore"):
            try:
                wanted = np.asarray(f(*given))
            except (TypeError, ValueError, IndexError):
                wanted = None
        head = ", ".join(names if form else [f"{n}: {k}" for n, k in zip(names, kinds, strict=True)])
        g = rg.functional(function_of(f"np.array([called({', '.join(names)})])", head, called=f))
        try:
            (found,) = g(*[x if form else x.item() for x in given])
        except (CompileError, rg.ProgramTrap):
            continue
        assert wanted is not None, (kinds, form, found)
        near = 2e-3 if wanted.dtype == np.float16 else 1e-7
        assert found == pytest.approx(wanted.astype(float), abs=near, rel=near), (kinds, form)
        assert (found.dtype == bool) == (wanted.dtype == bool), (kinds, form)
        computed += 1
    assert computed


# -----------------------------------------------------------------------------
# Values and slopes.

INTS = np.array([1, 0])
#: over t: a number, v: (3,), M: (3, 2), n: ints (3,), c: bools (3,)
TEXTS = [
    "(M @ M.T).T.ravel()", "M[1:].T.sum(axis=0)", "np.array([np.sum(r) * x for r, x in zip(M, v[:2])])",
    "np.cumsum(v)", "np.cumsum(M, axis=0)", "M.cumsum(axis=-1)", "np.cumsum(M * t)", "np.cumprod(v)", "np.cumsum(c)",
    "np.prod(v)", "np.prod(M, axis=1)", "M.prod(axis=0, keepdims=True)", "np.prod(0.5 * M)",
    "np.maximum.accumulate(v)", "np.einsum('ij,i->j', M, v)", "np.einsum('ij, ik', M, M)", "np.einsum('i,i', v, v)",
    "np.einsum('ij->ji', M)", "np.einsum('ij->', t * M)", "np.einsum('ii->i', M.T @ M)",
    "np.einsum('i,ij,ik->jk', v, M, M)", "np.einsum('i,j->ij', n, v)", "v[n]", "M[n]", "v[INTS]", "M[[0, 2]]",
    "v[[0, -1, 1]]", "M[n, 0]", "M[:, INTS]", "M[:, n // 2]", "M[n, n // 2]", "M[[0, 1], [1, 0]]", "M[1:, INTS]",
    "M[..., INTS]", "M[n][:, 0]", "(2 * M)[n]", "np.eye(3)[n] @ v", "M.T[:, n]", "np.stack([M, M])[:, n, 1]",
    "v[np.argmax(v)]", "v[n] ** 2 @ v", "M[np.newaxis, [0, 1]]", "M.reshape(6)", "M.reshape(2, -1)",
    "np.reshape(t * M, (2, 3))", "M.reshape((len(v) * 2,))", "M.T.reshape(-1)", "(2 * M).ravel()", "M.flatten()",
    "np.transpose(M)", "M.T", "M.transpose(1, 0)", "M.swapaxes(0, 1)", "np.flip(v)", "np.flip(M, axis=1)",
    "np.roll(v, 1)", "np.tile(v, 2)", "np.repeat(v, 2)", "v.repeat(2)", "np.squeeze(v[None])", "np.expand_dims(v, 0)",
    "np.hstack([v, t * v])", "np.vstack([v, v[::-1]])", "np.stack([v, v], axis=1)", "np.concatenate([M, M], axis=1)",
    "np.column_stack([v, M])", "np.diag(v)", "np.diag(M @ M.T)", "np.tril(M @ M.T)", "np.triu(M)",
    "np.take(M, [0, 1], axis=1)", "np.broadcast_to(v, (2, 3))", "np.roll(np.hstack([v, t]), 2)",
    "np.tile(np.stack([v, v]), 2)", "np.array(v) * 2", "np.asarray(M)[0]", "np.argmin(v)", "np.argmax(M, axis=1)",
    "M.argmin(axis=0)", "np.argmin(M)", "v.argmax()", "np.argmax(c)", "np.argmax(v > t)", "np.std(v)",
    "np.std(M, axis=0)", "v.var()", "np.var(M, axis=1, ddof=1)", "np.var(v, ddof=1)", "np.linalg.norm(v)",
    "np.linalg.norm(M)", "np.linalg.norm(M, axis=1)", "np.linalg.norm(M, ord=1, axis=0)",
    "np.linalg.norm(v, np.inf, -1)", "np.trace(M.T @ M)", "np.ptp(M, axis=0)", "np.any(M > 0.9, axis=0)",
    "np.all(M > -1, axis=1)", "v.any()", "np.count_nonzero(M > 0, axis=0)", "np.outer(v, v)", "np.vdot(M, M)",
    "np.diff(v)", "np.diff(M)", "np.logaddexp(v, t)", "np.logaddexp(v, v)", "np.logaddexp(t, 0)",
    "np.where(v > 0, v, t * v)", "np.where(c, v, 0.0)", "np.clip(v, -0.5, 1.0)", "v.clip(-0.5, t)",
    "np.linspace(0, 1, 3) * v", "np.arange(3) * v", "np.logical_and(c, v > 0)", "np.logical_not(c)", "np.add(c, c)",
    "np.multiply(c, v > 0)", "np.dot(c, c)", "np.linalg.solve(M.T @ M + t * np.eye(2), M[0])",
    "np.linalg.solve(np.diag(n + 1), t * M)", "np.linalg.inv(M.T @ M + t * np.eye(2))",
    "np.linalg.det(M @ M.T + t * np.eye(3))", "np.log(np.diag(np.linalg.cholesky(M.T @ M + t * np.eye(2))))",
    "np.linalg.solve(np.diag(n + 1), n)", "np.array([x * t for x in v])",
    "np.stack([np.sum(v[i:i + 2] * v[:2]) for i in range(2)])", "np.array([t * k for k in range(3)])",
    "np.array([k * np.sum(r) * x for k, (r, x) in enumerate(zip(M, v))])",
    "np.array([np.array([x * y for x in v[:2]]) for y in v])", "np.stack([M.T @ r for r in M @ M.T])",
    "np.stack([2 * r for r in (v, v[::-1])])", "np.array([i for i in range(len(v))]) * v", "np.sum(t)",
    "np.sum(M, 1)", "np.max([t, 0.5, 2 * t])", "np.mean([v, t * v], axis=0)", "max([t, 0.5])", "np.amax(M, axis=0)",
    "np.max(c)",
]  # fmt: skip
GIVEN: dict[str, Any] = {
    "t": 0.75, "v": np.array([0.5, -1.0, 2.0]), "M": np.array([[1.0, 0.5], [-0.5, 2.0], [0.25, 1.5]]),
    "n": np.array([2, 0, 2]), "c": np.array([True, False, True]),
}  # fmt: skip
HEAD = ", ".join(GIVEN)


def by_differences(f: Callable[..., Any], name: str) -> Any:
    """∂f/∂x by central differences."""
    step = 1e-4
    x = np.asarray(GIVEN[name])
    out = np.empty(x.shape)
    for at in np.ndindex(x.shape):
        move = np.zeros(x.shape)
        move[at] = step
        ends = [f(**GIVEN | {name: x + sign * move}) for sign in (1, -1)]
        out[at] = (ends[0] - ends[1]) / (2 * step)
    return out


@pytest.mark.parametrize("text", TEXTS)
def test_values_and_slopes(text: str) -> None:
    plain = function_of(text, HEAD, INTS=INTS)
    wanted = np.asarray(plain(**GIVEN))
    found = np.asarray(rg.functional(plain)(*GIVEN.values()))
    assert found.shape == wanted.shape
    assert found.astype(float) == pytest.approx(wanted.astype(float), abs=1e-7)
    weighed = function_of(f"np.sum(np.sin(({text}) * 0.5))", HEAD, INTS=INTS)
    slopes = rg.grad(rg.functional(weighed))(*GIVEN.values())
    for name in "tvM":
        assert getattr(slopes, name) == pytest.approx(by_differences(weighed, name), abs=1e-5), name


def test_a_gradient_inside_of_a_program() -> None:
    """The derivative of a copy by indices adds up where an element is taken twice, inside of a program, too."""

    @rg.functional
    def inside(v, n, M):
        picked = lambda v: np.sum(v[n] ** 2) + np.prod(v) + np.einsum("ij,i->", M, np.cumsum(v))
        return rg.grad(picked)(v)

    v, n, M = GIVEN["v"], GIVEN["n"], GIVEN["M"]
    counts = np.bincount(n, minlength=3)
    wanted = 2 * v * counts + np.prod(v) / v + np.cumsum(M.sum(axis=1)[::-1])[::-1]
    assert inside(v, n, M) == pytest.approx(wanted, abs=1e-7)


#: text, code, part of the message or hint, what is advised, as it is written instead
REFUSED = [
    ("v[c]", "RG0703", "np.where", "np.where(c, v, 0.0)"),
    ("M[[5]]", "RG0713", "out of bounds", None),
    ("M[n, None]", "RG0703", "x[n][None]", "M[n][None]"),
    ("np.stack([M, M])[n // 2, :, n // 2]", "RG0703", "np.moveaxis", "np.moveaxis(np.stack([M, M]), 1, 2)[n // 2, 0]"),
    ("M[n[0]:, n]", "RG0703", "take the slice first", None),
    ("np.einsum('...i->i', M)", "RG0703", "letter", "np.einsum('ji->i', M)"),
    ("np.einsum('ij,jk->ik', M, M)", "RG0712", "axis `j` has lengths", None),
    ("np.einsum('i,i', c, c)", "RG0703", "1 * x", "np.einsum('i,i', 1 * c, c)"),
    ("np.einsum('i->ii', v)", "RG0703", "once", None),
    ("np.cumsum([v, M])", "RG0712", "inhomogeneous", None),
    ("np.cumsum(v, axis=1)", "RG0712", "no axis 1", None),
    ("np.prod(v, dtype=float)", "RG0715", "dtype", "np.prod(v)"),
    ("np.roll(v, n[0])", "RG0717", "must be known", None),
    ("np.reshape(M, (4, 2))", "RG0712", "cannot reshape", None),
    ("np.linalg.norm(v, ord=1)", "RG0703", "axis=-1", "np.linalg.norm(v, ord=1, axis=-1)"),
    ("np.subtract(c, c)", "RG0703", "c - c", "c - c"),
    ("np.ptp(c)", "RG0703", "c.max() - c.min()", "c.max() - c.min()"),
    ("np.array([x for x in v if x > 0])", "RG0703", "no length that is known", "np.array([max(x, 0.0) for x in v])"),
    ("np.linalg.inv(M)", "RG0712", "no square matrix", "np.linalg.inv(M.T @ M)"),
    ("np.linalg.det(np.stack([M.T, M.T]))", "RG0712", "np.stack([np.linalg.inv(a) for a in A])", None),
    ("np.array([k * t for k in range(n[0])])", "RG0703", "no length that is known", None),
    ("np.array([(x, t) for x in v])", "RG0703", "rows a tuple", "np.array([np.array([x, t]) for x in v])"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "said", "instead"), REFUSED)
def test_refusals(text: str, code: str, said: str, instead: str | None) -> None:
    with pytest.raises(CompileError) as refused:
        rg.functional(function_of(text, HEAD))(*GIVEN.values())
    [diagnostic] = refused.value.diagnostics
    assert diagnostic.code == code
    assert said in f"{diagnostic.message} {diagnostic.hint}"
    if instead is not None:
        plain = function_of(instead, HEAD)
        integers = GIVEN | {"c": GIVEN["c"].astype(int)} if " - " in instead or "1 * c" in instead else GIVEN
        assert rg.functional(plain)(*GIVEN.values()) == pytest.approx(np.asarray(plain(**integers)), abs=1e-8)


def test_an_index_of_the_run_beyond_its_axis_traps() -> None:
    f = rg.functional(function_of("v[n]", "v, n"))
    assert f(np.array([0.5]), np.array([0, 0])).tolist() == [0.5, 0.5]
    with pytest.raises(rg.ProgramTrap, match=r"RG0801.*the index is 1, and axis 0 of the array has length 1"):
        f(np.array([0.5]), np.array([0, 1]))
    for outside in (3, -1):
        with pytest.raises(
            rg.ProgramTrap, match=f"RG0801.*the index is {outside}, and axis 0 of the array has length 3"
        ):
            f(GIVEN["v"], np.array([0, outside]))


# -----------------------------------------------------------------------------
# Dicts.

P: dict[str, Any] = {"w": np.array([1.0, 2.0]), "b": np.array([0.5, 0.25]), "c": 2.0}
G: dict[str, Any] = {"w": np.array([0.5, -0.5]), "b": np.array([1.0, 0.125]), "c": 1.0}
DICTS = [
    "{k: p[k] - 0.5 * g[k] for k in p}", "{k: v * v for k, v in p.items()}",
    "{k: 2 * v for k, v in p.items() if k != 'b'}", "{k: {'m': p[k], 'v': g[k] ** 2} for k in p.keys()}",
    "{k: p['c'] for k in p}", "sum(np.sum(v ** 2) for v in p.values())",
    "sum(np.sum(a * b) for a, b in zip(p.values(), g.values(), strict=True))",
    "sum(np.sum(p[k] * g[k]) if k == 'w' else np.sum(p[k]) for k in p)", "[2 * v for k, v in p.items() if k != 'c']",
    "len(p) * p['c']", "{**{k: v for k, v in p.items()}, 'd': p['c']}",
]  # fmt: skip


@pytest.mark.parametrize("text", DICTS)
def test_dicts(text: str) -> None:
    plain = function_of(text, "p, g")
    found, wanted = rg.functional(plain)(P, G), plain(P, G)

    def compare(found: Any, wanted: Any) -> None:
        if isinstance(wanted, dict):
            assert list(found) == list(wanted)
            found, wanted = list(found.values()), list(wanted.values())
        if isinstance(wanted, list):
            assert len(found) == len(wanted)
            for pair in zip(found, wanted, strict=True):
                compare(*pair)
        else:
            assert found == pytest.approx(wanted, abs=1e-8)

    compare(found, wanted)


def test_a_descent_by_a_dict_comprehension() -> None:
    @rg.functional
    def trained(p, x, steps: int):
        for _ in range(steps):
            g = rg.grad(lambda q: np.sum((q["w"] * x + q["b"] - q["c"]) ** 2))(p)
            p = {k: v - 0.05 * g[k] for k, v in p.items()}
        return sum(np.sum(v**2) for v in p.values())

    def by_numpy(p: dict[str, Any], x: Any, steps: int) -> float:
        for _ in range(steps):
            e = 2 * (p["w"] * x + p["b"] - p["c"])
            g = {"w": e * x, "b": e, "c": -e.sum()}
            p = {k: v - 0.05 * g[k] for k, v in p.items()}
        return float(sum(np.sum(v**2) for v in p.values()))

    x = np.array([1.0, -0.5])
    assert trained(P, x, 3) == pytest.approx(by_numpy(P, x, 3), abs=1e-7)
    slopes = rg.grad(trained, "p")(P, x, 3)
    for name, at in (("w", 1), ("b", 0)):
        step = 1e-4 * np.eye(2)[at]
        ends = [by_numpy(P | {name: P[name] + s * step}, x, 3) for s in (1, -1)]
        assert slopes[name][at] == pytest.approx((ends[0] - ends[1]) / 2e-4, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("{k: 1.0 for k in (1, 2)}", "RG0703", "the key of this dict is an int"),
        ("{k: g['z'] for k in p}", "RG0702", "has no item `z`"),
        ("sum(v for v in p['w'].items())", "RG0703", "no dict"),
        ("[a for a, b in zip(p['w'], p.values(), strict=True)]", "RG0712", "2 and 3 items"),
        ("[a for a, b in zip(range(2), p['w'], strict=True)]", "RG0729", "strict"),
        ("p['w'] == 'w'", "RG0703", "a text is compared"),
    ],
)
def test_refusals_of_dicts(text: str, code: str, said: str) -> None:
    with pytest.raises(CompileError, match=rf"{code}[\s\S]*{said}"):
        rg.functional(function_of(text, "p, g"))(P, G)


# -----------------------------------------------------------------------------
# Uints may be moved; there are no operations of them.

WORDS = np.array([2**63 + 5, 7, 2**64 - 1], np.uint64)


@pytest.mark.parametrize(
    "text",
    [
        "x[:2]", "x[[2, 0]]", "x[n]", "np.flip(x)", "np.roll(x, 1)", "x.reshape(3, 1)", "np.tile(x, 2)",
        "np.repeat(x, 2)", "np.tril(x.reshape(1, 3))", "np.take(x, [1, 1])", "np.diag(x)",
        "np.where(n[0] > 1, x, x)",
    ],
)  # fmt: skip
def test_uints_are_moved(text: str) -> None:
    python = function_of(text, "x: rg.Array[uint, 3], n: rg.Array[int, 2]")
    found, expected = rg.functional(python)(WORDS, [2, 0]), python(WORDS, np.array([2, 0]))
    assert np.array_equal(found, expected), (found, expected)


@pytest.mark.parametrize(
    "text",
    [
        "x + x", "x.ravel() * x", "np.flip(x) - x", "np.cumsum(x)", "np.prod(x)", "np.minimum.accumulate(x)",
        "np.argmax(x)", 'np.einsum("i,i->", x, x)', "np.outer(x, x)", "np.take(x, 1)", "np.var(x)",
        "np.array([v * v for v in x])",
        "np.linalg.norm(x)", "np.linalg.det(x.reshape(1, 3)[:, :1])", "np.concatenate([x, n])",
        "np.any(x)", "np.ptp(x)",
    ],
)  # fmt: skip
def test_operations_of_uints_are_refused(text: str) -> None:
    python = function_of(text, "x: rg.Array[uint, 3], n: rg.Array[int, 2]")
    with pytest.raises(CompileError, match="RG0703"):
        rg.functional(python)(WORDS, [2, 0])
