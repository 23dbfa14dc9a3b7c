"""Sweeps: programs, formats and arguments, each run once and priced by several models, at several temperatures and clocks.

    rows = rg.energy_sweep(f, [(0.0, x) for x in xs], techs=["cmos45", "aqfp"], formats=["Q32.32", "Q16.16"], store="sweep.db")

A run is sent to a worker as code and words, so any executor (`distribution/executors.py`) can run it, and workers need this package
only. With a store, a file of SQLite, each row is kept as soon as it is known, under the hash of everything that determines it:
code, format, words, model, temperature, clock. A row that is in the store is not computed again, in any sweep.

    sweep   schema
    rows    key, row as JSON, digest of both;  program, format, arguments, technology, temperature, frequency, for people

A row with a wrong digest is damaged, and is refused. A file with other contents or another schema is refused, and left
as it is.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.isa.diagnostics import CompileError, Diagnostic, InputError, RetrogradError, nearest
from retrograd.isa.files import replacing, replacing_text
from retrograd.isa.program import Program
from retrograd.isa.words import Format, format_of
from retrograd.presentation import Bar
from retrograd.runtime._binding import bind, types_of
from retrograd.runtime._distribution import WRONG, Distribution, StoreFile, distribute, tables_of
from retrograd.runtime._execution import ProgramTrap, argument_words, execute, load
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.simulator.energy.counts import Counts, Ledger, counts_of, host_traffic
from retrograd.simulator.energy.gates import Gates
from retrograd.simulator.energy.pricing import Figures, Price, PricingContext, Quantity, pricing_context
from retrograd.simulator.energy.technology import CAUSES, HOST_CAUSES, Technology, technology
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.machine import Stop, Trap
from retrograd.simulator.stores import limit_of
from retrograd.version import __version__

# ---------------------------------------------------------------------- the store

SCHEMA = "retrograd.energy-sweep/3"

Kept = dict[str, Any]


class Store(StoreFile):
    """Rows in a file of SQLite, or nowhere. Only this process writes the rows of its sweep, also where an executor runs the sweep."""

    code = "RG1111"
    contents = "sweep"

    def opened(self, file: sqlite3.Connection) -> str | None:
        """Make the tables of a new file; return the reason if an old file is no store."""
        with file:
            # Of two processes that begin at once, one makes the tables and the other finds them.
            file.execute("BEGIN IMMEDIATE")
            tables = tables_of(file)
            if not tables:
                file.execute("CREATE TABLE sweep (schema TEXT NOT NULL)")
                file.execute("INSERT INTO sweep VALUES (?)", (SCHEMA,))
                file.execute(
                    "CREATE TABLE rows (key TEXT PRIMARY KEY, program TEXT, format TEXT, arguments INTEGER, technology TEXT,"
                    " temperature REAL, frequency REAL, row TEXT NOT NULL, digest TEXT NOT NULL)"
                )
                return None
            if "sweep" not in tables:
                return f"keeps no sweep: its tables are {', '.join(sorted(tables))[:80]}"
            if "rows" not in tables:
                return "keeps a sweep of retrograd.energy-sweep/1, whose rows do not say for which programs and formats they are"
            schema = file.execute("SELECT schema FROM sweep").fetchone()
            if schema != (SCHEMA,):
                return f"keeps a sweep of the schema {str(schema and schema[0])[:60]}, and this is {SCHEMA}"
            return None

    def row(self, key: str) -> Kept | None:
        """The row under a key. Raises InputError RG1111 for a damaged row."""
        if not self:
            return None
        query = "SELECT row, digest FROM rows WHERE key = ?"
        try:
            found = self.patiently(lambda file: file.execute(query, (key,)).fetchone())
            if found is None:
                return None
            text, digest = found
            if digest != _digest(key, text):
                raise ValueError("it is not what was written")
            kept: Kept = json.loads(text)
        except WRONG as error:
            raise self.refusal(f"has a row that cannot be read, {key[:12]}…: {error}") from None
        return kept

    def keep(self, program: str, format: str, number: int, rows: Mapping[str, Kept]) -> None:
        """Write the rows of one run by key, all or none; the other columns describe the rows to readers of the file."""
        if not self:
            return
        records = []
        for key, row in rows.items():
            text = json.dumps(row)
            point = row["technology"], row["temperature"], row["frequency"]
            records.append((key, program, format, number, *point, text, _digest(key, text)))

        def write(file: sqlite3.Connection) -> None:
            with file:
                file.execute("BEGIN IMMEDIATE")
                file.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", records)

        try:
            self.patiently(write)
        except WRONG as error:
            raise self.refusal(f"cannot keep a row: {error}") from None


def _digest(key: str, text: str) -> str:
    """The digest of a row and its key, so that a row under another key is found to be damaged."""
    return hashlib.sha256(f"{key} {text}".encode()).hexdigest()


# ---------------------------------------------------------------------- sweeps

Function = Reversible | Inverse
#: the arguments of a run: by position, by name, or a function of the program that gives those by position and those by name
Given = Sequence[Any] | Mapping[str, Any] | Callable[[Reversible], tuple[Sequence[Any], dict[str, Any]]]
#: a number of the arguments, or of the program, has no word in the format
NO_WORD = ("RG0601", "RG0714")
Traps = Literal["raise", "return"]


class Row(NamedTuple):
    """One run at one point. Without a result `counts` or `price` is empty, and `why` is the reason."""

    #: the function's name, or its key in the mapping
    program: str
    #: such as Q32.32
    format: str
    #: the index of the arguments
    number: int
    technology: str
    version: str
    temperature: float
    frequency: float | None
    #: retired, cycles, erased_bits
    counts: dict[str, int]
    #: `Price.sums()`
    price: dict[str, Any]
    #: code and message: the run ended early, or the model has no figures for the point
    why: str | None = None


class SweepTrap(ProgramTrap):
    """The trap of a run of a sweep; `machine` is that run's. `rows` has the rows of all runs, the others included."""

    def __init__(self, trap: ProgramTrap, where: str, rows: list[Row]) -> None:
        d = trap.diagnostics[0]
        super().__init__(replace(d, message=f"{where}: {d.message}"), trap.machine, trap.trap)
        self.rows = rows


