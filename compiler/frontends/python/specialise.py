"""Specialisation: lowers each function once for each combination of argument shapes that it is called with.

A recursive function is lowered again while the parameters that it may change, assumed at its recursive calls, prove too few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.function import FunctionLowering
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.frontends.specialisation import (
    Declare,
    GradientOf,
    Parameters,
    Refuse,
    Specialisation,
    parameters_of,
)
from retrograd.compiler.ir.effects import only_adds
from retrograd.compiler.ir.statements import Adjoint, Kind, Procedure
from retrograd.compiler.language.types import (
    ArrayShape,
    ArrayType,
    PassedLength,
    ScalarShape,
    ScalarType,
    Shape,
    StaticShape,
    StructShape,
    StructType,
    has_passed_length,
    is_real,
    leaf_shapes,
)
from retrograd.compiler.language.values import FunctionValue

#: a type of the language
T = TypeVar("T")
#: specialisations that one program may have
_MOST = 2000
#: calls within each other, each of another specialisation
_DEEPEST = 100

#: (gradient of f, its parameters, f, request) → its procedure, declared without a body
DeclareGradient = Callable[[Specialisation, Parameters, Specialisation, GradientOf], Procedure]


@dataclass(eq=False)
class Specialiser:
    """The specialisations of one program; `declare_gradient` lowers the gradients among its functions."""

    module: ModuleBuilder
    declare_gradient: DeclareGradient
    declare: Declare
    captures: Captures = field(default_factory=Captures)
    _known: dict[Any, Specialisation] = field(default_factory=dict)
    #: keys of specialisations that are being lowered, outermost first
    _open: list[Any] = field(default_factory=list)

    def specialise(
        self, function: SourceFunction, shapes: tuple[Shape, ...], refuse: Refuse | None = None
    ) -> Specialisation:
        """The function for these shapes, lowered unless it is being lowered. `refuse`: raises errors at the call."""
        key = (id(function), shapes)
        found = self._known.get(key)
        if found is not None:
            if found.procedure is None and function.gradient_of is not None:
                _refuse_own_gradient(function.gradient_of.function, refuse)
            if found.procedure is None:
                # The call closes a cycle: all that lie on it may be active more than once.
                for other in self._open[self._open.index(key) :]:
                    self._known[other].called_itself = True
            return found
        refuse_here = refuse or _refuse_at_head(function)
        if function.own_lowering is not None and any(map(has_passed_length, shapes)):
            message = f"`{function.__name__}` is given an array whose length is known only when the program runs"
            hint = "A functional function is compiled for the shapes of its arguments: give the array its greatest length, or call a reversible function."
            refuse_here("RG0717", message, hint)
        if len(self._known) > _MOST or len(self._open) > _DEEPEST:
            refuse_here("RG0719", f"`{function.__name__}` needs yet another version, after {len(self._known)}")
        made = Specialisation(self.module.unique_name(function.__name__), function, shapes, refuse_here)
        self._known[key] = made
        self._open.append(key)
        try:
            if function.gradient_of is not None:
                self._lower_gradient(made, function.gradient_of, refuse)
            elif function.own_lowering is not None:
                made.procedure = function.own_lowering(made, self.module, self.captures, self.declare)
                self.module.procedures[made.name] = made.procedure
            else:
                self._lower(made, function)
        finally:
            self._open.pop()
            if made.procedure is None:
                del self._known[key]
        return made

    def _lower_gradient(self, made: Specialisation, of: GradientOf, refuse: Refuse | None) -> None:
        inner = self.specialise(of.function, made.shapes[: len(of.function.parameters)])
        if inner.procedure is None:
            _refuse_own_gradient(of.function, refuse)
        parameters = parameters_of([p.name for p in made.function.parameters], made.shapes)
        made.procedure = self.module.procedures[made.name] = self.declare_gradient(made, parameters, inner, of)

    def _lower(self, made: Specialisation, function: SourceFunction) -> None:
        """Lower the body; again, as long as too little was assumed of recursive calls."""
        module = self.module
        module.files.setdefault(function.source.file, function.source.lines)
        known, before = set(self._known), module.checkpoint()
        while True:
            made.called_itself, in_place = False, module.calls_in_place
            names = [*(p.name for p in function.parameters), *function.captured]
            parameters = parameters_of(names, made.shapes)
            module.procedures[made.name] = parameters.declaration(made.name, made.written, True, adds=made.adds)
            lowering = FunctionLowering(function, module, self.captures, self.specialise, made.recursive)
            lowering.scope.names.update(parameters.names)
            if function.captured and function.__name__ not in parameters.names:
                around = tuple((name, parameters.names[name]) for name in function.captured)
                lowering.scope.names[function.__name__] = FunctionValue(function, captured=around)
            body = lowering.body()
            places = [
                var if region is None else region
                for var, region in zip(parameters.variables, parameters.regions, strict=True)
            ]
            written = frozenset(i for i, place in enumerate(places) if place in lowering.builder.written)
            body_known = not made.called_itself or (made.recursive and written <= made.written)
            if body_known and not (made.called_itself and made.adds and module.calls_in_place > in_place):
                break
            if body_known:
                module.procedures[made.name] = parameters.procedure(made.name, body, made.written, True, None)
                scalars = [i for i in written if parameters.regions[i] is None]
                if all(only_adds(module.procedures, made.name, i) for i in scalars):
                    break
                made.adds = False
            # Calls in the body were checked against an assumption that does not hold: once more, with a weaker one.
            made.written |= written
            made.recursive = True
            for other in self._known.keys() - known:
                del self._known[other]
            module.restore(before)
            self.declare.functional = None
        made.written |= written
        span = function.source.span(function.tree)
        made.procedure = parameters.procedure(made.name, body, made.written, made.recursive, span)
        function.was_lowered = True
        if function.own_adjoint is not None:
            made.procedure = replace(made.procedure, adjoint=self._adjoint(made, function, function.own_adjoint))
        module.procedures[made.name] = made.procedure
        if made.recursive:
            module.forget_accesses()

    def _adjoint(self, made: Specialisation, function: SourceFunction, adjoint: SourceFunction) -> Adjoint:
        """The user's adjoint for these shapes. Raises RG0727 where it changes more than cotangents."""
        names = [p.name for p in function.parameters]
        counts = [len(leaf_shapes(shape)) for shape in made.shapes]
        firsts = [sum(counts[:i]) for i in range(len(counts))]
        shapes = list(made.shapes)
        of: list[int] = []
        errors = Errors(adjoint.source)
        for p in adjoint.parameters[len(names) :]:
            i = names.index(p.name.removeprefix("d_"))
            shape = _cotangent_of(made.shapes[i])
            if shape is None:
                message = (
                    f"`{p.name}` of the adjoint of `{function.__name__}` is a cotangent, and `{names[i]}` has none"
                )
                hint = "Numbers of fixed and lognum have cotangents, and arrays and structs that hold some."
                errors.fail("RG0727", message, adjoint.argument(p.name) or adjoint.tree, hint)
            shapes.append(shape)
            # Ints and the lengths of arrays have no cotangents.
            leaves = enumerate(leaf_shapes(made.shapes[i]), firsts[i])
            of += [k for k, leaf in leaves if _cotangent_of(leaf) is not None]
        found = self.specialise(adjoint, tuple(shapes))
        changed = min((k for k in found.written if k < sum(counts)), default=None)
        if changed is not None:
            name = names[max(i for i, first in enumerate(firsts) if first <= changed)]
            message = f"the adjoint of `{function.__name__}` changes `{name}`"
            errors.fail("RG0727", message, adjoint.argument(name) or adjoint.tree, "It changes cotangents only: `d_…`.")
        return Adjoint(found.name, tuple(of))


