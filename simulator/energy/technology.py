"""Technology models: figures with units, ranges, sources and evidence, read from TOML files.

    schema, id, version, title, doc, covered;  [temperature] [frequency] [phases] [ambient];  [[charge]] cause, label, law, figures

A charge is a part of the energy, by one law (`laws.py`). A figure is a table: value, unit, low and high (the value, if they are
missing), source, evidence; or `open = true` and its unit. Nothing is guessed: a missing, misspelt or impossible entry is an
error, with its line in the file.

A unit is a base unit with a prefix: `0.1 pJ` in a file is a number of joules in the program. `kT ln2` is an energy too; its
joules depend on the temperature. A range is calculated end by end:

    (lo, nominal, hi) + (lo, nominal, hi),   · (lo, nominal, hi)

All figures are positive and every price grows with them, so the bounds of a price follow from the bounds of its figures.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple

from retrograd.isa.diagnostics import Diagnostic, InputError, Span, nearest
from retrograd.isa.files import read_file
from retrograd.simulator.energy.laws import LAWS, REVERSIBLE, Law, limits

# ---------------------------------------------------------------------- units

#: J/K, exact (SI 2019)
BOLTZMANN = 1.380649e-23
#: the unit of energy that depends on the temperature
THERMAL = "kT ln2"

_PREFIXES = {
    "": 1.0, "z": 1e-21, "a": 1e-18, "f": 1e-15, "p": 1e-12, "n": 1e-9, "µ": 1e-6, "u": 1e-6, "m": 1e-3,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
}  # fmt: skip
#: unit -> (quantity, factor to the SI unit); these take a prefix
_BASES = {
    "J": ("energy", 1.0),
    "eV": ("energy", 1.602176634e-19),  # exact (SI 2019)
    "J s": ("action", 1.0),
    "s": ("time", 1.0),
    "Hz": ("frequency", 1.0),
    "F": ("capacitance", 1.0),
    "ohm": ("resistance", 1.0),
    "Ω": ("resistance", 1.0),
    "V": ("voltage", 1.0),
    "W": ("power", 1.0),
    "K": ("temperature", 1.0),
}
#: units without a prefix
_PLAIN = {
    "1": ("number", 1.0),
    "W/W": ("ratio of powers", 1.0),
    "B": ("memory", 1.0),
    "KiB": ("memory", 1024.0),
    "MiB": ("memory", 1024.0**2),
    "GiB": ("memory", 1024.0**3),
    THERMAL: ("energy", 1.0),
}


class PhysicalUnit(NamedTuple):
    """A unit: its quantity and its factor to the SI unit. The factor of `kT ln2` counts multiples of kT ln 2."""

    name: str
    measures: str
    factor: float

    @property
    def thermal(self) -> bool:
        """Whether its joules depend on the temperature."""
        return self.name == THERMAL


def _units() -> dict[str, PhysicalUnit]:
    out = {name: PhysicalUnit(name, *found) for name, found in _PLAIN.items()}
    for base, (measures, factor) in _BASES.items():
        for prefix, by in _PREFIXES.items():
            out[prefix + base] = PhysicalUnit(prefix + base, measures, by * factor)
    return out


#: name -> unit
UNITS = _units()


#: quantity -> its SI unit
SI = {unit.measures: unit for unit in UNITS.values() if unit.factor == 1.0 and not unit.thermal and unit.name != "Ω"}

#: quantity -> examples of its units, for hints
_EXAMPLES = {
    "energy": "pJ, zJ, eV, kT ln2", "action": "J s, zJ s", "time": "s, ns", "frequency": "Hz, MHz, GHz", "capacitance": "pF, fF, aF",
    "resistance": "ohm, kohm, Mohm", "voltage": "V, mV", "power": "W, nW, fW", "temperature": "K, mK", "number": "1",
    "ratio of powers": "W/W", "memory": "B, KiB, MiB",
}  # fmt: skip

#: syntax of quantities
_WRITTEN = {
    "energy": "1.4zJ", "action": "1zJ s", "frequency": "5GHz", "capacitance": "1fF", "resistance": "10kohm", "voltage": "0.8V", "power": "1fW",
    "temperature": "4.2K", "number": "2", "ratio of powers": "400",
}  # fmt: skip


def units_of(measures: str) -> str:
    """A hint with units of the expected quantity."""
    return f"units of {measures}: {_EXAMPLES[measures]}"


def thermal_energy(temperature: float) -> float:
    """kT ln 2 in joules: the least heat of erasing one bit (R. Landauer, 1961)."""
    return BOLTZMANN * temperature * math.log(2)


def with_prefix(value: float, unit: str, digits: int = 4) -> str:
    """A number with the prefix that gives one to three places before the point: 2.5e-11, "J" is 25 pJ."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    power = math.floor(math.log10(abs(value)) / 3) * 3
    power = min(max(power, -24), 12)
    shown = value / 10.0**power
    if abs(float(f"{shown:.{digits}g}")) >= 1000 and power < 12:
        power, shown = power + 3, shown / 1000
    names = {-24: "y", 0: "", **{round(math.log10(by)): p for p, by in _PREFIXES.items() if p != "u"}}
    return f"{shown:.{digits}g} {names[power]}{unit}"


