"""The law of derivatives: each operator and function of the language, for each type, in each form of derivative.

    either   it agrees with differences of a run of the same source by Python, in floats
    or       it is refused with a code

Cases come from the tables of operators and functions, so a new one is a case, or fails `test_every_name_has_arguments`.
"""

from __future__ import annotations

import cmath
import itertools
import linecache
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from retrograd.compiler.frontends.vlad.primitives import PRIMITIVES, Real
from retrograd.compiler.language import arithmetic, intrinsics
from retrograd.isa.diagnostics import RetrogradError

import retrograd as rg
from retrograd import library
from retrograd.cli.main import main
from retrograd.library import elementary

# ---------------------------------------------------------------------- types and points


@rg.struct
class Pair:
    """Numbers beside an int."""

    p: rg.fixed
    k: int
    q: rg.fixed

    def __add__(self, other: Pair) -> Pair:  # for Python's run
        return Pair(self.p + other.p, self.k + other.k, self.q + other.q)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.p - other.p, self.k - other.k, self.q - other.q)

    def __neg__(self) -> Pair:
        return Pair(-self.p, -self.k, -self.q)

    def __pos__(self) -> Pair:
        return self


ANNOTATIONS: dict[str, Any] = {
    "fixed": rg.fixed, "int": int, "bool": bool, "lognum": rg.lognum, "complex": complex, "array": rg.Array[rg.fixed, 2], "struct": Pair,
}  # fmt: skip
#: the names of operands of each type, and the values of both at each point; no value is at a kink
OPERANDS = {
    "fixed": ("x", "z"), "int": ("n", "m"), "bool": ("b", "d"), "lognum": ("u", "v"), "complex": ("c", "e"), "array": ("a", "g"), "struct": ("r", "s"),
}  # fmt: skip
POINTS: list[dict[str, Any]] = [
    {
        "x": 1.25, "z": 0.8125, "n": 3, "m": 2, "b": True, "d": False, "u": 2.5, "v": 0.625, "c": 0.5 + 1.25j, "e": 1.5 - 0.5j,
        "a": np.array([0.5625, 2.25]), "g": np.array([1.6875, 0.71875]), "r": Pair(0.5, 2, 1.75), "s": Pair(-1.25, 1, 0.5),
    },
    {
        "x": -0.46875, "z": 0.34375, "n": -2, "m": 1, "b": False, "d": True, "u": -1.75, "v": 0.8125, "c": -0.75 - 0.5j, "e": -0.25 + 1.125j,
        "a": np.array([-0.71875, 0.4375]), "g": np.array([-0.265625, -1.3125]), "r": Pair(-1.5, 0, 0.25), "s": Pair(0.75, -3, -0.5),
    },
]  # fmt: skip
KINDS = {name: kind for kind, names in OPERANDS.items() for name in names}

# ---------------------------------------------------------------------- cases

UNARY = {op: "not {0}" if op == "not" else f"{op}{{0}}" for op in arithmetic._PYTHON_UNARY}
BINARY = {op: f"{{0}} {op} {{1}}" for op in arithmetic._PYTHON} | {"@": "{0} @ {1}"}
#: expression -> the number of its arguments, or the arguments in full
ARGUMENTS: dict[str, Any] = {
    # None for a function that Python has not.
    **{n: f.arity if f.host else None for n, f in intrinsics.FUNCTIONS.items() if n in intrinsics.INTRINSICS},
    "select": "{0} > {1}, {0} * {1}, {1}", "top": None,
    **dict.fromkeys(("sum", "mean", "min", "max"), 1),
}  # fmt: skip
BUILTINS = {
    "abs": 1, "round": 1, "min": 2, "max": 2, "fixed": 1, "lognum": 1, "int": 1, "bool": 1, "complex": 2, "sum": 1, "len": 1, "pow": 2, "float": 1, "divmod": 2,
}  # fmt: skip
LIBRARY = {
    name: 2 if name == "hypot" else 1
    for name, value in vars(elementary).items()
    if not name.startswith("_") and getattr(value, "__module__", "") == elementary.__name__ and hasattr(value, "parameters")
}  # fmt: skip
ACCESS = {
    "z.real": "{0}.real", "z.imag": "{0}.imag", "conjugate": "{0}.conjugate()", "a[i]": "{0}[1]", "a[::-1]": "{0}[::-1]", "field": "{0}.q", "if": "{0} if {0} > {1} else {1}",
    "chain": "{0} < {1} < 2", "comprehension": "sum(t * {0} for t in {1})", "lambda": "(lambda t: t * {0})({1})",
}  # fmt: skip


