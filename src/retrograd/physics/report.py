"""Reports on energy: a run, counted, and priced by a technology model, for people and for programs.

    scope of a price = the parts of which nothing is missing or that have a figure:  logic, leakage, clock, memory, erasure, cooling, overhead

A price with the overhead of instructions beside one without it does not compare the technologies. `compared` refuses models of different
scope, and can compare them on the parts that they have in common.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from retrograd.isa.diagnostics import Diagnostic, InputError, markup, nearest, printable
from retrograd.isa.encoding import write
from retrograd.isa.words import Format
from retrograd.physics._graph import undone
from retrograd.presentation import columns, html_table, shortened_text
from retrograd.simulator.energy.comparisons import Comparison, Priced, ratio
from retrograd.simulator.energy.counts import (
    ADDRESS,
    FRAME,
    Counts,
    HostTraffic,
    Ledger,
    SourceLine,
    by_function,
    by_line,
    counts_of,
)
from retrograd.simulator.energy.gates import Activity, Gates
from retrograd.simulator.energy.pricing import (
    ROOM,
    Figures,
    FrequencyPoint,
    NotModelled,
    Price,
    PricingContext,
    Quantity,
    Sensitivity,
    optimum_frequency,
    pricing_context,
    sensitivities,
    told,
)
from retrograd.simulator.energy.technology import (
    CAUSES,
    HOST_CAUSES,
    PARTS,
    Range,
    Technology,
    technology,
    thermal_energy,
    with_prefix,
)
from retrograd.simulator.machine import Machine

if TYPE_CHECKING:
    # A program without a compiler is priced, too, so the compiler is not imported for annotations.
    pass

#: how many lines and functions are shown, the dearest first
_SHOWN = 8


def report_of(
    machine: Machine,
    name: str,
    by: PricingContext,
    host: HostTraffic | None = None,
    baseline: Counts | None = None,
    ledger: Ledger | None = None,
) -> EnergyReport:
    """The report of a machine after a run of any program. A ledger that was kept for addresses alone has no
    timeline."""
    counts = counts_of(machine, host)
    if ledger is not None:
        counts = ledger.counted(counts)
    return EnergyReport(name, by, counts, machine.engine, baseline, None if ledger is None or ledger.silent else ledger)


def with_way_back(report: EnergyReport, machine: Machine, ledger: Ledger) -> EnergyReport:
    """The report with the bits over time of the way back, which the machine runs now; unless bits were erased."""
    if report.counts.erased_bits:
        return report
    back = ledger.again(machine)
    machine.run_back(observe=back)
    return replace(report, back=back)


class HasPrice(Protocol):
    """A report of a run or of a netlist."""

    def priced(self, *, whole: bool = False) -> Priced:
        """Its energy as a function of the figures of the model."""


@dataclass(frozen=True)
class EnergyReport:
    """The counts of a run, and their price."""

    name: str
    by: PricingContext
    counts: Counts
    engine: str
    #: the same source in erase mode, on the same arguments
    baseline: Counts | None = None
    #: bits over time, where `timeline` was given
    ledger: Ledger | None = field(default=None, repr=False)
    #: bits over time on the way back, if the run could be taken back
    back: Ledger | None = field(default=None, repr=False)
    #: of a batch, the counts of each element, without the code, which is loaded once
    each: tuple[Counts, ...] | None = field(default=None, repr=False)

    @cached_property
    def price(self) -> Price:
        """The price of the run."""
        return self.by.price(self.counts)

    @cached_property
    def baseline_price(self) -> Price | None:
        """The price of the same source in erase mode."""
        return None if self.baseline is None else self.by.price(self.baseline)

    def baseline_ratio(self, *, whole: bool = False) -> Comparison:
        """The energy over that of the same source in erase mode. Trap: a report without a baseline has none."""
        return ratio(self.priced(whole=whole), self.priced(whole=whole, counts=self.baseline))

    @cached_property
    def prices(self) -> tuple[Price, ...]:
        """Of a batch, the price of each element. Elements with equal counts share a price."""
        known = {id(counts): counts for counts in self.each or ()}
        prices = {at: self.by.price(counts) for at, counts in known.items()}
        return tuple(prices[id(counts)] for counts in self.each or ())

    @cached_property
    def lines(self) -> dict[SourceLine, Price]:
        """The price of each source line, without the host and dropped cotangents, which belong to no line."""
        return {line: self.by.price(counts) for line, counts in by_line(self.counts).items()}

    @cached_property
    def functions(self) -> dict[str, Price]:
        """The price of each function, in the same way."""
        return {name: self.by.price(counts) for name, counts in by_function(self.counts).items()}

    @cached_property
    def optimum(self) -> FrequencyPoint | None:
        """The clock at which the program costs least, where the model has one."""
        return optimum_frequency(self.counts, self.by.technology, self.by.gates, self.by.temperature)

    @cached_property
    def sensitivities(self) -> list[Sensitivity]:
        """The sensitivity of the price to temperature, clock and cooling."""
        by = self.by
        return sensitivities(self.counts, by.technology, by.gates, by.temperature, by.frequency)

    @property
    def uncomputing_level(self) -> float | None:
        """log₂(N_reversible / N_erasing), in instructions; None without a baseline, or of a batch without elements."""
        if self.baseline is None or not self.baseline.retired:
            return None
        return math.log2(self.counts.retired / self.baseline.retired)

    def priced_by(self, tech: str | Path | Technology, **how: Any) -> EnergyReport:
        """The same run priced by another model, without running again. `how`: temperature, frequency, figures, gates as for `energy`."""
        return replace(self, by=pricing_context(tech, self.counts.format, **how))

    def priced(self, *, whole: bool = False, counts: Counts | None = None) -> Priced:
        """The energy of the program, or with cooling and host, as a function of the figures of the model."""
        used = self.counts if counts is None else counts
        return Priced(self.price.technology, lambda model: replace(self.by, technology=model).price(used), whole)

    def ratio_to(self, other: HasPrice, *, whole: bool = False) -> Comparison:
        """E / E of the other, of the programs or with cooling and host; each figure of the models has the same value
        in both."""
        return ratio(self.priced(whole=whole), other.priced(whole=whole))

    # ------------------------------------------------------------------ to be read

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        return "\n\n".join([self._counted(), self._table(), *self._notes()])

    def _counted(self) -> str:
        c = self.counts
        forward = sum(n for e, n in c.executions.items() if e.direction > 0)
        access = c.accesses
        toggled = "not counted" if c.toggled_bits is None else f"{c.toggled_bits} bits"
        rows = [
            ["instructions", f"{c.retired}", f"{forward} forward, {c.retired - forward} backward"],
            ["cycles", f"{c.cycles}", ""],
            ["memory", f"{access.reads + access.writes}", f"{access.reads} reads, {access.writes} writes"],
            ["bits erased", f"{c.erased_bits}", f"{c.erase_bits} by erase, {c.dropped_bits} by dropped cotangents"],
            ["bits overwritten by the host", f"{c.host.bits}", _host_text(c.host)],
            ["bits toggled", toggled, ""],
        ]
        if self.ledger is not None:
            rows.append(["live ancilla bits, at most", f"{self.ledger.peak_bits}", ""])
        if self.each is not None:
            rows.append(["elements", f"{len(self.each)}", "all of them together: what each costs is below"])
        if self.baseline is not None:
            level = "" if self.uncomputing_level is None else f"uncomputing level {self.uncomputing_level:.3f}"
            what = f"{self.baseline.retired} instructions, {self.baseline.erased_bits} bits erased; {level}"
            rows.append(["in erase mode", "", what])
        return f"{printable(self.name)}, {c.format}; engine: {self.engine}\n" + columns(rows, right=(1,))

    def _table(self) -> str:
        return f"{self._heading()}\n" + columns(self._rows(), right=(2,))

    def _heading(self) -> str:
        t = self.price.technology
        clock = "" if self.price.frequency is None else f", {with_prefix(self.price.frequency, 'Hz')}"
        return printable(f"{t.id} {t.version}, {self.price.temperature:g} K{clock}: {t.title}")

    def _rows(self) -> list[list[str]]:
        p = self.price
        rows = [["cause", "energy", f"kT ln 2 at {p.temperature:g} K", "what of it is not modelled"]]
        for cause in (*CAUSES, *HOST_CAUSES):
            found = p.of(cause)
            here = [item for item in p.missing if item.cause == cause]
            lacking = "" if isinstance(found, NotModelled) else "; ".join(f"{i.label} ({i.count:g})" for i in here)
            own = isinstance(found, Range) and cause not in ("cooling", *HOST_CAUSES)
            rows.append([cause, energy_text(found), bits_text(found, p.temperature) if own else "", lacking])
        at_work, at_room = bits_text(p.program, p.temperature), bits_text(p.program, ROOM)
        rows.append(["program, in all", program_text(p), at_work, ""])
        if p.temperature != ROOM and at_room:
            rows.append([f"  in kT ln 2 at {ROOM:g} K", "", at_room, ""])
        rows.append(["with host and cooling", total_text(p), "", ""])
        return rows

    def _notes(self) -> list[str]:
        out = [line for line in (to_give(self.price.technology),) if line]
        if self.each:
            out.append(self._elements())
        if self.optimum is not None:
            found = _at_least(self.optimum.energy, self.price.complete(program=True))
            out.append(f"the program costs least at {with_prefix(self.optimum.frequency, 'Hz')}: {found}")
        told = [s for s in self.sensitivities if s.program or s.total]
        if told:
            rows = [["1 % more", "program", "with cooling and host"]]
            rows += [[s.quantity, _percent(s.program), _percent(s.total)] for s in told]
            out.append(columns(rows, right=(1, 2)))
        if self.baseline_price is not None:
            rows = [["", "program", "with cooling and host"]]
            for name, p in (("as written", self.price), ("in erase mode", self.baseline_price)):
                rows.append([name, program_text(p), total_text(p)])
            found = str(self.baseline_ratio())
            # Where cooling and host add nothing and lack nothing, the whole is the program.
            both = self.price, self.baseline_price
            same = all(p.program == p.total and p.complete() == p.complete(program=True) for p in both)
            rows.append(["ratio", found, found if same else str(self.baseline_ratio(whole=True))])
            out.append(columns(rows))
        dear = dearest({str(line): p for line, p in self.lines.items()})
        if dear:
            out.append(columns([["dearest lines", "energy"], *([n, energy_text(e)] for n, e in dear[:_SHOWN])]))
        dear = dearest(self.functions)
        if len(dear) > 1:
            out.append(columns([["functions", "energy"], *([n, energy_text(e)] for n, e in dear[:_SHOWN])]))
        return out

    def _elements(self) -> str:
        """The least, the mean and the most of all elements."""
        rows = [["of an element", "least", "mean", "most"]]
        assert self.each is not None
        for name, found in (
            ("instructions", [c.retired for c in self.each]),
            ("cycles", [c.cycles for c in self.each]),
            ("bits erased", [c.erased_bits for c in self.each]),
        ):
            rows.append([name, f"{min(found)}", f"{sum(found) / len(found):g}", f"{max(found)}"])
        for name, energies, lacks in (
            ("program", [p.program for p in self.prices], not all(p.complete(program=True) for p in self.prices)),
            ("with host and cooling", [p.total for p in self.prices], not all(p.complete() for p in self.prices)),
        ):
            priced = [e.nominal for e in energies if isinstance(e, Range)]
            if len(priced) < len(energies):
                rows.append([name, *["not modelled"] * 3])
                continue
            shown = (with_prefix(e, "J") for e in (min(priced), sum(priced) / len(priced), max(priced)))
            rows.append([name, *(f"≥ {e}" if lacks else e for e in shown)])
        return columns(rows)

    def annotated(self) -> str:
        """The source with the instructions of each line, those of them that undo earlier code, its cycles and its energy.

        Lines from the first to the last that was executed are shown; for a program without a source, its executed instructions.
        Code that undoes earlier code is recognised by its text, as in the picture of `retrograd graph`.
        """
        program = self.counts.program
        undoing = undone(program)
        parts = by_line(self.counts)
        shown: dict[str, list[int]] = {}
        for line in parts:
            shown.setdefault(line.file, []).append(line.line)
        texts = dict(zip(program.source.files, program.source.texts, strict=False))
        rows = [["instructions", "undoing", "cycles", "energy", "line", ""]]
        for file, numbers in shown.items():
            text = texts.get(file)
            rows.append(["", "", "", "", "", file or FRAME] if len(shown) > 1 else [])
            for number in range(min(numbers), max(numbers) + 1) if text else numbers:
                source = text[number - 1].rstrip() if text and 0 < number <= len(text) else ""
                if file == ADDRESS:
                    source = write(program.instructions[number])
                part = parts.get(SourceLine(file, number))
                if part is None:
                    rows.append(["", "", "", "", f"{number}", source])
                    continue
                energy = self.by.price(part).program
                priced = with_prefix(energy.nominal, "J") if isinstance(energy, Range) else "not modelled"
                back = part.at(undoing).retired
                rows.append([f"{part.retired}", f"{back or ''}", f"{part.cycles}", priced, f"{number or ''}", source])
        return columns([row for row in rows if row], right=range(5))

    def _repr_html_(self) -> str:
        counted = markup(self._counted(), lines=True)
        return f"<div><pre>{counted}</pre><p>{markup(self._heading())}</p>{html_table(self._rows())}</div>"

    # ------------------------------------------------------------------ to be processed

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.energy/1."""
        beside = self.baseline_price
        return {
            "schema": "retrograd.energy/1",
            "name": self.name,
            "format": {"width": self.counts.format.width, "frac": self.counts.format.frac},
            "engine": self.engine,
            "counts": counts_dict(self.counts),
            "technology": self.price.technology.as_dict(),
            "scope": sorted(self.price.scope),
            "price": self.price.as_dict(),
            "optimum": None if self.optimum is None else {
                "frequency": self.optimum.frequency, "program": told(self.optimum.energy),
            },
            "sensitivities": [s._asdict() for s in self.sensitivities],
            "lines": [
                {"file": line.file or None, "line": line.line if line.file else None, **_part(c, self.lines[line])}
                for line, c in by_line(self.counts).items()
            ],
            "functions": [
                {"function": name, **_part(c, self.functions[name])} for name, c in by_function(self.counts).items()
            ],
            "baseline": None if self.baseline is None or beside is None else {
                "counts": counts_dict(self.baseline), "price": beside.as_dict(),
                "uncomputing_level": self.uncomputing_level, "ratio": self.baseline_ratio().as_dict(),
            },
            "elements": None if self.each is None else [
                {
                    "retired": c.retired, "cycles": c.cycles, "erased_bits": c.erased_bits,
                    "program": told(p.program), "total": told(p.total),
                    "program_complete": p.complete(program=True), "complete": p.complete(),
                }
                for c, p in zip(self.each, self.prices, strict=True)
            ],
            "timeline": None if self.ledger is None else {
                "peak_live_bits": self.ledger.peak_bits,
                "samples": [list(sample) for sample in self.ledger.samples],
                "back": None if self.back is None else [list(sample) for sample in self.back.samples],
            },
        }  # fmt: skip


