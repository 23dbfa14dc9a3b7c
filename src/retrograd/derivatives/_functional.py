"""`@functional`: functions whose body is an expression of values, with derivatives of functions as values inside."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, overload

import numpy as np

from retrograd.assembler.lexer import decode_text
from retrograd.compiler.compiled import Options, Precision
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.function import FunctionalSource
from retrograd.compiler.frontends.functional.inference import Inference, Numbers
from retrograd.compiler.frontends.functional.marshalling import Marshalling
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    Function,
    Known,
    Tuple,
    Type,
    Word,
    forgotten,
    has_named_items,
    has_names,
    kinds,
    names_of,
    record_form,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import Parameter, Source, SourceFunction, UndeclaredResult
from retrograd.compiler.frontends.vlad.data import Datum, Items, Literal, Symbol
from retrograd.compiler.frontends.vlad.translation import (
    ITEMS,
    PRELUDE,
    Expression,
    File,
    Lengths,
    Read,
    read_vlad,
    unknown_list,
    with_items,
)
from retrograd.compiler.frontends.vlad.translation import Path as ResultPath
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ArrayAnnotation
from retrograd.compiler.language.values import Structure, Unfilled
from retrograd.compiler.pipeline import shape_of
from retrograd.derivatives import grad, hessian, jvp, vjp
from retrograd.isa.diagnostics import (
    CompileError,
    Diagnostic,
    InputError,
    RetrogradError,
    api_boundary,
    printable,
    shorten_traceback,
)
from retrograd.isa.files import read_file
from retrograd.isa.words import Q32_32, Format
from retrograd.runtime._binding import bind, fixed, parts_of, types_of, uint
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import Reversible, run
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import MEMORY_LIMIT, Machine

FunctionalSource.operators = {(f.__module__, f.__qualname__): f.__name__ for f in (grad, vjp, jvp, hessian)}
FunctionalSource.conversions = {(t.__module__, t.__qualname__): t.__name__ for t in (fixed, uint)}
FunctionalSource.annotations = {**FunctionalSource.annotations, Kind.UINT: uint}


class Functional(FunctionalSource, Reversible):
    """A functional function: `f(*args)` is its value. As a reversible function it is `out += f(*args)`, and its last parameter is `out`."""

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn, format, options)
        #: outline of arguments -> the function that gives the result of these, where it is not one number
        self._inferred: dict[Any, Functional] = {}
        self._known_shapes: dict[Any, tuple[Captures, list[tuple[int, ...]]]] = {}
        backward = (
            f"As a reversible function it is `out += {self.__name__}(…)`, which (~{self.__name__})(*args, out) undoes."
        )
        self.__doc__ = f"{inspect.cleandoc(fn.__doc__)}\n\n{backward}" if fn.__doc__ else backward

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            if self._inferred and (other := self.suited(args, keywords)) is not self:
                return other(*args, **keywords)
            found = self._request.called_from(self.first_result, args, keywords)
        except UndeclaredResult as error:
            return self.giving(error, args, keywords)(*args, **keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise
        given = (*args, *keywords.values()) if has_named_items(self.result_type) else ()
        return _formed(self.result_type, iter(found), {**self.classes, **_classes(given)})

    def suited(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Functional:
        return self._inferred.get(_outline((tuple(args), dict(keywords))), self) if self._inferred else self

    def giving(self, error: UndeclaredResult, args: Sequence[Any], keywords: Mapping[str, Any]) -> Functional:
        other = Functional(self.fn, self.format, self.options)
        other.read_from = self
        other.result_type, other.classes = error.of, error.classes
        self._inferred[_outline((tuple(args), dict(keywords)))] = other
        return other

    def completed(self, values: list[Any], format: Any) -> list[Any]:
        """The arguments with room for results: zeros for arrays.

        For lists and data classes a run of `ResultSizes` counts their words.
        """
        lacking = [k for k in self._array_results if values[k] is None]
        if lacking:
            values = list(values)
            for k, shape in zip(self._array_results, self._shapes(values[: self.first_result], format), strict=True):
                if k in lacking:
                    values[k] = np.zeros(shape, _DTYPES.get(self.parameters[k].annotation.element, np.float64))
        if all(values[k] is not None for k in self._open):
            return values
        counted = run(self._sizes, *values[: self.first_result], format=format, precision="ignore").values
        sizes = iter(counted[self.first_result :])
        room = {k: Unfilled(next(sizes), next(sizes)) for k in self._open}
        return [room[k] if v is None and k in room else v for k, v in enumerate(values)]

    def _shapes(self, given: Sequence[Any], format: Any) -> list[tuple[int, ...]]:
        """The shapes of the arrays among the results for these arguments."""
        w = self.format_for(format)
        key = w, _outline(given)
        found = self._known_shapes.get(key)
        if found is None or not found[0].hold():
            captures = Captures()
            shapes = [shape_of(t) for t in types_of(self, given)]
            found = self._known_shapes[key] = captures, self.result_shapes(shapes, w, captures)
        return found[1]

    @cached_property
    def _array_results(self) -> tuple[int, ...]:
        """The positions of results that are arrays."""
        return tuple(
            k
            for k, p in enumerate(self.parameters)
            if k >= self.first_result and isinstance(p.annotation, ArrayAnnotation)
        )

    @cached_property
    def _open(self) -> tuple[int, ...]:
        """The positions of results that are lists or data classes."""
        return tuple(
            k for k, p in enumerate(self.parameters) if k >= self.first_result and isinstance(p.annotation, Structure)
        )

    @cached_property
    def _sizes(self) -> ResultSizes:
        return ResultSizes(self)

    @api_boundary
    def with_options(self, **changes: Any) -> Functional:
        """The same function compiled otherwise: `level`, `stack`, `heap`, `forget`, `parts`, `format`."""
        format = changes.pop("format", self.format)
        changes |= {n: _names(n, changes[n]) for n in ("forget", "parts") if n in changes}
        other = Functional(self.fn, format, self.options.changed(changes))
        other.read_from = self
        return other


class ResultSizes(Functional):
    """The function of the same arguments whose values are how many numbers and integers each list and data class of the result has."""

    def __init__(self, of: Functional) -> None:
        super().__init__(of.fn, of.format, of.options)
        self.read_from = of

    @cached_property
    def result_parameters(self) -> tuple[Parameter, ...]:
        found = [p.name for p in super().result_parameters if isinstance(p.annotation, Structure)]
        return tuple(Parameter(f"{name}_{part}", int, 0) for name in found for part in ("numbers", "integers"))

    def marshalled(self, definition: core.Lambda, types: Sequence[Type], wanted: Type) -> tuple[core.Lambda, Type]:
        made = Marshalling(definition.at).sizes(definition, types, self.result_type)
        return made, Tuple((INT,) * len(self.result_parameters))


def _names(option: str, of: Collection[str]) -> frozenset[str]:
    try:
        return frozenset((of,) if isinstance(of, str) else of)
    except TypeError:
        hint = "It has names of functions."
    raise InputError(Diagnostic("RG0603", f"{option} = {of!r:.40}", hint=hint))


def _outline(value: Any) -> Any:
    """What decides the type of an argument: its shape, and whether its numbers are ints."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.kind
    if isinstance(value, list | tuple):
        return (type(value), *map(_outline, value))
    if isinstance(value, dict):
        return (dict, *((name, _outline(inner)) for name, inner in value.items()))
    if dataclasses.is_dataclass(value):
        return (type(value), *(_outline(getattr(value, f.name)) for f in dataclasses.fields(value)))
    return id(value) if isinstance(value, SourceFunction) else type(value)


