"""Functions that read arguments from arrays into the heap, and write results into lists of numbers, in core.

    read(t):   numbers, integers, i, k     →  value, i + its numbers, k + its integers
    write(t):  value, numbers, integers    →  its numbers before those, its integers before those

A program with lists or data classes is `let x = read(…) in … write(f(x))`, so it is compiled, inverted and differentiated like any other.
Layout: encoding.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core, Place
from retrograd.compiler.frontends.functional.data_classes import field_types
from retrograd.compiler.frontends.functional.forms.encoding import classes_of
from retrograd.compiler.frontends.functional.types import FIXED, INT, Data, List, Tuple, Type, Word
from retrograd.compiler.ir.statements import Kind

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
    return isinstance(t, Tuple | List | Data)


class Marshalling:
    """The functions that one program needs. `at`: the place of its entry."""

    def __init__(self, at: Place) -> None:
        self.at = at
        self._codes: dict[tuple[str, Type], _Code] = {}

    def entry(self, code: core.Lambda, args: Sequence[Type], result: Type) -> core.Lambda:
        """The function of numbers, arrays, and for each list or data class two arrays; its value is a tuple.

        An item of the value is a number, or for each list or data class the list of its numbers, and the list of its integers.
        """
        whole, params, bound = self._applied(code, args)
        value = Binding("value", self.at)
        items: list[Core] = []
        lets: list[tuple[Binding, Core]] = []
        for leaf, part in self._leaves(self._ref(value), result):
            if is_structured(leaf):
                pair = self._written(leaf, part)
                held = Binding("written", self.at)
                lets.append((held, pair))
                items += (self._item(self._ref(held), 0), self._item(self._ref(held), 1))
            else:
                items.append(part)
        last = self._lets(lets, core.Record(tuple(items), self.at))
        return core.Lambda(
            code.name, params, self._lets([*bound, (value, core.Cast(whole, result, self.at))], last), self.at
        )

    def result(self, t: Type) -> Type:
        """The type of the entry's value."""
        items: list[Type] = []
        for leaf in leaves(t):
            items += (NUMBERS, INTEGERS) if is_structured(leaf) else (leaf,)
        return Tuple(tuple(items))

    def sizes(self, code: core.Lambda, args: Sequence[Type], result: Type) -> core.Lambda:
        """The function of the same arguments whose value is how many numbers and integers each list or data class of the result has."""
        whole, params, bound = self._applied(code, args)
        value = Binding("value", self.at)
        items: list[Core] = []
        lets: list[tuple[Binding, Core]] = []
        for leaf, part in self._leaves(self._ref(value), result):
            if is_structured(leaf):
                held = Binding("written", self.at)
                lets.append((held, self._written(leaf, part)))
                for k, t in enumerate((NUMBERS, INTEGERS)):
                    items.append(self._call(self._code("count", t), self._item(self._ref(held), k)))
        last = self._lets(lets, core.Record(tuple(items), self.at))
        return core.Lambda(
            code.name, params, self._lets([*bound, (value, core.Cast(whole, result, self.at))], last), self.at
        )

    def _applied(
        self, code: core.Lambda, args: Sequence[Type]
    ) -> tuple[Core, tuple[Binding, ...], list[tuple[Binding, Core]]]:
        """(the body of a function, the parameters of its entry, the values that are read before)"""
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
        return code.body, tuple(params), bound

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
        tag = core.Element(arrays[1], (self._ref(k),), self.at)
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
                    return go_on(core.Element(arrays[0], (i,), self.at), self._sum(i, 1), k)
                word: Core = core.Element(arrays[1], (k,), self.at)
                if kind is Kind.BOOL:
                    word = core.Operation("!=", (word, core.Number(0, self.at)), self.at)
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
                word = core.Operation("int", (x,), self.at) if kind is Kind.BOOL else x
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