def counts_dict(c: Counts) -> dict[str, Any]:
    """Counts for JSON; a count that was not taken is null."""
    return {
        "retired": c.retired,
        "functions": {n: {"forward": w[+1], "backward": w[-1]} for n, w in sorted(c.retired_by_function().items())},
        "cycles": c.cycles,
        "operations": dict(sorted(c.operations.items())),
        "memory": c.accesses._asdict(),
        "erased_bits": {"erase": c.erase_bits, "dropped_cotangents": c.dropped_bits},
        "host_bits": c.host._asdict(),
        "toggled_bits": c.toggled_bits,
    }


def _part(c: Counts, p: Price) -> dict[str, Any]:
    causes = {cause: found for cause, found in p.as_dict()["causes"].items() if cause not in HOST_CAUSES}
    return {"retired": c.retired, "cycles": c.cycles, "erased_bits": c.erase_bits, "causes": causes}


def dearest(parts: Mapping[str, Price]) -> list[tuple[str, Range]]:
    """The parts with a price above zero, the dearest first."""
    found = [(name, p.program) for name, p in parts.items()]
    priced = [(name, e) for name, e in found if isinstance(e, Range) and e.nominal > 0]
    return sorted(priced, key=lambda part: -part[1].nominal)


def energy_text(energy: Range | NotModelled) -> str:
    """25 pJ (20 pJ … 30 pJ), or `not modelled`."""
    if isinstance(energy, NotModelled):
        return str(energy)
    shown = with_prefix(energy.nominal, "J")
    ends = with_prefix(energy.lo, "J"), with_prefix(energy.hi, "J")
    return shown if ends == (shown, shown) else f"{shown} ({ends[0]} … {ends[1]})"


