"""What a function captures is part of what identifies it: after a change it is what a function defined now would be."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.frontends.python.captures import Captures

import retrograd as rg
from retrograd.runtime._reversible import Reversible

_numbers = itertools.count()


def cell(source: str, names: dict[str, Any]) -> None:
    """Run a cell of a notebook."""
    text, file = textwrap.dedent(source), f"<cell {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)


def notebook(source: str) -> dict[str, Any]:
    """The names that a cell leaves."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cell("import dataclasses, enum, math, types\nimport numpy as np\nimport retrograd as rg", names)
    cell("from retrograd import Array, fixed, reversible", names)
    cell(source, names)
    return names


#: what is captured: (cell before, a cell with `f(y, x)` that adds rate·x to y, cell that changes the rate from 2 to 3)
CHANGES: dict[str, tuple[str, str, str]] = {
    "global": ("rate = 2", "y += x * rate", "rate = 3"),
    "first of several globals": ("rate, b, c = 2, 0, 0", "y += x * rate + x * b + x * c", "rate = 3"),
    "global of another type": ("rate = 2", "y += x * rate if isinstance(rate, int) else x * 3", "rate = 2.0"),
    "global that hides a builtin": ("", "y += x * (max(1, 2))", "max = rg.pure(lambda a, b: 3)"),
    "element of a list": ("rates = [1, 2]", "y += x * rates[1]", "rates[1] = 3"),
    "element of a list in a dict": ("rates = {'a': [1, 2]}", "y += x * rates['a'][1]", "rates['a'][1] = 3"),
    "element of a list in a tuple": ("rates = ([2],)", "y += x * rates[0][0]", "rates[0][0] = 3"),
    "length of a list": ("rates = [1, 1]", "y += x * len(rates)", "rates.append(5)"),
    "items of a list": ("rates = [2]", "for r in rates:\n        y += x * r", "rates.append(1)"),
    "item of a dict": ("rates = {'a': 2}", "y += x * rates['a']", "rates['a'] = 3"),
    "item of a set": ("rates = {2}", "for r in rates:\n        y += x * r", "rates.add(1)"),
    "element of an array": ("rates = np.array([1.0, 2.0])", "y += x * rates[1]", "rates[1] = 3"),
    "element of an array at a variable index": (
        "rates = np.array([1.0, 2.0])", "for i in range(1, 2):\n        y += x * rates[i]", "rates[1] = 3"),
    "view of an array": ("whole = np.array([2.0]); rates = whole[:]", "y += x * rates[0]", "whole[0] = 3"),
    "attribute of an object": ("s = types.SimpleNamespace(rate=2)", "y += x * s.rate", "s.rate = 3"),
    "attribute of an attribute": (
        "s = types.SimpleNamespace(t=types.SimpleNamespace(rate=2))", "y += x * s.t.rate", "s.t.rate = 3"),
    "attribute of a class": ("class S:\n    rate = 2\ns = S()", "y += x * s.rate", "S.rate = 3"),
    "attribute of an object that hides one of its class": ("class S:\n    rate = 2\ns = S()", "y += x * s.rate", "s.rate = 3"),
    "attribute of a class through the class": ("class S:\n    rate = 2", "y += x * S.rate", "S.rate = 3"),
    "attribute of a base class": ("class B:\n    rate = 2\nclass S(B): pass\ns = S()", "y += x * s.rate", "B.rate = 3"),
    "attribute of a derived class that hides one": (
        "class B:\n    rate = 2\nclass S(B): pass\ns = S()", "y += x * s.rate", "S.rate = 3"),
    "slot": ("class S:\n    __slots__ = ('rate',)\ns = S()\ns.rate = 2", "y += x * s.rate", "s.rate = 3"),
    "attribute of a module": ("m = types.ModuleType('m'); m.rate = 2", "y += x * m.rate", "m.rate = 3"),
    "attribute of a module with a longer name": ("m = types.ModuleType('numpyx'); m.rate = 2", "y += x * m.rate", "m.rate = 3"),
    "field of a dataclass": (
        "@dataclasses.dataclass\nclass S:\n    rate: int\ns = S(2)", "y += x * s.rate", "s.rate = 3"),
    "array in a struct": (
        "@rg.struct\nclass S:\n    rates: Array[fixed, 1]\ns = S([2.0])", "y += x * s.rates[0]", "s.rates[0] = 3"),
    "enum": ("class E(enum.Enum):\n    A = 2", "y += x * E.A.value", "class E(enum.Enum):\n    A = 3"),
    "reversible function": (
        "@reversible\ndef g(y, x):\n    y += x * 2", "g(y, x)", "@reversible\ndef g(y, x):\n    y += x * 3"),
    "global of a called function": ("rate = 2\n@reversible\ndef g(y, x):\n    y += x * rate", "g(y, x)", "rate = 3"),
    "global two calls away": (
        "rate = 2\n@reversible\ndef h(y, x):\n    y += x * rate\n@reversible\ndef g(y, x):\n    h(y, x)", "g(y, x)", "rate = 3"),
    "global of an inner function": ("rate = 2", "def g(a, b):\n        a += b * rate\n    g(y, x)", "rate = 3"),
    "global of a gradient within": (
        "rate = 2\n@reversible\ndef g(y: fixed, x: fixed):\n    y += x * x * rate / 2\ndg = rg.reversible_gradient(g, 'x')",
        "t = fixed(0)\n    dg(t, x, y)", "rate = 3"),
    "method of a struct": (
        "@rg.struct\nclass S:\n    a: fixed\n    @reversible\n    def go(self, y, x):\n        y += self.a * x\ns = S(2.0)",
        "s.go(y, x)", "@reversible\ndef go(self, y, x):\n    y += self.a * x * 1.5\ngo.owner = S\nS.go = go"),
    "pure function": (
        "@rg.pure\ndef rate(): return 2", "y += x * rate()", "@rg.pure\ndef rate(): return 3"),
    "function under another name": (
        "@reversible\ndef g(y, x):\n    y += x * 2\ngs = [g]", "gs[0](y, x)", "@reversible\ndef g(y, x):\n    y += x * 3\ngs[0] = g"),
}  # fmt: skip


