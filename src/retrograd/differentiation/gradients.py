"""Gradients of one number, and cotangents of all results: `grad`, `value_and_grad`, `gradient_report`, `vjp`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrograd.compiler.language.types import FIXED, ArrayAnnotation
from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import (
    Derived,
    Sought,
    Which,
    direction_of,
    flattened,
    is_one,
    need_derivative,
    position,
    positions,
    refuse,
    shaped,
    to_words,
    without_derivative,
)
from retrograd.differentiation.course import Course
from retrograd.differentiation.functions import ReversibleGradient, reversible_gradient
from retrograd.functions.reversible import Inverse, Reversible, tuple_of
from retrograd.isa.diagnostics import nearest

#: words that a gradient within a gradient keeps for cotangents
_KEEP = 1 << 16


def grad(f: Reversible | Inverse | Slope, argnums: Which = None, loss: int | str = 0, *, scale: int = 0) -> Slope:
    """g(*args) = ∂L/∂args, L being the value that the argument `loss` has after f(*args).

    `argnums`: positions or names; one gives a gradient by itself, several a tuple, None all that have a derivative but the loss, by
    name. The loss may be chosen too: what it holds before is an input. A gradient has the type and shape of its
    argument; that of a complex number or another struct is a struct of its fields' derivatives (∂L/∂re, ∂L/∂im: not conjugated).
    `scale` = k runs with L̄ = 2^k and divides by 2^k: k more binary places for small gradients, and as many fewer before the
    point. f may be an inverse, `~f`. Raises NotDifferentiable (a TypeError) naming an argument of another
    type than fixed or lognum, CompileError, ProgramTrap.
    Of a gradient by one number, f = rg.grad(g, "x"), it is the gradient of that, and so on: `loss` is then what f gives.
    Trap: a step of a cotangent is rounded as numbers are; in narrow formats cotangents may overflow, and trap.
    """
    return Slope(f, argnums, loss, scale)


class Slope(Derived):
    """What `grad` gives: the gradient of a function, or of another gradient."""

    def __init__(self, f: Reversible | Inverse | Slope, argnums: Which, loss: int | str, scale: int) -> None:
        #: what it stands in for as a reversible function, where that is told zeros to add the gradients inside to
        self.zeros: dict[str, float] = {}
        if isinstance(f, Slope):
            if argnums is None:
                argnums = f.numbers()
            function: Reversible | Inverse = f.reversible()
            loss = direction_of(function)[0].parameters[-1].name
            self.zeros = {**f.zeros, loss: 0.0}
        else:
            function = f
        report = _reporter(function, argnums, loss, scale)
        super().__init__("grad", function, lambda args, keywords: report(args, {**keywords, **self.zeros}).gradients)
        if isinstance(f, Slope):
            self.of, self.__name__ = f.of, f"grad({f.__name__})"
        self.function, self.argnums, self.loss, self.scale = function, argnums, loss, scale
        self.made = grad, (f, argnums, loss), {"scale": scale}
        if not isinstance(f, Slope):
            self.sought = Sought(f, argnums, loss, scale, value=False)
        #: what is differentiated, here and inside
        self.losses = {direction_of(function)[0].parameters[position(function, loss)].name}
        if isinstance(f, Slope):
            self.losses |= f.losses

    def reversible(self) -> ReversibleGradient:
        """The gradient as a reversible function. Raises NotDifferentiable unless it is one number."""
        name = self.__name__
        if not is_one(self.argnums):
            refuse(f"`{name}` gives several gradients", "differentiate one: name one argument, as in rg.grad(f, 'x')")
        x = direction_of(self.function)[0].parameters[position(self.function, self.argnums)]
        if isinstance(x.annotation, ArrayAnnotation):
            refuse(f"`{name}` gives an array, the gradient by `{x.name}`", "rg.hessian is its derivative")
        return reversible_gradient(self.function, self.argnums, self.loss, keep=_KEEP)

    def numbers(self) -> list[str]:
        """The arguments that have a derivative by what is written, but losses."""
        all_of_them = reversible_gradient(self.function, None, self.loss)
        assert all_of_them.gradient_of is not None
        names = [all_of_them.parameters[i].name for i in all_of_them.gradient_of.wanted]
        return [name for name in names if name not in self.losses]


def value_and_grad(
    f: Reversible | Inverse, argnums: Which = None, loss: int | str = 0, *, scale: int = 0
) -> Callable[..., Any]:
    """g(*args) = (L, ∂L/∂args): see `grad`."""
    report = _reporter(f, argnums, loss, scale)

    def both(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[float, Any]:
        found = report(args, keywords)
        return found.value, found.gradients

    derived = Derived("value_and_grad", f, both)
    derived.sought = Sought(f, argnums, loss, scale, value=True)
    derived.made = value_and_grad, (f, argnums, loss), {"scale": scale}
    return derived


@dataclass(frozen=True)
class GradientReport:
    """A gradient, and what it cost."""

    #: the loss
    value: float
    #: as `grad` gives them
    gradients: Any
    forward_steps: int
    backward_steps: int
    #: words of memory in use where they were most; beside each lies a cotangent
    memory_words: int
    #: of cotangents that were not zero where their ancillas were freed
    dropped_bits: int
    #: whether, back at the start, every word of the arguments was what had been loaded
    inputs_restored: bool

    @property
    def ratio(self) -> float:
        """Steps back over steps forward."""
        return self.backward_steps / self.forward_steps


def gradient_report(
    f: Reversible | Inverse, argnums: Which = None, loss: int | str = 0, *, scale: int = 0
) -> Callable[..., GradientReport]:
    """g(*args) = a GradientReport of ∂L/∂args: see `grad`."""
    derived = Derived("gradient_report", f, _reporter(f, argnums, loss, scale, watched=True))
    derived.made = gradient_report, (f, argnums, loss), {"scale": scale}
    return derived


def _reporter(
    f: Reversible | Inverse, argnums: Which, loss: int | str, scale: int, watched: bool = False
) -> Callable[[tuple[Any, ...], dict[str, Any]], GradientReport]:
    """To watch the memory takes time at each store: without it, its words are those that the program asks for."""
    chosen, at = positions(f, argnums), position(f, loss)

    def report(args: tuple[Any, ...], keywords: dict[str, Any]) -> GradientReport:
        course = Course(f, args, keywords, scale, watched)
        a = course.arguments[at]
        need_loss(f, a)
        wanted = choose(f, course.arguments, chosen, at)
        course.back(course.seeds([a.address]))
        found = {x.name: shaped(x.type, course.gradient(x)) for x in wanted}
        return GradientReport(
            course.results[at],
            by_choice(argnums, found),
            course.steps,
            course.back_steps,
            course.highest_memory,
            course.dropped_bits,
            course.restored,
        )

    return report


def need_loss(f: Reversible | Inverse, a: Argument) -> None:
    """Raise NotDifferentiable unless the argument is one fixed number."""
    if a.type == FIXED:
        return
    hint = "a loss is one fixed number"
    if without_derivative(a.type) is None:
        hint += "; rg.jacobian differentiates arrays, structs and lognums, rg.vjp takes cotangents of all results"
    refuse(f"the loss `{a.name}` of `{f.__name__}` is {a.type}", hint)


def choose(
    f: Reversible | Inverse, arguments: Sequence[Argument], chosen: Sequence[int] | None, left_out: int | None
) -> list[Argument]:
    """The arguments at the chosen positions; of None, all that have a derivative except the one left out."""
    if chosen is None:
        return [a for i, a in enumerate(arguments) if i != left_out and without_derivative(a.type) is None]
    for i in chosen:
        need_derivative(f, arguments[i].name, arguments[i].type)
    return [arguments[i] for i in chosen]


def by_choice(argnums: Which, found: Mapping[str, Any]) -> Any:
    """One thing by itself, several as a tuple, all by name: as was asked."""
    if argnums is None:
        return tuple_of("Gradients", tuple(found))(*found.values())
    return next(iter(found.values())) if is_one(argnums) else tuple(found.values())


# ---------------------------------------------------------------------- cotangents of all results


def vjp(f: Reversible | Inverse, /, *args: Any, scale: int = 0, **keywords: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(values, pullback): values as f(*args) gives them, pullback(ȳ) = Jᵀȳ, J the Jacobian of all values by all arguments.

    ȳ are cotangents ∂L/∂value: a mapping by name, or a sequence with one for each argument; None, and what a mapping
    leaves out, is zero. A struct's is a struct, or a mapping of its fields; that of a complex number may be Python's,
    ∂L/∂re + i·∂L/∂im. pullback returns the cotangents of all arguments that have a derivative, by name, each of
    the form of its argument. It may be called again: the machine goes forward and back once more.
    f may be an inverse, `~f`; `scale` as in `grad`. Raises NotDifferentiable, CompileError, ProgramTrap.
    Trap: an argument that f leaves alone is a result too, and its cotangent adds to what comes back for it.
    """
    course = Course(f, args, keywords, scale)
    wanted = choose(f, course.arguments, None, None)

    return course.results, Pullback(f, course, wanted)