#: element of an array of results -> the type of its zeros
_DTYPES: dict[Any, Any] = {int: np.int64, bool: np.bool_}


def _classes(values: Iterable[Any]) -> dict[str, type]:
    """The classes of the objects among arguments, by the form of their records."""
    found: dict[str, type] = {}
    for value in values:
        if not isinstance(value, np.ndarray) and (inside := parts_of(value)) is not None:
            found |= _classes(inside.values())
            if not isinstance(value, Mapping):
                found[record_form(type(value).__name__, inside)] = type(value)
    return found


def _formed(t: Type, words: Iterator[Any], classes: Mapping[str, type]) -> Any:
    """A result of a type, from its words. `classes`: those of records, by their form."""
    if not isinstance(t, Tuple):
        return next(words)
    items = [_formed(item, words, classes) for item in t.items]
    if not has_names(t):
        return tuple(items)
    return classes.get(t.form, dict)(**dict(zip(names_of(t), items, strict=True)))


@overload
def functional(fn: Callable[..., Any], /) -> Functional: ...


@overload
def functional(
    *,
    format: Format | str | None = None,
    level: int = 1,
    stack: int | None = None,
    heap: int | None = None,
    forget: Collection[str] = (),
    parts: Collection[str] = (),
    precision: Precision = "warn",
) -> Callable[[Callable[..., Any]], Functional]: ...


