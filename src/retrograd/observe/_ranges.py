"""`rg.error_bound`: the rounding error of a result, by running backward.

    |error| ≤ Σ |∂L/∂rᵢ|·eᵢ + |Σ ∂L/∂xⱼ·(x̃ⱼ − xⱼ)| + Σ |∂L/∂cₖ·(c̃ₖ − cₖ)|
              rᵢ: result of instruction i, wrong by at most eᵢ; x̃ⱼ, c̃ₖ: the words of the argument xⱼ and of the constant cₖ

The cotangent ∂L/∂rᵢ is in the machine when the way back undoes instruction i, so no tape of the rᵢ is kept. An uncompute block rounds
as its compute block did, and its ancillas have no cotangents, so their roundings do not count twice. The program is
compiled to be recorded (`Options.recorded`): constants are read from memory, so that their cotangents are there at the end, and no pass folds
a rounded number. Each number is rounded at its own binary point. The machine's cotangents are those of words, r = rᵢ·2^pᵢ and L·2^q, so

    |∂L/∂rᵢ|·eᵢ = |∂(L·2^q)/∂r| · units · 2^−q          whatever pᵢ is, where eᵢ = units · 2^−pᵢ

Source: first-order error analysis by reverse accumulation: S. Linnainmaa, Taylor expansion of the accumulated rounding error,
BIT 16 (1976), 146–160.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.frontends.constants import SourceConstant
from retrograd.compiler.ir.expressions import precise
from retrograd.compiler.ir.instruction_selection import is_rounded
from retrograd.compiler.ir.statements import Kind, Op, Region, Var, fixed_at
from retrograd.compiler.language.types import ScalarType, has_points
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import at_scale, differentiable, flattened, kinds, without_derivative
from retrograd.derivatives._gradients import LossFunction
from retrograd.derivatives._requests import WayBack, derivative_traps, way_back
from retrograd.isa import points
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, Span, api_boundary, markup
from retrograd.isa.encoding import Instruction
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.program import Program, VariableLocation
from retrograd.isa.words import WIDTHS, Format, format_of, numbers_of
from retrograd.observe._variables import elements
from retrograd.presentation import columns, html_table, shortened_text
from retrograd.runtime._arrays import real_of
from retrograd.runtime._binding import lognum
from retrograd.runtime._execution import ProgramTrap, Request, execute
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, Reversible, request_of
from retrograd.simulator.machine import Machine

#: roots of expression trees that are exact and then rounded to nearest
_ROUNDED = ("mulround", "divround", "sqrtround")
#: error of either component of a rotated vector, in units
_ROTATED = 2.0
#: a kind with a point of its own has it in every format
_ANY = Format()


class _Number(NamedTuple):
    """A number that is given and not computed: itself, its cotangent, the error of its word in the result.

    Then the point of its word, None for a lognum; whether another format moves the point; the place.
    """

    value: float
    cotangent: float
    error: float
    point: int | None
    moves: bool
    span: Span | None


@dataclass(frozen=True)
class LineShare:
    """The share of a line in the error: `bound`, and the number of roundings with a cotangent that is not zero, its constants included.

    `point`: the binary point of the numbers of the line whose roundings have the greatest share.
    """

    file: str
    line: int
    bound: float
    roundings: int
    point: int


@dataclass(frozen=True)
class ErrorBound:
    """The first-order bound of the rounding error of a result: see `error_bound`."""

    function: str
    loss: str
    format: Format
    #: the result of the run
    value: float
    #: the greatest error, where all roundings have the worst size and sign
    bound: float
    #: the root mean square, where the roundings of the run are independent and uniform
    likely: float
    #: the part of the bound that the conversion of the arguments to words gives: it is known, and not only bounded
    arguments: float
    #: the lines by their shares, the greatest first
    lines: tuple[LineShare, ...] = field(default=())
    #: the part of the bound that the roundings of computed numbers give
    _computed: float = field(default=0.0, repr=False)
    #: the arguments, and the constants that some format rounds
    _given: tuple[_Number, ...] = field(default=(), repr=False)
    _constants: tuple[SourceConstant, ...] = field(default=(), repr=False)

    def fits(self, tolerance: float) -> Format:
        """The format of the same width whose fraction is the shortest for which the bound is at most `tolerance`.

            F → F + k, and p → p + k for each number with a point p of its own

        In another format each computed number is rounded in proportion to its last place, and the error of each argument and
        constant is that of its own word there. No constant of the source is 0 in the format.
        Trap: fewer bits before the point hold smaller numbers: `rg.ranges` measures the bits that they need.
        Raises InputError RG0604 where this width has no such format, or the tolerance is not positive.
        """
        w = self.format
        if 0 < tolerance < math.inf:
            for frac, bound in enumerate(self._bounds()):
                other = Format(w.width, frac)
                if bound <= tolerance and all(_moved(c, frac - w.frac).compiles(other) for c in self._constants):
                    return other
        message = f"no format of {w.width} bits has errors up to {tolerance:.4g}"
        raise InputError(Diagnostic("RG0604", message, hint=f"the bound in {w} is {self.bound:.3g}"))

    def _bounds(self) -> Iterator[float]:
        """The bounds in the formats of the same width, from the coarsest. In other formats, errors of arguments do not cancel."""
        own = self.format.frac
        fixed = [x for x in self._given if x.point is not None]
        numbers = np.array([(x.value, abs(x.cotangent)) for x in fixed]).reshape(-1, 2)
        points, moves = np.array([(x.point, x.moves) for x in fixed], dtype=np.int64).reshape(-1, 2).T
        logarithms = math.fsum(abs(x.cotangent) for x in self._given if x.value and x.point is None) * math.log(2) / 2
        units = math.ldexp(self._computed, self.format.frac) + logarithms
        for frac in range(self.format.width):
            at = points + (frac - own) * moves
            scaled = np.ldexp(numbers[:, 0], at)
            errors = np.ldexp(np.abs(scaled - np.rint(scaled)), -at)
            other = math.ldexp(units, -frac) + float(errors @ numbers[:, 1])
            yield self.bound if frac == own else other

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return own | {"format": str(self.format), "lines": [vars(line) for line in self.lines]}

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        head = f"{self.loss} = {self.value:.10g} in {self.format}, rounding error at most {self.bound:.3g}, likely {self.likely:.3g}"
        own = any(x.point != self.format.frac for x in self.lines)
        rows = [
            f"  line {x.line}: {x.bound:.3g} ({x.roundings} rounding{'s' * (x.roundings != 1)}{own * f', {_pointed(x.point)}'})"
            for x in self.lines
            if x.bound
        ]
        if self.arguments:
            rows.append(f"  arguments: {self.arguments:.3g}")
        return "\n".join([head, *rows])


@api_boundary
def error_bound(
    f: Reversible | Inverse,
    /,
    *args: Any,
    loss: int | str = 0,
    format: Format | str | None = None,
    precision: Precision | None = None,
    max_steps: int | None = None,
    **keywords: Any,
) -> ErrorBound:
    """The rounding error of f's result `loss` at these arguments, to first order: Σ |∂L/∂rᵢ|·eᵢ over the roundings of the run.

    eᵢ is half a unit in the last place for products, quotients and roots, one unit for functions, two for rotations. Arguments and
    constants of the source count by the known errors of their words: the number that Python has for the text is exact.
    Trap: the bound is of first order, and of the branches that the run took: a comparison of nearly equal numbers may go the other way.
    One run forward and at most six back in Q32.32, on the reference machine, at about 10⁵ steps a second.
    Raises CompileError, InputError, NotDifferentiable, ProgramTrap.

        >>> rg.error_bound(norm, 0.0, [3.0, 4.0], loss="out").bound
    """
    run = differentiable(f, engine="reference", format=format, precision=precision, loss=loss)
    run = replace(run, options=replace(run.options or run.function.options, recorded=True))
    values = run.values(args, keywords)
    turned = way_back(run, values)
    compiled, w = turned.compiled, turned.compiled.format
    assert isinstance(turned.loss.type, ScalarType)
    of_loss = turned.loss.type.kind.numbers(w)
    first = run.machine(compiled, values)
    execute(compiled, first, max_steps)
    value = real_of(first.memory[turned.loss.address], "fixed", of_loss)

    def attempt(scale: int) -> tuple[_Roundings, Machine]:
        machine = run.machine(compiled, values)
        execute(compiled, machine, max_steps)
        WayBack(compiled, turned.loss, 1 << (w.frac + scale)).begin(machine)
        found = _Roundings(compiled, of_loss.frac, scale)
        execute(compiled, machine, max_steps, found.observer(), externals=False)
        return found, machine

    # At the last scale the cotangent of the loss begins as 2^8 units, or fewer where a word is no longer.
    highest = w.width - w.frac - 2
    last = min(8 - w.frac, highest)
    others = range(highest, last, -8)
    for scale in others:
        try:
            found, machine = attempt(scale)
            break
        except (ProgramTrap, InputError):
            # A cotangent is too great at this scale; the cotangent of a constant is often the first.
            pass
    else:
        hint = "Scale the loss, or give the numbers of this line more bits before the point."
        with derivative_traps(compiled, values, run.backward, f"running back, cotangent overflow in {w}", hint):
            found, machine = attempt(last)
    arguments = [x for a, v in zip(compiled.arguments, values, strict=True) for x in found.of_argument(a, v, machine)]
    constants = found.constants(compiled.lowered.module.regions, machine)
    converted = math.fsum(x.error for x in arguments)
    lines = found.lines()
    computed = math.fsum(error for error, _ in lines.values())
    points = found.points_of_lines()
    for x in constants:
        if x.error:
            key = ("", 0) if x.span is None else (x.span.file, x.span.line)
            total, count = lines.get(key, (0.0, 0))
            lines[key] = total + abs(x.error), count + 1
            points.setdefault(key, w.frac if x.point is None else x.point)
    known = math.hypot(converted, *(x.error for x in constants))
    return ErrorBound(
        f.__name__,
        turned.loss.name,
        w,
        float(value),
        math.fsum(error for error, _ in lines.values()) + abs(converted),
        math.hypot(math.sqrt(found.squares / 3), known),
        abs(converted),
        tuple(sorted((LineShare(*k, *shares, points[k]) for k, shares in lines.items()), key=lambda line: -line.bound)),
        computed,
        (*arguments, *constants),
        compiled.lowered.constants,
    )


class _Roundings:
    """The roundings that a way back has passed, with their cotangents."""

    def __init__(self, compiled: Compiled, of_loss: int, scale: int) -> None:
        self._program, self._w = compiled.program, compiled.format
        self._units = [0.0 if _is_exact(i) else units_of(i.opcode) for i in self._program.instructions]
        self._logarithmic = [i.opcode.group == "lognum" for i in self._program.instructions]
        self._points = _Points(compiled)
        #: a cotangent's word of 1 unit, as a derivative of the loss's word by a word
        self._unit = 2.0 ** -(self._w.frac + scale)
        #: the point of the loss
        self._of_loss = of_loss
        self._last_place = 2.0**-of_loss
        self._shares: dict[int, tuple[float, int]] = {}
        #: Σ (|∂L/∂r|·e)²
        self.squares = 0.0

    def observer(self) -> Callable[[Machine, int], None]:
        """The function that the way back calls after each step."""
        instructions, units, signed = self._program.instructions, self._units, self._w.signed
        mask = self._w.mask

        def observe(machine: Machine, pc: int) -> None:
            i, error = instructions[pc], units[pc]
            if not error:
                return
            cotangents = machine._cotangents
            assert cotangents is not None
            if i.opcode.entry.name == "rot":
                # The rotation back keeps the length of the vector of cotangents.
                d, a = (signed(int(cotangents.registers[r])) for r in (i.rd, i.ra))
                c = math.sqrt(2) * math.hypot(d, a)
            elif "m" in i.opcode.writes:
                c = signed(int(cotangents.memory[(int(machine._registers[i.ra]) + i.imm) & mask]))
            else:
                c = signed(int(cotangents.registers[i.rd]))
            if c:
                self._add(pc, abs(c) * self._unit * error * self._last_place)

        return observe

    def _add(self, pc: int, error: float) -> None:
        error *= math.log(2) if self._logarithmic[pc] else 1.0
        total, count = self._shares.get(pc, (0.0, 0))
        self._shares[pc] = total + error, count + 1
        self.squares += error * error

    def constants(self, regions: Sequence[Region], machine: Machine) -> list[_Number]:
        """The numbers of the source that some format rounds; the machine has run back to its beginning."""
        out = []
        for region in regions:
            if region.exact is not None:
                assert region.address is not None
                kind, numbers = region.exact
                # A factor of the source, and an array, keep their bits at a point that does not depend on the format.
                moves = kind is Kind.FIXED or (len(numbers) == 1 and precise(numbers[0], self._w).kind is not kind)
                for at, x in enumerate(numbers, region.address):
                    out.append(self._number(x, kind, at, machine, moves, region.span))
        return out

    def of_argument(self, a: Argument, value: Any, machine: Machine) -> list[_Number]:
        """The numbers of an argument; the machine has run back to its beginning."""
        if without_derivative(a.type) is not None:
            return []
        given: Sequence[float] = np.ravel(flattened(a.type, value, a.name, lenient=True)).tolist()
        return [
            self._number(Fraction(x), kind, at, machine)
            for at, (kind, x) in enumerate(zip(kinds(a.type), given, strict=True), a.address)
            if kind.is_real
        ]

    def _number(
        self, x: Fraction, kind: Kind, at: int, machine: Machine, moves: bool = True, span: Span | None = None
    ) -> _Number:
        w, word = self._w, machine.memory[at]
        assert machine._cotangents is not None
        c = w.signed(int(machine._cotangents.memory[at])) * self._unit
        if kind.is_fixed:
            point = kind.point(w)
            c *= 2.0 ** (point - self._of_loss)
            return _Number(float(x), c, c * float(w.at(point).to_real(word) - x), point, moves, span)
        # A lognum's cotangent is that of its logarithm's natural multiple: of its relative error.
        c *= 2.0 ** (w.frac - self._of_loss)
        error = c * float(Fraction(float(lognum.to_reals(word, w))) / x - 1) if x else 0.0
        return _Number(float(x), c, error, None, True, span)

    def lines(self) -> dict[tuple[str, int], tuple[float, int]]:
        """(file, line) -> (bound, roundings)."""
        out: dict[tuple[str, int], tuple[float, int]] = {}
        for pc, (error, count) in self._shares.items():
            span = self._program.source.span(pc)
            key = ("", 0) if span is None else (span.file, span.line)
            total, counted = out.get(key, (0.0, 0))
            out[key] = total + error, counted + count
        return out

    def points_of_lines(self) -> dict[tuple[str, int], int]:
        """(file, line) -> the point of its numbers whose roundings have the greatest share."""
        greatest: dict[tuple[str, int], tuple[float, int]] = {}
        for pc, (error, _) in self._shares.items():
            span, i = self._program.source.span(pc), self._program.instructions[pc]
            key = ("", 0) if span is None else (span.file, span.line)
            point = self._points.at[pc].get(i.rd)
            if key not in greatest or error > greatest[key][0]:
                greatest[key] = error, self._w.frac if point is None else point
        return {key: point for key, (_, point) in greatest.items()}


def _is_exact(i: Instruction) -> bool:
    """Whether an operation with a shift rounds nothing: a move to the left, or a product of words as a whole."""
    return (i.opcode.entry.name == "fmovp" and i.imm >= 0) or (i.opcode.entry.name == "fmulp" and i.imm == 0)


def _pointed(point: int) -> str:
    return f"fixed[{point}]"


def _moved(c: SourceConstant, places: int) -> SourceConstant:
    """The constant in a program whose points have `places` places more."""
    if c.kind is Kind.FIXED or not c.kind.is_fixed or not isinstance(c.numbers, Fraction):
        return c
    return c._replace(kind=fixed_at(min(max(c.kind.point(_ANY) + places, -_ANY.width), 2 * _ANY.width)))


@cache
def units_of(opcode: Opcode) -> float:
    """The greatest error of an instruction's number, in units of the last place: from its expression tree.

    A tree that is an exact operation, rounded, is wrong by half a unit; one of several by at most a unit (docs/reference/numbers.md).
    """
    entry = opcode.entry
    if not isinstance(entry, Function):
        return _ROTATED if entry.name == "rot" else 0.0
    if points.whole(entry.value(Format())):
        return 0.5
    if not is_rounded(opcode):
        return 0.0
    return 0.5 if entry.value(Format()).op in _ROUNDED else 1.0


# -----------------------------------------------------------------------------
# A meter of the numbers of a run: the least and the greatest magnitude of each fixed-point variable, and of the terms of each line.
#
# Of lognums it measures the greatest |log₂|.

#: conversions whose result is no fixed-point word
_OTHER_RESULTS = ("ftoi", "ftol")


class _Points:
    """The binary points of the numbers in registers and in named words.

    `at[pc]`: register -> the point of the fixed number that the instruction at pc has there. For a number without a variable in the
    intermediate code this is F, or None in a program with points of its own, where it is not known.
    """

    def __init__(self, compiled: Compiled) -> None:
        w, program = compiled.format, compiled.program
        origins = compiled.emitted.origins
        #: whether some number has a point of its own
        self.own = any(v.kind.startswith("fixed[") for v in program.variables) or any(
            isinstance(o, Op) and isinstance(o.d, Var) and o.d.kind.is_fixed and o.d.kind is not Kind.FIXED
            for o in origins
        )
        other = None if self.own else w.frac
        self.at: list[dict[int, int | None]] = []
        for i, origin in zip(program.instructions, origins, strict=True):
            found: dict[int, int | None] = dict.fromkeys((i.rd, i.ra, i.rb), other)
            if isinstance(origin, Op) and origin.opcode.entry is i.opcode.entry:
                for register, x in ((i.rd, origin.d), (i.ra, origin.a), (i.rb, origin.b)):
                    if isinstance(x, Var) and x.kind.is_fixed:
                        found[register] = x.kind.point(w)
            self.at.append(found)
        #: of a named kind of words, "fixed" or "fixed[40]"
        self.of_kind = {v.kind: f.frac for v in program.variables if (f := numbers_of(v.kind, w)) is not None}


#: instruction -> its operands that are lognums
_LOGNUMS = {
    "ftol": "d", "lexp": "d", "ltof": "a", "llog": "a", "lmov": "da", "lpow": "da", "ladd": "dab", "lsub": "dab",
}  # fmt: skip


class Measured(NamedTuple):
    """A variable in a line, or with an empty name the terms that the line adds. `line` 0: the value at the beginning."""

    name: str
    file: str
    line: int
    #: the binary point of the numbers
    point: int


@dataclass
class Extent:
    """The least and the greatest magnitude of some words, in units of their points. Zeros are left out of the least."""

    least: int = 0
    greatest: int = 0

    def add(self, number: int) -> None:
        """Take a number in."""
        if number:
            self.least = min(self.least or abs(number), abs(number))
            self.greatest = max(self.greatest, abs(number))


class Meter:
    """Measures runs of one program. `values`, `cotangents`: the extents so far; `logarithms`: that of log₂|x| for lognums x.

    The cotangent of a word with the point p has `dual` − p places.
    """

    def __init__(self, compiled: Compiled, dual: int) -> None:
        program = compiled.program
        self.values: dict[Measured, Extent] = {}
        self.cotangents: dict[Measured, Extent] = {}
        self.logarithms = Extent()
        self.points = _Points(compiled)
        self._dual = dual
        self._program = program
        self._names = _Names(program, self.points)
        self._fixed = [_makes_fixed(i) for i in program.instructions]
        self._logs = [_LOGNUMS.get(i.opcode.entry.name, "") for i in program.instructions]

    def observer(self, machine: Machine) -> Callable[[Machine, int], None]:
        """The function that a run calls after each step, `Machine.run(observe=…)`. Arguments are measured at once."""
        signed, mask = machine.format.signed, machine.format.mask
        instructions, names, points, dual = self._program.instructions, self._names, self.points.at, self._dual
        #: the point of a word of memory without a name
        other = None if self.points.own else machine.format.frac
        # The words before a step: their difference is the term that an update adds.
        registers = [int(word) for word in machine._registers]
        memory: dict[int, int] = {}
        if machine.at_origin:
            self._note_arguments(machine)

        def observe(machine: Machine, pc: int) -> None:
            i, fixed = instructions[pc], self._fixed[pc]
            point = pc + 1 if machine.direction > 0 else pc
            cotangents = machine._cotangents
            for place in self._logs[pc]:
                register = i.rd if place == "d" else i.ra if place == "a" else i.rb
                self._note_lognum(int(machine._registers[register]), machine)
            for register in {i.rd, i.ra, i.rb}:
                word, before = int(machine._registers[register]), registers[register]
                registers[register] = word
                name, own = names.in_register(point, register)
                made = fixed and register == i.rd and word != before
                of = points[pc].get(register) if own is None else own
                if made:
                    self._note(self.values, "", pc, signed((word - before) & mask), points[pc].get(register))
                if made or name:
                    self._note(self.values, name, pc, signed(word), of)
                if cotangents is not None and of is not None:
                    self._note(self.cotangents, name, pc, signed(int(cotangents.registers[register])), dual - of)
            if "m" not in i.opcode.reads and "m" not in i.opcode.writes:
                return
            address = (int(machine._registers[i.ra]) + i.imm) & mask
            word, (name, own) = int(machine._memory[address]), names.in_memory(point, address)
            made = fixed and "m" in i.opcode.writes
            of = other if own is None else own
            if made and address in memory:
                self._note(self.values, "", pc, signed((word - memory[address]) & mask), of)
            if made or name:
                self._note(self.values, name, pc, signed(word), of)
            memory[address] = word
            if cotangents is not None and of is not None:
                self._note(self.cotangents, name, pc, signed(int(cotangents.memory[address])), dual - of)

        return observe

    def _note_arguments(self, machine: Machine) -> None:
        """The words that the run begins with."""
        source = self._program.source
        file = source.files[0] if source.files else ""
        for location in self._program.variables:
            if location.layout is not None and not location.indirect and location.kind == "lognum":
                for word in elements(location, machine):
                    self._note_lognum(int(word.place.word(machine)), machine)
            own = self.points.of_kind.get(location.kind)
            if location.layout is not None and not location.indirect and own is not None:
                extent = self.values.setdefault(Measured(location.name, file, 0, own), Extent())
                for word in elements(location, machine):
                    extent.add(machine.format.signed(int(word.place.word(machine))))

    def _note_lognum(self, word: int, machine: Machine) -> None:
        """Take in a lognum: its sign is the highest bit, its logarithm the bits below, in two's complement."""
        half = machine.format.sign >> 1
        self.logarithms.add(((word & (machine.format.sign - 1)) ^ half) - half)

    def _note(self, where: dict[Measured, Extent], name: str, pc: int, number: int, point: int | None) -> None:
        if number and point is not None:
            span = self._program.source.span(pc)
            key = Measured(name, *(("", 0) if span is None else (span.file, span.line)), point)
            where.setdefault(key, Extent()).add(number)


