"""Shapes of arguments: a procedure is specialised on the shape of each argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ScalarType, StackType, StructType


@dataclass(frozen=True)
class ScalarShape:
    kind: Kind


@dataclass(frozen=True)
class PassedLength:
    """A length that is known only when the program runs. Equal lengths of one call have one number, and one parameter, beside the first array that has it.

    `most`: it is not greater.
    """

    number: int
    most: int
    first: bool


@dataclass(frozen=True)
class ArrayShape:
    element: ScalarType | StructType
    shape: tuple[int | PassedLength, ...]
    strides: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...] | None:
        """The shape where it is known when the program is compiled."""
        known = tuple(n for n in self.shape if isinstance(n, int))
        return known if len(known) == len(self.shape) else None

    @property
    def passed(self) -> list[PassedLength]:
        """The lengths that have a parameter of their own beside this array."""
        return [n for n in self.shape if isinstance(n, PassedLength) and n.first]


@dataclass(frozen=True)
class StackShape:
    type: StackType


@dataclass(frozen=True)
class StructShape:
    type: StructType
    fields: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True)
class StaticShape:
    """A value known now. Functions and arrays count by identity, other values by themselves and their type."""

    key: Any
    value: Any = field(compare=False)


@dataclass(frozen=True)
class ClosureShape:
    """An inner function with the variables around it that it uses. Functions count by identity."""

    key: Any
    captured: tuple[tuple[str, Shape], ...]
    value: Any = field(compare=False)


Shape = ScalarShape | ArrayShape | StackShape | StructShape | StaticShape | ClosureShape


def leaf_shapes(shape: Shape) -> list[Shape]:
    """The shapes of the scalars, arrays, stacks and passed lengths in it, one for each parameter of the procedure."""
    match shape:
        case StructShape(_, fields):
            return [leaf for _, inner in fields for leaf in leaf_shapes(inner)]
        case ClosureShape(_, captured):
            return [leaf for _, inner in captured for leaf in leaf_shapes(inner)]
        case StaticShape():
            return []
        case ArrayShape():
            return [shape, *(ScalarShape(Kind.INT) for _ in shape.passed)]
    return [shape]


def has_passed_length(shape: Shape) -> bool:
    """Whether the length of an array in it is known only when the program runs."""
    return any(isinstance(n, PassedLength) for x in leaf_shapes(shape) if isinstance(x, ArrayShape) for n in x.shape)
