"""`rg.ranges`: the magnitudes of the fixed-point numbers of a function over its inputs, and the formats that hold them.

    the largest F with  greatest · 2^margin < 2^(W − 1 − F)                          fraction of words of W bits
                        |log₂ x| + margin < 2^(W − 2 − F)                            for each lognum x
    the largest K with  greatest cotangent · 2^(K + margin) < 2^(W − 1 − F)          `scale` of a gradient

Every fixed-point word that a run makes is measured: variables, elements of arrays, and the terms that updates add. Of lognums only
the greatest logarithm is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.frontends.constants import SourceConstant
from retrograd.derivatives._gradients import LossFunction
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, api_boundary, markup
from retrograd.isa.words import WIDTHS, Format, format_of
from retrograd.number_ranges.meter import Extent, Measured, Meter
from retrograd.presentation.tables import columns, html_table, shortened_text
from retrograd.runtime._execution import ProgramTrap, Request, execute
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, Reversible, request_of

#: fractions of 64 bits that are tried where a run overflows, the finest first
_COARSER = (48, 40, 32, 24, 16, 8, 0)
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

        `margin`: bits of room above the greatest value, for the roundings of another format and inputs that were not measured.
        Raises InputError RG0604 where no format of this width holds them, and where a constant of the source would be 0 or lose more
        than half of its bits in the format that holds them.
        """
        w = self.format.width if width is None else width
        frac = w - 1 - max(_integer_bits(self.greatest, margin), self.constant_bits)
        if self.greatest_logarithm:
            frac = min(frac, w - 2 - _integer_bits(self.greatest_logarithm + margin, 0))
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
            loss = c.loss(found)
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
        return w.width - 1 - w.frac - _integer_bits(max(r.greatest for r in self.cotangents), margin)

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
            lines += [columns(rows, right=range(1, 5)), ""]
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
                yield [(title, "line", "least", "greatest", "bits"), *map(_row, ranges)]

    def _advice(self) -> Iterator[str]:
        if self.greatest_logarithm:
            yield f"the greatest |log2| of a lognum is {self.greatest_logarithm:.4g}"
        for width in (self.format.width, *(n for n in (16, 32, 64) if n != self.format.width)):
            try:
                yield f"{self.fits(width)} holds the values, with one bit of room"
            except InputError:
                yield f"no format of {width} bits holds the values and constants"
        if self.cotangents:
            yield f"scale={self.scale()} is the greatest scale of the gradient in {self.format}"


def _row(r: Range) -> tuple[str, ...]:
    return r.name or "terms", str(r.line or ""), f"{r.least:.3g}", f"{r.greatest:.3g}", str(r.bits)


def _integer_bits(greatest: float, margin: int) -> int:
    """The least n with greatest · 2^margin < 2^n, at least 0."""
    return max(0, int(np.frexp(greatest)[1]) + margin) if greatest else 0


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
    request = f.requested.run if isinstance(f, LossFunction) else request_of(f)
    first = request.format if format is None else format_of(format)
    own = request.function.format_for(first)
    for w in (own, *(Format(64, frac) for frac in _COARSER if 64 - frac > own.width - own.frac)):
        try:
            return _measured(
                f, replace(request, format=w, engine="reference", precision=precision), inputs, w, max_steps
            )
        except (ProgramTrap, InputError) as error:
            if error.code not in _OVERFLOWS or w.frac == 0:
                raise
        except CompileError as error:
            if error.code != "RG0730" or w is own:
                raise
            message = f"a run overflows in finer formats, and in {w} a constant of the source is 0"
            raise InputError(Diagnostic("RG0604", message, hint="scale the numbers of the program")) from error
    raise AssertionError("the last format returns or raises")


def _measured(
    f: Differentiated,
    request: Request,
    inputs: Sequence[tuple[tuple[Any, ...], dict[str, Any]]],
    w: Format,
    most: int | None,
) -> Ranges:
    # The key keeps the compiled function, so that no other one has its identity.
    meters: dict[int, tuple[Compiled, Meter]] = {}
    values: list[Any] = []
    losses = Losses()
    for args, keywords in inputs:
        zeros = f.zeros if isinstance(f, LossFunction) else {}
        values = request.values(args, {**keywords, **zeros})
        way_back = f.requested.way_back(request, values) if isinstance(f, LossFunction) else None
        compiled = request.compiled(values) if way_back is None else way_back.compiled
        machine = request.machine(compiled, values, losses)
        _, meter = meters.setdefault(id(compiled), (compiled, Meter(compiled.program)))
        execute(compiled, machine, most, meter.observer(machine), externals=False)
        if way_back is not None:
            way_back.begin(machine)
            execute(compiled, machine, most, meter.observer(machine), externals=False)
    for compiled, _ in meters.values():
        losses.report(compiled)
        losses.clear()
    found = [meter for _, meter in meters.values()]
    measured = _joined([m.values for m in found], w), _joined([m.cotangents for m in found], w)
    logarithm = max((m.logarithms.greatest for m in found), default=0) * 2.0**-w.frac
    constants = tuple(c for compiled, _ in meters.values() for c in compiled.lowered.constants)
    return Ranges(f.__name__, w, len(inputs), *measured, _constant_bits(constants), logarithm, constants)


def _constant_bits(constants: Sequence[SourceConstant]) -> int:
    """The least number of bits before the point with which each constant of the source has a word."""
    return next((bits for bits in range(63) if all(c.fits(Format(64, 63 - bits)) for c in constants)), 63)


def _joined(parts: Sequence[dict[Measured, Extent]], w: Format) -> tuple[Range, ...]:
    """The extents of several programs as ranges, by place."""
    both: dict[Measured, Extent] = {}
    for part in parts:
        for key, extent in part.items():
            total = both.setdefault(key, Extent())
            total.add(extent.least)
            total.add(extent.greatest)
    unit = 2.0**-w.frac
    return tuple(
        Range(*key, extent.least * unit, extent.greatest * unit, extent.least.bit_length())
        for key, extent in sorted(both.items(), key=lambda item: (item[0].file, item[0].line, item[0].name))
    )
