"""Plots show what was priced: lines where the prices are, nothing where nothing is modelled."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from matplotlib.container import BarContainer, ErrorbarContainer
from retrograd.simulator.energy.counts import Ledger
from retrograd.simulator.energy.gates import Gates
from retrograd.simulator.energy.laws import optimum
from retrograd.simulator.energy.pricing import at_frequencies, optimum_frequency
from retrograd.simulator.energy.technology import Range, exactly, technology, thermal_energy

import retrograd as rg
from retrograd import fixed, library, reversible
from retrograd.physics import plots as energy_plots
from retrograd.physics.report import EnergyReport, total_text
from retrograd.presentation import faults

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)

DEVICE: dict[str, Any] = {
    "resistance": "10kohm",
    "capacitance": "1fF",
    "voltage": "1V",
    "power": "1fW",
    "quality": "1e4",
}
GATES = Gates(rg.Format(), {"logic unit": {"BUF": 1000}}, levels=8, in_levels={"BUF": 1000})


@reversible
def forget(y: fixed, x: fixed) -> None:
    t = x * x
    y += t
    rg.erase(t)


def two_models() -> list[EnergyReport]:
    report = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="cmos45", timeline=True)
    return [report, report.priced_by("adiabatic_rc", figures=DEVICE, gates=GATES)]


@pytest.mark.parametrize("kind", energy_plots.KINDS)
def test_each_kind_can_be_read(kind: str) -> None:
    assert faults(energy_plots.KINDS[kind](two_models())) == []


def test_the_bound_is_in_the_picture_against_the_clock() -> None:
    """However far above kT ln 2 the energies lie: a line outside of the axes has a label that breaks the layout."""
    figures = {**DEVICE, "power": "1pW", "quality": "1000"}
    figure = energy_plots.against_frequency(
        [rg.energy(forget, 0.0, 2.0, tech="adiabatic_rc", figures=figures, format="Q16.16")]
    )
    low, high = figure.axes[0].get_ylim()
    assert low < thermal_energy(300.0) < high
    assert faults(figure) == []


def bars(ax: Any) -> list[BarContainer]:
    return [c for c in ax.containers if isinstance(c, BarContainer)]


def whiskers(ax: Any) -> dict[float, tuple[float, float]]:
    """place -> (low, high) of each error bar"""
    segments = [
        s for c in ax.containers if isinstance(c, ErrorbarContainer) for lines in c[2] for s in lines.get_segments()
    ]
    return {float(a[0]): (float(a[1]), float(b[1])) for a, b in segments}


def test_error_bars_span_the_ranges() -> None:
    """Of the sum where the causes are stacked; of each cause where they stand side by side; none for exact figures."""
    one = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="cmos7")
    bound = rg.energy(forget, 0.0, 2.0)
    ax = energy_plots.by_cause([one, one]).axes[0]
    found = [e for e in (one.price.of(c.get_label()) for c in bars(ax)) if isinstance(e, Range)]
    assert ax.get_yscale() == "linear"
    low, high = sum(e.lo for e in found), sum(e.hi for e in found)
    assert low < high
    assert whiskers(ax) == {0.0: (approx(low), approx(high)), 1.0: (approx(low), approx(high))}
    ax = energy_plots.by_cause([one, bound]).axes[0]
    assert ax.get_yscale() == "log"
    spans = whiskers(ax)
    for c in bars(ax):
        for p in c.patches:
            at = p.get_x() + p.get_width() / 2
            energy = (one, bound)[round(at)].price.of(str(c.get_label()))
            assert isinstance(energy, Range)
            span = next((s for x, s in spans.items() if abs(x - at) < 1e-9), None)
            assert span == (None if energy.lo == energy.hi else (approx(energy.lo), approx(energy.hi)))
            assert energy.hi < ax.get_ylim()[1]


def test_a_cause_beside_one_that_dominates_can_be_seen() -> None:
    """In one report, too: the axis is then logarithmic, and has a bar for each."""
    found = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="aqfp", gates=GATES, frequency="1 kHz")
    ax = energy_plots.by_cause([found]).axes[0]
    energies = [e.nominal for c in bars(ax) if isinstance(e := found.price.of(str(c.get_label())), Range)]
    assert (max(energies) > 30 * min(energies)) == (ax.get_yscale() == "log")
    assert all(p.get_height() > 0 for c in bars(ax) for p in c.patches)
    assert faults(ax.figure) == []


def test_a_part_that_an_error_bar_dwarfs_can_be_seen() -> None:
    """In a stack, memory would be a line below the error bar of the sum: it stands beside the logic, on a
    logarithmic axis."""
    found = rg.energy(forget, 0.0, 2.0, tech="cmos45")
    logic, memory = found.price.of("logic"), found.price.of("memory")
    assert isinstance(logic, Range)
    assert isinstance(memory, Range)
    assert logic.nominal < 30 * memory.nominal < logic.hi
    ax = energy_plots.by_cause([found]).axes[0]
    assert ax.get_yscale() == "log"
    assert all(p.get_height() > 0 for c in bars(ax) for p in c.patches)


def test_reports_of_one_scale_are_stacked() -> None:
    report = rg.energy(forget, 0.0, 2.0, tech="cmos7")
    figure = energy_plots.by_cause([report] * 2)
    ax = figure.axes[0]
    assert ax.get_yscale() == "linear"
    tops = [p.get_y() + p.get_height() for c in bars(ax) for p in c.patches]
    program = report.price.program
    assert isinstance(program, Range)
    assert max(tops) == approx(program.nominal)
    assert faults(figure) == []


def adiabatic() -> EnergyReport:
    return rg.energy(library.norm, 0.0, [3.0, 4.0], tech="adiabatic_rc", figures=DEVICE, gates=GATES)


def test_the_optimum_is_where_theory_has_it() -> None:
    """Slow ramps: E(τ) = A/τ + Bτ for each cell, A = 2RC²V² · 8², B = the leakage of a cycle."""
    report = adiabatic()
    found = report.optimum
    assert found is not None
    # A cycle takes T = 1/f; a tick is T/8: two ramps of RC/(T/8) · CV², and the leakage P · T.
    rising, falling = 2 * 8 * 1e4 * 1e-15 * 1e-15, 1e-15
    period, least = optimum(rising, falling)
    assert 1 / found.frequency == approx(period, rel=1e-3)
    assert isinstance(found.energy, Range)
    # The generator loses the same in each cycle of any clock.
    lost = math.pi * 1e-15 / 1e4
    assert found.energy.nominal == approx(report.counts.cycles * 1000 * (least + lost), rel=1e-3)


def test_the_optimum_is_told() -> None:
    report = adiabatic()
    assert report.optimum is not None
    assert report.optimum == optimum_frequency(report.counts, report.by.technology, GATES)
    assert f"costs least at {report.optimum.frequency / 1e3:.4g} kHz" in str(report)
    assert report.as_dict()["optimum"]["frequency"] == report.optimum.frequency
    assert rg.energy(forget, 0.0, 2.0).as_dict()["optimum"] is None


def test_no_optimum_where_there_is_none() -> None:
    counts = rg.energy(library.norm, 0.0, [3.0]).counts
    assert optimum_frequency(counts, technology("landauer")) is None
    assert optimum_frequency(counts, technology("aqfp"), GATES) is None  # the slower the better
    assert optimum_frequency(counts, technology("adiabatic_rc"), GATES) is None  # figures left open
    device = {"resistance": exactly(1e4), "capacitance": exactly(1e-15), "voltage": exactly(1.0), "power": exactly(0.0)}
    assert optimum_frequency(counts, technology("adiabatic_rc").with_figures(device), GATES) is None  # nothing leaks


def test_clocks_cover_what_the_model_does() -> None:
    report = adiabatic()
    points = at_frequencies(report.counts, report.by.technology, GATES, points=7)
    assert [p.frequency for p in points] == approx([10**e for e in (0, 5 / 3, 10 / 3, 5, 20 / 3, 25 / 3, 10)], rel=1e-6)
    assert at_frequencies(report.counts, technology("landauer")) == []


def test_against_the_clock() -> None:
    report = adiabatic()
    ax = energy_plots.against_frequency([report, rg.energy(library.norm, 0.0, [3.0, 4.0], tech="cmos45")]).axes[0]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    line = next(line for line in ax.lines if "adiabatic_rc" in str(line.get_label()))
    points = at_frequencies(report.counts, report.by.technology, GATES)
    energies = [p.energy.nominal / report.counts.retired for p in points if isinstance(p.energy, Range)]
    assert list(line.get_ydata()) == approx(energies)
    levels = {float(line.get_ydata()[0]) for line in ax.lines if line.get_linestyle() == ":"}
    assert levels == {thermal_energy(300.0)}


def test_each_temperature_has_its_line() -> None:
    report = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="aqfp", gates=GATES)
    ax = energy_plots.against_frequency([report]).axes[0]
    levels = {float(line.get_ydata()[0]) for line in ax.lines if line.get_linestyle() == ":"}
    assert levels == {thermal_energy(300.0), thermal_energy(4.2)}


def test_bars() -> None:
    report = rg.energy(forget, 0.0, 2.0, tech="cmos7")
    ax = energy_plots.by_cause([report]).axes[0]
    heights = {c.get_label(): c.patches[0].get_height() for c in bars(ax)}
    logic, memory = report.price.of("logic"), report.price.of("memory")
    assert isinstance(logic, Range)
    assert isinstance(memory, Range)
    assert heights == {"logic": approx(logic.nominal), "memory": approx(memory.nominal)}
    assert ax.get_xlabel().splitlines()[0] == "not modelled by cmos7: leakage, clock, cooling, program load, copy-out"
    assert ax.get_xlabel().splitlines()[1] == "covered in cmos7: erasure"


def test_bars_of_reports_of_one_name() -> None:
    """Each has its own, with what it comes to: a small one beside a large one cannot be seen."""
    reports = [rg.energy(forget, 0.0, 2.0, tech=tech) for tech in ("landauer", "cmos45", "landauer")]
    ax = energy_plots.by_cause(reports).axes[0]
    places = {round(p.get_x() + p.get_width() / 2) for c in bars(ax) for p in c.patches}
    assert places == {0, 1, 2}
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        "forget\nlandauer\n300 K", "forget\ncmos45\n300 K", "forget\nlandauer\n300 K",
    ]  # fmt: skip
    assert [t.get_text().partition("\n")[0] for t in ax.texts] == [
        total_text(r.price).partition(" (")[0] for r in reports
    ]
    # A bound of 1e-18 J beside 1e-9 J: each cause has its bar, up to its energy on a logarithmic axis.
    assert ax.get_yscale() == "log"
    for c in bars(ax):
        for p in c.patches:
            energy = reports[round(p.get_x() + p.get_width() / 2)].price.of(str(c.get_label()))
            assert isinstance(energy, Range)
            assert p.get_y() + p.get_height() == approx(energy.nominal)
            assert 0 < ax.get_ylim()[0] == p.get_y() < energy.nominal
    assert faults(ax.figure) == []


def test_what_a_logarithmic_axis_has_no_place_for_is_told() -> None:
    nothing = rg.energy(library.norm, 0.0, [3.0, 4.0])
    unknown = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="adiabatic_rc")
    ax = energy_plots.against_frequency([nothing, unknown]).axes[0]
    assert ax.get_legend_handles_labels()[1] == ["norm, landauer: 0 J", "norm, adiabatic_rc: not modelled"]
    ax = energy_plots.against_delay([nothing, unknown]).axes[0]
    assert ax.get_legend_handles_labels()[1] == ["norm, landauer: no clock", "norm, adiabatic_rc: not modelled"]


def test_against_delay() -> None:
    report = adiabatic()
    figure = energy_plots.against_delay([report])
    xs = figure.axes[0].lines[0].get_xdata()
    assert max(xs) == approx(report.counts.cycles / 1.0)


def test_over_time() -> None:
    machine = rg.run(library.norm, 0.0, [3.0, 4.0], engine="reference").machine
    machine.run_back()
    forward = Ledger(machine)
    machine.run(observe=forward)
    back = Ledger(machine)
    machine.run_back(observe=back)
    ax = energy_plots.over_time(forward, back).axes[0]
    lines = {str(line.get_label()): line for line in ax.lines}
    assert {"live, forward", "erased, forward", "live, back", "erased, back"} <= set(lines)
    there = list(lines["live, forward"].get_ydata())
    assert list(lines["live, back"].get_ydata()) == there[::-1]
    assert max(lines["erased, back"].get_ydata()) == 0


def test_the_crossover() -> None:
    """Full marks where the energies of both runs are the same, hollow ones where one unit of memory pays."""
    figure = energy_plots.crossover([(4, 4), (2, 10)])
    assert faults(figure) == []
    ax = figure.axes[0]
    marks = [line for line in ax.lines if line.get_marker() == "o" and len(line.get_xdata())]
    points = [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in marks]
    assert points == [
        approx(p) for p in ((256 / 2401, 1), (1 / 2401, 1 / 256), (1024 / 59049, 1), (1 / 59049, 1 / 1024))
    ]
    assert [line.get_markerfacecolor() == "white" for line in marks] == [False, True, False, True]
