"""Whole programs: a function and all that it calls as a module, with its arguments in memory.

entry = within (each scalar argument exchanged into a variable) do (call of the function)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.derivatives.gradient_calls import expand_gradients
from retrograd.compiler.frontends.python.sources.captures import Captures, static_key
from retrograd.compiler.frontends.python.sources.source import SourceFunction
from retrograd.compiler.frontends.python.specialise import Specialiser
from retrograd.compiler.ir.statements import ZERO, Block, Call, Local, Module, Node, Op, Operand, Region, Var, Within
from retrograd.compiler.language.shapes import ArrayShape, ScalarShape, Shape, StackShape, StaticShape, StructShape
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StaticType, StructType, Type, leaves
from retrograd.compiler.language.values import FunctionValue, row_major
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(frozen=True)
class Argument:
    """Where an argument of the function lies in memory: from `address` on, in the order of its type."""

    name: str
    type: Type
    address: int


@dataclass(frozen=True)
class Lowered:
    """A function as a module, and where its arguments lie."""

    module: Module
    arguments: tuple[Argument, ...]
    #: statements for the host: (function, `with` block, what its names stand for)
    externals: tuple[Any, ...] = ()
    #: the values from around the functions that the module was made from
    captures: Captures = field(default_factory=Captures, compare=False, repr=False)


def lower(function: SourceFunction, types: Sequence[Type], w: Format, stack: int = 1 << 16) -> Lowered:
    """The function for arguments of these types as a reversible module: arguments in memory, in and out.

    Raises CompileError.
    """
    s = Specialiser(w)
    s.files[function.source.file] = function.source.lines
    shapes: list[Shape] = []
    arguments: list[Argument] = []
    compute: list[Node] = []
    args: list[Operand] = []
    regions: list[Region] = []
    span = function.source.span(function.tree)
    late: list[tuple[Var, Region]] = []
    given: list[Region] = []
    for p, t in zip(function.parameters, types, strict=True):
        arguments.append(Argument(p.name, t, s.memory))
        if isinstance(t, StaticType):
            value = t.value
            s.captures.contents(value)
            backward = getattr(type(value), "__retrograd_inverse__", False)
            if isinstance(value, SourceFunction) or backward:
                f = FunctionValue(value.__retrograd_inverse_of__ if backward else value, backward)
                shapes.append(StaticShape((id(f.function), f.backward), f))
            else:
                shapes.append(StaticShape(static_key(value), value))
            continue
        places: dict[str, Region] = {}
        for name, _, leaf in leaves(t, p.name):
            region = s.static_region(name, leaf.size, span)
            places[name] = region
            given.append(region)
            if isinstance(leaf, ScalarType):
                var = Var(name, leaf.kind, span)
                late.append((var, region))
                args.append(var)
            else:
                from retrograd.compiler.ir.statements import Const

                assert region.address is not None
                args.append(Const(region.address))
                regions.append(region)
        shapes.append(_shape_of(t))
    for var, region in late:
        compute.append(Local(var, False, span))
        compute.append(Op(TABLE["exch"], var, ZERO, None, region.address or 0, span, region))
    version = s.version(function, tuple(shapes), None, function.tree)
    call = Call(version.name, tuple(args), tuple(regions), False, span)
    entry: Block = (Within(tuple(compute), (call,), None, span),) if compute else (call,)
    module = Module(
        entry,
        dict(s.procedures),
        tuple(s.regions),
        s.memory,
        stack,
        format=w,
        files=tuple(s.files),
        texts=tuple(s.files.values()),
        externals=tuple(range(len(s.externals))),
        arguments=tuple(given),
    )
    if s.gradients:
        module = expand_gradients(module, s.gradients)
    return Lowered(module, tuple(arguments), tuple(s.externals), s.captures.freeze())


def _shape_of(t: Type) -> Shape:
    match t:
        case ScalarType(kind):
            return ScalarShape(kind)
        case ArrayType(element, shape):
            return ArrayShape(element, shape, row_major(shape, element.size))
        case StackType():
            return StackShape(t)
        case StructType(_, fields):
            return StructShape(t, tuple((name, _shape_of(inner)) for name, inner in fields))
        case StaticType(value):
            return StaticShape(static_key(value), value)
