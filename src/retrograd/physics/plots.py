"""Plots of energy, for reports, pages and `retrograd energy --plot`. matplotlib is imported when a plot is drawn.

Each function takes an `Axes` or makes a new figure, and returns the Figure. No window opens: `figure.savefig(path)`.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from retrograd.physics.report import EnergyReport, program_text, total_text
from retrograd.presentation import COLOURS, axes_of, colours, legend, two_decades
from retrograd.simulator.energy.counts import Ledger
from retrograd.simulator.energy.pricing import ROOM, Covered, FrequencyPoint, NotModelled, at_frequencies
from retrograd.simulator.energy.technology import CAUSES, HOST_CAUSES, ZERO, Range, thermal_energy, with_prefix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: ratio of the highest bar, with its error bar, to the smallest part, above which that part is too thin to be seen
#: in a stack
_LEGIBLE = 30.0
#: characters of a line below the axes
_LINE = 95


def by_cause(reports: Sequence[EnergyReport], ax: Axes | None = None) -> Figure:
    """Bars, one for each report, stacked by cause; the sum is above, and the parts that are not modelled are below the axes.

    Where a part would be a thin line beside the highest bar with its error bar, the causes stand side by side, on a
    logarithmic axis. An error
    bar spans the range of the figures: of the sum, or of each cause.
    """
    from matplotlib.ticker import EngFormatter

    figure, ax = axes_of(ax, max(7.0, 1.4 * len(reports) + 2))
    ranges = {cause: [_joules(r, cause) for r in reports] for cause in (*CAUSES, *HOST_CAUSES)}
    found = {cause: [e.nominal for e in column] for cause, column in ranges.items()}
    positive = [e for column in found.values() for e in column if e > 0]
    highest = max((sum(column, ZERO).hi for column in zip(*ranges.values(), strict=True)), default=0.0)
    far_apart = bool(positive) and highest > _LEGIBLE * min(positive)
    shown = {cause: colour for cause, colour in zip(found, COLOURS, strict=True) if any(found[cause])}
    tops = [0.0] * len(reports)
    least = 10.0 ** math.floor(math.log10(min(positive) / 2)) if positive else 0.0
    for k, (cause, colour) in enumerate(shown.items()):
        # By place, because two reports may have the same name. A bar without height would widen the margin by its edge.
        places = [i for i, height in enumerate(found[cause]) if height]
        heights = [found[cause][i] for i in places]
        if far_apart:
            width = 0.8 / len(shown)
            at = [i + (k - (len(shown) - 1) / 2) * width for i in places]
            ax.bar(at, [h - least for h in heights], width, bottom=least, label=cause, color=colour)
            _whiskers(ax, at, [ranges[cause][i] for i in places], least)
            tops = [max(top, e.hi) for top, e in zip(tops, ranges[cause], strict=True)]
        else:
            ax.bar(places, heights, bottom=[tops[i] for i in places], label=cause, color=colour)
            tops = [top + height for top, height in zip(tops, found[cause], strict=True)]
    if not far_apart:
        whole = [sum(column, ZERO) for column in zip(*ranges.values(), strict=True)]
        _whiskers(ax, range(len(reports)), whole)
        tops = [e.hi for e in whole]
    for i, r in enumerate(reports):
        ax.annotate(
            total_text(r.price).partition(" (")[0], (i, tops[i] or least), ha="center", va="bottom", fontsize="small",
            xytext=(0, 3), textcoords="offset points",
        )  # fmt: skip
    if far_apart:
        ax.set_yscale("log")
        ax.set_ylim(least, 10 * max(tops))
        two_decades(ax.yaxis)
    else:
        ax.set_ylim(0, 1.1 * max(tops) or 1)
    ax.yaxis.set_major_formatter(EngFormatter(unit="J"))
    ax.set_xticks(range(len(reports)), [_place(r) for r in reports])
    ax.set_xlim(-0.6, len(reports) - 0.4)
    ax.set_ylabel("energy; above: with host, cooling")
    ax.set_xlabel("\n".join(_not_modelled(reports)), fontsize="small")
    legend(ax)
    return figure


def _whiskers(ax: Axes, at: Sequence[float], ranges: Sequence[Range], least: float = 0.0) -> None:
    """An error bar for each range, from `least` where it begins below; none for exact figures."""
    wide = [(x, e) for x, e in zip(at, ranges, strict=True) if e.lo < e.hi]
    if wide:
        spans = [[e.nominal - max(e.lo, least) for _, e in wide], [e.hi - e.nominal for _, e in wide]]
        ax.errorbar([x for x, _ in wide], [e.nominal for _, e in wide], spans, fmt="none", ecolor="0.2", capsize=3)


def _joules(report: EnergyReport, cause: str) -> Range:
    energy = report.price.of(cause)
    return energy if isinstance(energy, Range) else ZERO


def _place(report: EnergyReport) -> str:
    """The report's name, in lines that have room below a bar."""
    name = "\n".join(textwrap.wrap(report.name, 18)) or report.name
    return f"{name}\n{report.price.technology.id}\n{report.price.temperature:g} K"