def to_give(model: Technology) -> str:
    """A line that names the figures which a model leaves open; empty if there are none."""
    return f"{model.id} needs figures of a device: {model.to_give}" if model.open else ""


def program_text(price: Price) -> str:
    """The energy of the program; a lower bound where a part is not modelled."""
    return _at_least(price.program, price.complete(program=True))


def total_text(price: Price) -> str:
    """The energy with host and cooling."""
    return _at_least(price.total, price.complete())


def _at_least(energy: Range | NotModelled, complete: bool) -> str:
    return energy_text(energy) if complete or isinstance(energy, NotModelled) else f"≥ {energy_text(energy)}"


def bits_text(energy: Range | NotModelled, temperature: float) -> str:
    """The energy in multiples of kT ln 2."""
    return "" if isinstance(energy, NotModelled) else f"{energy.nominal / thermal_energy(temperature):.6g}"


def _percent(slope: float | None) -> str:
    """The change of a price; a change within rounding is 0 %."""
    return "" if slope is None else f"{round(slope, 4) + 0.0:+.4g} %" if abs(slope) >= 5e-5 else "0 %"


def _host_text(host: HostTraffic) -> str:
    return f"code {host.code_bits}, data {host.data_bits}, copied out {host.copied_bits}"


# ---------------------------------------------------------------------- how runs are priced