def functional(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    format: Format | str | None = None,
    level: int = 1,
    stack: int | None = None,
    heap: int | None = None,
    forget: Collection[str] = (),
    parts: Collection[str] = (),
    precision: Precision = "warn",
) -> Functional | Callable[[Callable[..., Any]], Functional]:
    """f(x …) = the value of the expression that f returns; as a reversible function `out += f(x …)`, which `~f` undoes.

    The body is an expression: `=` names values, `if`, `match`, `def` and `lambda` are as in Python, and nothing is ever changed. Inside,
    functions are values, lists and `@rg.data` classes hold values, and `rg.grad(g)`, `rg.vjp(g)`, `rg.jvp(g)`, `rg.hessian(g)` are functions again,
    at any depth. Types are inferred at each call. Outside, `rg.grad(f)` and all other functions take f like a reversible function.
    `stack`, `heap`: the most words for recursion, and for the cells and the history of a run, by default 2^20 each
    (2^16 in batches on a GPU); where the words of the format address less, a sixteenth of all addresses. `forget`:
    names of functions whose calls are computed, copied and uncomputed. `parts`: names of loops, functions that call
    themselves at their end alone, that keep √n states of n passes. `rg.advise(f, *args, memory=…)` finds both.
    `precision`: see `Options`. Raises CompileError when it is first called.
    Trap: the whole run stays in the heap until it is uncomputed, so memory grows with the number of calls.

    >>> import retrograd as rg
    >>> @rg.functional
    ... def slope(x: rg.fixed):
    ...     cube = lambda t: t * t * t
    ...     return rg.grad(cube)(x)
    >>> slope(2.0), rg.grad(slope, "x")(2.0)
    (12.0, 12.0)
    """
    options = Options(
        level,
        stack=stack,
        heap=heap,
        forget=_names("forget", forget),
        parts=_names("parts", parts),
        precision=precision,
    )
    if fn is not None:
        return Functional(fn, format, options)
    return lambda f: Functional(f, format, options)


# -----------------------------------------------------------------------------
# VLAD programs: each expression of a file as a reversible function `out += e`, its value, and its test.


#: the heap is full, the stack is full, the memory of cotangents is full
_FULL = ("RG0811", "RG0807", "RG0809")


def expression() -> None:
    """An expression of VLAD, whose text stands in its own file."""