class _Run(NamedTuple):
    """A run of the sweep, and the key of its row in the store at each point."""

    program: str
    format: Format
    number: int
    #: None: the program or its arguments do not fit the format
    compiled: Compiled | None
    backward: bool
    values: list[Any]
    words: tuple[tuple[int, tuple[int, ...]], ...]
    points: tuple[_Place, ...]
    keys: tuple[str, ...]

    @property
    def priced(self) -> dict[str, PricingContext]:
        """key -> context, of the points that have a price."""
        return {key: p.context for key, p in zip(self.keys, self.points, strict=True) if p.outside is None}


class _Place(NamedTuple):
    """A point in a format."""

    context: PricingContext
    #: why there is no price: the model has no figures for it, or the run does not fit its format
    outside: RetrogradError | None


class _Job(NamedTuple):
    """A run as it is sent to a worker, and the contexts in which it is priced."""

    run: int
    code: tuple[int, ...]
    data: tuple[int, ...]
    memory: int
    format: Format
    backward: bool
    words: tuple[tuple[int, tuple[int, ...]], ...]
    points: tuple[PricingContext, ...]
    max_steps: int | None


def energy_sweep(
    f: Function | Sequence[Function] | Mapping[str, Function],
    arguments: Iterable[Given],
    *,
    formats: Sequence[Format | str | None] = (None,),
    techs: Sequence[str | Path | Technology] = ("landauer",),
    temperatures: Sequence[Quantity | None] = (None,),
    frequencies: Sequence[Quantity | None] = (None,),
    figures: Figures | None = None,
    gates: str | Path | Gates | None = None,
    precision: Precision | None = None,
    executor: Any = None,
    store: str | Path | None = None,
    progress: bool | None = None,
    max_steps: int | None = None,
    traps: Traps = "raise",
) -> list[Row]:
    """The rows of all runs at all points, in this order: programs, formats, arguments; models, temperatures, clocks.

    `f`: a function, several functions of different names, or a mapping name -> function. `arguments`: those of each run, by
    position or, as a mapping, by name; or a function of the program that gives both. `formats`: "Q16.16" or a Format; None in formats, temperatures and clocks is the
    function's or the model's own. `figures`: the figures that models leave open, each for the models that have it. `executor`: runs the
    programs, see `run_batch`; by default they run in sequence. `store`: a file of SQLite that keeps rows between sweeps. `progress`: True shows a bar,
    None only on a terminal after some time. `max_steps`: the limit of each run.
    A run that traps does not stop the others: the first trap is raised when all have ended. With `traps="return"` its rows have the
    reason, and so have rows of runs that do not fit their format and of points outside a model, unless all are such. The output of
    `rg.external` is not shown.
    Raises CompileError, InputError for arguments that do not fit, RG1108 and RG1112 for a point outside a model, RG1111 for a file
    that is no store; SweepTrap.
    """
    if traps not in ("raise", "return"):
        _refuse(f"traps = {traps!r:.40}", '"raise" or "return"')
    over = Distribution(executor)
    max_steps = limit_of(max_steps)
    runs = list(
        _runs(_named(f), arguments, formats, _points(techs, temperatures, frequencies, figures, gates), precision)
    )
    outside = [place.outside for run in runs for place in run.points]
    if any(outside) and (traps == "raise" or all(outside)):
        raise next(error for error in outside if error is not None)
    with closing(Store(store)) as kept:
        found = [{key: row for key in run.priced if (row := kept.row(key)) is not None} for run in runs]
        todo = [_job(i, run, found[i], max_steps) for i, run in enumerate(runs) if found[i].keys() < run.priced.keys()]
        failed = set()
        with (
            Bar(len(runs), progress, "sweeping", there=len(runs) - len(todo)) as bar,
            closing(distribute(_work, todo, over, bar=bar)) as ran,
        ):
            for i, rows in ran:
                index = todo[i].run
                run = runs[index]
                if rows is None:
                    failed.add(index)
                    continue
                missing = [key for key in run.priced if key not in found[index]]
                new = dict(zip(missing, rows, strict=True))
                kept.keep(run.program, str(run.format), run.number, new)
                found[index] |= new
    stopped = {i: _trap_of(runs[i], max_steps) for i in sorted(failed)}
    out = [row for i, run in enumerate(runs) for row in _rows_of(run, found[i], stopped.get(i))]
    if stopped and traps == "raise":
        first = min(stopped)
        raise SweepTrap(stopped[first], _where(runs[first]), out) from None
    return out


