"""The sizes and clocks of docs/reference/sizes.json, and their tables in docs/coprocessor.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tools() -> tuple[ModuleType, ModuleType]:
    """(tools/measure_sizes.py, tools/measure_cycles.py)."""
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        return import_module("measure_sizes"), import_module("measure_cycles")
    finally:
        sys.path.remove(str(ROOT / "tools"))


@pytest.fixture
def page() -> str:
    return (ROOT / "docs" / "coprocessor.md").read_text("utf-8")


@pytest.fixture
def copied(tools: tuple[ModuleType, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the results, which the tool reads and writes."""
    sizes, _ = tools
    path = tmp_path / "sizes.json"
    path.write_bytes(sizes.RESULTS.read_bytes())
    monkeypatch.setattr(sizes, "RESULTS", path)
    return path


def fresh(tools: tuple[ModuleType, ModuleType]) -> list[str]:
    """The tables of sizes."""
    sizes, cycles = tools
    results = sizes.results()
    w = sizes.SMALL
    made = next(made for name, made, _ in cycles.WORKLOADS if name == cycles.BATCH)
    there, back = cycles.run(made(w))
    return [sizes.sizes_table(results), cycles.cores_table([(cycles.BATCH, w, there, back, True)], results)]


def test_the_page_is_fresh(tools: tuple[ModuleType, ModuleType], page: str) -> None:
    for table in fresh(tools):
        assert table in page
    for (core, w), mhz in tools[0].clocks(tools[0].results()).items():
        assert f"{mhz} MHz ({w})" in page, core


def test_a_stale_page_is_found(tools: tuple[ModuleType, ModuleType], copied: Path, page: str) -> None:
    document = json.loads(copied.read_text("utf-8"))["results"][0]
    tools[0].store({**document, "luts": document["luts"] + 1000})
    assert not any(table in page for table in fresh(tools))


def test_a_result_replaces_that_of_its_case(tools: tuple[ModuleType, ModuleType], copied: Path) -> None:
    sizes, _ = tools
    before = sizes.results()
    case = next(iter(before))
    seeds = [{"seed": n, "mhz": mhz} for n, mhz in enumerate((50.0, 64.04, 70.0))]
    sizes.store({**before[case], "seeds": seeds})
    after = sizes.results()
    assert [*after] == [*before]
    assert sizes.clock(after[case]) == 64.0
    assert {key: value for key, value in after.items() if key != case} == {
        key: value for key, value in before.items() if key != case
    }


@pytest.mark.parametrize("change", [{"schema": "retrograd.synth/0"}, {"lanes": 3}])
def test_a_result_of_another_kind_is_refused(
    tools: tuple[ModuleType, ModuleType], copied: Path, change: dict[str, Any]
) -> None:
    document = json.loads(copied.read_text("utf-8"))["results"][0] | change
    copied.write_text(json.dumps({"results": [document]}), "utf-8")
    with pytest.raises(ValueError, match=r"sizes\.json"):
        tools[0].results()


def test_an_unknown_case(tools: tuple[ModuleType, ModuleType], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tools[0].main(["small 1 Q8.8"])
    assert "there is no case small 1 Q8.8" in capsys.readouterr().err


def test_cases_are_placed_by_the_command(
    tools: tuple[ModuleType, ModuleType],
    copied: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes, _ = tools
    commands: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: Any) -> Any:
        commands.append(command)
        core, lanes = command[command.index("--core") + 1], int(command[command.index("--lanes") + 1])
        found = sizes.results()[sizes.Case(core, lanes, sizes.SMALL)]
        return type("Ended", (), {"stdout": json.dumps({**found, "luts": 1})})

    monkeypatch.setattr(sizes.subprocess, "run", run)
    assert sizes.main(["--seeds", "1", "barrel 8 Q16.16"]) == 0
    assert commands[0][3:6] == ("hdl", "synth", "--json")
    assert "barrel 8 Q16.16: 1 LUTs" in capsys.readouterr().out
    assert sizes.results()[sizes.Case("barrel", 8, sizes.SMALL)]["luts"] == 1
