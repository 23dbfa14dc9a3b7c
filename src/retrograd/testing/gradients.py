"""The law of the gradient: it agrees with differences of the same program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StaticType, StructType, Type
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives import value_and_grad
from retrograd.derivatives._arguments import REAL, Scale, at_scale, loss_part, scales_of, without_derivative
from retrograd.derivatives._requests import need_loss
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.isa.words import Format
from retrograd.presentation import shortened_text
from retrograd.runtime._binding import fields_of
from retrograd.runtime._execution import Unexplained
from retrograd.runtime._marshal import from_words, to_words
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.machine import Machine, Trap
from retrograd.testing.laws import Cell, Subject, cells, differences, explained, nonzero, subject
from retrograd.testing.nearby import Nearby, finer, signed
from retrograd.testing.slopes import Slope

#: the first h is 2^-5 by default
_FIRST = 5
#: a difference whose bound is larger than this part of it has not converged
_CONVERGED = 2.0**-10
#: an error of a gradient in a finer format that may be amplified rounding
_SMALL = 2.0**-29


@dataclass(frozen=True)
class GradientElement:
    """∂L/∂name by the gradient program, and by differences ± bound, with a note on special cases."""

    name: str
    gradient: float
    difference: float
    bound: float
    left: float
    right: float
    note: str = ""


@dataclass(frozen=True)
class GradientComparison:
    """A gradient that agrees with differences, element by element; the differences were computed in `format`."""

    value: float
    steps: int
    format: Format
    elements: tuple[GradientElement, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """`name`: the note, for each element that has a note."""
        return tuple(f"`{e.name}`: {e.note}" for e in self.elements if e.note)

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        rows = [f"L = {self.value}, differences in {self.format}"]
        rows += [
            f"{e.name}: {e.gradient:.10g}, by differences {e.difference:.10g} ± {e.bound:.1g} {e.note}".rstrip()
            for e in self.elements
        ]
        return "\n".join(rows)


def check_gradient(
    f: Reversible | Inverse,
    /,
    *args: Any,
    loss: int | str = 0,
    argnums: int | str | Sequence[int | str] | None = None,
    tolerance: float | None = None,
    step: float | None = None,
    scale: Scale = "auto",
    **keywords: Any,
) -> GradientComparison:
    """|∂L/∂x − (L(x+h) − L(x−h)) / 2h| ≤ tolerance + bound(h), and the run back with cotangents ends at x, bit for bit.

    For every element of the arguments `argnums` (None: all that have a derivative, except the loss). L is the program's value, in a format
    with 16 more places where both formats agree, else in its own. `bound`: the uncertainty of the differences, for the best of h = 2^-5, 2^-6, …
    (`step`: the first h). A lognum is varied by factors. `tolerance` None: the rounding of all executed steps, 2^-F each,
    relative to the largest gradient. An error up to 2^-(F/2) that vanishes in the finer format is rounding, and passes with a note.
    Trap: a kink has two slopes; the gradient may be either, and passes with a note.

    Raises LawBroken RG0902 naming the element, with gradient, difference and bound; RG0903 where the differences do not
    converge and the gradient is neither side's slope; RG0906 where rounding has taken too much of the gradient; RG0901 where the run back does not end at x. ProgramTrap,
    NotDifferentiable, CompileError, InputError.
    """
    if isinstance(f, Inverse):
        _refuse(f"`{f.__name__}` is an inverse", "Write a reversible function that uncalls it, and differentiate that.")
    s = subject(f, args, keywords)
    lost = loss_part(f, loss)
    at = need_loss(f, lost, s.compiled.arguments)
    chosen = _chosen(s, argnums, lost.position)
    names = [a.name for a in chosen]
    value, gradients = value_and_grad(f, names, loss, scale=scale)(*s.values)
    steps = _run_back(s, at, scale)
    found = [
        (cell, address, gradient)
        for a, g in zip(chosen, gradients, strict=True)
        for cell, address, gradient in zip(
            cells(a.type, a.name), range(a.address, a.address + a.type.size), _flat(a.type, g), strict=True
        )
    ]
    w = s.compiled.format
    own = Nearby.of(
        s.compiled, [to_words(a.type, v, w, a.name) for a, v in zip(s.compiled.arguments, s.values, strict=True)], at
    )
    if own.here is None or float(w.to_real(own.here)) != value:
        s.broken("RG0902", f"`{at.name}` is {own.here} words after `{s.name}`, and value_and_grad says {value}")
    # Ints and bools of structs, lists and data classes are not varied.
    moved = [address for cell, address, _ in found if cell.kind in REAL]
    line = next((d for d in finer(s, own, at, steps) if d.measure(moved)), None)
    if line is None:
        line = own
        own.measure(moved)
    largest = max([1.0, *(abs(g) for _, _, g in found)])
    allowed = (steps + 8) * 2.0**-w.frac * largest if tolerance is None else tolerance
    noise = abs((line.here or 0) / 2.0**line.w.frac - value)
    amplified = noise > (steps + 8) * 2.0**-w.frac * max(1.0, abs(value))
    judge = _Judge(s, line, allowed, tolerance is None, names, loss, amplified)
    first = _FIRST if step is None else round(-math.log2(step))
    elements = tuple(
        judge.element(i, cell, address, g, first) for i, (cell, address, g) in enumerate(found) if cell.kind in REAL
    )
    return GradientComparison(value, steps, line.w, elements)


# ---------------------------------------------------------------------- arguments


def _refuse(message: str, hint: str) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))


def _find(s: Subject, which: int | str) -> Argument:
    """An argument that value_and_grad has accepted."""
    arguments = s.compiled.arguments
    return arguments[which] if isinstance(which, int) else next(a for a in arguments if a.name == which)


def _chosen(s: Subject, argnums: int | str | Sequence[int | str] | None, loss: int) -> list[Argument]:
    arguments = s.compiled.arguments
    if argnums is not None:
        several = [argnums] if isinstance(argnums, int | str) else list(argnums)
        names = {a.name for a in arguments}
        for which in several:
            if which not in names if isinstance(which, str) else not -len(arguments) <= which < len(arguments):
                _refuse(f"`{s.name}` has no argument {which!r}", f"its arguments are {', '.join(sorted(names))}")
        return [_find(s, which) for which in several]
    chosen = [a for i, a in enumerate(arguments) if i != loss and a.type.size and without_derivative(a.type) is None]
    if not chosen:
        _refuse(
            f"`{s.name}` has no argument with a derivative besides the loss",
            "Name arguments of fixed or lognum in `argnums`.",
        )
    return chosen


def _flat(t: Type, gradient: Any) -> list[float]:
    """The elements of a gradient in the order of its argument's words."""
    match t:
        case ScalarType():
            return [float(gradient)]
        case ArrayType(ScalarType()):
            return [float(g) for g in np.ravel(gradient)]
        case ArrayType(element):
            return [x for g in np.ravel(gradient) for x in _flat(element, g)]
        case FormType():
            numbers = t.structure.encoded(gradient, "gradient").numbers
            return [*numbers, *[0.0] * (t.size - len(numbers))]
        case StructType(_, fields):
            given: dict[str, Any] | None
            if isinstance(gradient, complex | np.complexfloating):
                given = {"re": gradient.real, "im": gradient.imag}
            else:
                given = fields_of(t, gradient)
            assert given is not None
            return [x for name, inner in fields for x in _flat(inner, given[name])]
        case StackType() | StaticType():
            return [0.0] * t.size


