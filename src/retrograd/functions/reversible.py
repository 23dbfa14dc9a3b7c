"""`@reversible`: functions that run forward and backward, and show the code that they are compiled to."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, overload

from retrograd.compiler.compiled import Options, Precision
from retrograd.compiler.frontends.constants import signature_of
from retrograd.compiler.frontends.python.source import need_adjoint
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.functions.compilation import Compilable, use_format
from retrograd.functions.listing import Listing, assembly, html
from retrograd.functions.pickling import Uncopied, inverse_of, reduced_function
from retrograd.functions.requests import Request, Result
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, api_boundary, shorten_traceback
from retrograd.isa.words import Format

if TYPE_CHECKING:
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
    stack: int = 1 << 16,
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
    stack: int = 1 << 16,
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
    hint = "Use @reversible: only functions of the language run backward and have derivatives."
    raise refused(Diagnostic("RG0603", f"`{name}` is no reversible function", hint=hint))


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

    `engine`: the engine that runs it (`retrograd.functions.execution.ENGINES`); all give the same bits. `precision`: "warn" gives one
    PrecisionWarning if numbers of the arguments lose more than half of their bits in the format or become 0, "error" refuses them
    (RG0607), "ignore" rounds them; None stands for the function's own. Raises CompileError for a
    function that cannot be compiled, InputError for arguments that do not fit it and for an unknown engine, ProgramTrap for a
    trap and for more than `max_steps` instructions.
    """
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow,
    )  # fmt: skip
    return request.run(args, keywords)


def uncomputing_level(function: Reversible, *args: Any, **keywords: Any) -> float:
    """log₂(N_reversible / N_erasing): the cost of uncomputing, in instructions executed on these arguments.

    0: nothing is uncomputed; 1: uncomputing doubles the work. N_erasing is the count of the same source in erase mode.
    Keywords are those of `run`.
    Source: the uncomputing level of Liu and Zhao, Differentiate everything with a reversible embedded language, 2020.
    """
    reversible = run(function, *args, **keywords)
    erasing = run(function.with_options(erase=True), *args, **keywords)
    return math.log2(reversible.steps / erasing.steps)
