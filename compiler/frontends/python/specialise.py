"""Functions → procedures: one for each combination of types and shapes that is called, and the program around them.

A call passes variables, never copies: what is a variable of the caller is the parameter of the callee while it runs. A word in
memory is exchanged into a variable for the time of the call; the value of an expression is passed as a temporary, which the
callee may not change.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from retrograd.compiler.derivatives.gradient_calls import GradientCall
from retrograd.compiler.derivatives.gradient_versions import compile_gradient, refuse_own_gradient
from retrograd.compiler.frontends.python.elaborate import Elaborator
from retrograd.compiler.frontends.python.sources.captures import Captures, static_key
from retrograd.compiler.frontends.python.sources.source import NOTHING, Parameter, SourceFunction
from retrograd.compiler.ir.effects import AccessAnalysis
from retrograd.compiler.ir.expressions import Address, E, loads
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Call,
    Kind,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Var,
)
from retrograd.compiler.language.arithmetic import number_kind
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.powers import Powers
from retrograd.compiler.language.shapes import ArrayShape, ScalarShape, Shape, StackShape, StaticShape, StructShape
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    element_of,
    scalar_of,
    static,
    struct_of,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    variable,
)
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.encoding import IMMEDIATE_MAX
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: versions of functions that one program may have
_MOST = 2000
#: calls of yet other versions within each other
_DEEPEST = 100


@dataclass
class Version:
    """A function compiled, or being compiled, for given shapes."""

    name: str
    function: SourceFunction
    shapes: tuple[Shape, ...]
    #: which of the leaves it may change; an assumption while it is being compiled
    written: frozenset[int] = frozenset()
    recursive: bool = False
    called_itself: bool = False
    procedure: Procedure | None = None
    #: where it was called first, within a function
    caller: tuple[Elaborator, ast.AST] | None = None


@dataclass(frozen=True)
class Leaf:
    """One parameter of a procedure, on the caller's side."""

    value: Scalar | ArrayView | StackValue
    where: ast.AST
    name: str


