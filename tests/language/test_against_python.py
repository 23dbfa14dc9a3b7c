"""The front end against Python: an expression has the value that Python gives for the same text, or is refused.

The operators and functions come from the tables of the compiler, so that a new one is among the cases. Operands are variables and
constants of each type; positions are the places where an expression may stand. An expression that Python refuses, the compiler or the machine
refuses, too. The differences that docs/language.md states are in `stated`.
"""

from __future__ import annotations

import ast
import cmath
import itertools
import linecache
import math
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.python.expressions import OPERATORS
from retrograd.compiler.language import purity
from retrograd.compiler.language.foreign import WRITTEN
from retrograd.compiler.language.intrinsics import EXPRESSION, INTRINSICS
from retrograd.isa.diagnostics import CompileError, RetrogradError

import retrograd as rg
from retrograd.library import elementary

W = 64
_numbers = itertools.count()

# ---------------------------------------------------------------------- Python's functions in place of `rg`


def _host(name: str) -> Callable[..., Any] | None:
    """The function of `math` or `cmath`, or that of the entry where neither has one."""
    if not hasattr(math, name):
        return INTRINSICS[name].host

    def host(*x: Any) -> Any:
        return getattr(cmath if any(isinstance(v, complex) for v in x) else math, name)(*x)

    return host


#: functions of the language that neither `math` nor `cmath` has
OWN: dict[str, Callable[..., Any]] = {
    "select": lambda c, x, y: x if c else y, "sum": sum, "mean": lambda x: sum(x) / len(x), "min": min, "max": max,
}  # fmt: skip
#: the functions of the language that Python has, too
VALUES = [name for name, f in INTRINSICS.items() if f.role == EXPRESSION and f.host is not None]
PYTHON = types.SimpleNamespace(**{n: OWN.get(n) or _host(n) for n in (*VALUES, *elementary.__all__)})

# ---------------------------------------------------------------------- programs

HEAD = """import cmath, math
import numpy as np
import retrograd as rg
from retrograd import Array, fixed, reversible
I0, I3, HALF, TRUE, UNIT = 0, 3, 0.5, True, 1j
@rg.struct
class Pair:
    k: int
    v: fixed
@reversible
def add_int(out: int, v: int): out += v
@reversible
def add_float(out: fixed, v: fixed): out += v
@reversible
def add_bool(out: bool, v: bool): out ^= v
@reversible
def add_complex(out: complex, v: complex): out += v
"""
REALS = "n: int, m: int, x: fixed, h: fixed, b: bool, c: bool, a: Array[fixed, 3], ks: Array[int, 3]"
PARAMETERS = f"{REALS}, z: complex, w: complex, p: Pair"
NAMES = [part.split(":")[0] for part in PARAMETERS.split(", ") if ":" in part]
ROWS: list[tuple[Any, ...]] = [
    (2, 3, 0.5, -1.25, True, False, [0.25, 2.0, -1.5], [1, -2, 0], 1 + 2j, 0.5 - 1j, (4, 0.75)),
    (0, -3, 0.0, 2.0, False, True, [0.0, -2.5, 1.0], [0, 5, 1], 0j, 2 + 0j, (0, -0.5)),
    (-5, 0, -2.25, 0.0, True, True, [1.0, 0.0, 3.0], [-7, 0, 2], -1.5 + 0.25j, 0j, (-1, 0.0)),
    (1, 2, 1.0, 0.5, False, False, [0.5, 1.0, 0.125], [2, 1, 1], 0.25j, 1j, (1, 1.0)),
]
VARIABLES = ("n", "m", "x", "h", "b", "c", "z", "a[1]", "ks[1]", "p.k", "p.v")
CONSTANTS = ("0", "3", "-2", "0.0", "2.5", "True", "False", "(1+2j)", "I0", "I3", "HALF", "TRUE", "UNIT", "2**62")
POSITIONS = ("statement", "variable", "argument", "condition", "choice", "lambda", "index", "functional")
TYPES = {int: "int", float: "fixed", bool: "bool", complex: "complex"}


