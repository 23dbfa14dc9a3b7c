"""Functional functions as functions of a program: `f(x …) → y` is the procedure `out += f(x …)`."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.constants import signature_of
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Calls
from retrograd.compiler.frontends.functional.inference import Inference, fits
from retrograd.compiler.frontends.functional.marshalling import Encoding, Marshalling, is_structured, leaves
from retrograd.compiler.frontends.functional.program import Program
from retrograd.compiler.frontends.functional.reader import Reader
from retrograd.compiler.frontends.functional.structures import Value
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    Array,
    Closure,
    Data,
    Function,
    Key,
    List,
    Tuple,
    Type,
    Word,
    named,
    type_of,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, SourceFunction, fail
from retrograd.compiler.frontends.specialisation import Declare, Specialisation, parameters_of
from retrograd.compiler.ir.expressions import Address
from retrograd.compiler.ir.statements import Kind, Procedure, Var
from retrograd.compiler.language.intrinsics import NoForm
from retrograd.compiler.language.types import ArrayShape, ScalarShape, StaticShape, StructShape
from retrograd.compiler.language.values import ArrayView, FormType, FunctionValue, Scalar, StructValue
from retrograd.compiler.language.values import Value as Argument
from retrograd.isa.diagnostics import CompileError
from retrograd.isa.words import Q32_32, Format

#: kind of a result -> annotation of its parameter, and the value with which it begins
_ANNOTATIONS: dict[Kind, type] = {Kind.FIXED: float, Kind.INT: int, Kind.BOOL: bool}
_ZEROS: dict[Kind, Any] = {Kind.FIXED: 0.0, Kind.INT: 0, Kind.BOOL: False}


class FunctionalSource(SourceFunction):
    """A function whose body is an expression. Its last parameters are its results: `out`, or `out_0`, `out_1` … of a tuple.

    `operators`, `conversions`: the objects that stand for `grad` and the like, and for `fixed` and the like, by module and name;
    they are set where these objects are known.
    """

    operators: Mapping[tuple[str, str], str] = {}
    conversions: Mapping[tuple[str, str], str] = {}

    def functional_core(self, captures: Captures) -> core.Lambda:
        """The definition. Raises CompileError."""
        return Reader(self, self.operators, self.conversions, captures).function_core()

    @cached_property
    def given(self) -> tuple[Parameter, ...]:
        """The parameters as written; the annotation of a tuple, list or data class is an Encoding."""
        # Not `super().parameters`, which would be kept under the name of all parameters.
        found: tuple[Parameter, ...] = SourceFunction.parameters.func(self)  # type: ignore[attr-defined]
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
        written = signature_of(self.fn).return_annotation
        if written is not inspect.Signature.empty:
            return type_of(self._annotation("return", written), None, "the result")
        types = [_annotated(p) for p in self.given]
        if any(t is None for t in types):
            return FIXED

        def solved() -> Type:
            inference = Inference(Q32_32, lambda f: _defined(f, Captures()))
            return inference.solve((inference.definition(self), (), tuple(t for t in types if t is not None)))

        try:
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
            Parameter(name, _ANNOTATIONS[t.kind], _ZEROS[t.kind])
            if isinstance(t, Word)
            else Parameter(name, Encoding(t), None)
            for name, t in zip(names, found, strict=True)
        )

    def inferred(self, shapes: Sequence[Any], w: Format) -> tuple[Inference, Key]:
        """(the types of all functions of a program for arguments of these shapes, its entry). Raises CompileError."""
        captures = Captures()
        inference = Inference(w, lambda f: _defined(f, captures))
        args = tuple(_type(shape, inference, self) for shape in shapes[: len(self.given)])
        key = inference.definition(self), (), args
        inference.solve(key)
        # Calls of the last round only: earlier rounds have versions for types that grew.
        inference.calls.clear()
        inference.solve(key)
        return inference, key

    def forgettable(self) -> list[str]:
        """The names of the functions whose calls can be forgotten: see `Options.forget`. Raises CompileError."""
        return Calls(lambda f: _defined(f, Captures())).names(self)

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
            program = shared.functional = Program(
                module, lambda f: calls.forgetting(f, shared.forget), shared.gradient, shared.heap
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
        if not fits(found, self.result_type):
            message = f"`{definition.name}` gives {named(found)} where {named(self.result_type)} is declared"
            hint = "Annotate the type of its result."
            if isinstance(found, Array):
                hint = "Arrays are arguments alone: give a list of elements, `[v[0], v[1]]` as `list[fixed]`, or write `@rg.reversible`."
            program.inference.fail("RG0703", message, definition.at, hint)
        definition, wanted = self.marshalled(definition, types)
        key = definition, (), tuple(v.type for argument in values for v in argument)
        program.inference.solve(key)
        body = program.entry(key, [v for argument in values for v in argument], results, wanted)
        variables = [t for t in results if isinstance(t, Var)]
        made.written = frozenset(parameters.variables.index(v) for v in variables)
        return parameters.procedure(made.name, body, made.written, False, self.source.span(self.tree))

    def marshalled(self, definition: core.Lambda, types: Sequence[Type]) -> tuple[core.Lambda, Type]:
        """(the function that the program computes, the type of its value), for arguments of these types."""
        wanted = self.result_type
        if not any(map(is_structured, (*types, *leaves(wanted)))):
            return definition, wanted
        marshalling = Marshalling(definition.at)
        return marshalling.entry(definition, types, wanted), marshalling.result(wanted)


def _defined(function: Any, captures: Captures) -> core.Lambda:
    found: core.Lambda = function.functional_core(captures)
    return found


def _annotated(p: Parameter) -> Type | None:
    """The type of a parameter, if its annotation names one."""
    if p.annotation is NOTHING:
        return None
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
            return not t.form and all(map(is_data, items))
        case List(item):
            return is_data(item)
        case Data():
            return True
    return False


def _targets(out: Argument) -> list[Var | ArrayView]:
    """The places of a result: a variable, or the arrays of numbers and integers."""
    match out:
        case Scalar(place=Var() as var):
            return [var]
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
    return [Value(_type(shape, inference, function))]


def _type(shape: Any, inference: Inference, function: FunctionalSource) -> Type:
    """The type of an argument of a shape. Raises CompileError RG0703."""
    match shape:
        case ScalarShape(kind) if kind in _ZEROS:
            return Word(kind)
        case ArrayShape(element, _, strides) if (lengths := shape.lengths) is not None:
            return Array(element, lengths, strides)
        case StructShape(FormType(structure=Encoding() as encoding)):
            return encoding.type
        case StaticShape(_, FunctionValue(f, False, None)) if isinstance(f, FunctionalSource):
            return Function((Closure(inference.definition(f)),))
        case ScalarShape(kind):
            message = f"`{function.__name__}` is given a {kind.value}, which functional functions do not have"
            fail(
                "RG0703",
                message,
                function.source,
                function.tree,
                "Declare an int, a float or a bool, or write a reversible function.",
            )
    hint = (
        "Functional functions take numbers, arrays, functional functions, and annotated tuples, lists and data classes."
    )
    fail("RG0703", f"`{function.__name__}` is given another kind of argument", function.source, function.tree, hint)
