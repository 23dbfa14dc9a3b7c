"""Models are compared on equal scope, or refused; a scope restricts prices to its parts."""

from __future__ import annotations

import json

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.pricing import NotModelled
from retrograd.simulator.energy.technology import PARTS, Range

import retrograd as rg
from retrograd import fixed, reversible
from retrograd.physics.plots import by_cause
from retrograd.physics.report import EnergyReport, compared


@reversible
def cube(y: fixed, x: fixed) -> None:
    y += x * x * x


@pytest.fixture(scope="module")
def reports() -> dict[str, EnergyReport]:
    first = rg.energy(cube, 0.0, 1.5, format="Q16.16")
    return {name: first.priced_by(name) for name in ("landauer", "cmos45", "cmos7", "aqfp", "adiabatic_rc")}


def test_scopes(reports: dict[str, EnergyReport]) -> None:
    """Parts that happened and have no figure are outside. The program needs no cooling at room temperature, and has a memory of its arguments."""
    assert {name: set(PARTS) - report.price.scope for name, report in reports.items()} == {
        "landauer": set(), "cmos45": set(), "cmos7": {"leakage", "clock", "overhead"}, "aqfp": {"clock", "memory"},
        "adiabatic_rc": {"logic", "leakage", "clock", "memory"},
    }  # fmt: skip


def test_equal_scopes_are_compared_as_they_are(reports: dict[str, EnergyReport]) -> None:
    both = [reports["landauer"], reports["cmos45"]]
    assert compared(both) == both


@pytest.mark.parametrize("scope", [None, "logic,overhead", "clock"])
def test_what_is_missing_is_named(reports: dict[str, EnergyReport], scope: str | None) -> None:
    with pytest.raises(InputError) as wrong:
        compared([reports["cmos45"], reports["cmos7"]], scope)
    assert wrong.value.code == "RG1113"
    (found,) = wrong.value.diagnostics
    parts = {None: "leakage, clock and overhead", "logic,overhead": "overhead", "clock": "clock"}[scope]
    assert found.message == f"`cmos7` does not model {parts}"
    assert found.hint == "the scope `common` compares logic, memory, erasure and cooling"


def test_the_common_scope(reports: dict[str, EnergyReport]) -> None:
    whole = reports["cmos45"].price
    left, right = compared([reports["cmos45"], reports["cmos7"]], "common")
    assert left.price.scope >= {"logic", "memory"}
    assert not any(item.part == "overhead" or item.cause in ("program load", "copy-out") for item in left.price.items)
    logic, all_logic = left.price.of("logic"), whole.of("logic")
    assert isinstance(logic, Range)
    assert isinstance(all_logic, Range)
    overhead = sum(i.energy.nominal for i in whole.items if i.part == "overhead" and isinstance(i.energy, Range))
    assert logic.nominal == pytest.approx(all_logic.nominal - overhead, rel=1e-9, abs=0)
    assert overhead > 0.5 * all_logic.nominal
    assert isinstance(right.price.of("logic"), Range)


def test_named_parts(reports: dict[str, EnergyReport]) -> None:
    (alone,) = compared([reports["cmos45"]], "memory")
    assert alone.price.program == reports["cmos45"].price.of("memory")
    assert isinstance(alone.price.of("logic"), NotModelled)
    assert set(alone.price.causes) == {"memory"}
    assert by_cause([alone]).axes[0].get_xlabel() == ""
    (alone,) = compared([reports["cmos45"]], "overhead")
    assert set(alone.price.causes) == {"logic"}
    assert json.dumps(alone.as_dict())
    with pytest.raises(InputError, match=r"(?s)RG0507.*did you mean `logic`"):
        compared([reports["cmos45"]], "logik")
