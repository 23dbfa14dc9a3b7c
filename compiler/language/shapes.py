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
class ArrayShape:
    element: ScalarType | StructType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


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
    """The shapes of the scalars, arrays and stacks in it, one for each parameter of the procedure."""
    match shape:
        case StructShape(_, fields):
            return [leaf for _, inner in fields for leaf in leaf_shapes(inner)]
        case ClosureShape(_, captured):
            return [leaf for _, inner in captured for leaf in leaf_shapes(inner)]
        case StaticShape():
            return []
    return [shape]