class Case(NamedTuple):
    """An expression of the language, and the names of its operands."""

    name: str
    expression: str
    operands: tuple[str, ...]


def arguments(of: Any, operands: tuple[str, ...]) -> str:
    """The arguments of a call; `of`: their number, or their text."""
    return of.format(*operands, *operands) if isinstance(of, str) else ", ".join(operands)


def cases() -> Iterator[Case]:
    """The expressions: each operator with operands of all types, variables and constants, and each function."""
    for op, text in UNARY.items():
        for x, _ in OPERANDS.values():
            yield Case(f"{op} {KINDS[x]}", text.format(x), (x,))
    for op, text in BINARY.items():
        for left, right in itertools.product(OPERANDS, repeat=2):
            x, z = OPERANDS[left][0], OPERANDS[right][1]
            yield Case(f"{left} {op} {right}", text.format(x, z), (x, z))
        for kind, (x, _) in OPERANDS.items():
            yield Case(f"{kind} {op} {kind}, the same", text.format(x, x), (x,))
            yield Case(f"{kind} {op} 2", text.format(x, "2"), (x,))
            yield Case(f"1.5 {op} {kind}", text.format("1.5", x), (x,))
    calls = {
        f"rg.{name}": given for table in (ARGUMENTS, LIBRARY) for name, given in table.items() if given is not None
    }
    for name, given in (calls | BUILTINS).items():
        for kind, (x, z) in OPERANDS.items():
            operands = (x,) if given == 1 else (x, z)
            yield Case(f"{name} of {kind}", f"{name}({arguments(given, operands)})", operands)
    for name, text in ACCESS.items():
        for kind, pair in OPERANDS.items():
            operands = pair if "{1}" in text else pair[:1]
            yield Case(f"{name} of {kind}", text.format(*pair), operands)


CASES = {case.name: case for case in cases()}


def test_every_name_has_arguments() -> None:
    expressions = {name for name, f in intrinsics.INTRINSICS.items() if f.role == intrinsics.EXPRESSION}
    assert expressions == ARGUMENTS.keys()
    assert {f.__name__ for f in intrinsics.FOREIGN.values()} <= ARGUMENTS.keys()
    statements = {n for n, f in intrinsics.INTRINSICS.items() if f.role != intrinsics.EXPRESSION}
    written = {n for n in statements for s in STATEMENTS.values() if f"rg.{n}(" in s.body}
    assert statements - written == {"forget"}  # of functional functions


# ---------------------------------------------------------------------- the run by Python


