"""Stacks of every type of element: each law holds for numbers of one word, complex numbers and structs."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.ir.text import as_text, parse
from retrograd.compiler.language.types import Type, complete, layouts
from retrograd.isa.words import Q32_32

import retrograd as rg
from retrograd.cli.batches import _as_arrays
from retrograd.cli.main import main
from retrograd.observe._variables import Word, named, variables
from retrograd.runtime._binding import bind
from retrograd.runtime._execution import load
from retrograd.runtime._marshal import from_words, to_words
from retrograd.testing import check_laws

TEXT = '''
import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible, uint

@rg.struct
class Point:
    x: fixed
    n: int

@rg.struct
class Body:
    length: uint
    at: complex
    points: Array[fixed, 2]
    on: bool

VALUES = {values}

@reversible
def turned(s: Stack[{element}, 5], t: Stack[{element}, 5], x: {element}, n: int):
    """Moves x and all elements of s to t."""
    rg.push(s, x)
    while (s, t):
        y = rg.pop(s)
        n += 10 * len(s) + len(t)
        rg.push(t, y)

@reversible
def inserted(s: Stack[{element}, 5], x: {element}, n: int):
    """Moves x under the n elements on top of s, which wait in the frame of each activation."""
    if n > 0:
        held = rg.stack({element}, 2)
        y = rg.pop(s)
        rg.push(held, y)
        del y
        m = n - 1
        inserted(s, x, m)
        del m
        y = rg.pop(held)
        rg.push(s, y)
    else:
        rg.push(s, x)

@reversible
def exchanged(s: Stack[{element}, 5], x: {element}, i: int):
    rg.swap(x, s[i])
    s[0], s[-1] = s[-1], s[0]

@reversible
def known(s: Stack[{element}, 5], x: {element}):
    y = rg.pop(s)
    rg.free(y, x)

@reversible
def pop(s: Stack[{element}, 5], x: {element}):
    rg.pop(s, x)

@reversible
def push(s: Stack[{element}, 5], x: {element}):
    rg.push(s, x)

@reversible
def left(s: Stack[{element}, 5]):
    y = rg.pop(s)

@reversible
def row(s: Stack[{element}, 5], xs: Array[{element}, 2, 2], i: int):
    """Moves elements of an array, at an index of the run."""
    rg.push(s, xs[i, 0])
    rg.push(s, xs[i, 1])
'''

#: type of element -> four values, the third of which has zero in all words
ELEMENTS = {
    "fixed": "[1.5, -2.25, 0.0, 7.0]",
    "int": "[3, -1, 0, 5]",
    "uint": "[3, 2**64 - 1, 0, 5]",
    "bool": "[True, True, False, True]",
    "lognum": "[2.0, -0.5, 1.0, 8.0]",
    "complex": "[1 + 2j, -3.5j, 0j, 2 - 1j]",
    "Point": "[Point(1.5, 2), Point(-2.0, -7), Point(0.0, 0), Point(0.0, 1)]",
    "Body": "[Body(2**63, 1 - 2j, [1.5, -2.0], True), Body(1, 0j, [0.0, 1.0], False), Body(0, 0j, [0.0, 0.0], False), Body(0, 2j, [8.0, 0.0], True)]",
}
LEVELS = pytest.mark.parametrize("level", [0, 1])


def imported(path: Path) -> Any:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Case:
    """The functions of one type of element."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path = folder / f"stacks_of_{name}.py"
        self.path.write_text(TEXT.format(element=name, values=ELEMENTS[name]))
        self.module = imported(self.path)
        self.annotation = self.module.turned.parameters[2].annotation
        self.type = complete(self.annotation)
        self.values: list[Any] = self.module.VALUES
        self.zero: Any = from_words(self.type, [0] * self.type.size, Q32_32)

    def words(self, function: str, values: Any) -> list[list[int]]:
        """The words of the arguments of a function."""
        f = getattr(self.module, function)
        return [to_words(t, value, Q32_32, "x") for t, value in zip(f.types_of(values), values, strict=True)]

    def same(self, function: str, found: Any, expected: Any) -> None:
        """Both are the same arguments of the function, bit for bit."""
        assert self.words(function, tuple(found)) == self.words(function, tuple(expected))


@pytest.fixture(scope="module", params=ELEMENTS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("stacks"))


# ---------------------------------------------------------------------- runs


