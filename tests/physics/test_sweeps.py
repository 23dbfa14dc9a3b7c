"""Sweeps: the rows of single runs, in any executor, and not run again when they are there."""

from __future__ import annotations

import csv
import json
import sqlite3
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from retrograd.isa.diagnostics import CompileError, InputError
from retrograd.simulator.energy.technology import technology

import retrograd as rg
from retrograd import fixed, library, lognum, presentation, reversible
from retrograd.physics import sweeps as energy_sweeps
from retrograd.physics.sweeps import SweepTrap, export_rows, table_of

POINTS: dict[str, Any] = {"techs": ["landauer", "cmos45"], "temperatures": [None, "300 K"]}
ARGUMENTS = [(0.0, [3.0, 4.0]), (0.0, [1.0, 2.0, 3.0]), (0.0, [5.0])]


@reversible
def root(y: fixed, x: fixed) -> None:
    y += rg.sqrt(x)


@reversible
def countdown(y: int, n: int) -> None:
    y -= n
    for _ in range(y):
        n += 1


@reversible
def large(y: fixed, x: fixed) -> None:
    y += 40000.5 + x


@reversible
def by_fixed(y: fixed, x: fixed) -> None:
    y += 3 * x * x


@reversible
def by_lognum(y: fixed, x: fixed) -> None:
    p = lognum(3)
    p *= lognum(x)
    p *= lognum(x)
    y += fixed(p)
    p /= lognum(x)
    p /= lognum(x)
    p /= 3


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


@pytest.mark.long
def test_in_a_cluster() -> None:
    """Of two processes, by Dask: `pip install 'retrograd[sweep]'`."""
    distributed = pytest.importorskip("distributed")
    expected = rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)
    local = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster) as client:
        assert rg.energy_sweep(library.norm, ARGUMENTS, executor=client.get_executor(), **POINTS) == expected


def test_processes_need_not_find_the_function() -> None:
    """Nor the model: what travels is code, words and figures."""

    @reversible
    def local(y: fixed, x: fixed) -> None:
        y += x * x * x

    arguments = [(0.0, 2.0), {"x": 3.0, "y": 1.0}]
    wanted: dict[str, Any] = {"techs": [technology("cmos45")], "formats": ["Q16.16", None]}
    expected = rg.energy_sweep({"as it is": local, "erasing": local.with_options(erase=True)}, arguments, **wanted)
    with ProcessPoolExecutor(2) as executor:
        found = rg.energy_sweep(
            {"as it is": local, "erasing": local.with_options(erase=True)}, arguments, executor=executor, **wanted
        )
    assert found == expected
    assert [(r.program, r.format, r.number) for r in found] == [
        (p, f, i) for p in ("as it is", "erasing") for f in ("Q16.16", "Q32.32") for i in (0, 1)
    ]


# ---------------------------------------------------------------------- dimensions


def test_programs_and_formats() -> None:
    """Each row is what `rg.energy` says of that program in that format."""
    programs = [by_fixed, by_lognum, ~by_fixed]
    arguments = [(0.0, 3.0), (0.0, 1.5)]
    rows = rg.energy_sweep(programs, arguments, formats=[rg.Format(32, 16), "Q32.32"], techs=["cmos45"])
    assert [(r.program, r.format, r.number) for r in rows] == [
        (p.__name__, f, i) for p in programs for f in ("Q16.16", "Q32.32") for i in (0, 1)
    ]
    named = {p.__name__: p for p in programs}
    for row in rows:
        report = rg.energy(
            named[row.program],
            *arguments[row.number],
            tech="cmos45",
            format=rg.Format.named(row.format),
            baseline=False,
        )
        assert row.price == {k: v for k, v in report.price.as_dict().items() if k != "items"}
    # What differs is told apart: 16 and 32 bits after the point, multiplying and adding logarithms.
    assert len({json.dumps(r.price) for r in rows}) == 4


