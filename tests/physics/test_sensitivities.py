"""What prices hang on: slopes that are known from the laws."""

from __future__ import annotations

import json
from typing import Any

import pytest
from retrograd.simulator.energy.pricing import Sensitivity
from retrograd.simulator.energy.technology import Range

import retrograd as rg
from retrograd import fixed, library, reversible

DEVICE = {"resistance": "10kohm", "capacitance": "1fF", "voltage": "1V", "power": "1fW", "quality": "1e4"}


@reversible
def forgetful(y: fixed, x: fixed) -> None:
    t = x * x
    y += t
    rg.erase(t)


def found(report: rg.EnergyReport) -> dict[str, Sensitivity]:
    return {s.quantity: s for s in report.sensitivities}


def near(x: float) -> Any:
    return pytest.approx(x, abs=1e-6)


@pytest.mark.parametrize("kelvins", [4.2, 300])
def test_landauers_bound_is_proportional_to_the_temperature(kelvins: float) -> None:
    slopes = found(rg.energy(forgetful, 0.0, 3.0, temperature=kelvins))
    assert slopes == {"temperature": Sensitivity("temperature", near(1), near(1))}


def test_of_nothing_there_is_no_slope() -> None:
    slopes = found(rg.energy(library.norm, 0.0, [3.0, 4.0]))
    assert slopes["temperature"].program is None
    assert slopes["temperature"].total == near(1)  # load and copy-out
    assert rg.energy(forgetful, 0.0, 3.0, tech="cmos7").sensitivities == []


def test_aqfp() -> None:
    """Junctions cost in proportion to the clock; there are figures for one temperature."""
    report = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="aqfp", frequency="1GHz")
    slopes = found(report)
    assert list(slopes) == ["frequency", "cooling"]
    assert slopes["frequency"].program == near(1)
    cooling, total = report.price.of("cooling"), report.price.total
    assert isinstance(cooling, Range)
    assert isinstance(total, Range)
    assert slopes["cooling"] == Sensitivity("cooling", 0.0, cooling.nominal / total.nominal)
    # At the end of what the model has figures for it is the slope to one side.
    assert found(rg.energy(library.norm, 0.0, [3.0, 4.0], tech="aqfp"))["frequency"].program == near(1)


def test_nothing_changes_at_the_optimum() -> None:
    report = rg.energy(library.norm, 0.0, [3.0, 4.0], tech="adiabatic_rc", figures=DEVICE)
    assert report.optimum is not None
    there = report.priced_by("adiabatic_rc", figures=DEVICE, frequency=report.optimum.frequency)
    assert found(there)["frequency"].program == pytest.approx(0, abs=1e-4)
    slow = report.priced_by("adiabatic_rc", figures=DEVICE, frequency="1Hz")
    assert found(slow)["frequency"].program == pytest.approx(-1, abs=0.02)  # leakage, but for the bits that gates lose
    assert "1 % more" in str(slow)
    assert "the program costs least at" in str(there)


def test_json() -> None:
    told: Any = json.loads(json.dumps(rg.energy(forgetful, 0.0, 3.0).as_dict()))
    assert told["sensitivities"] == [{"quantity": "temperature", "program": near(1), "total": near(1)}]


def test_the_optimum_of_what_is_not_all_modelled_is_a_lower_bound() -> None:
    text = str(rg.energy(library.norm, 0.0, [3.0, 4.0], tech="adiabatic_rc", figures=DEVICE))
    line = next(line for line in text.splitlines() if line.startswith("the program costs least"))
    assert "≥" in line