def moves(case: Case) -> list[tuple[str, tuple[Any, ...], tuple[Any, ...]]]:
    """(function, arguments, arguments after the run), of which a list is the model."""
    a, b, _, c = case.values
    zero = case.zero
    return [
        ("turned", ([], [], a, 0), ([], [a], zero, 0)),
        ("turned", ([a, b], [], c, 0), ([], [c, b, a], zero, 20 + 11 + 2)),
        ("inserted", ([a, b, c], a, 2), ([a, a, b, c], zero, 2)),
        ("inserted", ([a, b], c, 0), ([a, b, c], zero, 0)),
        ("exchanged", ([a, b], c, 0), ([b, c], a, 0)),
        ("exchanged", ([a, b, c], b, 1), ([c, b, a], b, 1)),
        ("exchanged", ([a], c, 0), ([c], a, 0)),
        ("known", ([b, a], a), ([b], a)),
        ("pop", ([a, c], zero), ([a], c)),
        ("push", ([a], b), ([a, b], zero)),
        ("row", ([a], [[a, b], [b, c]], 1), ([a, b, c], [[a, b], [zero, zero]], 1)),
    ]


@LEVELS
def test_stacks_hold_the_elements_of_a_list(case: Case, level: int) -> None:
    for name, before, after in moves(case):
        f = getattr(case.module, name).with_options(level=level)
        case.same(name, f(*before), after)
        case.same(name, (~f)(*after), before)


def test_random_elements(case: Case) -> None:
    zero = case.zero
    check_laws(case.module.turned, 8, t=[])
    check_laws(case.module.pop, 8, x=zero, accept=("RG0806",))


class Statements:
    """Random pushes, pops, exchanges and calls on two stacks, a variable and an array, and what they do to lists.

    `before`, `after`: the arguments of the function f that consists of them. Its parameters i0, i1, i2 are the
    numbers 0, 1, 2 of a run.
    """

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.rng, self.lines = case, random.Random(seed), list[str]()
        self.stacks = {name: self.rng.choices(case.values, k=self.rng.randrange(4)) for name in "st"}
        self.places = {
            "x": case.values[0],
            "y": case.zero,
            "xs[0]": case.values[1],
            "xs[1]": case.zero,
            "xs[2]": case.values[3],
        }
        self.before = self.arguments()
        for _ in range(self.rng.randrange(2, 14)):
            self.add()
        self.after = self.arguments()

    def arguments(self) -> tuple[Any, ...]:
        places = self.places
        row = [places[f"xs[{k}]"] for k in range(3)]
        return list(self.stacks["s"]), list(self.stacks["t"]), places["x"], places["y"], row, 0, 1, 2

    def index(self, k: int, length: int) -> str:
        return self.rng.choice([str(k), f"-{length - k}", f"i{k}" if k < 3 else str(k)])

    def add(self) -> None:
        """One statement, if it has no trap."""
        rng, places, zero = self.rng, self.places, self.case.zero
        s = rng.choice("st")
        o = "st"[s == "s"]
        stack, other, name = self.stacks[s], self.stacks[o], rng.choice(list(places))
        text = f"xs[i{name[3]}]" if name[0:2] == "xs" and rng.random() < 0.5 else name
        match rng.choice(("push", "push", "pop", "swap", "move", "called", "within", "between")):
            case "push" | "called" as how if len(stack) < 6:
                self.lines.append(f"rg.push({s}, {text})" if how == "push" else f"called({s}, {text})")
                stack.append(places[name])
                places[name] = zero
                if how == "called":
                    stack[0], stack[-1] = stack[-1], stack[0]
            case "pop" if stack and self.case.words("pop", ([], places[name])) == self.case.words("pop", ([], zero)):
                self.lines.append(f"rg.pop({s}, {text})")
                places[name] = stack.pop()
            case "swap" if stack:
                k = rng.randrange(len(stack))
                self.lines.append(f"rg.swap({text}, {s}[{self.index(k, len(stack))}])")
                stack[k], places[name] = places[name], stack[k]
            case "move" if stack and len(other) < 6:
                self.lines += [f"v{len(self.lines)} = rg.pop({s})", f"rg.push({o}, v{len(self.lines)})"]
                other.append(stack.pop())
            case "within" if stack:
                i, j = rng.randrange(len(stack)), rng.randrange(len(stack))
                self.lines.append(f"rg.swap({s}[{self.index(i, len(stack))}], {s}[{j}])")
                stack[i], stack[j] = stack[j], stack[i]
            case "between" if stack and other:
                self.lines.append(f"{s}[-1], {o}[0] = {o}[0], {s}[-1]")
                stack[-1], other[0] = other[0], stack[-1]

    def module(self, path: Path) -> Any:
        t = self.case.annotation.__name__
        body = "".join(f"    {line}\n" for line in self.lines or ["pass"])
        path.write_text(f"""
from {self.case.path.stem} import *
import retrograd as rg
from retrograd import Array, Stack, reversible

@reversible
def called(s: Stack[{t}, 6], x: {t}):
    rg.push(s, x)
    rg.swap(s[0], s[-1])

@reversible
def f(s: Stack[{t}, 6], t: Stack[{t}, 6], x: {t}, y: {t}, xs: Array[{t}, 3], i0: int, i1: int, i2: int):
{body}""")
        return imported(path)


