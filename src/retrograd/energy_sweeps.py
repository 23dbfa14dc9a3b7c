"""Sweeps: one function on many arguments, each run once and priced by several models, at several temperatures and clocks.

    rows = rg.energy_sweep(f, [(0.0, x) for x in xs], techs=["cmos45", "aqfp"], store="sweep.db")

Runs are handed to any `concurrent.futures.Executor`. With a store, a file of SQLite, each run's rows are kept as soon as they
are there, and a sweep that was broken off goes on where it was: what is in the store is not run again.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from retrograd.compiler.source import SourceFunction
from retrograd.energy_report import Figures, Quantity
from retrograd.energy_runs import energy
from retrograd.functions import Inverse, Reversible
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.energy.loading import technology
from retrograd.simulator.energy.technology import Technology

SCHEMA = "retrograd.energy-sweep/1"


class Row(NamedTuple):
    """One run at one point."""

    #: which of the arguments
    number: int
    technology: str
    version: str
    temperature: float
    frequency: float | None
    #: instructions, cycles, erased_bits
    counts: dict[str, int]
    #: `Price.as_dict()` without its items
    price: dict[str, Any]


class _Job(NamedTuple):
    """A run, and all at which it is priced; it travels to other processes."""

    function: Reversible | Inverse | tuple[str, str, bool]
    number: int
    args: tuple[Any, ...]
    techs: tuple[str | Path | Technology, ...]
    temperatures: tuple[Quantity | None, ...]
    frequencies: tuple[Quantity | None, ...]
    how: dict[str, Any]


def energy_sweep(
    f: Reversible | Inverse,
    arguments: Iterable[Sequence[Any]],
    *,
    techs: Sequence[str | Path | Technology] = ("landauer",),
    temperatures: Sequence[Quantity | None] = (None,),
    frequencies: Sequence[Quantity | None] = (None,),
    figures: Figures | None = None,
    gates: str | Path | None = None,
    executor: Executor | None = None,
    store: str | Path | None = None,
) -> list[Row]:
    """The rows of all arguments at all points, in that order: arguments, models, temperatures, clocks.

    `temperatures`, `frequencies`: None is the model's own. `executor`: runs go there, else one after the other; processes
    find the function by its module and name. `store`: where rows are kept.
    Raises InputError RG1111 for a store of another sweep, and what `rg.energy` raises: the rows of other runs are in the store.
    """
    given = [tuple(args) for args in arguments]
    models = tuple(t if isinstance(t, Technology) else technology(t) for t in techs)
    how = {"figures": dict(figures or {}), "gates": gates}
    passed: Any = f
    if executor is not None and not isinstance(executor, ThreadPoolExecutor):
        passed = _reference(f)
        # Models are read there: what they hold is not all made to travel.
        travelling: tuple[Any, ...] = tuple(techs)
        if any(isinstance(t, Technology) for t in travelling):
            raise InputError(
                Diagnostic(
                    "RG0603", "models travel to processes by name or path", hint="Pass names, or paths of files."
                )
            )
    else:
        travelling = models
    jobs = [
        _Job(passed, i, args, travelling, tuple(temperatures), tuple(frequencies), how) for i, args in enumerate(given)
    ]
    digest = _digest(f, models, temperatures, frequencies, how)
    with closing(_Store(store, digest)) as kept:
        found = {i: rows for i, args in enumerate(given) if (rows := kept.rows(i, args)) is not None}
        todo = [job for job in jobs if job.number not in found]
        for index, rows in _run(todo, executor):
            kept.keep(index, given[index], rows)
            found[index] = rows
    return [row for i in range(len(given)) for row in found[i]]


def _run(jobs: Sequence[_Job], executor: Executor | None) -> Iterator[tuple[int, list[Row]]]:
    if executor is None:
        for job in jobs:
            yield job.number, _work(job)
        return
    futures = {executor.submit(_work, job): job.number for job in jobs}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


def _work(job: _Job) -> list[Row]:
    """One run, at all points."""
    f = _found(job.function) if isinstance(job.function, tuple) else job.function
    report, rows = None, []
    for tech in job.techs:
        for temperature in job.temperatures:
            for frequency in job.frequencies:
                at = {"temperature": temperature, "frequency": frequency, **job.how}
                at["figures"] = _fitting(tech, at["figures"])
                report = (
                    energy(f, *job.args, tech=tech, baseline=False, **at)
                    if report is None
                    else report.priced_by(tech, **at)
                )
                p, c = report.price, report.counts
                counts = {"retired": c.retired, "cycles": c.cycles, "erased_bits": c.erased_bits}
                price = {key: value for key, value in p.as_dict().items() if key != "items"}
                rows.append(
                    Row(job.number, p.technology.id, p.technology.version, p.temperature, p.frequency, counts, price)
                )
    return rows


def _fitting(tech: str | Path | Technology, figures: dict[str, Any]) -> dict[str, Any]:
    """Of the figures those that this model has: others are for the other models."""
    model = tech if isinstance(tech, Technology) else technology(tech)
    known = {name for charge in model.charges for name in charge.figures}
    return {name: value for name, value in figures.items() if name in known}


# ---------------------------------------------------------------------- functions for processes


def _reference(f: Reversible | Inverse) -> tuple[str, str, bool]:
    """(module, name, whether the inverse is meant). Raises InputError where another process would not find it."""
    function = ~f if isinstance(f, Inverse) else f
    reference = function.fn.__module__, function.fn.__qualname__, isinstance(f, Inverse)
    try:
        same = _found(reference) is f
    except (ImportError, AttributeError):
        same = False
    if not same:
        message = f"`{f.__name__}` is not found by another process as {reference[0]}.{reference[1]}"
        hint = "Define it at the top of a module, without `with_options`; or use threads."
        raise InputError(Diagnostic("RG0603", message, hint=hint))
    return reference


def _found(reference: tuple[str, str, bool]) -> Any:
    module, name, inverse = reference
    value: Any = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return ~value if inverse else value


# ---------------------------------------------------------------------- the store


def _digest(
    f: Reversible | Inverse,
    models: Sequence[Technology],
    temperatures: Sequence[Quantity | None],
    frequencies: Sequence[Quantity | None],
    how: dict[str, Any],
) -> str:
    """What was swept, in a few signs: the function's source and its options, the models with all their figures, the points."""
    function: SourceFunction = ~f if isinstance(f, Inverse) else f
    source = "".join(function.source.lines)
    what = [
        SCHEMA, f.__name__, source, repr(getattr(function, "options", None)), repr(getattr(function, "format", None)),
        [m.as_dict() for m in models], list(temperatures), list(frequencies), {k: str(v) for k, v in how.items()},
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


class _Store:
    """Rows in a file of SQLite, or nowhere."""

    def __init__(self, path: str | Path | None, digest: str) -> None:
        self._file = None
        if path is None:
            return
        try:
            self._file = sqlite3.connect(path)
            with self._file:
                self._file.execute("CREATE TABLE IF NOT EXISTS sweep (digest TEXT NOT NULL)")
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS runs (number INTEGER, arguments TEXT, rows TEXT NOT NULL, PRIMARY KEY (number, arguments))"
                )
                known = self._file.execute("SELECT digest FROM sweep").fetchone()
                if known is None:
                    self._file.execute("INSERT INTO sweep VALUES (?)", (digest,))
        except sqlite3.Error as error:
            self.close()
            raise InputError(Diagnostic("RG1111", f"{path} keeps no sweep: {error}")) from None
        if known is not None and known[0] != digest:
            self.close()
            message = f"{path} keeps another sweep: the function, its models or the points have changed"
            raise InputError(Diagnostic("RG1111", message))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def rows(self, index: int, args: tuple[Any, ...]) -> list[Row] | None:
        """What is kept of a run."""
        if self._file is None:
            return None
        query = "SELECT rows FROM runs WHERE number = ? AND arguments = ?"
        found = self._file.execute(query, (index, _arguments(args))).fetchone()
        return None if found is None else [Row(*row) for row in json.loads(found[0])]

    def keep(self, index: int, args: tuple[Any, ...], rows: list[Row]) -> None:
        if self._file is not None:
            with self._file:
                text = json.dumps([list(row) for row in rows])
                self._file.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", (index, _arguments(args), text))


def _arguments(args: tuple[Any, ...]) -> str:
    """Arguments as they are told apart: arrays by what they hold."""
    shown = [[type(a).__name__, a.tolist() if hasattr(a, "tolist") else a] for a in args]
    return hashlib.sha256(json.dumps(shown, default=repr, sort_keys=True).encode()).hexdigest()
