"""Cotangents of all results: `vjp`.

pullback(ȳ) = Jᵀȳ:  the gradient program P; lift(P⁻¹) runs on x and ȳ, and leaves x̄ beside x
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.differentiation.arguments import (
    Reals,
    all_fixed,
    differentiable,
    direction_of,
    flattened,
    from_words,
    need_derivative,
    refuse,
    report_losses,
    shaped,
    sizes,
    to_words,
)
from retrograd.differentiation.gradient_requests import by_choice, choose, restored_by_name
from retrograd.differentiation.programs import COTANGENT_HINT, DerivedProgram, derivative_traps, gradient_program, kept
from retrograd.differentiation.scales import Scale, scales_of
from retrograd.isa.diagnostics import api_boundary, nearest
from retrograd.isa.words import Format
from retrograd.runtime._binding import form_of, has_trees
from retrograd.runtime._execution import Request, execute, read
from retrograd.runtime._reversible import Inverse, Reversible


def vjp(
    f: Reversible | Inverse,
    /,
    *args: Any,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    **keywords: Any,
) -> tuple[Any, Pullback]:
    """(values, pullback): values as f(*args) gives them, pullback(ȳ) = Jᵀȳ, J the Jacobian of all values by all arguments.

    ȳ are cotangents ∂L/∂value: a mapping by name, or a sequence with one for each argument; None, and a name that the
    mapping leaves out, is zero. A struct's is a struct, or a mapping of its fields; that of a complex number may be Python's,
    ∂L/∂re + i·∂L/∂im. pullback returns the cotangents of all arguments that have a derivative, by name, each of
    the form of its argument. It may be called again; each call runs forward and back once,
    from the arguments as they were.
    f may be an inverse, `~f`; `scale` as in `grad`; `engine`, `format`, `precision`: see `run`. Raises NotDifferentiable, CompileError, ProgramTrap.
    Trap: an argument that f leaves alone is a result too, and its cotangent adds to the cotangent that comes back for it.
    """
    request = differentiable(f, engine, format, precision)
    values = request.values(args, keywords)
    compiled = request.compiled(values)
    machine = request.machine(compiled, values)
    execute(compiled, machine, None)
    results = request.function.results(*read(compiled, machine, values))
    return results, Pullback(f, request, compiled, values, machine.memory[:], scale)


def pullback_alone(
    f: Reversible | Inverse,
    args: Sequence[Any],
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
) -> Pullback:
    """The pullback of `vjp` at arguments at which f has run already. f runs again only where cotangents depend on its results, and for its `rg.external` blocks."""
    request = differentiable(f, engine, format, precision)
    values = request.values(tuple(args), {})
    compiled = request.compiled(values)
    final = [0] * compiled.argument_words
    if compiled.externals or any(isinstance(a.type, FormType) or not all_fixed(a.type) for a in compiled.arguments):
        machine = request.machine(compiled, values)
        execute(compiled, machine, None)
        final = machine.memory[:]
    return Pullback(f, request, compiled, values, final, scale)


class Pullback:
    """ȳ → Jᵀȳ at some arguments: see `vjp`."""

    def __init__(
        self,
        f: Reversible | Inverse,
        request: Request,
        compiled: Compiled,
        values: list[Any],
        final: list[int],
        scale: Scale,
    ) -> None:
        self._f, self._request, self._compiled = f, request, compiled
        #: with their words, which are made; and the trees among them, which the caller may change
        self._values = values
        self._forms = [form_of(v) if has_trees(a.type) else v for a, v in zip(compiled.arguments, values, strict=True)]
        #: memory after the run: a cotangent of a lognum is scaled by its value there
        self._final = final
        self._scale = scale
        #: the arguments, results with the form that they have
        self._arguments = [_filled(a, final) for a in compiled.arguments]

    @api_boundary
    def __call__(self, cotangents: Any) -> Any:
        compiled, backward = self._compiled, self._request.backward
        # A function of ints has values, and is refused here only: the functions of `adapters` call it.
        wanted = choose(self._f, self._arguments, None, None)
        program, w = pullback_program(compiled, backward), compiled.format
        pairs = [(a, self._flat(a, value)) for a, value in by_argument(self._f, self._arguments, cotangents)]

        def seeds(scale: int) -> dict[int, int]:
            given: dict[int, int] = {}
            for a, flat in pairs:
                size = sizes(a.type, self._final[a.address : a.address + a.type.size], w)
                words = to_words(flat, size, scale, w, a.name)
                given |= {a.address + program.cotangents + i: word for i, word in enumerate(words) if word}
            return given

        with derivative_traps(compiled, self._values, backward, *_overflow(w)):
            ran, scale = program.run_scaled(scales_of(self._scale, w), self._values, seeds, self._request.engine)
        memory = ran.memory[:]
        report_losses(compiled, pairs, scale, "cotangent")

        def gradient(a: Argument) -> Any:
            at = a.address + program.cotangents
            size = sizes(a.type, memory[a.address : a.address + a.type.size], w)
            return shaped(a.type, from_words(memory[at : at + a.type.size], size, scale, w))

        gradients = {a.name: gradient(a) for a in wanted}
        return by_choice(None, restored_by_name(compiled.arguments, self._forms, gradients))

    def _flat(self, a: Argument, value: Any) -> Reals:
        """A given cotangent, flat. Raises NotDifferentiable."""
        need_derivative(self._f, a.name, a.type)
        return flattened(a.type, value, a.name)

    def __repr__(self) -> str:
        return f"<pullback of {self._f.__name__}>"


def _filled(a: Argument, final: Sequence[int]) -> Argument:
    """An argument with the type that it has after the run."""
    if not isinstance(a.type, FormType) or a.type.form is not None:
        return a
    return replace(a, type=a.type.filled(final[a.address : a.address + a.type.size]))


def pullback_program(compiled: Compiled, backward: bool, copies: int = 1) -> DerivedProgram:
    """The gradient program (x, ȳ) -> (x, x̄) of a compiled function, made once. `copies`: see `gradient_program`."""
    return kept(compiled, ("gradient", backward, copies), lambda: gradient_program(compiled, backward, copies))


def pulled_back(request: Request, compiled: Compiled, values: list[Any], given: Mapping[int, int]) -> list[int]:
    """The memory after the gradient program has run from these cotangents, address -> word. Raises ProgramTrap."""
    with derivative_traps(compiled, values, request.backward, *_overflow(compiled.format)):
        return pullback_program(compiled, request.backward).run(values, given, request.engine).memory[:]


def _overflow(w: Format) -> tuple[str, str]:
    """The message and the fix of a cotangent that does not fit."""
    return f"running back, cotangent overflow in {w}", COTANGENT_HINT


def by_argument(
    f: Reversible | Inverse, arguments: Sequence[Argument], cotangents: Any, what: str = "cotangent"
) -> list[tuple[Argument, Any]]:
    """The given cotangents with their arguments; `what`: their name in messages.

    A sequence has one for each argument. For a functional function it may have one tangent for each argument of the
    call, or one cotangent for each result.
    """
    names = [a.name for a in arguments]
    listed = f"the arguments of `{f.__name__}` are {', '.join(names)}"
    if hasattr(cotangents, "_asdict") and len(cotangents) != len(names):
        cotangents = cotangents._asdict()  # such as the result of a pullback, which has no integers
    if isinstance(cotangents, Mapping):
        for name in cotangents:
            if name not in names:
                near = nearest(str(name), names)
                hint = f"{near}; {listed}" if near else listed
                refuse(f"`{f.__name__}` has no argument {name!r:.40}, and no {what} of it", hint)
        pairs = [(a, cotangents[a.name]) for a in arguments if a.name in cotangents]
    elif isinstance(cotangents, Sequence) and not isinstance(cotangents, str | bytes):
        function, backward = direction_of(f)
        first = 0 if backward else function.first_result
        own = arguments[:first] if what == "tangent" else arguments[first:]
        if first and len(cotangents) == len(own):
            arguments = own
        elif len(cotangents) != len(names):
            counted = f"{len(cotangents)} {what}{'s are' if len(cotangents) != 1 else ' is'} given"
            refuse(f"{counted} for the {len(names)} arguments of `{f.__name__}`", f"write None for zero; {listed}")
        pairs = list(zip(arguments, cotangents, strict=True))
    else:
        found = type(cotangents).__name__
        refuse(f"{what}s are a mapping by name or a sequence by position, not of type {found}", listed)
    return [(a, value) for a, value in pairs if value is not None]