_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_QUANTITY = re.compile(rf"\s*({_NUMBER}(?::{_NUMBER})*)\s*([A-Za-zµΩ][\w /Ωµ]*)?\s*")


def quantity(text: str, measures: str, what: str, *, with_unit: bool = False) -> tuple[float, float, float]:
    """(lo, nominal, hi) in SI units of a text: `10 kohm`, `4.2K`, `8:10:12kohm`, or, in SI units, `300`.

    Raises InputError RG0507 if it is no number, RG1105 for a unit of another quantity, and, `with_unit`, for none:
    a capacitance of `1` would be one farad. A number, a ratio and 0 need no unit.
    """
    found = _QUANTITY.fullmatch(text)
    parts = found[1].split(":") if found else []
    try:
        numbers = [float(part) for part in parts]
        if len(numbers) not in (1, 3) or not all(math.isfinite(x) and x >= 0 for x in numbers):
            raise ValueError
    except ValueError:
        hint = f"For example {_WRITTEN.get(measures, '10kohm')}."
        if what not in ("temperature", "frequency"):
            hint += " A range is low:likely:high, with one unit."
        raise InputError(Diagnostic("RG0507", f"{what}: `{text:.40}` is no {measures}", hint=hint)) from None
    assert found is not None
    factor = 1.0
    if found[2] is not None:
        unit = UNITS.get(found[2].strip())
        fitting = [name for name, u in UNITS.items() if u.measures == measures]
        if unit is None or unit.measures != measures or unit.thermal:
            hint = nearest(found[2], fitting) or units_of(measures)
            raise InputError(Diagnostic("RG1105", f"{what}: `{found[2]:.40}` is no unit of {measures}", hint=hint))
        factor = unit.factor
    elif with_unit and any(numbers) and measures not in ("number", "ratio of powers"):
        raise InputError(Diagnostic("RG1105", f"{what}: `{text:.40}` has no unit", hint=units_of(measures)))
    lo, nominal, hi = numbers if len(numbers) == 3 else numbers * 3
    if not lo <= nominal <= hi or math.isinf(hi * factor):
        hint = "A range is low:likely:high, the lowest first."
        raise InputError(Diagnostic("RG0507", f"{what}: {lo:g}:{nominal:g}:{hi:g} is no range", hint=hint))
    return lo * factor, nominal * factor, hi * factor


# ---------------------------------------------------------------------- figures

#: kinds of evidence, the best first
EVIDENCE = ("measured", "simulated", "estimated", "claimed", "assumed", "given")


class Range(NamedTuple):
    """A positive quantity with its lowest, likely and highest value."""

    lo: float
    nominal: float
    hi: float

    def __add__(self, other: object) -> Range:  # a sum, not a longer tuple
        if not isinstance(other, Range):
            return NotImplemented
        return Range(*(x + y for x, y in zip(self, other, strict=True)))

    def __mul__(self, other: object) -> Range:  # a product, not a repetition
        if isinstance(other, Range):
            return Range(*(x * y for x, y in zip(self, other, strict=True)))
        if isinstance(other, int | float):
            return Range(*(x * other for x in self))
        return NotImplemented

    def __truediv__(self, divisor: float) -> Range:
        return Range(*(x / divisor for x in self))

    def by(self, f: Callable[..., float], *others: Range) -> Range:
        """f at the three points. Correct if f grows with all arguments."""
        return Range(*(f(*at) for at in zip(self, *others, strict=True)))

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return {"low": self.lo, "value": self.nominal, "high": self.hi}


ZERO: Final = Range(0.0, 0.0, 0.0)


def exactly(value: float) -> Range:
    """A quantity without uncertainty."""
    return Range(value, value, value)


@dataclass(frozen=True)
class Figure:
    """A figure of a technology file: in its unit, with its source."""

    name: str
    unit: PhysicalUnit
    #: None: left open; the user who prices gives it
    written: Range | None
    source: str
    evidence: str

    def at(self, temperature: float) -> Range:
        """The range in SI units at this temperature. Trap: an open figure has none."""
        assert self.written is not None, self.name
        factor = thermal_energy(temperature) if self.unit.thermal else self.unit.factor
        return self.written * factor

    @property
    def si(self) -> Range:
        """The range in SI units of a figure that does not depend on the temperature."""
        assert not self.unit.thermal, self.name
        return self.at(0.0)

    def as_dict(self) -> dict[str, Any]:
        """The figure for JSON, in its own unit."""
        written = {"value": None} if self.written is None else self.written.as_dict()
        return {"name": self.name, **written, "unit": self.unit.name, "source": self.source, "evidence": self.evidence}


# ---------------------------------------------------------------------- models

#: causes of energy; the host's are separate, as `program load` and `copy-out`
CAUSES = ("logic", "leakage", "clock", "memory", "erasure", "cooling")
HOST_CAUSES = ("program load", "copy-out")
#: the part of a system that fetches and decodes instructions; its cause is logic
OVERHEAD = "overhead"
PARTS = (*CAUSES, OVERHEAD)