class Specialiser:
    """Collects procedures, memory and the source files of one program."""

    def __init__(self, w: Format) -> None:
        self.w = w
        self.captures = Captures()
        self.procedures: dict[str, Procedure] = {}
        self.regions: list[Region] = []
        self.memory = 0
        self.files: dict[str, Sequence[str]] = {}
        self.externals: list[Any] = []
        #: procedures whose bodies are still to be made
        self.gradients: dict[str, GradientCall] = {}
        self._versions: dict[Any, Version] = {}
        self._open: list[Any] = []
        self._names: dict[str, int] = {}
        self._constants: dict[tuple[int, ...], Region] = {}
        self.powers = Powers(w, self._power_region, self._power_procedure)
        self.accesses = self._fresh_accesses()

    def _fresh_accesses(self) -> AccessAnalysis:
        return AccessAnalysis(Module((), self.procedures, format=self.w))

    # ------------------------------------------------------------------ memory

    def static_region(self, name: str, size: int, span: Span | None, data: tuple[int, ...] | None = None) -> Region:
        """A stretch of memory at a fixed address."""
        most = min(self.w.mask, IMMEDIATE_MAX)
        if self.memory + size > most:
            message = f"`{name.rpartition('.')[2]}` needs {size} words, and addresses go up to {most}"
            line = self.files[span.file][span.line - 1] if span is not None and span.file in self.files else None
            raise CompileError(
                Diagnostic("RG0421", message, span, "Ask for less, or choose a format of wider words.", line)
            )
        count = self._names.get(f"[{name}]", 0)
        self._names[f"[{name}]"] = count + 1
        region = Region(name if count == 0 else f"{name}.{count}", size, self.memory, data, span)
        self.memory += size
        self.regions.append(region)
        return region

    def constant_region(self, words: tuple[int, ...], name: str) -> Region:
        """Where an array of constants lies; equal arrays lie together."""
        if words not in self._constants:
            self._constants[words] = self.static_region(name, len(words), None, words)
        return self._constants[words]

    def _power_region(self, kind: Kind) -> Region:
        return self.static_region(f"powers of {kind.value}", self.w.width, None)

    def _power_procedure(self, procedure: Procedure) -> str:
        name = self._name(procedure.name)
        self.procedures[name] = replace(procedure, name=name)
        return name

    def external(self, function: SourceFunction, node: ast.With, names: dict[str, Value]) -> int:
        """Keep statements for the host, with what the names in them stand for: their number."""
        self.externals.append((function, node, names))
        return len(self.externals) - 1

    # ------------------------------------------------------------------ versions

    def version(
        self, function: SourceFunction, shapes: tuple[Shape, ...], caller: Elaborator | None, node: ast.AST
    ) -> Version:
        """The function for these shapes, compiled unless it is being compiled."""
        key = (id(function), shapes)
        found = self._versions.get(key)
        if found is not None:
            if found.procedure is None and function.gradient_of is not None:
                refuse_own_gradient(function.gradient_of.function, caller, node)
            if found.procedure is None:
                # The call closes a cycle: all that lie on it may be active more than once.
                for other in self._open[self._open.index(key) :]:
                    self._versions[other].called_itself = True
            return found
        if len(self._versions) > _MOST or len(self._open) > _DEEPEST:
            message = f"`{function.__name__}` needs yet another version, after {len(self._versions)}"
            if caller is not None:
                caller.fail("RG0719", message, node)
            raise CompileError(Diagnostic("RG0719", message))
        version = Version(self._name(function.__name__), function, shapes)
        version.caller = None if caller is None else (caller, node)
        self._versions[key] = version
        self._open.append(key)
        try:
            self._compile(version, key)
        finally:
            self._open.pop()
            if version.procedure is None:
                del self._versions[key]
        return version

    def _compile(self, version: Version, key: Any) -> None:
        """Compile the body; again, as long as what was assumed of recursive calls proves too little."""
        if version.function.gradient_of is not None:
            compile_gradient(self, version, version.function.gradient_of)
            return
        self.files.setdefault(version.function.source.file, version.function.source.lines)
        while True:
            before = (set(self._versions), dict(self.procedures), self.memory, len(self.regions), dict(self._names))
            version.called_itself = False
            params, names, leaf_parts = self.parameters(version)
            elaborator = Elaborator(version.function, self, version.recursive)
            elaborator.names.update(names)
            # Of a procedure's parameters it is variables that it may write; what it stores shows in its body: until there
            # is one, in what stands for it.
            scalars = frozenset(i for i, (_, region) in enumerate(leaf_parts) if region is None)
            touched: list[Node] = []
            for i, (var, region) in enumerate(leaf_parts):
                if region is not None:
                    touched.append(Op(TABLE["ld.xor"], Var("t"), var, region=region))
                    if i in version.written:
                        touched.append(Op(TABLE["st.xor"], None, var, ZERO, region=region))
            self.procedures[version.name] = Procedure(
                version.name,
                params,
                tuple(r for _, r in leaf_parts if r is not None),
                tuple(touched),
                version.written & scalars,
                True,
            )
            body = elaborator.body()
            written = frozenset(
                i
                for i, (var, region) in enumerate(leaf_parts)
                if (var if region is None else region) in elaborator.written
            )
            if version.called_itself and (not written <= version.written or not version.recursive):
                # Calls in the body were checked against less than the truth: once more, with more.
                version.written |= written
                version.recursive = True
                versions, procedures, self.memory, regions, taken = before
                for other in [k for k in self._versions if k not in versions]:
                    del self._versions[other]
                self.procedures.clear()
                self.procedures.update(procedures)
                del self.regions[regions:]
                self.powers.keep(self.procedures, self.regions)
                self._constants = {k: r for k, r in self._constants.items() if r in self.regions}
                self._names = taken
                self.accesses = self._fresh_accesses()
                continue
            break
        version.written = written | version.written
        span = version.function.source.span(version.function.tree)
        regions_ = tuple(r for _, r in leaf_parts if r is not None)
        version.procedure = Procedure(
            version.name, params, regions_, body, version.written & scalars, version.recursive, span
        )
        self.procedures[version.name] = version.procedure
        if version.recursive:
            self.accesses = self._fresh_accesses()

    def _name(self, name: str) -> str:
        count = self._names.get(name, 0)
        self._names[name] = count + 1
        return name if count == 0 else f"{name}.{count + 1}"

    def parameters(self, version: Version) -> tuple[tuple[Var, ...], dict[str, Value], list[tuple[Var, Region | None]]]:
        """(parameter variables, what the names stand for, (variable, region) of each leaf)."""
        parts: list[tuple[Var, Region | None]] = []

        def build(shape: Shape, name: str) -> Value:
            match shape:
                case ScalarShape(kind):
                    var = Var(name, kind)
                    parts.append((var, None))
                    return variable(var)
                case ArrayShape(element, lengths, strides):
                    extent = sum((n - 1) * abs(s) for n, s in zip(lengths, strides, strict=True)) + element.size
                    region, base = Region(name, extent), Var(name, Kind.ADDRESS)
                    parts.append((base, region))
                    return ArrayView(element, lengths, strides, Address(region, base))
                case StackShape(t):
                    region, base = Region(name, t.size), Var(name, Kind.ADDRESS)
                    parts.append((base, region))
                    return StackValue(t, Address(region, base))
                case StructShape(t, fields):
                    return StructValue(
                        t, {field_name: build(inner, f"{name}.{field_name}") for field_name, inner in fields}
                    )
                case StaticShape(_, value):
                    return value if isinstance(value, FunctionValue | StructValue) else Constant(value)

        names = {
            p.name: build(shape, p.name) for p, shape in zip(version.function.parameters, version.shapes, strict=True)
        }
        return tuple(var for var, _ in parts), names, parts

    # ------------------------------------------------------------------ calls

    def call(
        self,
        caller: Elaborator,
        function: SourceFunction,
        backward: bool,
        arguments: dict[str, tuple[Value, ast.AST]],
        node: ast.Call,
    ) -> None:
        """Emit the call of a function on the caller's values."""
        shapes: list[Shape] = []
        found: list[Leaf] = []
        sizes: dict[str, int] = {}
        for p in function.parameters:
            value, where = arguments[p.name]
            value = self._fitted(caller, p, value, where, function, sizes)
            shapes.append(self._shape(caller, p.name, value, where, found))
        version = self.version(function, tuple(shapes), caller, node)
        t = caller.temporaries()
        self._refuse_aliases(caller, t, version, found, node)
        args: list[Operand] = []
        regions: list[Region] = []
        #: temporaries that memory words are exchanged into come last: addresses are computed before
        late: list[tuple[int, Scalar]] = []
        for i, leaf in enumerate(found):
            value = leaf.value
            changes = i in version.written
            match value:
                case Scalar(e, place, why_not):
                    if changes and (place is None or why_not is not None):
                        reason = why_not or "it is the value of an expression"
                        caller.fail(
                            "RG0709",
                            f"`{version.function.__name__}` changes `{leaf.name}`, and {describe_argument(leaf)} cannot be changed: {reason}",
                            leaf.where,
                        )
                    if changes and isinstance(place, Address):
                        late.append((i, value))
                        args.append(Var("later"))
                    else:
                        args.append(t.operand(e))
                case ArrayView() | StackValue():
                    if changes and value.why_not is not None:
                        caller.fail(
                            "RG0709",
                            f"`{version.function.__name__}` changes `{leaf.name}`, and {describe_argument(leaf)} cannot be changed: {value.why_not}",
                            leaf.where,
                        )
                    args.append(t.location(value.address))
                    regions.append(value.address.region)
        for i, value in late:
            assert isinstance(value.place, Address)
            args[i] = caller.register(t, value.place, value.kind, found[i].name)
        call = Call(version.name, tuple(args), tuple(regions), backward, caller.source.span(node))
        caller.emit(t.wrap((call,)))

    def _fitted(
        self,
        caller: Elaborator,
        p: Parameter,
        value: Value,
        where: ast.AST,
        function: SourceFunction,
        sizes: dict[str, int],
    ) -> Value:
        """The argument as the parameter's annotation wants it."""
        wanted = p.annotation
        shown = f"`{p.name}` of `{function.__name__}`"
        of = f"It is declared as {function.signature}."
        if wanted is static:
            if isinstance(value, Scalar) and isinstance(where, ast.expr):
                value = Constant(caller.static(where, shown))
            if not isinstance(value, Constant | FunctionValue | StructValue):
                caller.fail(
                    "RG0717", f"{shown} must be known when the program is compiled; it is {describe(value)}", where
                )
            return value
        scalar = scalar_of(wanted) if wanted is not NOTHING else None
        if scalar is not None:
            if isinstance(value, Scalar) and value.kind is scalar.kind:
                return value
            if isinstance(value, Scalar | Constant):
                e: E = caller.guarded(where, caller.arithmetic.expression, value, scalar.kind)
                why = f"it is {describe(value)}"
                if isinstance(value, Scalar):
                    why += f", and converted to {'an' if scalar.kind is Kind.INT else 'a'} {scalar}"
                return Scalar(e, None, why)
            caller.fail("RG0715", f"{shown} is one {scalar}, not {describe(value)}", where, of)
        if isinstance(wanted, ArrayAnnotation) or (isinstance(value, Constant) and isinstance(value.value, np.ndarray)):
            if isinstance(value, Constant) and isinstance(value.value, np.ndarray | list | tuple):
                value = caller._constant_array(value.value, where)
            if isinstance(wanted, ArrayAnnotation):
                if not isinstance(value, ArrayView):
                    hint = (
                        f"give it a name first, `t = {shortened(where)}`, which makes an array of it"
                        if isinstance(value, Lazy)
                        else of
                    )
                    what = "an array that is not stored anywhere" if isinstance(value, Lazy) else describe(value)
                    caller.fail("RG0715", f"{shown} is {wanted}, not {what}", where, hint)
                problem = mismatch(wanted, value.type, sizes)
                if problem is not None:
                    code = "RG0715" if element_of(wanted.element) != value.element else "RG0712"
                    message = f"{shown} is {wanted}, and `{shortened(where)}` is not: {problem}"
                    caller.fail(code, message, where, of if code == "RG0715" else None)
        elif isinstance(wanted, StackAnnotation):
            if not isinstance(value, StackValue):
                caller.fail("RG0715", f"{shown} is a stack, not {describe(value)}", where, of)
        elif wanted is not NOTHING and struct_of(wanted) is not None and not _is_struct(value, wanted):
            caller.fail("RG0715", f"{shown} is a {wanted.__name__}, not {describe(value)}", where, of)
        if isinstance(value, Constant) and number_kind(value.value) is not None:
            e = caller.guarded(where, caller.arithmetic.expression, value)
            return Scalar(e, None, f"it is {describe(value)}")
        return value

    def _shape(self, caller: Elaborator, name: str, value: Value, where: ast.AST, found: list[Leaf]) -> Shape:
        match value:
            case Scalar():
                found.append(Leaf(value, where, name))
                return ScalarShape(value.kind)
            case ArrayView(element, shape, strides):
                found.append(Leaf(value, where, name))
                return ArrayShape(element, shape, strides)
            case StackValue(t):
                found.append(Leaf(value, where, name))
                return StackShape(t)
            case StructValue(t, fields):
                inner = []
                for field_name, given in fields.items():
                    wanted, v = dict(t.fields)[field_name], given
                    if isinstance(v, Constant) and isinstance(wanted, ScalarType):
                        e: E = caller.guarded(where, caller.arithmetic.expression, v, wanted.kind)
                        v = Scalar(e, None, f"it is {describe(v)}")
                    inner.append((field_name, self._shape(caller, f"{name}.{field_name}", v, where, found)))
                return StructShape(t, tuple(inner))
            case FunctionValue(f, backward, receiver):
                if receiver is not None:
                    caller.fail(
                        "RG0703", "a method of an object is no argument; pass the object and the function", where
                    )
                return StaticShape((id(f), backward), value)
            case Constant(v):
                return StaticShape(static_key(v), v)
            case Lazy():
                hint = "give it a name first, `t = …`, which makes an array of it"
                caller.fail("RG0715", f"`{name}` is {describe(value)}, which lies nowhere", where, hint)
            case _:
                caller.fail("RG0715", f"{describe(value)} is no argument", where)

    def _refuse_aliases(
        self, caller: Elaborator, t: Temporaries, version: Version, found: Sequence[Leaf], node: ast.Call
    ) -> None:
        """No two arguments may overlap if one of them is changed."""
        f = version.function.__name__
        for j, y in enumerate(found):
            for i, x in enumerate(found[:j]):
                if i not in version.written and j not in version.written:
                    continue
                message = f"`{f}` is given {describe_argument(x)} as `{x.name}` and {describe_argument(y)} as `{y.name}`, which overlap"
                self._disjoint(caller, t, x, y, message, node)
        # What locates an argument, or computes it, must not read what the call changes: it is needed again afterwards.
        sources: list[E] = []
        for leaf in found:
            match leaf.value:
                case Scalar(e, None):
                    sources.append(e)
                case Scalar(_, Address() as a) | ArrayView(address=a) | StackValue(address=a):
                    sources += [e for e, _ in a.terms]
                case _:
                    pass
        for i in sorted(version.written):
            leaf = found[i]
            if isinstance(leaf.value, Scalar):
                if leaf.value.place is not None:
                    for e in sources:
                        caller.refuse_overlap(t, e, leaf.value.place, node, leaf.where)
                continue
            view = leaf.value
            for e in sources:
                for at in loads(e):
                    if at.region is view.address.region:
                        message = f"`{f}` changes {describe_argument(leaf)}, and an argument is computed from it"
                        caller.differ(t, at, view.address, 1, _extent(view), "RG0705", message, node, e)

    def _disjoint(self, caller: Elaborator, t: Temporaries, x: Leaf, y: Leaf, message: str, node: ast.AST) -> None:
        a, b = x.value, y.value
        if isinstance(a, Scalar) and isinstance(b, Scalar):
            if isinstance(a.place, Var) or isinstance(b.place, Var) or a.place is None or b.place is None:
                if a.place is not None and a.place is b.place:
                    caller.fail("RG0705", message, y.where)
                return
            if a.place.region is b.place.region:
                caller.differ(t, a.place, b.place, 1, 1, "RG0705", message, y.where)
            return
        regions = []
        for v in (a, b):
            if isinstance(v, Scalar):
                # A word that is only read is loaded; one that is computed from the array is looked at below.
                regions.append({v.place.region} if isinstance(v.place, Address) else set())
            else:
                regions.append({v.address.region})
        if regions[0].isdisjoint(regions[1]):
            return
        if isinstance(a, Scalar) or isinstance(b, Scalar):
            scalar, view = (a, b) if isinstance(a, Scalar) else (b, a)
            assert isinstance(scalar, Scalar)
            assert not isinstance(view, Scalar)
            if isinstance(scalar.place, Address) and scalar.place.minus(view.address) is not None:
                distance = scalar.place.minus(view.address)
                assert distance is not None
                if not 0 <= distance < _extent(view):
                    return
            caller.fail("RG0705", message, y.where)
        assert isinstance(a, ArrayView | StackValue)
        assert isinstance(b, ArrayView | StackValue)
        if isinstance(a, ArrayView) and isinstance(b, ArrayView) and a.strides == b.strides and _interleave(a, b):
            # Two columns, say: apart by less than a stride, they meet only if they are the same.
            caller.differ(t, a.address, b.address, 1, 1, "RG0705", message, y.where)
            return
        caller.differ(t, a.address, b.address, _extent(a), _extent(b), "RG0705", message, y.where)


