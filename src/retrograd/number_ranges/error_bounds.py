"""`rg.error_bound`: the rounding error of a result, by running backward.

    |error| ≤ Σ |∂L/∂rᵢ|·eᵢ + |Σ ∂L/∂xⱼ·(x̃ⱼ − xⱼ)| + Σ |∂L/∂cₖ·(c̃ₖ − cₖ)|
              rᵢ: result of instruction i, wrong by at most eᵢ; x̃ⱼ, c̃ₖ: the words of the argument xⱼ and of the constant cₖ

The cotangent ∂L/∂rᵢ is in the machine when the way back undoes instruction i, so no tape of the rᵢ is kept. An uncompute block rounds
as its compute block did, and its ancillas have no cotangents, so their roundings do not count twice. The program is
compiled to be recorded (`Options.recorded`): constants are read from memory, so that their cotangents are there at the end, and no pass folds
a rounded number.

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

from retrograd.compiler.compiled import Precision
from retrograd.compiler.frontends.constants import SourceConstant
from retrograd.compiler.ir.instruction_selection import is_rounded
from retrograd.compiler.ir.statements import Kind, Region
from retrograd.compiler.pipeline import Argument
from retrograd.derivatives._arguments import flattened, kinds, without_derivative
from retrograd.derivatives._requests import GradientRequest, WayBack
from retrograd.isa.diagnostics import Diagnostic, InputError, Span, api_boundary
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.presentation.tables import shortened_text
from retrograd.runtime._arrays import real_of
from retrograd.runtime._binding import lognum
from retrograd.runtime._execution import ProgramTrap, execute
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.machine import Machine

#: roots of expression trees that are exact and then rounded to nearest
_ROUNDED = ("mulround", "divround", "sqrtround")
#: error of either component of a rotated vector, in units
_ROTATED = 2.0


class _Number(NamedTuple):
    """A number that is given and not computed: itself, its cotangent, the error of its word in the result, whether it is fixed, its place."""

    value: float
    cotangent: float
    error: float
    fixed: bool
    span: Span | None


@dataclass(frozen=True)
class LineShare:
    """The share of a line in the error: `bound`, and the number of roundings with a cotangent that is not zero, its constants included."""

    file: str
    line: int
    bound: float
    roundings: int


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

        In another format each computed number is rounded in proportion to its last place, and the error of each argument and
        constant is that of its own word there. No constant of the source is 0 in the format.
        Trap: fewer bits before the point hold smaller numbers: `rg.ranges` measures the bits that they need.
        Raises InputError RG0604 where this width has no such format, or the tolerance is not positive.
        """
        w = self.format
        if 0 < tolerance < math.inf:
            for frac, bound in enumerate(self._bounds()):
                other = Format(w.width, frac)
                if bound <= tolerance and all(c.compiles(other) for c in self._constants):
                    return other
        message = f"no format of {w.width} bits has errors up to {tolerance:.4g}"
        raise InputError(Diagnostic("RG0604", message, hint=f"the bound in {w} is {self.bound:.3g}"))

    def _bounds(self) -> Iterator[float]:
        """The bounds in the formats of the same width, from the coarsest. In other formats, errors of arguments do not cancel."""
        fixed = np.array([(x.value, abs(x.cotangent)) for x in self._given if x.fixed]).reshape(-1, 2)
        logarithms = math.fsum(abs(x.cotangent) for x in self._given if x.value and not x.fixed) * math.log(2) / 2
        units = math.ldexp(self._computed, self.format.frac) + logarithms
        for frac in range(self.format.width):
            scaled = np.ldexp(fixed[:, 0], frac)
            errors = np.ldexp(np.abs(scaled - np.rint(scaled)), -frac)
            other = math.ldexp(units, -frac) + float(errors @ fixed[:, 1])
            yield self.bound if frac == self.format.frac else other

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        own = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return own | {"format": str(self.format), "lines": [vars(line) for line in self.lines]}

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        head = f"{self.loss} = {self.value:.10g} in {self.format}, rounding error at most {self.bound:.3g}, likely {self.likely:.3g}"
        rows = [
            f"  line {x.line}: {x.bound:.3g} ({x.roundings} rounding{'s' * (x.roundings != 1)})"
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
    requested = GradientRequest(f, None, loss, "auto", "reference", format, precision=precision)
    run = replace(
        requested.run, options=replace(requested.run.options or requested.run.function.options, recorded=True)
    )
    values = run.values(args, keywords)
    way_back = requested.way_back(run, values)
    compiled, w = way_back.compiled, way_back.compiled.format
    first = run.machine(compiled, values)
    execute(compiled, first, max_steps)
    value = real_of(first.memory[way_back.loss.address], "fixed", w)

    def attempt(scale: int) -> tuple[_Roundings, Machine]:
        machine = run.machine(compiled, values)
        execute(compiled, machine, max_steps)
        WayBack(compiled, way_back.loss, 1 << (w.frac + scale)).begin(machine)
        found = _Roundings(compiled.program, w, scale)
        execute(compiled, machine, max_steps, found.observer(), externals=False)
        return found, machine

    *others, last = range(w.width - w.frac - 2, -w.frac // 2, -8)
    for scale in others:
        try:
            found, machine = attempt(scale)
            break
        except (ProgramTrap, InputError):
            # A cotangent is too great at this scale; the cotangent of a constant is often the first.
            pass
    else:
        found, machine = attempt(last)
    arguments = [x for a, v in zip(compiled.arguments, values, strict=True) for x in found.of_argument(a, v, machine)]
    constants = found.constants(compiled.lowered.module.regions, machine)
    converted = math.fsum(x.error for x in arguments)
    lines = found.lines()
    computed = math.fsum(error for error, _ in lines.values())
    for x in constants:
        if x.error:
            key = ("", 0) if x.span is None else (x.span.file, x.span.line)
            total, count = lines.get(key, (0.0, 0))
            lines[key] = total + abs(x.error), count + 1
    known = math.hypot(converted, *(x.error for x in constants))
    return ErrorBound(
        f.__name__,
        way_back.loss.name,
        w,
        float(value),
        math.fsum(error for error, _ in lines.values()) + abs(converted),
        math.hypot(math.sqrt(found.squares / 3), known),
        abs(converted),
        tuple(sorted((LineShare(*at, *shares) for at, shares in lines.items()), key=lambda line: -line.bound)),
        computed,
        (*arguments, *constants),
        compiled.lowered.constants,
    )


class _Roundings:
    """The roundings that a way back has passed, with their cotangents."""

    def __init__(self, program: Program, w: Format, scale: int) -> None:
        self._program, self._w = program, w
        self._units = [units_of(i.opcode) for i in program.instructions]
        self._logarithmic = [i.opcode.group == "lognum" for i in program.instructions]
        #: a cotangent's word of 1 unit, as a number
        self._unit = 2.0 ** -(w.frac + scale)
        self._last_place = 2.0**-w.frac
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
                for at, x in enumerate(numbers, region.address):
                    out.append(self._number(x, kind.value, at, machine, region.span))
        return out

    def of_argument(self, a: Argument, value: Any, machine: Machine) -> list[_Number]:
        """The numbers of an argument; the machine has run back to its beginning."""
        if without_derivative(a.type) is not None:
            return []
        given: Sequence[float] = np.ravel(flattened(a.type, value, a.name, lenient=True)).tolist()
        return [
            self._number(Fraction(x), kind.value, at, machine)
            for at, (kind, x) in enumerate(zip(kinds(a.type), given, strict=True), a.address)
            if kind in (Kind.FIXED, Kind.LOGNUM)
        ]

    def _number(self, x: Fraction, kind: str, at: int, machine: Machine, span: Span | None = None) -> _Number:
        w, word = self._w, machine.memory[at]
        assert machine._cotangents is not None
        c = w.signed(int(machine._cotangents.memory[at])) * self._unit
        if kind == "fixed":
            return _Number(float(x), c, c * float(w.to_real(word) - x), True, span)
        # A lognum's cotangent is that of its logarithm's natural multiple: of its relative error.
        error = c * float(Fraction(float(lognum.to_reals(word, w))) / x - 1) if x else 0.0
        return _Number(float(x), c, error, False, span)

    def lines(self) -> dict[tuple[str, int], tuple[float, int]]:
        """(file, line) -> (bound, roundings)."""
        out: dict[tuple[str, int], tuple[float, int]] = {}
        for pc, (error, count) in self._shares.items():
            span = self._program.source.span(pc)
            key = ("", 0) if span is None else (span.file, span.line)
            total, counted = out.get(key, (0.0, 0))
            out[key] = total + error, counted + count
        return out


@cache
def units_of(opcode: Opcode) -> float:
    """The greatest error of an instruction's number, in units of the last place: from its expression tree.

    A tree that is an exact operation, rounded, is wrong by half a unit; one of several by at most a unit (docs/reference/numbers.md).
    """
    entry = opcode.entry
    if not isinstance(entry, Function):
        return _ROTATED if entry.name == "rot" else 0.0
    if not is_rounded(opcode):
        return 0.0
    return 0.5 if entry.value(Format()).op in _ROUNDED else 1.0