@dataclass(frozen=True)
class Size:
    """A figure for one size: words of `bits`, or a memory of `capacity` accessed by `bits`."""

    bits: int
    energy: Figure
    #: bytes; None: any
    capacity: float | None = None
    #: of a memory: `reads` or `writes`; empty: both
    of: str = ""

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the figure and its size."""
        found = {**self.energy.as_dict(), "bits": self.bits, "capacity_bytes": self.capacity}
        return {**found, "of": self.of} if self.of else found


@dataclass(frozen=True)
class Charge:
    """A charge: a part of the energy, by one law."""

    cause: str
    label: str
    law: Law
    figures: Mapping[str, Figure]
    #: the function unit whose micro-operations are charged
    unit: str | None = None
    sizes: tuple[Size, ...] = ()
    #: kind of cell in a netlist, or of reversible gate, -> devices, nodes, … of one
    cells: Mapping[str, Figure] | None = None
    #: kind of reversible gate -> the levels that it takes, where it is not one
    levels: Mapping[str, Figure] = field(default_factory=dict)

    def all_figures(self) -> Iterator[Figure]:
        """The figures on which its price depends."""
        yield from self.figures.values()
        yield from (size.energy for size in self.sizes)
        yield from (self.cells or {}).values()
        yield from self.levels.values()

    @property
    def part(self) -> str:
        """The part of a system that it prices: its cause, or `overhead` for the instructions themselves."""
        return OVERHEAD if self.law.name == "instruction" else self.cause

    @property
    def timed(self) -> bool:
        """Whether its energy depends on the clock."""
        return self.law.timed or "finite_time" in self.figures

    def of_a_bit(self, kelvins: float, hertz: float | None = None) -> Range:
        """The energy of erasing one bit in a time of 1/`hertz` or, without `hertz`, slowly. Trap: open figures and laws that price no bits have none."""
        if "energy" in self.figures:
            more = self.figures.get("finite_time")
            slow = self.figures["energy"].at(kelvins)
            return slow if more is None or hertz is None else slow + more.si * hertz
        c, v = self.figures["capacitance"].si, self.figures["voltage"].si
        return c * v * v * 0.5

    @property
    def open(self) -> list[str]:
        """The figures that the model leaves open, and that its price needs. Of a generator that is a quality, where
        no efficiency is given."""
        lacking = [name for name, figure in self.figures.items() if figure.written is None]
        unneeded = "quality" if self.by_efficiency else "efficiency" if "quality" in self.figures else ""
        return [name for name in lacking if name != unneeded]

    @property
    def by_efficiency(self) -> bool:
        """Whether it is of a generator whose efficiency is given."""
        return "efficiency" in self.figures and self.figures["efficiency"].written is not None

    @property
    def memories(self) -> list[tuple[float, dict[bool, Size]]]:
        """(capacity in bytes, figures of reads and of writes) of each memory, the smallest first."""
        found: dict[float, dict[bool, Size]] = {}
        for size in self.sizes:
            at = found.setdefault(math.inf if size.capacity is None else size.capacity, {})
            at |= {written: size for written, of in ((False, "reads"), (True, "writes")) if size.of in ("", of)}
        return sorted(found.items(), key=lambda memory: memory[0])

    def driven_by(self, generator: Charge) -> Charge:
        """The losses of a generator of ramps, as a charge of the nodes of these ramps."""
        kept = {name: self.figures[name] for name in ("capacitance", "voltage")}
        own = {
            n: f
            for n, f in generator.figures.items()
            if (n == "efficiency") == generator.by_efficiency or len(generator.figures) == 1
        }
        figures = {**(self.figures if generator.by_efficiency else kept), **own}
        figures.pop("dropped", None)
        return replace(self, cause=generator.cause, label=generator.label, figures=figures)


#: relative tolerance of bounds, since decimal numbers may differ in the last places
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Technology:
    """A technology: its charges, with figures, temperatures and clocks."""

    id: str
    version: str
    title: str
    doc: str
    temperature: Figure
    charges: tuple[Charge, ...]
    frequency: Figure | None = None
    #: temperature at which the heat of cooling arises
    ambient: Figure | None = None
    #: levels of a netlist that a signal passes in one cycle of the clock
    phases: Figure | None = None
    #: part without a charge that is complete -> what covers it
    covered: Mapping[str, str] = field(default_factory=dict)
    #: the file from which it was read
    file: str = ""

    @property
    def timed(self) -> bool:
        """Whether its prices depend on the clock."""
        return any(charge.timed for charge in self.charges)

    def cycles(self, levels: int) -> int | None:
        """⌈levels / phases⌉: cycles of the clock from the first level to the last; None for a model without phases."""
        return None if self.phases is None else max(1, math.ceil(levels / self.phases.si.nominal))

    @property
    def by_addresses(self) -> bool:
        """Whether a charge depends on the addresses of the run."""
        return any(charge.law.name == "hierarchy" for charge in self.charges)

    @cached_property
    def priced_charges(self) -> list[Charge]:
        """The charges without cooling; the charge of a generator stands once for each charge of ramps."""
        charges = [charge for charge in self.charges if charge.cause != "cooling"]
        ramps = [charge for charge in charges if "ramps" in charge.figures]
        return [
            one
            for charge in charges
            for one in ([ramp.driven_by(charge) for ramp in ramps] if charge.law.name == "power clock" else [charge])
        ]

    @property
    def by_activity(self) -> bool:
        """Whether a charge depends on how often cells switch."""
        return any("activity" in charge.figures for charge in self.charges)

    @property
    def open(self) -> dict[str, Figure]:
        """Figures that it leaves open, by name."""
        return {name: charge.figures[name] for charge in self.charges for name in charge.open}

    @property
    def to_give(self) -> str:
        """The figures that it leaves open, with examples of their units, for people."""
        names = {"quality": "quality or efficiency of the generator"}
        found = (f"{names.get(name, name)} ({_WRITTEN[figure.unit.measures]})" for name, figure in self.open.items())
        return ", ".join(found)

    def below_bounds(self, kelvins: float) -> Iterator[tuple[int, str, str]]:
        """(index of the charge, name of the figure, message) of each figure below a physical bound at a temperature.

        Erasing a bit dissipates at least kT ln 2 (Landauer). Moving heat Q from T to T₀ takes at least Q·(T₀ − T)/T (Carnot).
        The least value of a figure counts.
        """
        everywhere = [*enumerate(self.charges)]
        garbage = [i for i, charge in everywhere if charge.law.name == "garbage"]
        for of_bits in ([i for i, charge in everywhere if charge.law.of_bits], garbage):
            if not of_bits or any(self.charges[i].open for i in of_bits):
                continue
            each, least = sum(self.charges[i].of_a_bit(kelvins).lo for i in of_bits), thermal_energy(kelvins)
            if each < least * (1 - _ROUNDING):
                spent, bound = with_prefix(each, "J", 6), with_prefix(least, "J", 6)
                message = f"erasing a bit takes {spent}, less than kT ln 2 at {kelvins:g} K, {bound}"
                yield of_bits[0], next(iter(self.charges[of_bits[0]].figures)), message
        for i, charge in everywhere:
            floor = charge.figures.get("floor")
            if floor is not None and floor.written and floor.at(kelvins).lo < thermal_energy(kelvins) * (1 - _ROUNDING):
                message = (
                    f"a lost bit takes {with_prefix(floor.at(kelvins).lo, 'J', 6)}, less than kT ln 2 at {kelvins:g} K"
                )
                yield i, "floor", message
            if charge.law.name == "cooling" and self.ambient is not None and not charge.open:
                outside, overhead = self.ambient.si.nominal, charge.figures["overhead"].si.lo
                least = (outside - kelvins) / kelvins
                if overhead < least * (1 - _ROUNDING):
                    message = f"cooling takes {overhead:g} W/W, less than Carnot's ({outside:g} K − {kelvins:g} K) / {kelvins:g} K = {least:.6g}"
                    yield i, "overhead", message

    def with_figures(self, given: Mapping[str, Range]) -> Technology:
        """The model with figures that it left open, in their SI units; evidence: given. Raises InputError RG1109."""
        left = {name: figure for charge in self.charges for name, figure in charge.figures.items()}
        for name, value in given.items():
            shown = f"`{name:.40}` = {':'.join(f'{x:g}' for x in (value if value.lo < value.hi else value[:1]))}"
            if not 0 <= value.lo <= value.nominal <= value.hi < math.inf:
                raise InputError(Diagnostic("RG0507", f"{shown} is no range of a figure"))
            if name not in left:
                hint = nearest(name, left) or (f"its figures: {', '.join(left)}" if left else "it has none to be given")
                raise InputError(Diagnostic("RG1109", f"`{self.id}` has no figure `{name:.40}`", hint=hint))
            measures = left[name].unit.measures
            least, most = limits(name, measures)
            if not least <= value.lo <= value.hi <= most:
                unit = "" if measures == "number" else f" {SI[measures].name}"
                hint = f"a value from {least:g} to {most:g}{unit}"
                raise InputError(Diagnostic("RG0507", f"{shown}{unit} is out of range", hint=hint))

        def changed(charge: Charge) -> Charge:
            figures = dict(charge.figures)
            for name, value in given.items():
                if name in figures:
                    unit = SI[figures[name].unit.measures]
                    figures[name] = Figure(name, unit, value, "given for this price", "given")
            return replace(charge, figures=figures)

        found = replace(self, charges=tuple(map(changed, self.charges)))
        for charge in found.charges:
            if charge.by_efficiency and "quality" in charge.figures and charge.figures["quality"].written is not None:
                message = "a generator has a quality or an efficiency, and both are given"
                raise InputError(Diagnostic("RG1109", message, hint="give one of them"))
        return found

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the model, and every figure with its source. Models with different prices differ in it."""
        return {
            "id": self.id, "version": self.version, "title": self.title, "temperature": self.temperature.as_dict(),
            "frequency": None if self.frequency is None else self.frequency.as_dict(),
            "ambient": None if self.ambient is None else self.ambient.as_dict(),
            "phases": None if self.phases is None else self.phases.as_dict(),
            "covered": dict(self.covered),
            "charges": [
                {
                    "cause": charge.cause, "label": charge.label, "law": charge.law.name, "unit": charge.unit,
                    "figures": [
                        *(figure.as_dict() for figure in charge.figures.values()),
                        *(size.as_dict() for size in charge.sizes),
                        *({**figure.as_dict(), "cell": kind} for kind, figure in (charge.cells or {}).items()),
                        *({**figure.as_dict(), "levels_of": kind} for kind, figure in charge.levels.items()),
                    ],
                }
                for charge in self.charges
            ],
        }  # fmt: skip