def test_two_programs_of_one_name() -> None:
    with pytest.raises(InputError, match="two programs of the sweep are called `root`"):
        rg.energy_sweep([root, root.with_options(erase=True)], [(0.0, 4.0)])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"f": print}, "`print` is no reversible function"),
        ({"arguments": [0.0, 4.0]}, "arguments 0 of the sweep are 0.0"),
        ({"arguments": [(0.0,)]}, "called without `x`"),
        ({"formats": ["Q7"]}, "RG0604"),
        ({"formats": "Q16.16"}, "a list of them"),
        ({"techs": "landauer"}, "a list of them"),
        ({"techs": ["landaur"]}, "RG1101"),
        ({"figures": {"resistanse": "1ohm"}, "techs": ["adiabatic_rc"]}, "`resistance`"),
        ({"temperatures": [4.2], "techs": ["landauer", "cmos45"]}, "RG1108"),
        ({"executor": 4.5}, "executor = 4.5"),
        ({"traps": "ignore"}, "traps = 'ignore'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    wrong: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy_sweeps, "_work", lambda job: pytest.fail("it ran"))
    with pytest.raises(InputError) as caught:
        rg.energy_sweep(**{"f": root, "arguments": [(0.0, 4.0)], **wrong})
    assert text in str(caught.value)


# ---------------------------------------------------------------------- traps


def test_a_trap_keeps_the_others_from_nothing() -> None:
    arguments = [(0.0, -1.0), (0.0, 4.0)]
    with pytest.raises(rg.ProgramTrap, match=r"root, Q32\.32, arguments 0: rg\.sqrt has no value at") as caught:
        rg.energy_sweep(root, arguments)
    assert isinstance(caught.value, SweepTrap)
    assert caught.value.trap is not None
    rows = rg.energy_sweep(root, arguments, traps="return")
    assert caught.value.rows == rows
    assert rows[1] == rg.energy_sweep(root, [(0.0, 1.0), (0.0, 4.0)])[1]
    assert rows[0].why is not None
    assert rows[0].why.startswith("RG0403")
    assert (rows[0].counts, rows[0].price, rows[0].temperature) == ({}, {}, 300.0)


def test_a_format_that_is_too_narrow_for_some() -> None:
    with ThreadPoolExecutor(2) as executor:
        rows = rg.energy_sweep(
            by_fixed, [(0.0, 3.0), (0.0, 300.0)], formats=["Q16.16", "Q32.32"], executor=executor, traps="return"
        )
    assert [r.why and r.why[:6] for r in rows] == [None, "RG0404", None, None]


def test_what_does_not_fit_a_format() -> None:
    """A number of the arguments, or a constant of the program: the other formats are run all the same."""
    formats = ["Q16.16", "Q32.32"]
    rows = rg.energy_sweep([root, large], [(0.0, 4.0), (0.0, 40000.0)], formats=formats, traps="return")
    assert [r.why and r.why[:6] for r in rows] == [None, "RG0601", None, None, "RG0714", "RG0714", None, None]
    assert rows[1].why == "RG0601: `x`: 40000.0 does not fit Q16.16"
    with pytest.raises(InputError, match="RG0601"):
        rg.energy_sweep(root, [(0.0, 4.0), (0.0, 40000.0)], formats=formats)
    with pytest.raises(CompileError, match="RG0714"):
        rg.energy_sweep(large, [(0.0, 4.0)], formats=["Q16.16"], traps="return")


def test_what_is_wrong_with_arguments_says_with_which() -> None:
    with pytest.raises(InputError, match="arguments 1: `root` is called without `x`"):
        rg.energy_sweep(root, [(0.0, 4.0), (0.0,)])


def test_runs_have_a_limit() -> None:
    rows = rg.energy_sweep(root, [(0.0, 4.0)], max_steps=2, traps="return")
    assert rows[0].why == "RG0420: stopped by the limit of 2 steps"


def test_points_outside_a_model() -> None:
    points: dict[str, Any] = {"techs": ["landauer", "aqfp"], "temperatures": ["4.2 K", "300 K"]}
    rows = rg.energy_sweep(root, [(0.0, 4.0)], traps="return", **points)
    assert [(r.technology, r.temperature, bool(r.price)) for r in rows] == [
        ("landauer", 4.2, True), ("landauer", 300.0, True), ("aqfp", 4.2, True), ("aqfp", 300.0, False),
    ]  # fmt: skip
    assert rows[3].why == "RG1108: `aqfp` has figures for a temperature of 4.2 K, not 300 K"
    with pytest.raises(InputError, match="RG1108"):
        rg.energy_sweep(root, [(0.0, 4.0)], **points)
    with pytest.raises(InputError, match="RG1108"):
        rg.energy_sweep(root, [(0.0, 4.0)], traps="return", techs=["aqfp"], temperatures=["300 K"])


# ---------------------------------------------------------------------- the store


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(which run, at how many points), as they are run."""
    out: list[tuple[int, int]] = []
    work = energy_sweeps._work
    monkeypatch.setattr(energy_sweeps, "_work", lambda job: (out.append((job.run, len(job.points))), work(job))[1])
    return out


def test_what_is_kept_is_not_run_again(tmp_path: Path, ran: list[tuple[int, int]]) -> None:
    store = tmp_path / "sweep.db"
    first = rg.energy_sweep(library.norm, ARGUMENTS[:2], store=store, **POINTS)
    assert ran == [(0, 4), (1, 4)]
    whole = rg.energy_sweep(library.norm, ARGUMENTS, store=store, **POINTS)
    assert ran == [(0, 4), (1, 4), (2, 4)]
    assert whole[: len(first)] == first
    assert whole == rg.energy_sweep(library.norm, ARGUMENTS, **POINTS)


def test_a_sweep_that_broke_off_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "sweep.db"
    whole: dict[str, Any] = {"formats": ["Q16.16", "Q32.32"], "techs": ["landauer", "cmos45"]}
    work, ended = energy_sweeps._work, list[int]()

    def broken(job: Any) -> Any:
        if len(ended) == 3:
            raise KeyboardInterrupt
        ended.append(job.run)
        return work(job)

    monkeypatch.setattr(energy_sweeps, "_work", broken)
    with pytest.raises(KeyboardInterrupt):
        rg.energy_sweep([by_fixed, by_lognum], [(0.0, 3.0)], store=store, **whole)
    with closing(sqlite3.connect(store)) as kept:
        assert kept.execute("SELECT program, format FROM rows ORDER BY rowid").fetchall() == [
            (p, f)
            for p, f in (("by_fixed", "Q16.16"), ("by_fixed", "Q32.32"), ("by_lognum", "Q16.16"))
            for _ in range(2)
        ]
    monkeypatch.undo()
    expected = rg.energy_sweep([by_fixed, by_lognum], [(0.0, 3.0)], **whole)
    ended.clear()

    def counted(job: Any) -> Any:
        ended.append(job.run)
        return work(job)

    monkeypatch.setattr(energy_sweeps, "_work", counted)
    assert rg.energy_sweep([by_fixed, by_lognum], [(0.0, 3.0)], store=store, **whole) == expected
    assert ended == [3]


@pytest.mark.parametrize(
    "other",
    [
        {"formats": ["Q16.16"]},
        {"f": by_fixed},
        {"f": ~root},
        {"arguments": [(1.0, 4.0)]},
        {"techs": ["cmos45"]},
        {"temperatures": ["4.2 K"]},
        {"techs": ["aqfp"], "frequencies": ["1 GHz"], "formats": ["Q16.16"]},
    ],
    ids="-".join,
)
def test_a_row_of_another_sweep_is_none_of_this_one(
    tmp_path: Path, ran: list[tuple[int, int]], other: dict[str, Any]
) -> None:
    """All that a row follows from is in its key: each dimension by itself makes it another."""
    store = tmp_path / "sweep.db"
    base: dict[str, Any] = {"f": root, "arguments": [(0.0, 4.0)]}
    first = rg.energy_sweep(**base, store=store)
    assert rg.energy_sweep(**{**base, **other}, store=store) == rg.energy_sweep(**{**base, **other})
    assert ran == [(0, 1)] * 3
    # The first is still there.
    assert rg.energy_sweep(**base, store=store) == first
    assert len(ran) == 3


def test_gate_counts_in_levels_are_in_the_key(tmp_path: Path) -> None:
    """Two files that differ in their levels only have prices of their own."""
    prices = []
    for levels in (4, 40):
        gates = tmp_path / "gates.json"
        gates.write_text(
            '{"schema": "retrograd.gates/1", "format": {"width": 64, "frac": 32}, "units": {"logic unit": {"AND": 9}}, '
            f'"in levels": {{"levels": {levels}, "cells": {{"AND": 9}}}}}}'
        )
        rows = rg.energy_sweep(root, [(0.0, 4.0)], techs=["aqfp"], gates=gates, store=tmp_path / "sweep.db")
        prices.append(rows[0].price["program"])
    assert prices[0] != prices[1]


def test_a_function_and_its_inverse_are_two(tmp_path: Path) -> None:
    """On the same words, in one sweep: what is counted differs."""
    store = tmp_path / "sweep.db"
    both = [countdown, ~countdown]
    rows = rg.energy_sweep(both, [(5, 3)], store=store)
    assert rows == rg.energy_sweep(both, [(5, 3)], store=store) == rg.energy_sweep(both, [(5, 3)])
    with closing(sqlite3.connect(store)) as kept:
        assert kept.execute("SELECT count(*) FROM rows").fetchone() == (2,)


def test_points_that_are_added_are_all_that_is_priced(tmp_path: Path, ran: list[tuple[int, int]]) -> None:
    store = tmp_path / "sweep.db"
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    rows = rg.energy_sweep(root, [(0.0, 4.0)], techs=["cmos45", "landauer", "cmos7"], store=store)
    assert ran == [(0, 1), (0, 2)]
    assert [r.technology for r in rows] == ["cmos45", "landauer", "cmos7"]


def test_a_function_that_another_calls_is_part_of_what_is_kept(tmp_path: Path, ran: list[tuple[int, int]]) -> None:
    """The text of `outer` is the same in both."""

    def outer_of(factor: int) -> Any:
        @reversible
        def inner(y: fixed, x: fixed) -> None:
            y += factor * x * x

        @reversible
        def outer(y: fixed, x: fixed) -> None:
            inner(y, x)

        return outer

    store = tmp_path / "sweep.db"
    for factor in (2, 3, 2):
        rg.energy_sweep(outer_of(factor), [(0.0, 3.0)], store=store)
    assert len(ran) == 2


def test_a_model_that_was_changed_is_another(tmp_path: Path, ran: list[tuple[int, int]]) -> None:
    """Even where it has the same id and version; and where all that differs is what a figure is for."""
    text = (Path(technology.__code__.co_filename).parent / "models" / "cmos45.toml").read_text(encoding="utf-8")
    model, store = tmp_path / "mine.toml", tmp_path / "sweep.db"
    for old, new in (
        ('"cmos45"', '"mine"'),
        ('capacity = "32 KiB"', 'capacity = "31 KiB"'),
        ("bits = 32", "bits = 31"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
        model.write_text(text, encoding="utf-8")
        rg.energy_sweep(root, [(0.0, 4.0)], techs=[model], store=store)
    assert len(ran) == 3


def test_no_other_version_is_read(tmp_path: Path, ran: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "sweep.db"
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    monkeypatch.setattr(energy_sweeps, "__version__", "another")
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    assert len(ran) == 2


def test_a_file_of_the_first_schema_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "sweep.db"
    with closing(sqlite3.connect(store)) as old, old:
        old.execute("CREATE TABLE sweep (digest TEXT NOT NULL)")
        old.execute(
            "CREATE TABLE runs (number INTEGER, arguments TEXT, rows TEXT NOT NULL, PRIMARY KEY (number, arguments))"
        )
    before = store.read_bytes()
    with pytest.raises(InputError, match=r"RG1111.*energy-sweep/1"):
        rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    assert store.read_bytes() == before


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "sweep.db"
    rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    with closing(sqlite3.connect(store)) as kept, kept:
        kept.execute("UPDATE sweep SET schema = 'retrograd.energy-sweep/4'")
    with pytest.raises(InputError, match=r"RG1111.*energy-sweep/4, and this is"):
        rg.energy_sweep(root, [(0.0, 4.0)], store=store)


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "photos.db"
    with closing(sqlite3.connect(store)) as other, other:
        other.execute("CREATE TABLE photos (name TEXT)")
    with pytest.raises(InputError, match=r"RG1111.*its tables are photos"):
        rg.energy_sweep(root, [(0.0, 4.0)], store=store)
    with closing(sqlite3.connect(store)) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("photos",)]


# ---------------------------------------------------------------------- progress


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """How many of how many, and how many of them were there; nothing where nobody looks."""
    store, arguments = tmp_path / "sweep.db", [(0.0, float(i)) for i in range(8)]
    monkeypatch.setattr(presentation, "PATIENCE", 0.0)
    rg.energy_sweep(root, arguments)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    rg.energy_sweep(root, arguments, progress=False)
    assert capsys.readouterr().err == ""
    rg.energy_sweep(root, arguments[:3], store=store, progress=True)
    shown = capsys.readouterr()
    assert "sweeping" in shown.err
    assert "3/3" in shown.err
    assert "resumed" not in shown.err
    rg.energy_sweep(root, arguments, store=store)
    shown = capsys.readouterr()
    assert "3 resumed" in shown.err
    assert "8/8" in shown.err
    assert shown.out == ""


def test_clocks() -> None:
    figures = {"resistance": "10kohm", "capacitance": "1fF", "voltage": "1V", "power": "1fW"}
    rows = rg.energy_sweep(
        root, [(0.0, 4.0)], techs=["adiabatic_rc", "landauer"], frequencies=["1kHz", "1MHz"], figures=figures
    )
    assert [(r.technology, r.frequency) for r in rows] == [
        ("adiabatic_rc", 1e3), ("adiabatic_rc", 1e6), ("landauer", None), ("landauer", None),
    ]  # fmt: skip


def test_tables(tmp_path: Path) -> None:
    """A table has the rows' energies with their ranges; a part without a figure is empty, and its status is not 0."""
    rows = rg.energy_sweep(
        root, [(0.0, 3.0)], techs=["cmos45", "adiabatic_rc", "aqfp"], temperatures=["300K"], traps="return"
    )
    table = table_of(rows)
    assert table["energy_memory_J"][0] == rows[0].price["causes"]["memory"]["value"]
    assert table["energy_memory_high_J"][0] == rows[0].price["causes"]["memory"]["high"]
    assert [table["energy_leakage_status"][k] for k in range(2)] == [
        "covered by the overhead of instructions",
        "not modelled",
    ]
    assert (table["energy_leakage_J"], table["retired"][2]) == ([None] * 3, None)
    assert str(table["why"][2]).startswith("RG1108")
    export_rows(rows, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    for name, column in table.items():
        assert [row[name] for row in read] == ["" if value is None else str(value) for value in column], name
    with pytest.raises(InputError, match="RG0512"):
        export_rows(rows, tmp_path / "t.xlsx")


def test_tables_in_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = rg.energy_sweep(root, [(0.0, 3.0)], techs=["cmos45", "adiabatic_rc"])
    for given in (rows, []):
        export_rows(given, tmp_path / "t.parquet")
        assert pyarrow.read_table(tmp_path / "t.parquet").to_pydict() == table_of(given)


def test_parquet_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="pyarrow"):
        export_rows([], tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())
