"""Random functional programs against Python, which runs the same text: values in floats, derivatives by dual numbers.

Programs have closures, tuples, lists, recursion, branches, functions of functions, and derivatives by numbers, lists and data classes. The interpreter is Python itself, and its
arithmetic is a class of dual numbers, so nothing of the compiler is tested against itself.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import retrograd as rg


class Dual:
    """a + b·ε. Numbers of an inner derivative have a higher `level`, and hold those of the outer ones."""

    def __init__(self, value: Any, slope: Any = 0.0, level: int = 0) -> None:
        self.value, self.slope, self.level = value, slope, level

    def __add__(self, other: Any) -> Dual:
        x, y, level = both(self, other)
        return Dual(x.value + y.value, x.slope + y.slope, level)

    def __sub__(self, other: Any) -> Dual:
        return self + -1.0 * dual(other)

    def __mul__(self, other: Any) -> Dual:
        x, y, level = both(self, other)
        return Dual(x.value * y.value, x.value * y.slope + x.slope * y.value, level)

    def __radd__(self, other: Any) -> Dual:
        return dual(other) + self

    def __rsub__(self, other: Any) -> Dual:
        return dual(other) - self

    def __rmul__(self, other: Any) -> Dual:
        return dual(other) * self

    def __lt__(self, other: Any) -> bool:
        return number(self) < number(other)

    def __gt__(self, other: Any) -> bool:
        return number(self) > number(other)


def dual(x: Any) -> Dual:
    return x if isinstance(x, Dual) else Dual(float(x))


def both(x: Any, y: Any) -> tuple[Dual, Dual, int]:
    """Both as numbers of the higher level of the two."""
    x, y = dual(x), dual(y)
    level = max(x.level, y.level)
    made = (z if z.level == level else Dual(z, 0.0, level) for z in (x, y))
    return next(made), next(made), level


def number(x: Any) -> float:
    while isinstance(x, Dual):
        x = x.value
    return float(x)


def sin(x: Any) -> Any:
    if not isinstance(x, Dual):
        return math.sin(x)
    return Dual(sin(x.value), x.slope * cos(x.value), x.level)


def cos(x: Any) -> Any:
    if not isinstance(x, Dual):
        return math.cos(x)
    return Dual(cos(x.value), -1.0 * (x.slope * sin(x.value)), x.level)


#: inner derivatives begin later than outer ones
LEVELS = itertools.count(1)


def grad(f: Any) -> Any:
    """The gradient by dual numbers: a run of f for each number among its arguments, which are numbers, tuples, lists, and Cells."""

    def gradient(*given: Any) -> Any:
        level = next(LEVELS)
        found = by_each(given, lambda args: slope(f(*args), level), level)
        return found[0] if len(given) == 1 else found

    return gradient


def slope(y: Any, level: int) -> Any:
    return y.slope if isinstance(y, Dual) and y.level == level else 0.0


def by_each(x: Any, run: Any, level: int) -> Any:
    """run(x) with each number of x in turn as a dual number, in the form of x."""
    if isinstance(x, tuple | list):
        made = []
        for i in range(len(x)):
            made.append(by_each(x[i], lambda v, i=i: run(type(x)([*x[:i], v, *x[i + 1 :]])), level))
        return type(x)(made)
    if isinstance(x, Cell):
        return Cell(*by_each((x.value, x.rest), lambda v: run(Cell(*v)), level))
    return 0.0 if x is None else run(Dual(x, 1.0, level))


@rg.data
class Cell:
    """A number and a list."""

    value: rg.fixed
    rest: list[rg.fixed]


class Generator:
    """Writes well-typed expressions. Numbers stay small: sums of two, products by sines."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        #: derivatives around the expression
        self.derivatives = 0

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def number(self, depth: int, scope: dict[str, str]) -> str:
        """An expression of a number. `scope`: name -> "number", "function", "pair", "list"."""
        pick = self.random.choice
        numbers = [n for n, t in scope.items() if t == "number"]
        if depth == 0:
            return pick([*numbers, *numbers, str(self.random.randint(-3, 3) / 2)])
        inner = depth - 1
        ways = ["sum", "product", "sin", "branch", "let", "call", "pair", "fold"]
        if inner and self.derivatives < 2:
            ways += ["slope", "gradient", "cell"]
        match pick(ways):
            case "sum":
                return f"({self.number(inner, scope)} {pick('+-')} {self.number(inner, scope)})"
            case "product":
                return f"(sin({self.number(inner, scope)}) * {self.number(inner, scope)})"
            case "sin":
                return f"sin({self.number(inner, scope)})"
            case "branch":
                a, b = self.number(0, scope), self.number(0, scope)
                return f"({self.number(inner, scope)} if {a} < {b} + 0.0625 else {self.number(inner, scope)})"
            case "let":
                x = self.fresh("v")
                body = self.number(inner, {**scope, x: "number"})
                return f"(lambda {x}: {body})({self.number(inner, scope)})"
            case "call":
                return f"{self.function(inner, scope)}({self.number(inner, scope)})"
            case "pair":
                p = self.fresh("p")
                body = self.number(inner, {**scope, p: "pair"})
                body = body.replace(p, f"{p}[{self.random.randint(0, 1)}]") if p in body else f"({body} + {p}[1])"
                return f"(lambda {p}: {body})(({self.number(inner, scope)}, {self.number(inner, scope)}))"
            case "slope":
                return f"grad({self.differentiated(inner, scope)})({self.number(inner, scope)})"
            case "gradient":
                a = self.fresh("a")
                inside = f"lambda {a}: fold({self.differentiated(inner, scope)}, {self.number(0, scope)}, {a})"
                given = self.items(inner, scope)
                return f"fold({self.function(0, scope)}, {self.number(0, scope)}, grad({inside})({given}))"
            case "cell":
                inside = f"lambda c: held({self.differentiated(inner, scope)}, c)"
                cell = f"Cell({self.number(inner, scope)}, {self.items(inner, scope)})"
                return f"held({self.function(0, scope)}, grad({inside})({cell}))"
            case _:
                return f"fold({self.function(inner, scope)}, {self.number(inner, scope)}, {self.items(inner, scope)})"

    def items(self, depth: int, scope: dict[str, str]) -> str:
        return f"[{', '.join(self.number(depth, scope) for _ in range(self.random.randint(0, 3)))}]"

    def differentiated(self, depth: int, scope: dict[str, str]) -> str:
        """A function inside a derivative."""
        self.derivatives += 1
        made = self.function(depth, scope)
        self.derivatives -= 1
        return made

    def function(self, depth: int, scope: dict[str, str]) -> str:
        """An expression of a function from number to number."""
        functions = [n for n, t in scope.items() if t == "function"]
        way = self.random.randint(0, 3)
        if way == 0 and functions:
            return self.random.choice(functions)
        if way == 1 and depth:
            f = self.fresh("f")
            made = self.function(depth - 1, {**scope, f: "function"})
            return f"(lambda {f}: {made})({self.function(depth - 1, scope)})"
        if way == 2 and depth:
            a, b = self.number(0, scope), self.number(0, scope)
            return f"({self.function(depth - 1, scope)} if {a} < {b} else {self.function(depth - 1, scope)})"
        x = self.fresh("x")
        return f"(lambda {x}: {self.number(max(depth - 1, 0), {**scope, x: 'number'})})"

    def program(self, name: str) -> str:
        """A function of two numbers, with a recursive function and a fold."""
        scope = {"x": "number", "y": "number"}
        step = self.number(1, {**scope, "v": "number"})
        scope["again"] = "function"
        return f"""
@functional
def {name}(x: fixed, y: fixed):
    def fold(f, a, items):
        match items:
            case []:
                return a
            case [first, *rest]:
                return fold(f, f(first) + a, rest)

    def held(f, cell):
        match cell:
            case Cell(value, rest):
                return fold(f, sin(value), rest)

    def repeat(k, v):
        return v if k == 0 else repeat(k - 1, sin({step}))

    def again(v):
        return repeat({self.random.randint(0, 4)}, v)

    return {self.number(3, scope)}
"""


