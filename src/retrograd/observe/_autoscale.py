"""`rg.autoscale`: a binary point for each variable of a function, chosen from runs over real numbers.

    the greatest p with  greatest · 2^margin < 2^(W − 1 − p)          point of a variable, array or part of an
    expression

The function is run in float64 (`compiler/ir/real_numbers.py`), and the size of each of its numbers is measured.
Points are written into its
source as annotations, `x: fixed[p]`, and as conversions, `fixed[p](a * b)`, around the parts of expressions that do
not fit or lose bits
at the point that the language gives them. What is compiled is that source, so it means what it says.

Source: range analysis by simulation, as in K.-I. Kum, J. Kang, W. Sung, AUTOSCALER for C, IEEE Trans. Circuits and
Systems II 47 (2000).
"""

from __future__ import annotations

import ast
import math
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from retrograd.compiler.compiled import Precision
from retrograd.compiler.deep_recursion import with_deep_stack
from retrograd.compiler.frontends.python.source import InnerFunction, SourceFunction
from retrograd.compiler.ir.expressions import precise
from retrograd.compiler.ir.real_numbers import AT_FORMAT, Extent, NoRealForm, Place, RealProgram, RealTrap
from retrograd.compiler.ir.statements import Kind, Local, Region, Var, fixed_at
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.compiler.language.types import ArrayType, ScalarType, StackType, StructType, has_points, scalar_of
from retrograd.compiler.passes.inlining import inline_calls, rename_locals
from retrograd.compiler.pipeline import Lowered, lower
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, PrecisionWarning, Span, api_boundary
from retrograd.isa.files import write_file
from retrograd.isa.words import Format, nearest_point
from retrograd.observe._annotated import (
    Annotated,
    Sites,
    StructText,
    Text,
    element_of_field,
    importing,
    is_known,
    paired,
    structs_of,
    write_format,
)
from retrograd.presentation import columns, html_table, shortened_text
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._marshal import to_words
from retrograd.runtime._reversible import Inverse, Reversible, oriented

#: numbers of one variable that differ by more than this: the small ones have few bits at any point
_WIDE = 2.0**40
#: results that differ from float64's by more, relative to the greatest, give a warning: one of the two lost its bits
_DIFFERENT = 1e-6
#: what an element gives that is apart
_APART = "in a variable of its own it leaves the others {} bits more"
#: runs on the machine after the choice, each of which may ask for one more bit of room
_TRIALS = 8
#: what a procedure is inlined up to, so that each call has variables of its own
_INLINED = 4000


# -----------------------------------------------------------------------------
# The report: a row for each variable and each part of an expression that has a point of its own.


@dataclass(frozen=True)
class Scaled:
    """A variable, or a part of an expression: its sizes in the runs, and the binary point chosen for it."""

    name: str
    file: str
    line: int
    #: the least magnitude that is not zero, and the greatest
    least: float
    greatest: float
    point: int
    #: the unit in the last place, 2^−point
    resolution: float
    #: what the point cannot give: advice; empty where there is nothing to say
    note: str = ""


