"""Gradients as functions of a program: their procedures are declared here, and get their bodies from `gradient_calls`.

G(x …, g …):  g += ∂L/∂x       for P(x …), which computes the loss L among its parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from retrograd.compiler.derivatives.gradient_calls import (
    ArgumentStorage,
    DerivativeCall,
    GradientCall,
    expand_gradients,
)
from retrograd.compiler.frontends.specialisation import GradientOf, Parameters, Specialisation
from retrograd.compiler.ir.statements import Kind, Module, Procedure, Region, Var
from retrograd.compiler.language.shapes import ArrayShape, ScalarShape, Shape, leaf_shapes
from retrograd.compiler.language.types import ScalarType, StructType, Type


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
        cells = [[_storage(shape, *next(places)) for shape in leaf_shapes(given)] for given in made.shapes]
        loss = cells[of.loss]
        if len(loss) != 1 or loss[0].region is not None or loss[0].kinds != (Kind.FIXED,):
            made.refuse("RG0715", f"the loss `{names[of.loss]}` of `{made.function.__name__}` is not one fixed number")
        wanted: list[tuple[ArgumentStorage, ArgumentStorage]] = []
        for source, target in zip(of.wanted, range(len(inner.shapes), len(cells)), strict=True):
            wanted += _gradient_pairs(cells[source], cells[target]) or _refuse_shape(made, names[source], names[target])
        changed = {target.var for _, target in wanted} | {parameters.variables[i] for i in inner.written}
        made.written = frozenset(i for i, var in enumerate(parameters.variables) if var in changed)
        call = GradientCall(made.name, inner.name, of.backward, loss[0].var, tuple(wanted), of.keep)
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


def _storage(shape: Shape, var: Var, region: Region | None) -> ArgumentStorage:
    match shape:
        case ScalarShape(kind):
            return ArgumentStorage(var, region, (kind,))
        case ArrayShape(element, lengths, strides):
            return ArgumentStorage(var, region, tuple(_kinds(element)), lengths, strides)
    return ArgumentStorage(var, region, ())


def _kinds(t: Type) -> list[Kind]:
    """The kind of each word of an element."""
    match t:
        case ScalarType(kind):
            return [kind]
        case StructType(_, fields):
            return [kind for _, inner in fields for kind in _kinds(inner)]
    raise TypeError(t)


def _gradient_pairs(
    sources: Sequence[ArgumentStorage], targets: Sequence[ArgumentStorage]
) -> list[tuple[ArgumentStorage, ArgumentStorage]] | None:
    """(parameter, target of its gradient) for each part; None where their shapes differ."""
    if len(sources) != len(targets) or not sources:
        return None
    pairs = list(zip(sources, targets, strict=True))
    for x, g in pairs:
        real = tuple(Kind.FIXED if k is Kind.LOGNUM else k for k in x.kinds)
        if x.shape != g.shape or real != g.kinds or Kind.FIXED not in real:
            return None
    return pairs
