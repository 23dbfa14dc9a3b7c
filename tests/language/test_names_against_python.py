"""Names against Python: a name that is made of a variable, an element or a field keeps the value that it keeps in Python, or is refused.

Numbers, complex ones too, are copied; arrays and structs have other names. Each body runs by Python, on floats, complex numbers, NumPy's
arrays and objects with `+`, and by the compiler. The one difference that docs/language.md states: a loop through a tuple names its variables.
"""

from __future__ import annotations

import itertools
import linecache
import random
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import CompileError, RetrogradError

_numbers = itertools.count()

OURS = """import retrograd as rg
from retrograd import Array, fixed, reversible
@rg.struct
class P:
    x: fixed
    y: fixed
@rg.struct
class B:
    u: complex
    w: complex
    first: P
    second: P
"""
PARAMETERS = (
    "k: int, x: fixed, y: fixed, z: complex, w: complex, p: P, q: P, g: P, b: B, "
    "a: Array[fixed, 2], d: Array[fixed, 2], c: Array[complex, 2], m: Array[fixed, 2, 2], ps: Array[P, 2]"
)
NAMES = [part.split(":")[0] for part in PARAMETERS.split(", ") if ":" in part]


@dataclass
class P:
    """A struct as an object of Python: sums are new objects."""

    x: float
    y: float

    def __add__(self, other: P) -> P:
        return P(self.x + other.x, self.y + other.y)

    def __pos__(self) -> P:
        return P(self.x, self.y)


@dataclass
class B:
    u: complex
    w: complex
    first: P
    second: P


class Routine:
    """`with rg.routine() as r: …` in Python: the variables stay."""

    def __enter__(self) -> Routine:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __invert__(self) -> None: ...


THEIRS = {"rg": types.SimpleNamespace(routine=Routine, copy=lambda x: +x)}


def arguments(struct: Any, body: Any) -> dict[str, Any]:
    of_two = [struct(0.25, 3.0), struct(-1.0, 0.5)]
    values = (
        1, 2.0, 0.5, 1 + 2j, 3 - 1j, struct(1.0, 2.0), struct(4.0, 8.0), struct(0.5, 0.25), body(2 + 1j, 1j, struct(3.0, 5.0), struct(6.0, 7.0)),
        np.array([1.0, 0.25]), np.array([2.0, 4.0]), np.array([1 + 1j, 2 - 1j]), np.array([[1.0, 2.0], [3.0, 5.0]]), of_two,
    )  # fmt: skip
    return dict(zip(NAMES, values, strict=True))


def by_python(lines: str, out: Any) -> dict[str, Any] | Exception:
    """The variables after the lines, or the exception that they raise."""
    names = arguments(P, B) | {"out": out}
    # The rows are objects of a list, which are exchanged; NumPy would write one row over the other.
    names["m"] = [*names["m"]]
    try:
        exec(lines, dict(THEIRS), names)
    except Exception as error:
        return error
    return names


def by_the_compiler(lines: str, out: Any) -> dict[str, Any] | None:
    """The arguments after the lines; None where they are refused or trap."""
    t = "complex" if isinstance(out, complex) else "fixed"
    text = f"{OURS}@reversible\ndef f(out: {t}, {PARAMETERS}):\n{textwrap.indent(lines, '    ')}\n"
    name = f"names_against_python_{next(_numbers)}"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module: Any = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))
    try:
        found = module.f(out, *arguments(module.P, module.B).values())
    except CompileError:
        return None
    except RetrogradError:
        return None
    return dict(zip(["out", *NAMES], found, strict=True))


def same(x: Any, y: Any) -> bool:
    if hasattr(x, "x"):
        return same(x.x, y.x) and same(x.y, y.y)
    if isinstance(x, list) or np.asarray(x).dtype.kind == "O":
        return all(map(same, x, y))
    return bool(np.all(abs(np.asarray(x) - np.asarray(y)) < 1e-8))


REFUSED = "refused"


def difference(lines: str, out: Any, names: tuple[str, ...]) -> str:
    """How the two differ: the empty text where they do not, REFUSED where the lines do not compile, or trap."""
    theirs = by_python(lines, out)
    ours = by_the_compiler(lines, out)
    if ours is None:
        return REFUSED
    if isinstance(theirs, TypeError) and "item assignment" in str(theirs):
        return ""  # a tuple names its variables, which may be changed
    if isinstance(theirs, Exception):
        return f"{lines}\nis accepted, and Python raises {theirs!r}"
    wrong = next((n for n in names if not same(ours[n], theirs[n])), None)
    return "" if wrong is None else f"{lines}\n{wrong} is {ours[wrong]!r}, and in Python {theirs[wrong]!r}"


# ---------------------------------------------------------------------- names

