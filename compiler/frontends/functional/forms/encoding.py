"""Values of Python as numbers and integers, by their type in the functional language.

    fixed           a number                        int, bool          an integer
    tuple[A, B]     those of A, then those of B     list[A]            its length + 1, then those of each item
    A | B           the number of its class, from 1 in alphabetical order, then those of each field

So the integers of a list or of a data class begin with a number that is not zero. A result before its run is zeros: `Unfilled`.
"""

from __future__ import annotations

import numbers as numbers_of_python
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from retrograd.compiler.frontends.functional.data_classes import field_types, fields_of
from retrograd.compiler.frontends.functional.types import Data, List, Tuple, Type, Word
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import Encoded, Form, Structure


def classes_of(t: Data) -> list[type]:
    """The classes of a type, in the order of their numbers."""
    return sorted(t.classes, key=lambda c: (c.__name__, c.__module__, c.__qualname__))


@dataclass
class _Frame:
    """A value that is put together: its type, and the parts that are there. `left`: how many are missing."""

    of: Type
    parts: list[Any]
    inside: Iterator[Type]
    left: int
    cls: type | None = None

    def made(self) -> Any:
        if isinstance(self.of, Tuple):
            return tuple(self.parts)
        return self.parts if self.cls is None else self.cls(*self.parts)


class Encoding(Structure):
    """The lists and data classes of a functional type. Values may be nested as deep as memory allows."""

    def __init__(self, t: Type) -> None:
        self.type = t

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoding) and other.type == self.type

    def __hash__(self) -> int:
        return hash(self.type)

    def __str__(self) -> str:
        return str(self.type)

    @cached_property
    def holds_numbers(self) -> bool:
        seen: set[Type] = set()
        todo = [self.type]
        while todo:
            t = todo.pop()
            if t in seen:
                continue
            seen.add(t)
            match t:
                case Word(kind):
                    if kind is Kind.FIXED:
                        return True
                case Tuple(items):
                    todo += items
                case List(item):
                    todo.append(item)
                case Data(classes):
                    todo += [i for cls in classes for i in field_types(cls)]
        return False

    def encoded(self, value: Any, name: str) -> Encoded:
        out = Encoded([], [], ())
        form: list[int | None] = []
        # (type, value, path), the next one last; a type None ends the container with this identity.
        todo: list[tuple[Type | None, Any, str]] = [(self.type, value, name)]
        inside: set[int] = set()
        while todo:
            t, x, at = todo.pop()
            if t is None:
                inside.discard(x)
                continue
            if isinstance(t, Word):
                if t.kind is Kind.FIXED:
                    out.numbers.append(_number(x, at))
                else:
                    out.integers.append(_integer(x, t.kind, at))
                    form.append(None)
                continue
            if id(x) in inside:
                raise TypeError(f"`{at}` holds itself")
            inside.add(id(x))
            todo.append((None, id(x), at))
            parts: list[tuple[Type | None, Any, str]]
            match t:
                case Tuple(items):
                    if not _is_sequence(x) or len(x) != len(items):
                        raise TypeError(f"`{at}` is {_shown(x)}, not a {t}")
                    parts = [(i, v, f"{at}[{k}]") for k, (i, v) in enumerate(zip(items, x, strict=True))]
                case List(item):
                    if not _is_sequence(x):
                        raise TypeError(f"`{at}` is {_shown(x)}, not a {t}")
                    parts = [(item, v, f"{at}[{k}]") for k, v in enumerate(x)]
                    out.integers.append(len(parts) + 1)
                    form.append(len(parts) + 1)
                case Data():
                    classes = classes_of(t)
                    if type(x) not in classes:
                        raise TypeError(f"`{at}` is {_shown(x)}, not a {t}")
                    names = list(fields_of(type(x)) or ())
                    types = field_types(type(x))
                    parts = [(i, getattr(x, n, None), f"{at}.{n}") for i, n in zip(types, names, strict=True)]
                    out.integers.append(classes.index(type(x)) + 1)
                    form.append(out.integers[-1])
                case _:
                    raise TypeError(f"`{at}` is a {t}, which has no values outside of a program")
            todo += reversed(parts)
        return out._replace(form=tuple(form))

    def decoded(self, numbers: Sequence[Any], integers: Sequence[int | None]) -> Any:
        return self._walked(iter(numbers), iter(integers), [], len(numbers) + len(integers))

    def form_of(self, integers: Sequence[int]) -> Form:
        found: list[int | None] = []
        self._walked(None, iter(integers), found, len(integers))
        return tuple(found)

    def _walked(
        self, numbers: Iterator[Any] | None, integers: Iterator[int | None], form: list[int | None], most: int
    ) -> Any:
        """The value; its form is appended to `form`. `numbers` None: any numbers. Raises ValueError unless all are used."""
        frames = [_Frame(self.type, [], iter((self.type,)), 1)]
        while True:
            frame = frames[-1]
            if not frame.left:
                frames.pop()
                if not frames:
                    break
                frames[-1].parts.append(frame.made())
                continue
            frame.left -= 1
            t = next(frame.inside)
            if isinstance(t, Word):
                if t.kind is Kind.FIXED:
                    frame.parts.append(0.0 if numbers is None else _next(numbers))
                else:
                    word = _next(integers) or 0
                    form.append(None)
                    frame.parts.append(bool(word) if t.kind is Kind.BOOL else int(word))
                continue
            if isinstance(t, Tuple):
                frames.append(_Frame(t, [], iter(t.items), len(t.items)))
                continue
            tag = _next(integers)
            form.append(tag)
            if tag is None or tag < 1:
                raise ValueError(_WRONG)
            if isinstance(t, List):
                # Items without words, such as empty tuples, are not counted by the words.
                if tag - 1 > max(most, _MOST):
                    raise ValueError(_WRONG)
                frames.append(_Frame(t, [], iter([t.item] * (tag - 1)), tag - 1))
            else:
                assert isinstance(t, Data)
                classes = classes_of(t)
                if tag > len(classes):
                    raise ValueError(_WRONG)
                cls = classes[tag - 1]
                types = field_types(cls)
                frames.append(_Frame(t, [], iter(types), len(types), cls))
        if next(integers, _END) is not _END or (numbers is not None and next(numbers, _END) is not _END):
            raise ValueError(_WRONG)
        return frame.parts[0]


