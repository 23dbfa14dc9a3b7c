"""Random functional programs against two interpreters: of Python, which runs the same text, and of the core.

Programs have closures, curried functions, tuples, lists, lists of functions, a sum of data classes, recursion, mutual
recursion, loops, comprehensions, branches, blocks that forget, and derivatives at any place: by numbers, lists, data
classes and trees, forward, backward, and second ones. Both interpreters compute with dual numbers in mpmath
(dual_numbers.py), so nothing of the compiler is tested against itself.
"""

from __future__ import annotations

import importlib.util
import random
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import mpmath as mp
import pytest

import retrograd as rg


def beside(name: str) -> ModuleType:
    """A file of this folder as a module."""
    return module_of(Path(__file__).with_name(f"{name}.py"), {})


def module_of(path: Path, names: dict[str, Any]) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(names)
    spec.loader.exec_module(module)
    return module


duals = beside("dual_numbers")
Interpreter = beside("core_interpreter").Interpreter


@rg.data
class Cell:
    """A number and a list."""

    value: rg.fixed
    rest: list[rg.fixed]


@rg.data
class Tip:
    value: rg.fixed


@rg.data
class Fork:
    left: "Tip | Fork"
    turns: int
    right: "Tip | Fork"


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
        ways = ["sum", "product", "sin", "branch", "let", "call", "pair", "fold", "tree", "chosen", "curried", "total"]
        if inner and self.derivatives < 2:
            ways += ["slope", "gradient", "cell", "by tree", "vjp", "jvp"]
        if inner and self.derivatives < 1:
            ways += ["second"]
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
            case "tree":
                return f"walk({self.function(inner, scope)}, {self.tree(inner, scope)})"
            case "by tree":
                inside = f"lambda t: walk({self.differentiated(inner, scope)}, t)"
                return f"walk({self.function(0, scope)}, grad({inside})({self.tree(inner, scope)}))"
            case "vjp":
                v = self.fresh("v")
                both = [f"{self.differentiated(inner - 1, scope)}({v})" for _ in range(2)]
                by = f"({self.number(0, scope)}, {self.number(0, scope)})"
                return f"vjp(lambda {v}: ({both[0]}, {both[1]}))({self.number(inner, scope)}, {by})"
            case "jvp":
                along = self.number(0, scope)
                return f"jvp({self.differentiated(inner, scope)})({self.number(inner, scope)}, {along})"
            case "second":
                self.derivatives += 1
                made = f"hessian({self.differentiated(inner, scope)})({self.number(inner, scope)})"
                self.derivatives -= 1
                return made
            case "chosen":
                several = ", ".join(self.function(inner, scope) for _ in range(self.random.randint(1, 3)))
                return f"nth({self.random.randint(0, 3)}, [{several}])({self.number(inner, scope)})"
            case "curried":
                a, b = self.fresh("a"), self.fresh("b")
                body = self.number(inner, {**scope, a: "number", b: "number"})
                return f"(lambda {a}: lambda {b}: {body})({self.number(inner, scope)})({self.number(0, scope)})"
            case "total":
                v, w = self.fresh("v"), self.fresh("w")
                over = pick(
                    [f"for {v} in {self.items(inner, scope)}", f"for {v}, {w} in enumerate({self.items(inner, scope)})"]
                )
                kept = pick(["", f" if {v} < {self.number(0, scope)} + 0.25", f" for {w} in ({v}, 0.5)"])
                names = {v: "number", w: "number"} if w in over + kept else {v: "number"}
                # A sum of no items is an int, by which there is no derivative.
                return f"(sum([{self.number(inner, {**scope, **names})} {over}{kept}]) + 0.0)"
            case _:
                return f"fold({self.function(inner, scope)}, {self.number(inner, scope)}, {self.items(inner, scope)})"

    def loop(self, depth: int, scope: dict[str, str], indent: str) -> str:
        """A loop that assigns `a` and `b`."""
        pick, chance = self.random.choice, self.random.random
        i, u = self.fresh("i"), self.fresh("u")
        inside = {**scope, u: "number"}
        count = ""
        match pick(["items", "tuple", "range", "enumerate", "zip", "while"]):
            case "items":
                head = f"for {u} in {self.items(1, scope)}:"
            case "tuple":
                head = f"for {u} in ({self.number(0, scope)}, {self.number(1, scope)}):"
            case "range":
                ranges = ["range(3)", "range(k, 4)", "range(k, -2, -1)", "range(-1, 4, 2)", "reversed(range(k))"]
                head = f"for {u} in {pick(ranges)}:"
            case "enumerate":
                head, inside[i] = (
                    f"for {i}, {u} in enumerate({self.items(1, scope)}, {self.random.randint(-1, 1)}):",
                    "number",
                )
            case "zip":
                head, inside[i] = f"for {u}, {i} in zip({self.items(1, scope)}, range(k, 9)):", "number"
            case _:
                head, count, inside = f"while {i} < {self.random.randint(0, 4)}:", f"{indent}{i} = 0\n", scope
        lines = [head, *([f"    {i} += 1"] if count else [])]

        def left() -> str:
            ways = ["continue", "break", f"return {self.number(0, inside)}"]
            return f"    if {self.number(0, inside)} < {self.number(0, inside)}: {pick(ways)}"

        def step() -> str:
            return pick(
                [
                    f"    a = {self.number(1, inside)}",
                    f"    b += 0.25 * sin({self.number(0, inside)})",
                    "    a, b = b, a",
                ]
            )

        lines += [left()] if chance() < 0.4 else []
        lines += [step()]
        if chance() < 0.3:
            lines += [f"    if a < {self.number(0, inside)}:", f"    {step()}"] + (
                [] if chance() < 0.5 else ["    else:", f"    {step()}"]
            )
        lines += [left()] if chance() < 0.2 else []
        text = count + "".join(f"{indent}{line}\n" for line in lines)
        if depth and chance() < 0.5:
            text += self.loop(depth - 1, inside, indent + "    ")
        return text + f"{indent}    {step().strip()}\n"

    def tree(self, depth: int, scope: dict[str, str]) -> str:
        """A value of a sum type."""
        if depth == 0 or self.random.random() < 0.3:
            return f"Tip({self.number(depth, scope)})"
        turns = self.random.randint(0, 2)
        return f"Fork({self.tree(depth - 1, scope)}, {turns}, {self.tree(depth - 1, scope)})"

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
        within = {"a": "number", "b": "number", "x": "number", "y": "number"}
        spun = self.loop(1, within, "        ") + (
            self.loop(1, within, "        ") if self.random.random() < 0.5 else ""
        )
        scope |= {"again": "function", "even": "function", "looped": "function"}
        last = f"    return {self.number(3, scope)} + 0.0"
        if self.random.random() < 0.3:
            last = f"    with forget():\n        z = {self.number(2, scope)}\n    return {self.number(2, {**scope, 'z': 'number'})} + 0.0"
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

    def walk(f, t):
        match t:
            case Tip(value):
                return f(value)
            case Fork(left, turns, right):
                return walk(f, left) - 0.5 * walk(f, right) if turns > 1 else 0.25 * walk(f, right)

    def nth(k, functions):
        match functions:
            case []:
                return lambda v: 0.5 * v
            case [first, *rest]:
                return first if k == 0 else nth(k - 1, rest)

    def repeat(k, v):
        return v if k == 0 else repeat(k - 1, sin({step}))

    def again(v):
        return repeat({self.random.randint(0, 4)}, v)

    def spun(a, k):
        b = y
{spun.rstrip()}
        return a - 0.5 * b

    def looped(v):
        return spun(v, {self.random.randint(0, 3)})

    def even(v):
        return v if v < 1.0 else odd(v - 1.0)

    def odd(v):
        return 0.0 - v if v < 1.0 else even(v - 0.5)

