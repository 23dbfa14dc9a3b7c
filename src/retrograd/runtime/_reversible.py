"""`@reversible`: functions that run forward and backward, and show the code that they are compiled to."""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any, NoReturn, overload
from weakref import WeakKeyDictionary

import numpy as np

from retrograd.assembler.lexer import decode_text
from retrograd.compiler.compiled import Options, Precision
from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.constants import signature_of
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.parser import read as read_source
from retrograd.compiler.frontends.janus.procedures import Entry
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import NOTHING, Parameter, Source, UndeclaredResult, need_adjoint
from retrograd.compiler.frontends.specialisation import Declare, Specialisation
from retrograd.compiler.ir.statements import Procedure
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import ArrayType, ScalarType
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, api_boundary, nearest, shorten_traceback
from retrograd.isa.files import read_file
from retrograd.isa.words import Format
from retrograd.runtime._arrays import is_lent_by_device
from retrograd.runtime._binding import NO_FUNCTION_OF_THE_LANGUAGE, located, types_of
from retrograd.runtime._compilation import (
    Compilable,
    Listing,
    Uncopied,
    again,
    assembly,
    html,
    inverse_of,
    reduced_function,
    use_format,
)
from retrograd.runtime._execution import ProgramTrap, Request, Result, execute, read
from retrograd.runtime._marshal import Losses, to_words
from retrograd.simulator.engines.tiering import engine_named

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from retrograd.compiler.compiled import Compiled, Precision
    from retrograd.compiler.pipeline import Argument
    from retrograd.isa.program import Program

__all__ = [
    "Inverse", "Listing", "Reversible", "oriented", "request_of", "reversible", "run", "uncomputing_level", "use_format",
]  # fmt: skip


