"""The LUTs of docs/reference/units.json, of cores with fewer units than the core fast."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.micro_operations import CORES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """tools/measure_sizes.py."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("measure_sizes")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def copied(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the results, which the tool reads and writes."""
    path = tmp_path / "units.json"
    path.write_bytes(tool.UNIT_RESULTS.read_bytes())
    monkeypatch.setattr(tool, "UNIT_RESULTS", path)
    return path


def test_each_case_has_a_result_and_saves_something(tool: ModuleType) -> None:
    found = tool.unit_results()
    assert [*found] == [*tool.FEWER_UNITS]
    whole, *others = (area["luts"] for area in found.values())
    assert others
    assert all(0 < luts < whole for luts in others)
    assert tool.luts_without() == (whole, whole - sum(whole - luts for luts in others))


def test_a_case_is_built_with_its_own_units(tool: ModuleType, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, before = [], dict(CORES)

    def synthesise(text: str, folder: Path, parameters: Parameters) -> None:
        built.append((parameters.core, parameters.microarchitecture, text.count("\n")))
        kinds = ["LUT4"] * 5 + ["CCU2C"] * 2 + ["MULT18X18D"]
        cells = {str(k): {"type": kind} for k, kind in enumerate(kinds)}
        (folder / "top.json").write_text(json.dumps({"modules": {"top": {"cells": cells}}}), "utf-8")

    monkeypatch.setattr(tool, "synthesise", synthesise)
    cases = ["one divider", "no sum with a product"]
    assert tool.main(cases) == 0
    assert [units for _, units, _ in built] == [tool.FEWER_UNITS[title] for title in cases]
    assert len({name for name, *_ in built}) == len({lines for *_, lines in built}) == len(cases)
    assert before == CORES
    found = tool.unit_results()
    assert [found[title] for title in cases] == [{"luts": 9, "multipliers": 1, "memories": 0}] * 2
    assert found["fast"]["luts"] > 9


def test_a_result_of_another_schema_is_refused(tool: ModuleType, copied: Path) -> None:
    copied.write_text(json.dumps({"schema": "retrograd.units/0", "results": {}}), "utf-8")
    with pytest.raises(ValueError, match=r"units\.json"):
        tool.unit_results()


def test_an_unknown_case(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(["three slots"])
    assert "there is no case three slots" in capsys.readouterr().err