def _makes_fixed(i: Instruction) -> bool:
    """Whether the result of an instruction is a fixed-point word."""
    group = i.opcode.group in ("fixed", "conversions")
    return group and i.opcode.entry.name not in _OTHER_RESULTS


class _Names:
    """The fixed-point variables at the points of a program, and the binary points of their numbers."""

    def __init__(self, program: Program, points: _Points) -> None:
        self._points = points.of_kind
        self._scalars: dict[tuple[bool, int], list[VariableLocation]] = {}
        self._arrays: list[VariableLocation] = []
        for v in program.variables:
            if v.kind in self._points and v.layout is None:
                self._scalars.setdefault((v.memory, v.number), []).append(v)
            elif v.kind in self._points and not v.indirect:
                self._arrays.append(v)

    def in_register(self, point: int, register: int) -> tuple[str, int | None]:
        """The variable in a register, or nothing."""
        return self._living(self._scalars.get((False, register), ()), point)

    def in_memory(self, point: int, address: int) -> tuple[str, int | None]:
        """The variable or array in a word of memory, or nothing."""
        found = self._living(self._scalars.get((True, address), ()), point)
        if found[1] is not None:
            return found
        array = next((v for v in self._arrays if v.indices(address) is not None), None)
        return ("", None) if array is None else (array.name, self._points[array.kind])

    def _living(self, locations: Sequence[VariableLocation], point: int) -> tuple[str, int | None]:
        """The variable that became live last, among the live ones at a point."""
        found = [v for v in locations if v.first <= point <= v.last]
        if not found:
            return "", None
        last = max(found, key=lambda v: v.first)
        return last.name.partition("[")[0], self._points[last.kind]


