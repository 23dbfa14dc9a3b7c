"""Functional functions as functions of a program: `f(x …) → y` is the procedure `out += f(x …)`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import UnionType
from typing import Any, NoReturn, Union, get_origin

from retrograd.compiler.deep_recursion import collector_paused, with_deep_stack
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.constants import signature_of
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import Contexts
from retrograd.compiler.frontends.functional.core import Calls
from retrograd.compiler.frontends.functional.inference import Inference, Numbers, fits
from retrograd.compiler.frontends.functional.loops_in_parts import Loops
from retrograd.compiler.frontends.functional.marshalling import Encoding, Marshalling, is_structured, leaves
from retrograd.compiler.frontends.functional.program import Program
from retrograd.compiler.frontends.functional.reader import Reader
from retrograd.compiler.frontends.functional.types import (
    AT_ONE_POINT,
    FIXED,
    Array,
    Closure,
    Data,
    Function,
    Key,
    List,
    OpenArray,
    Tuple,
    Type,
    Value,
    Word,
    arrays,
    combined,
    has_named_items,
    has_names,
    leaves_type_open,
    named,
    record,
    type_of,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction, UndeclaredResult, fail
from retrograd.compiler.frontends.specialisation import Declare, Specialisation, parameters_of
from retrograd.compiler.ir.expressions import Address
from retrograd.compiler.ir.statements import Kind, Procedure, Var
from retrograd.compiler.language.intrinsics import NoForm
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ArrayShape,
    ScalarShape,
    ScalarType,
    StaticShape,
    StructShape,
    StructType,
    is_complex,
    keys_of,
    row_major,
)
from retrograd.compiler.language.values import (
    ArrayView,
    FormType,
    FunctionValue,
    Scalar,
    StructValue,
)
from retrograd.compiler.language.values import Value as Argument
from retrograd.isa.diagnostics import CompileError, Diagnostic
from retrograd.isa.words import Q32_32, Format

#: kind of a result -> the value with which its parameter begins
_ZEROS: dict[Kind, Any] = {Kind.FIXED: 0.0, Kind.INT: 0, Kind.UINT: 0, Kind.BOOL: False}


class FunctionalSource(SourceFunction):
    """A function whose body is an expression. Its last parameters are its results: `out`, or `out_0`, `out_1` … of a tuple.

    `operators`, `conversions`: the objects that stand for `grad` and the like, and for `fixed` and the like, by module and name;
    `annotations`: of the parameters for results, by their kind. They are set where these objects are known.
    """

    operators: Mapping[tuple[str, str], str] = {}
    conversions: Mapping[tuple[str, str], str] = {}
    annotations: Mapping[Kind, type] = {Kind.FIXED: float, Kind.INT: int, Kind.BOOL: bool}
    #: see Inference
    exact: Numbers | None = None
    #: form of a record among the results -> its class
    classes: Mapping[str, type] = {}

    def functional_core(self, captures: Captures) -> core.Lambda:
        """The definition. Raises CompileError."""
        return Reader(self, self.operators, self.conversions, captures).function_core()

    @cached_property
    def given(self) -> tuple[Parameter, ...]:
        """The parameters as written; the annotation of a tuple, list or data class is an Encoding."""
        # Not `super().parameters`, which would be kept under the name of all parameters.
        found: tuple[Parameter, ...] = SourceFunction.parameters.func(self)  # type: ignore[attr-defined]
        found = tuple(replace(p, annotation=NOTHING) if leaves_type_open(p.annotation) else p for p in found)
        types = map(_annotated, found)
        return tuple(
            p if t is None or not is_structured(t) else Parameter(p.name, Encoding(t), p.default)
            for p, t in zip(found, types, strict=True)
        )

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return (*self.given, *self.result_parameters)

    @property
    def first_result(self) -> int:  # type: ignore[override]
        """The position of the first result among the parameters."""
        return len(self.given)

    @cached_property
    def result_type(self) -> Type:
        """The type of the result: as annotated, or as inferred from the annotations of all parameters, or one fixed number."""
        written = self._declared_result
        if written is not NOTHING:
            return type_of(written, None, "the result", open_arrays=True)
        types = [_annotated(p) for p in self.given]
        if any(t is None for t in types):
            return FIXED

        def solved() -> Type:
            inference = Inference(Q32_32, lambda f: _defined(f, Captures()))
            self.classes = inference.classes
            key = inference.definition(self), (), tuple(t for t in types if t is not None)
            return self._opened(inference.solve(key))

        try:
            with collector_paused():
                return with_deep_stack(solved)
        except RecursionError:
            pass
        fail("RG0720", f"`{self.__name__}` is nested too deep to be compiled", self.source, self.tree)

    @cached_property
    def result_parameters(self) -> tuple[Parameter, ...]:
        """The parameters to which the result is added. They begin as zeros unless they are given."""
        found = leaves(self.result_type)
        if not all(is_data(t) for t in found):
            hint = "Its result is made of numbers, tuples, lists and data classes: call functions inside."
            fail("RG0703", f"`{self.__name__}` gives {named(self.result_type)}", self.source, self.tree, hint)
        base, taken = "out", {p.name for p in self.given}
        while any(name == base or name.startswith(f"{base}_") for name in taken):
            base += "_"
        names = [f"{base}_{i}" for i in range(len(found))] if isinstance(self.result_type, Tuple) else [base]
        return tuple(
            Parameter(name, self.annotations[t.kind], _ZEROS[t.kind])
            if isinstance(t, Word)
            else Parameter(name, t.annotation if isinstance(t, OpenArray) else Encoding(t), None)
            for name, t in zip(names, found, strict=True)
        )

    def inferred(self, shapes: Sequence[Any], w: Format, captures: Captures | None = None) -> tuple[Inference, Key]:
        """(the types of all functions of a program for arguments of these shapes, its entry). Raises CompileError."""
        captures = captures or Captures()
        inference = Inference(w, lambda f: _defined(f, captures), exact=self.exact)
        args = tuple(_type(shape, inference, self) for shape in shapes[: len(self.given)])
        key = inference.definition(self), (), args
        inference.solve(key)
        # Calls of the last round only: earlier rounds have versions for types that grew.
        inference.calls.clear()
        inference.solve(key)
        return inference, key

    def result_shapes(self, shapes: Sequence[Any], w: Format, captures: Captures) -> list[tuple[int, ...]]:
        """The shapes of the arrays among the results, for arguments of these shapes. Raises CompileError."""
        inference, key = self.inferred(shapes, w, captures)
        found, wanted = inference.results[key], self.result_type
        parts = leaves(found), leaves(wanted)
        if len(parts[0]) != len(parts[1]):
            self._refuse_result(found, wanted, inference, key[0])
        shapes_of = []
        for t, declared in zip(*parts, strict=True):
            if isinstance(declared, OpenArray):
                if not isinstance(t, Array):
                    self._refuse_result(found, wanted, inference, key[0])
                shapes_of.append(t.shape)
        return shapes_of

    def _refuse_result(self, found: Type, wanted: Type, inference: Inference, definition: core.Lambda) -> NoReturn:
        message = f"`{definition.name}` gives {named(found)} where {named(wanted)} is declared"
        hint = "Annotate the type of its result."
        if arrays(found):
            hint += " An array is `rg.Array[fixed, ...]`. A call from Python needs no annotation."
            if has_named_items(found):
                hint = (
                    "A call from Python takes it without annotation; elsewhere the items are given as a tuple: "
                    '`return d["w"], d["b"]`, and `-> tuple[rg.Array[fixed, ...], …]`.'
                )
        if self.is_inferred and is_data(given := self._opened(found)):
            diagnostic = Diagnostic("RG0703", message, definition.at.span, hint, definition.at.text)
            raise UndeclaredResult(diagnostic, given, dict(inference.classes))
        inference.fail("RG0703", message, definition.at, hint)

    @property
    def is_inferred(self) -> bool:
        """Whether the type of the result is found for the arguments of each call: no annotation of it names a type."""
        return self._declared_result is NOTHING

    @cached_property
    def _declared_result(self) -> Any:
        """The annotation of the result; NOTHING without one, or where it names a form only."""
        written = signature_of(self.fn).return_annotation
        found = NOTHING if written is inspect.Signature.empty else self.annotation_of("return", written)
        return NOTHING if leaves_type_open(found) else found

    def _opened(self, t: Type) -> Type:
        """The type of a result with arrays whose shapes the arguments decide."""
        match t:
            case Tuple(items):
                return Tuple(tuple(map(self._opened, items)), t.form)
            case Array(ScalarType(kind)) if kind in self.annotations:
                return OpenArray(ArrayAnnotation(self.annotations[kind], None))
        return t

    def forgettable(self) -> list[str]:
        """The names of the functions whose calls can be forgotten: see `Options.forget`. Raises CompileError."""
        return Calls(lambda f: _defined(f, Captures())).names(self)

    def loops(self) -> list[str]:
        """The names of the loops that can run in parts: see `Options.parts`. Raises CompileError."""
        return Loops(lambda f: _defined(f, Captures())).names(self)

    def own_lowering(
        self, made: Specialisation, module: ModuleBuilder, captures: Captures, shared: Declare
    ) -> Procedure:
        """The procedure for the shapes of its arguments. Raises CompileError."""
        try:
            self.in_format(module.w)
        except NoForm as error:
            made.refuse("RG0714", str(error), error.hint)
        program = shared.functional
        if not isinstance(program, Program):
            calls = Calls(lambda f: _defined(f, captures))
            unknown = sorted(shared.forget - set(calls.names(self))) if shared.forget else []
            if unknown:
                hint = f"Calls of {', '.join(calls.names(self)) or 'no function'} can be forgotten."
                fail("RG0715", f"`{self.__name__}` forgets no call of `{unknown[0]}`", self.source, self.tree, hint)
            loops = Loops(lambda f: calls.forgetting(f, shared.forget))
            unknown = sorted(shared.parts - set(loops.names(self))) if shared.parts else []
            if unknown:
                hint = f"Loops are {', '.join(loops.names(self)) or 'not in it'}: functions that call themselves at their end alone."
                fail("RG0715", f"`{self.__name__}` has no loop `{unknown[0]}`", self.source, self.tree, hint)
            program = shared.functional = Program(
                module,
                lambda f: loops.in_parts(f, shared.parts),
                shared.gradient,
                shared.heap,
                Contexts(module, captures, shared.specialise),
                self,
                self.exact,
            )
        for p, shape in zip(self.parameters, made.shapes, strict=True):
            if isinstance(p.annotation, Encoding) and not (
                isinstance(shape, StructShape) and isinstance(shape.type, FormType)
            ):
                message = f"`{p.name}` of `{self.__name__}` is a {p.annotation}, which only calls from Python pass"
                made.refuse(
                    "RG0703", message, "Call a functional function with numbers and arrays, which builds the list."
                )
        parameters = parameters_of([p.name for p in self.parameters], made.shapes)
        count = len(self.given)
        values = [
            _value(shape, parameters.names[p.name], program.inference, self)
            for p, shape in zip(self.given, made.shapes[:count], strict=True)
        ]
        outs = [parameters.names[p.name] for p in self.result_parameters]
        results = [target for o in outs for target in _targets(o)]
        types = tuple(_type(shape, program.inference, self) for shape in made.shapes[:count])
        definition = program.inference.definition(self)
        found = program.inference.solve((definition, (), types))
        wanted = _given_room(self.result_type, made.shapes[count:])
        if not fits(found, wanted):
            self._refuse_result(found, wanted, program.inference, definition)
        definition_as_read = definition
        definition, wanted = self.marshalled(definition, types, wanted)
        key = definition, (), tuple(v.type for argument in values for v in argument)
        if key != (definition_as_read, (), types):
            program.inference.solve(key)
        body = program.entry(key, [v for argument in values for v in argument], results, wanted)
        variables = [t for t in results if isinstance(t, Var)]
        made.written = frozenset(parameters.variables.index(v) for v in variables)
        return parameters.procedure(made.name, body, made.written, False, self.source.span(self.tree))

    def marshalled(self, definition: core.Lambda, types: Sequence[Type], wanted: Type) -> tuple[core.Lambda, Type]:
        """(the function that the program computes, the type of its value), for these types of arguments and result."""
        if not any(map(is_structured, (*types, *leaves(wanted)))):
            return definition, wanted
        marshalling = Marshalling(definition.at)
        return marshalling.entry(definition, types, wanted), marshalling.result(wanted)


def _given_room(t: Type, shapes: Sequence[Any]) -> Type:
    """The type of a result with the shapes of the arrays that are given for it. `shapes`: of its leaves."""
    if isinstance(t, Tuple) and any(isinstance(leaf, OpenArray) for leaf in leaves(t)):
        items, at = [], 0
        for item in t.items:
            count = len(leaves(item))
            items.append(_given_room(item, shapes[at : at + count]))
            at += count
        return Tuple(tuple(items), t.form)
    shape = shapes[0] if isinstance(t, OpenArray) else None
    if isinstance(shape, ArrayShape) and (lengths := shape.lengths) is not None:
        assert isinstance(shape.element, ScalarType)
        return Array(shape.element, lengths, row_major(lengths, 1))
    return t


def _defined(function: Any, captures: Captures) -> core.Lambda:
    found: core.Lambda = function.functional_core(captures)
    return found


def _annotated(p: Parameter) -> Type | None:
    """The type of a parameter, if its annotation names one. Raises CompileError for a union that names none."""
    if p.annotation is NOTHING:
        return None
    if get_origin(p.annotation) in (Union, UnionType):
        return type_of(p.annotation, None, p.name)
    if isinstance(p.annotation, Encoding):
        return p.annotation.type
    try:
        return type_of(p.annotation)
    except CompileError:
        return None


def is_data(t: Type) -> bool:
    """Whether values of a type have a form outside of a program: numbers, and tuples, lists and data classes that hold them."""
    match t:
        case Word(kind):
            return kind in _ZEROS
        case Tuple(items):
            return (not t.form or has_names(t)) and all(map(is_data, items))
        case List(item):
            return is_data(item) and not has_named_items(item)
        case Data() | OpenArray():
            return True
    return False


def _targets(out: Argument) -> list[Var | ArrayView]:
    """The places of a result: a variable, or the arrays of numbers and integers."""
    match out:
        case Scalar(place=Var() as var):
            return [var]
        case ArrayView():
            return [out]
        case StructValue(fields=fields):
            return [view for view in fields.values() if isinstance(view, ArrayView)]
    return []


def _value(shape: Any, given: Argument, inference: Inference, function: FunctionalSource) -> list[Value]:
    """An argument as values of the functional language; two arrays for a list or a data class. Raises CompileError RG0703."""
    match given:
        case Scalar(e):
            return [Value(_type(shape, inference, function), (e,))]
        case ArrayView(address=Address() as address):
            return [Value(_type(shape, inference, function), (), (address,))]
        case StructValue(fields=fields) if isinstance(shape, StructShape) and isinstance(shape.type, FormType):
            return [v for n, inner in shape.fields for v in _value(inner, fields[n], inference, function)]
        case StructValue(fields=fields) if isinstance(shape, StructShape):
            items = [v for n, inner in shape.fields for v in _value(inner, fields[n], inference, function)]
            return [combined(_type(shape, inference, function), items)]
    return [Value(_type(shape, inference, function))]


def _type(shape: Any, inference: Inference, function: FunctionalSource) -> Type:
    """The type of an argument of a shape. Raises CompileError RG0703."""
    match shape:
        case ScalarShape(kind) if kind in _ZEROS:
            return Word(kind)
        case ScalarShape(kind) | ArrayShape(ScalarType(kind)) if kind.is_fixed and kind is not Kind.FIXED:
            message = f"`{function.__name__}` is given numbers {kind.value}, and computes at the format's point"
            fail("RG0703", message, function.source, function.tree, AT_ONE_POINT)
        case ArrayShape(ScalarType() | StructType() as element, _, strides) if (lengths := shape.lengths) is not None:
            return Array(element, lengths, strides)
        case StructShape(FormType(structure=Encoding() as encoding)):
            return encoding.type
        case StructShape(t, fields) if not isinstance(t, FormType) and not is_complex(t):
            unnamed = next((key for key, name in keys_of(t.cls).items() if key != name), None)
            if unnamed is not None or None in keys_of(t.cls):
                message = f"`{function.__name__}` is given a dict with the key {unnamed!r:.40}, which is no name"
                hint = 'Items of dicts have names here, `p["w"]`. A reversible function takes a dict with any keys.'
                fail("RG0703", message, function.source, function.tree, hint)
            items = [(n, _type(inner, inference, function)) for n, inner in fields]
            return Tuple(tuple(x for _, x in items)) if t.is_tuple else record(t.cls.__name__, items)
        case StaticShape(_, FunctionValue(f, False, None)) if isinstance(f, FunctionalSource):
            return Function((Closure(inference.definition(f)),))
        case ScalarShape(kind):
            message = f"`{function.__name__}` is given a {kind.value}, which functional functions do not have"
            fail(
                "RG0703",
                message,
                function.source,
                function.tree,
                "Declare an int, a uint, a float or a bool, or write a reversible function.",
            )
    hint = (
        "Functional functions take numbers, arrays, functional functions, and annotated tuples, lists and data classes."
    )
    fail("RG0703", f"`{function.__name__}` is given another kind of argument", function.source, function.tree, hint)