def closed_over() -> tuple[Any, Callable[[Any], None]]:
    rate: Any = 2

    @rg.reversible
    def f(y: rg.fixed, x: rg.fixed):
        y += x * rate

    def change(value: Any) -> None:
        nonlocal rate
        rate = value

    return f, change


def noting(seen: list[Any]) -> Callable[[Any], int]:
    """A function that is called where its caller is compiled, and so shows with what."""

    @rg.pure
    def note(value: Any) -> int:
        seen.append(value)
        return 1

    return note


def program(body: str) -> str:
    return f"@reversible\ndef f(y: fixed, x: fixed):\n    {body}\n"


#: what is made of f, once, and how the rate is found by it each time
USES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], float]]] = {
    "call": (lambda f: f, lambda f: f(0.0, 0.5).y * 2),
    "inverse": (lambda f: ~f, lambda g: -g(0.0, 0.5).y * 2),
    "run": (lambda f: f, lambda f: rg.run(f, 0.0, 0.5, format=rg.Format(32, 16)).values.y * 2),
    "options": (lambda f: f.with_options(level=0), lambda g: g(0.0, 0.5).y * 2),
    "grad": (lambda f: rg.grad(f, "x"), lambda g: g(0.0, 0.5)),
    "grad of the inverse": (lambda f: rg.grad(~f, "x"), lambda g: -g(0.0, 0.5)),
    "gradient": (lambda f: rg.reversible_gradient(f, "x"), lambda g: g(0.0, 0.5, 0.0).d_x),
    "vmap": (rg.vmap, lambda g: g(np.zeros(2), np.array([0.5, 1.0])).y[1]),
    "vmap of grad": (lambda f: rg.vmap(rg.grad(f, "x")), lambda g: g(np.zeros(2), np.array([0.5, 1.0]))[1]),
    "batch": (lambda f: f, lambda f: rg.run_batch(f, np.zeros(2), np.array([0.5, 1.0])).values.y[1]),
    "jvp": (lambda f: f, lambda f: rg.jvp(f, (0.0, 0.5), (0.0, 1.0))[1].y),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change: str) -> None:
    before, body, after = CHANGES[change]
    names = notebook(f"{before}\n{program(body)}")
    f = names["f"]
    assert f(0.0, 0.5).y == 1
    kept = f.compiled(0.0, 0.5)
    assert f.compiled(0.0, 0.5) is kept, "compiled anew, though nothing has changed"
    cell(after, names)
    assert f(0.0, 0.5).y == 1.5