{last}
"""


NAMES = {"Cell": Cell, "Tip": Tip, "Fork": Fork}
OURS = {"functional": rg.functional, "fixed": rg.fixed, "sin": rg.sin, "forget": rg.forget} | {
    n: getattr(rg, n) for n in ("grad", "vjp", "jvp", "hessian")
}
OPERATORS = {n: getattr(duals, n) for n in ("grad", "vjp", "jvp", "hessian")}
THEIRS = {"functional": lambda f: f, "fixed": None, "sin": duals.sin, "forget": nullcontext} | OPERATORS
OPERATIONS = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "//": lambda x, y: x // y, "%": lambda x, y: x % y,
    "unary -": lambda x: -x, "sin": duals.sin,
    "<": lambda x, y: x < y, ">": lambda x, y: x > y, "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y, "<=": lambda x, y: x <= y, ">=": lambda x, y: x >= y,
    "and": lambda x, y: x and y, "not": lambda x: not x,
}  # fmt: skip


def by_dual_numbers(f: Any, x: float, y: float) -> list[Any]:
    """[value, ∂/∂x, ∂/∂y]"""
    dual, one = duals.Dual, mp.mpf(1)
    by_x = duals.dual(f(dual(mp.mpf(x), one), dual(mp.mpf(y))))
    by_y = duals.dual(f(dual(mp.mpf(x)), dual(mp.mpf(y), one)))
    return [duals.number(v) for v in (by_x.value, by_x.slope, by_y.slope)]


def compare(folder: Path, first: int, count: int) -> int:
    """Compile and run programs of these seeds; the number that was compared."""
    text = "".join(Generator(seed).program(f"p{seed}") for seed in range(first, first + count))
    path = folder / f"programs_{first}.py"
    path.write_text(text, encoding="utf-8")
    ours, theirs = module_of(path, OURS | NAMES), module_of(path, THEIRS | NAMES)
    interpreter = Interpreter(OPERATIONS, OPERATORS)
    for seed in range(first, first + count):
        f = getattr(ours, f"p{seed}")
        x, y = 0.5 + seed % 7 / 16, 0.25 - seed % 5 / 16
        value, by_x, by_y = by_dual_numbers(getattr(theirs, f"p{seed}"), x, y)
        # Constants were combined as floats when the core was read.
        found = by_dual_numbers(interpreter.function(f), x, y)
        assert all(abs(a - b) <= 1e-15 * max(1, abs(b)) for a, b in zip(found, (value, by_x, by_y), strict=True)), (
            f"core of seed {seed}"
        )
        run = rg.run(f, x, y)
        assert abs(run.values.out - value) < 1e-6 * max(1, abs(value)), f"value of seed {seed}"
        assert run.erased_bits == 0, f"erased bits of seed {seed}"
        assert (~f)(*run.values) == (x, y, 0.0), f"inverse of seed {seed}"
        if seed % 4 == 0:
            forgets = f.with_options(forget=random.Random(seed).sample(f.forgettable(), 1))
            assert rg.run(forgets, x, y).values == run.values, f"calls forgotten of seed {seed}"
        dx, dy = rg.grad(f, ["x", "y"])(x, y)
        assert abs(dx - by_x) < 1e-5 * max(1, abs(by_x)), f"∂/∂x of seed {seed}"
        assert abs(dy - by_y) < 1e-5 * max(1, abs(by_y)), f"∂/∂y of seed {seed}"
    return count


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_programs(tmp_path: Path, first: int) -> None:
    assert compare(tmp_path, first, 8) == 8


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 50))
def test_many_random_programs(tmp_path: Path, first: int) -> None:
    assert compare(tmp_path, first, 50) == 50
