"""The page that compares reversible with irreversible gates is its counts, and the counts are those of the netlists."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from retrograd.simulator.energy.technology import Range

import retrograd as rg
from retrograd.presentation import faults

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import compare_gates as page  # noqa: E402
import compare_machines as machines  # noqa: E402


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs" / "energy" / "reversible_gates.json").read_text(encoding="utf-8"))
    return found


def test_the_page_is_of_all_functions(facts: dict[str, Any]) -> None:
    assert list(facts) == list(page.FUNCTIONS) == list(page.TITLES)
    text = page.page_path(ROOT / "docs").read_text(encoding="utf-8")
    for title in page.TITLES.values():
        assert text.count(f"| {title} |") == 5


def test_counts_of_the_addition(facts: dict[str, Any]) -> None:
    assert page.measured(["addition"]) == {"addition": facts["addition"]}


@pytest.mark.long
def test_a_count_that_differs_is_found(facts: dict[str, Any]) -> None:
    wrong = json.loads(json.dumps(facts))
    wrong["addition"]["core"]["cycles"] += 1
    reason = page.stale(ROOT / "docs", wrong)
    assert reason is not None


@pytest.mark.parametrize("hertz", [1e3, 5e9])
def test_the_coprocessor_costs_what_a_run_costs(facts: dict[str, Any], hertz: float) -> None:
    """The price of the core's logic in a report of the same run."""
    f, arguments, _ = page.FUNCTIONS["product"]
    report = rg.energy(f, *arguments, format=page.FORMAT, tech="aqfp", frequency=hertz).price.of("logic")
    (core,) = (curve for curve in page.curves(facts["product"], page.technology("aqfp")) if curve.way == page.CORE)
    found = page.energy_of(core, page.technology("aqfp"), hertz)
    assert isinstance(report, Range)
    assert tuple(found) == pytest.approx(tuple(report), rel=1e-9, abs=0)


def test_a_stored_netlist_costs_what_the_netlist_costs(facts: dict[str, Any]) -> None:
    f, arguments, _ = page.FUNCTIONS["product"]
    for model in page.models().values():
        for way in ("garbage", "bennett"):
            netlist = rg.netlist(f, *arguments, format=page.FORMAT, strategy=way)  # type: ignore[arg-type]
            report = rg.energy(netlist, tech=model)
            (curve,) = (curve for curve in page.curves(facts["product"], model) if curve.way == way)
            hertz = report.price.frequency
            assert hertz is not None
            assert curve.energy(model, hertz) == report.price.program
            assert curve.seconds(model, hertz) == report.seconds


def test_at_a_crossing_energies_are_equal(facts: dict[str, Any]) -> None:
    model = page.technology("aqfp")
    for found in facts.values():
        meet = page.crossings(found, model, page.IRREVERSIBLE)
        assert meet.hertz is not None
        logic = page.curves(found, model)[0]
        assert meet.energy == pytest.approx(logic.energy(model, meet.hertz).nominal, rel=1e-6, abs=0)
        for factor, less in ((0.5, True), (2.0, False)):
            f = meet.hertz * factor
            assert (page.cheapest(found, model, f).energy(model, f).nominal < logic.energy(model, f).nominal) == less


@pytest.mark.long
def test_all_counts(facts: dict[str, Any]) -> None:
    assert page.measured(list(page.FUNCTIONS)) == facts


def test_static_cmos_beside_reversible_gates(facts: dict[str, Any]) -> None:
    """At 100 fW of leakage the product ties, at 1 pW it loses threefold; a generator that loses more makes
    reversible gates dearer."""
    docs = ROOT / "docs"
    ideal = [machines.over_static("product", power, None, docs).range for power in (1e-15, 1e-13, 1e-12)]
    lossy = machines.over_static("product", 1e-15, 1e3, docs)
    assert isinstance(lossy.range, Range)
    assert all(isinstance(found, Range) for found in ideal)
    assert [round(found.nominal, 1) for found in ideal if isinstance(found, Range)] == [6.3, 1.0, 0.3]
    assert lossy.range.nominal < 0.2
    assert lossy.bound == "≥"


@pytest.mark.long
def test_ways_to_a_gradient() -> None:
    """The difference between a tape and running backward is the energy of its words: 2 words a step, there and back."""
    for n in (100, 10**6):
        tape, back = (machines.way(name, n, "cmos45_caches") for name in ("tape", "backward"))
        energies = [p.energy(p.technology) for p in (tape, back)]
        found = [e.nominal for e in energies if isinstance(e, Range)]
        words, beyond = 2 * n, [max(0, 2 * n - c) for c in (1024, 4096, 131072)]
        spent = 2 * (words * 10 + beyond[0] * 20 + beyond[1] * 100 + beyond[2] * 1950) * 1e-12
        assert found[0] - found[1] == pytest.approx(spent / n, rel=1e-9)


@pytest.mark.long
def test_pictures_and_exact_losses() -> None:
    figures = machines.page(ROOT / "docs")[1]
    assert {name: found for name, figure in figures.items() if (found := faults(figure))} == {}
    (adder, *_) = machines.losses()
    kept = machines.stored(ROOT / "docs", "data_path")["losses"][0]
    assert list(adder[1:4]) == [kept["assumed"], kept["gate_by_gate"], kept["whole"]]
    assert adder.reversible == pytest.approx(kept["reversible"], rel=1e-6, abs=0)


@pytest.mark.parametrize("place", [0, 1])
def test_the_losing_side_of_superconducting_gates(place: int) -> None:
    """The stored energies are those of the model, at all clocks; they are equal at the crossing."""
    one = machines.Losses(**machines.stored(ROOT / "docs", "data_path")["losses"][place])
    meet = one.crossing(one.assumed).nominal
    assert one.energy(meet) == pytest.approx(one.energy(meet, one.assumed), rel=1e-9, abs=0)
    assert one.crossing(one.gate_by_gate).nominal < meet
    circuit = machines.lower(machines.TABLE[("mov.add", "fmul.add")[place]], rg.Format(8, 4), strategy="garbage")
    netlists = circuit, machines.network_of(circuit)
    for hertz in (1e4, 1e6, 4e9):
        prices = [rg.energy(netlist, tech="aqfp", frequency=hertz).price.program for netlist in netlists]
        found = [e.nominal for e in prices if isinstance(e, Range)]
        assert [one.energy(hertz), one.energy(hertz, one.assumed)] == pytest.approx(found, rel=1e-6, abs=0)


def test_a_sum_of_netlists() -> None:
    """Each figure has one value in all parts, so a sum of equal parts has the ratio of their numbers."""
    shape, model = page.core_shape(), page.static_model()
    part = page.priced_at(page.Curve(page.CORE, shape, 1), model, 1e9)
    whole = page.summed([(2, part), (3, part)])
    assert page.ratio(whole, part).range == pytest.approx((5, 5, 5))
    assert whole.price(model).complete() == part.price(model).complete()


def test_each_figure_has_a_source_and_its_evidence() -> None:
    rows = machines.figures_table()
    assert all(value and evidence and source for _, _, value, evidence, source in rows[1:])
    assert any("1300 (250 … 1350) pJ" in row for row in rows)