def _refuse(message: str, hint: str | None = None) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))


# ---------------------------------------------------------------------- the runs and points of a sweep


def _named(f: Function | Sequence[Function] | Mapping[str, Function]) -> dict[str, Function]:
    """The programs by name."""
    if isinstance(f, Mapping):
        named = [(str(name), one) for name, one in f.items()]
    else:
        several: Sequence[Any] = f if isinstance(f, Sequence) else [f]
        named = [(getattr(one, "__name__", ""), one) for one in several]
    out: dict[str, Function] = {}
    for name, one in named:
        if not isinstance(one, Reversible | Inverse):
            _refuse(f"`{name or repr(one)[:40]}` is no reversible function", "Use @reversible.")
        if name in out:
            _refuse(f"two programs of the sweep are called `{name}`", "give them names: {name: function, …}")
        out[name] = one
    return out


class _Point(NamedTuple):
    """A pricing context before the format is known."""

    model: Technology
    temperature: Quantity | None
    frequency: Quantity | None
    figures: Figures
    gates: Gates | str | Path | None

    def context(self, w: Format) -> PricingContext:
        how: dict[str, Any] = {"temperature": self.temperature, "frequency": self.frequency, "gates": self.gates}
        return pricing_context(self.model, w, figures=self.figures, **how)