# ---------------------------------------------------------------------- files

SCHEMA = "retrograd.technology/1"
#: larger files are refused
_LARGEST = 1 << 20
#: the characters of a line: the time of Python's reader grows with the square of the parts of a key
_LONGEST_LINE = 4000
_FIGURE = ("value", "low", "high", "unit", "source", "evidence", "open")
_TOP = ("schema", "id", "version", "title", "doc", "covered", "temperature", "frequency", "phases", "ambient", "charge")

#: a place in the file: keys, and positions in arrays of tables
Where = tuple[str | int, ...]


def shipped() -> list[str]:
    """The ids of the models that come with Retrograd."""
    return sorted(
        p.name[:-5]
        for p in files("retrograd.simulator.energy").joinpath("models").iterdir()
        if p.name.endswith(".toml")
    )


def technology(name: str | Path) -> Technology:
    """A model by its id, or from a file, if the name has a slash or ends in .toml.

    Raises InputError RG1101 for no such model, RG0501 or RG0514 for a file that cannot be read or is too large, RG1102 to RG1107 and RG1112
    for a file with errors.
    """
    text = str(name)
    if isinstance(name, Path) or "/" in text or "\\" in text or text.endswith(".toml"):
        return from_file(Path(name))
    known = shipped()
    if text not in known:
        hint = nearest(text, known) or f"models: {', '.join(known)}; a file of your own by its path"
        raise InputError(Diagnostic("RG1101", f"there is no technology model `{text:.40}`", hint=hint))
    source = files("retrograd.simulator.energy").joinpath("models", f"{text}.toml").read_text(encoding="utf-8")
    return from_text(source, f"{text}.toml")


