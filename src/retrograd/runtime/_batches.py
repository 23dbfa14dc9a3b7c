"""One function on many inputs: compiled once, and run for each element of a batch.

    run_batch(f, xs).values.y[i] == run(f, xs[i]).values.y,  bit for bit

The words of a batch are a matrix, one row for each element, in the order of the arguments; `run_rows` runs it on any engine,
and `run_distributed` on the workers of an executor.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retrograd.compiler.compiled import Compiled, Options, Precision
from retrograd.compiler.language.types import FIXED, ScalarType, StaticType, is_struct
from retrograd.compiler.pipeline import Argument
from retrograd.isa.diagnostics import InputError, api_boundary
from retrograd.isa.files import read_file, write_file
from retrograd.isa.microarchitecture.micro_operations import core_units
from retrograd.isa.words import Format
from retrograd.presentation import Bar
from retrograd.runtime._arrays import FORMAT, as_array, split_words
from retrograd.runtime._batch_arguments import (
    Axes,
    Batch,
    ChunkedArray,
    Loaded,
    columns_of,
    element_type,
    refuse,
    stacked_values,
)
from retrograd.runtime._batch_runs import (
    BatchWords,
    ElementTrap,
    Numbers,
    Words,
    add_words,
    chunks,
    rows_of_task,
    run_distributed,
)
from retrograd.runtime._binding import bind, with_further
from retrograd.runtime._compilation import need_name
from retrograd.runtime._distribution import Distribution, distribute
from retrograd.runtime._distribution import refuse as refuse_task
from retrograd.runtime._execution import ProgramTrap, Request
from retrograd.runtime._reversible import Derived, Inverse, Made, NotDifferentiable, Reversible, request_of
from retrograd.simulator.engines.batch.layout import Range, ResultArray, width

Traps = Literal["raise", "return"]
#: whether the gradients by an argument that all elements share are returned for each element, or added up
Shared = Literal["each", "sum"]


@dataclass(kw_only=True)
class BatchResult(BatchWords):
    """Finished runs. It differs from `Result` in that counts are arrays, traps belong to elements, and no single machine exists."""

    #: all arguments after the runs, stacked along axis 0, by position and by name
    values: Any
    compiled: Compiled = field(repr=False)
    #: the words of arguments that are the same in all elements before and after the runs, by address
    constant: dict[int, Words] = field(default_factory=dict, repr=False)

    @cached_property
    def matrix(self) -> Words:
        """The words of all arguments after the runs, one row for each element: exact, where a float64 has only 53 bits."""
        if not self.constant:
            return self.after
        out = np.empty((len(self.after), self.compiled.argument_words), dtype=np.uint64)
        column = 0
        for a in self.compiled.arguments:
            here, own = slice(a.address, a.address + a.type.size), self.constant.get(a.address)
            if own is None or not a.type.size:
                own = self.after[:, column : column + a.type.size]
                column += a.type.size
            out[:, here] = own
        return out

    @property
    def words(self) -> dict[str, Words]:
        """The words of each argument, one row for each element."""
        return {a.name: self.matrix[:, a.address : a.address + a.type.size] for a in self.compiled.arguments}


def run_batch(
    function: Reversible | Inverse,
    *args: Any,
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
    cycles: bool = False,
    core: str = "small",
    progress: bool | None = None,
    executor: Any = None,
    store: str | Path | None = None,
    chunk: int | None = None,
    **keywords: Any,
) -> BatchResult:
    """Run a reversible function on each element of a batch: element i of every argument, along the axis `in_axes`.

    `in_axes`: one axis for all arguments, or one for each, by position or by name (0 for an argument that is not named); None
    gives every element the same initial value. Static arguments, functions and defaults are the same for all. All arguments
    come back stacked along axis 0, since every element may change them: arrays of numbers, arrays of structs, lists for stacks.
    An array of numbers that all elements are given, and that the function does not change, is a view that cannot be
    written to; so are counts that are the same for all elements of each batch.

    `engine`, `format`, `options`, `precision`, `overflow`: see `run`; `native` takes all cores, `cuda` a GPU. `max_steps`: for each element.
    `checks=False` leaves out every check except that of memory: an element that would trap continues with wrapped words.
    `cycles=True` counts the cycles of each element on the co-processor with this core, "small" or "fast". `progress`: whether a bar is shown; None shows one on a terminal after a second.

    `executor`: workers that run the elements: a number of processes, an executor of `concurrent.futures`, a client of Dask, or the
    address of its scheduler ("tcp://HOST:PORT"). A task has `chunk` elements; a task whose worker is lost runs again. `store`: a
    file of SQLite that keeps the results of tasks, so that a call that was interrupted goes on. None of the three changes a bit.
    Arguments may be arrays of Dask or Zarr, or mapped files of NumPy: they are read a task at a time.

    All elements run, whether or not others trap. Then the first trap is raised, with the BatchResult in its `result`; with
    `traps="return"` all traps are in the result. `rg.energy(rg.vmap(f), …)` prices a batch.
    Raises CompileError, InputError naming the argument or the engine, DeviceError, ElementTrap naming the element; with
    `executor` or `store`, InputError RG1501 to RG1508.
    """
    if traps not in ("raise", "return"):
        refuse(f"traps = {traps!r:.40}", '"raise" or "return"')
    core_units(core)
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow, checks=checks, cycles=cycles, core=core, progress=progress, over=Distribution.of(executor, store, chunk),
    )  # fmt: skip
    return batch_run(request, args, keywords, in_axes, traps)


def batch_run(
    request: Request,
    args: Sequence[Any],
    keywords: dict[str, Any],
    in_axes: Axes,
    traps: Traps = "raise",
    only_values: bool = False,
) -> BatchResult:
    """The runs of a request on each element of a batch: see `run_batch`.

    `only_values`: if no element traps, only values are read, so numbers have words only where a float64 has not all bits.
    """
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled()
    arguments, numbers = argument_ranges(compiled)
    words = batch.words(compiled)
    # Results of workers, of a store and on a device hold all arguments, and their words.
    here = request.over is None and not words.is_chunked and not words.is_on_device
    constant = _constant_arguments(batch, compiled, words) if here else {}
    kept = [r for r in arguments if r[0] not in constant or not r[1]]
    alone = here and only_values
    if alone:
        numbers = dict.fromkeys(numbers, Numbers(words=False))
    rows = run_distributed(request, compiled, words, kept, numbers=numbers)
    if alone and (rows.traps or any(result.large for result in rows.results)):
        add_words(rows, request, compiled, words, kept)
    results = iter(rows.results)
    values = [
        _same_in_all(a, constant[a.address], len(words), compiled.format)
        if a.type.size and a.address in constant
        else stacked_values(a.type, next(results), compiled.format, batch.length)
        for a in compiled.arguments
    ]
    # The arrays of the results are the values now.
    later = vars(rows).pop("_later", {})
    fields = {**dict.fromkeys(later), **vars(rows), "results": []}
    found = BatchResult(**fields, values=request.function.results(*values), compiled=compiled, constant=constant)
    if later:
        found.make_later({name: partial(getattr, rows, name) for name in later})
        vars(rows)["_later"] = later
    if found.traps and traps == "raise":
        error = found.traps[min(found.traps)]
        error.result = found
        raise error
    return found


def _constant_arguments(batch: Batch, compiled: Compiled, loaded: Loaded) -> dict[int, Words]:
    """The words, by address, of the numbers that all elements share and that the program leaves as they are."""
    changed: list[Range] | None = compiled.derived.get(("changed ranges",))
    if changed is None:
        # Imported here, since only batches with shared arguments need it.
        from retrograd.compiler.derivatives.accumulators import changed_arguments

        regions = changed_arguments(compiled.module)
        changed = compiled.derived["changed ranges",] = [(r.address, r.size) for r in regions if r.address is not None]
    _, numbers = argument_ranges(compiled)
    found = {}
    for a in compiled.arguments:
        first, end = a.address, a.address + a.type.size
        apart = all(at >= end or at + size <= first for at, size in changed)
        if (first, a.type.size) in numbers and batch.shares(a) and apart:
            found[first] = loaded.shared[first:end]
    return found


def _same_in_all(a: Argument, words: Words, count: int, w: Format) -> Any:
    """The values of an argument that is the same in all elements, stacked: a view that cannot be written to."""
    one = stacked_values(a.type, ResultArray(words[None], None, w), w)
    return np.broadcast_to(one, (count, *one.shape[1:]))


def argument_ranges(compiled: Compiled) -> tuple[list[Range], dict[Range, Numbers]]:
    """(the places of the arguments, those of fixed numbers), computed once."""
    found: tuple[list[Range], dict[Range, Numbers]] | None = compiled.derived.get(("ranges",))
    if found is None:
        every = {(a.address, a.type.size): a.type for a in compiled.arguments}
        numbers = {place: Numbers() for place, t in every.items() if element_type(t) == FIXED}
        arguments = [(a.address, a.type.size) for a in compiled.arguments]
        found = compiled.derived["ranges",] = arguments, numbers
    return found


# ---------------------------------------------------------------------- functions of batches


class Mapped(Derived):
    """`vmap` of a reversible function, or of a gradient, run as one batch: `run(request, args, keywords, in_axes)`."""

    uses_device = True

    def __init__(
        self,
        f: Reversible | Inverse | Derived,
        request: Request,
        in_axes: Axes,
        run: Callable[[Request, tuple[Any, ...], dict[str, Any], Axes], Any],
        made: Made,
    ) -> None:
        super().__init__("vmap", f.of if isinstance(f, Derived) else f, self._run, made)
        #: the function that is run on each element, and the request for its runs
        self.each, self.request = f, request
        self.in_axes, self._rows = in_axes, run
        #: whether gradients by shared arguments are added up
        self.summed = made[2]["shared"] == "sum"

    def _run(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return self._rows(self.request, args, keywords, self.in_axes)


def vmap(
    f: Callable[..., Any],
    in_axes: Axes = 0,
    *,
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    shared: Shared = "each",
    executor: Any = None,
    store: str | Path | None = None,
    chunk: int | None = None,
    progress: bool | None = None,
) -> Callable[..., Any]:
    """g(*args) = f on each element of its arguments along their axes, the results stacked along axis 0.

    f: a reversible function or its inverse, see `run_batch`; a function made by rg.grad, value_and_grad or jacobian;
    another vmap; any Python function of numbers, arrays and structs. Tuples are stacked part by part, structs become arrays of
    structs, other results a list. `engine`, `format`, `precision`: of reversible functions and their derivatives, see `run`; the defaults
    leave those of f.
    `shared="sum"`: gradients by an argument that all elements share are added up: ∂(Σᵢ Lᵢ)/∂x, of the argument's own shape;
    value_and_grad adds up the losses, too: (Σᵢ Lᵢ, …).
    Each element has the scale of cotangents that it has alone. Each sum is one of integers: exact, the same bits for any number of threads or blocks, without memory for each element.
    `executor`, `store`, `chunk`, `progress`: see `run_batch`. A store keeps results of reversible functions and their gradients.
    Raises InputError, ElementTrap.
    """
    if shared not in ("each", "sum"):
        refuse(f"shared = {shared!r:.40}", '"each" or "sum"')
    over = Distribution.of(executor, store, chunk)
    in_axes = deepcopy(in_axes)  # the caller may change a list
    made = vmap, (f, in_axes), {"engine": engine, "format": format, "precision": precision, "shared": shared}
    if isinstance(f, Derived) and (requested := f.batched(shared)) is not None:
        own, run = requested
        request = own.changed(engine, format, precision, progress=progress, over=over)
        return Mapped(f, request, in_axes, run, made)
    if shared == "sum":
        refuse('shared = "sum" is for gradients', "vmap(grad(f), …) or vmap(value_and_grad(f), …)")
    if isinstance(f, Reversible | Inverse):
        request = request_of(f, engine=engine, format=format, precision=precision, progress=progress, over=over)

        def values(request: Request, args: tuple[Any, ...], keywords: dict[str, Any], in_axes: Axes) -> Any:
            return batch_run(request, args, keywords, in_axes, only_values=True).values

        return Mapped(f, request, in_axes, values, made)
    if not callable(f):
        refuse(f"vmap takes a function, not `{f!r:.40}`")
    if isinstance(f, Derived):
        each = f.with_settings(engine, format, precision)
        return Derived("vmap", f.of, lambda args, keywords: _each(each, args, keywords, in_axes, over, progress), made)
    return _Each(f, in_axes, over, progress)


class _Each:
    """`vmap` of any Python function."""

    def __init__(self, f: Callable[..., Any], in_axes: Axes, over: Distribution | None, progress: bool | None) -> None:
        self._f, self._in_axes, self._over, self._progress = f, in_axes, over, progress
        self.__name__ = f"vmap({getattr(f, '__name__', 'a function')})"

    @api_boundary
    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return _each(self._f, args, keywords, self._in_axes, self._over, self._progress)

    def __reduce__(self) -> tuple[Any, ...]:
        need_name(self._f)
        return vmap, (self._f, self._in_axes)


def _each(
    f: Callable[..., Any],
    args: Sequence[Any],
    keywords: dict[str, Any],
    in_axes: Axes,
    over: Distribution | None,
    progress: bool | None,
) -> Any:
    """Any function, called for one element after the other, or for some elements in each task."""
    called = getattr(f, "__name__", "the function")
    if isinstance(f, Derived):
        function = ~f.of if isinstance(f.of, Inverse) else f.of
        bind(function, args, keywords)
        args, keywords = with_further(function, args, keywords)
        parameters = [p.name for p in function.parameters]
        names = [*parameters[: len(args)], *keywords]
    else:
        function, parameters = None, [*(f"argument {i}" for i in range(len(args))), *keywords]
        names = parameters
    given = dict(zip(names, [*args, *keywords.values()], strict=True))
    columns, length = columns_of(called, function, parameters, given, in_axes)
    if not length:
        refuse(f"`{called}` is given no elements, and what it would return for them cannot be told")

    def element(i: int) -> _Call:
        values = [columns[name].element(i) if name in columns else value for name, value in given.items()]
        return f, tuple(values[: len(args)]), dict(zip(keywords, values[len(args) :], strict=True))

    out: list[Any] = []
    if over is not None:
        out = _on_workers(element, length, over, progress)
        if len(out) == length:
            return _stacked(out)
    # An element that fails on a worker fails here again, with its place and its machine.
    for i in range(len(out), length):
        try:
            out.append(_call(element(i)))
        except ProgramTrap as trap:
            raise ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i) from None
        except NotDifferentiable:
            raise  # its cause is the types, which all elements share
        except InputError as error:
            d = error.diagnostics[0]
            raise InputError(replace(d, message=f"element {i}: {d.message}")) from None
    return _stacked(out)


#: a function and its arguments, by position and by name
_Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
#: elements of a task, unless another number is given
_ELEMENTS = 16


def _call(call: _Call) -> Any:
    f, args, keywords = call
    return f(*args, **keywords)


def _call_all(calls: list[_Call]) -> list[Any]:
    """On a worker: the results of the elements before the first that raises an exception."""
    out: list[Any] = []
    for call in calls:
        try:
            out.append(_call(call))
        except Exception:
            break
    return out


def _on_workers(element: Callable[[int], _Call], length: int, over: Distribution, progress: bool | None) -> list[Any]:
    """The results of the elements before the first that raises an exception."""
    size = over.chunk or _ELEMENTS
    firsts = range(0, length, size)
    tasks = ([element(i) for i in range(first, min(first + size, length))] for first in firsts)
    found: list[list[Any]] = [[] for _ in firsts]
    with (
        Bar(length, progress, "running") as bar,
        closing(distribute(_call_all, tasks, over, bar=bar, size=len)) as parts,
    ):
        for index, part in parts:
            found[index] = part
    out: list[Any] = []
    for first, part in zip(firsts, found, strict=True):
        out += part
        if len(part) < min(size, length - first):
            break
    return out


def _stacked(found: list[Any]) -> Any:
    """The results of all elements as one, part by part."""
    first = found[0]
    if isinstance(first, tuple):
        parts = [_stacked([one[k] for one in found]) for k in range(len(first))]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    if is_struct(type(first)):
        out = np.empty(len(found), dtype=object)
        out[:] = found
        return out
    if isinstance(first, np.ndarray | np.generic | int | float | complex):
        return np.stack([as_array(one) for one in found])
    return found


# -----------------------------------------------------------------------------
# Results of a batch in arrays on disk, written a task at a time: batches larger than memory.
#
#     run_chunked(f, y, x, out="results").values.y[i] == run(f, y[i], x[i]).values.y,  bit for bit
#
#     results/y.npy …                 an array for each argument, or y in an archive of Zarr, results.zarr
#     retrograd.steps, .erased_bits   counts of each element
#     retrograd.trap                  0, or the number of the code of its trap: 403 for RG0403
#     y.words, y.format               words of numbers that a float64 would round, as in `values/lossless.py`
#
# Memory holds the tasks in flight only. A run that is interrupted goes on with `store`.

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
        refuse_task("RG0603", f"traps = {traps!r:.40}", '"raise" or "return"')
    request = request_of(
        function, backward=backward, engine=engine, format=format, options=options, precision=precision, max_steps=max_steps,
        overflow=overflow, checks=checks, progress=progress, over=(over := Distribution(executor, store, chunk)),
    )  # fmt: skip
    batch = Batch(request, args, keywords, in_axes)
    compiled = batch.compiled()
    written = _written(compiled, results)
    places = [(a.address, a.type.size) for a in written]
    numbers = {r: n for r, n in argument_ranges(compiled)[1].items() if r in places}
    loaded = batch.words(compiled)
    count = len(loaded)
    for name, column in batch.columns.items():
        if isinstance(column.items, ChunkedArray) and column.items.folder == Path(out).resolve():
            refuse_task(
                "RG1509", f"`{name}` is read from {out}, which would be overwritten", "Write to another folder."
            )
    files = _Arrays(Path(out), count, rows_of_task(over, count, width(loaded.given) + width(places)))
    files.begin()
    found: dict[int, ElementTrap] = {}
    trapped, steps, erased = 0, 0, 0
    ran: Counter[str] = Counter()
    with closing(chunks(request, compiled, loaded, places, numbers=numbers)) as parts:
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
            refuse_task(
                "RG0603", f"results: there is no argument `{name!s:.40}`", f"its arguments are {', '.join(known)}"
            )
    out = [a for name, a in known.items() if names is None or name in names]
    for a in out:
        if not isinstance(element_type(a.type), ScalarType):
            refuse_task(
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
                refuse_task("RG1509", f"{self._path} is a file", "`out` is a folder")
            self._path.mkdir(exist_ok=True)
            empty = not os.listdir(self._path)
        except OSError as error:
            refuse_task("RG0501", f"{self._path}: {error.strerror}")
        if self._path.suffix == ".zarr":
            self._begin_archive(empty)
            return
        mark = self._path / "retrograd.txt"
        if empty:
            write_file(mark, SCHEMA)
        elif not mark.is_file() or read_file(mark, 64).decode("utf-8", "replace") != SCHEMA:
            refuse_task("RG1509", f"{self._path} holds other files")

    def _begin_archive(self, empty: bool) -> None:
        try:
            import zarr
        except ImportError:
            refuse_task(
                "RG1509", f"{self._path} needs `zarr`", "pip install 'retrograd[sweep]', or a folder of .npy files"
            )
        try:
            self._group = zarr.open_group(self._path, mode="w" if empty else "r+")
        except Exception as error:  # Zarr raises many kinds for damaged metadata
            refuse_task("RG1509", f"{self._path} is no archive of Zarr: {str(error).partition(chr(10))[0][:100]}")
        if empty:
            self._group.attrs["schema"] = SCHEMA
        elif self._group.attrs.get("schema") != SCHEMA:
            refuse_task("RG1509", f"{self._path} holds other arrays")

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
            refuse_task("RG0501", f"{self._path / name}: {error.strerror or error}")

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