def module_of(path: Path, names: dict[str, Any]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


def compare(folder: Path, first: int, count: int) -> int:
    """Compile and run programs of these seeds; the number that was compared."""
    text = "".join(Generator(seed).program(f"p{seed}") for seed in range(first, first + count))
    path = folder / f"programs_{first}.py"
    path.write_text(text, encoding="utf-8")
    ours = module_of(
        path, {"functional": rg.functional, "fixed": rg.fixed, "sin": rg.sin, "grad": rg.grad, "Cell": Cell}
    )
    theirs = module_of(path, {"functional": lambda f: f, "fixed": None, "sin": sin, "grad": grad, "Cell": Cell})
    for seed in range(first, first + count):
        f, g = getattr(ours, f"p{seed}"), getattr(theirs, f"p{seed}")
        x, y = 0.5 + seed % 7 / 16, 0.25 - seed % 5 / 16
        by_x, by_y = dual(g(Dual(x, 1.0), Dual(y))), dual(g(Dual(x), Dual(y, 1.0)))
        run = rg.run(f, x, y)
        assert abs(run.values.out - by_x.value) < 1e-6, f"value of seed {seed}"
        assert run.erased_bits == 0, f"erased bits of seed {seed}"
        assert (~f)(*run.values) == (x, y, 0.0), f"inverse of seed {seed}"
        dx, dy = rg.grad(f, ["x", "y"])(x, y)
        assert abs(dx - by_x.slope) < 1e-5 * max(1.0, abs(by_x.slope) / 100), f"∂/∂x of seed {seed}"
        assert abs(dy - by_y.slope) < 1e-5 * max(1.0, abs(by_y.slope) / 100), f"∂/∂y of seed {seed}"
    return count


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_programs(tmp_path: Path, first: int) -> None:
    assert compare(tmp_path, first, 8) == 8


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 11000, 50))
def test_many_random_programs(tmp_path: Path, first: int) -> None:
    assert compare(tmp_path, first, 50) == 50
