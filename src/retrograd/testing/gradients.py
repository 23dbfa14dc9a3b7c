"""Slopes by differences, with bounds on their errors.

    D(h) = (L(x+h) − L(x−h)) / 2h = L′ + c₂h² + c₄h⁴ + …          error of rounding: σ/h

for h = h₀, h₀/2, h₀/4, …, extrapolated to h = 0 (Richardson); of all extrapolations the one with the smallest bound is taken.
σ is measured: words close together give values of L that, were it not for rounding, would lie on a parabola.
Traps: at a kink D(h) converges to the mean of both sides, so each side has its own slope; an h that leaves the domain
gives no difference.
Sources: Ridders, Adv. Eng. Software 4 (1982) 75, the table; Moré and Wild, SIAM J. Sci. Comput. 33 (2011) 1292, the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StaticType, StructType, Type, has_points
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives import value_and_grad
from retrograd.derivatives._arguments import at_scale, differentiable, loss_part, scales_of, without_derivative
from retrograd.derivatives._requests import loss_of
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError
from retrograd.isa.words import Format
from retrograd.observe._ranges import error_bound
from retrograd.presentation import shortened_text
from retrograd.runtime._binding import fields_of, types_of
from retrograd.runtime._execution import ProgramTrap, Scale, Unexplained
from retrograd.runtime._marshal import from_words, to_words
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.machine import Machine, Trap
from retrograd.simulator.stores import Store, copied
from retrograd.testing.laws import Cell, Subject, cells, differences, explained, nonzero, subject

#: L at x + k words, as a word; None where it has no value
Line = Callable[[int], int | None]

#: columns of the table: more would only extrapolate rounding
_COLUMNS = 5
#: standard deviations of the rounding that a bound allows for
_SIGMAS = 4.0


@dataclass(frozen=True)
class Slope:
    """`value` ± `bound`; an infinite bound means that there is no slope."""

    value: float
    bound: float

    def scaled(self, factor: float) -> Slope:
        return Slope(self.value * factor, self.bound * abs(factor))


@dataclass(frozen=True)
class Slopes:
    """The slope of a line through x: from both sides together, and from each."""

    central: Slope
    left: Slope
    right: Slope

    def smooth(self, slack: float = 0.0) -> bool:
        """Whether the three may be one. A kink sets the sides apart; a structure smaller than some steps can deceive all but one of them."""
        pairs = ((self.left, self.right), (self.left, self.central), (self.right, self.central))
        return all(
            math.isinf(x.bound + y.bound) or abs(x.value - y.value) <= slack + 2 * (x.bound + y.bound) for x, y in pairs
        )

    def scaled(self, factor: float) -> Slopes:
        return Slopes(self.central.scaled(factor), self.left.scaled(factor), self.right.scaled(factor))


NO_SLOPE = Slope(math.nan, math.inf)


def slopes(line: Line, here: int, steps: Sequence[int], noise: float, enough: float) -> Slopes:
    """Slopes at 0, in words of L per word of x, from steps in words, each half the one before.

    `here` = L(x), `noise` = σ in words. No more steps are taken once all bounds are below `enough`.
    """
    central, left, right = _Table(4.0, noise, 1.0), _Table(2.0, noise, 2.0), _Table(2.0, noise, 2.0)
    for h in steps:
        up, down = line(h), line(-h)
        central.add(None if up is None or down is None else (up - down) / (2 * h), h)
        right.add(None if up is None else (up - here) / h, h)
        left.add(None if down is None else (here - down) / h, h)
        if max(central.best.bound, left.best.bound, right.best.bound) < enough:
            break
    return Slopes(central.best, left.best, right.best)


class _Table:
    """Richardson's table, a row for each step; `ratio`: halving a step divides the first term of the error by it."""

    def __init__(self, ratio: float, noise: float, ends: float) -> None:
        self.ratio = ratio
        self.second = 4.0 if ratio == 4.0 else 2.0
        self.noise = _SIGMAS * noise * ends
        self.best = NO_SLOPE
        self.row: list[float] = []

    def add(self, value: float | None, h: int) -> None:
        """The next row: the difference with step h, in words."""
        if value is None:
            self.row = []
            return
        above, self.row = self.row, [value]
        power, amplified = self.ratio, 1.0
        for j, old in enumerate(above[: _COLUMNS - 1]):
            new = self.row[j] + (self.row[j] - old) / (power - 1)
            amplified *= (power + 1) / (power - 1)
            self.row.append(new)
            bound = max(abs(new - self.row[j]), abs(new - old)) + amplified * self.noise / h
            if bound < self.best.bound:
                self.best = Slope(new, bound)
            power *= self.second