@dataclass(frozen=True)
class Scaling:
    """The binary points of a function: what `rg.autoscale` measured and chose."""

    function: str
    format: Format
    runs: int
    margin: int
    rows: tuple[Scaled, ...]
    #: the greatest difference of a result from float64's, relative to the greatest number of that result
    difference: float
    #: file → its text with the points written in
    _sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    #: the functions with points
    _texts: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def source(self) -> str:
        """The functions with their points, as text."""
        return "\n\n".join(self._texts)

    def write(self) -> str:
        """Write the points into the file of the function, in one piece, in its encoding and with its line ends.

        Returns its name, or nothing where all points stand there. Raises InputError RG0603, RG0501.
        """
        if not self._sources:
            return ""
        (file, *others), text = [*self._sources], next(iter(self._sources.values()))
        if others:
            message = f"`{self.function}` calls functions of {', '.join(others)}, which need points, too"
            hint = (
                "Write rg.autoscale in the program, which keeps them in memory, or copy those functions into the file."
            )
            raise InputError(Diagnostic("RG0603", message, hint=hint))
        with open(file, "rb") as old:
            encoding, lines = tokenize.detect_encoding(old.readline)
        end = "\r\n" if lines and lines[0].endswith(b"\r\n") else "\n"
        write_file(file, text.replace("\n", end).encode(encoding), changed=True)
        return file

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.autoscale/1."""
        return {
            "function": self.function, "format": str(self.format), "runs": self.runs, "margin": self.margin,
            "difference": self.difference, "variables": [vars(row) for row in self.rows], "source": self.source,
        }  # fmt: skip

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        return "\n".join([self._heading(), "", columns(self._table(), right=range(1, 6)), *self._notes()])

    def _repr_html_(self) -> str:
        return f"<div><p>{self._heading()}</p>{html_table(self._table())}</div>"

    def _heading(self) -> str:
        runs = f"{self.runs} run{'s' * (self.runs != 1)}"
        return f"{self.function}: {runs} in float64; in {self.format} the results differ by {self.difference:.2g} of their size"

    def _table(self) -> list[tuple[str, ...]]:
        head = ("variable", "line", "least", "greatest", "point", "resolution")
        return [
            head,
            *(
                (r.name, str(r.line), f"{r.least:.3g}", f"{r.greatest:.3g}", str(r.point), f"{r.resolution:.2g}")
                for r in self.rows
            ),
        ]

    def _notes(self) -> list[str]:
        noted = [f"{r.name}, line {r.line}: {r.note}" for r in self.rows if r.note]
        return ["", *noted] if noted else []


# -----------------------------------------------------------------------------
# The choice.


class _Classes:
    """Places whose words are exchanged, and that need one point: a disjoint-set forest."""

    def __init__(self) -> None:
        self._parent: dict[Any, Any] = {}

    def find(self, x: Any) -> Any:
        root = x
        while (up := self._parent.get(root, root)) is not root:
            root = up
        self._parent[x] = root
        return root

    def join(self, x: Any, y: Any) -> None:
        self._parent[self.find(x)] = self.find(y)


@dataclass
class _Measured:
    """The runs over real numbers of a function for arguments of certain types: sizes, and results."""

    lowered: Lowered
    program: RealProgram
    #: address of a word of an argument → the struct whose field it is, and the field
    fields: Mapping[int, tuple[type, str]]
    extents: dict[Place, Extent] = field(default_factory=dict)
    classes: _Classes = field(default_factory=_Classes)

    def run(self, values: Sequence[Any], format: Format) -> list[list[float] | None]:
        """A run: for each argument its fixed numbers after it, None for one that has none."""
        given: dict[int, Any] = {}
        own: list[list[tuple[int, bool]]] = []
        for a, value in zip(self.lowered.arguments, values, strict=True):
            places, numbers = numbers_of_argument(a.type, value, a.name, format)
            wrong = next((x for x in numbers if isinstance(x, float) and not math.isfinite(x)), None)
            if wrong is not None:
                raise InputError(Diagnostic("RG0602", f"`{a.name}`: {wrong!r} is not a number"))
            own.append([(a.address + at, real) for at, real in enumerate(places)])
            given.update(enumerate(numbers, a.address))
        memory = self.program.run(given, self.extents)
        return [
            [float(memory[at]) for at, real in words if real] if any(real for _, real in words) else None
            for words in own
        ]

    def settle(self) -> None:
        """Give each place the sizes of all places that need its point."""
        by_address = sorted((r.address, r) for r in self.lowered.module.regions if r.address is not None)
        for x, y in self.program.exchanged:
            self.classes.join(x, y)
        exchanged = {x for pair in self.program.exchanged for x in pair}

        def region_of(address: int) -> Region:
            return next(r for begin, r in reversed(by_address) if begin <= address)

        for var, addresses in self.program.exchanged_at:
            for address in addresses:
                self.classes.join(var, self.fields.get(address) or region_of(address))
        for address, own in self.fields.items():
            if len((region := region_of(address)).layouts) == 1 or region in exchanged:
                self.classes.join(own, region)
        found: dict[Any, Extent] = {}
        for place, extent in self.extents.items():
            at: Any = place
            if isinstance(place, int):
                at = self.fields.get(place) or region_of(place)
            found.setdefault(self.classes.find(at), Extent()).join(extent)
        self._found = found

    def outlier(self, region: Region) -> tuple[int, int]:
        """The greatest element of an array, and the bits that the point of the others alone has more."""
        begin = region.address or 0
        sizes = [self.extents.get(begin + i, Extent()).greatest for i in range(region.size)]
        if region.address is None or region.size < 2 or len(region.layouts) != 1:
            return 0, 0
        at = max(range(region.size), key=sizes.__getitem__)
        others = max(x for i, x in enumerate(sizes) if i != at)
        return at, math.frexp(sizes[at])[1] - math.frexp(others)[1] if others else 0

    def extent(self, place: Var | Region | tuple[type, str]) -> Extent:
        return self._found.get(self.classes.find(place), Extent())


def numbers_of_argument(t: Any, value: Any, name: str, format: Format) -> tuple[list[bool], list[Any]]:
    """Which words of an argument are fixed numbers, and the numbers and words."""
    from retrograd.derivatives._arguments import flattened, kinds

    own = kinds(t)
    real = [k.is_fixed for k in own]
    if any(k is Kind.LOGNUM for k in own):
        message = f"`{name}` is a lognum, which has no binary point"
        raise InputError(Diagnostic("RG0603", message, hint="Measure it with rg.ranges."))
    reals = np.ravel(flattened(t, value, name, "value", lenient=True)).tolist() if any(real) else [0.0] * len(own)
    if all(real):
        return real, [float(x) for x in reals]
    words = to_words(_coarse(t, format), value, format, name)
    return real, [float(x) if r else w for r, x, w in zip(real, reals, words, strict=True)]


def _coarse(t: Any, w: Format) -> Any:
    """The type with the fixed numbers at the coarsest point, where each number of a run has a word."""
    match t:
        case ScalarType(kind) if kind.is_fixed:
            return ScalarType(fixed_at(nearest_point(-(1 << 20), w.width)))
        case ArrayType(element) | StackType(element):
            return replace(t, element=_coarse(element, w))
        case StructType(_, fields):
            return replace(t, fields=tuple((name, _coarse(inner, w)) for name, inner in fields))
    return t


@dataclass
class _Part:
    """What has one point in the source, over all runs: its sizes, and the point that the user wrote, if any."""

    extent: Extent = field(default_factory=Extent)
    pinned: int | None = None


class _Choice:
    """The points of a function and of the functions that it calls, and the functions with these points."""

    def __init__(self, function: Reversible, margin: int, w: Format, chosen: bool) -> None:
        """`chosen`: the format stays as it is."""
        self.function, self.margin, self.w, self._keep = function, margin, w, chosen
        self.sites: dict[SourceFunction, Sites] = {}
        #: ("part", place) or ("variable", name, place) → the representative of its class
        self._classes = _Classes()
        self._parts: dict[Any, _Part] = {}
        self.arrays: dict[Any, tuple[int, ...]] = {}
        #: array → advice, where one element alone needs its point
        self.outliers: dict[Any, str] = {}
        #: (name, line) of a number at the point of the format → its sizes
        self._sizes: dict[tuple[str, str, int], Extent] = {}
        self.casts: dict[Span, int] = {}
        #: places that are added to each other, as classes of runs
        self._added: list[tuple[Any, Any]] = []
        #: structs whose fields have points that can be written, and where
        self.structs: dict[type, StructText] = {}
        #: numbers of the source that are written with a point, and all that became words
        self.numbers: dict[Span, Fraction] = {}
        self._known: dict[Span, Fraction] = {}

    # ------------------------------------------------------------------ what the runs found

    def add(self, m: _Measured) -> None:
        """Take in the runs for one combination of types."""
        for f in m.lowered.functions:
            own = f.host is not None or isinstance(f, InnerFunction) or not isinstance(f, Reversible)
            if not own and f not in self.sites:
                self.sites[f] = Sites(f)
                self.numbers.update(self.sites[f].passed)
        for cls in dict.fromkeys(cls for p in self.function.parameters for cls in structs_of(p.annotation)):
            with suppress(OSError, TypeError):
                lines = {s.source.file: s.source.lines for s in self.sites.values()}
                self.structs.setdefault(cls, StructText(cls, lines))
        m.settle()
        for c in m.lowered.constants:
            if c.place is not None and isinstance(c.numbers, Fraction):
                self._known.setdefault(c.place.span, c.numbers)
        every: dict[Var | Region, None] = dict.fromkeys(m.program.places)
        every.update({x: None for pair in m.program.exchanged for x in pair if not isinstance(x, int)})
        every.update(dict.fromkeys(m.lowered.module.regions))
        for x, y in m.lowered.equal_places:
            self._join(("part", x), ("part", y))
        self._join(("format",), (id(m), m.classes.find(AT_FORMAT)))
        for place in every:
            extent = m.extent(place)
            kind = (id(m), m.classes.find(place))
            part = self._parts.setdefault(self._classes.find(kind), _Part())
            part.extent.join(extent)
            if isinstance(place, Var) and self._is_shadow(place):
                continue
            key = self._key(place)
            if isinstance(place, Var) and place.span is not None:
                size = self._sizes.setdefault((place.name, place.span.file, place.span.line), Extent())
                size.join(extent)
            if key is None:
                continue
            # A point that merely follows from those that are written is no point of the user's.
            written = key[0] == "variable" and any(s.pinned(*key[1:]) for s in self.sites.values())
            if written and isinstance(place, Var) and place.kind.is_fixed and place.kind is not Kind.FIXED:
                part.pinned = place.kind.point(self.w)
            if isinstance(place, Region):
                at, bits = m.outlier(place)
                if bits >= _spare(self.w):
                    shape = place.layouts[0].shape
                    index = ", ".join(str(i) for i in np.unravel_index(at, shape))
                    self.outliers[key] = (
                        f"{key[1]}[{index}] is much greater than each other element: {_APART.format(bits)}"
                    )
                self.arrays.setdefault(key, place.layouts[0].shape if place.layouts else (place.size,))
            self._join(key, kind)
        self._added += [((id(m), m.classes.find(x)), (id(m), m.classes.find(y))) for x, y in m.program.added]
        for cls, name in dict.fromkeys(m.fields.values()):
            if cls in self.structs:
                kind = (id(m), m.classes.find((cls, name)))
                self._parts.setdefault(self._classes.find(kind), _Part()).extent.join(m.extent((cls, name)))
                self._join(("class", cls, name), kind)
                written = scalar_of(element_of_field(cls, name))
                if written is not None and has_points(written):
                    self._parts[self._classes.find(kind)].pinned = written.kind.point(self.w)

    def _join(self, x: Any, y: Any) -> None:
        a, b = self._classes.find(x), self._classes.find(y)
        if a is b or a == b:
            return
        one, other = self._parts.pop(a, _Part()), self._parts.pop(b, _Part())
        one.extent.join(other.extent)
        one.pinned = other.pinned if one.pinned is None else one.pinned
        self._classes.join(x, y)
        self._parts[self._classes.find(x)] = one

    def _key(self, place: Var | Region) -> Any:
        """The place of a variable, array or temporary in the source; None where it has none of its own."""
        if place.span is None:
            return None
        if place.name.startswith("%"):
            known = any(place.span in s.by_span for s in self.sites.values())
            return ("part", place.span) if known else None
        for s in self.sites.values():
            if place.span == s.head and place.name in s.parameters and s.function is self.function:
                held = place.layouts[0].name if isinstance(place, Region) and place.layouts else place.name
                return ("variable", place.name, place.span) if held == place.name else None
            name = place.name.rpartition(".")[2]
            if (name, place.span) in s.made:
                return "variable", name, place.span
        of, _, last = place.name.rpartition(".")
        classes = [cls for cls, text in self.structs.items() if last in text.places] if of else []
        if len(classes) == 1:
            return "class", classes[0], last
        return ("field", place.name, place.span) if self.sites and place.span == self._head else None

    @property
    def _head(self) -> Span:
        return self.function.source.span(self.function.tree)

    def part(self, key: Any) -> _Part:
        return self._parts.get(self._classes.find(key), _Part())

    def point(self, key: Any) -> int | None:
        """The point of a variable or part: of one that was always 0, the coarsest of those it is added to, or None."""
        found = self.part(key)
        if found.pinned is not None or found.extent.greatest:
            return found.pinned if found.pinned is not None else self.point_for(found.extent)
        own = self._classes.find(key)
        others = [self.part(y) for x, y in self._added if self._classes.find(x) == own]
        points = [p.pinned if p.pinned is not None else self.point_for(p.extent) for p in others]
        return min((p for p in points if p is not None), default=None)

    def at_format(self, key: Any) -> bool:
        """Whether a variable is passed to functions that compute at the point of the format only."""
        return bool(self._classes.find(key) == self._classes.find(("format",)))

    def point_for(self, extent: Extent) -> int | None:
        """The greatest point that holds the numbers, with room."""
        if not extent.greatest:
            return None
        most = self.w.width - 1 - math.frexp(extent.greatest)[1] - self.margin
        return nearest_point(most, self.w.width)

    def found(self) -> list[Any]:
        return [
            k
            for k in self._classes._parent
            if isinstance(k, tuple) and k and k[0] in ("part", "variable", "field", "class")
        ]

    def fields(self) -> dict[tuple[type, str], int]:
        """The fields of structs that get a point."""
        out: dict[tuple[type, str], int] = {}
        for key in self.found():
            if key[0] == "class" and key[2] in self.structs[key[1]].places:
                point = self.point(key)
                if point is not None and not self.at_format(key):
                    out[key[1:]] = point
        return out

    # ------------------------------------------------------------------ functions with points

    def texts(self) -> dict[str, Text]:
        """File → its text with the points."""
        texts: dict[str, Text] = {}
        for s in self.sites.values():
            text = texts.setdefault(s.source.file, Text(s.source.lines))
            for span, value in self.numbers.items():
                if span in s.expressions and not _is_exact(value, self.w):
                    s.wrap(text, s.expressions[span], precise(value, self.w).kind.point(self.w))
            inner_first = sorted(
                (span for span in self.casts if span in s.by_span), key=lambda x: _length(s.by_span[x])
            )
            for span in inner_first:
                s.wrap(text, s.by_span[span], self.casts[span])
            # A variable last: its point may be written around the whole value, outside of the others.
            named = [k for k in self.found() if k[0] == "variable"]
            for key in named:
                _, name, span = key
                point = self.point(key)
                if point is None or s.pinned(name, span) or self.at_format(key):
                    continue
                if span == s.head and s.function is self.function and name in s.parameters:
                    s.parameter(text, name, point, self.arrays.get(key))
                elif (name, span) in s.made:
                    s.variable(text, name, span, point, key in self.arrays)
        own = self.sites[self.function]
        for (cls, name), point in self.fields().items():
            at = self.structs[cls]
            at.write(texts.setdefault(at.file, Text(at.lines)), name, point, own.type_name)
        if self.w != self.function.format_for(None):
            write_format(own, texts[own.source.file], self.w)
        return texts

    def build(self) -> Annotated:
        """The function with the points as they are."""
        lines = {file: text.lines() for file, text in self.texts().items()}
        stand_ins: dict[SourceFunction, SourceFunction] = {}
        found = self.fields()
        points = tuple((cls, tuple((n, p) for (c, n), p in found.items() if c is cls)) for cls in self.structs)
        for f, s in self.sites.items():
            assert isinstance(f, Reversible)
            w = self.w if f is self.function else f.format
            stand_ins[f] = Annotated(f, lines[s.source.file], w, stand_ins, points if found else ())
        made = stand_ins[self.function]
        assert isinstance(made, Annotated)
        return made

    def refine(self, types: Callable[[Annotated], Sequence[Any]]) -> Annotated:
        """Choose the format, and points for parts of expressions that do not fit or lose bits at the language's point."""
        for _ in range(40):
            made = self.build()
            old = {}
            for f, s in self.sites.items():
                new = made._stand_ins[f]
                for a, b in paired(f.tree, new.tree, s):
                    old[new.source.span(b)] = s.source.span(a)
            try:
                lowered = lowered_for(made, types(made), self.w, placed=True)
                lost = {place.span for _, place in lowered.warnings}
            except CompileError as error:
                span = error.diagnostics[0].span
                lost = set() if error.code != "RG0730" or span is None else {span}
                lowered = None
                failed = error
            lost = {old.get(span, span) for span in lost} & self._known.keys() - self.numbers.keys()
            if lost:
                # Numbers of the source that the format does not hold have points of their own.
                self.numbers.update({span: self._known[span] for span in lost})
                continue
            if lowered is None:
                raise failed
            found: dict[Span, int] = {}
            at_format = self.part(("format",)).extent.greatest
            bits = max(1, math.frexp(at_format)[1]) if at_format and math.isfinite(at_format) else 0
            same: dict[Span, set[Span]] = {}
            for x, y in lowered.equal_places:
                group = same.get(x, {x}) | same.get(y, {y})
                same.update(dict.fromkeys(group, group))
            for var in _variables(lowered):
                if var.span is None or not var.kind.is_fixed or self._is_shadow(var):
                    continue
                extent = self._sizes.get((var.name, var.span.file, var.span.line), Extent())
                for at in sorted(same.get(var.span, {var.span})) if var.name.startswith("%") else ():
                    span = old.get(at, at)
                    if span in self.casts or not any(span in s.by_span for s in self.sites.values()):
                        continue
                    extent = self.part(("part", span)).extent
                    own, best = var.kind.point(self.w), self.point_for(extent)
                    movable = not _at_format(self._node(span), self.sites)
                    if best is not None and movable and not best - _spare(self.w) <= own <= best:
                        found[span] = best
                if var.kind is Kind.FIXED and extent.greatest and math.isfinite(extent.greatest):
                    bits = max(bits, math.frexp(extent.greatest)[1], 1)
            if found:
                inner = min(found, key=lambda x: _length(self._node(x)))
                nodes = {x: self._node(x) for x in found}
                # Points of larger parts follow from those of the parts in them.
                self.casts.update(
                    {
                        x: p
                        for x, p in found.items()
                        if x == inner or not any(_holds(nodes[x], nodes[y]) for y in found if y != x)
                    }
                )
                continue
            frac = self.w.width - 1 - bits - self.margin
            best = max(0, min(frac, self.w.width - 3))
            if self._keep or not bits or best == self.w.frac:
                return made
            self._keep, self.w = True, Format(self.w.width, best)
            self.casts.clear()
        return made

    def _is_shadow(self, var: Var) -> bool:
        """Whether it holds a cotangent of a gradient within the program, whose point is not that of its type."""
        if var.name.endswith((".bar", ".dot")):
            return True
        # Words of cotangents in memory are loaded into a `t`.
        return var.name == "t" and not any((var.name, var.span) in s.made for s in self.sites.values())

    def _node(self, span: Span) -> ast.expr:
        return next(s.by_span[span] for s in self.sites.values() if span in s.by_span)