class Pricing(NamedTuple):
    """How `rg.energy` prices the counts of a run; the run itself is a `Request`."""

    tech: str | Path | Technology
    temperature: Quantity | None = None
    frequency: Quantity | None = None
    figures: Figures | None = None
    gates: str | Path | Gates | None = None
    activity: str | Path | Activity | Mapping[str, Any] | None = None
    baseline: bool = True
    timeline: bool = False

    def ledger(self, machine: Machine, own: range = range(0)) -> Ledger | None:
        """The observer of a run: for a timeline, and for a model that prices by addresses."""
        model = self.tech if isinstance(self.tech, Technology) else technology(self.tech)
        if not (self.timeline or model.by_addresses):
            return None
        return Ledger(machine, own, addresses=model.by_addresses, silent=not self.timeline)

    def context(self, w: Format) -> PricingContext:
        """The pricing context in this format."""
        at: dict[str, Any] = {"temperature": self.temperature, "frequency": self.frequency}
        return pricing_context(self.tech, w, figures=self.figures, gates=self.gates, activity=self.activity, **at)


# ---------------------------------------------------------------------- comparisons

#: the scope that all models have in common, as a word
COMMON = "common"


def compared(reports: Sequence[EnergyReport], scope: str | None = None) -> list[EnergyReport]:
    """Reports of one run by several models, on one scope: that of all, those parts that all have in `common`, or the parts that are named.

    Parts that a model covers by other figures cannot be taken out of these. Raises InputError RG1113 where scopes differ, RG0507 for a part that
    does not exist.
    """
    scopes = [report.price.scope for report in reports]
    common = frozenset.intersection(*scopes)
    if scope is None:
        wanted = frozenset.union(*scopes)
    elif scope == COMMON:
        wanted = common
    else:
        wanted = frozenset(scope.split(","))
        for unknown in sorted(wanted - set(PARTS)):
            hint = nearest(unknown, PARTS) or f"parts: {', '.join(PARTS)}; or `{COMMON}`"
            raise InputError(Diagnostic("RG0507", f"scope: `{unknown:.40}` is no part of a system", hint=hint))
    if not wanted:
        raise InputError(Diagnostic("RG1113", "the models have no part in common"))
    if wanted - common:
        lacking = []
        for report, own in zip(reports, scopes, strict=True):
            missing = [part for part in PARTS if part in wanted - own]
            if missing:
                lacking.append(f"`{report.by.technology.id}` does not model {_listed(missing)}")
        shared = [part for part in PARTS if part in common]
        offer: str | None = f"the scope `{COMMON}` compares {_listed(shared)}" if shared else None
        raise InputError(Diagnostic("RG1113", "; ".join(lacking), hint=offer))
    if scope is None:
        return list(reports)
    return [replace(report, by=replace(report.by, scope=wanted)) for report in reports]


def _listed(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