# -----------------------------------------------------------------------------
# `rg.ranges`: the magnitudes of the fixed-point numbers of a function over its inputs, and the formats that hold them.
#
#     the largest F with  greatest · 2^margin < 2^(W − 1 − F)                          fraction of words of W bits
#                         |log₂ x| + margin < 2^(W − 2 − F)                            for each lognum x
#     the largest K with  greatest cotangent · 2^(K + margin) < 2^(W − 1 − F)          `scale` of a gradient
#
# Every fixed-point word that a run makes is measured: variables, elements of arrays, and the terms that updates add. Of lognums only
# the greatest logarithm is measured.

#: fractions of 64 bits that are tried where a run overflows, the finest first
_COARSER = (48, 40, 32, 24, 16, 8, 0)
#: scales that are tried for the cotangents of arguments with points of their own
_SCALES = (0, -8, -16, -24)
#: codes of a result, and of an argument, that do not fit
_OVERFLOWS = ("RG0404", "RG0601")

Differentiated = Reversible | Inverse | LossFunction


@dataclass(frozen=True)
class Range:
    """The magnitudes of a variable in a line; with an empty name those of the terms that the line adds. `line` 0: the arguments."""

    name: str
    file: str
    line: int
    #: the least magnitude that is not zero, and the greatest; both 0 where all values are
    least: float
    greatest: float
    #: bits of the least magnitude in the measured format: 1 for one unit in the last place
    bits: int
    #: the binary point of the numbers: F, or one of their own; that of a cotangent at the scale 0
    point: int

    def fits(self, width: int = 64, margin: int = 1) -> int:
        """The finest binary point p with  greatest · 2^(p + margin) < 2^(width − 1),  so that words of `width` bits hold these magnitudes.

        `margin`: bits of room. Trap: p is in −width … 2·width, where points lie; at −width the magnitudes may be too great.
        """
        if not self.greatest:
            return self.point
        return min(max(width - 1 - margin - int(np.frexp(self.greatest)[1]), -width), 2 * width)

    def _above(self, frac: int, margin: int) -> int:
        """The bits before the point that a format with F = `frac` needs for the magnitudes, at least 0, without the sign."""
        return max(0, int(np.frexp(self.greatest)[1]) + margin + self.point - frac) if self.greatest else 0