def _spare(w: Format) -> int:
    """Bits that a part of an expression may lose at the point that the language gives it."""
    return w.width // 8


def _is_exact(number: Fraction, w: Format) -> bool:
    """Whether the format holds a number with all of its bits."""
    scaled = number * 2**w.frac
    return bool(abs(scaled) < w.sign) and scaled.denominator == 1


def _length(node: ast.expr) -> int:
    return sum(1 for _ in ast.walk(node))


def _holds(outer: ast.expr, inner: ast.expr) -> bool:
    return any(n is inner for n in ast.walk(outer))


def _at_format(node: ast.expr, sites: Mapping[SourceFunction, Sites]) -> bool:
    """Whether the language computes an expression at the point of the format only:

    a function but `rg.sqrt`, `min`, `max`, `abs`.
    """
    if not isinstance(node, ast.Call):
        return False
    for s in sites.values():
        if s.by_span.get(s.source.span(node)) is node:
            name = getattr(s.function.found(node.func), "__name__", "")
            return name not in ("sqrt", "abs", "min", "max", "sum", "mean")
    return True


def _variables(lowered: Lowered) -> Iterator[Var]:
    for block in bodies(lowered.module):
        for node in walk(block):
            if isinstance(node, Local):
                yield node.var


def lowered_for(
    function: Reversible, types: Sequence[Any], w: Format, *, placed: bool = False, real: bool = False
) -> Lowered:
    """The function in the IR, before all passes."""
    o = function.options
    return with_deep_stack(
        lambda: lower(function, types, w, o.stack, o.heap, o.forget, real=real, placed=placed or real, parts=o.parts)
    )


