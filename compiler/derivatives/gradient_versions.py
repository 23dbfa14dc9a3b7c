"""The gradient of a function as a procedure: parameters, checks, and the order for its body (see `gradient_calls`)."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from retrograd.compiler.derivatives.gradient_calls import Cells, GradientCall
from retrograd.compiler.frontends.python.sources.source import GradientOf, SourceFunction, fail
from retrograd.compiler.ir.statements import ZERO, Kind, Node, Op, Procedure, Region, Var
from retrograd.compiler.language.shapes import ArrayShape, ScalarShape, Shape, leaf_shapes
from retrograd.compiler.language.types import ScalarType, StructType, Type
from retrograd.isa.table import TABLE

if TYPE_CHECKING:
    from retrograd.compiler.frontends.python.elaborate import Elaborator
    from retrograd.compiler.frontends.python.specialise import Specialiser, Version


def compile_gradient(s: Specialiser, version: Version, of: GradientOf) -> None:
    """A procedure whose body follows when all others are known: see `gradient_calls`."""
    f, source = version.function, version.function.source
    count = len(of.function.parameters)
    inner = s.version(of.function, version.shapes[:count], None, f.tree)
    if inner.procedure is None:
        refuse_own_gradient(of.function, *(version.caller or (None, f.tree)))
    params, _, parts = s.parameters(version)
    leaves = iter(parts)
    cells = [[_storage(shape, *next(leaves)) for shape in leaf_shapes(given)] for given in version.shapes]
    loss = cells[of.loss]
    if len(loss) != 1 or loss[0].region is not None or loss[0].kinds != (Kind.FIXED,):
        name = f.parameters[of.loss].name
        _refuse(version, f"the loss `{name}` of `{f.__name__}` is not one fixed number", None)
    wanted: list[tuple[Cells, Cells]] = []
    for source_at, target_at in zip(of.wanted, range(count, len(cells)), strict=True):
        pairs = _gradient_pairs(cells[source_at], cells[target_at])
        if pairs is None:
            x, g = f.parameters[source_at].name, f.parameters[target_at].name
            message = f"`{g}` of `{f.__name__}` gains the gradient by `{x}`, and is not of its shape, or not fixed"
            _refuse(version, message, f"Make it like `{x}`, of fixed numbers.")
        wanted += pairs
    changed = {target.var for _, target in wanted} | {params[i] for i in inner.written}
    version.written = frozenset(i for i, var in enumerate(params) if var in changed)
    scalars = frozenset(i for i, (_, region) in enumerate(parts) if region is None)
    # What it touches shows in a body; until there is one, in what stands for it.
    touched: list[Node] = []
    for i, (var, region) in enumerate(parts):
        if region is not None:
            name = "st.xor" if i in version.written else "ld.xor"
            touched.append(Op(TABLE[name], None if name == "st.xor" else Var("t"), var, ZERO, region=region))
    version.procedure = Procedure(
        version.name,
        params,
        tuple(region for _, region in parts if region is not None),
        tuple(touched),
        version.written & scalars,
        False,
        source.span(f.tree),
    )
    s.procedures[version.name] = version.procedure
    s.gradients[version.name] = GradientCall(version.name, inner.name, of.backward, loss[0].var, tuple(wanted), of.keep)


def refuse_own_gradient(f: SourceFunction, caller: Elaborator | None, node: ast.AST) -> NoReturn:
    """Raise RG0719."""
    message = f"`{f.__name__}` takes the gradient of itself, which takes its gradient, without end"
    hint = "Differentiate a function that does not."
    if caller is not None:
        caller.fail("RG0719", message, node, hint)
    fail("RG0719", message, f.source, f.tree, hint)


def _refuse(version: Version, message: str, hint: str | None) -> NoReturn:
    """Raise RG0715, at the call if there is one."""
    if version.caller is not None:
        caller, node = version.caller
        caller.fail("RG0715", message, node, hint)
    fail("RG0715", message, version.function.source, version.function.tree, hint)


def _storage(shape: Shape, var: Var, region: Region | None) -> Cells:
    match shape:
        case ScalarShape(kind):
            return Cells(var, region, (kind,))
        case ArrayShape(element, lengths, strides):
            return Cells(var, region, tuple(_kinds(element)), lengths, strides)
    return Cells(var, region, ())


def _kinds(t: Type) -> list[Kind]:
    """What each word of an element is."""
    match t:
        case ScalarType(kind):
            return [kind]
        case StructType(_, fields):
            return [kind for _, inner in fields for kind in _kinds(inner)]
    raise TypeError(t)


def _gradient_pairs(sources: Sequence[Cells], targets: Sequence[Cells]) -> list[tuple[Cells, Cells]] | None:
    """(what is differentiated by, what gains the gradient), part by part; None where they do not fit."""
    if len(sources) != len(targets) or not sources:
        return None
    pairs = list(zip(sources, targets, strict=True))
    for x, g in pairs:
        real = tuple(Kind.FIXED if k is Kind.LOGNUM else k for k in x.kinds)
        if x.shape != g.shape or real != g.kinds or Kind.FIXED not in real:
            return None
    return pairs