@dataclass(frozen=True)
class Ranges:
    """The ranges of a function over `runs` inputs, measured in a format; those of cotangents where it was differentiated."""

    function: str
    format: Format
    runs: int
    values: tuple[Range, ...]
    cotangents: tuple[Range, ...] = ()
    #: bits before the point, without the sign, that the constants of the source need
    constant_bits: int = 0
    #: the greatest |log₂ x| of the lognums x
    greatest_logarithm: float = 0.0
    _constants: tuple[SourceConstant, ...] = field(default=(), repr=False, compare=False)

    @property
    def greatest(self) -> float:
        """The greatest magnitude of all values."""
        return max((r.greatest for r in self.values), default=0.0)

    def fits(self, width: int | None = None, margin: int = 1) -> Format:
        """The format of `width` bits (those of the measured format) with the finest fraction that holds all values, lognums included.

            F → F + k, and p → p + k for each number with a point p of its own

        Of a variable alone, `Range.fits` gives the finest point. `margin`: bits of room above the greatest value, for the roundings of another format and inputs that were not measured.
        Raises InputError RG0604 where no format of this width holds them, and where a constant of the source would be 0 or lose more
        than half of its bits in the format that holds them.
        """
        w = self.format.width if width is None else width
        bits = max((r._above(self.format.frac, margin) for r in self.values), default=0)
        frac = w - 1 - max(bits, self.constant_bits)
        if self.greatest_logarithm:
            frac = min(frac, w - 2 - _integer_bits(self.greatest_logarithm + margin))
        if w not in WIDTHS or frac < 0:
            known = ", ".join(map(str, WIDTHS))
            lognums = f" and lognums up to 2^{self.greatest_logarithm:.4g}" if self.greatest_logarithm else ""
            message = (
                f"no format of {w} bits holds values up to {self.greatest:.4g}{lognums} with {margin} bits of room"
            )
            raise InputError(
                Diagnostic("RG0604", message, hint=f"words have {known} bits; the values need a wider one")
            )
        found = Format(w, min(frac, w - 1))
        for c in self._constants:
            loss = _moved(c, found.frac - self.format.frac).loss(found)
            if loss is not None:
                number = c.numbers if isinstance(c.numbers, Fraction) else c.numbers[loss[0]]
                where = "" if c.place is None else f" of line {c.place.span.line}"
                message = f"no format of {w} bits holds values up to {self.greatest:.4g} and the constant {float(number):.6g}{where}"
                lost = "would be 0" if loss[1] else "would lose more than half of its bits"
                raise InputError(
                    Diagnostic("RG0604", message, hint=f"{found} holds the values, and the constant {lost}")
                )
        return found

    def scale(self, format: Format | str | None = None, margin: int = 1) -> int:
        """The greatest K such that the cotangents times 2^K fit: `rg.grad(f, scale=K)`. Negative where they do not fit unscaled.

        `format`: that of the gradient; without one, the measured format. Raises InputError RG0603 unless a gradient was measured.
        """
        if not self.cotangents:
            hint = 'measure a gradient: rg.ranges(rg.grad(f, loss="y"), …)'
            raise InputError(Diagnostic("RG0603", f"no cotangents of `{self.function}` were measured", hint=hint))
        w = self.format if format is None else format_of(format)
        return w.width - 1 - w.frac - max(r._above(self.format.frac, margin) for r in self.cotangents)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.ranges/1."""
        rows = {"values": self.values, "cotangents": self.cotangents}
        out: dict[str, Any] = {"function": self.function, "format": str(self.format), "runs": self.runs}
        out |= {key: [vars(r) for r in ranges] for key, ranges in rows.items()}
        out["greatest_logarithm"] = self.greatest_logarithm
        try:
            out["fits"] = str(self.fits())
        except InputError:
            out["fits"] = None
        return out | ({"scale": self.scale()} if self.cotangents else {})

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        lines = [self._heading(), ""]
        for rows in self._tables():
            lines += [columns(rows, right=range(1, len(rows[0]))), ""]
        return "\n".join([*lines, *self._advice()])

    def _repr_html_(self) -> str:
        advice = "<br>".join(map(markup, self._advice()))
        tables = "".join(map(html_table, self._tables()))
        return f"<div><p>{markup(self._heading())}</p>{tables}<p>{advice}</p></div>"

    def _heading(self) -> str:
        return f"{self.function}: {self.runs} run{'s' * (self.runs != 1)} in {self.format}"

    def _tables(self) -> Iterator[list[tuple[str, ...]]]:
        """The tables of values and of cotangents, each with its head."""
        for title, ranges in (("values", self.values), ("cotangents", self.cotangents)):
            if ranges:
                further = ("point", "finest") if self.has_points else ()
                head = (title, "line", "least", "greatest", "bits", *further)
                yield [head, *map(self._row_with_points if further else _row, ranges)]

    @property
    def has_points(self) -> bool:
        """Whether some number has a binary point of its own."""
        return any(r.point != self.format.frac for r in self.values)

    def _row_with_points(self, r: Range) -> tuple[str, ...]:
        return *_row(r), str(r.point), str(r.fits(self.format.width))

    def _advice(self) -> Iterator[str]:
        if self.greatest_logarithm:
            yield f"the greatest |log2| of a lognum is {self.greatest_logarithm:.4g}"
        for width in (self.format.width, *(n for n in (16, 32, 64) if n != self.format.width)):
            try:
                found = self.fits(width)
                places, moved = found.frac - self.format.frac, ""
                if self.has_points and places:
                    count = f"{abs(places)} place{'s' * (abs(places) != 1)} {'more' if places > 0 else 'less'}"
                    moved = f", where each point of its own has {count}"
                yield f"{found} holds the values, with one bit of room{moved}"
            except InputError:
                yield f"no format of {width} bits holds the values and constants"
        if self.cotangents:
            yield f"scale={self.scale()} is the greatest scale of the gradient in {self.format}"


def _row(r: Range) -> tuple[str, ...]:
    return r.name or "terms", str(r.line or ""), f"{r.least:.3g}", f"{r.greatest:.3g}", str(r.bits)


def _integer_bits(greatest: float) -> int:
    """The least n with greatest < 2^n, at least 0."""
    return max(0, int(np.frexp(greatest)[1])) if greatest else 0


@api_boundary
def ranges(
    f: Differentiated,
    /,
    *args: Any,
    sampler: Callable[[np.random.Generator], Sequence[Any]] | None = None,
    runs: int = 100,
    seed: int = 0,
    format: Format | str | None = None,
    precision: Precision | None = None,
    max_steps: int | None = None,
    **keywords: Any,
) -> Ranges:
    """The least and greatest magnitude of every fixed-point variable of f, over the inputs given or drawn.

    `f`: a reversible function or its inverse; a result of `rg.grad` or `rg.value_and_grad`, whose cotangents are measured, too.
    `sampler(rng)`: draws a tuple of arguments, `runs` times from the generator of a seed. `format`: that of the runs; `precision`: see `rg.run`. Where a run
    overflows, all runs are made again in a coarser format of 64 bits; `Ranges.format` is the format in which the runs ended.
    Trap: inputs that were not measured may have other ranges. A run is made on the reference machine, at about 10⁵ steps a second.
    Raises CompileError, InputError, ProgramTrap where a run traps in all formats, or by another fault than an overflow.

        >>> rg.ranges(f, 0.0, [1.0, 2.0]).fits(32)
    """
    if not isinstance(f, Differentiated):
        hint = "measure a reversible function, or a result of rg.grad or rg.value_and_grad"
        raise InputError(Diagnostic("RG0603", f"`{getattr(f, '__name__', f)!s:.40}` has no runs to measure", hint=hint))
    if sampler is not None and (args or keywords):
        raise InputError(Diagnostic("RG0603", "both arguments and a sampler are given", hint="give one of the two"))
    if runs < 1:
        raise InputError(Diagnostic("RG0507", f"`runs` is {runs}: measure 1 run or more"))
    rng = np.random.default_rng(seed)
    inputs = [(args, keywords)] if sampler is None else [(tuple(sampler(rng)), {}) for _ in range(runs)]
    request = f.request if isinstance(f, LossFunction) else request_of(f)
    first = request.format if format is None else format_of(format)
    own = request.function.format_for(first)
    request = replace(request, engine="reference", precision=precision)
    if any(has_points(a.type) for a in _compiled(f, replace(request, format=own), inputs[0]).arguments):
        # Another format does not move these points; a smaller scale mends cotangents.
        several = isinstance(f, LossFunction) and request.scale == "auto"
        scales = tuple(k for k in _SCALES if not k or (several and own.frac + k >= 8))
        return at_scale(scales, lambda k, _: _measured(f, replace(request, format=own), inputs, own, max_steps, k))
    for w in (own, *(Format(64, frac) for frac in _COARSER if 64 - frac > own.width - own.frac)):
        try:
            return _measured(f, replace(request, format=w), inputs, w, max_steps)
        except (ProgramTrap, InputError) as error:
            if error.code not in _OVERFLOWS or w.frac == 0:
                raise
        except CompileError as error:
            if error.code != "RG0730" or w is own:
                raise
            message = f"a run overflows in finer formats, and in {w} a constant of the source is 0"
            raise InputError(Diagnostic("RG0604", message, hint="scale the numbers of the program")) from error
    raise AssertionError("the last format returns or raises")


Input = tuple[tuple[Any, ...], dict[str, Any]]


def _values(f: Differentiated, request: Request, given: Input) -> list[Any]:
    args, keywords = given
    return request.values(args, {**keywords, **(f.zeros if isinstance(f, LossFunction) else {})})


def _compiled(f: Differentiated, request: Request, given: Input) -> Compiled:
    return request.compiled(_values(f, request, given))


def _measured(
    f: Differentiated, request: Request, inputs: Sequence[Input], w: Format, most: int | None, scale: int = 0
) -> Ranges:
    """`scale`: of the cotangents in the runs, besides that of the request, at most 0."""
    # The key keeps the compiled function, so that no other one has its identity.
    meters: dict[int, tuple[Compiled, Meter]] = {}
    losses = Losses()
    for given in inputs:
        values = _values(f, request, given)
        turned = way_back(request, values) if isinstance(f, LossFunction) else None
        compiled = request.compiled(values) if turned is None else turned.compiled
        machine = request.machine(compiled, values, losses)
        dual = w.frac + (w.frac if turned is None else turned.point)
        _, meter = meters.setdefault(id(compiled), (compiled, Meter(compiled, dual)))
        execute(compiled, machine, most, meter.observer(machine), externals=False)
        if turned is not None:
            replace(turned, one=turned.one >> -scale).begin(machine)
            execute(compiled, machine, most, meter.observer(machine), externals=False)
    for compiled, _ in meters.values():
        losses.report(compiled)
        losses.clear()
    found = [meter for _, meter in meters.values()]
    measured = _joined([m.values for m in found], 0), _joined([m.cotangents for m in found], scale)
    logarithm = max((m.logarithms.greatest for m in found), default=0) * 2.0**-w.frac
    constants = tuple(c for compiled, _ in meters.values() for c in compiled.lowered.constants)
    return Ranges(f.__name__, w, len(inputs), *measured, _constant_bits(constants), logarithm, constants)


def _constant_bits(constants: Sequence[SourceConstant]) -> int:
    """The least number of bits before the point with which each constant of the source has a word."""
    return next((bits for bits in range(63) if all(c.fits(Format(64, 63 - bits)) for c in constants)), 63)


def _joined(parts: Sequence[dict[Measured, Extent]], scale: int) -> tuple[Range, ...]:
    """The extents of several programs as ranges, by place. `scale`: the words are 2^scale times as large as their points say."""
    both: dict[Measured, Extent] = {}
    for part in parts:
        for key, extent in part.items():
            total = both.setdefault(key, Extent())
            total.add(extent.least)
            total.add(extent.greatest)

    def measured(key: Measured, extent: Extent) -> Range:
        least, greatest = (math.ldexp(n, -(key.point + scale)) for n in (extent.least, extent.greatest))
        bits = max(extent.least.bit_length() - scale, 0) if extent.least else 0
        return Range(key.name, key.file, key.line, least, greatest, bits, key.point)

    by_place = sorted(both.items(), key=lambda item: (item[0].file, item[0].line, item[0].name, item[0].point))
    return tuple(measured(key, extent) for key, extent in by_place)