@api_boundary
def autoscale(
    f: Reversible,
    /,
    *args: Any,
    sampler: Callable[[np.random.Generator], Sequence[Any]] | None = None,
    runs: int = 100,
    seed: int = 0,
    margin: int = 1,
    loss: int | str | Sequence[int | str] | None = None,
    format: Format | str | None = None,
    precision: Precision | None = None,
    **keywords: Any,
) -> Annotated:
    """The function with a binary point for each variable: the greatest p with greatest · 2^margin < 2^(W − 1 − p)
    over the inputs given or drawn.

    `sampler(rng)`: draws a tuple of arguments, `runs` times from the generator of a seed. `margin`: bits of room
    above the greatest number. `loss`:
    a result whose gradient is tried, too, or several. `format`: without one, the places F of functions such as
    `rg.exp` are chosen, too, unless the function
    names its format. The points are written as annotations and conversions: `g.scaling.source`; `g.scaling` is the
    report. The same inputs give
    the same points. Points that the user wrote stay.
    Trap: an input with greater numbers than those of the runs traps, and the message names the point that holds it.
    Raises CompileError, InputError RG0603 for what has no points (lognums, Janus, functional functions), RG0604
    where a run fails in float64
    or no choice of points holds it.

        >>> g = rg.autoscale(orbit, [1.496e11, 0.0], [0.0, 29780.0], 1.989e30, 8640.0, 1000)
        >>> print(g.scaling)
    """
    function, inputs = _function_of(f), _inputs(args, keywords, sampler, runs, seed)
    if isinstance(margin, bool) or not isinstance(margin, int) or not 0 <= margin < 16:
        raise InputError(Diagnostic("RG0507", f"`margin` is {margin!r:.20}: a number of bits from 0 to 15"))
    losses = () if loss is None else (loss,) if isinstance(loss, int | str) else tuple(loss)
    w = function.format_for(format)
    measured: dict[Any, _Measured] = {}
    wanted: list[list[list[float] | None]] = []
    first: dict[Any, list[Any]] = {}
    bound: list[list[Any]] = []
    for given, named in inputs:
        values = _bound(function, given, named, format)
        bound.append(values)
        types = tuple(function.types_of(values))
        m = measured.get(types)
        if m is None:
            m = measured[types] = _measured_for(function, types, w)
            first[types] = values
        try:
            wanted.append(m.run(values, w))
        except RealTrap as error:
            message = f"a run of `{function.__name__}` in float64 fails: {error}"
            line = None if error.span is None else _text_at(function, error.span)
            hint = "Measure inputs for which all numbers of the function have values in float64."
            raise InputError(Diagnostic("RG0604", message, error.span, hint, line)) from None
    samples = [*first.values()]
    for room in range(margin, margin + _TRIALS):
        choice = _Choice(function, room, w, format is not None or function.format is not None)
        for m in measured.values():
            choice.add(m)
        made = choice.build()
        for values in samples:
            made = choice.refine(lambda g, values=values: g.types_of(values))  # type: ignore[misc]
        try:
            difference = _difference(made, inputs, wanted, precision)
            if losses:
                from retrograd.derivatives._gradients import grad

                for given, named in inputs:
                    for one in losses:
                        grad(made, loss=one)(*given, **named)
        except (ProgramTrap, InputError) as error:
            if error.code not in ("RG0404", "RG0601"):
                raise
            failed = error
            continue
        made.scaling = _scaling(choice, made, len(inputs), room, difference)
        if difference > _DIFFERENT:
            message = f"with its points `{function.__name__}` gives results that differ from float64's"
            warnings.warn(PrecisionWarning(f"{message} by {difference:.2g} of their size: see `scaling`"), stacklevel=3)
        return made
    raise InputError(
        Diagnostic("RG0604", f"no points hold the runs of `{function.__name__}`: {failed.diagnostics[0].message}")
    )


