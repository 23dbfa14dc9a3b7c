"""Sweeps: the rows of single runs, in any executor, and not run again when they are there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import InputError, RetrogradError
from retrograd.simulator.energy.loading import technology

import retrograd as rg
from retrograd import energy_sweeps, fixed, library, reversible

POINTS: dict[str, Any] = {"techs": ["landauer", "cmos45"], "temperatures": [None, "300 K"]}
ARGUMENTS = [(0.0, [3.0, 4.0]), (0.0, [1.0, 2.0, 3.0]), (0.0, [5.0])]


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


def test_rows_are_those_of_single_runs() -> None:
    rows = rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)
    assert [(r.number, r.technology) for r in rows] == [
        (i, t) for i in range(3) for t in ("landauer", "landauer", "cmos45", "cmos45")
    ]
    for row in rows:
        report = rg.energy(library.norm, *ARGUMENTS[row.number], tech=row.technology)
        assert row.price["program"] == report.price.as_dict()["program"]
        assert row.counts["cycles"] == report.counts.cycles


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_in_an_executor(pool: Callable[[int], Executor]) -> None:
    expected = rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)
    with pool(2) as executor:
        assert rg.energy_sweep(library.norm, ARGUMENTS, executor=executor, **POINTS) == expected


@pytest.mark.slow
def test_in_a_cluster() -> None:
    """Of one process, by Dask: `pip install 'retrograd[sweep]'`."""
    distributed = pytest.importorskip("distributed")
    expected = rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)
    local = {"n_workers": 1, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        assert rg.energy_sweep(library.norm, ARGUMENTS, executor=client.get_executor(), **POINTS) == expected


def test_a_function_that_processes_do_not_find() -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(InputError, match="RG0603"):
        rg.energy_sweep(library.norm.with_options(level=0), ARGUMENTS, executor=executor)
    with ProcessPoolExecutor(1) as executor, pytest.raises(InputError, match="RG0603"):
        rg.energy_sweep(library.norm, ARGUMENTS, techs=[technology("landauer")], executor=executor)


def test_what_is_kept_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "sweep.db"
    ran: list[int] = []
    work = energy_sweeps._work
    monkeypatch.setattr(energy_sweeps, "_work", lambda job: (ran.append(job.number), work(job))[1])
    first = rg.energy_sweep(library.norm, ARGUMENTS[:2], store=store, **POINTS)
    assert ran == [0, 1]
    whole = rg.energy_sweep(library.norm, ARGUMENTS, store=store, **POINTS)
    assert ran == [0, 1, 2]
    assert whole[: len(first)] == first
    assert whole == rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)


def test_a_sweep_that_broke_off_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "sweep.db"
    with pytest.raises(RetrogradError):
        rg.energy_sweep(root, [(0.0, 4.0), (0.0, -1.0)], store=store)
    with closing(sqlite3.connect(store)) as kept:
        assert kept.execute("SELECT number FROM runs").fetchall() == [(0,)]
    assert len(rg.energy_sweep(root, [(0.0, 4.0), (0.0, 9.0)], store=store)) == 2


def test_other_arguments_at_a_place_are_run(tmp_path: Path) -> None:
    store = tmp_path / "sweep.db"
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    assert rg.energy_sweep(root, [(1.0, 4.0)], store=store) == rg.energy_sweep(root, [(1.0, 4.0)])


@pytest.mark.parametrize("other", [{"techs": ["cmos45"]}, {"temperatures": [4.2]}, {"figures": {"resistance": 1.0}}])
def test_a_store_of_another_sweep(tmp_path: Path, other: dict[str, Any]) -> None:
    store = tmp_path / "sweep.db"
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    with pytest.raises(InputError, match="RG1111"):
        rg.energy_sweep(root, [(0.0, 4.0)], store=store, **other)
    with pytest.raises(InputError, match="RG1111"):
        rg.energy_sweep(root.with_options(erase=True), [(0.0, 4.0)], store=store)


def test_clocks() -> None:
    figures = {"resistance": "10kohm", "capacitance": "1fF", "voltage": "1V", "power": "1fW"}
    rows = rg.energy_sweep(
        root, [(0.0, 4.0)], techs=["adiabatic_rc", "landauer"], frequencies=["1kHz", "1MHz"], figures=figures
    )
    assert [(r.technology, r.frequency) for r in rows] == [
        ("adiabatic_rc", 1e3), ("adiabatic_rc", 1e6), ("landauer", None), ("landauer", None),
    ]  # fmt: skip
