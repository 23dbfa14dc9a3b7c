"""`rg.energy` of a netlist: one evaluation of its gates, priced by a technology model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from retrograd.hdl.irreversible.levels import levels_of as in_levels
from retrograd.hdl.irreversible.network import Network
from retrograd.hdl.reversible.circuit import Circuit
from retrograd.isa.diagnostics import Diagnostic, InputError, printable
from retrograd.netlists.function_netlists import FunctionNetlist
from retrograd.presentation.tables import columns, shortened_text
from retrograd.pricing.report import bits_text, energy_text, program_text, total_text
from retrograd.simulator.energy.netlists import (
    Garbage,
    IrreversibleShape,
    ReversibleShape,
    Shape,
    levels_of,
    price_netlist,
    seconds_of,
)
from retrograd.simulator.energy.pricing import NotModelled, Price, PricingContext, pricing_context
from retrograd.simulator.energy.technology import Range, Technology, with_prefix

Netlist = FunctionNetlist | Circuit | Network


def shape_of(netlist: Netlist) -> Shape:
    """The parts of a netlist that its price depends on."""
    if isinstance(netlist, FunctionNetlist):
        netlist = netlist.circuit
    if isinstance(netlist, Network):
        levels = in_levels(netlist)
        return IrreversibleShape(netlist.counts(), levels.cells, levels.levels)
    ends = {line for word in netlist.outputs.values() for line in word} | set(netlist.garbage)
    begins = {line for word in netlist.inputs.values() for line in word}
    return ReversibleShape(
        netlist.lines, netlist.gates, frozenset(begins), frozenset(ends), garbage=len(netlist.garbage)
    )


@dataclass(frozen=True)
class NetlistEnergy:
    """The price of one evaluation of a netlist."""

    name: str
    shape: Shape
    by: PricingContext
    #: whether garbage is erased, or left for an erasure that has no price here
    garbage: Garbage = "erased"

    @cached_property
    def price(self) -> Price:
        """The price of the evaluation."""
        by = self.by
        return price_netlist(
            self.shape, by.technology, temperature=by.temperature, frequency=by.frequency, garbage=self.garbage
        )

    @property
    def levels(self) -> int:
        """Levels from the inputs to the outputs."""
        return levels_of(self.shape, self.by.technology)

    @property
    def seconds(self) -> float | None:
        """The time from the inputs to the outputs; None for a model without phases."""
        return seconds_of(self.shape, self.price)

    def priced_by(self, tech: str | Path | Technology, **how: Any) -> NetlistEnergy:
        """The same netlist priced by another model. `how`: temperature, frequency, figures as for `energy`."""
        return replace(self, by=pricing_context(tech, None, **how))

    def __repr__(self) -> str:
        return shortened_text(str(self))

    def __str__(self) -> str:
        p, t = self.price, self.price.technology
        clock = "" if p.frequency is None else f", {with_prefix(p.frequency, 'Hz')}"
        time = "" if self.seconds is None else f", {with_prefix(self.seconds, 's')}"
        rows = [["cause", "of", "count", "energy", f"kT ln 2 at {p.temperature:g} K"]]
        for item in p.items:
            if item.count or isinstance(item.energy, Range):
                own = item.cause != "cooling" and isinstance(item.energy, Range)
                bits = bits_text(item.energy, p.temperature) if own else ""
                rows.append([item.cause, item.label, f"{item.count:.6g}", energy_text(item.energy), bits])
        rows.append(["netlist, in all", "", "", program_text(p), bits_text(p.program, p.temperature)])
        rows.append(["with cooling", "", "", total_text(p), ""])
        text = f"{self.name}: {self.levels} levels{time}\n{t.id} {t.version}, {p.temperature:g} K{clock}: {t.title}"
        head = printable(text, lines=True)
        whys = dict.fromkeys(
            f"{item.label}: {item.energy.why}"
            for item in p.items
            if isinstance(item.energy, NotModelled) and item.cause != "cooling"
        )
        open_figures = [why for why in whys if ": give " in why]
        return "\n".join([head, columns(rows, right=(2, 4)), *open_figures])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: schema retrograd.netlist-energy/1."""
        return {
            "schema": "retrograd.netlist-energy/1",
            "name": self.name,
            "reversible": isinstance(self.shape, ReversibleShape),
            "levels": self.levels,
            "seconds": self.seconds,
            "garbage": self.garbage,
            "lost_bits": self.shape.lost_bits if isinstance(self.shape, IrreversibleShape) else 0.0,
            "technology": self.price.technology.as_dict(),
            "price": {k: v for k, v in self.price.as_dict().items() if k != "host"},
        }


def energy_of_netlist(
    netlist: Netlist, name: str, garbage: str, tech: str | Path | Technology, **how: Any
) -> NetlistEnergy:
    """The price of one evaluation. Raises InputError RG0507 for another word than `erased` or `left`, and as `energy`."""
    if garbage not in ("erased", "left"):
        hint = "`erased` prices its erasure, and `left` leaves it out"
        raise InputError(Diagnostic("RG0507", f"garbage = `{garbage!s:.40}` is not `erased` or `left`", hint=hint))
    chosen: Garbage = "left" if garbage == "left" else "erased"
    return NetlistEnergy(name, shape_of(netlist), pricing_context(tech, None, **how), chosen)
