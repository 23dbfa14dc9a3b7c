"""Gradients as functions of a program: their procedures are declared here, and get their bodies from `gradient_calls`.

G(x …, g …):  g += ∂L/∂x       for P(x …), which computes the loss L among its parameters
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NoReturn

from retrograd.compiler.derivatives.gradient_calls import (
    ArgumentStorage,
    DerivativeCall,
    GradientCall,
    expand_gradients,
)
from retrograd.compiler.frontends.specialisation import GradientOf, Parameters, Specialisation
from retrograd.compiler.ir.expressions import Address, const
from retrograd.compiler.ir.instruction_selection import MemoryWord
from retrograd.compiler.ir.statements import Kind, Module, Procedure, Region, Var
from retrograd.compiler.language.arithmetic import first_axis
from retrograd.compiler.language.lengths import bound, is_known
from retrograd.compiler.language.shapes import ArrayShape, PassedLength, ScalarShape, Shape, leaf_shapes
from retrograd.compiler.language.types import ArrayType, ScalarType, StructType, Type
from retrograd.compiler.language.values import ArrayView, Scalar, StructValue, Value


class GradientProcedures:
    """The gradients of one program."""

    def __init__(self) -> None:
        self._calls: dict[str, DerivativeCall] = {}

    def declare(self, made: Specialisation, parameters: Parameters, inner: Specialisation, of: GradientOf) -> Procedure:
        """The procedure of a gradient, without its body. Its parameters are those of `inner`, then one for each gradient.

        Raises RG0715 where the loss is not one fixed number, or a gradient has not the shape of its parameter.
        """
        names = [p.name for p in made.function.parameters]
        places = iter(zip(parameters.variables, parameters.regions, strict=True))
        lengths: dict[int, Var] = {}
        cells = [_cells(given, places, lengths) for given in made.shapes]
        loss = _number(parameters.names[names[of.loss]], of.steps)
        if loss is None:
            lost = names[of.loss] + of.path
            made.refuse("RG0715", f"the loss `{lost}` of `{made.function.__name__}` is not one fixed number")
        wanted: list[tuple[ArgumentStorage, ArgumentStorage]] = []
        for source, target in zip(of.wanted, range(len(inner.shapes), len(cells)), strict=True):
            wanted += _gradient_pairs(cells[source], cells[target]) or _refuse_shape(made, names[source], names[target])
        changed = {target.var for _, target in wanted} | {parameters.variables[i] for i in inner.written}
        made.written = frozenset(i for i, var in enumerate(parameters.variables) if var in changed)
        call = GradientCall(made.name, inner.name, of.backward, loss, tuple(wanted), of.keep)
        self.add(call)
        source_span = made.function.source.span(made.function.tree)
        return parameters.declaration(made.name, made.written, span=source_span)

    def add(self, call: DerivativeCall) -> None:
        """A derivative whose procedure is declared elsewhere."""
        self._calls[call.name] = call

    def expand(self, module: Module) -> Module:
        """The module with a body for each gradient."""
        return expand_gradients(module, self._calls) if self._calls else module


def _refuse_shape(made: Specialisation, x: str, g: str) -> NoReturn:
    message = f"`{g}` of `{made.function.__name__}` gains the gradient by `{x}`, and is not of its shape, or not fixed"
    made.refuse("RG0715", message, f"Make it like `{x}`, of fixed numbers.")


def _cells(given: Shape, places: Iterator[tuple[Var, Region | None]], lengths: dict[int, Var]) -> list[ArgumentStorage]:
    """The parts of an argument. `lengths`: by number the parameters of lengths of the run, which are no parts of their own."""
    leaves = [(shape, *next(places)) for shape in leaf_shapes(given)]
    found: list[ArgumentStorage] = []
    while leaves:
        shape, var, region = leaves.pop(0)
        if isinstance(shape, ArrayShape):
            # The lengths that are passed beside the array are the next leaves.
            lengths |= {n.number: leaves.pop(0)[1] for n in shape.passed}
        found.append(_storage(shape, var, region, lengths))
    return found


def _number(value: Value, steps: Sequence[str | tuple[int, ...]]) -> Var | MemoryWord | None:
    """The fixed number that these fields and indices lead to; None where they lead to none."""
    for step in steps:
        match value, step:
            case StructValue(StructType(is_tuple=True), fields), (int(i),) if -len(fields) <= i < len(fields):
                value = [*fields.values()][i]
            case StructValue(_, fields), str() if step in fields:
                value = fields[step]
            case ArrayView(_, shape), tuple() if len(step) <= len(shape) and is_known(shape):
                for i in step:
                    assert isinstance(value, ArrayView)
                    n = bound(value.shape[0])
                    if not -n <= i < n:
                        return None
                    value = first_axis(value, const(i % n, Kind.INT))
            case _:
                return None
    match value:
        case Scalar(_, Var(kind=Kind.FIXED) as place):
            return place
        case Scalar(e, Address(region, Var() as base, (), offset)) if e.kind is Kind.FIXED:
            return MemoryWord(base, offset, region)
    return None


def _storage(shape: Shape, var: Var, region: Region | None, lengths: dict[int, Var]) -> ArgumentStorage:
    match shape:
        case ScalarShape(kind):
            return ArgumentStorage(var, region, (kind,))
        case ArrayShape(element, given, strides):
            measured = tuple(lengths[n.number] if isinstance(n, PassedLength) else n for n in given)
            return ArgumentStorage(var, region, tuple(_kinds(element)), measured, strides)
    return ArgumentStorage(var, region, ())


def _kinds(t: Type) -> list[Kind]:
    """The kind of each word of an element."""
    match t:
        case ScalarType(kind):
            return [kind]
        case StructType(_, fields):
            return [kind for _, inner in fields for kind in _kinds(inner)]
        case ArrayType(element, shape):
            return _kinds(element) * prod(shape)
    raise TypeError(t)


def _gradient_pairs(
    sources: Sequence[ArgumentStorage], targets: Sequence[ArgumentStorage]
) -> list[tuple[ArgumentStorage, ArgumentStorage]] | None:
    """(parameter, target of its gradient) for each part that has a derivative; None where there is no such part, or their shapes differ."""
    if len(sources) != len(targets):
        return None
    pairs: list[tuple[ArgumentStorage, ArgumentStorage]] = []
    for x, g in zip(sources, targets, strict=True):
        real = tuple(Kind.FIXED if k is Kind.LOGNUM else k for k in x.kinds)
        if x.shape != g.shape or real != g.kinds:
            return None
        if Kind.FIXED in real:
            pairs.append((x, g))
    return pairs or None