def _points(
    techs: Sequence[str | Path | Technology],
    temperatures: Sequence[Quantity | None],
    frequencies: Sequence[Quantity | None],
    figures: Figures | None,
    gates: str | Path | Gates | None,
) -> list[_Point]:
    """All points, models first. Figures go to the models that have them."""
    for what, given in (("techs", techs), ("temperatures", temperatures), ("frequencies", frequencies)):
        if isinstance(given, str | Path | Technology) or not isinstance(given, Iterable):
            _refuse(f"{what} = {given!r:.40}", "a list of them")
    models = [t if isinstance(t, Technology) else technology(t) for t in techs]
    known = [{name for charge in model.charges for name in charge.figures} for model in models]
    for name in figures or {}:
        if not any(name in one for one in known):
            hint = nearest(name, set().union(*known)) or "`retrograd energy --models` shows what models leave open"
            raise InputError(Diagnostic("RG1109", f"no model of the sweep has a figure `{name:.40}`", hint=hint))
    return [
        _Point(model, t, f, {k: v for k, v in (figures or {}).items() if k in has}, gates)
        for model, has in zip(models, known, strict=True)
        for t in temperatures
        for f in frequencies
    ]


def _runs(
    programs: Mapping[str, Function],
    arguments: Iterable[Given],
    formats: Sequence[Format | str | None],
    points: Sequence[_Point],
    precision: Precision | None,
) -> Iterator[_Run]:
    """The runs, compiled, with their initial words. Raises the errors of all runs before any of them starts."""
    if isinstance(formats, str | Format) or not isinstance(formats, Iterable):
        _refuse(f"formats = {formats!r:.40}", "a list of them")
    runs = list(arguments)
    widths = [None if one is None else format_of(one) for one in formats]
    by_format: dict[Format, tuple[_Place, ...]] = {}
    hashes: dict[Any, str] = {}
    losses: dict[Format, tuple[Losses, Compiled]] = {}

    def hashed(what: Any, text: Callable[[Any], str]) -> str:
        """The hash of an object that many rows share, taken once; the runs keep `what` alive."""
        if id(what) not in hashes:
            hashes[id(what)] = hashlib.sha256(text(what).encode()).hexdigest()
        return hashes[id(what)]

    for name, f in programs.items():
        function, backward = (~f, True) if isinstance(f, Inverse) else (f, False)
        given = [_of_one_run(i, one, function) for i, one in enumerate(runs)]
        for wanted in widths:
            w = function.format_for(wanted)
            if w not in by_format:
                by_format[w] = tuple(_place(point.context(w), w) for point in points)
            for number, (args, keywords) in enumerate(given):
                head, compiled = (name, w, number), None
                words: tuple[tuple[int, tuple[int, ...]], ...] = ()
                try:
                    values = bind(function, args, keywords)
                    options = None if precision is None else replace(function.options, precision=precision)
                    compiled = function.compiled_for(types_of(function, values), wanted, options)
                    noted, _ = losses.setdefault(w, (Losses(), compiled))
                    words = ((0, tuple(argument_words(compiled, values, noted))),)
                except (CompileError, InputError) as error:
                    if error.code not in NO_WORD:
                        raise _numbered(error, number, len(given)) from None
                    places = tuple(_Place(place.context, place.outside or error) for place in by_format[w])
                    yield _Run(*head, None, backward, values, (), places, ("",) * len(places))
                    continue
                begins = json.dumps([hashed(compiled.program, _code), backward, words])
                run = hashlib.sha256(begins.encode()).hexdigest()
                keys = tuple(_key(run, hashed(place.context, _text)) for place in by_format[w])
                yield _Run(*head, compiled, backward, values, words, by_format[w], keys)
    for noted, compiled in losses.values():
        noted.report(compiled)


def _numbered(error: RetrogradError, number: int, count: int) -> RetrogradError:
    """The error with the index of the arguments, where there are several."""
    if count == 1 or not isinstance(error, InputError):
        return error
    d = error.diagnostics[0]
    return InputError(replace(d, message=f"arguments {number}: {d.message}"))


