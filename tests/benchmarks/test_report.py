"""The page and the table: everything that was found is in them, and a miss is a miss."""

from __future__ import annotations

import copy
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from retrograd.benchmarks.reporting import bars, check, report
from retrograd.benchmarks.reporting.table import joules_text, seconds_text, table


def with_times(workload: str, what: str, times: dict[str, float], size: str = "") -> dict[str, Any]:
    """A document with one problem, as far as bars look at it."""
    systems = [{"system": n, "ours": n == "translated", "status": "timed", "minimum": t} for n, t in times.items()]
    tasks = [{"what": what, "systems": systems}]
    return {"workloads": [{"name": workload, "problems": [{"size": size, "tasks": tasks}], "curve": None}]}


def bar(document: dict[str, Any], start: str) -> dict[str, Any]:
    return next(b for b in bars.of(document) if b["name"].startswith(start))


@pytest.mark.parametrize(("ours", "verdict"), [(2e-7, "missed"), (0.9e-7, "met")])
def test_a_bar_beside_a_peer(ours: float, verdict: str) -> None:
    found = bar(with_times("ba", "jacobian", {"translated": ours, "enzyme": 1e-7}), "BA Jacobian")
    assert (found["verdict"], found["measured"]) == (verdict, pytest.approx(ours / 1e-7))


def test_a_bar_without_its_peer_is_open() -> None:
    found = bar(with_times("ba", "jacobian", {"translated": 1e-7}), "BA Jacobian")
    assert (found["verdict"], found["measured"]) == ("open", None)
    assert "enzyme" in found["reason"]


def test_a_bar_for_another_size_is_open() -> None:
    assert bar(with_times("sparse-dot", "gradient", {"translated": 1e-5}, "200 × 200"), "sparse")["verdict"] == "open"
    assert (
        bar(with_times("sparse-dot", "gradient", {"translated": 1e-3}, "1000 × 1000"), "sparse")["verdict"] == "missed"
    )


def test_a_bar_of_what_failed_is_open() -> None:
    document = with_times("gmm", "gradient", {}, "1000 points of 1k_d10_K25.txt")
    document["workloads"][0]["problems"][0]["tasks"] += with_times("gmm", "value", {"translated": 1.0})["workloads"][0][
        "problems"
    ][0]["tasks"]
    assert bar(document, "Gaussian")["reason"] == "gmm was not timed: see what is wrong"
    assert bar({"workloads": []}, "Gaussian")["reason"] == "gmm was not run"
    assert (
        bar(with_times("gmm", "gradient", {"translated": 1.0}, "5 points"), "Gaussian")["reason"]
        == "this run has 5 points"
    )


def test_memory_that_grows_misses_its_bar() -> None:
    document = with_times("bessel", "gradient", {"translated": 4e-8})
    points = [{"extent": n, "tasks": {"gradient": {"words": w}}} for n, w in ((1, 5), (9, 5))]
    document["workloads"][0]["curve"] = {"axis": "", "points": points}
    assert bar(document, "words that a longer loop adds, bessel")["verdict"] == "met"
    points[1]["tasks"]["gradient"]["words"] = 6  # type: ignore[index]
    assert bar(document, "words that a longer loop adds, bessel")["verdict"] == "missed"
    assert bar(document, "Bessel, gradient")["verdict"] == "met"


def test_the_worst_uncall_counts() -> None:
    document = with_times("a", "value", {"translated": 1.0, "uncall": 1.05})
    document["workloads"] += with_times("b", "value", {"translated": 1.0, "uncall": 1.2})["workloads"]
    found = bar(document, "uncall")
    assert (found["measured"], found["reason"], found["verdict"]) == (1.2, "b", "missed")


def test_the_table_has_every_system(document: dict[str, Any]) -> None:
    text = table(document)
    for name in ("translated", "public", "uncall", "threaded", "reference", "right", "off", "broken"):
        assert re.search(rf"^\s*(value\s+)?{name}\s", text, re.MULTILINE), name
    assert "Every golden is met" in text


def test_the_page(tmp_path: Path, document: dict[str, Any]) -> None:
    written = report.write(document, tmp_path)
    assert {p.relative_to(tmp_path).as_posix() for p in written} == {
        "benchmarks.md", "benchmarks/figures.json",
        *(f"benchmarks/{name}.svg" for name in ("times", "ratios", "growth", "memory")),
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


def test_the_page_again_is_the_same(tmp_path: Path, document: dict[str, Any]) -> None:
    report.write(document, tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    report.write(check.read(tmp_path / "benchmarks" / "figures.json"), tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_what_is_wrong_stands_at_the_top(tmp_path: Path, document: dict[str, Any]) -> None:
    wrong = copy.deepcopy(document)
    wrong["wrong"] = ["quadratic: f(3, 4): 7.0, not 118"]
    assert (
        "**These results are wrong:**\n- quadratic: f(3, 4): 7.0, not 118" in report.page(wrong).partition("## Bars")[0]
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (2.0, "2 s"), (0.0123, "12.3 ms"), (4.5e-6, "4.5 µs"), (7e-9, "7 ns")]
)
def test_seconds(seconds: float | None, text: str) -> None:
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(
    ("joules", "complete", "text"), [(None, False, "not modelled"), (3.2e-9, False, "≥ 3.2 nJ"), (0.0, True, "0 zJ")]
)
def test_joules(joules: float | None, complete: bool, text: str) -> None:
    assert joules_text({"joules": joules, "complete": complete}) == text