class Pullback:
    """ȳ → Jᵀȳ of one run: see `vjp`."""

    def __init__(self, f: Reversible | Inverse, course: Course, wanted: Sequence[Argument]) -> None:
        self._f, self._course, self._wanted = f, course, wanted

    def __call__(self, cotangents: Any) -> Any:
        f, course = self._f, self._course
        seeds: dict[int, int] = {}
        for a, value in by_argument(f, course.arguments, cotangents):
            need_derivative(f, a.name, a.type)
            flat = flattened(a.type, value, a.name)
            words = to_words(flat, course.final_sizes(a), course.scale, course.format, a.name)
            seeds |= {a.address + i: word for i, word in enumerate(words) if word}
        course.back(seeds)
        return by_choice(None, {a.name: shaped(a.type, course.gradient(a)) for a in self._wanted})

    def __repr__(self) -> str:
        return f"<pullback of {self._f.__name__}>"


def by_argument(
    f: Reversible | Inverse, arguments: Sequence[Argument], cotangents: Any, what: str = "cotangent"
) -> list[tuple[Argument, Any]]:
    """The cotangents that are given, with their arguments; `what`: what they are called in messages."""
    names = [a.name for a in arguments]
    listed = f"the arguments of `{f.__name__}` are {', '.join(names)}"
    if hasattr(cotangents, "_asdict") and len(cotangents) != len(names):
        cotangents = cotangents._asdict()  # what a pullback returned, say, which has no place for integers
    if isinstance(cotangents, Mapping):
        for name in cotangents:
            if name not in names:
                near = nearest(str(name), names)
                hint = f"{near}; {listed}" if near else listed
                refuse(f"`{f.__name__}` has no argument {name!r:.40}, and no {what} of it", hint)
        pairs = [(a, cotangents[a.name]) for a in arguments if a.name in cotangents]
    elif isinstance(cotangents, Sequence) and not isinstance(cotangents, str | bytes):
        if len(cotangents) != len(names):
            counted = f"{len(cotangents)} {what}{'s are' if len(cotangents) != 1 else ' is'} given"
            refuse(f"{counted} for the {len(names)} arguments of `{f.__name__}`", f"write None for zero; {listed}")
        pairs = list(zip(arguments, cotangents, strict=True))
    else:
        found = type(cotangents).__name__
        refuse(f"{what}s are a mapping by name or a sequence by position, not of type {found}", listed)
    return [(a, value) for a, value in pairs if value is not None]