def module_of(text: str) -> dict[str, Any]:
    """The names of a module with this text, which the compiler can read."""
    name = f"against_python_{next(_numbers)}"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))
    return vars(module)


def function_of(text: str, kind: type, position: str) -> str:
    """A function with the expression in a position. Its first argument is its result, of the kind where the position does not decide."""
    t, sign = TYPES[kind], "^=" if kind is bool else "+="
    if position == "functional":
        return f"@rg.functional\ndef f({REALS}) -> {t}:\n    return {text}\n"
    t = {"condition": "int", "choice": "int", "index": "fixed"}.get(position, t)
    lines = {
        "statement": f"out {sign} {text}",
        "variable": f"t = {text}\n    out {sign} t",
        "argument": f"add_{kind.__name__}(out, {text})",
        "condition": f"if {text}:\n        out += 1\n    else:\n        out += 2",
        "choice": f"out += 1 if {text} else 2",
        "lambda": f"g = lambda q: {text}\n    out {sign} g(1)",
        "index": f"out += a[{text}]",
    }[position]
    return f"@reversible\ndef f(out: {t}, {PARAMETERS}):\n    {lines}\n"


def by_python(text: str, row: tuple[Any, ...]) -> Any:
    """The value that Python gives, or the exception that it raises."""
    values = dict(zip(NAMES, row, strict=True))
    values["p"] = types.SimpleNamespace(k=values["p"][0], v=values["p"][1])
    known = {"rg": PYTHON, "math": math, "cmath": cmath, "np": np, "fixed": float, "lognum": float}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(text, known | {"I0": 0, "I3": 3, "HALF": 0.5, "TRUE": True, "UNIT": 1j} | values)
            return found.item() if isinstance(found, np.generic) else found
    except Exception as error:
        return error


def kind_of(values: list[Any]) -> type | None:
    """The type of a word for all of these values, or None."""
    kinds = {type(v) for v in values if not isinstance(v, Exception)}
    found = [k for k in (complex, float, int, bool) if k in kinds]
    return found[0] if found and kinds <= set(TYPES) else None


def same(got: Any, wanted: Any, kind: type) -> bool:
    if kind is int:
        return (int(got) - int(wanted)) % (1 << W) == 0
    return bool(abs(got - wanted) <= 1e-8 * max(1, abs(wanted)))


def truth(value: Any) -> bool:
    """The truth of a value; an int is a word, modulo 2^W."""
    return bool(value % (1 << W)) if type(value) is int else bool(value)


def stated(text: str, position: str, row: tuple[Any, ...]) -> bool:
    """Whether docs/language.md states another value: `//` of fixed numbers is an int, and the count of a shift is taken modulo the width."""
    node = ast.parse(text, mode="eval").body
    op = node.op if isinstance(node, ast.BinOp) else None
    if isinstance(op, ast.LShift | ast.RShift) and isinstance(node, ast.BinOp):
        count = by_python(ast.unparse(node.right), row)
        return isinstance(count, int) and not 0 <= count < W
    return position == "index" and (isinstance(op, ast.FloorDiv) or text.startswith("np.floor_divide"))


REFUSED = "refused"


def difference(text: str, position: str) -> str:
    """How the product differs from Python: the empty text where it does not, REFUSED where it does not compile the expression."""
    wanted = [by_python(text, row) for row in ROWS]
    kind = kind_of(wanted)
    if kind is None and position not in ("condition", "choice"):
        kind = float
    names = module_of(HEAD + function_of(text, kind or int, position))
    f: Any = names["f"]
    for row, value in zip(ROWS, wanted, strict=True):
        args: dict[str, Any] = dict(zip(NAMES, row, strict=True))
        args |= {"a": np.array(args["a"]), "ks": np.array(args["ks"]), "p": names["Pair"](*args["p"])}
        own: type = {"condition": int, "choice": int, "index": float}.get(position, kind or int)
        given = [*args.values()][: REALS.count(":")] if position == "functional" else [own(0), *args.values()]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's integers overflow, as in Python
                got = f(*given)
            got = got if position == "functional" else got[0]
        except CompileError as error:
            return f"`{text}` as {position}: {error}" if error.code == "RG0720" else REFUSED
        except RetrogradError:
            continue
        if stated(text, position, row):
            continue
        try:
            if isinstance(value, Exception):
                raise value
            expected = {
                "condition": lambda v: 1 if truth(v) else 2, "choice": lambda v: 1 if truth(v) else 2, "index": lambda v, row=row: row[NAMES.index("a")][v],
            }.get(position, lambda v: v)(value)  # fmt: skip
        except Exception as error:
            return f"`{text}` as {position} is {got!r}, and Python raises {error!r}"
        if not same(got, expected, own):
            return f"`{text}` as {position} is {got!r}, and in Python {expected!r}, at {row}"
    return ""


