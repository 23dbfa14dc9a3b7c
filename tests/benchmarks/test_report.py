"""The page and the table: everything that was found is in them, and a miss is a miss."""

from __future__ import annotations

import copy
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from retrograd.benchmarks import page, reporting, run, toolchain
from retrograd.benchmarks.measure import Row
from retrograd.benchmarks.page import joules_text, seconds_text, table

import retrograd as rg


def with_times(workload: str, what: str, times: dict[str, float], quick: bool = False) -> dict[str, Any]:
    """A document with one problem, as far as bars look at it."""
    systems = [
        {"system": n, "ours": n in ("translated", "uncall"), "status": "timed", "minimum": t, "peak_bytes": 10 * t}
        for n, t in times.items()
    ]
    tasks = [{"what": what, "per_operation": times.get("translated"), "systems": systems}]
    workloads = [{"name": workload, "problems": [{"size": "", "tasks": tasks}], "curve": None}]
    return {"quick": quick, "toolchain": [], "workloads": workloads}


def bar(document: dict[str, Any], start: str) -> dict[str, Any]:
    return next(b for b in run.of(document) if b["name"].startswith(start))


@pytest.mark.parametrize(("ours", "verdict"), [(1.6e-7, "missed"), (1.4e-7, "met")])
def test_a_bar_beside_a_peer(ours: float, verdict: str) -> None:
    found = bar(with_times("ba", "jacobian", {"translated": ours, "enzyme": 1e-7}), "BA Jacobian")
    assert (found["verdict"], found["measured"]) == (verdict, pytest.approx(ours / 1e-7))


def test_a_bar_without_its_peer_is_open() -> None:
    found = bar(with_times("ba", "jacobian", {"translated": 1e-7}), "BA Jacobian")
    assert (found["verdict"], found["measured"]) == ("open", None)
    assert "enzyme" in found["reason"]
    assert bar(with_times("ba", "jacobian", {"enzyme": 1e-7}), "BA Jacobian")["reason"].startswith("ours")
    assert bar(with_times("ba", "value", {}), "BA Jacobian")["reason"] == "ba was not run"


def test_a_bar_of_a_quick_run_is_open() -> None:
    document = with_times("ba", "jacobian", {"translated": 1e-7, "enzyme": 1e-7}, quick=True)
    document["toolchain"] = [{"name": toolchain.BA, "value": 0.1}]
    assert {b["verdict"] for b in run.of(document) if b["unit"] != "×"} == {"open"}
    assert bar(document, "BA Jacobian")["verdict"] == "open"


def test_memory_is_held_against_the_scan() -> None:
    document = with_times("wave", "gradient", {"translated": 1.0, "jax": 11.0, "jax-checkpoint": 0.4})
    assert bar(document, "wave gradient, memory")["verdict"] == "met"
    assert bar(document, "wave gradient over")["measured"] == pytest.approx(2.5)


def test_memory_that_grows_misses_its_bar() -> None:
    document = with_times("wave", "gradient", {"translated": 4e-8})
    points = [{"extent": n, "tasks": {"gradient": {"words": w}}} for n, w in ((1, 5), (9, 5))]
    document["workloads"][0]["curve"] = {"axis": "", "points": points}
    assert bar(document, "words that more steps add")["verdict"] == "met"
    points[1]["tasks"]["gradient"]["words"] = 6  # type: ignore[index]
    assert bar(document, "words that more steps add")["verdict"] == "missed"


@pytest.mark.parametrize(("value", "verdict"), [(1.6, "missed"), (1.8, "met")])
def test_a_bar_that_is_to_be_reached(value: float, verdict: str) -> None:
    document = with_times("wave", "gradient", {})
    assert bar(document, toolchain.CORES)["verdict"] == "open"
    document["toolchain"] = [{"name": toolchain.CORES, "value": value}]
    assert bar(document, toolchain.CORES)["verdict"] == verdict


def test_the_worst_workload_counts() -> None:
    document = with_times("a", "value", {"translated": 1.0, "uncall": 1.05, "numba": 0.5})
    document["workloads"] += with_times("b", "value", {"translated": 2.0, "uncall": 2.4, "numba": 0.2})["workloads"]
    document["workloads"] += with_times("c", "jacobian", {"translated": 8.0})["workloads"]
    found = bar(document, "uncall")
    assert (found["measured"], found["reason"], found["verdict"]) == (1.2, "b", "missed")
    assert bar(document, "values over")["measured"] == 10
    each = "instructions for each operation of the irreversible program"
    assert [bar(document, f"{each}, {what}")["measured"] for what in ("value", "gradient")] == [2, 8]