def _of_one_run(number: int, given: Any, function: Reversible) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(arguments by position, by name)"""
    if isinstance(given, Mapping):
        return (), dict(given)
    if callable(given):
        args, keywords = given(function)
        return tuple(args), keywords
    try:
        return tuple(given), {}
    except TypeError:
        hint = "one tuple, or one mapping by name, for each run: [(0.0, 3.0), …]"
        _refuse(f"arguments {number} of the sweep are {given!r:.40}", hint)


def _place(t: PricingContext, w: Format) -> _Place:
    """The point in a format. Empty counts are priced to find out whether the model has figures for it."""
    try:
        t.price(_nothing(w))
    except InputError as error:
        return _Place(t, error)
    return _Place(t, None)


def _nothing(w: Format) -> Counts:
    return Counts(Program((), format=w), {})


def _code(p: Program) -> str:
    """The parts of a program that determine a run."""
    return json.dumps([p.code, p.data, p.memory, p.format.width, p.format.frac])


def _text(t: PricingContext) -> str:
    """Everything that determines a price, except the counts."""
    gates = t.gates
    units = None if gates is None else {unit: dict(found) for unit, found in gates.units.items()}
    cells: Any = None if gates is None else [units, gates.levels, dict(gates.in_levels)]
    if gates is not None and gates.activity is not None:
        cells = [*cells, repr(gates.activity)]
    return json.dumps([t.technology.as_dict(), t.temperature, t.frequency, cells], sort_keys=True)


def _key(run: str, point: str) -> str:
    """The key of a row. It includes the version of Retrograd, since another version may count differently."""
    return hashlib.sha256(f"{SCHEMA} {__version__} {run} {point}".encode()).hexdigest()


# ---------------------------------------------------------------------- runs


def _job(index: int, run: _Run, found: Mapping[str, Kept], max_steps: int | None) -> _Job:
    """The job of a run: its points that are not in the store."""
    assert run.compiled is not None
    p = run.compiled.program
    points = tuple(point for key, point in run.priced.items() if key not in found)
    code, data = tuple(p.code), tuple(p.data)
    return _Job(index, code, data, p.memory, p.format, run.backward, run.words, points, max_steps)


def _work(job: _Job) -> list[Kept] | None:
    """One run, priced at all its points; None if it does not end."""
    program = Program(job.code, job.data, job.memory, job.format)
    machine = machine_for(program, backward=job.backward)
    for address, words in job.words:
        machine.load(address, words)
    ledger = (
        Ledger(machine, addresses=True, silent=True) if any(p.technology.by_addresses for p in job.points) else None
    )
    try:
        if machine.run(job.max_steps, observe=ledger).stop is not Stop.HALTED:
            return None
    except Trap:
        return None
    carried = sum(len(words) for _, words in job.words)
    counts = counts_of(machine, host_traffic(program, carried, carried))
    counts = counts if ledger is None else ledger.counted(counts)
    told = {"retired": counts.retired, "cycles": counts.cycles, "erased_bits": counts.erased_bits}
    out = []
    for point in job.points:
        p = point.price(counts)
        out.append({**_head(p), "counts": told, "price": p.sums()})
    return out


def _head(p: Price) -> Kept:
    model = p.technology
    return {"technology": model.id, "version": model.version, "temperature": p.temperature, "frequency": p.frequency}


def _head_of(t: PricingContext, w: Format) -> Kept:
    """The head of a point without a price; with the given temperature and clock, where the model has no figures for them."""
    model = t.technology
    with suppress(InputError):
        return _head(t.price(_nothing(w)))
    kelvins = model.temperature.si.nominal if t.temperature is None else t.temperature
    hertz = model.frequency.si.nominal if t.frequency is None and model.frequency is not None else t.frequency
    return {"technology": model.id, "version": model.version, "temperature": kelvins, "frequency": hertz}


def _trap_of(run: _Run, max_steps: int | None) -> ProgramTrap:
    """The trap of a run in the terms of the source; the run is repeated here for that."""
    assert run.compiled is not None
    machine = load(run.compiled, run.values, backward=run.backward)
    try:
        execute(run.compiled, machine, max_steps)
    except ProgramTrap as trap:
        return trap
    raise AssertionError("a run that trapped in a worker ends here")


def _where(run: _Run) -> str:
    return f"{run.program}, {run.format}, arguments {run.number}"


def _rows_of(run: _Run, found: Mapping[str, Kept], trap: ProgramTrap | None) -> Iterator[Row]:
    """A run's rows, at its points."""
    where = run.program, str(run.format), run.number
    for (t, outside), key in zip(run.points, run.keys, strict=True):
        error = outside or trap
        if error is None:
            yield Row(*where, **found[key])
        else:
            d = error.diagnostics[0]
            yield Row(*where, **_head_of(t, run.format), counts={}, price={}, why=f"{d.code}: {d.message}")


