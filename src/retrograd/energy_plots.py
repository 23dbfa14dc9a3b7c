"""Plots of energy, for reports, pages and `retrograd energy --plot`. matplotlib is imported when one is drawn.

Each takes an `Axes` or makes a figure of its own, and returns the Figure. Nothing is shown: `figure.savefig(path)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from retrograd.energy_report import EnergyReport, program_text, total_text
from retrograd.simulator.energy.figures import Range
from retrograd.simulator.energy.ledger import Ledger
from retrograd.simulator.energy.pricing import ROOM, NotModelled
from retrograd.simulator.energy.sweeping import Point, at_frequencies
from retrograd.simulator.energy.technology import CAUSES, HOST_CAUSES
from retrograd.simulator.energy.units import thermal_energy, with_prefix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: distinguishable also by those who see no red or green (Okabe and Ito, 2008)
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")


def _axes(ax: Axes | None, width: float = 7.0, height: float = 4.5) -> tuple[Figure, Axes]:
    if ax is not None:
        figure: Any = ax.figure
        return figure, ax
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.add_subplot()


def by_cause(reports: Sequence[EnergyReport], ax: Axes | None = None) -> Figure:
    """Stacked bars, one for each report: energy by cause. Above stands the sum, and what of it is not modelled."""
    figure, ax = _axes(ax)
    # By place, and not by name: two reports may have one.
    places = range(len(reports))
    bottoms = [0.0] * len(reports)
    for cause, colour in zip((*CAUSES, *HOST_CAUSES), _COLOURS, strict=True):
        found = [r.price.of(cause) for r in reports]
        heights = [e.nominal if isinstance(e, Range) else 0.0 for e in found]
        if any(heights):
            # A bar of no height would have an edge that the margin keeps to.
            shown = [(i, h, b) for i, h, b in zip(places, heights, bottoms, strict=True) if h]
            at, tall, low = zip(*shown, strict=True)
            ax.bar(at, tall, bottom=low, label=cause, color=colour)
        bottoms = [b + h for b, h in zip(bottoms, heights, strict=True)]
    for i, r in enumerate(reports):
        missing = [c for c, e in r.price.causes.items() if isinstance(e, NotModelled)]
        told = total_text(r.price).partition(" (")[0]
        if missing:
            told += "\nnot modelled:\n" + ",\n".join(missing)
        ax.annotate(
            told,
            (i, bottoms[i]),
            ha="center",
            va="bottom",
            fontsize="x-small",
            xytext=(0, 2),
            textcoords="offset points",
        )
    ax.set_xticks(places, [f"{r.name}\n{r.price.technology.id}, {r.price.temperature:g} K" for r in reports])
    ax.set_xlim(-0.6, len(reports) - 0.4)
    # Room for what stands above: up to nine short lines.
    ax.set_ylim(0, 1.6 * max(bottoms) or 1)
    ax.set_ylabel("energy (J)")
    if any(bottoms):
        ax.legend(fontsize="small")
    return figure


def against_frequency(reports: Sequence[EnergyReport], ax: Axes | None = None, points: int = 60) -> Figure:
    """Energy of an instruction against the clock, log-log, each with the range of its figures, and kT ln 2 at each temperature."""
    figure, ax = _axes(ax)
    kelvins = {ROOM}
    for r, colour in zip(reports, _cycle(len(reports)), strict=True):
        found = _priced(at_frequencies(r.counts, r.by.technology, r.by.gates, r.by.temperature, points))
        n = max(r.counts.retired, 1)
        label = f"{r.name}, {r.price.technology.id}"
        kelvins.add(r.price.temperature)
        if found:
            _band(ax, [p.frequency for p in found], [p.energy / n for p in found], label, colour)
        elif isinstance(r.price.program, Range) and r.price.program.nominal:
            ax.axhline(r.price.program.nominal / n, label=f"{label} (any clock)", color=colour)
        else:
            # A logarithmic axis has no place for it.
            ax.plot([], [], " ", label=f"{label}: {program_text(r.price)}")
    for t in sorted(kelvins):
        ax.axhline(thermal_energy(t), linestyle=":", color="0.4")
        ax.annotate(
            f"kT ln 2 at {t:g} K",
            (0.01, thermal_energy(t)),
            xycoords=("axes fraction", "data"),
            va="bottom",
            fontsize="x-small",
        )
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("clock (Hz)")
    ax.set_ylabel("energy of an instruction (J)")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize="small")
    return figure


def against_delay(reports: Sequence[EnergyReport], ax: Axes | None = None, points: int = 60) -> Figure:
    """Energy of the run against how long it takes, log-log."""
    figure, ax = _axes(ax)
    for r, colour in zip(reports, _cycle(len(reports)), strict=True):
        found = _priced(at_frequencies(r.counts, r.by.technology, r.by.gates, r.by.temperature, points))
        if found:
            delays = [r.counts.cycles / p.frequency for p in found]
            _band(ax, delays, [p.energy for p in found], f"{r.name}, {r.price.technology.id}", colour)
        else:
            why = "no clock" if r.by.technology.frequency is None else program_text(r.price)
            ax.plot([], [], " ", label=f"{r.name}, {r.price.technology.id}: {why}")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("time of the run (s)")
    ax.set_ylabel("energy of the run (J)")
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize="small")
    return figure


def over_time(forward: Ledger, back: Ledger | None = None, ax: Axes | None = None) -> Figure:
    """Live and erased bits after each step of a run, and of its way back after it."""
    figure, ax = _axes(ax)
    begin, lost = 0, 0
    for ledger, way in ((forward, "forward"), (back, "back")):
        if ledger is None:
            continue
        steps = [begin + s.step for s in ledger.samples]
        shade = "" if back is None else f", {way}"
        ax.step(
            steps,
            [s.live_bits for s in ledger.samples],
            where="post",
            label=f"live{shade}",
            color=_COLOURS[0 if way == "forward" else 4],
        )
        ax.step(
            steps,
            [lost + s.erased_bits for s in ledger.samples],
            where="post",
            label=f"erased{shade}",
            color=_COLOURS[5 if way == "forward" else 1],
        )
        begin, lost = steps[-1], lost + ledger.samples[-1].erased_bits
        if back is not None and way == "forward":
            ax.axvline(begin, linestyle=":", color="0.4")
    ax.set_xlabel("step")
    ax.set_ylabel("bits")
    ax.legend(fontsize="small")
    return figure


def crossover(schemes: Sequence[tuple[int, int]] = ((2, 4), (4, 4), (8, 3), (2, 10)), ax: Axes | None = None) -> Figure:
    """Energy of Bennett's scheme over that of the erasing run, (2k − 1)ⁿ·ξ / kⁿ, against ξ.

    ξ is the energy of a reversible operation over that of an erasing one. Erasing wins where a curve is above 1. A full
    mark is where the two runs take the same energy, a hollow one where the scheme takes that of one erasing operation.
    """
    # Imported here: the advice reads the compiler, which takes a moment.
    from retrograd.energy_advice import break_even, break_even_per_memory_unit

    figure, ax = _axes(ax)
    ratios = [10 ** (e / 20) for e in range(-120, 1)]
    for (k, n), colour in zip(schemes, _cycle(len(schemes)), strict=True):
        even, per_unit = break_even(k, n), break_even_per_memory_unit(k, n)
        ax.plot(ratios, [x / even for x in ratios], label=f"k = {k}, n = {n}: equal at ξ = {even:.3g}", color=colour)
        ax.plot([even], [1], "o", color=colour)
        ax.plot([per_unit], [per_unit / even], "o", color=colour, markerfacecolor="white")
    ax.plot([], [], "o", color="0.4", label="energy of the run: (2k − 1)ⁿ·ξ = kⁿ")
    ax.plot([], [], "o", color="0.4", markerfacecolor="white", label="one unit of memory: (2k − 1)ⁿ·ξ = 1")
    ax.axhline(1, linestyle=":", color="0.4")
    ax.annotate("above: erase", (0.01, 1), xycoords=("axes fraction", "data"), va="bottom", fontsize="small")
    ax.annotate("below: uncompute", (0.01, 1), xycoords=("axes fraction", "data"), va="top", fontsize="small")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("ξ, energy of a reversible operation / of an erasing one")
    ax.set_ylabel("energy of the scheme / of the erasing run")
    ax.legend(fontsize="small")
    return figure


#: name on the command line -> what is drawn of reports
KINDS: dict[str, Callable[[Sequence[EnergyReport]], Figure]] = {
    "causes": by_cause,
    "frequency": against_frequency,
    "delay": against_delay,
    "time": lambda reports: over_time(_ledger(reports[0]), reports[0].back),
}


def _ledger(report: EnergyReport) -> Ledger:
    assert report.ledger is not None, "every step must have been looked at"
    return report.ledger


def _priced(points: Sequence[Point]) -> list[_Priced]:
    """Those that a logarithmic axis has a place for."""
    return [_Priced(p.frequency, p.energy) for p in points if isinstance(p.energy, Range) and p.energy.nominal]


class _Priced:
    def __init__(self, frequency: float, energy: Range) -> None:
        self.frequency, self.energy = frequency, energy


def _band(ax: Axes, xs: Sequence[float], energies: Sequence[Range], label: str, colour: str) -> None:
    ax.plot(xs, [e.nominal for e in energies], label=label, color=colour)
    ax.fill_between(xs, [e.lo for e in energies], [e.hi for e in energies], alpha=0.2, color=colour, linewidth=0)
    least = min(range(len(xs)), key=lambda i: energies[i].nominal)
    if 0 < least < len(xs) - 1:
        ax.plot([xs[least]], [energies[least].nominal], "o", color=colour)
        ax.annotate(
            with_prefix(energies[least].nominal, "J"),
            (xs[least], energies[least].nominal),
            fontsize="x-small",
            xytext=(0, -12),
            textcoords="offset points",
            ha="center",
        )


def _cycle(n: int) -> list[str]:
    return [_COLOURS[i % len(_COLOURS)] for i in range(n)]