_END: Any = object()
_WRONG = "these words are no value of the type"
#: items that a list without words may have
_MOST = 1 << 20


def _is_sequence(x: Any) -> bool:
    return isinstance(x, list | tuple) or (isinstance(x, np.ndarray) and x.ndim > 0)


def _next(words: Iterator[Any]) -> Any:
    found = next(words, _END)
    if found is _END:
        raise ValueError(_WRONG)
    return found


def _number(x: Any, at: str) -> Any:
    """The number itself: an int keeps all its digits, and a float the word that it was read from."""
    if isinstance(x, np.ndarray) and x.ndim == 0:
        x = x.item()
    if isinstance(x, bool | np.bool_) or not isinstance(x, numbers_of_python.Real | np.number):
        raise TypeError(f"`{at}` is {_shown(x)}, not a fixed")
    return x


def _integer(x: Any, kind: Kind, at: str) -> int:
    fits = (
        isinstance(x, bool | np.bool_) if kind is Kind.BOOL else isinstance(x, numbers_of_python.Integral | np.integer)
    )
    if not fits or (kind is Kind.INT and isinstance(x, bool)):
        raise TypeError(f"`{at}` is {_shown(x)}, not {'a bool' if kind is Kind.BOOL else 'an int'}")
    return int(x)


def _shown(x: Any) -> str:
    if x is None:
        return "None"
    if isinstance(x, str | int | float | complex | np.generic):
        return f"{x!r:.40}"
    name = type(x).__name__
    counted = f" of {len(x)}" if isinstance(x, list | tuple) else ""
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}{counted}"