@pytest.mark.parametrize("use", USES)
def test_a_change_is_seen_by_all_that_is_made_of_a_function(use: str) -> None:
    """Of a list's element two calls away, and of a variable of the function around."""
    make, rate = USES[use]
    names = notebook("rates = [2]\n@reversible\ndef g(y, x):\n    y += x * rates[0]\n" + program("g(y, x)"))
    made = make(names["f"])
    assert rate(made) == 2
    names["rates"][0] = 3
    assert rate(made) == 3
    f, change = closed_over()
    made = make(f)
    assert rate(made) == 2
    change(3)
    assert rate(made) == 3


def test_energy_counts_what_runs_now() -> None:
    names = notebook("times = 2\n" + program("for i in range(times):\n        y += x"))
    before = rg.energy(names["f"], 0.0, 0.5, tech="landauer").counts
    names["times"] = 50
    after = rg.energy(names["f"], 0.0, 0.5, tech="landauer").counts
    fresh = notebook("times = 50\n" + program("for i in range(times):\n        y += x"))
    assert after.program == rg.energy(fresh["f"], 0.0, 0.5, tech="landauer").counts.program != before.program


def test_a_store_of_a_sweep_keeps_rows_apart(tmp_path: Any) -> None:
    names = notebook("times = 2\n" + program("for i in range(times):\n        y += x"))

    def priced() -> Any:
        found = rg.energy_sweep({"f": names["f"]}, [(0.0, 0.5)], store=tmp_path / "rows.db")
        return [row.counts for row in found]

    before = priced()
    names["times"] = 50
    assert priced() != before
    names["times"] = 2
    assert priced() == before


def test_going_back_to_old_values_compiles_nothing() -> None:
    names = notebook("rates = [2]\n" + program("y += x * rates[0]"))
    f = names["f"]
    first = f.compiled(0.0, 0.5)
    names["rates"][0] = 3
    second = f.compiled(0.0, 0.5)
    names["rates"][0] = 2
    assert f.compiled(0.0, 0.5) is first
    names["rates"][0] = 3
    assert f.compiled(0.0, 0.5) is second is not first


def test_an_equal_value_is_no_change() -> None:
    """A notebook's cell that is run again makes other objects of the same values."""
    text = "rate, rates, one = 0.5, [1.5, 'a', (2.5,)], np.float64(1.0)\n"
    names = notebook(text + program("y += x * rate * rates[0] * rates[2][0] * one"))
    first = names["f"].compiled(0.0, 0.5)
    names["one"] = np.float64(1.0)
    names["rate"], names["rates"][0], names["rates"][2] = float("0.5"), float("1.5"), (float("2.5"),)
    assert names["f"].compiled(0.0, 0.5) is first


def test_an_equal_value_of_a_variable_around_is_no_change() -> None:
    f, change = closed_over()
    change(0.5)
    first = f.compiled(0.0, 0.5)
    change(float("0.5"))
    assert f.compiled(0.0, 0.5) is first
    change(True)
    second = f.compiled(0.0, 0.5)
    change(1)
    assert f.compiled(0.0, 0.5) is not second


@pytest.mark.parametrize(
    ("old", "new"), [(1, True), (1, 1.0), (0.0, -0.0), ((1,), (1.0,)), ("1", b"1"), (np.float32(0), np.int32(0))]
)
def test_equal_values_of_another_type_are_a_change(old: Any, new: Any) -> None:
    names = notebook(program("y += x * (seen(value))"))
    seen: list[Any] = []
    names["seen"] = noting(seen)
    names["value"] = old
    names["f"](0.0, 0.5)
    names["value"] = new
    names["f"](0.0, 0.5)
    assert list(map(repr, seen)) == [repr(old), repr(new)]


def test_names_that_are_not_read_do_not_matter() -> None:
    names = notebook("rate, other = 2, 1\n" + program("y += x * rate"))
    first = names["f"].compiled(0.0, 0.5)
    names["other"] = 7
    assert names["f"].compiled(0.0, 0.5) is first


def test_static_arguments_are_looked_into() -> None:
    names = notebook("@reversible\ndef f(y: fixed, rates: rg.static):\n    for r in rates:\n        y += r")
    rates = [1.0, 2.0]
    assert names["f"](0.0, rates).y == 3
    rates[1] = 5.0
    assert names["f"](0.0, rates).y == 6