# ---------------------------------------------------------------------- the run back


def _run_back(s: Subject, at: Argument, scale: Scale) -> int:
    """Run forward, and back in differentiation mode; returns the steps of both. Raises LawBroken unless it ends at x."""

    def returned(k: int, last: bool) -> tuple[list[int], Machine]:
        machine = s.machine()
        before = list(machine.memory)
        s.run(machine)
        machine.differentiating = True
        machine.memory_cotangents[at.address] = 1 << (machine.format.frac + k)
        machine.turn()
        try:
            machine.run()
        except Trap as trap:
            if not last:
                raise Unexplained from None
            s.broken("RG0901", f"`{s.name}` does not run back with cotangents", trap=explained(s, machine, trap))
        return before, machine

    before, machine = at_scale(scales_of(scale, s.compiled.format), returned)
    wrong = differences(s.compiled, before, machine.memory) + nonzero(machine.registers)
    if wrong:
        s.broken("RG0901", f"after `{s.name}` and back with cotangents: " + "; ".join(wrong))
    return machine.retired


# ---------------------------------------------------------------------- verdicts


@lru_cache(maxsize=64)
def _version(function: Reversible, format: Format) -> Reversible:
    """The function in another format, compiled once."""
    return function.with_options(format=format)


class _Judge:
    """Compares gradients with differences."""

    def __init__(
        self,
        s: Subject,
        line: Nearby,
        allowed: float,
        default: bool,
        names: list[str],
        loss: int | str,
        amplified: bool,
    ) -> None:
        self.s, self.line, self.allowed = s, line, allowed
        self.default = default
        self.names, self.loss = names, loss
        #: whether L itself is off by more than as many roundings as there are steps
        self.amplified = amplified
        self._gradients: dict[Format, list[float] | None] = {}

    def element(self, index: int, cell: Cell, address: int, gradient: float, first: int) -> GradientElement:
        """The verdict on one element. Raises LawBroken."""
        per = 1.0
        if cell.kind is Kind.LOGNUM:
            w = self.line.w
            word = self.line.memory[address]
            per = 2.0 ** -(signed(word & (w.sign - 1), w.sign - 1) / 2.0**w.frac) * (-1 if word & w.sign else 1)
        allowed = self.allowed * (max(1.0, abs(per)) if self.default else 1.0)
        found = self.line.slopes(address, cell.kind, first, allowed / 4 / abs(per)).scaled(per)
        c, left, right = found.central, found.left, found.right

        def made(note: str = "") -> GradientElement:
            return GradientElement(cell.name, gradient, c.value, c.bound, left.value, right.value, note)

        # A pole nearer than every step looks smooth from both sides together, and from neither alone.
        steady = all(math.isinf(side.bound) or self.converged(side, allowed) for side in (left, right))
        if not found.smooth(allowed) or not steady or not self.converged(c, allowed):
            sides = [
                side
                for side, slope in (("left", left), ("right", right))
                if self.converged(slope, allowed) and abs(gradient - slope.value) <= allowed + slope.bound
            ]
            one_sided = f"one-sided: left {self.told(left, allowed)}, right {self.told(right, allowed)}"
            if sides:
                return made(f"no slope from both sides here; the gradient is that from the {sides[0]} ({one_sided})")
            self.s.broken(
                "RG0903",
                f"the differences of `{self.s.name}` by `{cell.name}` do not converge ({one_sided}), "
                f"and the gradient {gradient:.10g} is the slope of neither side",
            )
        off, own = abs(gradient - c.value), self.s.compiled.format
        if not self.default:
            if off > allowed + c.bound:
                self.broken("RG0902", cell, gradient, c, allowed)
            return made()
        fine = self.gradient(self.line.w) if self.line.w != own else None
        if fine is None:
            if off > allowed + c.bound:
                rounding = self.amplified or self.grows(index, c, own, off)
                self.broken("RG0906" if rounding else "RG0902", cell, gradient, c, allowed)
            return made()
        # Rounding shrinks by 2^-16 in a format with 16 more places; an error of the gradient stays.
        most = max(allowed, 2.0 ** -(own.frac // 2) * max(1.0, abs(fine[index]), abs(per)))
        less = max(most * 2.0 ** (own.frac - self.line.w.frac), min(allowed, _SMALL))
        left_over = abs(fine[index] - c.value)
        if left_over > less + c.bound:
            rounding = self.amplified or self.grows(index, c, self.line.w, left_over)
            where = f" in {self.line.w}, where rounding is less than in {own}"
            self.broken("RG0906" if rounding else "RG0902", cell, fine[index], c, less, where)
        if off > most + c.bound:
            rounding = self.amplified or self.grows(index, c, own, off) or self.stays(index, c, own, off)
            where = f"; in {self.line.w} it is {fine[index]:.12g}"
            self.broken("RG0906" if rounding else "RG0902", cell, gradient, c, most, where)
        return made("" if off <= allowed + c.bound else f"{off:.1g} off by rounding in {own}")

    # Rounding shows in other formats, too: larger where there are fewer places, and not gone with two places more.

    def grows(self, index: int, c: Slope, w: Format, off: float) -> bool:
        """Whether the error is larger in formats with fewer places, as that of rounding is."""
        nearby = ((4.0 ** (d // 4), self.gradient(Format(64, w.frac - d))) for d in (4, 8) if w.frac - d >= 2)
        return any(found is not None and abs(found[index] - c.value) >= factor * off for factor, found in nearby)

    def stays(self, index: int, c: Slope, w: Format, off: float) -> bool:
        """Whether there is an error of that kind with a few more places, as where nothing is left to round."""
        nearby = (self.gradient(Format(64, w.frac + d)) for d in (2, 4) if w.frac + d <= 60)
        return any(found is not None and abs(found[index] - c.value) >= off / 1024 for found in nearby)

    def converged(self, slope: Slope, allowed: float) -> bool:
        """Whether a slope is known well enough to judge by."""
        return slope.bound <= max(allowed, _CONVERGED * max(1.0, abs(slope.value)))

    def gradient(self, format: Format) -> list[float] | None:
        """The gradient in another format, element by element; None where it does not fit."""
        if format not in self._gradients:
            s = self.s
            # As their words say them: a finer format would not round them.
            values = [
                from_words(a.type, to_words(a.type, v, s.compiled.format, a.name), s.compiled.format)
                for a, v in zip(s.compiled.arguments, s.values, strict=True)
            ]
            types = {a.name: a.type for a in s.compiled.arguments}
            try:
                _, found = value_and_grad(_version(s.function, format), self.names, self.loss)(*values)
            except RetrogradError:
                self._gradients[format] = None
            else:
                flat = (x for name, g in zip(self.names, found, strict=True) for x in _flat(types[name], g))
                self._gradients[format] = list(flat)
        return self._gradients[format]

    def broken(self, code: str, cell: Cell, gradient: float, c: Slope, allowed: float, more: str = "") -> None:
        self.s.broken(
            code,
            f"the gradient of `{self.s.name}` by `{cell.name}` is {gradient:.12g}, and differences say {c.value:.12g} ± {c.bound:.1g}: "
            f"{abs(gradient - c.value):.2g} off, where {allowed:.1g} is allowed{more}",
        )

    def told(self, slope: Slope, allowed: float) -> str:
        """A slope in words."""
        if math.isinf(slope.bound):
            return "none"
        return f"{slope.value:.10g} ± {slope.bound:.1g}" if self.converged(slope, allowed) else "unsettled"