def _function_of(f: Any) -> Reversible:
    function, backward = oriented(f)
    if backward or isinstance(f, Inverse):
        raise InputError(
            Diagnostic(
                "RG0603", f"`{f.__name__}` is an inverse", hint="Scale the function: its inverse has the same points."
            )
        )
    if type(function) is Annotated:
        function = function.of
    if type(function) is not Reversible or function.own_lowering is not None:
        message = f"`{f.__name__}` has no variables in the source that could have points"
        raise InputError(Diagnostic("RG0603", message, hint="rg.autoscale takes functions decorated with @reversible."))
    return function


def _inputs(
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    sampler: Callable[[np.random.Generator], Sequence[Any]] | None,
    runs: int,
    seed: int,
) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    if sampler is None:
        return [(args, keywords)]
    if args or keywords:
        raise InputError(Diagnostic("RG0603", "both arguments and a sampler are given", hint="give one of the two"))
    if runs < 1:
        raise InputError(Diagnostic("RG0507", f"`runs` is {runs}: measure 1 run or more"))
    rng = np.random.default_rng(seed)
    return [(tuple(sampler(rng)), {}) for _ in range(runs)]


def _bound(function: Reversible, args: tuple[Any, ...], keywords: dict[str, Any], format: Any) -> list[Any]:
    from retrograd.runtime._reversible import request_of

    return request_of(function, format=format).values(args, keywords)