# ---------------------------------------------------------------------- cases

_SIGNS = {**OPERATORS, ast.And: "and", ast.Or: "or"}
BINARY = [s for t, s in _SIGNS.items() if issubclass(t, ast.operator | ast.boolop | ast.cmpop)]
UNARY = [f"{s} " for t, s in _SIGNS.items() if issubclass(t, ast.unaryop)]
_MATH = [f"math.{n}" for n, f in vars(math).items() if callable(f) and not n.startswith("_")]
#: those of NumPy that the language has under that name
_NUMPY = [f"np.{f.__name__}" for f in WRITTEN if isinstance(f, np.ufunc)]
_NUMERIC = [f.__name__ for f in purity._BUILTINS if f.__name__ not in ("range", "zip", "enumerate")]
FUNCTIONS = [
    *(f"rg.{n}" for n in (*VALUES, *elementary.__all__)),
    *_MATH,
    *_NUMPY,
    *sorted(_NUMERIC),
    "fixed",
]
#: functions that take Python without end for some of the constants
_LONG = ("math.comb", "math.factorial", "math.perm", "pow", "bytes", "math.ldexp")
#: constants that vanish in a word, and products of them that do not
SMALL = (
    "{}(1e-12) * 1e9",
    "{}(-1e12) * 1e-12",
    "{}(2**62) * 4 // 2**62",
    "{}(1e-12, 2e-12) * 1e9",
    '{}("1e-12") * 1e9',
    "{}(True, 1e-12, 3) * 1e9",
)


def expressions(form: str, operands: Sequence[str] = (*VARIABLES, *CONSTANTS)) -> list[str]:
    """The expressions of an operator or a function with operands of each type."""
    if form in UNARY:
        return [f"{form}{v}" for v in operands]
    if form in BINARY:
        return [
            f"{v} {form} {u}" for v in operands for u in operands if v != u and not (form == "**" and "2**62" in (v, u))
        ]
    found = [f"{form}({v})" for v in operands] + [f"{form}({v}, {u})" for v in operands for u in operands if v != u]
    if form in ("rg.select", "max", "min"):
        found = [] if form == "rg.select" else found
        found += [f"{form}({u}, {v}, {x})" for u in operands for v in operands[::3] for x in operands[1::3]]
    if form in _LONG:
        return [e for e in found if "2**62" not in e]
    return found + [small.format(form) for small in SMALL]


def drawn(form: str, position: str, count: int | None) -> Iterator[str]:
    """Expressions of a form, `count` of them drawn; all for None. Functional functions here have neither complex numbers nor structs."""
    found = expressions(form)
    if position == "functional":
        found = [e for e in found if not any(v in e.replace("zip", "") for v in ("z", "1+2j", "UNIT", "p."))]
    if form.startswith("np."):
        found = [
            e for e in found if not any(v in e for v in ("(b", "(c", " b", " c", "True", "TRUE", "False"))
        ]  # NumPy's bools have no sums
    few = [e for e in found if "1e-12" in e]
    rng = random.Random(f"{form} {position}")
    yield from found if count is None or len(found) <= count else [*rng.sample(found, count), *few[:2]]


FORMS = [*BINARY, *UNARY, *FUNCTIONS]


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_pythons(form: str, position: str) -> None:
    found = [difference(e, position) for e in drawn(form, position, 8)]
    assert {*found} <= {"", REFUSED}


