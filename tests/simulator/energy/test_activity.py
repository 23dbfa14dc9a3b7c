"""Prices by measured activity: the law of the charge, programs and parts of programs, documents with errors."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Counts, counts_of
from retrograd.simulator.energy.gates import Activity, Gates, activity_from, load_activity
from retrograd.simulator.energy.pricing import Item, NotModelled, pricing_context
from retrograd.simulator.energy.technology import Range

import retrograd as rg

PROGRAM = rg.assemble("start\nadd r1, 3\nmul.add r2, r1, r1\nfinish")
W = PROGRAM.format
GATES = Gates(W, {"logic unit": {"AND": 30, "XOR": 20}, "rest of the core": {"AND": 50, "DFF": 10, "memory bits": 99}})
#: CV² in joules
EACH = 1e-15 * 0.8**2


def document(rates: dict[str, dict[str, float]], cycles: int = 1000) -> dict[str, Any]:
    """Of units with 100 cells of each kind, which toggle at a rate per cycle."""
    units = {
        u: {k: {"cells": 100, "toggles": round(100 * cycles * r)} for k, r in kinds.items()}
        for u, kinds in rates.items()
    }
    return {
        "schema": "retrograd.activity/1", "format": {"width": W.width, "frac": W.frac}, "core": "small",
        "program": {"name": "it", "digest": PROGRAM.digest},
        "runs": [{"direction": 1, "D": 0, "cycles": cycles, "instructions": 4, "units": units}],
    }  # fmt: skip


GOOD = document(
    {"logic unit": {"AND": 0.5, "XOR": 0.25}, "sequencer": {"AND": 0.1, "DFF": 0.2, "NOT": 1}, "guards": {"AND": 0.3}}
)


def near(x: Any) -> Any:
    """Energies are far below the absolute tolerance that `approx` has by default."""
    return pytest.approx(x, rel=1e-9, abs=0)


def counted(program: rg.Program = PROGRAM) -> Counts:
    machine = rg.Machine(program)
    machine.run()
    return counts_of(machine)


def priced(activity: Any, counts: Counts | None = None, tech: Any = "cmos_switching") -> Item:
    """The item of the gates."""
    figures = {"capacitance": "1fF", "voltage": "0.8V"}
    by = pricing_context(tech, W, figures=figures, gates=GATES, activity=activity)
    (item,) = (i for i in by.price(counts or counted()).items if i.label == "gates and flip-flops")
    return item


def energy(item: Item) -> Range:
    assert isinstance(item.energy, Range)
    return item.energy


def test_each_cell_rises_as_often_as_it_was_measured() -> None:
    """½ CV² for each toggle. The rest of the core is all units that the gate counts do not name: 0.1 and 0.3 are 0.2."""
    toggles = 30 * 0.5 + 20 * 0.25 + 50 * 0.2 + 10 * 0.2
    found = energy(priced(GOOD))
    assert found.nominal == near(counted().cycles * toggles * EACH / 2)
    # The range is that of the nodes of a cell.
    assert (found.lo, found.hi) == near((found.nominal, 3 * found.nominal))


def test_the_assumption_is_replaced() -> None:
    """Cells that all toggle at twice the assumed rate of rises cost the same; others do not."""
    assumed = priced(None)
    same = priced(document({"logic unit": {"AND": 0.2, "XOR": 0.2}, "x": {"AND": 0.2, "DFF": 0.2}}))
    assert energy(same).nominal == near(energy(assumed).nominal)
    assert energy(assumed).lo < energy(same).lo
    found = {
        item: [f for f in one.figures if f.name == "activity"]
        for item, one in (("assumed", assumed), ("measured", same))
    }
    assert [f.evidence for f in found["assumed"]] == ["assumed"]
    assert [(f.evidence, f.si.nominal) for f in found["measured"]] == [("simulated", near(0.1))]
    assert "1000 cycles" in found["measured"][0].source


def test_prices_add_up_over_parts_of_the_program() -> None:
    whole = counted()
    parts = [energy(priced(GOOD, whole.at([address]))).nominal for address in range(len(PROGRAM.code))]
    assert sum(parts) == near(energy(priced(GOOD, whole)).nominal)
    assert min(parts[:3]) > 0


def test_a_part_that_was_not_simulated_has_the_activity_of_its_unit() -> None:
    found = activity_from(GOOD, "it")
    assert found.rises("logic unit", "MUX") == near((0.5 + 0.25) / 2 / 2)
    assert found.rises("multiplier", "AND") == near((0.5 + 0.25 + 0.1 + 0.2 + 1 + 0.3) / 6 / 2)


def test_cells_that_never_switch_cost_the_bits_that_gates_lose() -> None:
    still = document({"logic unit": {"AND": 0, "XOR": 0}, "x": {"AND": 0, "DFF": 0}})
    assert 0 < energy(priced(still)).nominal < 1e-4 * energy(priced(GOOD)).nominal


def test_a_cell_toggles_at_most_once_in_a_cycle() -> None:
    part = copy.deepcopy(GOOD)
    part["runs"][0]["units"]["logic unit"]["AND"]["toggles"] = 100 * 1000
    assert activity_from(part, "it").rises("logic unit", "AND") == 0.5
    part["runs"][0]["units"]["logic unit"]["AND"]["toggles"] += 1
    with pytest.raises(InputError, match="toggle at most 100000 times"):
        activity_from(part, "it")


def test_runs_count_together() -> None:
    two = copy.deepcopy(GOOD)
    two["runs"].append(
        {**document({"logic unit": {"AND": 0.25, "XOR": 0.25}}, 3000)["runs"][0], "direction": -1, "D": 1}
    )
    found = activity_from(two, "it")
    assert found.cycles == 4000
    assert found.rises("logic unit", "AND") == near((0.5 + 3 * 0.25) / 4 / 2)


def test_another_program_is_not_modelled() -> None:
    other = counted(rg.assemble("start\nadd r1, 4\nfinish"))
    found = priced(GOOD, other).energy
    assert isinstance(found, NotModelled)
    assert found.why == "the activity was measured of another program, it"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": {"width": 32, "frac": 16}}, "it is of Q16.16, and the run of Q32.32"),
        ({"core": "fast"}, "it is of the core fast, and the gate counts of small"),
    ],
)
def test_another_format_and_core_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match="RG1114") as error:
        priced({**GOOD, **change})
    assert message in str(error.value)


def test_a_model_without_the_law_refuses_it() -> None:
    with pytest.raises(InputError, match="no charge of `aqfp` depends on activity"):
        pricing_context("aqfp", W, activity=GOOD)


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


JUNK = st.sampled_from(
    [None, True, -1, 0, 1.5, float("nan"), float("inf"), 10**40, "", "x" * 5000, [], {}, [[]], {"": {}}]
)


@given(st.sampled_from(_places(GOOD)[1:]), JUNK, st.booleans())
def test_a_document_with_an_error_is_refused_or_a_price(place: tuple[Any, ...], junk: Any, gone: bool) -> None:
    wrong = copy.deepcopy(GOOD)
    at: Any = wrong
    for key in place[:-1]:
        at = at[key]
    if gone:
        del at[place[-1]]
    else:
        at[place[-1]] = junk
    refused, found = None, None
    try:
        found = activity_from(wrong, "it")
    except InputError as error:
        refused = error
    if refused is not None:
        assert refused.diagnostics[0].code == "RG1114"
        assert len(str(refused)) < 1000
        return
    assert isinstance(found, Activity)
    if (found.format, found.core) == (W, "small"):
        item = priced(found)
        assert isinstance(item.energy, NotModelled) or 0 <= item.energy.lo <= item.energy.hi < 1


@given(st.integers(0, len(json.dumps(GOOD)) - 1))
def test_a_truncated_file_is_refused(length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.json"
        path.write_text(json.dumps(GOOD)[:length])
        with pytest.raises(InputError, match="RG1114"):
            load_activity(path)