#: two values of one type, their parts that can be changed, and the number that is added
SOURCES = [
    ("x", "y", (), "1"), ("a[0]", "a[1]", (), "1"), ("p.x", "p.y", (), "1"),
    ("z", "w", (), "1j"), ("c[0]", "c[1]", (), "1j"), ("b.u", "b.w", (), "1j"),
    ("p", "q", (".x",), "g"), ("ps[0]", "ps[1]", (".x",), "g"), ("b.first", "b.second", (".x",), "g"),
    ("a", "d", ("[0]",), "1"), ("m[0]", "m[1]", ("[0]",), "1"),
]  # fmt: skip
#: the statement that makes a name, and the name
MADE = [
    ("v = {0}", "v"), ("v, u = {0}, {1}", "v"), ("pair = ({0}, {1})", "pair[0]"), ("pair = ({0}, {1})\nv, u = pair", "v"),
    ("v = {0} if k > 0 else {1}", "v"), ("v = {0} if True else {1}", "v"), ("v = +{0}", "v"), ("v = rg.copy({0})", "v"),
    ("u = {0}\nv = u", "v"),
]  # fmt: skip


def bodies(
    source: tuple[str, str, tuple[str, ...], str], made: tuple[str, str], count: int | None
) -> Iterator[tuple[str, Any]]:
    """Programs that make the name and change something once or twice, `count` of the latter; all for None."""
    first, second, parts, amount = source
    head, name = made[0].format(first, second), made[1]
    part = "".join(parts)
    changes = [
        f"{first} += {amount}", f"{name} += {amount}", f"{second} += {amount}", f"{first}, {second} = {second}, {first}",
        *(f"{v}{q} += 1" for v in (first, name, second) for q in parts),
    ]  # fmt: skip
    total = f"{name}{part} + 10 * {first}{part} + 100 * {second}{part}"
    out: Any = 0j if "j" in amount else 0.0
    pairs = [list(two) for two in itertools.product(changes, changes)]
    for steps in [[c] for c in changes] + (
        pairs if count is None else random.Random(f"{source} {made}").sample(pairs, count)
    ):
        inside = textwrap.indent("\n".join([head, *steps]), "    ")
        yield f"with rg.routine() as r:\n{inside}\nout += {total}\n~r", out


@pytest.mark.parametrize("made", MADE, ids=[m[0].replace("\n", "; ") for m in MADE])
@pytest.mark.parametrize("source", SOURCES, ids=[s[0] for s in SOURCES])
def test_a_name_keeps_what_it_keeps_in_python(
    source: tuple[str, str, tuple[str, ...], str], made: tuple[str, str]
) -> None:
    found = [difference(lines, out, ("out",)) for lines, out in bodies(source, made, 6)]
    assert {*found} <= {"", REFUSED}
    # A choice of two objects has no name: all else compiles, at least where one of the two changes.
    assert "" in found or (source[2] and "k > 0" in made[0])


@pytest.mark.long
@pytest.mark.parametrize("made", MADE, ids=[m[0].replace("\n", "; ") for m in MADE])
@pytest.mark.parametrize("source", SOURCES, ids=[s[0] for s in SOURCES])
def test_all_names_keep_what_they_keep_in_python(
    source: tuple[str, str, tuple[str, ...], str], made: tuple[str, str]
) -> None:
    found = [difference(lines, out, ("out",)) for lines, out in bodies(source, made, None)]
    assert {*found} <= {"", REFUSED}


# ---------------------------------------------------------------------- loops

#: the head of a loop, the name of its number or object, another name of which that changes, the number that is added, and whether a change by the name is stated
LOOPS = [
    ("for v in a:", "v", "a", "1", False), ("for i, v in enumerate(a):", "v", "a", "1", False), ("for v, u in zip(a, d):", "v", "a", "1", False),
    ("for v in reversed(a):", "v", "a", "1", False), ("for v in a[:1]:", "v", "a", "1", False), ("for v in c:", "v", "c", "1j", False),
    ("for v in (x, y):", "v", "", "1", True), ("for v in (z, w):", "v", "", "1j", True), ("for v in m:", "v[0]", "m[0]", "1", False),
    ("for v in ps:", "v.x", "", "1", False),
]  # fmt: skip


def loop_bodies(loop: tuple[str, str, str, str, bool]) -> Iterator[str]:
    head, name, array, amount, stated = loop
    use = f"out += {name}"
    steps = [use, *([] if stated else [f"{name} += {amount}"])]
    if array:
        steps += [f"{array}[1] += {amount}", f"{array}[0] += {amount}"]
    if head.startswith("for i"):
        steps.append(f"{array}[i] += {amount}")
    if stated:
        steps += [f"{v} += {amount}" for v in head[10:-2].split(", ")]
    for two in itertools.product(steps, steps):
        yield head + "\n" + textwrap.indent("\n".join(two), "    ")
        yield head + "\n    for j in range(2):\n" + textwrap.indent("\n".join(two), "        ")
        yield (
            head
            + "\n    if k > 0:\n"
            + textwrap.indent(two[0], "        ")
            + "\n"
            + textwrap.indent(two[1] + "\n" + use, "    ")
        )


@pytest.mark.parametrize("loop", LOOPS, ids=[x[0] for x in LOOPS])
def test_a_loop_names_what_it_names_in_python(loop: tuple[str, str, str, str, bool]) -> None:
    out: Any = 0j if "j" in loop[3] else 0.0
    compared = ("out", "x", "y", "z", "w", "a", "c", "m", "ps")
    found = [difference(lines, out, compared) for lines in loop_bodies(loop)]
    assert {*found} <= {"", REFUSED}
