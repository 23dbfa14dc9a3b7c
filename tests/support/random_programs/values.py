"""What names stand for while the model runs a program: cells that hold words, and arrangements of them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from retrograd.isa.words import Format

from .words import Number, Pair, Word


@dataclass(eq=False)
class Cell:
    """One word that can change."""

    word: int
    kind: str


@dataclass(frozen=True)
class View:
    """An array in memory: cells and structs; NumPy finds those of a slice."""

    items: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lazy:
    """An array expression: each item is a function that computes the element."""

    items: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Struct:
    cls: str
    fields: dict[str, Any]


@dataclass(frozen=True)
class Stack:
    """A count, and words that are zero from the count on."""

    count: Cell
    words: list[Cell]


@dataclass(frozen=True)
class Callee:
    """A function of the program, or its inverse; with the object before the dot where it is a method."""

    tree: ast.FunctionDef
    backward: bool = False
    receiver: Any = None


Value = Number | Cell | View | Lazy | Struct | Stack | Callee | tuple[Any, ...]


def array(shape: Sequence[int], item: Callable[[tuple[int, ...]], Any]) -> np.ndarray[Any, Any]:
    """An array of objects, item(index) at each index."""
    out = np.empty(tuple(shape), dtype=object)
    for index in np.ndindex(*shape):
        out[index] = item(index)
    return out


def cells(value: Any) -> Iterator[Cell]:
    """All cells of a value, in the order of its words."""
    match value:
        case Cell():
            yield value
        case View(items):
            for item in items.flat:
                yield from cells(item)
        case Struct(_, fields):
            for inner in fields.values():
                yield from cells(inner)
        case Stack(count, words):
            yield count
            yield from words
        case Word() | Pair() | int() | float() | complex():
            return
        case _:
            raise AssertionError(value)


# ---------------------------------------------------------------------- types of a program's parameters


@dataclass(frozen=True)
class Scalar:
    kind: str

    def __str__(self) -> str:
        return self.kind


@dataclass(frozen=True)
class Record:
    """A struct: its fields are scalars or arrays. Of a class whose lengths are open there are several."""

    name: str
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Many:
    """An array."""

    element: Scalar | Record
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"Array[{', '.join(map(str, (self.element, *self.shape)))}]"


@dataclass(frozen=True)
class Pile:
    """A stack."""

    kind: str
    capacity: int

    def __str__(self) -> str:
        return f"rg.Stack[{self.kind}, {self.capacity}]"


Type = Scalar | Record | Many | Pile


def make(t: Type, words: Iterator[int]) -> Any:
    """A value of the type, its cells filled in order."""
    match t:
        case Scalar("complex"):
            return Struct("complex", {part: Cell(next(words), "fixed") for part in ("re", "im")})
        case Scalar(kind):
            return Cell(next(words), kind)
        case Many(element, shape):
            return View(array(shape, lambda _: make(element, words)))
        case Record(name, fields):
            return Struct(name, {field: make(inner, words) for field, inner in fields})
        case Pile(kind, capacity):
            return Stack(Cell(next(words), "int"), [Cell(next(words), kind) for _ in range(capacity)])


# ---------------------------------------------------------------------- dictionaries


class Table:
    """The dictionary that keys, values and used places hold: smaller keys stand first where their probes meet.

    So the table is that of the keys inserted in ascending order, each at the first free place from its home on.
    """

    def __init__(self, d: Struct, w: Format) -> None:
        self.w = w
        self.places = list(zip(*(d.fields[name].items for name in ("keys", "values", "used")), strict=True))
        self.words = {w.signed(key.word): value.word for key, value, used in self.places if used.word}

    def write(self) -> None:
        n = len(self.places)
        held: dict[int, tuple[int, int]] = {}
        for key in sorted(self.words):
            at = (self.w.signed(key * 0x9E3779B1) >> 12) % n
            while at in held:
                at = (at + 1) % n
            held[at] = key, self.words[key]
        for i, (key, value, used) in enumerate(self.places):
            key.word, value.word = (word & self.w.mask for word in held.get(i, (0, 0)))
            used.word = int(i in held)