def _measured_for(function: Reversible, types: Sequence[Any], w: Format) -> _Measured:
    lowered = lowered_for(function, types, w, real=True)
    found = [*_variables(lowered)]
    pointed = next((v for v in found if v.kind.is_fixed and v.kind is not Kind.FIXED and v.name[:1] != "%"), None)
    if pointed is not None and any(v.name.endswith(".bar") for v in found):
        message = f"`{function.__name__}` holds a gradient, and `{pointed.name}` has a point already"
        hint = "Take such points out: rg.autoscale chooses all points of a program with a gradient."
        raise InputError(Diagnostic("RG0603", message, hint=hint))
    # What is called recursive is not inlined.
    procedures = {
        name: replace(p, recursive=p.recursive or name in lowered.at_format)
        for name, p in lowered.module.procedures.items()
    }
    module = replace(lowered.module, procedures=procedures)
    module = rename_locals(inline_calls(module, most=_INLINED, largest=100 * _INLINED, largest_twice=100 * _INLINED))
    try:
        fields = {a.address + at: own for a in lowered.arguments for at, own in _fields(a.type)}
        return _Measured(lowered, RealProgram(module, lowered.at_format), fields)
    except NoRealForm as error:
        message = f"`{function.__name__}` cannot be measured in float64: {error}"
        line = None if error.span is None else _text_at(function, error.span)
        raise InputError(
            Diagnostic("RG0603", message, error.span, "Measure it with rg.ranges, and write the points.", line)
        ) from None


