"""Functions and structs: each function is lowered to reversible IR once for each shape of its arguments.

Each statement becomes IR whose inverse is known. A statement that cannot be undone is refused, with its place in the
source. A condition that the compiler cannot decide, such as whether two indices are equal, becomes a test in the
program. `context.py` has the state of one function that is lowered, and the tables of lowerings by kind of syntax;
here are inner functions, `@struct`, and the specialisations of a program.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
import tokenize
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, TypeVar, dataclass_transform

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.constants import annotations_of
from retrograd.compiler.frontends.python import (  # noqa: F401  (they enter their functions in the tables of `context`)
    allocation,
    calls,
    control_flow,
    expressions,
    indexing,
    stacks,
    statements,
    updates,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.context import Context, evaluates, lowers
from retrograd.compiler.frontends.python.source import (
    Errors,
    InnerFunction,
    Parameter,
    SourceFunction,
    evaluated_in,
    free_names,
)
from retrograd.compiler.frontends.specialisation import (
    Declare,
    GradientOf,
    Parameters,
    Refuse,
    Specialisation,
    parameters_of,
)
from retrograd.compiler.ir.effects import only_adds
from retrograd.compiler.ir.statements import Adjoint, Kind, Procedure, fixed_at
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ArrayShape,
    ArrayType,
    PassedLength,
    ScalarShape,
    ScalarType,
    Shape,
    StaticShape,
    StructShape,
    StructType,
    array_of_known_length,
    complete,
    has_passed_length,
    has_points,
    is_open,
    is_real,
    is_struct,
    layouts,
    leaf_shapes,
    scalar_of,
)
from retrograd.compiler.language.values import Constant, FunctionValue, RoutineValue, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, nearest, shown
from retrograd.isa.words import Format, nearest_point


@lowers(ast.Pass)
def lower_pass(cx: Context, node: ast.Pass) -> None:
    """Nothing."""


@lowers(ast.FunctionDef)
def lower_inner_function(cx: Context, node: ast.FunctionDef) -> None:
    if node.name in cx.scope.names:
        cx.fail("RG0706", f"`{node.name}` is a variable already", node)
    cx.scope.names[node.name] = closure(cx, node)


@evaluates(ast.Lambda)
def closure(cx: Context, node: ast.FunctionDef | ast.Lambda) -> FunctionValue:
    """An inner function: constants around it are part of it, variables around it are passed with each call."""
    used = free_names(node)
    constants: dict[str, Any] = {}
    captured: dict[str, Value] = {}
    for name, value in cx.scope.names.items():
        if isinstance(value, Constant):
            constants[name] = value.value
        elif isinstance(value, FunctionValue) and value == FunctionValue(value.function):
            constants[name] = value.function
        elif name in used and not isinstance(value, RoutineValue):
            captured[name] = value
    if isinstance(node, ast.Lambda):
        inner = InnerFunction.from_lambda(node, cx.function, constants, tuple(captured), cx.static)
    else:
        inner = InnerFunction(node, cx.function, constants, tuple(captured), cx.static)
        if not captured:
            constants[node.name] = inner
    inner.around = frozenset(cx.scope.names)
    return FunctionValue(inner, captured=tuple(captured.items()))


@lowers(ast.Nonlocal)
def lower_nonlocal(cx: Context, node: ast.Nonlocal) -> None:
    """`nonlocal x` in an inner function, which may then change x."""
    for name in node.names:
        if name not in cx.function.captured:
            cx.fail("RG0702", f"no variable `{name}` is at hand where this function is defined", node)


# -----------------------------------------------------------------------------
# `@struct`: classes whose objects are made of words.

C = TypeVar("C")
#: flag of classes that a `class` statement made; built-in classes do not have it
_MADE_BY_CLASS = 1 << 9


@dataclass_transform()
def struct(cls: type[C]) -> type[C]:
    """A class with annotated fields, as a value of the language and a frozen dataclass of Python.

    Fields are int, bool, fixed, lognum, arrays, or other structs; methods may be reversible functions. A length in quotes,
    `Array[fixed, "n"]`, is decided by each value: the same name is one length throughout it. Raises CompileError RG0722 for any other class, RG0702 for an unknown type.
    """
    if not isinstance(cls, type):
        raise CompileError(Diagnostic("RG0722", f"{cls!r:.60} is no class"))
    for base in cls.__mro__[1:-1]:
        if annotations_of(base):
            hint = f"Make a field of it, `base: {base.__name__}`, or write its fields again."
            _refuse(cls, None, f"`{cls.__name__}` derives from `{base.__name__}`, which has fields of its own", hint)
        if not base.__flags__ & _MADE_BY_CLASS:
            hint = f"Write `class {cls.__name__}:`, and a field for what `{base.__name__}` holds."
            _refuse(cls, None, f"`{cls.__name__}` derives from `{base.__name__}`, whose values are no words", hint)
    metaclass: type = type(cls)
    if metaclass not in (type, ABCMeta):
        _refuse(cls, None, f"`{cls.__name__}` is made by `{metaclass.__name__}`, and its objects are no structs")
    annotations = annotations_of(cls)
    if not annotations:
        _refuse(cls, None, f"`{cls.__name__}` has no annotated fields")
    fields = {name: _field(cls, name, annotation) for name, annotation in annotations.items()}
    defaults = {name: cls.__dict__[name] for name in fields if name in cls.__dict__}
    try:
        made: Any = dataclasses.dataclass(frozen=True)(cls)
    except (TypeError, ValueError, AttributeError) as error:
        _refuse(cls, None, f"`{cls.__name__}`: {error}")
    made.__retrograd_fields__ = fields
    for method in vars(cls).values():
        if isinstance(method, SourceFunction):
            method.owner = made
    made.__retrograd_defaults__ = defaults
    return made  # type: ignore[no-any-return]


def _field(cls: type, name: str, annotation: Any) -> Any:
    """The type that a field is annotated with."""
    itself = f"`{name}` of `{cls.__name__}` holds a `{cls.__name__}` itself, and so on without end"
    hint = "Keep the structs in an array, and in the field the index of one: `next: int`."
    try:
        found = evaluated_in(annotation, cls)
    except NameError as error:
        if error.name == cls.__name__:
            _refuse(cls, name, itself, hint)
        known = [n for n in ("int", "bool", "fixed", "lognum", "Array", "Stack") if error.name]
        message = f"the annotation of `{name}` of `{cls.__name__}` cannot be read: {error}"
        _refuse(cls, name, message, nearest(error.name or "", known), "RG0702")
    except Exception as error:
        _refuse(cls, name, f"the annotation of `{name}` of `{cls.__name__}` cannot be read: {error}", None, "RG0702")
    if is_struct(found) and (found.__module__, found.__qualname__) == (cls.__module__, cls.__qualname__):
        _refuse(cls, name, itself, hint)
    try:
        if not is_open(found):
            complete(array_of_known_length(found))
    except TypeError as error:
        _refuse(cls, name, f"`{name}` of `{cls.__name__}`: {error}")
    return found


def _refuse(cls: type, field: str | None, message: str, hint: str | None = None, code: str = "RG0722") -> NoReturn:
    """Raise a CompileError that points at a field of a class, or at its head."""
    span, line = None, None
    try:
        lines, first = inspect.getsourcelines(cls)
        node: ast.stmt = ast.parse(textwrap.dedent("".join(lines))).body[0]
        assert isinstance(node, ast.ClassDef)
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == field:
                node = statement
        line = lines[node.lineno - 1].rstrip("\n")
        column = len(line) - len(line.lstrip()) + 1
        span = Span(shown(inspect.getsourcefile(cls) or "?"), first + node.lineno - 1, column, len(line.rstrip()) + 1)
    except (OSError, TypeError, SyntaxError, tokenize.TokenError, AssertionError, IndexError):
        pass  # a class without source text, as in an interactive session
    raise CompileError(Diagnostic(code, message, span, hint, line))


# -----------------------------------------------------------------------------
# Specialisation: lowers each function once for each combination of argument shapes that it is called with.
#
# A recursive function is lowered again while the parameters that it may change, assumed at its recursive calls, prove too few.

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

    def __post_init__(self) -> None:
        self.declare.specialise = self.specialise

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

    def python_procedures(self) -> set[str]:
        """The procedures that were lowered from this language, gradients among them."""
        return {made.name for made in self._known.values() if made.function.own_lowering is None}

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
            lowering = Context(function, module, self.captures, self.specialise, made.recursive)
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
        kind_of = _cotangents(made.shapes, self.module.w)
        for p in adjoint.parameters[len(names) :]:
            i = names.index(p.name.removeprefix("d_"))
            shape = _cotangent_of(made.shapes[i], kind_of)
            if shape is None:
                message = (
                    f"`{p.name}` of the adjoint of `{function.__name__}` is a cotangent, and `{names[i]}` has none"
                )
                hint = "Numbers of fixed and lognum have cotangents, and arrays and structs that hold some."
                errors.fail("RG0727", message, adjoint.argument(p.name) or adjoint.tree, hint)
            if (wrong := _other_point(p, shape)) is not None:
                own = f"`{p.name}` of the adjoint of `{function.__name__}`"
                message = f"{own} is the cotangent of `{names[i]}`, which has the point of {wrong}"
                errors.fail("RG0727", message, adjoint.argument(p.name) or adjoint.tree, "Leave out its annotation.")
            shapes.append(shape)
            # Ints and the lengths of arrays have no cotangents.
            leaves = enumerate(leaf_shapes(made.shapes[i]), firsts[i])
            of += [k for k, leaf in leaves if _cotangent_of(leaf, kind_of) is not None]
        found = self.specialise(adjoint, tuple(shapes))
        changed = min((k for k in found.written if k < sum(counts)), default=None)
        if changed is not None and adjoint.made_by is None:
            name = names[max(i for i, first in enumerate(firsts) if first <= changed)]
            message = f"the adjoint of `{function.__name__}` changes `{name}`"
            errors.fail("RG0727", message, adjoint.argument(name) or adjoint.tree, "It changes cotangents only: `d_…`.")
        made_by = None if adjoint.made_by is None else self.specialise(adjoint.made_by, tuple(shapes)).name
        return Adjoint(found.name, tuple(of), made_by)


def _cotangents(shapes: Iterable[Shape], w: Format) -> Callable[[Kind], Kind]:
    """The kind of the cotangent of a number with the point p: `fixed[c − p]`, of one c for all numbers of a call.

    An adjoint is linear in its cotangents, so c may be any number: 2F, with which those of `fixed` and lognums are
    `fixed`, or the nearest at which each of them is a type.
    """
    points = [k.point(w) if k.is_fixed else w.frac for shape in shapes for k in _real_kinds(shape)]
    if all(p == w.frac for p in points):
        return lambda _: Kind.FIXED
    limit = nearest_point(1 << 30, w.width)
    c = min(max(2 * w.frac, max(points) - limit), min(points) + limit)
    return lambda kind: fixed_at(c - (kind.point(w) if kind.is_fixed else w.frac))


def _real_kinds(shape: Shape) -> Iterator[Kind]:
    """The kinds of the numbers of an argument that have cotangents."""
    for leaf in leaf_shapes(shape):
        if isinstance(leaf, ScalarShape | ArrayShape):
            element = ScalarType(leaf.kind) if isinstance(leaf, ScalarShape) else leaf.element
            found = (Kind(layout.kind) for layout in layouts(element, ""))
            yield from (kind for kind in found if kind.is_real)


def _other_point(p: Parameter, shape: Shape) -> str | None:
    """The type of the numbers of a cotangent that is annotated with another binary point; None for one that is not."""
    wanted = scalar_of(p.annotation.element if isinstance(p.annotation, ArrayAnnotation) else p.annotation)
    if wanted is None or not has_points(wanted):
        return None
    kind = next(_real_kinds(shape))
    return None if kind is wanted.kind else kind.value


def _cotangent_of(shape: Shape, kind_of: Callable[[Kind], Kind]) -> Shape | None:
    """The shape of the cotangent of an argument; None where it has none. In a struct 0 stands for a part without one."""
    match shape:
        case ScalarShape(kind) if kind.is_real:
            return ScalarShape(kind_of(kind))
        case ArrayShape(element, lengths, strides) if is_real(element):
            return ArrayShape(_fixed_like(element, kind_of), _lengths_again(lengths), strides)
        case StructShape(t, fields):
            found = tuple((name, _cotangent_of(inner, kind_of)) for name, inner in fields)
            if any(inner is not None for _, inner in found):
                return StructShape(t, tuple((name, inner or StaticShape(0, 0)) for name, inner in found))
    return None


def _lengths_again(lengths: tuple[int | PassedLength, ...]) -> tuple[int | PassedLength, ...]:
    """The lengths of another array, for which they are not passed a second time."""
    return tuple(replace(n, first=False) if isinstance(n, PassedLength) else n for n in lengths)


def _fixed_like(t: T, kind_of: Callable[[Kind], Kind]) -> T:
    """The type with the cotangents of its numbers in their places."""
    match t:
        case ScalarType(kind) if kind.is_real:
            return replace(t, kind=kind_of(kind))
        case ArrayType(element):
            return replace(t, element=_fixed_like(element, kind_of))
        case StructType(_, fields):
            return replace(t, fields=tuple((name, _fixed_like(inner, kind_of)) for name, inner in fields))
    return t


def _refuse_own_gradient(f: SourceFunction, refuse: Refuse | None) -> NoReturn:
    """Raise RG0719."""
    message = f"`{f.__name__}` takes the gradient of itself, which takes its gradient, without end"
    (refuse or _refuse_at_head(f))("RG0719", message, "Differentiate a function that does not.")


def _refuse_at_head(function: SourceFunction) -> Refuse:
    def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
        Errors(function.source).fail(code, message, function.tree, hint)

    return refuse