@pytest.mark.parametrize("seed", range(6))
def test_random_statements(case: Case, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, case.path.stem, case.module)
    made = Statements(case, seed)
    module = made.module(tmp_path / f"statements_{seed}.py")
    for level in (0, 1):
        f = module.f.with_options(level=level)
        types = f.types_of(made.before)

        def words(values: Any, types: Any = types) -> list[list[int]]:
            return [to_words(t, value, Q32_32, "x") for t, value in zip(types, values, strict=True)]

        assert words(f(*made.before)) == words(made.after), made.lines
        assert words((~f)(*made.after)) == words(made.before), made.lines


@LEVELS
def test_traps(case: Case, level: int) -> None:
    a, b, _, c = case.values
    zero = case.zero
    for name, arguments, code in (
        ("pop", ([], zero), "RG0806"),
        ("pop", ([a], b), "RG0802"),
        ("push", ([a, b, c, a, b], c), "RG0806"),
        ("known", ([a], zero), "RG0802"),
        ("left", ([zero, a],), "RG0802"),
        ("exchanged", ([a, b], c, 2), "RG0801"),
        ("exchanged", ([a, b], c, -1), "RG0801"),
        ("exchanged", ([a, b], c, 1 << 62), "RG0801"),
        ("exchanged", ([], c, 0), "RG0801"),
        ("inserted", ([a], b, 2), "RG0806"),
    ):
        with pytest.raises(rg.ProgramTrap) as trapped:
            getattr(case.module, name).with_options(level=level)(*arguments)
        assert trapped.value.code == code, (name, arguments)


