"""Technology files: TOML to a `Technology`, or a diagnostic with the line and the reason.

    schema, id, version, title, doc, covered;  [temperature] [frequency] [phases] [ambient];  [[charge]] cause, label, law, figures

A figure is a table: value, unit, low and high (the value, if they are missing), source, evidence; or `open = true` and its
unit. Nothing is guessed: a missing, misspelt or impossible entry is an error.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError, Span, nearest
from retrograd.isa.files import read_file
from retrograd.simulator.energy.figures import EVIDENCE, Figure, Range
from retrograd.simulator.energy.laws import LAWS, REVERSIBLE, Law, limits
from retrograd.simulator.energy.technology import CAUSES, PARTS, Charge, Size, Technology
from retrograd.simulator.energy.units import SI, UNITS, PhysicalUnit, thermal_energy, units_of

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
    """A model by its id, or from a file: a name with a slash, or that ends in .toml.

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

    def _covered(self, data: Mapping[str, Any], charges: Iterable[Charge]) -> tuple[str, ...]:
        """Causes without a charge that the model covers by other figures."""
        causes = data.get("covered", [])
        if not isinstance(causes, list) or len(causes) > len(PARTS):
            raise self.error("RG1104", ("covered",), "`covered` is a list of causes")
        charged = {charge.part for charge in charges}
        for cause in causes:
            if cause not in PARTS or cause == "cooling":
                hint = f"those of: {', '.join(part for part in PARTS if part != 'cooling')}"
                raise self.error("RG1103", ("covered",), f"{cause!r:.40} is none of the causes that are covered", hint)
            if cause in charged:
                raise self.error("RG1107", ("covered",), f"`{cause}` is covered, and has a charge")
        return tuple(causes)

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
            own = ("bits", "capacity") if law.name == "access" else ("bits",)
            self._keys(row, (*_FIGURE, *own), at)
            bits = self._get(row, "bits", at)
            if type(bits) is not int or not 1 <= bits <= 1 << 20:
                raise self.error("RG1106", (*at, "bits"), f"bits = {bits!r:.40} is no size of a word")
            capacity = self._capacity(row["capacity"], (*at, "capacity")) if "capacity" in row else None
            figure = self._figure({k: v for k, v in row.items() if k in _FIGURE}, at, "energy")
            out.append(Size(bits, figure, capacity))
        sizes = [(s.bits, s.capacity) for s in out] if law.name == "operation" else [s.capacity for s in out]
        if len(set(sizes)) != len(sizes):
            raise self.error("RG1107", (*where, "sizes", len(out) - 1), "two figures are for one size")
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
    """A table's path with the positions of the arrays that it stands in."""
    out: list[str | int] = []
    parts = path.split(".")
    numbers = dict(scope)
    for n in range(1, len(parts) + 1):
        out.append(parts[n - 1].strip().strip('"'))
        prefix = ".".join(parts[:n])
        if prefix in numbers:
            out.append(numbers[prefix])
    return tuple(out)