def from_file(path: Path) -> Technology:
    """The model in a file. Raises InputError."""
    try:
        source = read_file(path, _LARGEST).decode()
    except UnicodeDecodeError as error:
        raise InputError(Diagnostic("RG1102", f"{path} is not UTF-8: byte {error.start}")) from None
    found = from_text(source, str(path))
    if found.id in shipped():
        message = f"`{found.id}` is the id of a model that comes with Retrograd"
        raise _Reader(source, str(path)).error("RG1107", ("id",), message, "Give yours an id of its own.")
    return found


def from_text(source: str, name: str) -> Technology:
    """The model that a text describes. Raises InputError RG1102 to RG1107, RG1112."""
    return _Reader(source, name).technology()


class _Reader:
    def __init__(self, source: str, name: str) -> None:
        self.lines, self.name = source.splitlines(), name
        self.source = source

    # ------------------------------------------------------------------ places of errors

    def error(self, code: str, where: Where, message: str, hint: str | None = None) -> InputError:
        """The diagnostic of something at a place in the file."""
        number = self._line(where)
        text = self.lines[number - 1] if number <= len(self.lines) else ""
        begin = len(text) - len(text.lstrip())
        span = Span(self.name, number, begin + 1, max(len(text.rstrip()), begin + 1) + 1)
        return InputError(Diagnostic(code, message, span, hint, text))

    def _line(self, where: Where) -> int:
        """The line in which a place begins; for a missing place, the line of the table around it."""
        number, inner = self._header(where)
        for at in range(number, len(self.lines)):
            if self.lines[at].lstrip().startswith("[") and at >= number:
                break
            if inner and re.match(rf"\s*\"?{re.escape(inner)}\"?\s*=", self.lines[at]):
                return at + 1
        return max(number, 1)

    def _header(self, where: Where) -> tuple[int, str]:
        """(the line of the innermost table header on the way, the key that follows it)."""
        seen: dict[str, int] = {}
        best, inner = 0, str(where[0]) if where else ""
        wanted = _prefixes(where)
        scope: list[tuple[str, int]] = []
        for at, line in enumerate(self.lines):
            found = re.match(r"\s*(\[\[?)([^\[\]]+)\]\]?", line)
            if found is None:
                continue
            path = found[2].strip()
            scope = [(p, n) for p, n in scope if path.startswith(p + ".")]
            if found[1] == "[[":
                key = "/".join(f"{p}{n}" for p, n in scope) + "/" + path
                seen[key] = seen.get(key, -1) + 1
                scope.append((path, seen[key]))
            here = _instance(path, scope)
            if here in wanted and len(here) > best:
                best, number = len(here), at + 1
                rest = where[len(here) :]
                inner = str(rest[0]) if rest and isinstance(rest[0], str) else ""
        return (number if best else 0), inner

    # ------------------------------------------------------------------ reading

    def technology(self) -> Technology:
        for number, line in enumerate(self.source.split("\n"), 1):
            if len(line) > _LONGEST_LINE:
                message = f"a line has {len(line)} characters, and at most {_LONGEST_LINE} are read"
                raise InputError(
                    Diagnostic("RG1102", message, Span(self.name, number), "Write a long text in several lines.")
                )
        try:
            data = tomllib.loads(self.source)
        except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
            raise self._not_toml(error) from None
        self._integers(data, ())
        schema = data.get("schema")
        if schema != SCHEMA:
            message = "the file names no schema" if schema is None else f"the schema is {schema!r:.60}"
            raise self.error("RG1102", ("schema",), message, f'Begin the file with: schema = "{SCHEMA}"')
        self._keys(data, _TOP, ())
        texts = {key: self._text(data, key, ()) for key in ("id", "version", "title", "doc")}
        temperature = self._figure(self._get(data, "temperature", ()), ("temperature",), "temperature")
        extra = {
            key: self._figure(data[key], (key,), measures)
            for key, measures in (("frequency", "frequency"), ("ambient", "temperature"), ("phases", "number"))
            if key in data
        }
        charges = self._get(data, "charge", ())
        if not isinstance(charges, list) or not charges:
            raise self.error("RG1104", ("charge",), "no [[charge]] says what energy is spent on")
        found = [self._charge(charge, ("charge", i)) for i, charge in enumerate(charges)]
        labels: set[tuple[str, str]] = set()
        for i, charge in enumerate(found):
            if (charge.cause, charge.label) in labels:
                message = f"{charge.cause}: two charges are called `{charge.label}`"
                raise self.error("RG1107", ("charge", i, "label"), message)
            labels.add((charge.cause, charge.label))
        if any(charge.timed for charge in found) and "frequency" not in extra:
            raise self.error("RG1104", ("frequency",), "a charge depends on the clock, and there is no [frequency]")
        if any(charge.law.name == "cooling" for charge in found) and "ambient" not in extra:
            raise self.error(
                "RG1104", ("ambient",), "energy is spent on cooling, and there is no [ambient] temperature"
            )
        made = Technology(
            **texts, temperature=temperature, charges=tuple(found), frequency=extra.get("frequency"),
            ambient=extra.get("ambient"), phases=extra.get("phases"), covered=self._covered(data, found), file=self.name,
        )  # fmt: skip
        for kelvins in temperature.si:
            for i, figure, message in made.below_bounds(kelvins):
                where = ("charge", i, figure)
                at = "low" if "low" in data["charge"][i][figure] else "value"
                raise self.error("RG1112", (*where, at), message)
        return made

    def _covered(self, data: Mapping[str, Any], charges: Iterable[Charge]) -> dict[str, str]:
        """Cause without a charge -> what of the model covers it."""
        causes = data.get("covered", [])
        if isinstance(causes, list) and all(isinstance(cause, str) for cause in causes):
            causes = dict.fromkeys(causes, "other figures")
        if not isinstance(causes, dict) or len(causes) > len(PARTS):
            raise self.error(
                "RG1104", ("covered",), "`covered` is a list of causes, or a table: cause = what covers it"
            )
        charged = {charge.part for charge in charges}
        for cause in causes:
            if cause not in PARTS or cause == "cooling":
                hint = f"those of: {', '.join(part for part in PARTS if part != 'cooling')}"
                raise self.error("RG1103", ("covered",), f"{cause!r:.40} is none of the causes that are covered", hint)
            if cause in charged:
                raise self.error("RG1107", ("covered",), f"`{cause}` is covered, and has a charge")
            if not isinstance(causes[cause], str) or not causes[cause].strip():
                raise self.error("RG1104", ("covered",), f"`{cause}`: what covers it is text")
        return causes

    def _integers(self, data: Any, where: Where) -> None:
        """Refuse integers beyond the 64 bits of TOML, whose digits Python may refuse to print."""
        if isinstance(data, dict | list):
            for key, part in data.items() if isinstance(data, dict) else enumerate(data):
                self._integers(part, (*where, key))
        elif isinstance(data, int) and not -(1 << 63) <= data < 1 << 63:
            raise self.error("RG1106", where, f"{_shown(where)} is an integer of more than 64 bits")

    def _not_toml(self, error: Exception) -> InputError:
        """The error of tomllib, at its line."""
        message = str(error)
        at = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)", message)
        what = message if at is None else message[: at.start()]
        line = max(len(self.lines), 1) if at is None or at[1] is None else int(at[1])
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        column = len(text) + 1 if at is None or at[2] is None else int(at[2])
        span = Span(self.name, line, column, column + 1)
        return InputError(Diagnostic("RG1102", f"this is not TOML: {what}", span, line=text))

    def _charge(self, data: Any, where: Where) -> Charge:
        self._table(data, where)
        cause = self._one_of(data, "cause", where, CAUSES)
        label = self._text(data, "label", where)
        law = LAWS[self._one_of(data, "law", where, LAWS)]
        if (cause == "cooling") != (law.name == "cooling"):
            raise self.error(
                "RG1103", (*where, "law"), f"the law `{law.name}` and the cause `{cause}` do not go together"
            )
        self._keys(data, ("cause", "label", "law", *law.figures, *law.keys), where)
        figures: dict[str, Figure] = {}
        for name, measures in law.figures.items():
            if name in data or not any(name in group for group in law.optional):
                figures[name] = self._figure(self._get(data, name, where), (*where, name), measures, may_be_open=True)
        for group in law.optional:
            given = group & figures.keys()
            if given and given < group:
                missing = min(group - given)
                raise self.error("RG1104", where, f"`{missing}` is missing: it goes with {', '.join(sorted(given))}")
        known = {name for name in ("quality", "efficiency") if name in figures and figures[name].written is not None}
        if law.name == "power clock" and (not figures or len(known) > 1):
            raise self.error("RG1104", where, "a generator has a `quality` and what is `stored`, or an `efficiency`")
        return Charge(
            cause, label, law, figures,
            unit=self._text(data, "unit", where) if "unit" in law.keys else None,
            sizes=self._sizes(data, where, law) if "sizes" in law.keys else (),
            cells=self._gates(data, "gates", where) if law.of_gates else self._cells(data, where) if "cells" in law.keys else None,
            levels=self._gates(data, "levels", where) if law.of_gates and "levels" in data else {},
        )  # fmt: skip

    def _sizes(self, data: Mapping[str, Any], where: Where, law: Law) -> tuple[Size, ...]:
        rows = self._get(data, "sizes", where)
        if not isinstance(rows, list) or not rows:
            raise self.error("RG1104", (*where, "sizes"), "no [[charge.sizes]] gives a figure")
        out: list[Size] = []
        for i, row in enumerate(rows):
            at: Where = (*where, "sizes", i)
            self._table(row, at)
            of_memory = law.name != "operation"
            own = ("bits", "capacity", "of") if of_memory else ("bits",)
            self._keys(row, (*_FIGURE, *own), at)
            bits = self._get(row, "bits", at)
            if type(bits) is not int or not 1 <= bits <= 1 << 20:
                raise self.error("RG1106", (*at, "bits"), f"bits = {bits!r:.40} is no size of a word")
            capacity = self._capacity(row["capacity"], (*at, "capacity")) if "capacity" in row else None
            of = self._one_of(row, "of", at, ("reads", "writes")) if "of" in row else ""
            figure = self._figure({k: v for k, v in row.items() if k in _FIGURE}, at, "energy")
            out.append(Size(bits, figure, capacity, of))
        sizes = [(s.bits, s.capacity) for s in out] if law.name == "operation" else [(s.capacity, s.of) for s in out]
        if len(set(sizes)) != len(sizes):
            raise self.error("RG1107", (*where, "sizes", len(out) - 1), "two figures are for one size")
        for i, size in enumerate(out):
            beside = {other.of for other in out if other.capacity == size.capacity}
            if law.name != "operation" and beside not in ({""}, {"reads", "writes"}):
                message = "a memory has one figure for reads and writes, or one for each"
                raise self.error("RG1104", (*where, "sizes", i), message)
        return tuple(out)

    def _capacity(self, text: Any, where: Where) -> float:
        found = re.fullmatch(r"([1-9][0-9]{0,17}) (\w+)", text) if isinstance(text, str) else None
        unit = UNITS.get(found[2]) if found else None
        if found is None or unit is None or unit.measures != "memory":
            raise self.error("RG1105", where, f"{text!r:.40} is no size of a memory", 'For example "8 KiB".')
        return int(found[1]) * unit.factor

    def _cells(self, data: Mapping[str, Any], where: Where) -> dict[str, Figure]:
        table = self._get(data, "cells", where)
        self._table(table, (*where, "cells"))
        if not table:
            raise self.error("RG1104", (*where, "cells"), "no cell has a figure")
        return {name: self._figure(figure, (*where, "cells", name), "number") for name, figure in table.items()}

    def _gates(self, data: Mapping[str, Any], key: str, where: Where) -> dict[str, Figure]:
        """Kind of reversible gate -> figure. Other gates lose information, and have the law `cell`."""
        table = self._get(data, key, where)
        self._table(table, (*where, key))
        if not table:
            raise self.error("RG1104", (*where, key), "no gate has a figure")
        for name in table:
            if name not in REVERSIBLE:
                hint = (
                    nearest(name, REVERSIBLE)
                    or f"reversible gates: {', '.join(REVERSIBLE)}; others have the law `cell`"
                )
                raise self.error("RG1103", (*where, key, name), f"`{name:.40}` is no reversible gate", hint)
        return {name: self._figure(figure, (*where, key, name), "number") for name, figure in table.items()}

    # ------------------------------------------------------------------ figures

    def _figure(self, data: Any, where: Where, measures: str, *, may_be_open: bool = False) -> Figure:
        self._table(data, where)
        self._keys(data, _FIGURE, where)
        name = str(where[-1])
        unit = self._unit(data, where, measures)
        left_open = data.get("open", False)
        if left_open is not False:
            if left_open is not True or not may_be_open or "value" in data:
                raise self.error(
                    "RG1103", (*where, "open"), "`open = true` is for figures of charges, in place of a value"
                )
            return Figure(name, unit, None, "left open by the model", "given")
        value = self._number(data, "value", where)
        low = self._number(data, "low", where) if "low" in data else value
        high = self._number(data, "high", where) if "high" in data else value
        if not low <= value <= high:
            at = "low" if low > value else "high"
            raise self.error(
                "RG1106", (*where, at), f"the range from {low:g} to {high:g} does not hold the value {value:g}"
            )
        if measures == "temperature" and low <= 0:
            raise self.error("RG1106", (*where, "low" if "low" in data else "value"), f"{low:g} K is no temperature")
        least, most = limits(name, measures)
        factor = thermal_energy(1.0) if unit.thermal else unit.factor
        for key, number in (("low", low), ("value", value), ("high", high)):
            if key in data and not least * (1 - 1e-9) <= number * factor <= most * (1 + 1e-9):
                span = f"from {least:g} to {most:g} {SI[measures].name}".removesuffix(" 1")
                raise self.error("RG1106", (*where, key), f"{key} = {number:g} {unit.name}: it may be {span}")
        source = self._text(data, "source", where)
        evidence = self._one_of(data, "evidence", where, [e for e in EVIDENCE if e != "given"])
        return Figure(name, unit, Range(low, value, high), source, evidence)

    def _unit(self, data: Mapping[str, Any], where: Where, measures: str) -> PhysicalUnit:
        name = self._text(data, "unit", where)
        unit = UNITS.get(name)
        if unit is None:
            fitting = [u for u, found in UNITS.items() if found.measures == measures]
            hint = nearest(name, fitting) or units_of(measures)
            raise self.error("RG1105", (*where, "unit"), f"there is no unit `{name:.40}`", hint)
        if unit.measures != measures:
            message = f"`{name}` measures {unit.measures}, and this is {measures}"
            raise self.error("RG1105", (*where, "unit"), message, units_of(measures))
        return unit

    def _number(self, data: Mapping[str, Any], key: str, where: Where) -> float:
        value = self._get(data, key, where)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error("RG1106", (*where, key), f"{key} = {value!r:.40} is no number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < 0:
            raise self.error("RG1106", (*where, key), f"{key} = {number:g}: figures are finite, and not negative")
        return number

    # ------------------------------------------------------------------ keys

    def _get(self, data: Mapping[str, Any], key: str, where: Where) -> Any:
        if key not in data:
            inside = f" in {_shown(where)}" if where else ""
            raise self.error("RG1104", (*where, key), f"`{key}` is missing{inside}")
        return data[key]

    def _text(self, data: Mapping[str, Any], key: str, where: Where) -> str:
        value = self._get(data, key, where)
        if not isinstance(value, str) or not value.strip():
            raise self.error("RG1104", (*where, key), f"`{key}` is text, and says something")
        return value

    def _one_of(self, data: Mapping[str, Any], key: str, where: Where, known: Collection[str]) -> str:
        value = self._text(data, key, where)
        if value not in known:
            hint = nearest(value, known) or f"one of: {', '.join(known)}"
            raise self.error("RG1103", (*where, key), f"{key} = {value!r:.40} is none of those known", hint)
        return value

    def _table(self, data: Any, where: Where) -> None:
        if not isinstance(data, dict):
            raise self.error("RG1104", where, f"{_shown(where)} is no table")

    def _keys(self, data: Mapping[str, Any], known: Collection[str], where: Where) -> None:
        for key in data:
            if key not in known:
                inside = f" in {_shown(where)}" if where else ""
                hint = nearest(key, known) or f"known here: {', '.join(known)}"
                raise self.error("RG1103", (*where, key), f"the key `{key:.40}` means nothing{inside}", hint)


def _shown(where: Where) -> str:
    """[charge 2 energy]: a place as text, with positions from 1."""
    return "[" + " ".join(str(part + 1) if isinstance(part, int) else part for part in where) + "]"


def _prefixes(where: Where) -> set[Where]:
    return {where[:n] for n in range(1, len(where) + 1)}


def _instance(path: str, scope: list[tuple[str, int]]) -> Where:
    """A table's path, with its position in each array that contains it."""
    out: list[str | int] = []
    parts = path.split(".")
    numbers = dict(scope)
    for n in range(1, len(parts) + 1):
        out.append(parts[n - 1].strip().strip('"'))
        prefix = ".".join(parts[:n])
        if prefix in numbers:
            out.append(numbers[prefix])
    return tuple(out)
