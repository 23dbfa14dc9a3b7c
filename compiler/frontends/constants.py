"""The numbers of a source, as they become words of a program.

    word = round(number · 2^F)
    number ≠ 0 and word = 0                              an error, RG0730
    |word/2^F − number| > |number| · 2^(−W/4)            a PrecisionWarning: more than half of the significant bits are lost
    either, of a factor or a divisor                     word = round(number · 2^p), p the finest point that holds it,
                                                         or, of elements of an array, that holds all of them

Every front end makes its words here, so this is the one place where a number of the source is rounded. Numbers that are folded
together are numbers of Python until then, so only the result is rounded. Constants of the library become words without a report: they
are terms of its approximations, and the program that calls it has not chosen them. A lognum has the same relative error for every
number, which is a property of the format.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
from retrograd.compiler.ir.expressions import (
    NOISE,
    Address,
    E,
    Role,
    Vanishing,
    const,
    load,
    number_as,
    number_of,
    precise,
    scales,
    word_of,
)
from retrograd.compiler.ir.statements import Exact, Kind, Region, fixed_at
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span, hint_of
from retrograd.isa.words import Format, brief, nearest_point

T = TypeVar("T")
#: makes the memory of constants: the words, the numbers that they were rounded from if they are recorded, the place;
#: regions of different last arguments are not shared
Memory = Callable[[tuple[int, ...], Exact | None, Span | None, Any], Region]


class Place(NamedTuple):
    """A place of the source. `text`: of its line. `library`: in the library of Retrograd."""

    span: Span
    text: str | None = None
    library: bool = False


class SourceConstant(NamedTuple):
    """A number of the source that became a word, or an array of float64s, and where it did so first."""

    numbers: Fraction | np.ndarray[Any, Any]
    kind: Kind
    place: Place | None
    role: Role = Role.VALUE

    def fits(self, w: Format) -> bool:
        """Whether all numbers are in the range of a format."""
        extremes = (self.numbers,) if isinstance(self.numbers, Fraction) else (self.numbers.min(), self.numbers.max())
        try:
            for x in extremes:
                number_as(x, self.kind, self.role, w)
        except OverflowError:
            return False
        return True

    def compiles(self, w: Format) -> bool:
        """Whether a program with the constant can be compiled in a format: it is in the range, and no number becomes 0."""
        loss = self.loss(w)
        return self.fits(w) and not (loss is not None and loss[1])

    def numbers_in(self, w: Format) -> Format:
        """The format of its numbers in a program of a format: that of its point, which a factor chooses."""
        number = self.numbers
        if not isinstance(number, Fraction):
            own = None if self.role is Role.VALUE else own_point([*map(Fraction, number.tolist())], self.role, w)
            return (self.kind if own is None else own[1]).numbers(w)
        if self.role is Role.FACTOR or scales(number, self.role, w):
            return precise(number, w).kind.numbers(w)
        return self.kind.numbers(w)

    def loss(self, w: Format, noise: bool = False) -> tuple[int, bool] | None:
        """(index, whether it becomes 0) of a number that loses more than half of its bits; None if no number does.

        It is the first that becomes 0, or else the first of all. `noise`: numbers that may be rounding errors in place of 0 count, too, but
        not as numbers that become 0.
        """
        library = self.place is not None and self.place.library
        if not self.kind.is_fixed or self.role is Role.NEGLIGIBLE or library:
            return None
        w = self.numbers_in(w)
        if isinstance(self.numbers, Fraction):
            vanishes = w.vanishes(self.numbers)
            return (0, vanishes) if vanishes or not (self.role is Role.COMPARED or w.keeps(self.numbers)) else None
        scaled = np.ldexp(self.numbers, w.frac)
        words, size = np.rint(scaled), np.abs(scaled)
        lost = np.ldexp(np.abs(words - scaled), w.width // 4) > size
        if not lost.any():
            return None
        meant = lost & (size >= size.max() * NOISE)
        gone = np.flatnonzero(meant & (words == 0))
        if len(gone):
            return int(gone[0]), True
        found = np.flatnonzero(lost if noise else meant)
        return (int(found[0]), False) if len(found) else None


def finest(greatest: Fraction, w: Format) -> int:
    """The greatest point at which a number other than 0 has a word."""
    most = w.width - (abs(greatest.numerator).bit_length() - greatest.denominator.bit_length())
    while round(w.times(abs(greatest), most)) >= w.sign:
        most -= 1
    return nearest_point(most, w.width)


def own_point(numbers: Sequence[Fraction], role: Role, w: Format) -> tuple[Sequence[Fraction], Kind] | None:
    """Numbers of an array as factors, and the finest point that holds all; by divisors one multiplies their inverses.

    None where one of them loses half of its bits there, or would have no result (see `scales`).
    """
    if not any(numbers) or (role is Role.DIVISOR and not all(numbers)):
        return None
    if role is Role.DIVISOR:
        return own_point([1 / c for c in numbers], Role.MULTIPLIER, w)
    point = finest(max(map(abs, numbers)), w)
    if role is Role.DIVIDEND and point < 2 * w.frac - w.width + 2:
        return None
    kind, most = fixed_at(point), w.times(w.sign, -w.frac)
    there = kind.numbers(w)
    kept = (there.keeps(c) and (scales(c, role, w) or (w.keeps(c) and abs(c) < most)) for c in numbers)
    return (numbers, kind) if all(kept) else None


class Factors(NamedTuple):
    """An array of constants that is memory at the point F, where it loses numbers, and the texts of its elements."""

    constant: SourceConstant
    numbers: tuple[Fraction, ...]
    text: Callable[[int], str]
    #: `own_point` by role
    points: dict[Role, tuple[Sequence[Fraction], Kind] | None]


class Constants:
    """The constants of one program, of which `memory` makes the regions.

    `recorded`: a number that some format rounds is read from memory and not folded, so that a way back leaves its cotangent there
    (`Region.exact`). There are no warnings then: the program is compiled without this, too. `real`: the program is run over real
    numbers (`ir/real_numbers.py`), so each fixed number but 0 is read from memory, and none is rounded.
    """

    def __init__(self, w: Format, memory: Memory, recorded: bool, real: bool = False) -> None:
        self.w, self.recorded, self.real = w, recorded, real
        #: whether an argument of the program has a binary point of its own
        self.pointed = False
        self.found: list[SourceConstant] = []
        #: texts of warnings, each with its place
        self.warnings: list[tuple[str, Place]] = []
        self._memory = memory
        self._known: dict[tuple[Any, ...], SourceConstant] = {}
        #: arrays that are reported if the program reads them in any other way than by `factor`
        self._factors: dict[Region, Factors] = {}
        self._where: Callable[[Fraction | None], Place] | None = None

    def at(self, where: Callable[[Fraction | None], Place], make: Callable[..., T], *args: Any) -> T:
        """make(*args). `where`: the place of a number that becomes a word in it, or for None that of an array."""
        outer, self._where = self._where, where
        try:
            return make(*args)
        finally:
            self._where = outer

    def number(self, value: int | float | Fraction, kind: Kind, role: Role = Role.VALUE) -> E:
        """The expression of a number. Raises Vanishing, OverflowError, ValueError."""
        if self.real and kind.is_fixed and value:
            self.found.append(SourceConstant(Fraction(value), kind, self._place(Fraction(value)), role))
            return load(Address(self._memory((0,), Exact(kind, (Fraction(value),)), None, None), None), kind)
        if kind is Kind.FIXED and not self.scales(value, role) and scales(value, role, self.w):
            role = Role.VALUE
        e = number_as(value, kind, role, self.w)
        if not kind.is_real:
            return e
        exact = Fraction(value)
        found = self._known.get((exact, kind, role))
        if found is None:
            place = self._place(exact)
            own = Role.VALUE if place is not None and place.library and role is not Role.FACTOR else role
            found = self._noted(SourceConstant(exact, kind, place, own), lambda _: brief(value))
            self._known[exact, kind, role] = found
        if not self.recorded or (kind.is_fixed and _holds(e.kind.numbers(self.w), exact)):
            return e
        span = None if found.place is None else found.place.span
        region = self._memory((e.param,), Exact(e.kind, (exact,)), span, None)
        return load(Address(region, None), e.kind)

    def scales(self, value: int | float | Fraction, role: Role) -> bool:
        """`scales` of a number of the source; numbers of the library are at F."""
        if self.real or not scales(value, role, self.w):
            return False
        place = self._place(Fraction(value))
        return place is None or not place.library

    def realigned(self, e: E, kind: Kind) -> E | None:
        """A number of the source at the point of another kind, where its word at one of the points is not exact.

        The word is that of the program without records. None for anything else.
        """
        region = e.param.region if e.op == "load" else None
        if e.op == "const":
            exact = value = number_of(e, self.w)
        elif region is not None and region.exact is not None and len(region.exact.numbers) == 1:
            own, (exact,) = region.exact
            value = own.numbers(self.w).to_real(region.data[0])
        else:
            return None
        try:
            word = word_of(value, kind, self.w)
        except OverflowError:
            return None
        if _holds(kind.numbers(self.w), exact):
            return None if region is None else const(word, kind)
        span = None if region is None else region.span
        return load(Address(self._memory((word,), Exact(kind, (exact,)), span, None), None), kind)

    def kind_of(self, array: np.ndarray[Any, Any]) -> Kind:
        """The kind of the elements of an array: FIXED, or in a program with points the point that keeps most bits.

        It is the finest at which the greatest element has a word, where some element has more than F places.
        """
        if not self.pointed or not array.size or not np.isfinite(array).all():
            return Kind.FIXED
        scaled = np.ldexp(array, self.w.frac)
        if (scaled == np.rint(scaled)).all() or not array.any():
            return Kind.FIXED
        return fixed_at(finest(Fraction(float(np.abs(array).max())), self.w))

    def array(self, array: np.ndarray[Any, Any], kind: Kind, factors: bool = False) -> Region:
        """The memory of a constant array. Raises Vanishing, OverflowError, ValueError.

        `factors`: numbers that lose half of their bits are reported by `settle`, unless all of them are factors.
        """
        values: list[int | float] = array.ravel().tolist()
        if self.real and kind.is_fixed and values:
            return self._memory((0,) * len(values), Exact(kind, tuple(map(Fraction, values))), None, None)
        if factors and kind is Kind.FIXED and np.isfinite(array).all():
            constant = SourceConstant(np.array(values), kind, self._place())
            if not constant.fits(self.w) or constant.loss(self.w, noise=True) is not None:
                numbers = tuple(map(Fraction, values))
                points = {r: own_point(numbers, r, self.w) for r in (Role.MULTIPLIER, Role.DIVISOR, Role.DIVIDEND)}
                if any(points.values()):
                    words = tuple(self.w.wrap(round(self.w.times(x, self.w.frac))) for x in numbers)
                    region = self._memory(words, self._exact(kind, numbers), None, numbers)
                    self._factors[region] = Factors(constant, numbers, _texts(values, array.shape), points)
                    return region
        words = tuple(word_of(v, kind, self.w) for v in values)
        if not kind.is_fixed or not words:
            return self._memory(words, None, None, None)
        key = tuple(map(float, values))
        found = self._known.get((kind, *key))
        if found is None:
            found = SourceConstant(np.array(key), kind, self._place())
            self._known[(kind, *key)] = self._noted(found, _texts(key, array.shape))
        return self._memory(words, self._exact(kind, values), None if found.place is None else found.place.span, None)

    def _exact(self, kind: Kind, values: Sequence[Any]) -> Exact | None:
        """The numbers of an array, where their roundings are recorded."""
        numbers = kind.numbers(self.w)
        recorded = self.recorded and not all(_holds(numbers, Fraction(v)) for v in values)
        return Exact(kind, tuple(map(Fraction, values))) if recorded else None

    def factor(self, e: E, role: Role) -> E | None:
        """An element of a constant array at the point at which the array keeps its bits, or of a divisor its inverse.

        None for anything else, and where it has no such point.
        """
        if e.op == "neg":
            inner = self.factor(e.args[0], role)
            return None if inner is None else E("neg", inner.kind, (inner,))
        found = self._factors.get(e.param.region) if e.op == "load" else None
        own = None if found is None else found.points[role]
        if found is None or own is None:
            return None
        numbers, kind = tuple(own[0]), own[1]
        role = Role.MULTIPLIER if role is Role.DIVISOR else role
        if len(numbers) == 1:  # a number by itself, also where its rounding is recorded
            return self.number(numbers[0], Kind.FIXED, role)
        place = found.constant.place
        if (kind, role, numbers) not in self._known:
            noted = SourceConstant(np.array([*map(float, numbers)]), Kind.FIXED, place, role)
            self._known[kind, role, numbers] = noted
            self.found.append(noted)
        words = tuple(word_of(x, kind, self.w) for x in numbers)
        region = self._memory(words, self._exact(kind, numbers), None if place is None else place.span, None)
        return load(e.param._replace(region=region), kind)

    def settle(self, used: Callable[[], Container[Region]], lines: Mapping[str, Sequence[str]]) -> None:
        """Report the arrays of which the program uses the memory at F, not as factors. Raises CompileError."""
        regions = used() if self._factors else ()
        for constant, numbers, text, _ in (found for region, found in self._factors.items() if region in regions):
            try:
                for number in numbers:
                    word_of(number, constant.kind, self.w)
                self._noted(constant, text)
            except (Vanishing, OverflowError) as error:
                code, hint = ("RG0730", error.hint) if isinstance(error, Vanishing) else ("RG0714", hint_of(error))
                place = constant.place
                span, line = (None, None) if place is None else (place.span, place.text)
                if span is not None and line is None and span.file in lines:
                    line = lines[span.file][span.line - 1]
                raise CompileError(Diagnostic(code, f"{error}", span, hint, line)) from None

    def _place(self, value: Fraction | None = None) -> Place | None:
        return None if self._where is None else self._where(value)

    def _noted(self, constant: SourceConstant, text: Callable[[int], str]) -> SourceConstant:
        """The constant, which is one of the program now. Raises Vanishing; notes a warning."""
        loss, w = constant.loss(self.w, noise=True), constant.numbers_in(self.w)
        if loss is not None:
            index, vanishes = loss
            numbers = constant.numbers
            value = numbers if isinstance(numbers, Fraction) else Fraction(float(numbers[index]))
            if vanishes:
                hint = f"{self.w.remedy(value)} Or scale the numbers of the program."
                raise Vanishing(f"{text(index)} would be 0 in {w}", value, hint)
            word = float(w.to_real(w.from_real(value)))
            if constant.place is not None and not self.recorded:
                message = f"{text(index)} is {word:.6g} in {w}"
                if word:
                    message += f", a relative error of {abs(word / float(value) - 1):.2g}. {self.w.remedy(value)}"
                else:
                    message += ". Beside the greatest element it may stand for 0: round the array first."
                self.warnings.append((message, constant.place))
        self.found.append(constant)
        return constant


def _holds(w: Format, number: Fraction) -> bool:
    """Whether a number is a multiple of the last place of a format."""
    return w.times(number, w.frac).denominator == 1


def _texts(values: Sequence[float], shape: tuple[int, ...]) -> Callable[[int], str]:
    """What a message calls an element of an array, by its position."""
    return lambda i: f"{values[i]:.6g}, element {_index(i, shape)} of an array,"


def _index(position: int, shape: tuple[int, ...]) -> int | list[int]:
    """The index of an element as it is written, from its position among all elements."""
    return position if len(shape) < 2 else [int(i) for i in np.unravel_index(position, shape)]


# -----------------------------------------------------------------------------
# Annotations of classes and signatures of functions, on all versions of Python.
#
# From Python 3.14 on, an annotation is evaluated when it is read (PEP 649), and not when the class or the function
# is defined. An
# undefined name is then an error of the reader.

if sys.version_info >= (3, 14):
    from annotationlib import Format


def annotations_of(o: type | Callable[..., Any]) -> dict[str, Any]:
    """Name -> annotation. All are text where one has a name that is not defined, as after `from __future__ import annotations`.

    >>> class Point:
    ...     x: int
    >>> annotations_of(Point)
    {'x': <class 'int'>}
    """
    try:
        return inspect.get_annotations(o)
    except NameError:
        if sys.version_info >= (3, 14):
            return inspect.get_annotations(o, format=Format.STRING)
        raise


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """The parameters of a function, with annotations as `annotations_of` has them. Raises ValueError without a signature."""
    try:
        return inspect.signature(fn)
    except NameError:
        if sys.version_info >= (3, 14):
            return inspect.signature(fn, annotation_format=Format.STRING)
        raise
