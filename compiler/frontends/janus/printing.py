"""`show`, `print`, `printf`, `write`: the host reads variables at a mark, and prints them in both directions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from retrograd.compiler.frontends.builder import HostBlock
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.expressions import (
    ArrayPlace,
    Code,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    exact,
    lengths_of,
    stack_type,
)
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    External,
    Kind,
    Operand,
    Var,
)
from retrograd.compiler.language.types import ScalarType, StackType
from retrograd.compiler.language.values import MeasuredArray, Scalar, StackValue
from retrograd.compiler.language.values import Value as Watched
from retrograd.isa.diagnostics import printable
from retrograd.isa.words import Format


@dataclass(frozen=True)
class _Item:
    """A value to print: `prefix`, then the value, which the host finds under `key`."""

    prefix: str
    key: str
    convert: Callable[[Any], Any]


@dataclass(frozen=True)
class _Output:
    """Prints a line of items."""

    items: tuple[_Item, ...]
    last: str

    def __call__(self, names: dict[str, Any]) -> None:
        line = "".join(i.prefix + shown(i.convert(names[i.key])) for i in self.items)
        sys.stdout.write(printable(f"{line}{self.last}\n", lines=True))


@dataclass(frozen=True)
class _Stack:
    """The values of a stack, the top last."""

    values: tuple[Any, ...]


class Printing:
    """Lowers the statements that print."""

    def __init__(self, code: Code) -> None:
        self._code = code

    def lower(self, node: syntax.Print | syntax.Printf | syntax.Show) -> None:
        places: list[tuple[str, Place]] = []
        last = ""
        match node:
            case syntax.Print(text=text):
                last = text
            case syntax.Printf(text=text, arguments=arguments):
                self._require(node, text, arguments)
                pieces = re.split(r"(%.)", text, flags=re.DOTALL)
                prefix, given = "", iter(arguments)
                for piece in pieces:
                    if piece == "%%" or len(piece) != 2 or piece[0] != "%":
                        prefix += "%" if piece == "%%" else piece
                    else:
                        places.append((prefix, self._place(next(given))))
                        prefix = ""
                last = prefix
            case syntax.Show(arguments=arguments):
                for k, argument in enumerate(arguments):
                    place = self._place(argument)
                    places.append(("" if k == 0 else ", ", place))
        named = isinstance(node, syntax.Show)
        self._external(node, places, last, named)

    def _require(self, node: syntax.Printf, text: str, arguments: tuple[syntax.Reference, ...]) -> None:
        """Refuse a format whose specifiers do not fit the arguments."""
        fail = self._code.fail
        specifiers = [s for s in re.findall(r"%(.)", text, flags=re.DOTALL) if s != "%"]
        wrong = next((s for s in specifiers if s not in "dabt"), None)
        if wrong is not None:
            fail("RG0715", f"`%{wrong}` is no specifier", node.span, "Write %d, %b, %a, %t or %%.")
        if len(specifiers) != len(arguments):
            message = f"{len(specifiers)} specifiers stand for {len(arguments)} variables"
            fail("RG0715", message, node.span, "Name one variable for each specifier; %% prints a percent sign.")
        for s, a in zip(specifiers, arguments, strict=True):
            place = self._place(a)
            kind = {ArrayPlace: "a", StackPlace: "t"}.get(type(place)) or (
                "b" if isinstance(place, ScalarPlace) and place.type is None else "d"
            )
            if kind != s:
                fail("RG0715", f"`%{s}` prints another type than `{a.name}` has", node.span, f"Write %{kind}.")

    def _place(self, node: syntax.Reference) -> Place:
        return self._code.expressions.place(node)

    def _external(self, node: Any, places: list[tuple[str, Place]], last: str, named: bool) -> None:
        lowering = self._code
        t = lowering.temporaries()
        operands: list[Operand] = []
        watched: dict[str, Watched] = {}
        items: list[_Item] = []
        for k, (prefix, place) in enumerate(places):
            key = f"v{k}"
            watched[key] = self._watch(place, t, operands)
            name = f"{place.name}{self._lengths(place)} = " if named else ""
            items.append(_Item(prefix + name, key, self._conversion(place)))
        block = HostBlock(_Output(tuple(items), last), watched, lowering.source.name)
        number = lowering.module.host_block(block)
        lowering.emit(*t.wrap((External(number, node.span, tuple(operands)),)))

    @staticmethod
    def _lengths(place: Place) -> str:
        if not isinstance(place, ArrayPlace):
            return ""
        return "".join("[]" if isinstance(n, Var) else f"[{n}]" for n in place.lengths)

    def _watch(self, place: Place, t: Temporaries, operands: list[Operand]) -> Watched:
        """The value that the host reads, whose operands are added."""
        match place:
            case ScalarPlace():
                e = exact(self._code.expressions.read(place), self._code.w).e
                operands.append(t.operand(e))
                return Scalar(e)
            case ArrayPlace():
                operands.append(t.location(place.address))
                operands.extend(n for n in place.lengths if isinstance(n, Var))
                kind = Kind.INT if place.type is not None else Kind.BOOL
                lengths = tuple(None if isinstance(n, Var) else n for n in place.lengths)
                element = stack_type(place.capacities) if place.capacities else ScalarType(kind)
                return MeasuredArray(element, lengths, place.address)
            case StackPlace():
                operands.append(t.location(place.address))
                t_stack = stack_type(place.capacities)
                assert isinstance(t_stack, StackType)
                return StackValue(t_stack, place.address)

    def _conversion(self, place: Place) -> Callable[[Any], Any]:
        """From the value that the host reads to the number that is printed."""
        if isinstance(place, StackPlace) or (isinstance(place, ArrayPlace) and place.capacities):
            depth, dimensions = len(place.capacities), len(lengths_of(place))
            return lambda values: _stacks(values, depth, dimensions)
        t, w = place.type, self._code.w
        if t is None:
            return lambda value: value
        if isinstance(place, ArrayPlace):
            return lambda value: _each(value, lambda v: number_of(v, t, w))
        return lambda value: value & w.mask if not t.signed else value


def number_of(word: int, t: Integer, w: Format) -> int:
    """The number of a type that a stored word stands for."""
    amount = w.width - t.width
    return word >> amount if t.signed else (word & w.mask) >> amount


def _stacks(value: Any, depth: int, dimensions: int) -> Any:
    """Stacks, of this depth, of an array with these dimensions."""
    if dimensions:
        return [_stacks(v, depth, dimensions - 1) for v in value]
    return _Stack(tuple(_stacks(v, depth - 1, 0) if depth > 1 else v for v in value))


def _each(value: Any, convert: Callable[[Any], Any]) -> Any:
    return [_each(v, convert) for v in value] if hasattr(value, "__len__") else convert(int(value))


def shown(value: Any) -> str:
    """A value as the interpreters of Janus print it."""
    match value:
        case bool():
            return "true" if value else "false"
        case _Stack(values):
            return f"<{', '.join(map(shown, reversed(values)))}]" if values else "nil"
        case int():
            return str(value)
    return "{" + ", ".join(shown(v) for v in value) + "}"
