"""Lists and data classes as arguments and results of functional functions.

A list or data class is passed as numbers and integers (`Encoding`), and
`Marshalling` reads these into the heap:

    fixed           a number                        int, uint, bool    an integer
    tuple[A, B]     those of A, then those of B     list[A]            its length + 1, then those of each item
    A | B           the number of its class, from 1 in alphabetical order, then those of each field

So the integers of a list or of a data class begin with a number that is not zero. A result before its run is zeros:
`Unfilled`.
"""

from __future__ import annotations

import numbers as numbers_of_python
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Place
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    Data,
    List,
    Tuple,
    Type,
    Word,
    arrays,
    field_types,
    fields_of,
    has_names,
    named,
)
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.values import (
    Encoded,
    Form,
    Structure,
)


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
        out = Encoded([], [], (), ())
        form: list[int | None] = []
        uints: list[int] = []
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
                    if t.kind is Kind.UINT:
                        uints.append(len(out.integers))
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
        return out._replace(form=tuple(form), uints=tuple(uints))

    def decoded(self, numbers: Sequence[Any], integers: Sequence[int | None], mask: int = -1) -> Any:
        return self._walked(iter(numbers), iter(integers), [], len(numbers) + len(integers), mask)

    def form_of(self, integers: Sequence[int]) -> Form:
        found: list[int | None] = []
        self._walked(None, iter(integers), found, len(integers))
        return tuple(found)

    def _walked(
        self,
        numbers: Iterator[Any] | None,
        integers: Iterator[int | None],
        form: list[int | None],
        most: int,
        mask: int = -1,
    ) -> Any:
        """The value; its form is appended to `form`.

        `numbers` None: any numbers. Raises ValueError unless all are used.
        """
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
                    word = int(_next(integers) or 0)
                    form.append(None)
                    frame.parts.append(
                        bool(word) if t.kind is Kind.BOOL else word & mask if t.kind is Kind.UINT else word
                    )
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
    if not fits or (kind is not Kind.BOOL and isinstance(x, bool)):
        raise TypeError(f"`{at}` is {_shown(x)}, not {named(Word(kind))}")
    return int(x)


def _shown(x: Any) -> str:
    if x is None:
        return "None"
    if isinstance(x, str | int | float | complex | np.generic):
        return f"{x!r:.40}"
    name = type(x).__name__
    counted = f" of {len(x)}" if isinstance(x, list | tuple) else ""
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}{counted}"


# -----------------------------------------------------------------------------
# Functions that read arguments from arrays into the heap, and write results into lists of numbers, in core.
#
#     read(t):   numbers, integers, i, k     →  value, i + its numbers, k + its integers
#     write(t):  value, numbers, integers    →  its numbers before those, its integers before those
#
# A program with lists or data classes is `let x = read(…) in … write(f(x))`, so it is compiled, inverted and
# differentiated like any other.

NUMBERS, INTEGERS = List(FIXED), List(INT)


class _Code:
    """A function that is written when it is first called: functions of recursive types call each other."""

    def __init__(self, write: Callable[[], core.Lambda]) -> None:
        self._write = write

    def functional_core(self, captures: Any) -> core.Lambda:
        return self._lambda

    @cached_property
    def _lambda(self) -> core.Lambda:
        return self._write()


def leaves(t: Type) -> list[Type]:
    """The numbers, lists and data classes of a result, which may be a tuple of tuples."""
    return [leaf for item in t.items for leaf in leaves(item)] if isinstance(t, Tuple) else [t]


def is_structured(t: Type) -> bool:
    """Whether an argument or result is passed as two arrays. A result that is a tuple is passed item by item."""
    return isinstance(t, Tuple | List | Data) and not _is_by_item(t)


def _is_by_item(t: Type) -> bool:
    """Whether a value is passed item by item: a tuple or a dict from Python with arrays in it."""
    return isinstance(t, Tuple) and (arrays(t) > 0 or has_names(t) or any(map(_is_by_item, t.items)))