def _cotangent_of(shape: Shape) -> Shape | None:
    """The shape of the cotangent of an argument; None where it has none. In a struct 0 stands for a part without one."""
    match shape:
        case ScalarShape(Kind.FIXED | Kind.LOGNUM):
            return ScalarShape(Kind.FIXED)
        case ArrayShape(element, lengths, strides) if is_real(element):
            return ArrayShape(_fixed_like(element), _lengths_again(lengths), strides)
        case StructShape(t, fields):
            found = tuple((name, _cotangent_of(inner)) for name, inner in fields)
            if any(inner is not None for _, inner in found):
                return StructShape(t, tuple((name, inner or StaticShape(0, 0)) for name, inner in found))
    return None


def _lengths_again(lengths: tuple[int | PassedLength, ...]) -> tuple[int | PassedLength, ...]:
    """The lengths of another array, for which they are not passed a second time."""
    return tuple(replace(n, first=False) if isinstance(n, PassedLength) else n for n in lengths)


def _fixed_like(t: T) -> T:
    """The type with fixed numbers in place of lognums."""
    match t:
        case ScalarType(Kind.LOGNUM):
            return replace(t, kind=Kind.FIXED)
        case ArrayType(element):
            return replace(t, element=_fixed_like(element))
        case StructType(_, fields):
            return replace(t, fields=tuple((name, _fixed_like(inner)) for name, inner in fields))
    return t


def _refuse_own_gradient(f: SourceFunction, refuse: Refuse | None) -> NoReturn:
    """Raise RG0719."""
    message = f"`{f.__name__}` takes the gradient of itself, which takes its gradient, without end"
    (refuse or _refuse_at_head(f))("RG0719", message, "Differentiate a function that does not.")


def _refuse_at_head(function: SourceFunction) -> Refuse:
    def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
        Errors(function.source).fail(code, message, function.tree, hint)

    return refuse
