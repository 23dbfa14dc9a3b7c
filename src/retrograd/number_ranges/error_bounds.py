"""`rg.error_bound`: the rounding error of a result, by running backward.

    |error| ≤ Σ |∂L/∂rᵢ|·eᵢ + |Σ ∂L/∂xⱼ·(x̃ⱼ − xⱼ)|      rᵢ: result of instruction i, wrong by at most eᵢ; x̃ⱼ: the word of argument xⱼ

The cotangent ∂L/∂rᵢ is in the machine when the way back undoes instruction i, so no tape of the rᵢ is kept. An uncompute block rounds
as its compute block did, and its ancillas have no cotangents, so their roundings do not count twice.

Source: first-order error analysis by reverse accumulation: S. Linnainmaa, Taylor expansion of the accumulated rounding error,
BIT 16 (1976), 146–160.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from retrograd.compiler.lower import Argument
from retrograd.differentiation.arguments import flattened, kinds, without_derivative
from retrograd.differentiation.gradient_requests import GradientRequest, WayBack
from retrograd.differentiation.scales import at_scale
from retrograd.functions.execution import execute
from retrograd.functions.reversible import Inverse, Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError, api_boundary
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.expr import nodes
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.simulator.machine import Machine
from retrograd.values.exact import real_of
from retrograd.values.numbers import lognum

#: roots of expression trees that are exact and then rounded to nearest
_ROUNDED = ("mulround", "divround", "sqrtround")
#: operations of trees that round on the way: those of functions, whose error is at most a unit
_ROUNDING = ("mul", "div", "sqrt", "table")
#: error of either component of a rotated vector, in units
_ROTATED = 2.0


@dataclass(frozen=True)
class LineShare:
    """The share of a line in the error: `bound`, and the number of roundings with a cotangent that is not zero."""

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

    def fits(self, tolerance: float) -> Format:
        """The format of the same width whose fraction is the shortest for which the bound is at most `tolerance`.

        Trap: fewer bits before the point hold smaller numbers: `rg.ranges` measures the bits that they need.
        Raises InputError RG0604 where this width has no such format, or the tolerance is not positive.
        """
        w = self.format
        more = math.ceil(math.log2(self.bound / tolerance)) if self.bound and tolerance > 0 else -w.frac
        frac = max(w.frac + more, 0)
        if not 0 < tolerance < math.inf or frac >= w.width:
            message = f"no format of {w.width} bits has errors up to {tolerance:.4g}"
            raise InputError(Diagnostic("RG0604", message, hint=f"the bound in {w} is {self.bound:.3g}"))
        return Format(w.width, frac)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return vars(self) | {"format": str(self.format), "lines": [vars(line) for line in self.lines]}

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
    max_steps: int | None = None,
    **keywords: Any,
) -> ErrorBound:
    """The rounding error of f's result `loss` at these arguments, to first order: Σ |∂L/∂rᵢ|·eᵢ over the roundings of the run.

    eᵢ is half a unit in the last place for products, quotients and roots, one unit for functions, two for rotations. Arguments count
    by the error of their words, and a constant by half a unit unless its word ends in F/2 zero bits.
    Trap: the bound is of first order, and of the branches that the run took: a comparison of nearly equal numbers may go the other way.
    One run forward and at most six back on the reference machine, at about 10⁵ steps a second.
    Raises CompileError, InputError, NotDifferentiable, ProgramTrap.

        >>> rg.error_bound(norm, 0.0, [3.0, 4.0], loss="out").bound
    """
    requested = GradientRequest(f, None, loss, "auto", "reference", format)
    run = requested.run
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
        execute(compiled, machine, max_steps, found.observer())
        return found, machine

    found, machine = at_scale("auto", w, attempt)
    converted = math.fsum(found.of_argument(a, x, machine) for a, x in zip(compiled.arguments, values, strict=True))
    lines = sorted((LineShare(*at, *shares) for at, shares in found.lines().items()), key=lambda x: -x.bound)
    return ErrorBound(
        f.__name__,
        way_back.loss.name,
        w,
        float(value),
        math.fsum(line.bound for line in lines) + abs(converted),
        math.hypot(math.sqrt(found.squares / 3), converted),
        abs(converted),
        tuple(lines),
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
        before: dict[int, float] = {}

        def observe(machine: Machine, pc: int) -> None:
            i, error = instructions[pc], units[pc]
            constant = i.opcode.entry.name in ("imm", "immhi")
            if not error and not constant:
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
            if constant:
                if (i.opcode.update == "sub") == (machine.direction < 0):
                    # The constant is made again. A machine keeps cotangents of constants in their registers.
                    before[i.rd] = c
                    return
                c -= before.pop(i.rd, 0)
            if c:
                self._add(pc, abs(c) * self._unit * (error or self._constant(machine, pc)) * self._last_place)

        return observe

    def _add(self, pc: int, error: float) -> None:
        if error:
            error *= math.log(2) if self._logarithmic[pc] else 1.0
            total, count = self._shares.get(pc, (0.0, 0))
            self._shares[pc] = total + error, count + 1
            self.squares += error * error

    def _constant(self, machine: Machine, pc: int) -> float:
        """The error of the constant whose last part the instruction at `pc` adds, which the machine has just undone, in units."""
        i, instructions = self._program.instructions[pc], self._program.instructions
        back = machine.direction < 0
        if back and pc + 1 < len(instructions):
            following = instructions[pc + 1]
            if following.opcode.entry.name == "immhi" and following.rd == i.rd:
                # The other half, already counted with this one.
                return 0.0
        now = int(machine._registers[i.rd])
        part = i.imm << (self._w.width // 2) if i.opcode.entry.name == "immhi" else i.imm
        match i.opcode.update:
            case "xor":
                word = now ^ part
            case "add":
                word = now + part if back else now - part
            case _:
                word = now - part if back else now + part
        return 0.5 if word & ((1 << (self._w.frac // 2)) - 1) else 0.0

    def of_argument(self, a: Argument, value: Any, machine: Machine) -> float:
        """Σ ∂L/∂x·(x̃ − x) over the numbers of an argument; the machine has run back to its beginning."""
        if without_derivative(a.type) is not None:
            return 0.0
        w, memory, cotangents = self._w, machine.memory, machine._cotangents
        assert cotangents is not None
        out = 0.0
        given: Sequence[float] = np.ravel(flattened(a.type, value, a.name)).tolist()
        for at, (kind, x) in enumerate(zip(kinds(a.type), given, strict=True), a.address):
            c = w.signed(int(cotangents.memory[at])) * self._unit
            if kind.value == "fixed":
                out += c * float(w.to_real(memory[at]) - Fraction(x))
            elif x:
                out += c * (float(lognum.to_reals(memory[at], w)) / x - 1)
        return out

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
    if not entry.differentiable:
        return 0.0
    tree = entry.value(Format())
    if tree.op in _ROUNDED:
        return 0.5
    return 1.0 if any(n.op.startswith(_ROUNDING) for n in nodes(tree)) else 0.0