@pytest.mark.long
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("form", FORMS)
def test_all_values_are_pythons(form: str, position: str) -> None:
    found = [difference(e, position) for e in drawn(form, position, None)]
    assert {*found} <= {"", REFUSED}


@pytest.mark.parametrize("form", [f for f in FORMS if f in (*BINARY, *UNARY) or f.startswith("rg.")])
def test_each_form_has_a_value_for_variables_and_for_constants(form: str) -> None:
    """So that the comparison is of values, and not of refusals alone."""
    arrays = form in ("rg.sum", "rg.mean", "rg.min", "rg.max")
    for operands in (("a",), ("(0.5, 2.0)",)) if arrays else (VARIABLES, CONSTANTS):
        assert any(difference(e, "statement") == "" for e in expressions(form, operands)), form


def nested(rng: random.Random, depth: int) -> str:
    """An expression of several operators and functions."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(VARIABLES if rng.random() < 0.6 else CONSTANTS)
    x, y, z = (nested(rng, depth - 1) for _ in range(3))
    return rng.choice((
        f"({x} {rng.choice([s for s in BINARY if s != '**'])} {y})", f"({x} {rng.choice(BINARY)} {rng.choice(('2', '3', 'HALF'))})", f"({rng.choice(UNARY)}{x})",
        f"({x} if {y} else {z})", f"({x} < {y} <= {z})", f"{rng.choice(('min', 'max'))}({x}, {y})",
        f"{rng.choice(('abs', 'round', 'int', 'float', 'bool', 'rg.floor', 'rg.sqrt', 'rg.tanh', 'rg.exp', 'math.atan'))}({x})",
    ))  # fmt: skip


@pytest.mark.parametrize("seed", range(100))
def test_nested_values_are_pythons(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        text, position = nested(rng, rng.choice((2, 2, 3))), rng.choice(POSITIONS[:6])
        values = [by_python(text, row) for row in ROWS]
        # Floors of fixed numbers are ints, which have more operators than Python's floats.
        if not any(isinstance(v, Exception) for v in values):
            assert difference(text, position) in ("", REFUSED)


CHOICES = (
    "x or 5.0",
    "h or 0.125",
    "x and h",
    "x and h or 3 * x",
    "(x or 2 * h) * x",
    "x * (n and h)",
    "x if x and h else 3 * h",
    "rg.select(x or h, x, h)",
)


@pytest.mark.parametrize("form", ["reversible", "functional"])
@pytest.mark.parametrize("text", CHOICES)
def test_the_derivative_is_that_of_the_operand_that_python_chooses(text: str, form: str) -> None:
    head = (
        f"def f(y: fixed, {REALS}):\n    y += {text}" if form == "reversible" else f"def f({REALS}):\n    return {text}"
    )
    names = module_of(f"{HEAD}@rg.{form}\n{head}\n")
    for row in ROWS:
        first = row[: REALS.count(":")]
        by_x, by_h = rg.grad(names["f"], ["x", "h"])(*((0.0,) if form == "reversible" else ()), *first)
        for k, found in ((2, by_x), (3, by_h)):
            if row[k] == 0:
                continue  # a step would choose the other operand
            ends = [by_python(text, (*row[:k], row[k] + step, *row[k + 1 :])) for step in (-1e-4, 1e-4)]
            assert abs(found - (ends[1] - ends[0]) / 2e-4) < 1e-6, (text, row)


def test_constants_of_arrays_are_computed_before_they_are_rounded() -> None:
    body = "y += rg.sum(rg.sqrt(SMALL)) + rg.sum(abs(SMALL)) * 1e9 + rg.max(SMALL, axis=0)[0] * 1e9 + rg.mean(INTS) * 2**-62"
    names = module_of(
        f"{HEAD}SMALL, INTS = np.array([[1e-12], [4e-12]]), [2**62, 2**62]\n@reversible\ndef f(y: fixed):\n    {body}\n"
    )
    assert abs(names["f"](0.0).y - (3e-6 + 5e-3 + 4e-3 + 1)) < 1e-9