def noise_of(values: Sequence[int | None]) -> float:
    """σ of the rounding in values at equal distances, at least half a word: from differences of the third order up.

    σ_k² = (k!)²/(2k)! · mean((Δ^k L)²): Δ^k takes away every polynomial below the order k, and leaves the rounding.
    """
    row: list[float] = [v for v in values if v is not None]
    if len(row) < len(values):
        return math.inf
    found = 0.5
    for k in range(1, len(row)):
        row = [b - a for a, b in pairwise(row)]
        if k >= 3 and len(row) >= 2:
            weight = math.factorial(k) ** 2 / math.factorial(2 * k)
            found = max(found, math.sqrt(weight * sum(d * d for d in row) / len(row)))
    return found


# -----------------------------------------------------------------------------
# The loss of a program at arguments near x, in its own format or in a format with more places.

#: additional binary places for differences
_FINER = 16
#: binary places of a format of 64 bits in which all functions can still be computed
_MOST = 60
#: neighbours by which the rounding of L is measured
_NEIGHBOURS = 6
#: rounding, in words, above which it is measured on the other side of x, too
_CALM = 64.0
#: rounding, in words, where it cannot be measured
_UNKNOWN = 4.0


@dataclass
class Nearby:
    """L of the program in some format, at words near x."""

    compiled: Compiled
    memory: Store
    loss: int
    noise: float = 0.5
    here: int | None = None
    #: a bound of the rounding at x, in words, which the neighbours of x may share
    functions: float = 0.0

    @staticmethod
    def of(compiled: Compiled, words: Sequence[Sequence[int]], loss: Argument) -> Nearby:
        """The program at the words of each argument."""
        machine = Machine(compiled.program)
        for a, block in zip(compiled.arguments, words, strict=True):
            machine.load(a.address, block)
        address = loss.address
        made = Nearby(compiled, copied(machine.memory.store), address)
        made.here = made.at({})
        return made

    @property
    def w(self) -> Format:
        return self.compiled.format

    def at(self, moves: dict[int, int]) -> int | None:
        """L with words moved, as an integer; None where it has no value. `rg.external` blocks are not executed."""
        machine = Machine(self.compiled.program)
        # These are words already, in the kind of store that the machine has.
        machine.memory.store[:] = self.memory
        for address, by in moves.items():
            kind = self.kinds[address]
            word, low = self.memory[address], self.w.mask if kind.is_fixed else self.w.sign - 1
            size = self.w.sign if kind.is_fixed else self.w.sign >> 1
            moved = signed(word & low, low) + by
            if not -size <= moved < size:
                return None
            machine.memory[address] = (word & ~low) | (moved & low)
        try:
            machine.run()
        except Trap:
            return None
        return self.w.signed(machine.memory[self.loss])

    @cached_property
    def kinds(self) -> dict[int, Kind]:
        """The kind of each word of an argument."""
        return {a.address + i: c.kind for a in self.compiled.arguments for i, c in enumerate(cells(a.type, a.name))}

    def measure(self, moved: Sequence[int]) -> bool:
        """Measure the rounding of L between neighbours of x; returns whether L has a value there."""
        # A jump at x is not rounding, so the side with less of it counts. Adjacent words may all be rounded alike; words at a
        # distance of 2^-(5F/8) are not, and L is still close to a parabola there.
        apart = {a: (1 << max(self.bits(a) - (self.w.frac - 3 * self.w.frac // 8), 0)) + 1 for a in moved}
        self.noise = math.inf
        for side in (1, -1):
            steps = (side * k for k in range(1, _NEIGHBOURS + 1))
            values = [self.here, *(self.at({a: k * n for a, n in apart.items()}) for k in steps)]
            self.noise = min(self.noise, noise_of(values))
            if self.noise < _CALM:
                break
        if math.isinf(self.noise):
            self.noise = _UNKNOWN
        return self.here is not None

    def bits(self, address: int) -> int:
        """The bits of the unit of steps: of 1.0, or of the number itself where it has a point of its own and its word is longer."""
        kind = self.kinds[address]
        if kind is Kind.FIXED or not kind.is_fixed:
            return self.w.frac
        return max(self.w.frac, abs(self.w.signed(self.memory[address])).bit_length())

    def slopes(self, address: int, kind: Kind, first: int, enough: float) -> Slopes:
        """∂L/∂(fixed), or ∂L/∂ln|lognum|, in words of L per word."""
        top = self.bits(address)
        last = first + self.w.frac // 2
        steps = [1 << (top - k) for k in range(first, min(last, top) + 1) if top - k < self.w.width - 2]
        per = 1.0 if kind.is_fixed else 1 / math.log(2)

        def line(k: int) -> int | None:
            return self.at({address: k})

        # Where L is the same at the greatest steps it does not depend on the word, and has no rounding that does.
        noise = max(self.noise, self.functions)
        if self.functions and all(line(side * h) == self.here for h in steps[:3] for side in (1, -1)):
            noise = 0.5
        found = slopes(line, self.here or 0, steps, noise, enough / per)
        return found.scaled(per)


def signed(word: int, low: int) -> int:
    """The low bits as a signed integer, where `low` masks them."""
    sign = (low + 1) >> 1
    return (word ^ sign) - sign


def finer(s: Subject, own: Nearby, loss: Argument, steps: int) -> Iterator[Nearby]:
    """The same in formats with more places, as long as L agrees with that in the program's own format."""
    w = s.compiled.format
    if own.here is None:
        return
    here = own.here / 2.0**w.frac
    # A value that wraps, or is cut into bits, differs by more than this.
    close = max(16 * (steps + 8) * 2.0**-w.frac, 2.0 ** -(w.frac // 2)) * max(1.0, abs(here))
    for more in (_FINER, _FINER // 2):
        # A narrow format gets its places in a wider word; a word of 64 bits loses places before the point.
        places = min(_MOST, w.frac + max(more, 64 - w.width))
        if places <= w.frac:
            return
        format = Format(64, places)
        try:
            compiled = s.function.compiled_for(types_of(s.function, s.values), format)
            words = []
            for a in compiled.arguments:
                own_words = own.memory[a.address : a.address + a.type.size]
                kinds = (cell.kind for cell in cells(a.type, a.name))
                words.append([_widened(word, kind, w, format) for word, kind in zip(own_words, kinds, strict=True)])
        except (RetrogradError, OverflowError):
            continue
        made = Nearby.of(compiled, words, loss)
        if made.here is not None and abs(made.here / 2.0**places - here) <= close:
            yield made


def _widened(word: int, kind: Kind, w: Format, to: Format) -> int:
    """The same value in another format. Raises OverflowError."""
    up = to.frac - w.frac
    match kind:
        case Kind.FIXED:
            value, low = w.signed(word) << up, to.sign
        case Kind.LOGNUM:
            value, low = signed(word & (w.sign - 1), w.sign - 1) << up, to.sign >> 1
        case _:
            return w.signed(word) & to.mask
    if not -low <= value < low:
        raise OverflowError
    if kind is Kind.LOGNUM:
        return (value & (to.sign - 1)) | (to.sign if word & w.sign else 0)
    return value & to.mask


# -----------------------------------------------------------------------------
# The law of the gradient: it agrees with differences of the same program.

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
    with 16 more places where both formats agree, else in its own, as where an argument has a binary point of its own;
    differences and tolerance are then of words. `bound`: the uncertainty of the differences, for the best of h = 2^-5, 2^-6, …
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
    pointed = any(has_points(a.type) for a in s.compiled.arguments)
    lost = loss_part(f, loss)
    at = loss_of(differentiable(f, scale, loss=loss), s.compiled)
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
    assert isinstance(at.type, ScalarType)
    of_loss = at.type.kind.point(w)
    if own.here is None or float(w.at(of_loss).to_real(own.here)) != value:
        s.broken("RG0902", f"`{at.name}` is {own.here} words after `{s.name}`, and value_and_grad says {value}")
    # Ints and bools of structs, lists and data classes are not varied.
    moved = [address for cell, address, _ in found if cell.kind.is_real]
    # Another format does not move the points that numbers have of their own.
    others = iter(()) if pointed else finer(s, own, at, steps)
    line = next((d for d in others if d.measure(moved)), None)
    if line is None:
        line = own
        own.measure(moved)
        if pointed:
            # A function computes at F, which may be far coarser than the point of L; its errors near x are much alike.
            with suppress(ProgramTrap):
                bound = error_bound(f, *s.values, loss=loss, precision="ignore")
                own.functions = math.ldexp(bound.bound - bound.arguments, of_loss)
    largest = max([1.0, *(abs(g) / _unit(cell.kind, of_loss, w) for cell, _, g in found)])
    allowed = (steps + 8) * 2.0**-w.frac * largest if tolerance is None else tolerance
    noise = 0.0 if line is own else abs((line.here or 0) / 2.0**line.w.frac - value)
    amplified = noise > (steps + 8) * 2.0**-w.frac * max(1.0, abs(value))
    judge = _Judge(s, line, allowed, tolerance is None, names, loss, amplified, of_loss)
    first = _FIRST if step is None else round(-math.log2(step))
    elements = tuple(
        judge.element(i, cell, address, g, first) for i, (cell, address, g) in enumerate(found) if cell.kind.is_real
    )
    return GradientComparison(value, steps, line.w, elements)


def _unit(kind: Kind, of_loss: int, w: Format) -> float:
    """∂L/∂x over the slope in words: 2^(p − q) for x at the point p and a loss at q; 1 without points of their own."""
    return 2.0 ** (kind.numbers(w).frac - of_loss)


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

    before, machine = at_scale(scales_of(scale, s.compiled), returned)
    wrong = differences(s.compiled, before, machine.memory.store) + nonzero(machine.registers)
    if wrong:
        s.broken("RG0901", f"after `{s.name}` and back with cotangents: " + "; ".join(wrong))
    return machine.retired


# ---------------------------------------------------------------------- verdicts


@lru_cache(maxsize=64)
def _version(function: Reversible, format: Format) -> Reversible:
    """The function in another format, compiled once."""
    return function.with_options(format=format)


class _Judge:
    """Compares gradients with differences, both in words of the loss per word."""

    def __init__(
        self,
        s: Subject,
        line: Nearby,
        allowed: float,
        default: bool,
        names: list[str],
        loss: int | str,
        amplified: bool,
        of_loss: int,
    ) -> None:
        self.s, self.line, self.allowed = s, line, allowed
        self.default = default
        self.of_loss = of_loss
        #: ∂L/∂x over the slope in words, of the element that is judged
        self.unit = 1.0
        self.names, self.loss = names, loss
        #: whether L itself is off by more than as many roundings as there are steps
        self.amplified = amplified
        self._gradients: dict[Format, list[float] | None] = {}

    def element(self, index: int, cell: Cell, address: int, gradient: float, first: int) -> GradientElement:
        """The verdict on one element. Raises LawBroken."""
        self.unit = _unit(cell.kind, self.of_loss, self.s.compiled.format)
        gradient /= self.unit
        per = 1.0
        if cell.kind is Kind.LOGNUM:
            w = self.line.w
            word = self.line.memory[address]
            per = 2.0 ** -(signed(word & (w.sign - 1), w.sign - 1) / 2.0**w.frac) * (-1 if word & w.sign else 1)
        allowed = self.allowed * max(1.0, abs(per)) if self.default else self.allowed / self.unit
        found = self.line.slopes(address, cell.kind, first, allowed / 4 / abs(per)).scaled(per)
        c, left, right = found.central, found.left, found.right

        def made(note: str = "") -> GradientElement:
            u = self.unit
            both = c.value * u, c.bound * u
            return GradientElement(cell.name, gradient * u, *both, left.value * u, right.value * u, note)

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
                f"and the gradient {gradient * self.unit:.10g} is the slope of neither side",
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
        if any(has_points(a.type) for a in self.s.compiled.arguments):
            return False  # another format does not move these points
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
        gradient, c, allowed = gradient * self.unit, c.scaled(self.unit), allowed * self.unit
        self.s.broken(
            code,
            f"the gradient of `{self.s.name}` by `{cell.name}` is {gradient:.12g}, and differences say {c.value:.12g} ± {c.bound:.1g}: "
            f"{abs(gradient - c.value):.2g} off, where {allowed:.1g} is allowed{more}",
        )

    def told(self, slope: Slope, allowed: float) -> str:
        """A slope in words."""
        if math.isinf(slope.bound):
            return "none"
        shown = slope.scaled(self.unit)
        return f"{shown.value:.10g} ± {shown.bound:.1g}" if self.converged(slope, allowed) else "unsettled"