def _each(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *v: (
        np.array([f(*p) for p in zip(*map(np.ravel, v), strict=True)])
        if any(isinstance(x, np.ndarray) for x in v)
        else f(*v)
    )


def _of(name: str) -> Callable[..., Any]:
    """The function of `math`, or for complex numbers of `cmath`; of the entry where neither has one."""
    others = {"cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x), "exp2": lambda x: 2.0**x}
    real = others.get(name) or getattr(math, name, None) or intrinsics.INTRINSICS[name].host
    assert real is not None
    return _each(lambda *v: getattr(cmath, name)(*v) if any(isinstance(x, complex) for x in v) else real(*v))


def _extreme(which: Callable[..., Any]) -> Callable[..., Any]:
    """Of one argument the least or greatest element; NumPy takes a number as an array with one element."""
    return lambda *v: which(np.ravel(v[0]).tolist()) if len(v) == 1 else _each(which)(*v)


_NAMES = (
    *[n for n, given in ARGUMENTS.items() if given and n not in ("select", "sum", "mean", "min", "max")],
    *LIBRARY,
)
_RG = SimpleNamespace(
    **{name: _of(name) for name in _NAMES}, select=lambda c, x, y: np.where(c, x, y) if isinstance(c, np.ndarray) else x if c else y,
    sum=np.sum, mean=np.mean, min=_extreme(min), max=_extreme(max), library=library, zeros=np.zeros, zeros_like=np.zeros_like, copy=np.copy,
)  # fmt: skip
_PYTHON = {
    "rg": _RG, "fixed": float, "lognum": float, "abs": _each(abs), "round": _each(round), "min": _extreme(min), "max": _extreme(max), "Pair": Pair,
}  # fmt: skip


def by_python(expression: str, values: Mapping[str, Any]) -> float:
    """The loss of an expression: t·t + 3·t of its value, or of its parts, weighted."""
    t = eval(expression, {**_PYTHON, **values})
    if isinstance(t, Pair):
        t = t.p + 2 * t.q
    elif isinstance(t, complex):
        t = t.real + 2 * t.imag
    elif isinstance(t, np.ndarray):
        t = float(t.ravel()[0]) + 2 * float(t.ravel()[-1])
    return float(t) * float(t) + 3 * float(t)


#: by the kind of its value: how a number is made of an expression
NUMBERS = ("fixed({e})", "({e}).p + 2 * ({e}).q", "({e}).real + 2 * ({e}).imag", "({e})[0] + 2 * ({e})[1]")


# ---------------------------------------------------------------------- numbers of values


def flat(value: Any) -> list[float]:
    """The numbers of a value that have derivatives."""
    match value:
        case Pair(p=p, q=q):
            return [float(p), float(q)]
        case complex():
            return [value.real, value.imag]
        case np.ndarray():
            return [float(x) for x in value.ravel()]
        case float():
            return [value]
    return []


def moved(value: Any, i: int, by: float) -> Any:
    """The value with its number i moved."""
    match value:
        case Pair(p=p, k=k, q=q):
            return Pair(p + by * (i == 0), k, q + by * (i == 1))
        case complex():
            return value + (by if i == 0 else by * 1j)
        case np.ndarray():
            out = value.copy()
            out.ravel()[i] += by
            return out
    return value + by


def gradient_by_differences(
    f: Callable[[Mapping[str, Any]], float], at: Mapping[str, Any], h: float
) -> np.ndarray[Any, Any]:
    """∂f/∂(each number), by central differences of fourth order."""
    out = []
    for name, value in at.items():
        for i in range(len(flat(value))):

            def step(k: float, name: str = name, value: Any = value, i: int = i) -> float:
                return f({**at, name: moved(value, i, k * h)})

            out.append((8 * (step(1) - step(-1)) - (step(2) - step(-2))) / (12 * h))
    return np.array(out)


def hessian_by_differences(
    f: Callable[[Mapping[str, Any]], float], at: Mapping[str, Any], h: float
) -> np.ndarray[Any, Any]:
    rows = []
    for name, value in at.items():
        for i in range(len(flat(value))):
            ends = [gradient_by_differences(f, {**at, name: moved(value, i, k * h)}, h) for k in (2, 1, -1, -2)]
            rows.append((8 * (ends[1] - ends[2]) - (ends[0] - ends[3])) / (12 * h))
    return np.array(rows).reshape(len(rows), len(rows))


# ---------------------------------------------------------------------- forms of derivative


def made(source: str, name: str = "f") -> Any:
    """The function of a source text."""
    file = f"<law {name} {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {
        "rg": rg,
        "fixed": rg.fixed,
        "lognum": rg.lognum,
        "Array": rg.Array,
        "Pair": Pair,
        "math": math,
    }
    exec(compile(source, file, "exec"), names)
    return names[name]


def declared(operands: tuple[str, ...]) -> str:
    shown = {"array": "Array[fixed, 2]", "struct": "Pair"}
    return ", ".join(f"{name}: {shown.get(KINDS[name], KINDS[name])}" for name in operands)


def source_of(case: Case, number: str) -> str:
    return (
        f"@rg.reversible\ndef f(y: fixed, {declared(case.operands)}):\n    with rg.routine() as routine:\n"
        f"        t = {number.format(e=case.expression)}\n    y += t * t + 3 * t\n    ~routine\n"
    )


def functional_source(case: Case) -> str:
    return f"@rg.functional\ndef f({declared(case.operands)}):\n    t = {NUMBERS[0].format(e=case.expression)}\n    return t * t + 3 * t\n"


def numbers_of(gradients: Any) -> list[float]:
    return [x for value in gradients for x in flat(complex(value) if isinstance(value, complex) else value)]


def units(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """For each number of the values the vector that is 1 there."""
    for name, value in values.items():
        for i in range(len(flat(value))):
            yield name, moved(zero(value), i, 1.0)


def zero(value: Any) -> Any:
    """The value with all numbers 0."""
    return Pair(0.0, 0, 0.0) if isinstance(value, Pair) else value * 0


def by_reversible_gradient(f: Any, at: dict[str, Any]) -> list[float]:
    real = [name for name, value in at.items() if flat(value)]
    df = rg.reversible_gradient(f, real)
    zeros = {f"d_{name}": zero(at[name]) for name in real}
    found = df(0.0, **at, **zeros)
    return numbers_of([getattr(found, name) for name in zeros])


def by_jacobian(f: Any, at: dict[str, Any]) -> list[float]:
    out: list[float] = []
    for name, row in rg.jacobian(f)(0.0, **at)._asdict().items():
        numbers = np.ravel(row).tolist()
        out += [numbers[0], numbers[2]] if KINDS[name] == "struct" else numbers
    return out


FIRST: dict[str, Callable[[Any, dict[str, Any]], list[float]]] = {
    "grad": lambda f, at: numbers_of(rg.grad(f)(0.0, **at)),
    "value_and_grad": lambda f, at: numbers_of(rg.value_and_grad(f)(0.0, **at)[1]),
    "gradient_report": lambda f, at: numbers_of(rg.gradient_report(f)(0.0, **at).gradients),
    "vjp": lambda f, at: numbers_of(rg.vjp(f, 0.0, **at)[1]({"y": 1.0})[1:]),
    "jvp": lambda f, at: [rg.jvp(f, {"y": 0.0, **at}, {name: v})[1].y for name, v in units(at)],
    "vmap": lambda f, at: numbers_of(rg.vmap(rg.grad(f), (0, *[None] * len(at)), shared="sum")([0.0], *at.values())),
    "reversible_gradient": by_reversible_gradient,
    "jacobian": by_jacobian,
}  # fmt: skip


def by_hvp(f: Any, at: dict[str, Any]) -> np.ndarray[Any, Any]:
    columns = [numbers_of(rg.hvp(f)({"y": 0.0, **at}, {name: v})) for name, v in units(at)]
    return np.array(columns).T


def by_hessian(f: Any, at: dict[str, Any]) -> np.ndarray[Any, Any]:
    names = [name for name, value in at.items() if flat(value)]
    blocks = rg.hessian(f, names)(0.0, **at)
    sizes = [len(flat(at[name])) for name in names]
    return np.block(
        [[np.reshape(b, (n, m)) for b, m in zip(row, sizes, strict=True)] for row, n in zip(blocks, sizes, strict=True)]
    )


def by_tangents_of_gradients(f: Any, at: dict[str, Any]) -> np.ndarray[Any, Any]:
    real = [name for name, value in at.items() if flat(value)]
    df = rg.reversible_gradient(f, real)
    zeros = {f"d_{name}": zero(at[name]) for name in real}
    columns = [
        numbers_of([getattr(rg.jvp(df, {"y": 0.0, **at, **zeros}, {name: v})[1], d) for d in zeros])
        for name, v in units(at)
    ]
    return np.array(columns).T


SECOND: dict[str, Callable[[Any, dict[str, Any]], np.ndarray[Any, Any]]] = {
    "hvp": by_hvp, "hessian": by_hessian, "jvp of reversible_gradient": by_tangents_of_gradients,
}  # fmt: skip


def compared(case: str, form: str, derive: Callable[[], Any], expected: np.ndarray[Any, Any], tolerance: float) -> bool:
    """Whether the form of derivative agrees with differences; False where it is refused with a code."""
    try:
        found = np.array(derive(), dtype=float)
    except RetrogradError:
        return False  # each of these errors has a code
    size = np.maximum(1.0, np.abs(expected))
    assert found.shape == expected.shape, (case, form, found, expected)
    assert (np.abs(found - expected) <= tolerance * size).all(), (
        f"{case}, {form}: {found.tolist()}, by differences {expected.tolist()}"
    )
    return True


def compiled(case: Case, at: dict[str, Any]) -> tuple[Any, float] | None:
    """The function of a case and its value at a point; None where it is refused. The number is made as the type of the value allows."""
    for number in NUMBERS:
        try:
            f = made(source_of(case, number))
            return f, f(0.0, **at).y
        except RetrogradError:
            continue
    return None


@pytest.mark.parametrize("name", CASES)
def test_expressions(name: str) -> None:
    case = CASES[name]
    for point in POINTS:
        at = {x: point[x] for x in case.operands}
        found = compiled(case, at)
        if found is None:
            continue
        f, value = found
        real = any(map(flat, at.values()))
        if not real:
            with pytest.raises(rg.NotDifferentiable):
                rg.grad(f)(0.0, **at)
            continue

        def loss(values: Mapping[str, Any], case: Case = case) -> float:
            return by_python(case.expression, values)

        try:
            expected = loss(at)
        except (TypeError, AttributeError):
            continue  # Python has no such operation, and nothing to compare with
        except ValueError:
            assert any(isinstance(v, np.ndarray) for v in at.values()), name  # an array is no condition to NumPy
            continue
        assert value == pytest.approx(expected, rel=1e-7, abs=1e-7)
        gradient = gradient_by_differences(loss, at, 2.0**-10)
        for form, derive in FIRST.items():
            compared(name, form, lambda derive=derive, f=f, at=at: derive(f, at), gradient, 1e-6)
        second = hessian_by_differences(loss, at, 2.0**-10)
        for form, derive_twice in SECOND.items():
            compared(name, form, lambda derive=derive_twice, f=f, at=at: derive(f, at), second, 2e-5)


# ---------------------------------------------------------------------- statements


class Statement(NamedTuple):
    """Statements that change y, for y, x, z: fixed, and their result in Python."""

    body: str
    python: Callable[[float, float], float]


def turned(x: float, z: float, by: float) -> tuple[float, float]:
    c, s = math.cos(by), math.sin(by)
    return c * x - s * z, s * x + c * z


def _volume(p: float, q: float) -> float:
    return p * p * q


def _loop(x: float, z: float) -> float:
    y = 0.0
    for i in range(3):
        y += x * i
        x += z * y
    return y


STATEMENTS: dict[str, Statement] = {
    "+=": Statement("y += x * x\ny += z * x", lambda x, z: x * x + z * x),
    "-=": Statement("y -= x * x\nx -= z * z\ny -= x * z", lambda x, z: -x * x - (x - z * z) * z),
    "^=": Statement("with rg.routine() as r:\n    n = 0\n    n ^= 5\ny += x * x * n\n~r", lambda x, z: 5 * x * x),
    "*=": Statement("with rg.routine() as r:\n    u = lognum(1.5)\n    u *= lognum(x * x)\ny += fixed(u) * z\n~r", lambda x, z: 1.5 * x * x * z),
    "/=": Statement("with rg.routine() as r:\n    u = lognum(1.5)\n    u /= lognum(1 + x * x)\ny += fixed(u) * z\n~r", lambda x, z: 1.5 / (1 + x * x) * z),
    "rot": Statement("rg.rot(x, z, 0.75)\ny += x * x * z", lambda x, z: _volume(*turned(x, z, 0.75))),
    "rot by a variable": Statement(
        "with rg.routine() as r:\n    p, q = fixed(1.5), x + 0\n    rg.rot(p, q, z)\ny += p * p * q\n~r",
        lambda x, z: _volume(*turned(1.5, x, z)),
    ),
    "irot": Statement(
        "with rg.routine() as r:\n    p, q = fixed(1.5), x + 0\n    rg.irot(p, q, z)\ny += p * p * q\n~r",
        lambda x, z: _volume(*turned(1.5, x, -z)),
    ),
    "neg": Statement("rg.neg(x)\ny += x * x * x * z", lambda x, z: -x * x * x * z),
    "flip": Statement("with rg.routine() as r:\n    n = 2\n    rg.flip(n)\ny += x * x * n\n~r", lambda x, z: -3 * x * x),
    "swap": Statement("rg.swap(x, z)\ny += x * x * z", lambda x, z: z * z * x),
    "cswap": Statement("rg.cswap(True, x, z)\ny += x * x * z\nrg.cswap(False, x, z)\ny += x * z * z", lambda x, z: z * z * x + z * x * x),
    "rol": Statement("with rg.routine() as r:\n    n = 3\n    rg.rol(n, 2)\ny += x * x * n\n~r", lambda x, z: 12 * x * x),
    "ror": Statement("with rg.routine() as r:\n    n = 12\n    rg.ror(n, 2)\ny += x * x * n\n~r", lambda x, z: 3 * x * x),
    "push, pop": Statement(
        "with rg.routine() as r:\n    s = rg.stack(fixed, 3)\n    p = x * z\n    rg.push(s, p)\n    q = rg.pop(s)\ny += q * q\n~r", lambda x, z: (x * z) ** 2
    ),
    "free": Statement("t = x * z\ny += t * t\nrg.free(t, x * z)", lambda x, z: (x * z) ** 2),
    "erase": Statement("t = x * z\ny += t * t\nrg.erase(t)\ny += t * x", lambda x, z: (x * z) ** 2),
    "zeros, zeros_like, copy": Statement(
        "with rg.routine() as r:\n    t = rg.zeros(2)\n    t[0] += x * z\n    p = rg.zeros_like(t)\n    p += t * x\n    q = rg.copy(p)\ny += q[0] * q[0] + p[0]\n~r",
        lambda x, z: (x * z * x) ** 2 + x * z * x,
    ),
    "repeat": Statement(
        "with rg.routine() as r:\n    n = 0\n    t = x * 1\n    for _ in rg.repeat(n == 0, until=n == 3):\n        t += z * n\n        n += 1\ny += t * t\n~r",
        lambda x, z: (x + 3 * z) ** 2,
    ),
    "unchecked": Statement("with rg.unchecked():\n    t = x * z\n    y += t * t\n    rg.free(t, x * z)", lambda x, z: (x * z) ** 2),
    "view": Statement("with rg.view(-x) as m:\n    m += z * z\n    y += m * m\nwith rg.view(2 * x) as m:\n    y += m * m * m", lambda x, z: (z * z - x) ** 2 + 8 * (x - z * z) ** 3),
    "view of a lognum": Statement(
        "with rg.routine() as r:\n    u = lognum(1 + x * x)\n    with rg.view(3 * u) as m:\n        m *= lognum(1 + z * z)\ny += fixed(u)\n~r",
        lambda x, z: (1 + x * x) * (1 + z * z),
    ),
    "if": Statement("if x > z:\n    y += x * x * z\nelse:\n    y += z * z * x", lambda x, z: x * x * z if x > z else z * z * x),
    "while": Statement(
        "with rg.routine() as r:\n    n = 0\n    t = fixed(1)\n    while (n < 3, n > 0):\n        t += x * z\n        n += 1\ny += t * t\n~r", lambda x, z: (1 + 3 * x * z) ** 2
    ),
    "for": Statement("for i in range(3):\n    y += x * i\n    x += z * y", _loop),
    "call": Statement("inner(y, x, z)\n~inner(z, x, 2)\ny += z * z", lambda x, z: x * x * z + (z - 2 * x * x) ** 2),
    "value of a call": Statement("y += inner(x, z) * inner(z, x)", lambda x, z: (x * x * z) * (z * z * x)),
    "functions in a list": Statement("fs = [inner, other]\nfor f_ in fs:\n    f_(y, x, z)", lambda x, z: x * x * z + x * z * z),
    "recursion": Statement("powers(y, x, z, 3)", lambda x, z: z * (x + x**2 + x**3)),
    "exchange": Statement("x, z = z, x\ny += x * x * z", lambda x, z: z * z * x),
    "array": Statement(
        "with rg.routine() as r:\n    t = rg.zeros(3)\n    for i in range(3):\n        t[i] += x * i + z\n    t[1], t[2] = t[2], t[1]\ny += t[1] * t[1] * t[2] + rg.max(t)\n~r",
        lambda x, z: (2 * x + z) ** 2 * (x + z) + max(z, x + z, 2 * x + z),
    ),
    "external": Statement("with rg.external():\n    str(x)\ny += x * x * z", lambda x, z: x * x * z),
    "reversible_gradient": Statement("with rg.routine() as r:\n    p, q = fixed(0), fixed(0)\n    d_inner(p, x, z, q)\ny += q * q\n~r", lambda x, z: (2 * x * z) ** 2),
}  # fmt: skip


_BEFORE = """\
@rg.reversible
def inner(y: fixed, x: fixed, z: fixed):
    y += x * x * z

@rg.reversible
def other(y: fixed, x: fixed, z: fixed):
    y += x * z * z

@rg.reversible
def powers(y: fixed, x: fixed, z: fixed, n: int):
    if n > 0:
        y += z * x ** n
        powers(y, x, z, n - 1)

d_inner = rg.reversible_gradient(inner, "x")
"""


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements(name: str) -> None:
    statement = STATEMENTS[name]
    body = "".join(f"    {line}\n" for line in statement.body.split("\n"))
    f = made(f"{_BEFORE}\n@rg.reversible\ndef f(y: fixed, x: fixed, z: fixed):\n{body}")
    agreed = 0
    for point in POINTS:
        at = {"x": point["x"], "z": point["z"]}

        def loss(values: Mapping[str, Any]) -> float:
            return statement.python(values["x"], values["z"])

        assert f(0.0, **at).y == pytest.approx(loss(at), rel=1e-7, abs=1e-7)
        gradient = gradient_by_differences(loss, at, 2.0**-10)
        for form, derive in FIRST.items():
            agreed += compared(name, form, lambda derive=derive, at=at: derive(f, at), gradient, 1e-6)
        second = hessian_by_differences(loss, at, 2.0**-10)
        for form, derive_twice in SECOND.items():
            agreed += compared(name, form, lambda derive=derive_twice, at=at: derive(f, at), second, 2e-5)
    # An erased value does not come back, and has tangents only.
    assert agreed == (2 if name == "erase" else 2 * (len(FIRST) + len(SECOND)))


# ---------------------------------------------------------------------- functional functions and VLAD

FUNCTIONAL = [case.name for case in CASES.values() if {KINDS[x] for x in case.operands} <= {"fixed", "int", "array"}]


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_functions(name: str) -> None:
    case = CASES[name]
    at = {x: POINTS[0][x] for x in case.operands}
    real = [x for x in case.operands if KINDS[x] == "fixed"]
    # The whole in a function that takes derivatives itself: by its first fixed argument, twice.
    body = f"    t = fixed({case.expression})\n    return t * t + 3 * t\n"
    source = f"@rg.functional\ndef f({declared(case.operands)}):\n{body}"
    try:
        f = made(source)
        value = f(*at.values())
    except RetrogradError:
        return
    if not real or not isinstance(value, float):
        return

    def loss(values: Mapping[str, Any]) -> float:
        return by_python(case.expression, values)

    assert value == pytest.approx(loss(at), rel=1e-7, abs=1e-7)
    gradient, second = gradient_by_differences(loss, at, 2.0**-10), hessian_by_differences(loss, at, 2.0**-10)
    wanted = {x: value for x, value in at.items() if flat(value)}
    values = [*at.values()]
    compared(name, "grad", lambda: numbers_of(rg.grad(f, [*wanted])(*values)), gradient, 1e-6)
    compared(name, "jvp", lambda: [rg.jvp(f, at, {x: v})[1][-1] for x, v in units(at)], gradient, 1e-6)
    compared(
        name,
        "hvp",
        lambda: (
            np.array(
                [numbers_of(rg.hvp(f, [*wanted])(at, [v if x == of else None for of in wanted])) for x, v in units(at)]
            ).T
        ),
        second,
        2e-5,
    )
    x = real[0]
    twice = f"def h({declared(case.operands)}):\n    return rg.grad(lambda {x}: rg.grad(lambda {x}: f({', '.join(case.operands)}))({x}))({x})\n"
    once = f"def g({declared(case.operands)}):\n    return rg.grad(lambda {x}: f({', '.join(case.operands)}))({x})\n"
    i = [u for u, _ in units(at)].index(x)
    for name_, text, tolerance, expected in (("g", once, 1e-6, gradient[i]), ("h", twice, 2e-5, second[i, i])):
        compared(
            name,
            name_,
            lambda text=text, name_=name_: [made(f"{source}\n@rg.functional\n{text}", name_)(*values)],
            np.array([expected]),
            tolerance,
        )


#: primitive or function of the prelude for reals -> the same in Python
VLAD: dict[str, Callable[..., float]] = {
    "+": lambda x, z: x + z, "-": lambda x, z: x - z, "*": lambda x, z: x * z, "/": lambda x, z: x / z, "atan": math.atan2,
    "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "sin": math.sin, "cos": math.cos,
    "abs": abs, "sqr": lambda x: x * x, "min": min, "max": max, "expt": lambda x, z: x**z,
}  # fmt: skip


def test_every_real_primitive_of_vlad_is_in_the_law() -> None:
    assert {name for name, entry in PRIMITIVES.items() if isinstance(entry.rules, Real)} <= VLAD.keys()


@pytest.mark.parametrize("form", ["derivative", "gradient-F", "gradient-R"])
def test_vlad(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, expected = [], []
    for name, f in VLAD.items():
        x, z = 1.25, 0.8125
        both = name in ("+", "-", "*", "/", "atan", "min", "max", "expt")
        calls = (
            [(f"({name} x {z})", lambda x, f=f, z=z: f(x, z)), (f"({name} {z} x)", lambda x, f=f, z=z: f(z, x))]
            if both
            else [(f"({name} x)", f)]
        )
        for text, function in calls:

            def loss(values: Mapping[str, Any], function: Any = function) -> float:
                t = function(values["x"])
                return t * t + 3 * t

            whole = f"(lambda (x) (let ((t {text})) (+ (* t t) (* 3 t))))"
            lines += [f"(({form} {whole}) {x})", f"(({form} ({form} {whole})) {x})"]
            expected += [
                gradient_by_differences(loss, {"x": x}, 2.0**-10)[0],
                hessian_by_differences(loss, {"x": x}, 2.0**-9)[0, 0],
            ]
    (tmp_path / "law.vlad").write_text("\n".join(lines) + "\n")
    assert main(["run", str(tmp_path / "law.vlad")]) == 0
    found = [float(line) for line in capsys.readouterr().out.splitlines()[: len(lines)]]
    for line, value, reference in zip(lines, found, expected, strict=True):
        assert value == pytest.approx(reference, rel=2e-5, abs=2e-5), line


# ---------------------------------------------------------------------- kinks

#: operators and functions that are branches: their second derivative is that of the branch that was taken
BRANCHES = {
    "//",
    "%",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    "floor",
    "round",
    "min",
    "max",
    "select",
    "if",
    "divmod",
    "int",
    "bool",
}


def special() -> Iterator[tuple[str, str, str, float]]:
    """(operator, expression in x, x): at 0, ±1 and ties."""
    one = [
        "-{x}",
        "+{x}",
        *(
            f"rg.{n}({{x}})"
            for n, k in (ARGUMENTS | LIBRARY).items()
            if k == 1 and n not in ("sum", "mean", "min", "max")
        ),
    ]
    one += [f"{n}({{x}})" for n in ("abs", "round", "fixed")]
    for text in one:
        for at in (0.0, 1.0, -1.0):
            yield text.format(x="x"), text.format(x="x"), text, at
    for op, text in BINARY.items():
        for c in ("1", "2", "1.5", "0.5", "-1"):
            for at in (0.0, 1.0, -1.0, float(c)):
                yield f"x {op} {c}", text.format("x", c), op, at
                yield f"{c} {op} x", text.format(c, "x"), op, at
        yield f"x {op} x", text.format("x", "x"), op, 0.0
    for call in (
        "rg.atan2({a}, {b})",
        "rg.hypot({a}, {b})",
        "min({a}, {b})",
        "max({a}, {b})",
        "rg.select({a} > {b}, {a}, {b})",
        "abs({a} * {b})",
    ):
        for a, b in itertools.product(("x", "0", "1", "-x"), repeat=2):
            if "x" in a + b:
                for at in (0.0, 1.0):
                    yield call.format(a=a, b=b), call.format(a=a, b=b), call, at


SPECIAL = {f"{shown} at {at}": (text, kind, at) for shown, text, kind, at in special()}


def one_sided(g: Callable[[float], float], at: float, side: int, order: int) -> float | None:
    """The derivative from one side; None where there is none, or it is infinite."""
    found = []
    for h in (2.0**-9, 2.0**-12):
        try:
            v = [g(at + side * k * h) for k in range(5)]
        except (ValueError, ZeroDivisionError, OverflowError, TypeError):
            return None
        slope = (-25 * v[0] + 48 * v[1] - 36 * v[2] + 16 * v[3] - 3 * v[4]) / (12 * side * h)
        bend = (35 * v[0] - 104 * v[1] + 114 * v[2] - 56 * v[3] + 11 * v[4]) / (12 * h * h)
        found.append(slope if order == 1 else bend)
    return found[1] if abs(found[1] - found[0]) <= 1e-3 * (1 + abs(found[1])) else None


@pytest.mark.parametrize("name", SPECIAL)
def test_kinks(name: str) -> None:
    expression, kind, at = SPECIAL[name]
    case = Case(name, expression, ("x",))

    def g(x: float) -> float:
        return by_python(expression, {"x": x})

    try:
        expected = g(at)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        expected = None
    try:
        f = made(source_of(case, NUMBERS[0]))
        value = f(0.0, at).y
    except RetrogradError:
        return
    if expected is None:
        return  # the value is a matter of the front end
    assert value == pytest.approx(expected, rel=1e-7, abs=1e-7)
    sides = [one_sided(g, at, side, 1) for side in (-1, 1)]
    allowed = [s for s in sides if s is not None]
    if len(allowed) < 2 or min(allowed) < 0 < max(allowed):
        allowed.append(0.0)  # where the slope is infinite, and at the tip of a norm
    first = [derived(lambda: rg.grad(f, "x")(0.0, at)), derived(lambda: rg.jvp(f, (0.0, at), {"x": 1.0})[1].y)]
    for found in first:
        assert found is None or any(found == pytest.approx(s, rel=1e-4, abs=1e-4) for s in allowed), (
            name,
            first,
            sides,
        )
    assert None in first or first[0] == pytest.approx(first[1], rel=1e-7, abs=1e-7), (name, first)
    bends = [one_sided(g, at, side, 2) for side in (-1, 1)]
    smooth = len(sides) == 2 and None not in sides and sides[0] == pytest.approx(sides[1], rel=1e-3, abs=1e-3)
    branch = any(word in kind for word in BRANCHES)
    df = rg.reversible_gradient(f, "x")
    for second in (
        derived(lambda: rg.hessian(f, "x")(0.0, at)),
        derived(lambda: rg.jvp(df, (0.0, at, 0.0), {"x": 1.0})[1].d_x),
    ):
        if second is None:
            continue
        assert smooth or branch, f"{name}: {second} at a kink, whose slopes are {sides}"
        known = [b for b in bends if b is not None]
        assert any(second == pytest.approx(b, rel=1e-2, abs=1e-2) for b in known) or (branch and not smooth), (
            f"{name}: {second}, by differences {bends}"
        )


def derived(derive: Callable[[], Any]) -> float | None:
    """The derivative, or None where it is refused with a code."""
    try:
        return float(derive())
    except RetrogradError:
        return None