@LEVELS
def test_a_stack_beside_its_element_in_one_struct(
    case: Case, level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "piles.py"
    path.write_text(f"""
from {case.path.stem} import *
import retrograd as rg
from retrograd import Array, Stack, reversible

@rg.struct
class Pile:
    top: {case.annotation.__name__}
    held: Stack[{case.annotation.__name__}, 3]

@reversible
def push(piles: Array[Pile, 2], i: int):
    rg.push(piles[i].held, piles[i].top)
""")
    monkeypatch.setitem(sys.modules, case.path.stem, case.module)
    piles = imported(path)
    a, b, _, c = case.values
    f = piles.push.with_options(level=level)
    found = f([piles.Pile(a, [b]), piles.Pile(c, [])], 1)
    for pile, (top, held) in zip(found.piles, ((a, [b]), (case.zero, [c])), strict=True):
        case.same("push", (pile.held, pile.top), (held, top))
    back = (~f)(*found)
    for pile, (top, held) in zip(back.piles, ((a, [b]), (c, [])), strict=True):
        case.same("push", (pile.held, pile.top), (held, top))


@pytest.mark.parametrize("name", ["fixed", "complex", "Point"])
def test_what_is_no_stack_of_elements_is_refused(name: str, tmp_path: Path) -> None:
    case = Case(name, tmp_path)
    for given in ([*case.values, *case.values], ["a"], [None], 3, [[1.0, 2.0, 3.0]]):
        with pytest.raises(rg.InputError) as refused:
            case.module.push(given, case.zero)
        assert refused.value.code in ("RG0602", "RG0603")
        assert "`s" in refused.value.diagnostics[0].message


# ---------------------------------------------------------------------- batches and files


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_batches(case: Case, engine: str) -> None:
    a, b, _, c = case.values
    rows = [([a, b], [], c, 0), ([], [], a, 1), ([c, b, a], [], b, 2)]
    columns = [list(column) for column in zip(*rows, strict=True)]
    found = rg.run_batch(case.module.turned, *columns, engine=engine).values
    back = rg.run_batch(~case.module.turned, *found, engine=engine).values
    for i, row in enumerate(rows):
        case.same("turned", [column[i] for column in found], case.module.turned(*row))
        case.same("turned", [column[i] for column in back], row)
    shared = rg.vmap(case.module.turned, in_axes=(None, None, None, 0))([a], [], b, [5, 6])
    assert [len(stack) for stack in shared.t] == [2, 2]


def test_files_of_batches(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, _, c = case.values
    out, back, again = (str(tmp_path / name) for name in ("out.npz", "back.npz", "again.npz"))
    rows = [([a, b], [], c, 0), ([], [], a, 1), ([c, b, a], [], b, 2)]
    result = rg.run_batch(case.module.turned, *(list(column) for column in zip(*rows, strict=True)))
    arrays = {name: array for name, array in _as_arrays(result).items() if not name.startswith("retrograd.")}
    np.savez(out, **arrays)
    target = f"{case.path}:turned"
    assert main(["run", target, "--batch", out, "--backward", "-o", back, "--quiet"]) == 0
    assert main(["run", target, "--batch", back, "-o", again, "--quiet"]) == 0
    assert main(["run", target, "--batch", back, "--json", "--quiet"]) == 0
    printed = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert [len(stack) for stack in printed["each"]["values"]["t"]] == [3, 1, 4]
    with np.load(out) as first, np.load(again) as second:
        for name in arrays:
            assert np.array_equal(first[name], second[name]), name


def test_a_run_of_the_command_line(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    def literal(value: Any) -> str:
        fields = getattr(value, "__dataclass_fields__", None)
        if fields is not None:
            return "{" + ", ".join(f"'{name}': {literal(getattr(value, name))}" for name in fields) + "}"
        return "[" + ", ".join(map(literal, value)) + "]" if isinstance(value, list | np.ndarray) else repr(value)

    a, b, _, c = case.values
    assert main(["run", f"{case.path}:turned", literal([a, b]), "[]", literal(c), "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["values"]
    assert (len(found["s"]), len(found["t"]), found["n"]) == (0, 3, 33)
    if isinstance(a, complex):
        assert [complex(text) for text in found["t"]] == [c, b, a]


# ---------------------------------------------------------------------- what observes a run


@LEVELS
def test_the_debugger_shows_the_elements_below_the_top(case: Case, level: int) -> None:
    a, b, _, c = case.values
    f = case.module.turned.with_options(level=level)
    values = bind(f, ([a, b], [], c, 0), {})
    machine, until = (load(f.compiled(*values), values, engine="reference") for _ in range(2))
    machine.run(until.run().steps - 1)
    found = {v.name: v for v in variables(machine)}
    words = np.array([to_words(case.type, v, Q32_32, "x") for v in (c, b, a)], dtype=np.uint64)
    for layout in layouts(case.type, "t"):
        shown = found[layout.name]
        assert shown.shape == (3, *layout.shape)
        at = [layout.offset + sum(np.multiply(i, layout.strides)) for i in np.ndindex(*layout.shape)]
        kind = complete({"fixed": rg.fixed, "lognum": rg.lognum, "uint": rg.uint}.get(layout.kind, int))
        expected = [from_words(kind, [int(row[k])], Q32_32) for row in words for k in at]
        assert np.ravel(shown.value).tolist() == pytest.approx(expected), layout.name
        assert np.size(found[layout.name.replace("t", "s", 1)].value) == 0
        text = layout.name.replace("t", "t[1]", 1) + "[1]" * len(layout.shape)
        element = named(text, machine)
        assert isinstance(element, Word)
        assert element.value(machine) == pytest.approx(expected[2 * len(at) - 1 if layout.shape else 1]), text


def test_the_explorer_counts_the_elements(case: Case, tmp_path: Path) -> None:
    a, b, _, c = case.values
    path = tmp_path / "run.json"
    rg.explore(case.module.turned, [a, b], [], c, 0).save(str(path))
    document = json.loads(path.read_text())
    held = [int(place["start"]) for place in document["places"]]
    for changes in document["steps"]["changes"]:
        for place, after in zip(*[iter(changes)] * 2, strict=True):
            held[place] = int(after)
    arrays = {array["name"]: array for array in document["arrays"]}
    for layout in layouts(case.type, "t"):
        assert held[arrays[layout.name]["count"]] == 3
        assert arrays[layout.name].get("each", 1) == np.prod(layout.shape, dtype=int)
        assert held[arrays[layout.name.replace("t", "s", 1)]["count"]] == 0
        words = [to_words(case.type, v, Q32_32, "x") for v in (c, b, a)]
        at = [layout.offset + sum(np.multiply(i, layout.strides)) for i in np.ndindex(*layout.shape)]
        expected = [Q32_32.signed(word[k]) for word, k in product(words, at)]
        assert [held[place] for place in islice(arrays[layout.name]["places"], len(expected))] == expected


def test_the_text_of_a_program_keeps_its_stacks(case: Case) -> None:
    module = case.module.turned.compiled([], [], case.zero, 0).module
    text = as_text(module)
    again = parse(text)
    assert as_text(again) == text
    assert [r.layouts for r in again.regions] == [r.layouts for r in module.regions]


# ---------------------------------------------------------------------- derivatives

DERIVATIVES = """
import retrograd as rg
from retrograd import Array, Stack, fixed, lognum, reversible

@rg.struct
class Ball:
    at: complex
    sizes: Array[fixed, 2]
    n: int

@reversible
def add(y: fixed, e: {element}):
    {add}

@reversible
def direct(y: fixed, a: {element}, b: {element}):
    add(y, a)
    add(y, a)
    add(y, b)

@reversible
def through(y: fixed, a: {element}, b: {element}):
    s = rg.stack({element}, 3)
    rg.push(s, a)
    rg.push(s, b)
    add(y, s[0])
    add(y, s[-2])
    t = rg.pop(s)
    add(y, t)
    rg.push(s, t)
    rg.pop(s, b)
    rg.pop(s, a)

@reversible
def argument(y: fixed, a: {element}, b: {element}, s: Stack[{element}, 3]):
    rg.push(s, a)
    rg.push(s, b)
    add(y, s[1])
    add(y, s[-2])
    add(y, rg.top(s))
    rg.pop(s, b)
    rg.pop(s, a)

A, B, DA, DB = {values}
"""

#: type of element -> a function of it, two values, and a change of each
REAL = {
    "fixed": ("y += e * e * e", "1.5, -0.5, 1.0, -2.0"),
    "lognum": ("y += fixed(e) * 3", "1.5, 0.5, 1.0, -2.0"),
    "complex": ("y += (e * e).real + e.imag * 3", "1.5 - 1j, 2j, 1j, 2 + 1j"),
    "Ball": (
        "y += e.sizes[0] * e.at.imag * e.n + e.sizes[1]",
        "Ball(1j, [2.0, 3.0], 2), Ball(1 + 2j, [0.5, 1.0], 3), Ball(1j, [1.0, -1.0], 0), Ball(2 + 0j, [0.0, 1.0], 0)",
    ),
}


def numbers(t: Type, value: Any) -> list[float]:
    """The numbers of a derivative."""
    if isinstance(value, complex):
        return [value.real, value.imag]
    fields = getattr(t, "fields", None)
    if fields is None:
        return np.ravel(np.asarray(value, dtype=float)).tolist()
    return [x for name, inner in fields for x in numbers(inner, getattr(value, name))]


@pytest.mark.parametrize("element", REAL)
def test_derivatives_go_through_stacks(element: str, tmp_path: Path) -> None:
    path = tmp_path / f"derivatives_of_{element}.py"
    path.write_text(DERIVATIVES.format(element=element, add=REAL[element][0], values=REAL[element][1]))
    module = imported(path)
    a, b, da, db = (getattr(module, n) for n in ("A", "B", "DA", "DB"))
    direct, through, argument = (getattr(module, n) for n in ("direct", "through", "argument"))
    t = complete(direct.parameters[1].annotation)
    own, found, given = (
        rg.grad(f, ["a", "b"], loss="y")(0.0, a, b, *rest)
        for f, rest in ((direct, ()), (through, ()), (argument, ([a],)))
    )
    for g in (found, given):
        for x, y in zip(g, own, strict=True):
            assert numbers(t, x) == pytest.approx(numbers(t, y), abs=1e-6)
    tangents = [rg.jvp(f, (0.0, a, b), (0.0, da, db))[1][0] for f in (direct, through)]
    assert tangents[0] == pytest.approx(tangents[1], abs=1e-6)
    pullbacks = [rg.vjp(f, 0.0, a, b)[1] for f in (direct, through)]
    pulled = [pullback({"y": 1.0}) for pullback in pullbacks]
    assert numbers(t, pulled[0].a) == pytest.approx(numbers(t, pulled[1].a), abs=1e-6)
    batch = rg.vmap(rg.grad(through, "b", loss="y"), in_axes=(0, None, None))(np.zeros(2), a, b)
    assert len(batch) == 2
    if element == "fixed":
        hessians = [np.asarray(rg.hessian(f, loss="y", argnums=("a", "b"))(0.0, a, b)) for f in (direct, through)]
        assert hessians[0] == pytest.approx(hessians[1], abs=1e-5)


def test_a_stack_of_complex_numbers_has_no_derivative_itself() -> None:
    @rg.reversible
    def f(y: rg.fixed, s: rg.Stack[complex, 2]) -> None:
        y += s[0].re

    with pytest.raises(rg.NotDifferentiable) as refused:
        rg.grad(f, "s", loss="y")(0.0, [1j])
    assert "a stack has no derivative" in str(refused.value)
