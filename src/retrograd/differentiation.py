"""Gradients by running backward.

    run forward;  L̄ := 1;  run back to `start` with cotangents;  the inputs' cotangents are ∂L/∂input

Nothing is stored on the way there: on the way back the machine computes every operand again by undoing what followed. So the
memory of a gradient is that of the program, twice, however long it runs.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir import Kind
from retrograd.compiler.lower import Argument
from retrograd.compiler.types import FIXED, ArrayType, ScalarType, StructType, Type
from retrograd.execution import ProgramTrap, execute, load
from retrograd.functions import Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.marshal import bind, from_words, types_of
from retrograd.simulator.machine import Machine, Trap
from retrograd.traps import explain

Which = int | str | Sequence[int | str] | None


class NotDifferentiable(InputError, TypeError):
    """An argument that has no derivative, or no loss."""


def grad(f: Reversible, argnums: Which = None, loss: int | str = 0, *, scale: int = 0) -> Callable[..., Any]:
    """g(*args) = ∂L/∂args, L being the value that the argument `loss` has after f(*args).

    `argnums`: positions or names; one gives a gradient by itself, several a tuple, None all that have a derivative, by name. A gradient has the
    type and shape of its argument. `scale` = k runs with L̄ = 2^k and divides by 2^k: k more binary places for small
    gradients, and as many fewer before the point. Raises NotDifferentiable (a TypeError) naming an argument of another
    type than fixed or lognum, CompileError, ProgramTrap.
    Trap: a step of a cotangent is rounded as numbers are; in narrow formats cotangents may overflow, and trap.
    """

    def gradient(*args: Any, **keywords: Any) -> Any:
        return value_and_grad(f, argnums, loss, scale=scale)(*args, **keywords)[1]

    return gradient


def value_and_grad(f: Reversible, argnums: Which = None, loss: int | str = 0, *, scale: int = 0) -> Callable[..., Any]:
    """g(*args) = (L, ∂L/∂args): see `grad`."""

    def both(*args: Any, **keywords: Any) -> tuple[float, Any]:
        values = bind(f, args, keywords)
        compiled = f.compiled_for(types_of(f, values))
        at = _argument(f, compiled, loss)
        if at.type != FIXED:
            _refuse(f"the loss `{at.name}` of `{f.__name__}` is {at.type}", "a loss is one fixed number")
        chosen = _chosen(f, compiled, argnums, at)
        machine = load(compiled, values)
        execute(compiled, machine)
        value = float(compiled.format.to_real(machine.memory[at.address]))
        _run_back(compiled, machine, at.address, scale)
        found = {}
        for a in chosen:
            words = machine.memory_cotangents[a.address : a.address + a.type.size]
            original = machine.memory[a.address : a.address + a.type.size]
            found[a.name] = _gradient(a.type, words, original, compiled.format, scale)
        if argnums is None:
            return value, namedtuple("Gradients", list(found), rename=True)(*found.values())
        gradients = tuple(found.values())
        return value, gradients[0] if isinstance(argnums, int | str) else gradients

    return both


def _run_back(compiled: Compiled, machine: Machine, loss: int, scale: int) -> None:
    """Back to `start` with D = 1."""
    w = compiled.format
    if not 0 <= scale < w.width - w.frac - 1:
        _refuse(f"scale = {scale}", f"0 to {w.width - w.frac - 2} in {w}")
    machine.differentiating = True
    machine.memory_cotangents[loss] = 1 << (w.frac + scale)
    machine.turn()
    try:
        machine.run()
    except Trap as trap:
        raise ProgramTrap(explain(compiled, machine, trap), machine, trap) from None


def _refuse(message: str, hint: str) -> NoReturn:
    raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))


def _argument(f: Reversible, compiled: Compiled, which: int | str) -> Argument:
    names = [a.name for a in compiled.arguments]
    if isinstance(which, str) and which in names:
        return compiled.arguments[names.index(which)]
    if isinstance(which, int) and -len(names) <= which < len(names):
        return compiled.arguments[which]
    _refuse(f"`{f.__name__}` has no argument {which!r}", f"its arguments are {', '.join(names)}")


def _chosen(f: Reversible, compiled: Compiled, argnums: Which, loss: Argument) -> list[Argument]:
    if argnums is None:
        return [a for a in compiled.arguments if a is not loss and _integer(a.type) is None and a.type.size]
    several = [argnums] if isinstance(argnums, int | str) else list(argnums)
    chosen = [_argument(f, compiled, n) for n in several]
    for a in chosen:
        kind = _integer(a.type)
        if kind is not None:
            _refuse(
                f"`{a.name}` of `{f.__name__}` is {a.type}: {kind} has no derivative",
                "choose arguments of fixed or lognum",
            )
    return chosen


def _integer(t: Type) -> str | None:
    """What in a type has no derivative, or None."""
    match t:
        case ScalarType(kind):
            return None if kind in (Kind.FIXED, Kind.LOGNUM) else kind.value
        case ArrayType(element):
            return _integer(element)
        case StructType(_, fields):
            return next((found for _, inner in fields if (found := _integer(inner)) is not None), None)
    return str(t)


def _gradient(t: Type, words: Sequence[int], original: Sequence[int], w: Format, scale: int) -> Any:
    """Cotangent words as numbers; for a lognum x the word is ∂L/∂ln|x|, and ∂L/∂x that over x."""
    match t:
        case ScalarType(kind):
            slope = from_words(FIXED, words, w) / 2.0**scale
            return slope / from_words(t, original, w) if kind is Kind.LOGNUM else slope
        case ArrayType(ScalarType(kind), shape):
            slopes = from_words(ArrayType(FIXED, shape), words, w) / 2.0**scale
            return slopes / from_words(t, original, w) if kind is Kind.LOGNUM else slopes
        case ArrayType(StructType() as element, shape):
            import numpy as np

            out = np.empty(len(words) // element.size, dtype=object)
            for i in range(len(out)):
                part = slice(i * element.size, (i + 1) * element.size)
                out[i] = _gradient(element, words[part], original[part], w, scale)
            return out.reshape(shape)
        case StructType(cls, fields):
            found, at = {}, 0
            for name, inner in fields:
                part = slice(at, at + inner.size)
                found[name] = _gradient(inner, words[part], original[part], w, scale)
                at += inner.size
            return cls(**found)
    raise TypeError(t)
