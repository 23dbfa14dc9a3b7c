"""docs/reference/numbers.md: what docs/reference/numbers.json says, within the bounds, and every worst error found again where it is said to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from retrograd.isa.words import Format

ROOT = Path(__file__).resolve().parents[3]
FORMATS = {str(w): w for w in (Format(64, 32), Format(32, 16))}


@pytest.fixture(scope="session")
def tool(module: Callable[[str], ModuleType]) -> ModuleType:
    """tools/measure_numbers.py"""
    return module("tools/measure_numbers.py")


@pytest.fixture(scope="module")
def facts() -> list[dict[str, Any]]:
    data = json.loads((ROOT / "docs" / "reference" / "numbers.json").read_text("utf-8"))
    results: list[dict[str, Any]] = data["results"]
    return results


def test_the_page_is_fresh(tool: ModuleType) -> None:
    assert tool.main(["--check", str(ROOT / "docs" / "reference")]) == 0


def test_a_stale_page_is_found(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("numbers.md", "numbers.json"):
        (tmp_path / name).write_bytes((ROOT / "docs" / "reference" / name).read_bytes())
    assert tool.main(["--check", str(tmp_path)]) == 0
    page = tmp_path / "numbers.md"
    page.write_text(page.read_text("utf-8").replace("| `flog` |", "| `log` |"), "utf-8")
    assert tool.main(["--check", str(tmp_path)]) == 1
    assert "stale" in capsys.readouterr().err


def test_all_is_measured_and_within_bounds(tool: ModuleType, facts: list[dict[str, Any]]) -> None:
    assert {(r["function"], r["format"]) for r in facts} == {(c.name, w) for c in tool.CASES for w in FORMATS}
    for r in facts:
        assert 0.4 < r["worst"] <= r["bound"], r
        rounded_once = dict.fromkeys(("fmul", "fdiv", "fsqrt", "lpow"), 0.5)
        bounds = rounded_once | {"llog": 0.63, "lexp": 0.59}
        assert r["bound"] == (2 if r["function"].startswith("rot") else bounds.get(r["function"], 1))
        assert r.get("falls", 0) == 0, r
        assert r["points"] >= (10**7 if r["format"] == "Q32.32" else 2 * 10**6), r
    everywhere = {r["function"] for r in facts if r["exhaustive"]}
    assert everywhere >= {"fexp", "flog", "fsqrt", "fsin", "fcos", "ltof", "ftol", "ladd", "lsub", "llog", "lexp"}
    assert {r["function"] for r in facts if "falls" in r} == {"fexp", "flog", "fsqrt", "ltof", "ftol", "llog", "lexp"}


def test_the_worst_errors_are_where_the_page_says(tool: ModuleType, facts: list[dict[str, Any]]) -> None:
    cases = {case.name: case for case in tool.CASES}
    for r in facts:
        w, case = FORMATS[r["format"]], cases[r["function"]]
        words = {p: value & w.mask for p, value in r["at"].items()}
        again = float(tool.error(case, w, words, tool.python(case, w)))
        assert again == pytest.approx(r["worst"], abs=2e-9), r


@pytest.mark.long
def test_a_quick_run_stays_within_bounds(tool: ModuleType, tmp_path: Path) -> None:
    """C by `cc`, with libquadmath: the same trees by another fold. Writes nothing."""
    assert tool.main(["--quick", str(tmp_path)]) == 0
    assert list(tmp_path.iterdir()) == []
