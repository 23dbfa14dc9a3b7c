"""The harness: what is right is timed, what is wrong is told, and nothing that a workload or a peer does ends the run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import run as harness
from retrograd.benchmarks.ours import Ours
from retrograd.benchmarks.page import table
from retrograd.benchmarks.peers import Peer
from retrograd.benchmarks.reporting import compare
from retrograd.benchmarks.workload import Sizes, Stream, Workload
from retrograd.benchmarks.workloads import adbench
from retrograd.isa.diagnostics import Diagnostic, RetrogradError

QUICK = Sizes(quick=True)


def systems(document: dict[str, Any], what: str) -> dict[str, dict[str, Any]]:
    tasks = {task["what"]: task for task in document["workloads"][0]["problems"][0]["tasks"]}
    return {s["system"]: s for s in tasks[what]["systems"]}


def test_a_document(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document)) == document
    assert document["schema"] == "retrograd.bench/3"
    assert document["wrong"] == []
    (w,) = document["workloads"]
    assert [g["met"] for g in w["goldens"]] == [True]
    assert w["counts"]["uncomputing_level"] >= 0
    assert w["counts"]["energy"]["landauer"] == {"joules": 0, "complete": True}
    assert sum(w["counts"]["mix"].values()) == w["counts"]["instructions"]
    task = w["problems"][0]["tasks"][0]
    assert task["instructions"] == w["counts"]["instructions"]
    assert task["extra_words"] == task["words"] - 3
    assert [p["extent"] for p in w["curve"]["points"]] == [1, 2]


def test_ours_is_timed_on_every_engine(document: dict[str, Any]) -> None:
    found = systems(document, "value")
    for name in ("translated", "public", "uncall", "threaded", "reference"):
        assert found[name]["status"] == "timed", found[name]
        assert 0 < found[name]["minimum"] <= found[name]["median"] < 1
    assert found["translated"]["error"] < 1e-8


def test_a_peer_that_is_right_is_timed(document: dict[str, Any]) -> None:
    found = systems(document, "value")["right"]
    assert (found["status"], found["note"], found["ours"]) == ("timed", "by NumPy", False)
    assert found["minimum"] > 0
    assert found["error"] < 1e-14


def test_a_peer_that_is_wrong_is_told_and_not_timed(document: dict[str, Any]) -> None:
    for what in ("value", "gradient"):
        found = systems(document, what)["off"]
        assert found["status"] == "wrong"
        assert found["minimum"] is None
        assert "not timed" in found["reason"]
    assert systems(document, "value")["off"]["error"] == pytest.approx(1e-8, rel=0.1)
    # A wrong peer is no fault of ours.
    assert document["wrong"] == []
    assert "WRONG: off by" in table(document)


def test_a_peer_that_raises_is_told(document: dict[str, Any]) -> None:
    assert systems(document, "value")["broken"]["status"] == "failed"
    assert "ZeroDivisionError" in systems(document, "value")["broken"]["reason"]
    assert systems(document, "gradient")["broken"]["status"] == "not written"
    assert "Not written with broken: quadratic gradient." in table(document)


def test_a_peer_that_is_absent_is_named(document: dict[str, Any]) -> None:
    assert "not installed" in document["peers"]["missing"]["absent"]
    assert document["peers"]["missing"]["version"] is None
    assert "missing" not in systems(document, "value")
    assert "Absent: missing (not installed" in table(document)


def test_a_golden_that_is_missed(workloads: Callable[..., Workload]) -> None:
    found = harness.run([workloads(golden=118.5)], (), QUICK)
    assert found["wrong"] == ["quadratic: f(3, 4): 118.0, not 118.5 within 0.0e+00"]
    assert "WRONG" in table(found)


def test_a_wrong_result_of_ours_is_not_timed(workloads: Callable[..., Workload]) -> None:
    found = harness.run([workloads(exact=1e-6)], (), QUICK)
    ours = systems(found, "value")["translated"]
    assert (ours["status"], ours["minimum"]) == ("wrong", None)
    assert len(found["wrong"]) == 1
    assert "the error is 1.0e-06, and may be 1.0e-08" in found["wrong"][0]


def test_an_engine_that_differs_in_a_bit(workloads: Callable[..., Workload], monkeypatch: pytest.MonkeyPatch) -> None:
    run = Ours.run

    def differing(self: Ours, engine: str, elements: int | None = None, **how: Any) -> Any:
        rows = run(self, engine, elements, **how)
        if engine == "threaded":
            rows.after = rows.after ^ np.uint64(1)
        return rows

    monkeypatch.setattr(Ours, "run", differing)
    found = harness.run([workloads()], (), QUICK)
    assert systems(found, "value")["threaded"]["status"] == "wrong"
    assert [line.partition(": ")[2] for line in found["wrong"]] == [
        f"{what}, threaded: its after differ from those of the translation" for what in ("value", "gradient")
    ]


def test_an_engine_that_fails_leaves_the_others(
    workloads: Callable[..., Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Ours.run

    def failing(self: Ours, engine: str, elements: int | None = None, **how: Any) -> Any:
        if engine == "translated":
            raise RetrogradError(Diagnostic("RG0421", "too large"))
        return run(self, engine, elements, **how)

    monkeypatch.setattr(Ours, "run", failing)
    found = harness.run([workloads()], (), QUICK)
    assert systems(found, "value")["translated"]["status"] == "failed"
    assert systems(found, "value")["threaded"]["status"] == "timed"
    assert any("too large" in line for line in found["wrong"])


def test_a_workload_that_raises_ends_nothing(workloads: Callable[..., Workload]) -> None:
    def raising(sizes: Sizes) -> Any:
        raise ValueError("no such file")

    bad = Workload("bad", "a bad one", lambda: [], workloads().counted, raising)
    found = harness.run([bad, workloads()], (), QUICK)
    assert found["wrong"] == ["bad: problems: ValueError: no such file"]
    assert found["workloads"][1]["problems"]


def test_what_does_not_fit_into_memory_is_run_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ba").mkdir()
    (tmp_path / "ba" / "ba0.txt").write_bytes((adbench.bundle_example.DATA / "test.txt").read_bytes())
    monkeypatch.setattr(adbench, "PIECE", 4)
    (stream,) = adbench.BUNDLE.streams(Sizes(quick=False, data=tmp_path, full=True))
    assert adbench.BUNDLE.streams(QUICK) == []
    said: list[str] = []
    found = harness._stream(stream, "BA", lambda line, another: said.append(line))
    assert (found["name"], found["evaluations"], found["pieces"]) == ("ba0.txt", 10, 3)
    assert said == [f"BA: ba0.txt, {n} of 10" for n in (0, 4, 8)]
    assert set(found["seconds"]) == set(found["errors"]) == {"value", "jacobian"}
    assert max(found["errors"].values()) < 1e-5
    document = harness.run([], (), QUICK)
    document["workloads"] = [
        {"title": "BA", "name": "ba", "streams": [found], "problems": [], "goldens": [], "counts": None}
    ]
    assert re.search(r"BA +ba0.txt, 3 pieces +jacobian +10 ", table(document))


def test_a_piece_that_is_wrong_ends_the_stream(workloads: Callable[..., Workload]) -> None:
    wrong = list(workloads(exact=1e-6).problems(QUICK))
    with pytest.raises(AssertionError, match="value: the error is"):
        harness._stream(Stream("three", 3, lambda: iter(wrong)), "", lambda line, another: None)


def test_parts_of_the_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.benchmarks import toolchain
    from retrograd.benchmarks.measure import Row

    monkeypatch.setitem(toolchain.PARTS, "test", lambda quick: [Row("a thing", 3.0, "s", 2.0, lower_is_better=True)])
    found = harness.run([], (), QUICK, parts=["test"])
    assert found["toolchain"][0]["met"] is False
    assert found["wrong"] == []  # a missed bar is missed, and nothing is wrong
    assert "MISSED" in table(found)


@pytest.mark.long
def test_two_runs_have_the_same_counts(
    document: dict[str, Any], peers: Callable[..., list[Peer]], workloads: Callable[..., Workload]
) -> None:
    again = harness.run([workloads()], peers("right"), QUICK)
    found = compare(document, again)
    assert [w for w in found.worse if "over" not in w.what] == []
    assert found.compared >= 6


def test_a_part_that_raises_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from retrograd.benchmarks import toolchain

    def raising(quick: bool) -> Any:
        raise AssertionError("dot loop: threaded and reference differ")

    monkeypatch.setitem(toolchain.PARTS, "test", raising)
    found = harness.run([], (), QUICK, parts=["test"])
    assert found["wrong"] == ["test: AssertionError: dot loop: threaded and reference differ"]