def test_narrow_polynomials_are_judged_beside_wide_ones() -> None:
    name = "cubic polynomials, arrays to arrays, Q16.16 over Q32.32"
    document = with_times("polynomial", "value", {"translated": 1.0, "public": 4.0, "numba": 0.5})
    assert bar(document, name)["verdict"] == "open"
    document["workloads"] += with_times("polynomial-narrow", "value", {"translated": 9.0, "public": 2.0})["workloads"]
    assert (bar(document, name)["measured"], bar(document, name)["verdict"]) == (0.5, "met")
    assert bar(document, "cubic polynomials, arrays to arrays, over")["measured"] == 8
    assert bar(document, "values over")["measured"] is None


def test_the_bars_are_those_of_the_design() -> None:
    found = [(b["limit"], b["unit"]) for b in run.of(with_times("", "", {}))]
    ratios = [
        1.5,
        2,
        1,
        3,
        5,
        6,
        8,
        1.5,
        1,
        2,
        0.1,
        12,
        12,
        4,
        4,
        3,
        12,
        0.7,
        1.7,
        8,
        3,
        9,
        1.3,
        1.1,
        3,
        3,
        3,
        1.3,
        1.3,
    ]
    assert [limit for limit, unit in found if unit == "×"] == ratios
    assert [one for one in found if one[1] != "×"] == [
        (0, "words"),
        (0, "words"),
        (0.5, "s"),
        (3, "s"),
        (200_000, "lines/s"),
    ]


def test_the_first_calls_are_a_picture(document: dict[str, Any]) -> None:
    assert "series.svg" not in page.page(document)
    took = (4.0, 2.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5)
    rows = [vars(Row(name, 2.0, "×", 3.0, lower_is_better=True, series=took)) for name in toolchain.SERIES.values()]
    shown = {**document, "toolchain": [row | {"met": True} for row in rows]}
    assert "(benchmarks/series.svg)" in page.page(shown)
    drawn = page.PICTURES["series"](shown).axes
    assert [axes.get_title() for axes in drawn] == list(toolchain.SERIES)
    assert [list(axes.lines[0].get_ydata()) for axes in drawn] == [list(took)] * 3


def test_a_program_prints_and_gives_the_same() -> None:
    found = [
        rg.run(f, 0, 1, 5, engine=engine).values
        for f in (toolchain.silent, toolchain.printing_outside, toolchain.printing_inside)
        for engine in ("reference", "translated")
    ]
    assert all(values == found[0] for values in found)


def test_the_table_has_every_system(document: dict[str, Any]) -> None:
    text = table(document)
    for name in ("translated", "public", "uncall", "threaded", "reference", "right", "off", "broken"):
        assert re.search(rf"^\s*(value\s+)?{name}\s", text, re.MULTILINE), name
    assert "Every golden is met" in text


@pytest.mark.long
def test_the_page(tmp_path: Path, document: dict[str, Any]) -> None:
    written = page.write(document, tmp_path)
    assert {p.relative_to(tmp_path).as_posix() for p in written} == {
        "benchmarks.md", "benchmarks/figures.json",
        *(f"benchmarks/{name}.svg" for name in ("times", "ratios", "growth", "memory", "peaks", "series")),
    }  # fmt: skip
    text = (tmp_path / "benchmarks.md").read_text()
    for needed in (
        "a quadratic: three numbers",
        "f(3, 4)",
        "missing was absent: not installed",
        "wrong: off by",
        "numpy",
    ):
        assert needed in text, needed
    for path in re.findall(r"\]\((benchmarks/\S+)\)", text):
        assert (tmp_path / path).exists(), path
    for path in written:
        if path.suffix == ".svg":
            ET.parse(path)
    # Tables are tables: as many cells in every line.
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({re.sub(r"\\\|", "", line).count("|") for line in block.splitlines()}) == 1, block


@pytest.mark.long
def test_the_page_again_is_the_same(tmp_path: Path, document: dict[str, Any]) -> None:
    page.write(document, tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    page.write(reporting.read(tmp_path / "benchmarks" / "figures.json"), tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_what_is_wrong_stands_at_the_top(tmp_path: Path, document: dict[str, Any]) -> None:
    wrong = copy.deepcopy(document)
    wrong["wrong"] = ["quadratic: f(3, 4): 7.0, not 118"]
    assert (
        "**These results are wrong:**\n- quadratic: f(3, 4): 7.0, not 118" in page.page(wrong).partition("## Bars")[0]
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, ""), (2.0, "2 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 µs"), (9.996e-4, "1 ms"), (7e-9, "7 ns")],
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("joules", "complete", "text"), [(None, False, "not modelled"), (3.2e-9, False, "≥ 3.2 nJ"), (0.0, True, "0 J")]
)
def test_joules(joules: float | None, complete: bool, text: str) -> None:
    assert joules_text({"joules": joules, "complete": complete}) == text
