"""Lowering of whole programs: a function and its callees as a module, with the arguments in memory.

entry = within (each scalar argument exchanged into a variable) do (call of the function)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from retrograd.compiler.derivatives.gradients import GradientProcedures
from retrograd.compiler.frontends.constants import Place, SourceConstant
from retrograd.compiler.frontends.module_builder import HostBlock, ModuleBuilder
from retrograd.compiler.frontends.python.captures import Captures, static_key
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.python.specialise import Specialiser
from retrograd.compiler.frontends.specialisation import Declare
from retrograd.compiler.ir.statements import ZERO, Call, Const, Local, Module, Node, Op, Operand, Region, Var, Within
from retrograd.compiler.language.types import (
    ArrayShape,
    ArrayType,
    ScalarShape,
    ScalarType,
    Shape,
    StackShape,
    StackType,
    StaticShape,
    StaticType,
    StructShape,
    StructType,
    Type,
    layouts,
    leaves,
    row_major,
)
from retrograd.compiler.language.values import Condition, FunctionValue
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


@dataclass(frozen=True)
class Argument:
    """An argument of the function; its words begin at `address`, in the order of its type."""

    name: str
    type: Type
    address: int


@dataclass(frozen=True)
class Lowered:
    """A function as a module, with its arguments, its blocks for the host, and the texts for its traps."""

    module: Module
    arguments: tuple[Argument, ...]
    #: statements for the host, by the number of their mark
    externals: tuple[HostBlock, ...] = ()
    #: place of the first condition of a branch or loop → (condition before it, condition after it)
    conditions: Mapping[Span, tuple[Condition, Condition]] = field(default_factory=dict)
    #: place of a branch or loop → its condition or bounds, in words
    statement_texts: Mapping[Span, str] = field(default_factory=dict)
    #: the numbers of the source that became words
    constants: tuple[SourceConstant, ...] = field(default=(), compare=False, repr=False)
    #: numbers that lost more than half of their bits: texts with their places
    warnings: tuple[tuple[str, Place], ...] = field(default=(), compare=False, repr=False)
    #: values from around the functions that the module depends on
    captures: Captures = field(default_factory=Captures, compare=False, repr=False)


def lower(
    function: SourceFunction,
    types: Sequence[Type],
    w: Format,
    stack: int = 1 << 16,
    heap: int = 1 << 16,
    forget: frozenset[str] = frozenset(),
    recorded: bool = False,
) -> Lowered:
    """The function for arguments of these types as a reversible module: arguments in memory, in and out. `recorded`: see `Constants`.

    Raises CompileError.
    """
    module = ModuleBuilder(w, recorded)
    gradients = GradientProcedures()
    specialiser = Specialiser(module, gradients.declare, Declare(gradients.add, heap, forget))
    module.files[function.source.file] = function.source.lines
    shapes: list[Shape] = []
    arguments: list[Argument] = []
    compute: list[Node] = []
    passed: list[Operand] = []
    regions: list[Region] = []
    span = function.source.span(function.tree)
    given: list[Region] = []
    for p, t in zip(function.parameters, types, strict=True):
        arguments.append(Argument(p.name, t, module.memory))
        if isinstance(t, StaticType):
            specialiser.captures.contents(t.value)
            shapes.append(_static_shape(t.value))
            continue
        for name, _, leaf in leaves(t, p.name):
            region = module.static_region(name, leaf.size, span, layouts=tuple(layouts(leaf, name)))
            given.append(region)
            assert region.address is not None
            if isinstance(leaf, ScalarType):
                var = Var(name, leaf.kind, span)
                passed.append(var)
                exchange = Op(TABLE["exch"], var, ZERO, None, region.address, span, region)
                compute += [Local(var, False, span), exchange]
            else:
                passed.append(Const(region.address))
                regions.append(region)
        shapes.append(_shape_of(t))
    entry = specialiser.specialise(function, tuple(shapes))
    call = Call(entry.name, tuple(passed), tuple(regions), False, span)
    lowered = Module(
        (Within(tuple(compute), (call,), None, span),) if compute else (call,),
        dict(module.procedures),
        tuple(module.regions),
        module.memory,
        stack,
        format=w,
        files=tuple(module.files),
        texts=tuple(module.files.values()),
        externals=tuple(range(len(module.host_blocks))),
        unsettled={name: frozenset(lines) for name, lines in module.viewed.items()},
        arguments=(*given, *module.outliving),
        recorded=recorded,
    )
    lowered = gradients.expand(lowered)
    return Lowered(
        lowered,
        tuple(arguments),
        tuple(module.host_blocks),
        module.conditions,
        module.statement_texts,
        tuple(module.constants.found),
        tuple(module.constants.warnings),
        specialiser.captures.freeze(),
    )


def shape_of(t: Type) -> Shape:
    """The shape of an argument of a type."""
    return _static_shape(t.value) if isinstance(t, StaticType) else _shape_of(t)


def _static_shape(value: Any) -> StaticShape:
    backward = getattr(type(value), "__retrograd_inverse__", False)
    if isinstance(value, SourceFunction) or backward:
        f = FunctionValue(value.__retrograd_inverse_of__ if backward else value, backward)
        return StaticShape((id(f.function), f.backward), f)
    return StaticShape(static_key(value), value)


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
            return _static_shape(value)