def _fields(t: Any) -> Iterator[tuple[int, tuple[type, str]]]:
    """The fixed numbers of a value that are fields of a struct, or elements of a field: word, class and field."""
    match t:
        case ArrayType(StructType() as element, shape):
            own = [*_fields(element)]
            yield from ((i * element.size + at, found) for i in range(math.prod(shape)) for at, found in own)
        case StructType(cls, fields):
            begin = 0
            for name, inner in fields:
                number = inner.element if isinstance(inner, ArrayType) else inner
                if isinstance(number, ScalarType) and number.kind.is_fixed:
                    yield from ((begin + i, (cls, name)) for i in range(inner.size))
                else:
                    yield from ((begin + at, found) for at, found in _fields(inner))
                begin += inner.size


def _text_at(function: Reversible, span: Span) -> str | None:
    return function.source.text(span.line) if span.file == function.source.file else None


def _difference(made: Annotated, inputs: Sequence[Any], wanted: Sequence[Any], precision: Precision | None) -> float:
    """The greatest difference of a result from the real one, relative to the greatest number of the result."""
    from retrograd.derivatives._arguments import flattened

    greatest = 0.0
    run = made if precision is None else made.with_options(precision=precision)
    for (args, keywords), reals in zip(inputs, wanted, strict=True):
        found = run(*args, **keywords)
        types = made.types_of(_bound(made, args, keywords, None))
        for t, value, numbers in zip(types, found, reals, strict=True):
            if not numbers:
                continue
            own = [x for x, real in zip(
                np.ravel(flattened(t, value, "result", "value", lenient=True)).tolist(), _numbers_of(t), strict=True
            ) if real]  # fmt: skip
            size = max(map(abs, numbers))
            if size:
                greatest = max(greatest, *(abs(x - y) / size for x, y in zip(own, numbers, strict=True)))
    return greatest


