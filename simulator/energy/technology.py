"""Technology models: figures with units, ranges, sources and evidence, and the laws that make prices of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.simulator.energy.figures import Figure, Range
from retrograd.simulator.energy.laws import Law
from retrograd.simulator.energy.units import SI

#: what energy is spent on; the host's part is told apart, as `program load` and `copy-out`
CAUSES = ("logic", "leakage", "clock", "memory", "erasure", "cooling")
HOST_CAUSES = ("program load", "copy-out")


@dataclass(frozen=True)
class Size:
    """A figure for one size: of words (`bits`), or of a memory (`capacity`) accessed by so many bits."""

    bits: int
    energy: Figure
    #: bytes; None: any
    capacity: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON: its figure, and for which size that is."""
        return {**self.energy.as_dict(), "bits": self.bits, "capacity_bytes": self.capacity}


@dataclass(frozen=True)
class Charge:
    """One thing that energy is spent on, by one law."""

    cause: str
    label: str
    law: Law
    figures: Mapping[str, Figure]
    #: the function unit whose micro-operations are charged
    unit: str | None = None
    sizes: tuple[Size, ...] = ()
    #: kind of cell in a netlist -> devices, nodes, … of one
    cells: Mapping[str, Figure] | None = None

    def all_figures(self) -> Iterator[Figure]:
        """The figures that its price depends on."""
        yield from self.figures.values()
        yield from (size.energy for size in self.sizes)
        yield from (self.cells or {}).values()

    @property
    def open(self) -> list[str]:
        """The figures that the model leaves to whoever prices."""
        return [name for name, figure in self.figures.items() if figure.written is None]


@dataclass(frozen=True)
class Technology:
    """A technology: what its figures are, for which temperatures and clocks, and what is charged."""

    id: str
    version: str
    title: str
    doc: str
    temperature: Figure
    charges: tuple[Charge, ...]
    frequency: Figure | None = None
    #: where heat goes that cooling makes
    ambient: Figure | None = None
    #: where it was read
    file: str = ""

    @property
    def timed(self) -> bool:
        """Whether its prices depend on the clock."""
        return any(charge.law.timed for charge in self.charges)

    @property
    def open(self) -> dict[str, Figure]:
        """Figures that it leaves open, by name."""
        return {name: charge.figures[name] for charge in self.charges for name in charge.open}

    def with_figures(self, given: Mapping[str, Range]) -> Technology:
        """The model with figures that it left open, in their SI units; evidence: given. Raises InputError RG1109."""
        left = {name: figure for charge in self.charges for name, figure in charge.figures.items()}
        for name, value in given.items():
            if not 0 <= value.lo <= value.nominal <= value.hi < math.inf:
                raise InputError(
                    Diagnostic(
                        "RG0507", f"`{name}` = {value.lo:g}:{value.nominal:g}:{value.hi:g} is no range of a figure"
                    )
                )
            if name not in left:
                hint = nearest(name, left) or (f"its figures: {', '.join(left)}" if left else "it has none to be given")
                raise InputError(Diagnostic("RG1109", f"`{self.id}` has no figure `{name:.40}`", hint=hint))

        def changed(charge: Charge) -> Charge:
            figures = dict(charge.figures)
            for name, value in given.items():
                if name in figures:
                    unit = SI[figures[name].unit.measures]
                    figures[name] = Figure(name, unit, value, "given for this price", "given")
            return replace(charge, figures=figures)

        return replace(self, charges=tuple(map(changed, self.charges)))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: which model priced it, and every figure with its source. Models that price otherwise differ in it."""
        return {
            "id": self.id, "version": self.version, "title": self.title, "temperature": self.temperature.as_dict(),
            "frequency": None if self.frequency is None else self.frequency.as_dict(),
            "ambient": None if self.ambient is None else self.ambient.as_dict(),
            "charges": [
                {
                    "cause": charge.cause, "label": charge.label, "law": charge.law.name, "unit": charge.unit,
                    "figures": [
                        *(figure.as_dict() for figure in charge.figures.values()),
                        *(size.as_dict() for size in charge.sizes),
                        *({**figure.as_dict(), "cell": kind} for kind, figure in (charge.cells or {}).items()),
                    ],
                }
                for charge in self.charges
            ],
        }  # fmt: skip
