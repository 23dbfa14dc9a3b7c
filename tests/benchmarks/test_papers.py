"""The papers' tables: rows are measured once and kept, wrong results are not timed, and the page has every cell or the reason."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from retrograd.benchmarks import papers
from retrograd.benchmarks.papers import (
    BYTES,
    NUMBER,
    SECONDS,
    TABLES,
    Row,
    Table,
    complex_product,
    failed,
    measure,
    read,
    timings,
)
from retrograd.benchmarks.workload import Problem, Task
from retrograd.isa.diagnostics import InputError

from retrograd.cli.main import main


def table(rows: Sequence[Row], unit: str = SECONDS) -> Table:
    return Table("t", "A table", "Some numbers.", "row", unit, lambda data: rows)


class Counted:
    """A row that counts its measurements, and fails as long as `error` is set."""

    def __init__(self) -> None:
        self.calls, self.error = 0, ""

    def __call__(self, peers: Any) -> dict[str, float]:
        self.calls += 1
        if self.error:
            raise ValueError(self.error)
        return {"value, Retrograd": 1.5e-6}


def quiet(line: str) -> None:
    pass


def test_a_later_run_goes_on(tmp_path: Path) -> None:
    first, second = Counted(), Counted()
    rows = [
        Row("first", {"value, A": 1e-3}, first),
        Row("second", {}, second),
        Row("third", {}, None, "there is no file"),
    ]
    store = tmp_path / "store.json"
    measure(store, [table(rows)], most=1, say=quiet)
    assert (first.calls, second.calls) == (1, 0)
    second.error = "out of luck"
    found = measure(store, [table(rows)], say=quiet)
    assert (first.calls, second.calls) == (1, 1)
    assert failed(found) == ["t, second: ValueError: out of luck"]
    second.error = ""
    found = measure(store, [table(rows)], say=quiet)
    assert (first.calls, second.calls) == (1, 2)
    assert failed(found) == []
    assert read(store) == found
    text = papers.sections(found, [table(rows)])
    assert "| first | 1.5 µs | 1 ms |" in text
    assert "| second | 1.5 µs | – |" in text
    assert "third: there is no file" in text


def test_an_interrupted_run_keeps_its_rows(tmp_path: Path) -> None:
    def stopped(peers: Any) -> dict[str, float]:
        raise KeyboardInterrupt

    first = Counted()
    store = tmp_path / "store.json"
    with pytest.raises(KeyboardInterrupt):
        measure(store, [table([Row("first", {}, first), Row("second", {}, stopped)])], say=quiet)
    assert [*read(store)["rows"]["t"]] == ["first"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "retrograd.bench/3"}', '{"schema": "retrograd.papers/1"}', "\0"]
)
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "store.json").write_text(text)
    with pytest.raises(InputError, match="RG1203"):
        read(tmp_path / "store.json")


def least_steps() -> Callable[[int, int], int]:
    @functools.cache
    def best(length: int, checkpoints: int) -> int:
        """The least executions of steps to go back over a chain, with that many states besides the first and the running one."""
        if length == 1:
            return 0
        if checkpoints == 0:
            return length * (length - 1) // 2
        return min(k + best(length - k, checkpoints - 1) + best(k, checkpoints) for k in range(1, length))

    return best


def test_steps_of_checkpointing_are_the_least() -> None:
    best = least_steps()
    for length in range(1, 30):
        for states in range(2, 9):
            assert papers.checkpointed_steps(length, states) == best(length, states - 2), (length, states)


def test_bennett_beside_checkpoints() -> None:
    found = papers.bennett_beside_checkpoints(2, 3)()
    assert found == {
        "steps of the chain": 8,
        "states": 5,
        "calls, Bennett": 27,
        "steps, checkpoints": least_steps()(8, 3),
    }


def test_the_planets_come_back() -> None:
    found = papers.out_and_back(20)()
    assert found["words that differ"] == 0
    assert found["difference from float64"] < 1e-8


def test_the_fourier_transform() -> None:
    found = papers.fourier(16, 3)()
    assert found["error"] < 1e-8
    assert found["value, Retrograd"] > 0


def test_the_complex_product() -> None:
    problem = complex_product(12, 0.3)
    for task in problem.tasks:
        ours = task.ours()
        assert task.error(ours.read(ours.run("translated"))) < task.tolerance
        assert np.abs(task.reference).max() > 0


def test_a_wrong_result_is_not_timed() -> None:
    good = complex_product(12, 0.3)
    wrong = [Task(t.what, t.data, t.reference + 1.0, t.tolerance, t.ours, t.absolute) for t in good.tasks]
    with pytest.raises(AssertionError, match="value: the error is"):
        timings(Problem(good.size, 1, tuple(wrong)), ())


def test_the_tables_and_what_is_published() -> None:
    assert len({t.name for t in TABLES}) == len(TABLES)
    for t in TABLES:
        rows = t.rows(None)
        assert len({r.label for r in rows}) == len(rows) > 0
        assert t.unit in (SECONDS, BYTES, NUMBER)
        for r in rows:
            assert (r.measure is None) == bool(r.absent)
            assert all(value > 0 for value in r.published.values())
    assert papers.published_mixture(10, 25) == {"value, Tapenade": 1.793673e-02, "gradient, Tapenade": 7.389439e-02}
    assert papers.published_bundle(papers.BUNDLES[-1])["Jacobian, NiLang, GPU"] == pytest.approx(21.8e-3, rel=1e-3)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--papers", "grap", "--store", "s.json"], "did you mean `graph`"),
        (["--papers"], "--papers keeps what it measures"),
        (["--gpu", "--store", "s.db"], "--store does not go with --gpu"),
        (["--papers", "--workers", "2", "--store", "s.json"], "--workers does not go with --papers"),
        (["--workers", "0", "gmm"], "`0` is no number of processes"),
        (["--papers", "--quick", "--store", "s.json"], "--quick does not go with --papers"),
    ],
)
def test_wrong_options(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *words]) == 2
    assert text in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store.json"
    store.write_text(json.dumps({"schema": "retrograd.papers/1", "rows": {"fft": {
        f"{n} numbers": {"date": "2026-01-01", "machine": "m", "cells": {"value, Retrograd": 1e-6}} for n in (16, 64, 256)
    }}}))  # fmt: skip
    assert main(["bench", "--papers", "fft", "--store", str(store)]) == 0
    assert "| 256 numbers | 1 µs |" in capsys.readouterr().out


@pytest.mark.long
def test_the_page_and_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "benchmarks").mkdir()
    shipped = read(Path("docs") / papers.STORE)
    (tmp_path / papers.STORE).write_text(json.dumps(shipped))
    assert main(["bench", "--papers", "round-off", "--report", str(tmp_path)]) == 0
    text = (tmp_path / papers.PAPERS).read_text()
    assert f"]({papers.PICTURE})" in text
    assert (tmp_path / papers.PICTURE).read_text().count("<path") > 10
    # The page of the repository is that of its store.
    assert text == (Path("docs") / papers.PAPERS).read_text()


#: ADBench's files
DATA = Path("../shared/data/adbench")


@pytest.mark.long
@pytest.mark.parametrize("t", TABLES, ids=lambda t: t.name)
def test_a_row_of_each_table(t: Table) -> None:
    rows = [row for row in t.rows(DATA if DATA.is_dir() else None) if row.measure is not None]
    if not rows:
        pytest.skip(f"the table `{t.name}` needs ADBench's files in {DATA}")
    measure = rows[0].measure
    assert measure is not None
    found = measure([])
    assert found
    assert all(np.isfinite(value) and value >= 0 for value in found.values())
