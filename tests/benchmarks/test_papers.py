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
    complex_log_problem,
    complex_product,
    failed,
    measure,
    norm_problem,
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


def test_errors_in_place_add_up() -> None:
    found = papers.cumulative(64)()
    # Of the size of those that are published, and greater where q is restored by additions.
    for name in ("error", "error in place"):
        published = papers._CUMULATIVE[64][name == "error in place"]
        assert published / 10 < found[f"{name}, float64 here"] < published * 10
    assert found["error in place, float64 here"] > 3 * found["error, float64 here"]
    assert found["error, Retrograd"] < 1e-10


@pytest.mark.parametrize(
    "made", [lambda: complex_product(12, 0.3), lambda: complex_log_problem(7)[0], lambda: norm_problem(3, 5)[0]]
)
def test_products_logarithms_and_norms(made: Callable[[], Problem]) -> None:
    problem = made()
    for task in problem.tasks:
        ours = task.ours()
        assert task.error(ours.read(ours.run("translated"))) < task.tolerance
        assert np.abs(task.reference).max() > 0


def test_mixtures_without_a_file_are_generated(tmp_path: Path) -> None:
    def size(problem: Problem, peers: Any) -> dict[str, float]:
        (x,) = {task.data.x.shape for task in problem.tasks}
        return {"points": x[0], "d": x[1], "K": len(problem.tasks[0].data.alphas)}

    rows = {r.label: r for r in papers._mixtures(tmp_path, size, False)}
    row = rows["10,000 points, d = 10, K = 50, generated"]
    assert row.measure is not None
    assert row.measure([]) == {"points": 10_000, "d": 10, "K": 50}
    assert rows["10,000 points, d = 2, K = 5"].absent == "the file is not among the data"


def test_the_way_back_and_the_columns_of_a_gpu() -> None:
    (sparse,) = (t for t in TABLES if t.name == "sparse")
    label = "trace(AᵀB), real"
    cells = {"value, Retrograd": 2e-3, "gradient, Retrograd": 5e-3}
    rows = {"sparse": {label: {"date": "2026-01-01", "machine": "m", "load": 3.0, "cells": cells}}}
    lines = papers.sections({"rows": rows}, [sparse]).split("\n")
    heads, row = (
        [cell.strip() for cell in line.split("|")] for line in lines if line.startswith(("| product", f"| {label}"))
    )
    found = dict(zip(heads, row, strict=True))
    assert found["way back, Retrograd"] == "3 ms"
    assert (found["way back, NiLang"], found["gradient, NiLang"]) == ("582 µs", "1.05 ms")
    assert f"- Measured on a machine with other work: {label}." in lines

    times = [
        {"system": system, "workload": "Bessel J₂, 10000 numbers", "instances": 10_000, "kernel_ms": ms}
        for system, ms in (("retrograd", 0.25), ("jax", 1.0))
    ]
    gpu = papers.gpu_cells({"times": times})
    assert gpu == {("bessel", "J₂(1), dirty product"): {"value, Retrograd, GPU": pytest.approx(25e-9)}}
    (bessel,) = (t for t in TABLES if t.name == "bessel")
    assert "| value, Retrograd, GPU |" in papers.sections({"rows": {}}, [bessel], gpu)
    # Each row of the kept figures has its place, so none is left out by a change of a name.
    kept = json.loads((Path("docs/benchmarks") / papers.GPU).read_text())
    assert sum(map(len, papers.gpu_cells(kept).values())) == len(papers._ON_GPU)
    labels = {(t.name, r.label) for t in TABLES for r in t.rows(None)}
    assert set(papers.gpu_cells(kept)) <= labels


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
    (tmp_path / "benchmarks" / papers.GPU).write_text((Path("docs/benchmarks") / papers.GPU).read_text())
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