# ---------------------------------------------------------------------- tables for other programs

#: file names of tables
TABLES = (".csv", ".parquet")
_ENDS = (("low", "_low"), ("value", ""), ("high", "_high"))


def table_of(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The rows as columns, with units in their names. Energies that are not modelled are None, and `…_status` names
    the reason.

    >>> list(table_of([]))[:4]
    ['program', 'format', 'arguments', 'technology']
    """
    out = [_record(row) for row in rows]
    names = dict.fromkeys(name for record in out or [_record(_EMPTY)] for name in record)
    return {name: [record.get(name) for record in out] for name in names}


_EMPTY = Row("", "", 0, "", "", 0.0, None, {}, {})


def _record(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {
        "program": row.program, "format": row.format, "arguments": row.number, "technology": row.technology, "version": row.version,
        "temperature_K": row.temperature, "frequency_Hz": row.frequency,
        **{count: row.counts.get(count) for count in ("retired", "cycles", "erased_bits")},
    }  # fmt: skip
    causes = row.price.get("causes", {})
    for name in ("program", "total", *CAUSES, *HOST_CAUSES):
        energy = row.price.get(name) if name in ("program", "total") else causes.get(name)
        column = f"energy_{name.replace(' ', '_').replace('-', '_')}"
        known = energy if isinstance(energy, dict) else {}
        found |= {f"{column}{end}_J": known.get(key) for key, end in _ENDS}
        found[f"{column}_status"] = ("modelled" if known else energy) if row.why is None else None
    found |= {key: row.price.get(key) for key in ("program_complete", "complete")}
    return found | {"why": row.why}


def check_table(path: str | Path) -> None:
    """Raise InputError RG0512 for a name that ends in no table, RG0515 for Parquet without pyarrow: before any run."""
    if Path(path).suffix not in TABLES:
        hint = f"the name ends in {' or '.join(TABLES)}"
        raise InputError(Diagnostic("RG0512", f"{str(path)[-60:]}: no table", hint=hint))
    if Path(path).suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ModuleNotFoundError:
            hint = "pip install 'retrograd[sweep]', or a name that ends in .csv"
            raise InputError(Diagnostic("RG0515", f"{str(path)[-60:]} needs `pyarrow`", hint=hint)) from None


def export_rows(rows: Sequence[Row], path: str | Path) -> None:
    """Write the rows as a table: CSV, or Parquet with typed columns, by the ending of the name.

    Raises InputError RG0512 for another ending, RG0515 without pyarrow for Parquet.
    """
    check_table(path)
    table, path = table_of(rows), Path(path)
    if path.suffix == ".csv":
        with replacing_text(path) as text:
            writer = csv.writer(text, lineterminator="\n")
            writer.writerow(table)
            writer.writerows(zip(*table.values(), strict=True))
        return
    import pyarrow
    from pyarrow import parquet

    def kind(name: str) -> Any:
        if name in ("arguments", "retired", "cycles", "erased_bits"):
            return pyarrow.int64()
        if name.endswith("complete"):
            return pyarrow.bool_()
        return pyarrow.float64() if name.endswith(("_J", "_K", "_Hz")) else pyarrow.string()

    fields = [(name, kind(name)) for name in table]
    with replacing(path) as file:
        parquet.write_table(pyarrow.table(table, schema=pyarrow.schema(fields)), file)
