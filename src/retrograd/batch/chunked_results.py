"""Results of a batch in arrays on disk, written a task at a time: batches larger than memory.

    run_chunked(f, y, x, out="results").values.y[i] == run(f, y[i], x[i]).values.y,  bit for bit

    results/y.npy …                 an array for each argument, or y in an archive of Zarr, results.zarr
    retrograd.steps, .erased_bits   counts of each element
    retrograd.trap                  0, or the number of the code of its trap: 403 for RG0403
    y.words, y.format               words of numbers that a float64 would round, as in `values/lossless.py`

Memory holds the tasks in flight only. A run that is interrupted goes on with `store`.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from retrograd.batch.arguments import Axes, Batch, element_type, stacked_values
from retrograd.batch.batches import Traps, argument_ranges
from retrograd.batch.chunked import ChunkedArray
from retrograd.batch.distributed_runs import chunks, rows_of_task
from retrograd.batch.runs import BatchWords, ElementTrap
from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.compiler.language.types import ScalarType, StaticType
from retrograd.compiler.pipeline import Argument
from retrograd.distribution.executors import refuse
from retrograd.distribution.tasks import Distribution
from retrograd.functions.reversible import Inverse, Reversible, request_of
from retrograd.isa.files import read_file, write_file
from retrograd.isa.words import Format
from retrograd.simulator.engines.batch.layout import width
from retrograd.values.arrays import FORMAT, split_words

SCHEMA = "retrograd.chunks/1"
STEPS, ERASED, TRAP = "retrograd.steps", "retrograd.erased_bits", "retrograd.trap"
#: traps that are kept with their machines
_TRAPS = 8


@dataclass(kw_only=True)
class ChunkedResult:
    """Finished runs whose results lie on disk. It differs from `BatchResult` in that its arrays are read on request."""

    #: the written arguments after the runs, by name: mapped files, or arrays of Zarr
    values: dict[str, Any]
    steps: Any = field(repr=False)
    erased_bits: Any = field(repr=False)
    #: for each element 0, or the number of the code of its trap
    trap: Any = field(repr=False)
    #: the first traps, and how many elements trapped
    traps: dict[int, ElementTrap]
    trapped: int
    elements: int
    #: over all elements
    total_steps: int
    total_erased_bits: int
    engine: str
    compiled: Compiled = field(repr=False)


def run_chunked(
    function: Reversible | Inverse,
    *args: Any,
    out: str | Path,
    results: list[str] | tuple[str, ...] | None = None,
    in_axes: Axes = 0,
    engine: str = "auto",
    backward: bool = False,
    max_steps: int | None = None,
    format: Format | str | None = None,
    options: Options | None = None,
    precision: Precision | None = None,
    overflow: bool = True,
    checks: bool = True,
    traps: Traps = "raise",
    progress: bool | None = None,
    executor: Any = None,
    store: str | Path | None = None,
    chunk: int | None = None,
    **keywords: Any,
) -> ChunkedResult:
    """Run a reversible function on each element of a batch, and write its results into arrays on disk: see `run_batch`.

    `out`: a folder of `.npy` files, or an archive of Zarr (a name that ends in .zarr; needs `zarr`). `results`: the names of the
    arguments that are written; by default all. They are numbers and arrays of numbers. Batched arguments may be arrays of Dask or
    Zarr, or mapped files of NumPy. Raises as `run_batch`, and InputError RG1509 for an `out` that holds other data.
    """
    if traps not in ("raise", "return"):
        refuse("RG0603", f"traps = {traps!r:.40}", '"raise" or "return"')
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow, checks=checks,
    )  # fmt: skip
    over = Distribution(executor, store, chunk)
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled()
    written = _written(compiled, results)
    places = [(a.address, a.type.size) for a in written]
    numbers = {r: n for r, n in argument_ranges(compiled)[1].items() if r in places}
    loaded = batch.words(compiled)
    count = len(loaded)
    for name, column in batch.columns.items():
        if isinstance(column.items, ChunkedArray) and column.items.folder == Path(out).resolve():
            refuse("RG1509", f"`{name}` is read from {out}, which would be overwritten", "Write to another folder.")
    files = _Arrays(Path(out), count, rows_of_task(over, count, width(loaded.given) + width(places)))
    files.begin()
    found: dict[int, ElementTrap] = {}
    trapped, steps, erased = 0, 0, 0
    ran: Counter[str] = Counter()
    with closing(chunks(compiled, loaded, places, (), request, numbers=numbers, progress=progress, over=over)) as parts:
        for first, part in parts:
            _write(files, first, part, written, compiled.format)
            ran[part.engine] += len(part.steps)
            trapped += len(part.traps)
            steps, erased = steps + int(part.steps.sum()), erased + int(part.erased_bits.sum())
            found |= {first + i: trap.renumbered(first + i) for i, trap in part.traps.items()}
            found = {i: found[i] for i in sorted(found)[:_TRAPS]}
    values = {a.name: files.whole(a.name) for a in written}
    counts = {"steps": files.whole(STEPS), "erased_bits": files.whole(ERASED), "trap": files.whole(TRAP)}
    result = ChunkedResult(
        values=values, **counts, traps=found, trapped=trapped, elements=count, total_steps=steps,
        total_erased_bits=erased, engine=max(ran, key=ran.__getitem__, default="reference"), compiled=compiled,
    )  # fmt: skip
    if found and traps == "raise":
        error = found[min(found)]
        error.result = result
        raise error
    return result


def _written(compiled: Compiled, names: list[str] | tuple[str, ...] | None) -> list[Argument]:
    """The arguments whose values are written. Raises InputError."""
    known = {a.name: a for a in compiled.arguments if not isinstance(a.type, StaticType)}
    for name in names or ():
        if name not in known:
            refuse("RG0603", f"results: there is no argument `{name!s:.40}`", f"its arguments are {', '.join(known)}")
    out = [a for name, a in known.items() if names is None or name in names]
    for a in out:
        if not isinstance(element_type(a.type), ScalarType):
            refuse(
                "RG1509",
                f"`{a.name}` is {a.type}, which is not written in chunks",
                "Name the arguments that are numbers or arrays of numbers: results = (…)",
            )
    return out


def _write(files: _Arrays, first: int, part: BatchWords, written: list[Argument], w: Format) -> None:
    """The results of a task, in their places."""
    for a, result in zip(written, part.results, strict=True):
        for name, array in split_words({a.name: stacked_values(a.type, result, w)}).items():
            if name == a.name + FORMAT:
                files.text(name, str(array))
            else:
                files.put(name, first, array)
    codes = np.zeros(len(part.steps), dtype=np.int16)
    for i, trap in part.traps.items():
        codes[i] = int(trap.code[2:])
    files.put(STEPS, first, part.steps)
    files.put(ERASED, first, part.erased_bits)
    files.put(TRAP, first, codes)


class _Arrays:
    """Arrays by name, of `count` rows each: files of NumPy in a folder, or an archive of Zarr."""

    def __init__(self, path: Path, count: int, rows: int) -> None:
        self._path, self._count, self._rows = path, count, rows
        self._open: dict[str, Any] = {}
        self._group: Any = None

    def begin(self) -> None:
        """Make the folder, or take a folder that `run_chunked` made. Raises InputError RG0501, RG1509."""
        try:
            if self._path.exists() and not self._path.is_dir():
                refuse("RG1509", f"{self._path} is a file", "`out` is a folder")
            self._path.mkdir(exist_ok=True)
            empty = not os.listdir(self._path)
        except OSError as error:
            refuse("RG0501", f"{self._path}: {error.strerror}")
        if self._path.suffix == ".zarr":
            self._begin_archive(empty)
            return
        mark = self._path / "retrograd.txt"
        if empty:
            write_file(mark, SCHEMA)
        elif not mark.is_file() or read_file(mark, 64).decode("utf-8", "replace") != SCHEMA:
            refuse("RG1509", f"{self._path} holds other files")

    def _begin_archive(self, empty: bool) -> None:
        try:
            import zarr
        except ImportError:
            refuse("RG1509", f"{self._path} needs `zarr`", "pip install 'retrograd[sweep]', or a folder of .npy files")
        try:
            self._group = zarr.open_group(self._path, mode="w" if empty else "r+")
        except Exception as error:  # Zarr raises many kinds for damaged metadata
            refuse("RG1509", f"{self._path} is no archive of Zarr: {str(error).partition(chr(10))[0][:100]}")
        if empty:
            self._group.attrs["schema"] = SCHEMA
        elif self._group.attrs.get("schema") != SCHEMA:
            refuse("RG1509", f"{self._path} holds other arrays")

    def put(self, name: str, first: int, rows: Any) -> None:
        """Rows from `first` on; the array begins as zeros."""
        array = self._open.get(name)
        if array is None:
            array = self._open[name] = self._made(name, rows.dtype, rows.shape[1:])
        array[first : first + len(rows)] = rows

    def _made(self, name: str, dtype: Any, shape: tuple[int, ...]) -> Any:
        whole = (self._count, *shape)
        try:
            if self._group is None:
                return np.lib.format.open_memmap(self._path / f"{name}.npy", "w+", dtype, whole)
            # A chunk of the archive is a task, so that no chunk is written twice.
            chunk = (max(1, min(self._rows, self._count)), *(max(1, n) for n in shape))
            return self._group.create_array(name, shape=whole, chunks=chunk, dtype=dtype, overwrite=True)
        except OSError as error:
            refuse("RG0501", f"{self._path / name}: {error.strerror or error}")

    def text(self, name: str, text: str) -> None:
        """A text beside the arrays."""
        if self._group is not None:
            self._group.attrs[name] = text
        elif name not in self._open:
            write_file(self._path / f"{name}.txt", text)
        self._open[name] = text

    def whole(self, name: str) -> Any:
        """An array, to be read."""
        array = self._open.get(name)
        if array is None:
            return np.zeros(0)
        if isinstance(array, np.memmap):
            array.flush()
            return np.load(self._path / f"{name}.npy", mmap_mode="r")
        return array
