"""Requests of energy: the options of `rg.energy`, and the run that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from retrograd.compiler.compiled import Options, Precision
from retrograd.functions.requests import Request
from retrograd.isa.words import Format
from retrograd.simulator.energy.gates import Activity, Gates
from retrograd.simulator.energy.pricing import Figures, PricingContext, Quantity, pricing_context
from retrograd.simulator.energy.technology import Technology


class EnergyRequest(NamedTuple):
    """The options of `rg.energy`, beside the function and its arguments."""

    tech: str | Path | Technology
    temperature: Quantity | None
    frequency: Quantity | None
    figures: Figures | None
    gates: str | Path | Gates | None
    activity: str | Path | Activity | Mapping[str, Any] | None
    engine: str
    max_steps: int | None
    format: Format | str | None
    options: Options | None
    baseline: bool
    timeline: bool
    precision: Precision | None = None

    def context(self, w: Format) -> PricingContext:
        """The pricing context in this format."""
        at: dict[str, Any] = {"temperature": self.temperature, "frequency": self.frequency}
        return pricing_context(self.tech, w, figures=self.figures, gates=self.gates, activity=self.activity, **at)

    def run_of(self, own: Request) -> Request:
        """The request of a function, with the engine, format and options of this one where they are given."""
        engine = own.engine if self.engine == "auto" else self.engine
        format = own.format if self.format is None else self.format
        options = own.options if self.options is None else self.options
        return replace(
            own, engine=engine, format=format, options=options, max_steps=self.max_steps, precision=self.precision
        )