@pytest.mark.parametrize(("one", "other"), [((1,), (1.0,)), ((1,), (True,)), (0.0, -0.0), (1, 1.0)])
def test_static_arguments_that_are_equal_but_of_other_types(one: Any, other: Any) -> None:
    names = notebook("@reversible\ndef f(y: fixed, a: rg.static):\n    y += seen(a)")
    seen: list[Any] = []
    names["seen"] = noting(seen)
    names["f"](0.0, one)
    names["f"](0.0, other)
    assert list(map(repr, seen)) == [repr(one), repr(other)]


def test_versions_are_not_kept_without_end() -> None:
    names = notebook("rate = 0\n" + program("y += x * rate"))
    f: Reversible = names["f"]
    for rate in range(20):
        names["rate"] = rate
        assert f(0.0, 0.5).y == rate / 2
    assert sum(len(kept) for kept in f._versions.values()) <= 4


def test_an_array_that_cannot_be_written_is_not_looked_at() -> None:
    names = notebook("rates = np.array([2.0, 3.0]); rates.setflags(write=False)\n" + program("y += x * rates[0]"))
    captures = names["f"].compiled(0.0, 0.5).lowered.captures
    assert names["f"](0.0, 0.5).y == 1
    assert not any(type(c).__name__ == "_Array" for c in captures._all)


ATOMS = [0, 1, True, 1.0, -0.0, 0.0, 0.5, "a", b"a", None, 1 << 70, (), (1,), (1.0,), np.float32(1.0), np.int64(1)]


def grown(random: Random, depth: int) -> Any:
    """A random value, of containers within each other."""
    if depth == 0 or random.random() < 0.2:
        return random.choice(ATOMS)
    items = [grown(random, depth - 1) for _ in range(random.randrange(1, 4))]
    match random.randrange(6):
        case 0:
            return tuple(items)
        case 1:
            return {random.choice("abc"): item for item in items}
        case 2:
            return {i for i in items if isinstance(i, int | str | float)}
        case 3:
            return np.arange(4, dtype=random.choice([np.float64, np.float32, np.int16]))
        case 4:
            array = np.empty(len(items), dtype=object)
            array[:] = [[i] for i in items]
            return array
    return items


def containers(value: Any) -> Iterator[Any]:
    """Those that can be changed, at every depth."""
    if isinstance(value, list | dict | set | np.ndarray):
        yield value
    if isinstance(value, list | tuple | dict) or (isinstance(value, np.ndarray) and value.dtype == object):
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


def told(value: Any) -> str:
    """A value in full: types, and the order of items."""
    match value:
        case dict():
            return f"{{{', '.join(f'{k!r}: {told(v)}' for k, v in value.items())}}}"
        case list() | tuple() | set():
            return f"{type(value).__name__}({', '.join(map(told, value))})"
        case np.ndarray() if value.dtype != object:
            return f"{value.dtype}{value.shape}{value.tobytes()!r}"
        case np.ndarray():
            return f"{value.dtype}{value.shape}({', '.join(map(told, value.ravel().tolist()))})"
    return f"{type(value).__name__} {value!r}"


def change(random: Random, at: Any) -> None:
    """Something about a container, which may leave it as it was."""
    match at:
        case list():
            at.insert(random.randrange(len(at) + 1), 5) if random.random() < 0.3 else at.reverse()
        case dict():
            at[random.choice("abcd")] = random.choice(ATOMS)
        case set():
            at ^= {random.choice([0, 1, "a", 0.5])}
        case np.ndarray():
            if at.dtype == object or random.random() < 0.5:
                at[random.choice([0, -1])] = random.choice([0.5, 7.0])
            else:
                at.shape = (2, -1) if at.ndim == 1 else (-1,)


def test_random_changes_of_random_values() -> None:
    changed = kept = 0
    for seed in range(600):
        random = Random(seed)
        value = grown(random, 3)
        found = list(containers(value))
        if not found:
            continue
        captures = Captures()
        captures.contents(value)
        captures.freeze()
        assert captures.hold()
        before = told(value)
        change(random, random.choice(found))
        assert captures.hold() is (told(value) == before), (seed, before, told(value))
        changed, kept = changed + (told(value) != before), kept + (told(value) == before)
    assert min(changed, kept) > 50
