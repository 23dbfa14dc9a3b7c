"""Values and places of Janus while a procedure is lowered.

An integer of k bits, k < W, is kept as v · 2^(W−k): sums and exclusive ors of such words wrap at k bits by themselves. Expressions work
with the number v itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retrograd.compiler.ir.expressions import Address, E, apply, const, load, read
from retrograd.compiler.ir.statements import Kind, Region, Var
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, layouts
from retrograd.isa.program import ArrayLayout
from retrograd.isa.words import Format

INT, BOOL = Kind.INT, Kind.BOOL


class Integer(NamedTuple):
    """A type of integers. `width` 0: a literal, which has the type of the operand beside it."""

    width: int
    signed: bool = True


LITERAL = Integer(0)


class Value(NamedTuple):
    """A number or a truth value. `exact`: the number lies in the range of its type; else it is right only modulo 2^width."""

    e: E
    #: None for a truth value
    type: Integer | None
    exact: bool = True


@dataclass(frozen=True)
class ScalarPlace:
    """A variable or an element of an array."""

    name: str
    type: Integer | None
    where: Var | Address
    #: declared `constant`: no statement may change it
    constant: bool = False

    @property
    def kind(self) -> Kind:
        return BOOL if self.type is None else INT


@dataclass(frozen=True)
class ArrayPlace:
    """An array. A length is a number, or the variable that holds it."""

    name: str
    type: Integer | None
    lengths: tuple[int | Var, ...]
    address: Address


@dataclass(frozen=True)
class StackPlace:
    """A stack in memory: a count, then the words, which are zero from the count on."""

    name: str
    capacity: int
    address: Address


Place = ScalarPlace | ArrayPlace | StackPlace


def array_layouts(
    name: str, t: Integer | None, lengths: Sequence[int | Var | None], w: Format
) -> tuple[ArrayLayout, ...]:
    """The layout of an array for debuggers; none where a length is unknown, or where the words are no numbers themselves."""
    known = tuple(n for n in lengths if isinstance(n, int))
    if len(known) < len(lengths) or (t is not None and t.width != w.width):
        return ()
    return tuple(layouts(ArrayType(ScalarType(BOOL if t is None else INT), known), name))


def stack_layouts(name: str, capacity: int) -> tuple[ArrayLayout, ...]:
    """The layout of a stack for debuggers."""
    return tuple(layouts(StackType(ScalarType(INT), capacity), name))


def region_of(place: ArrayPlace | StackPlace) -> Region:
    return place.address.region


def length_of(length: int | Var) -> E:
    """A length as an expression."""
    return read(length) if isinstance(length, Var) else const(length, INT)


def word_in(place: ScalarPlace) -> E:
    """The word that the place holds."""
    return read(place.where) if isinstance(place.where, Var) else load(place.where, place.kind)


def _amount(t: Integer, w: Format) -> int:
    return 0 if t.width == 0 else w.width - t.width


def from_stored(e: E, t: Integer | None, w: Format) -> E:
    """The number whose stored word is e."""
    if t is None or not _amount(t, w):
        return e
    return apply("sar" if t.signed else "shr", INT, e, const(_amount(t, w), INT))


def to_stored(value: Value, t: Integer | None, w: Format) -> E:
    """The stored word of a number, for a place of this type."""
    if t is None or not _amount(t, w):
        return value.e
    if value.e.op == "const":
        return const(w.signed(value.e.param << _amount(t, w)), INT)
    return apply("shl", INT, value.e, const(_amount(t, w), INT))


def exact(value: Value, w: Format) -> Value:
    """The same number, in the range of its type."""
    t = value.type
    if value.exact or t is None or not _amount(t, w):
        return value
    if value.e.op == "const":
        return Value(const(number_in(value.e.param, t, w), INT), t)
    return Value(from_stored(to_stored(value, t, w), t, w), t)


def number_in(number: int, t: Integer, w: Format) -> int:
    """The number of a type that is equal to a number modulo 2^width, as a signed word."""
    width = t.width or w.width
    rest = number & ((1 << width) - 1)
    if t.signed and rest >> (width - 1):
        rest -= 1 << width
    return w.signed(rest)