class Marshalling:
    """The functions that one program needs. `at`: the place of its entry."""

    def __init__(self, at: Place) -> None:
        self.at = at
        self._codes: dict[tuple[str, Type], _Code] = {}

    def entry(self, code: core.Lambda, args: Sequence[Type], result: Type) -> core.Lambda:
        """The function of numbers, arrays, and for each list or data class two arrays; its value is a tuple.

        An item of the value is a number, or for each list or data class the list of its numbers, and the list of its
        integers.
        """
        return self._composed(code, args, result, lambda part: [part], lambda part, t: part)

    def result(self, t: Type) -> Type:
        """The type of the entry's value."""
        items: list[Type] = []
        for leaf in leaves(t):
            items += (NUMBERS, INTEGERS) if is_structured(leaf) else (leaf,)
        return Tuple(tuple(items))

    def sizes(self, code: core.Lambda, args: Sequence[Type], result: Type) -> core.Lambda:
        """The function of the same arguments whose value is how many numbers and integers each list or data class of the result has."""
        return self._composed(
            code, args, result, lambda part: [], lambda part, t: self._call(self._code("count", t), part)
        )

    def _composed(
        self,
        code: core.Lambda,
        args: Sequence[Type],
        result: Type,
        number: Callable[[Core], list[Core]],
        words: Callable[[Core, List], Core],
    ) -> core.Lambda:
        """The function of the entry's arguments whose value is made of its result, leaf by leaf.

        `number`: of a number; `words`: of the list of the numbers, or of the integers, of a list or data class, and of
        its type.
        """
        params: list[Binding] = []
        bound: list[tuple[Binding, Core]] = []
        for b, t in zip(code.params, args, strict=True):
            if not is_structured(t):
                params.append(b)
                continue
            numbers, integers = (Binding(f"{b.name}.{part}", b.at) for part in ("numbers", "integers"))
            params += (numbers, integers)
            zero = core.Number(0, self.at)
            arrays = self._ref(numbers), self._ref(integers)
            bound.append((b, self._read_all((t,), arrays, zero, zero, [], lambda values, i, k: values[0])))
        value = Binding("value", self.at)
        bound.append((value, core.Cast(code.body, result, self.at)))
        items: list[Core] = []
        for leaf, part in self._leaves(self._ref(value), result):
            if is_structured(leaf):
                held = Binding("written", self.at)
                bound.append((held, self._written(leaf, part)))
                items += [words(self._item(self._ref(held), k), t) for k, t in enumerate((NUMBERS, INTEGERS))]
            else:
                items += number(part)
        return core.Lambda(code.name, tuple(params), self._lets(bound, core.Record(tuple(items), self.at)), self.at)

    # ------------------------------------------------------------------ functions

    def _code(self, op: str, t: Type) -> core.Global:
        found = self._codes.get((op, t))
        if found is None:
            write = {"read": self._reader, "items": self._items, "write": self._writer, "count": self._counter}[op]
            found = self._codes[op, t] = _Code(lambda: write(t))
        return core.Global(found, self.at)

    def _reader(self, t: Type) -> core.Lambda:
        numbers, integers, i, k = (Binding(name, self.at) for name in ("numbers", "integers", "i", "k"))
        arrays = self._ref(numbers), self._ref(integers)
        tag = self._element(arrays[1], self._ref(k))
        after = self._sum(self._ref(k), 1)
        if isinstance(t, List):
            count = Binding("count", self.at)
            items = self._call(self._code("items", t), *arrays, self._ref(i), after, self._ref(count))
            body: Core = core.Let(count, core.Operation("-", (tag, core.Number(1, self.at)), self.at), items, self.at)
            return core.Lambda("read", (numbers, integers, i, k), body, self.at)
        assert isinstance(t, Data)
        number = Binding("class", self.at)

        def made(cls: type) -> Core:
            def then(values: list[Core], i: Core, k: Core) -> Core:
                return core.Record((core.Cast(core.Build(cls, tuple(values), self.at), t, self.at), i, k), self.at)

            return self._read_all(field_types(cls), arrays, self._ref(i), after, [], then)

        *others, last = classes_of(t)
        body = made(last)
        for n, cls in reversed(list(enumerate(others, 1))):
            test = core.Operation("==", (self._ref(number), core.Number(n, self.at)), self.at)
            body = core.Conditional(test, made(cls), body, self.at)
        return core.Lambda("read", (numbers, integers, i, k), core.Let(number, tag, body, self.at), self.at)

    def _items(self, t: Type) -> core.Lambda:
        """The items of a list from a place on, `count` of them."""
        assert isinstance(t, List)
        numbers, integers, i, k, count = (Binding(name, self.at) for name in ("numbers", "integers", "i", "k", "count"))
        arrays = self._ref(numbers), self._ref(integers)

        def then(values: list[Core], i: Core, k: Core) -> Core:
            rest = Binding("rest", self.at)
            others = self._call(self._code("items", t), *arrays, i, k, self._sum(self._ref(count), -1))
            whole = core.Build(None, (values[0], self._item(self._ref(rest), 0)), self.at)
            made = core.Record((whole, self._item(self._ref(rest), 1), self._item(self._ref(rest), 2)), self.at)
            return core.Let(rest, others, made, self.at)

        empty = core.Record((core.Cast(core.Build(None, (), self.at), t, self.at), self._ref(i), self._ref(k)), self.at)
        test = core.Operation("==", (self._ref(count), core.Number(0, self.at)), self.at)
        longer = self._read_all((t.item,), arrays, self._ref(i), self._ref(k), [], then)
        body = core.Conditional(test, empty, longer, self.at)
        return core.Lambda("items", (numbers, integers, i, k, count), body, self.at)

    def _read_all(
        self,
        types: Sequence[Type],
        arrays: tuple[Core, Core],
        i: Core,
        k: Core,
        values: list[Core],
        then: Callable[[list[Core], Core, Core], Core],
    ) -> Core:
        """`then` of the values of these types from a place on, and of the place behind them."""
        if not types:
            return then(values, i, k)
        t, *others = types
        value = Binding("item", self.at)

        def go_on(found: Core, i: Core, k: Core) -> Core:
            rest = self._read_all(others, arrays, i, k, [*values, self._ref(value)], then)
            return core.Let(value, found, rest, self.at)

        match t:
            case Word(kind):
                if kind is Kind.FIXED:
                    return go_on(self._element(arrays[0], i), self._sum(i, 1), k)
                word: Core = self._element(arrays[1], k)
                if kind is Kind.BOOL:
                    word = core.Operation("!=", (word, core.Number(0, self.at)), self.at)
                elif kind is Kind.UINT:
                    word = core.Operation("uint", (word,), self.at)
                return go_on(word, i, self._sum(k, 1))
            case Tuple(items):

                def together(parts: list[Core], i: Core, k: Core) -> Core:
                    return go_on(core.Record(tuple(parts), self.at), i, k)

                return self._read_all(items, arrays, i, k, [], together)
        found = Binding("found", self.at)
        parts = [self._item(self._ref(found), n) for n in range(3)]
        read = self._call(self._code("read", t), *arrays, i, k)
        return core.Let(found, read, go_on(parts[0], parts[1], parts[2]), self.at)

    def _writer(self, t: Type) -> core.Lambda:
        x, numbers, integers = (Binding(name, self.at) for name in ("x", "numbers", "integers"))
        behind = self._ref(numbers), self._ref(integers)
        if isinstance(t, List):
            head, tail, rest, own = (Binding(name, self.at) for name in ("head", "tail", "rest", "item"))
            none = core.Record((*behind, core.Number(0, self.at)), self.at)
            others = self._call(self._code("write", t), self._ref(tail), *behind)
            later = self._item(self._ref(rest), 0), self._item(self._ref(rest), 1)
            both = self._item(self._ref(own), 0), self._item(self._ref(own), 1)
            count = self._sum(self._item(self._ref(rest), 2), 1)
            item = core.Let(
                own, self._pair(t.item, self._ref(head), later), core.Record((*both, count), self.at), self.at
            )
            cases = (
                core.Case(type(None), (), none),
                core.Case(list, (head, tail), core.Let(rest, others, item, self.at)),
            )
        else:
            assert isinstance(t, Data)
            made: list[core.Case] = []
            for n, cls in enumerate(classes_of(t), 1):
                types = field_types(cls)
                fields = tuple(Binding(f"field{k}", self.at) for k in range(len(types)))
                inside = self._pair(Tuple(tuple(types)), core.Record(tuple(map(self._ref, fields)), self.at), behind)
                held = Binding("held", self.at)
                longer = self._cons(core.Number(n, self.at), self._item(self._ref(held), 1))
                pair = core.Record((self._item(self._ref(held), 0), longer), self.at)
                made.append(core.Case(cls, fields, core.Let(held, inside, pair, self.at)))
            cases = tuple(made)  # type: ignore[assignment]
        body = core.Match(self._ref(x), cases, None, self.at)
        return core.Lambda("write", (x, numbers, integers), body, self.at)

    def _pair(self, t: Type, x: Core, behind: tuple[Core, Core]) -> Core:
        """(numbers, integers) with those of x before the others."""
        match t:
            case Word(kind):
                if kind is Kind.FIXED:
                    return core.Record((self._cons(x, behind[0]), behind[1]), self.at)
                word = core.Operation("int", (x,), self.at) if kind in (Kind.BOOL, Kind.UINT) else x
                return core.Record((behind[0], self._cons(word, behind[1])), self.at)
            case Tuple(items):
                pair: Core = core.Record(behind, self.at)
                for k in reversed(range(len(items))):
                    held = Binding("held", self.at)
                    later = self._item(self._ref(held), 0), self._item(self._ref(held), 1)
                    pair = core.Let(held, pair, self._pair(items[k], self._item(x, k), later), self.at)
                return pair
        written = self._call(self._code("write", t), x, *behind)
        if isinstance(t, Data):
            return written
        held = Binding("held", self.at)
        length = self._cons(self._sum(self._item(self._ref(held), 2), 1), self._item(self._ref(held), 1))
        return core.Let(held, written, core.Record((self._item(self._ref(held), 0), length), self.at), self.at)

    def _written(self, t: Type, x: Core) -> Core:
        empty = tuple(core.Cast(core.Build(None, (), self.at), of, self.at) for of in (NUMBERS, INTEGERS))
        return self._pair(t, x, (empty[0], empty[1]))

    def _counter(self, t: Type) -> core.Lambda:
        """The length of a list, added up from the front, so that it leaves little behind."""
        x, head, tail = (Binding(name, self.at) for name in ("x", "head", "tail"))
        more = self._sum(self._call(self._code("count", t), self._ref(tail)), 1)
        cases = core.Case(type(None), (), core.Number(0, self.at)), core.Case(list, (head, tail), more)
        return core.Lambda("count", (x,), core.Match(self._ref(x), cases, None, self.at), self.at)

    # ------------------------------------------------------------------ expressions

    def _leaves(self, value: Core, t: Type) -> list[tuple[Type, Core]]:
        if not isinstance(t, Tuple):
            return [(t, value)]
        return [leaf for k, item in enumerate(t.items) for leaf in self._leaves(self._item(value, k), item)]

    def _ref(self, b: Binding) -> Core:
        return core.Ref(b, self.at)

    def _call(self, f: Core, *args: Core) -> Core:
        return core.Apply(f, args, self.at)

    def _element(self, array: Core, k: Core) -> Core:
        """A word. Another class than that of the argument may have more."""
        return core.Element(array, (k,), self.at, reached=False)

    def _item(self, e: Core, k: int) -> Core:
        return core.Item(e, k, self.at)

    def _cons(self, head: Core, tail: Core) -> Core:
        return core.Build(None, (head, tail), self.at)

    def _sum(self, e: Core, k: int) -> Core:
        if isinstance(e, core.Number):
            return core.Number(e.value + k, self.at)
        return core.Operation("+", (e, core.Number(k, self.at)), self.at)

    def _lets(self, bound: Sequence[tuple[Binding, Core]], body: Core) -> Core:
        for b, value in reversed(bound):
            body = core.Let(b, value, body, self.at)
        return body