def _not_modelled(reports: Sequence[EnergyReport]) -> list[str]:
    """Lines that list the causes without a figure of their own, once for each model: those that other figures cover,
    and the others."""
    told_of: dict[str, dict[str, None]] = {}
    for r in reports:
        for cause, energy in r.price.causes.items():
            if isinstance(energy, NotModelled):
                kind = "covered in" if isinstance(energy, Covered) else "not modelled by"
                told_of.setdefault(f"{kind} {r.price.technology.id}", {})[cause] = None
    told = [f"{whose}: {', '.join(causes)}" for whose, causes in told_of.items()]
    return [line for text in told for line in textwrap.wrap(text, _LINE)]


def against_frequency(reports: Sequence[EnergyReport], ax: Axes | None = None, points: int = 60) -> Figure:
    """Energy of an instruction against the clock, log-log, with the range of the figures, and kT ln 2 at each temperature."""
    figure, ax = axes_of(ax, 8.5)
    ax.set_yscale(
        "log"
    )  # first: on a linear axis, kT ln 2 lies within the limits of any energy, and does not extend them
    kelvins = {ROOM}
    for r, colour in zip(reports, colours(len(reports)), strict=True):
        found = _priced(at_frequencies(r.counts, r.by.technology, r.by.gates, r.by.temperature, points))
        n = max(r.counts.retired, 1)
        label = f"{r.name}, {r.price.technology.id}"
        kelvins.add(r.price.temperature)
        if found:
            _band(ax, [clock for clock, _ in found], [energy / n for _, energy in found], label, colour)
        elif isinstance(r.price.program, Range) and r.price.program.nominal:
            ax.axhline(r.price.program.nominal / n, label=f"{label} (any clock)", color=colour)
        else:
            # A logarithmic axis cannot show zero.
            ax.plot([], [], " ", label=f"{label}: {program_text(r.price)}")
    for t in sorted(kelvins):
        ax.axhline(thermal_energy(t), linestyle=":", color="0.4")
        ax.annotate(
            f"kT ln 2 at {t:g} K",
            (0.01, thermal_energy(t)),
            xycoords=("axes fraction", "data"),
            va="bottom",
            fontsize="x-small",
            xytext=(0, 2),
            textcoords="offset points",
        )
    _log_log(ax, "clock (Hz)", "energy of an instruction (J)")
    return figure


def against_delay(reports: Sequence[EnergyReport], ax: Axes | None = None, points: int = 60) -> Figure:
    """Energy of the run against how long it takes, log-log."""
    figure, ax = axes_of(ax, 8.5)
    for r, colour in zip(reports, colours(len(reports)), strict=True):
        found = _priced(at_frequencies(r.counts, r.by.technology, r.by.gates, r.by.temperature, points))
        if found:
            delays = [r.counts.cycles * r.by.clocks / clock for clock, _ in found]
            _band(ax, delays, [energy for _, energy in found], f"{r.name}, {r.price.technology.id}", colour)
        else:
            why = "no clock" if r.by.technology.frequency is None else program_text(r.price)
            ax.plot([], [], " ", label=f"{r.name}, {r.price.technology.id}: {why}")
    _log_log(ax, "time of the run (s)", "energy of the run (J)")
    return figure