def _is_struct(value: Value, cls: type) -> bool:
    return isinstance(value, StructValue) and value.type.cls is cls


def _extent(view: ArrayView | StackValue) -> int:
    """Words from the first to the last, of a view with positive strides."""
    if isinstance(view, StackValue):
        return view.type.size
    return sum((n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)) + view.element.size


def _interleave(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of the same strides, both cut out by indices below those, overlap only if they begin together."""
    least = min(a.strides, default=0)
    spans = {n for e, k in (*a.address.terms, *b.address.terms) for n in (abs(k),)}
    return least > a.element.size and bool(spans) and all(k < least for k in spans)


def describe_argument(leaf: Leaf) -> str:
    return f"`{shortened(leaf.where)}`"


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def mismatch(wanted: ArrayAnnotation, t: ArrayType, sizes: dict[str, int]) -> str | None:
    """Why an array is not what an annotation says, or None. `sizes`: the lengths that names stand for so far."""
    element = element_of(wanted.element)
    if element != t.element:
        return f"its elements are {t.element}"
    if wanted.dims is None:
        return None
    if len(wanted.dims) != len(t.shape):
        return f"it has {_axes(len(t.shape))}, not {len(wanted.dims)}" if t.shape else "it is one number"
    for dim, length in zip(wanted.dims, t.shape, strict=True):
        expected = sizes.setdefault(dim, length) if isinstance(dim, str) else dim
        if expected != length:
            return f"its shape is {t.shape}" + (f", where {dim} is {expected} already" if isinstance(dim, str) else "")
    return None