class _Signature:
    """`__signature__` for `help` and `inspect`: the parameters as written; a call returns a named tuple of all arguments."""

    def __get__(self, instance: Reversible | Inverse | None, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("the signature belongs to each function, not to its class")
        function = ~instance if isinstance(instance, Inverse) else instance
        written = signature_of(function.fn)
        shown = dict(written.parameters)
        if function.gradient_of is not None:
            kind = next(reversed(shown.values())).kind
            if function.variadic is not None:
                kind = inspect.Parameter.KEYWORD_ONLY
            for p in function.parameters[len(shown) :]:
                shown[p.name] = inspect.Parameter(p.name, kind, annotation=p.annotation)
        return written.replace(parameters=[*shown.values()], return_annotation=tuple)


def _documented(doc: str | None, inverse: str) -> str:
    """The docstring, and how to call the inverse."""
    call = f"Runs backward as {inverse}(*results); both directions return all arguments."
    return f"{inspect.cleandoc(doc)}\n\n{call}" if doc else call


class Reversible(Uncopied, Compilable):
    """A function of the language: `f(*args)` runs it, `(~f)(*args)` runs it backward; both return all arguments.

    `~~f is f`. The function is compiled when it is first called with arguments of these types and shapes, and kept
    as long as the values that it captured are the same.
    """

    __signature__ = _Signature()

    def __init__(
        self, fn: Callable[..., Any], format: Format | str | None = None, options: Options | None = None
    ) -> None:
        super().__init__(fn, format, options)
        #: `inspect.getsource` and IPython's `f??` find the source by it
        self.__wrapped__ = fn
        self.__doc__ = _documented(fn.__doc__, f"(~{self.__name__})")
        self._request = Request(self)
        self._inverse = Inverse(self)

    # ------------------------------------------------------------------ calls

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return self._request.called(args, keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def __invert__(self) -> Inverse:
        return self._inverse

    @property
    def inverse(self) -> Inverse:
        """The function run backward."""
        return self._inverse

    @api_boundary
    def each(self, *args: Any, **keywords: Any) -> Any:
        """Within reversible functions: the function on every element of its arrays' first axis."""
        Intrinsic(f"{self.__name__}.each", "statement", "")(*args, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    # ------------------------------------------------------------------ derivatives

    @api_boundary
    def adjoint(self, fn: Callable[..., Any], /) -> Reversible:
        """Make `fn` the adjoint of this function: gradient programs run it in place of the automatic one.

            @f.adjoint
            def _(y, x, d_y, d_x):  d_x += d_y · ∂y/∂x        for f(y, x): y += …

        It takes the arguments of f, as they are before f, and after them a cotangent `d_x` for each argument x that has one, which it changes
        from that after f to that before f: x̄ := Jᵀ x̄. It may change nothing else. Its inverse is run for uncalls, ~f. A cotangent that it does not name
        stays as it is. Of a lognum x it is ∂L/∂ln|x|. Tangents (`jvp`) and differentiation mode of the machine are those of f itself.
        `retrograd.testing.check_gradient(f, …)` compares it with differences. Raises CompileError RG0727, also where f was compiled already.
        """
        own = fn if isinstance(fn, Reversible) else Reversible(fn, self.format, self.options)
        need_adjoint(self, own)
        self.own_adjoint = own
        return own

    # ------------------------------------------------------------------ the compiled code

    @api_boundary
    def program(self, *args: Any, **keywords: Any) -> Program:
        """The program that machines run, for arguments like these: see `compiled`."""
        return self.compiled(*args, **keywords).program

    @api_boundary
    def lower(self, *args: Any, **keywords: Any) -> Listing:
        """The reversible IR, optimised: `as_text()` reads it, `~` inverts it."""
        return Listing(self.compiled(*args, **keywords).module)

    @api_boundary
    def assembly(self, *args: Any, **keywords: Any) -> str:
        """The program as assembly text, with the user's lines as comments."""
        return assembly(self.compiled(*args, **keywords))

    @api_boundary
    def with_options(self, **changes: Any) -> Reversible:
        """The same function compiled otherwise: `level`, `erase`, `stack`, `memory`, `format`. Raises InputError RG0603."""
        format = changes.pop("format", self.format)
        other = Reversible(self.fn, format, self.options.changed(changes))
        other.read_from, other.own_adjoint = self, self.own_adjoint
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced_function(self)

    def _repr_html_(self) -> str:
        return html(self)


class Inverse(Uncopied):
    """A reversible function, run backward."""

    #: for the compiler, which cannot import this class
    __retrograd_inverse__ = True
    __signature__ = _Signature()

    def __init__(self, of: Reversible) -> None:
        self.__retrograd_inverse_of__ = of
        self.__name__, self.__module__ = f"~{of.__name__}", of.__module__
        self.__wrapped__ = of.fn
        self.__doc__ = f"The inverse of {of.__name__}. {_documented(of.fn.__doc__, of.__name__)}"
        self._request = Request(of, backward=True)

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            return self._request.called(args, keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __invert__(self) -> Reversible:
        return self.__retrograd_inverse_of__

    @property
    def inverse(self) -> Reversible:
        """The function itself."""
        return self.__retrograd_inverse_of__

    def __reduce__(self) -> tuple[Any, ...]:
        return inverse_of, (self.__retrograd_inverse_of__,)

    def __repr__(self) -> str:
        return f"<inverse of {self.__retrograd_inverse_of__!r}>"


@overload
def reversible(fn: Callable[..., Any], /) -> Reversible: ...


@overload
def reversible(
    *,
    format: Format | str | None = None,
    level: int = 1,
    erase: bool | frozenset[str] = False,
    stack: int | None = None,
    memory: int = 0,
    precision: Precision = "warn",
) -> Callable[[Callable[..., Any]], Reversible]: ...


def reversible(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    format: Format | str | None = None,
    level: int = 1,
    erase: bool | frozenset[str] = False,
    stack: int | None = None,
    memory: int = 0,
    precision: Precision = "warn",
) -> Reversible | Callable[[Callable[..., Any]], Reversible]:
    """Read a function as reversible source: it is checked and compiled when first called, never executed by Python.

    `format`: of its numbers, as rg.Format(64, 48) or "Q16.48"; `level`, `erase`, `stack`, `memory`,
    `precision`: see `Options`.
    """
    options = Options(level, erase, stack, memory=memory, precision=precision)
    if fn is not None:
        return Reversible(fn, format, options)
    return lambda f: Reversible(f, format, options)


# ---------------------------------------------------------------------- runs


def oriented(f: Any, refused: type[InputError] = InputError) -> tuple[Reversible, bool]:
    """(the reversible function, whether f is its inverse). Raises `refused` RG0603 for any other object."""
    if isinstance(f, Reversible):
        return f, False
    if isinstance(f, Inverse):
        return ~f, True
    name = getattr(f, "__name__", None) or f"{f!r:.40}"
    raise refused(Diagnostic("RG0603", f"`{name}` is no reversible function", hint=NO_FUNCTION_OF_THE_LANGUAGE))


def request_of(f: Reversible | Inverse, *, backward: bool = False, **settings: Any) -> Request:
    """The request that runs f, or with `backward` its inverse. Raises InputError."""
    function, inverse = oriented(f)
    return Request(function, backward=backward != inverse, **settings)


def run(
    function: Reversible | Inverse,
    *args: Any,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    overflow: bool = True,
    **keywords: Any,
) -> Result:
    """Run a reversible function on a machine, from `start` to `finish` or, backward, from `finish` to `start`.

    `engine`: the engine that runs it (`retrograd.runtime._execution.ENGINES`); all give the same bits. `precision`: "warn" gives one
    PrecisionWarning if numbers of the arguments lose more than half of their bits in the format or become 0, "error" refuses them
    (RG0607), "ignore" rounds them; None stands for the function's own. Raises CompileError for a
    function that cannot be compiled, InputError for arguments that do not fit it and for an unknown engine, ProgramTrap for a
    trap and for more than `max_steps` instructions.
    """
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow,
    )  # fmt: skip
    return request.suited(args, keywords, lambda found: found.run(args, keywords))


def uncomputing_level(function: Reversible, *args: Any, **keywords: Any) -> float:
    """log₂(N_reversible / N_erasing): the cost of uncomputing, in instructions executed on these arguments.

    0: nothing is uncomputed; 1: uncomputing doubles the work. N_erasing is the count of the same source in erase mode.
    Keywords are those of `run`.
    Source: the uncomputing level of Liu and Zhao, Differentiate everything with a reversible embedded language, 2020.
    """
    reversible = run(function, *args, **keywords)
    erasing = run(function.with_options(erase=True), *args, **keywords)
    return math.log2(reversible.steps / erasing.steps)


# -----------------------------------------------------------------------------
# Python functions made from a reversible one, such as `rg.grad(f)` and `rg.vmap(f)`, called with its arguments.


class NotDifferentiable(InputError, TypeError):
    """An argument without a derivative, an argument that cannot be the loss, or cotangents that do not fit."""


#: the call that makes an object again from a pickle: function, arguments, keywords
Made = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


#: types of most arguments, which are never on a device
_ON_HOST = frozenset({np.ndarray, float, int, bool, list, tuple, np.float64})


class Derived(Uncopied):
    """A Python function made from a reversible function `of`, and called with the arguments of that."""

    #: arrays on a device are used there, and not copied before the call: always, or with the engine `cuda`
    uses_device = runs_on_device = False

    def __init__(
        self, name: str, of: Reversible | Inverse, call: Callable[[tuple[Any, ...], dict[str, Any]], Any], made: Made
    ) -> None:
        self.of = of
        self.made = made
        #: function whose results have another type -> the same function made from it
        self._suited: WeakKeyDictionary[Compilable, Derived] = WeakKeyDictionary()
        self.__name__ = f"{name}({of.__name__})"
        self.__doc__ = f"{self.__name__}, called with the arguments of {of.__name__}."
        self._call = call

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        try:
            if not (self.uses_device or (_ON_HOST.issuperset(map(type, args)) and not keywords)):
                return self._with_copies(args, keywords)
            if self._suited and (other := self._suited.get(oriented(self.of)[0].suited(args, keywords))) is not None:
                return other(*args, **keywords)
            return self._call(args, keywords)
        except UndeclaredResult as error:
            return self._giving(error, args, keywords)(*args, **keywords)
        except RetrogradError as error:
            shorten_traceback(error)
            raise

    def _giving(self, error: UndeclaredResult, args: tuple[Any, ...], keywords: dict[str, Any]) -> Derived:
        """The same function made from the one whose results have the type that was found for these arguments."""
        make, (of, *others), settings = self.made
        if of is not self.of or isinstance(of, Inverse):
            raise error
        function = of.giving(error, args, keywords)
        made: Derived = make(function, *others, **settings)
        self._suited[function] = made
        return made

    def _with_copies(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call it with copies of arrays that lie on a device; the arrays of its result are copied there."""
        engine = self.made[2].get("engine", "auto")
        if (self.runs_on_device and engine == "cuda") or not any(map(is_lent_by_device, (*args, *keywords.values()))):
            return self._call(args, keywords)
        from retrograd.runtime._device import copied_arguments, on_the_device_of

        args, keywords, index = copied_arguments(args, keywords)
        found = self._call(args, keywords)
        if index is None or engine_named(engine) not in ("auto", "cuda"):
            return found
        return on_the_device_of(found, index)

    def with_settings(self, engine: str, format: Any, precision: Precision | None = None) -> Derived:
        """The same function on another engine, in another format, of another precision; "auto" and None leave its own."""
        given = {"engine": engine, "format": format, "precision": precision}
        changed = {name: value for name, value in given.items() if value not in ("auto", None)}
        if not changed:
            return self
        make, args, keywords = self.made
        made: Derived = make(*args, **{**keywords, **changed})
        return made

    def batched(self, shared: Any) -> tuple[Request, Callable[..., Any]] | None:
        """(the request of the function, run(request, args, keywords, in_axes) as one batch); None where it has no such form. See `rg.vmap`."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return again, self.made

    def __repr__(self) -> str:
        return f"<{self.__name__}>"


# -----------------------------------------------------------------------------
# Programs of Janus as reversible functions: FILE.ja runs `main`, FILE.ja:PROCEDURE another procedure.
#
# A program of 1982 has global variables, which are the arguments of each of its procedures.

#: the numbers of the Jana interpreter: integers of 32 bits, which wrap
JANA = Format(32, 0)


def procedure() -> None:
    """A procedure of Janus, whose text stands in its own file."""


class JanusFunction(Reversible):
    """A procedure of Janus. The variables of `main` are its arguments, and begin as zeros unless they are given.

    Raises CompileError RG0702 where the program has no such procedure.
    """

    trap_fixes: Mapping[str, str] = MappingProxyType({
        "loop": "The condition of `from` is true before the loop and false after each pass through `loop`.",
        "RG0802": "Write the value that it holds, or undo the statements that changed it.",
        "RG0806": "Push and pop in pairs: a stack has room for 4096 values.",
        "RG0807": "End the recursion earlier, or make the arrays shorter.",
        "RG0810": "Test the exponent with an `if` first.",
    })  # fmt: skip

    def __init__(
        self, program: syntax.Program, name: str, format: Format | str | None = None, options: Options | None = None
    ) -> None:
        self.entry = Entry(program, name)
        super().__init__(procedure, JANA if format is None else format, options)
        self.__name__ = self.__qualname__ = name
        tree = ast.parse("def procedure(): pass").body[0]
        assert isinstance(tree, ast.FunctionDef)
        span = self.entry.procedure.span
        tree.lineno = tree.end_lineno = span.line
        tree.col_offset, tree.end_col_offset = span.column - 1, span.end - 1
        self._read = tree, Source(program.source.name, program.source.lines)

    @property
    def _parsed(self) -> tuple[ast.FunctionDef, Source]:
        return self._read

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The variables of the entry. Raises CompileError."""
        return tuple(
            Parameter(v.name, v.annotation, NOTHING if v.initial is None else v.initial) for v in self.entry.variables
        )

    def own_lowering(
        self, made: Specialisation, module: ModuleBuilder, captures: Captures, shared: Declare
    ) -> Procedure:
        """The procedure for the shapes of its arguments. Raises CompileError."""
        return self.entry.lowered(made, module)

    @api_boundary
    def with_options(self, **changes: Any) -> JanusFunction:
        """The same procedure compiled otherwise: `level`, `stack`, `format`."""
        format = changes.pop("format", self.format)
        return JanusFunction(self.entry.program, self.__name__, format, self.options.changed(changes))


def read_janus(file: str, dialect: str | None = None) -> syntax.Program:
    """The program in a file. `dialect`: `jana` or `1982`. Raises InputError RG0501, CompileError RG0725."""
    return read_source(decode_text(read_file(Path(file)), file), file, dialect)


def load_janus(file: str, name: str = "main", dialect: str | None = None) -> JanusFunction:
    """The procedure of a file. Raises InputError RG0501, CompileError RG0702, RG0725."""
    return JanusFunction(read_janus(file, dialect), name)


# -----------------------------------------------------------------------------
# Learning by consistency: parameters found by running forward and backward, without a derivative.
#
#     run forward;  outputs := targets;  run backward;  inputs := data;  again
#
# A reversible function can run backward from results that it has not computed. Where the targets are consistent with the
# other results, a round changes nothing any more. Source: Liu and Zhao, arXiv 2003.04617.


@dataclass(frozen=True)
class Consistency:
    """The result of learning by consistency.

    `arguments`: all arguments: the inputs as given, the parameters as learnt.
    `history`: for each output, its values after the forward run of each round.
    `converged`: in the last round the outputs were within `tolerance` of their targets.
    `period`: the number of rounds since the parameters had the same words; 0 if they never had. 1: a round changes
    nothing. 2: often rounding, which alternates between neighbouring words.
    """

    arguments: Any
    history: dict[str, NDArray[Any]]
    converged: bool
    period: int

    @property
    def stationary(self) -> bool:
        """Further rounds repeat earlier ones. A run that is stationary and not converged does not learn."""
        return self.period > 0

    @property
    def rounds(self) -> int:
        """The number of rounds that were run."""
        return len(next(iter(self.history.values())))


def learn_by_consistency(
    f: Reversible | Inverse,
    args: Sequence[Any] | Mapping[str, Any],
    outputs: Mapping[str, Any],
    parameters: str | Sequence[str],
    steps: int = 100,
    callback: Callable[[int, Any], object] | None = None,
    *,
    tolerance: float = 1e-6,
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Consistency:
    """Run f forward, replace its results by `outputs`, run backward, replace the inputs by `args`; `steps` times.

    `args`: the initial arguments, in order or by name. `outputs`: name -> target. `parameters`: the names of the learnt arguments,
    which keep their values from round to round. All other arguments, the outputs too, are inputs, and begin every round
    as in `args`. It ends before `steps` where the parameters repeat those of an earlier round, or where
    `callback(round, arguments after the forward run)` is true. Rounds begin with 0. Words are exact. `engine`, `format`, `precision`: see `run`.

    Trap: a function that leaves its inputs unchanged gives the same parameters in each round, and learns nothing. A
    target from which the function cannot run backward, such as to the logarithm of a negative number, is a ProgramTrap with the
    round in its note. Raises InputError naming the argument, CompileError, ProgramTrap.
    """
    request = request_of(f, engine=engine, format=format, precision=precision)
    function = request.function
    values = request.values((), dict(args)) if isinstance(args, Mapping) else request.values(tuple(args), {})
    compiled = request.compiled(values)
    learnt = [
        _argument(function, compiled, name, "a parameter")
        for name in ([parameters] if isinstance(parameters, str) else parameters)
    ]
    losses = Losses()
    targets = [_target(function, compiled, values, name, target, losses) for name, target in outputs.items()]
    losses.report(compiled, "the target of ")
    if not learnt or not targets:
        _refuse(
            function,
            f"there are no {'outputs to learn from' if learnt else 'parameters to learn'}",
            "Name one or more arguments.",
        )
    if steps < 1:
        _refuse(function, f"steps = {steps} is no number of rounds", "Learning takes one round or more.")
    for a, _ in targets:
        if a in learnt:
            _refuse(function, f"`{a.name}` is an output and a parameter", "What has a target is not learnt.", a.name)

    machine = request.machine(compiled, values)

    def words(of: Sequence[Argument]) -> list[tuple[Argument, list[int]]]:
        return [(a, machine.memory[a.address : a.address + a.type.size]) for a in of]

    def put(what: Sequence[tuple[Argument, list[int]]]) -> None:
        for a, value in what:
            machine.load(a.address, value)

    def known() -> tuple[int, ...]:
        return tuple(word for _, value in words(learnt) for word in value)

    data = words([a for a in compiled.arguments if a not in learnt])
    history: dict[str, list[Any]] = {name: [] for name in outputs}
    seen = {known(): 0}
    period = 0
    for i in range(steps):
        with _noting(i, "forward"):
            execute(compiled, machine)
        after = function.results(*read(compiled, machine))
        for a, _ in targets:
            history[a.name].append(after[compiled.arguments.index(a)])
        put(targets)
        machine.turn()
        with _noting(i, "back"):
            execute(compiled, machine)
        put(data)
        machine.turn()
        period = i + 1 - seen.setdefault(known(), i + 1)
        stopped = callback is not None and bool(callback(i, after))
        if period or stopped:
            break
    converged = all(_near(history[name][-1], target, tolerance) for name, target in outputs.items())
    arguments = function.results(*read(compiled, machine))
    return Consistency(arguments, {name: np.array(found) for name, found in history.items()}, converged, period)


@contextmanager
def _noting(i: int, way: str) -> Iterator[None]:
    """Add the round to the note of a trap."""
    try:
        yield
    except ProgramTrap as trap:
        trap.add_note(f"learning by consistency: in round {i}, on the way {way}")
        raise


def _near(value: Any, target: Any, tolerance: float) -> bool:
    return bool(np.all(np.abs(np.asarray(value, dtype=float) - np.asarray(target, dtype=float)) <= tolerance))


def _refuse(function: Compilable, message: str, hint: str | None, parameter: str = "") -> NoReturn:
    diagnostic = Diagnostic("RG0603", f"`{function.__name__}`: {message}", hint=hint)
    raise InputError(located(diagnostic, function, parameter))


def _argument(function: Compilable, compiled: Compiled, name: str, role: str) -> Argument:
    """The argument of this name, which is a number or an array of numbers."""
    names = [a.name for a in compiled.arguments]
    if name not in names:
        _refuse(function, f"there is no argument `{name}`", nearest(name, names) or f"It has {', '.join(names)}.")
    argument = compiled.arguments[names.index(name)]
    match argument.type:
        case ScalarType() | ArrayType(ScalarType()):
            return argument
    hint = "Numbers and arrays of numbers are."
    _refuse(function, f"`{name}` is {argument.type}, which is not {role}", hint, name)


def _target(
    function: Compilable, compiled: Compiled, values: Sequence[Any], name: str, target: Any, losses: Losses
) -> tuple[Argument, list[int]]:
    """An output and the words of its target, which is of the output's type and shape."""
    argument = _argument(function, compiled, name, "an output")
    i = compiled.arguments.index(argument)
    found = types_of(function, [*values[:i], target, *values[i + 1 :]])[i]
    if found != argument.type:
        _refuse(function, f"the target of `{name}` is {found}, and `{name}` is {argument.type}", None, name)
    try:
        return argument, to_words(argument.type, target, compiled.format, name, losses)
    except InputError as error:
        raise InputError(located(error.diagnostics[0], function, name)) from None