class VladFunction(Functional):
    """`out += e` of an expression; a result of several words has parameters `out_0`, `out_1` … The arguments are the numbers that e reads."""

    trap_fixes: Mapping[str, str] = MappingProxyType(
        dict.fromkeys(_FULL, "Allow more words by --memory-budget, or take history back earlier: (forget e).")
    )

    def __init__(
        self,
        of: Expression,
        format: Format | str | None = None,
        options: Options | None = None,
        *,
        lengths: Lengths | None = None,
    ) -> None:
        super().__init__(expression, format, options)
        self.expression, self._lengths = of, lengths or {}
        tree = ast.parse("def expression(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        span = of.datum.at.span
        tree.lineno = tree.end_lineno = span.line
        tree.col_offset, tree.end_col_offset = span.column - 1, span.end - 1
        self._read = tree, Source(of.file.name, of.file.lines)

    @property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        return self._read

    def sized(self, options: Options) -> VladFunction:
        """The same function, compiled with other sizes."""
        made = VladFunction(self.expression, self.format, options, lengths=self._lengths)
        vars(made).update(
            {
                n: v
                for n, v in vars(self).items()
                if n in ("_core", "_plain", "_turning", "exact", "result_type", "asks")
            }
        )
        return made

    @cached_property
    def _plain(self) -> tuple[core.Lambda, Type]:
        """The expression, and its type. Raises CompileError."""
        at = self.expression.datum.at
        try:
            found = self.expression.core()
            try:
                return found, self._solved(found)
            except CompileError as error:
                self.exact, refused = Numbers(), error
            try:
                return found, self._solved(found)
            except (CompileError, RecursionError):
                self.exact = None
            # The refusal of the program as it is, and not of its versions for certain numbers.
            raise refused
        except RecursionError:
            pass
        raise CompileError(Diagnostic("RG0720", "the expressions are nested too deep", at.span, None, at.text))

    @cached_property
    def asks(self) -> ResultPath | None:
        """The list in the result whose length this function computes in place of the result."""
        return unknown_list(self._plain[1], self._lengths)

    @cached_property
    def _core(self) -> core.Lambda:
        found, t = self._plain
        return with_items(found, t, self._lengths) if self.asks is not None or self._lengths else found

    def functional_core(self, captures: Captures) -> core.Lambda:
        return self._core

    @cached_property
    def given(self) -> tuple[Parameter, ...]:
        """The numbers that the expression reads."""
        return tuple(Parameter(f"input_{k}", float, 0.0) for k in range(len(self._plain[0].params)))

    @cached_property
    def result_type(self) -> Type:
        """The type of the value. Raises CompileError."""
        return self._plain[1] if self._core is self._plain[0] else self._solved(self._core)

    def _solved(self, code: core.Lambda) -> Type:
        inference = Inference(Q32_32, lambda f: f.functional_core(Captures()), exact=self.exact)
        try:
            found = forgotten(inference.solve((code, (), (FIXED,) * len(code.params))))
            self._turning = frozenset(key[0].name for key, called in inference.calls.items() if key in called)
            return found
        except CompileError as error:
            raise self._outside_prelude(error, inference) from None

    def _outside_prelude(self, error: CompileError, inference: Inference) -> CompileError:
        """An error in a function of the prelude, at the innermost call of the file itself."""
        d = error.diagnostics[0]
        if d.span is None or d.span.file != PRELUDE:
            return error
        outside = [s for s in inference.sites if s.span.file == self.expression.file.name]
        at = outside[-1] if outside else self.expression.datum.at
        message = f"{d.message}, in line {d.span.line} of the prelude"
        return CompileError(replace(d, message=message, span=at.span, line=at.text))

    def loops(self) -> list[str]:
        """The loops of which the states have one type."""
        self.result_type  # noqa: B018 (the types are inferred here)
        return [name for name in super().loops() if name in self._turning]

    @cached_property
    def result_parameters(self) -> tuple[Parameter, ...]:
        found = kinds(self.result_type)
        names = ["out"] if len(found) == 1 else [f"out_{k}" for k in range(len(found))]
        return tuple(Parameter(n, *_PARAMETERS[k.value]) for n, k in zip(names, found, strict=True))


_PARAMETERS: dict[str, tuple[type, Any]] = {
    "fixed": (float, 0.0),
    "int": (int, 0),
    "bool": (bool, False),
    "address": (int, 0),
}


@dataclass(frozen=True)
class Procedure:
    """A function among values."""

    name: str


def value_of(t: Type, words: Iterator[Any]) -> Any:
    """A value from its words: floats, bools, symbols as text, (head, tail) of pairs, () of the empty list, Procedure."""
    match t:
        case Word():
            return next(words)
        case Known(value):
            return value
        case Tuple((one,), "boolean"):
            return bool(value_of(one, words))
        case Tuple(items, form) if form == ITEMS:
            made: Any = ()
            for value in reversed([value_of(i, words) for i in items]):
                made = value, made
            return made
        case Tuple((), _):
            return ()
        case Tuple(items, "pair"):
            return tuple(value_of(i, words) for i in items)
        case Tuple(items, form):
            return Formed(form, tuple(value_of(i, words) for i in items))
        case Function(alternatives):
            for _ in kinds(t):
                next(words)
            return Procedure(alternatives[0].code.name)
    raise AssertionError(t)


@dataclass(frozen=True)
class Formed:
    """A bundle, or a value of reverse mode."""

    form: str
    parts: tuple[Any, ...]


def shown(value: Any) -> str:
    """A value as VLAD writes it."""
    match value:
        case bool():
            return "#t" if value else "#f"
        case str():
            return printable(value)
        case Procedure(name):
            return f"#[procedure {printable(name)}]"
        case Formed(form, parts):
            return f"#[{form} {' '.join(map(shown, parts))}]"
        case ():
            return "()"
        case (head, tail):
            out = [shown(head)]
            while isinstance(tail, tuple) and tail:
                out.append(shown(tail[0]))
                tail = tail[1]
            return f"({' '.join(out)}{'' if tail == () else f' . {shown(tail)}'})"
    return f"{float(value):.13g}"


# -----------------------------------------------------------------------------
# Runs of VLAD files: the value of each expression, forward and back, and the comparison with `===> datum`.

#: frames of Python
_FRAMES = 6000
#: words of the heap; recursion has as many. A derivative inside doubles both: fewer where a machine does not grant all
LARGEST = 1 << 24
#: heap, stack and their cotangents have addresses of a word: each has an eighth of these at most
_FEWEST_BITS = 3
#: difference of a real from the expected one
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Evaluated:
    """The value of an expression. `restored`: whether the run back left zeros, as it always must; None where it was not run."""

    expression: Expression
    value: Any
    steps: int
    erased_bits: int
    restored: bool | None = None

    @property
    def agrees(self) -> bool:
        """Whether the value is the expected one, reals within TOLERANCE."""
        assert self.expression.expected is not None
        return alike(self.value, self.expression.expected)


def load_vlad(path: str, checked: bool = True) -> File:
    """The definitions and expressions of a file and of those that it includes. Raises InputError, CompileError.

    `checked`: with all expressions; else each when it is evaluated.
    """

    def include(name: str) -> tuple[str, str]:
        if not re.fullmatch(r"[\w-]+(\.vlad)?", name):
            hint = "The file lies beside the one that includes it."
            raise InputError(Diagnostic("RG0603", "it is no name of a file", hint=hint))
        found = str(Path(path).parent / f"{name.removesuffix('.vlad')}.vlad")
        return decode_text(read_file(Path(found)), found), found

    return read_vlad(decode_text(read_file(Path(path)), path), path, include, checked)


def evaluations(
    file: File,
    expressions: Iterable[Expression] | None = None,
    *,
    format: Format | str | None = None,
    engine: str = "auto",
    back: bool = False,
    memory: int = LARGEST,
    numbers: Iterable[float] | None = None,
    **settings: Any,
) -> Iterator[Evaluated]:
    """The values of a file's expressions, or of some, in order. Raises CompileError, InputError, ProgramTrap.

    `back`: each is also run back. `numbers`: those that `(read-real)` reads; None: each expression reads those of its
    test. `memory`: words for lists and history, and as many for recursion. Where a run needs more, its loops run in
    parts.
    """
    given, values = None if numbers is None else iter(numbers), dict[Read, float]()
    for e in file.expressions if expressions is None else expressions:
        with deep_recursion():
            file.check_expression(e)
            inputs = _inputs_of_test(e) if given is None else _inputs(e, given, values)
            found = _evaluated(e, format or file.format, engine, back, memory, settings, inputs)
        yield found


def _inputs_of_test(e: Expression) -> list[float]:
    """The numbers of its `with-inputs`. Raises InputError where it reads others."""
    found = _inputs(e, iter(e.inputs), {})
    if len(found) != len(e.inputs):
        message = f"the test has {len(e.inputs)} inputs, and {len(found)} are read"
        hint = "Give as many as `read-real` reads: (with-inputs (x …) value)."
        raise InputError(Diagnostic("RG0504", message, e.datum.at.span, hint, e.datum.at.text))
    return found


def _inputs(e: Expression, given: Iterator[float], values: dict[Read, float]) -> list[float]:
    """The numbers that an expression reads.

    `values`: those that values of the file have read, for all expressions. Raises InputError.
    """
    out = []
    for read in e.reads():
        if read.value is None or read not in values:
            found = next(given, None)
            if found is None:
                message = "the input has no number left for `read-real`"
                hint = "`retrograd run` reads the standard input or --input, a test its (with-inputs (x …) value)."
                raise InputError(Diagnostic("RG0504", message, e.datum.at.span, hint, e.datum.at.text))
            out.append(found)
            if read.value is not None:
                values[read] = found
        else:
            out.append(values[read])
    return out


@contextmanager
def deep_recursion() -> Iterator[None]:
    """The compiler works by recursion, through each call of a recursion over a list whose length is known."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _evaluated(
    e: Expression,
    format: Format | str | None,
    engine: str,
    back: bool,
    memory: int,
    settings: dict[str, Any],
    inputs: Sequence[float],
) -> Evaluated:
    function, found, steps, erased = settled(e, format, engine, memory, settings, inputs)
    restored = None
    if back:
        undone = run(~function, *found.values, engine=engine, **settings)
        steps, erased = steps + undone.steps, erased + undone.erased_bits
        restored = not any(list(undone.values)[function.first_result :])
    value = value_of(function.result_type, iter(list(found.values)[function.first_result :]))
    return Evaluated(e, value, steps, erased, restored)


def settled(
    e: Expression,
    format: Format | str | None,
    engine: str,
    memory: int,
    settings: dict[str, Any],
    inputs: Sequence[float] = (),
) -> tuple[VladFunction, Any, int, int]:
    """(the function with all lengths of its lists, its run, the steps and erased bits of all runs that were needed)."""
    steps = erased = 0
    lengths: Lengths = {}
    while True:
        function, found, failed = _run(VladFunction(e, format, lengths=lengths), engine, memory, settings, inputs)
        steps, erased = steps + failed + found.steps, erased + found.erased_bits
        # The type of the result is inferred here, where `asks` is found.
        function.result_type  # noqa: B018
        if function.asks is None:
            return function, found, steps, erased
        lengths[function.asks] = int(found.values[function.first_result])


def machine_of(
    e: Expression, *, format: Format | str | None = None, engine: str = "auto", overflow: bool = True
) -> Machine:
    """The machine of an expression at its beginning, with a heap that is large enough; a trap is still ahead of it.

    The expression is run once, to find the lengths of its lists. Raises CompileError, and InputError where it reads a
    number.
    """
    _inputs(e, iter(()), {})
    with deep_recursion():
        try:
            function, *_ = settled(e, format, engine, LARGEST, {"overflow": overflow})
            values = bind(function, (), {})
            program = function.compiled_for(function.types_of(values), function.format_for()).emitted.program
        except ProgramTrap as trap:
            program = trap.machine.program
    # All arguments of an expression are results, which begin as zeros.
    return machine_for(program, engine, overflow=overflow)


def _run(
    function: VladFunction, engine: str, memory: int, settings: dict[str, Any], inputs: Sequence[float]
) -> tuple[VladFunction, Any, int]:
    """The function, its run, and the steps of runs before that were out of memory.

    Then one loop more runs in parts, the outermost first.
    """
    parts: frozenset[str] = frozenset()
    loops: list[str] | None = None
    failed = 0
    while True:
        sized = _granted(function, memory, parts)
        try:
            return sized, run(sized, *inputs, engine=engine, **settings), failed
        except ProgramTrap as trap:
            if trap.code not in _FULL:
                raise
            failed += trap.machine.retired
            loops = function.loops() if loops is None else loops
            while loops:
                try:
                    more = parts | {loops.pop(0)}
                    _granted(function, memory, more)
                    break
                except CompileError:
                    # Another loop of this name goes over a list of known length, so its states are of several types.
                    continue
            else:
                raise
            parts = more


def _granted(function: VladFunction, memory: int, parts: frozenset[str]) -> VladFunction:
    """The function, with a heap and a stack as large as given, or as a machine grants.

    A run costs the words that it uses.
    """
    values, w = bind(function, (), {}), function.format_for()
    size = min(memory, 1 << (w.width - _FEWEST_BITS))
    while True:
        sized = function.sized(Options(stack=size, heap=size, parts=parts))
        if sized.compiled_for(sized.types_of(values), w).emitted.program.memory <= MEMORY_LIMIT:
            return sized
        size //= 2


#: how a value is written behind ===>, where it has another name, too
_WRITTEN = {"bundle": ("bundle", "forward")}


def alike(value: Any, datum: Datum) -> bool:
    """Whether a value is that of a datum, as it is written or quoted."""
    match value, datum:
        case _, Items((Symbol("quote"), quoted)):
            return alike(value, quoted)
        case bool(), Literal(bool() as other):
            return value is other
        case (bool(), _) | (_, Literal(bool())):
            return False
        case float() | int(), Literal(other):
            return abs(float(value) - other) <= TOLERANCE
        case str(), Symbol(name):
            return value == name
        case Formed(form, parts), Items((Symbol(name), *written), tail=None) if len(parts) == len(written):
            return name in _WRITTEN.get(form, (form,)) and all(map(alike, parts, written))
        case (), Items((), tail=None):
            return True
        case (head, tail), Items((first, *others)):
            if not others and datum.tail is not None:
                rest: Datum = datum.tail
            else:
                rest = Items(tuple(others), datum.at, datum.tail)
            return alike(head, first) and alike(tail, rest)
    return False