def _log_log(ax: Axes, x: str, y: str) -> None:
    # A logarithmic axis without data has no limits of its own.
    if ax.dataLim.x0 > ax.dataLim.x1:
        ax.set_xlim(1, 10)
    if ax.dataLim.y0 > ax.dataLim.y1:
        ax.set_ylim(1, 10)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    two_decades(ax.yaxis)
    two_decades(ax.xaxis)
    legend(ax)


def over_time(
    forward: Ledger, back: Ledger | None = None, ax: Axes | None = None, *, with_legend: bool = True
) -> Figure:
    """Live and erased bits after each step of a run, and of its way back after it."""
    figure, ax = axes_of(ax, 8.5)
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
            color=COLOURS[0 if way == "forward" else 4],
        )
        ax.step(
            steps,
            [lost + s.erased_bits for s in ledger.samples],
            where="post",
            label=f"erased{shade}",
            color=COLOURS[5 if way == "forward" else 1],
        )
        begin, lost = steps[-1], lost + ledger.samples[-1].erased_bits
        if back is not None and way == "forward":
            ax.axvline(begin, linestyle=":", color="0.4")
    ax.set_xlabel("step")
    ax.set_ylabel("bits")
    if with_legend:
        legend(ax)
    return figure


def crossover(schemes: Sequence[tuple[int, int]] = ((2, 4), (4, 4), (8, 3), (2, 10)), ax: Axes | None = None) -> Figure:
    """Energy of Bennett's scheme over that of the erasing run, (2k − 1)ⁿ·ξ / kⁿ, against ξ.

    ξ is the energy of a reversible operation over that of an erasing one. Erasing wins where a curve is above 1. A full
    mark: the two runs take the same energy. A hollow mark: the scheme takes the energy of one erasing operation.
    """
    # Imported here: the advice reads the compiler, which takes a moment.
    from retrograd.physics.advice import break_even, break_even_per_memory_unit

    figure, ax = axes_of(ax, 8.5)
    ratios = [10 ** (e / 20) for e in range(-120, 1)]
    for (k, n), colour in zip(schemes, colours(len(schemes)), strict=True):
        even, per_unit = break_even(k, n), break_even_per_memory_unit(k, n)
        ax.plot(ratios, [x / even for x in ratios], label=f"k = {k}, n = {n}: equal at ξ = {even:.3g}", color=colour)
        ax.plot([even], [1], "o", color=colour)
        ax.plot([per_unit], [per_unit / even], "o", color=colour, markerfacecolor="white")
    ax.plot([], [], "o", color="0.4", label="energy of the run: (2k − 1)ⁿ·ξ = kⁿ")
    ax.plot([], [], "o", color="0.4", markerfacecolor="white", label="one unit of memory: (2k − 1)ⁿ·ξ = 1")
    ax.axhline(1, linestyle=":", color="0.4")
    for text, va, offset in (("above: erase", "bottom", 2), ("below: uncompute", "top", -2)):
        ax.annotate(
            text, (0.01, 1), xycoords=("axes fraction", "data"), va=va, fontsize="small", xytext=(0, offset),
            textcoords="offset points",
        )  # fmt: skip
    _log_log(ax, "ξ, energy of a reversible operation / of an erasing one", "energy of the scheme / of the erasing run")
    return figure


#: name on the command line -> function that draws reports
KINDS: dict[str, Callable[[Sequence[EnergyReport]], Figure]] = {
    "causes": by_cause,
    "frequency": against_frequency,
    "delay": against_delay,
    "time": lambda reports: over_time(_ledger(reports[0]), reports[0].back),
}


def _ledger(report: EnergyReport) -> Ledger:
    assert report.ledger is not None, "the report has no timeline"
    return report.ledger


def _priced(points: Sequence[FrequencyPoint]) -> list[tuple[float, Range]]:
    """(frequency, energy) of the points that a logarithmic axis can show."""
    return [(p.frequency, p.energy) for p in points if isinstance(p.energy, Range) and p.energy.nominal]


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
