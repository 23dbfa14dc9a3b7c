"""The rows of a batch as tasks: in this process or on workers, in memory or a chunk at a time.

    run_distributed(compiled, loaded, kept, summed, over) == run_rows(compiled, loaded, kept, summed),   bit for bit

A task holds code and words, so workers need this package alone and functions need no names. A worker reports elements that
do not end by their index; they run again where the call is made, which has the source of their traps. Sums are sums of
integers: the same for any number of workers, any size of tasks and any loss.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.batch.arguments import Loaded, many
from retrograd.batch.runs import DEFAULT, BatchWords, Code, Numbers, empty_results, run_rows
from retrograd.compiler.compiled import Compiled
from retrograd.compiler.language.types import FIXED
from retrograd.distribution.executors import refuse
from retrograd.distribution.tasks import Distribution, Keeping, distribute
from retrograd.functions.requests import RunSettings
from retrograd.isa.diagnostics import InputError
from retrograd.isa.table import TABLE
from retrograd.presentation.progress import Bar
from retrograd.simulator.engines.batch.layout import Range, split_columns, width
from retrograd.simulator.engines.tiering import engine_named
from retrograd.simulator.stores import limit_of
from retrograd.values.marshal import word_array
from retrograd.version import __version__

#: bytes of a task's rows, or of its results; and the number of tasks of a batch, unless rows are large or tasks become small
_BYTES, _TASKS, _ROWS = 1 << 20, 64, 64
#: codes that a worker keeps with their compiled loops
_CODES = 8


Counts = NDArray[np.integer[Any]]


class RowTask(NamedTuple):
    """Some rows of a batch, as they are sent to a worker."""

    #: the rows' place in the batch, which determines nothing
    first: int
    last: int
    #: the hash of code and settings
    digest: str
    code: Code
    ranges: tuple[Range, ...]
    #: rows of each range: words, or float64s
    arrays: tuple[NDArray[Any], ...]
    shared: NDArray[np.uint64]
    kept: tuple[Range, ...]
    summed: tuple[Range, ...]
    numbers: dict[Range, Numbers]
    settings: RunSettings
    threads: int | None


class RowPart(NamedTuple):
    """The results of a task."""

    words: NDArray[np.uint64]
    #: the numbers of ranges that are returned without words, and whether one of them has more bits than a float64
    reals: tuple[NDArray[np.float64], ...]
    large: tuple[bool, ...]
    #: counts of each element, in few bytes: see `_packed`
    steps: Counts
    erased_bits: Counts
    cycles: Counts | None
    sums: tuple[int, ...]
    #: elements that did not end, counted from the task's first
    failed: tuple[int, ...]
    engine: str
    #: a real number that is given has no word
    refused: bool = False


def run_distributed(
    compiled: Compiled,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    settings: RunSettings = DEFAULT,
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    progress: bool | None = None,
    explain: bool = True,
    over: Distribution | None = None,
) -> BatchWords:
    """Run the program for every row: see `run_rows`. Without `over` and chunks the rows run at once, in this process.

    Raises InputError RG1501 to RG1508 besides.
    """
    if over is None and (compiled.externals or not loaded.is_chunked):
        return run_rows(compiled, loaded, kept, summed, settings, numbers=numbers, progress=progress, explain=explain)
    count = len(loaded)
    out = _empty(compiled, kept, sum(n for _, n in summed), settings, numbers, count)
    parts = chunks(
        compiled, loaded, kept, summed, settings, numbers=numbers, progress=progress, explain=explain, over=over
    )
    ran: Counter[str] = Counter()
    with closing(parts):
        for first, part in parts:
            out.replace_rows(range(first, first + len(part.steps)), part)
            ran[part.engine] += len(part.steps)
    out.engine = max(ran, key=ran.__getitem__, default="reference")
    out.traps = dict(sorted(out.traps.items()))
    out.failed.sort()
    return out


def chunks(
    compiled: Compiled,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    settings: RunSettings = DEFAULT,
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    progress: bool | None = None,
    explain: bool = True,
    over: Distribution | None = None,
) -> Generator[tuple[int, BatchWords], None, None]:
    """(the first row, the results) of each task, in the order in which tasks end: see `run_distributed`."""
    if compiled.externals:
        refuse("RG1508", f"`{compiled.function.__name__}` has statements for the host, in `with rg.external():`")
    over = over or Distribution()
    engine_named(settings.engine)
    count = len(loaded)
    plain = RunSettings(**{f.name: getattr(settings, f.name) for f in fields(RunSettings)})
    plain = replace(plain, max_steps=limit_of(plain.max_steps))
    code = Code.of(compiled.program)
    head = _digest(code, plain, kept, summed, numbers)
    ranges, threads = loaded.given, None if over.executor is None else 1
    rows = rows_of_task(over, count, width(ranges) + width(kept))

    def task(first: int) -> RowTask:
        last = min(first + rows, count)
        arrays = tuple(np.ascontiguousarray(array[first:last]) for array in loaded.arrays)
        return RowTask(
            first, last, head, code, ranges, arrays, loaded.shared, tuple(kept), tuple(summed), dict(numbers), plain, threads
        )  # fmt: skip

    with Bar(count, progress, "running") as bar:
        parts = distribute(
            run_task, map(task, range(0, count, rows)), over, keeping=_KEEPING, bar=bar, size=lambda t: t.last - t.first
        )
        with closing(parts):
            for index, part in parts:
                first = index * rows
                n = min(first + rows, count) - first
                some = loaded.part(first, first + n) if part.refused or part.failed else None
                if part.refused:
                    assert some is not None
                    _refuse_numbers(loaded, some, first)
                found = _restored(compiled, part, kept, plain, numbers, n)
                if some is not None and explain:
                    failed = [*part.failed]
                    again = run_rows(compiled, some.at(failed), kept, summed, plain, numbers=numbers, progress=False)
                    found.failed = []
                    found.replace_rows(failed, again)
                yield first, found


def run_task(task: RowTask) -> RowPart:
    """On a worker: the rows of a task, by its engine."""
    code = _known(task.digest, task.code)
    names = {str(k): r for k, r in enumerate(task.ranges)}
    n = task.last - task.first

    def convert(rows: slice | None) -> list[NDArray[np.uint64]]:
        at = rows or slice(None)
        return [_words(array[at], size, code) for array, (_, size) in zip(task.arrays, task.ranges, strict=True)]

    loaded = Loaded(names, None, task.shared, task.arrays, convert)
    try:
        found = run_rows(
            code, loaded, task.kept, task.summed, task.settings, numbers=task.numbers, progress=False, threads=task.threads
        )  # fmt: skip
    except InputError as error:
        if error.code.startswith("RG06"):
            nothing = np.zeros(0, dtype=np.int64)
            return RowPart(np.zeros((n, 0), np.uint64), (), (), nothing, nothing, None, (), (), "", refused=True)
        raise
    alone = [result for result in found.results if result.words is None]
    reals = tuple(result.reals for result in alone if result.reals is not None)
    return RowPart(
        found.after, reals, tuple(result.large for result in alone), _packed(found.steps), _packed(found.erased_bits),
        None if found.cycles is None else _packed(found.cycles), tuple(found.sums), tuple(sorted(found.failed)), found.engine,
    )  # fmt: skip


def _packed(counts: Counts) -> Counts:
    """The counts in as few bytes as they need; equal counts, as programs without branches have, in one."""
    if not len(counts):
        return counts
    most = counts.max()
    return counts[:1] if most == counts.min() else counts.astype(np.min_scalar_type(most))


def _words(array: NDArray[Any], size: int, code: Code) -> NDArray[np.uint64]:
    """Rows as words. Raises InputError for a number that has none."""
    if array.dtype == np.uint64:
        return array
    words: NDArray[np.uint64] = word_array(many(FIXED, array.size), array.ravel(), code.format, "").reshape(-1, size)
    return words


_local = threading.local()


def _known(digest: str, code: Code) -> Code:
    """The code as this thread ran it before, with its compiled loops."""
    codes: dict[str, Code] = _local.__dict__.setdefault("codes", {})
    found = codes.pop(digest, code)
    codes[digest] = found
    while len(codes) > _CODES:
        del codes[next(iter(codes))]
    return found


def _refuse_numbers(loaded: Loaded, some: Loaded, first: int) -> None:
    """Raise the InputError of a number that has no word; `some` are the rows of its task, `first` the place of the first of them."""
    if not loaded.is_chunked:
        _ = loaded.rows
    try:
        _ = some.rows
    except InputError as error:
        d = error.diagnostics[0]
        raise InputError(replace(d, message=f"{d.message}, counted from element {first}")) from None
    raise AssertionError("all rows have words")


def rows_of_task(over: Distribution, count: int, words: int) -> int:
    """Rows of a task, of `words` in and out. It does not depend on the number of workers, which may differ when a store goes on."""
    if over.chunk is not None:
        return over.chunk
    most = max(1, _BYTES // (8 * max(words, 1)))
    return max(1, min(most, max(_ROWS, -(-count // _TASKS))))


def _empty(
    compiled: Compiled | Code,
    kept: Sequence[Range],
    size: int,
    settings: RunSettings,
    numbers: Mapping[Range, Numbers],
    n: int,
) -> BatchWords:
    """Results of n rows, none of which has run."""
    after, results = empty_results(kept, numbers, n, compiled.format)
    steps, erased = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    out = BatchWords(after, results, steps, erased, "reference", [0] * size)
    if settings.cycles:
        out.cycles = np.zeros(n, dtype=np.int64)
    return out


def _restored(
    compiled: Compiled,
    part: RowPart,
    kept: Sequence[Range],
    settings: RunSettings,
    numbers: Mapping[Range, Numbers],
    n: int,
) -> BatchWords:
    """The results of a task in the form of a batch."""
    out = _empty(compiled, kept, len(part.sums), settings, numbers, n)
    exact = [r for r in kept if r not in numbers or numbers[r].words]
    words, reals = iter(split_columns(part.words, exact)), zip(part.reals, part.large, strict=True)
    for result in out.results:
        if result.words is not None:
            result.put(slice(None), next(words))
        elif result.reals is not None:
            result.reals[:], result.large = next(reals)
    out.steps[:], out.erased_bits[:] = part.steps, part.erased_bits
    if out.cycles is not None and part.cycles is not None:
        out.cycles[:] = part.cycles
    out.sums, out.engine, out.failed = [*part.sums], part.engine, [*part.failed]
    return out


# ---------------------------------------------------------------------- in a store


def _digest(
    code: Code, settings: RunSettings, kept: Sequence[Range], summed: Sequence[Range], numbers: Mapping[Range, Numbers]
) -> str:
    """The hash of all that determines results, except the rows. Another version may count differently."""
    p, s = code.program, settings
    table = "" if p.table is TABLE else hashlib.sha256(pickle.dumps(p.table)).hexdigest()
    how = [s.backward, s.max_steps, s.overflow, s.checks, s.cycles, s.core]
    which = [list(kept), list(summed), sorted([*r, *n] for r, n in numbers.items())]
    text = json.dumps([__version__, p.code, p.data, p.memory, p.format.width, p.format.frac, table, how, which])
    return hashlib.sha256(text.encode()).hexdigest()


def _key(task: RowTask) -> str:
    found = hashlib.sha256(json.dumps([task.digest, task.ranges]).encode())
    for array in (task.shared, *task.arrays):
        found.update(f"{array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def _encoded(part: RowPart) -> bytes:
    """An archive of arrays: reading it executes nothing."""
    arrays: dict[str, Any] = {
        "words": part.words, "large": np.array(part.large, dtype=np.bool_), "steps": part.steps,
        "erased_bits": part.erased_bits, "failed": np.array(part.failed, dtype=np.int64),
        # Sums may have more than 64 bits.
        "text": np.array(json.dumps([part.sums, part.engine, part.refused])),
    }  # fmt: skip
    arrays |= {f"reals{k}": reals for k, reals in enumerate(part.reals)}
    if part.cycles is not None:
        arrays["cycles"] = part.cycles
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _decoded(data: bytes) -> RowPart | None:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            sums, engine, refused = json.loads(str(found["text"]))
            large = tuple(found["large"].tolist())
            reals = tuple(found[f"reals{k}"] for k in range(len(large)))
            cycles = found.get("cycles")
            failed = tuple(found["failed"].tolist())
            return RowPart(
                found["words"], reals, large, found["steps"], found["erased_bits"], cycles, tuple(sums), failed, engine, refused
            )  # fmt: skip
    except Exception:  # an archive of another form raises many kinds
        return None


_KEEPING = Keeping(_key, _encoded, _decoded)