def _numbers_of(t: Any) -> list[bool]:
    from retrograd.derivatives._arguments import kinds

    return [k.is_fixed for k in kinds(t)]


def _scaling(choice: _Choice, made: Annotated, runs: int, margin: int, difference: float) -> Scaling:
    rows = []
    for key in choice.found():
        kind, span = key[0], key[-1]
        part = choice.part(key)
        best = choice.point(key)
        if best is None or (kind == "part" and span not in choice.casts):
            continue
        if kind == "class":
            at = choice.structs[key[1]]
            if key[2] not in at.places and choice.part(key).pinned is None:
                continue
            span = Span(at.file, at.places[key[2]][0] if key[2] in at.places else at.first, 1, 1)
        name = ast.unparse(choice._node(span)) if kind == "part" else key[1]
        name = f"{key[1].__name__}.{key[2]}" if kind == "class" else name
        stays = kind == "field" or choice.at_format(key)
        point = choice.casts.get(span, best) if kind == "part" else choice.w.frac if stays else best
        note, least = "", min(part.extent.least, part.extent.greatest)
        if kind == "field":
            if _spare(choice.w) >= best - point >= 0:
                continue
            note = f"its type stands in a class: write `{name.rpartition('.')[2]}: fixed[{best}]` there"
        elif part.extent.greatest > _WIDE * least > 0:
            ratio = math.log2(part.extent.greatest / least)
            note = (
                f"its numbers span 2^{ratio:.0f}, so the small ones have few bits: "
                "a lognum has the same relative error for all, or use another variable"
            )
        elif key in choice.outliers:
            note = choice.outliers[key]
        rows.append(Scaled(name, span.file, span.line, least, part.extent.greatest, point, 2.0**-point, note))
    rows.sort(key=lambda row: (row.file, row.line, row.name))
    texts, sources = [], {}
    edited = {file: text.lines() for file, text in choice.texts().items()}
    for cls in dict.fromkeys(cls for cls, _ in choice.fields()):
        at = choice.structs[cls]
        texts.append(textwrap.dedent("".join(edited[at.file][at.first - 1 : at.last])).rstrip("\n"))
        sources[at.file] = "".join(edited[at.file])
    for f, s in choice.sites.items():
        new = made._stand_ins[f]
        assert isinstance(new, Annotated)
        whole = "".join(line if line.endswith("\n") else f"{line}\n" for line in new._lines)
        if new._lines != tuple(s.source.lines):
            sources[s.source.file] = whole if is_known(f, s.type_name) else importing(whole)
        first = min([new.tree.lineno, *(d.lineno for d in new.tree.decorator_list)]) + new.source.line
        last = (new.tree.end_lineno or new.tree.lineno) + new.source.line
        texts.append(textwrap.dedent("\n".join(line.rstrip("\n") for line in new._lines[first - 1 : last])))
    return Scaling(made.__name__, choice.w, runs, margin, tuple(rows), difference, sources, tuple(texts))
