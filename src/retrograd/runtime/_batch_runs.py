"""A compiled function on a matrix of words, one row for each element of a batch, on any engine.

    rows[i] := the kept words of memory, after the function has run on the shared words and rows[i]
    sums    := Σᵢ of the summed words of memory, exactly

Engines that run a batch as one discard the results of an element that fails; a machine runs that element again, and
gives its trap.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.language.types import FIXED
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.presentation import Bar
from retrograd.runtime._arrays import fixed_words
from retrograd.runtime._batch_arguments import Loaded, many
from retrograd.runtime._distribution import Distribution, Keeping, distribute
from retrograd.runtime._distribution import refuse as refuse_task
from retrograd.runtime._execution import ProgramTrap, Request, execute
from retrograd.runtime._marshal import word_array
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch.layout import EXACT, BatchLayout, Range, ResultArray, split_columns, width
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.tiered_machine import LARGE_IN_PYTHON
from retrograd.simulator.engines.tiering import Decision, Reason, engine_named
from retrograd.simulator.machine import REGISTERS, Machine, Stop, Trap
from retrograd.simulator.stores import SparseWords, Store, limit_of, memory_words
from retrograd.version import __version__

if TYPE_CHECKING:
    from retrograd.simulator.engines.batch.cpu import RowCounts

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

#: rows of a machine that are written together
_PORTION = 1024


class Numbers(NamedTuple):
    """How a kept range is returned as real numbers: 2^scale times as small. `words`: its words are returned, too."""

    scale: int = 0
    words: bool = True


@dataclass(frozen=True)
class Code:
    """A program as workers run it: without source, so that an element that does not end is reported by its index alone."""

    program: Program
    #: see `Compiled.derived`
    derived: dict[tuple[Any, ...], Any] = field(default_factory=dict, compare=False, repr=False)
    externals: ClassVar[Mapping[int, Any]] = MappingProxyType({})

    @classmethod
    def of(cls, program: Program) -> Code:
        """The code, the table of instructions, the data and the hints: all that determines a run and its speed."""
        words = program.code, program.data, program.memory, program.format
        return cls(Program(*words, table=program.table, hints=program.hints))

    @property
    def format(self) -> Format:
        return self.program.format

    def __reduce__(self) -> tuple[Any, ...]:
        return Code, (self.program,)


class ElementTrap(ProgramTrap):
    """A trap in one element of a batch; `machine` is that element's, and can run back to its start.

    `result`: of `run_batch`, the BatchResult with all other elements, which have been run.
    """

    result: Any = None

    def __init__(self, diagnostic: Diagnostic, machine: Machine, trap: Trap | None, element: int) -> None:
        super().__init__(replace(diagnostic, message=f"element {element}: {diagnostic.message}"), machine, trap)
        self.element = element

    def renumbered(self, element: int) -> ElementTrap:
        """The same trap as that of another element."""
        d = self.diagnostics[0]
        plain = replace(d, message=d.message.removeprefix(f"element {self.element}: "))
        return ElementTrap(plain, self.machine, self.trap, element)


@dataclass
class BatchWords:
    """The words and counts of a batch after the run. An element that trapped has the words that it was given."""

    #: the kept words, one row for each element, and an array for each kept range
    after: Words = field(repr=False)
    results: list[ResultArray] = field(repr=False)
    #: instructions executed by each element
    steps: Counts
    #: bits erased by each element
    erased_bits: Counts
    #: the engine that ran most elements: reference, threaded, translated or cuda
    engine: str
    #: the summed words, over all elements that ended
    sums: list[int] = field(repr=False)
    #: the traps of elements that did not end
    traps: dict[int, ElementTrap] = field(default_factory=dict)
    #: cycles of each element on the co-processor, by the cycle model (docs/reference/timing.md); None unless requested
    cycles: Counts | None = None
    #: elements that did not end, of which no machine has given the trap: see `run_rows`
    failed: list[int] = field(default_factory=list)

    def make_later(self, fields: dict[str, Callable[[], Any]]) -> None:
        """Fields that are made when they are first read: counts and words that lie on a device."""
        vars(self)["_later"] = fields
        for name in fields:
            del vars(self)[name]

    def __getattr__(self, name: str) -> Any:
        make = vars(self).get("_later", {}).get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        found = vars(self)[name] = make()
        return found

    def own_counts(self) -> None:
        """Make counts that are views of one number arrays that can be written to."""
        for name in ("steps", "erased_bits"):
            counts: Counts = getattr(self, name)
            if not counts.flags.writeable:
                setattr(self, name, counts.copy())

    def replace_rows(self, which: range | list[int], other: BatchWords) -> None:
        """Put another batch in the place of these elements, which have not run, or did not end."""
        self.own_counts()
        at = slice(which.start, which.stop) if isinstance(which, range) else which
        for own, others in zip(self.results, other.results, strict=True):
            own.put_rows(at, others)
        self.steps[at], self.erased_bits[at] = other.steps, other.erased_bits
        if self.cycles is not None and other.cycles is not None:
            self.cycles[at] = other.cycles
        self.sums = [a + b for a, b in zip(self.sums, other.sums, strict=True)]
        again = which if isinstance(which, range) else frozenset(which)
        self.traps = {i: trap for i, trap in self.traps.items() if i not in again}
        self.traps |= {which[i]: trap.renumbered(which[i]) for i, trap in other.traps.items()}
        self.failed = [i for i in self.failed if i not in again] + [which[i] for i in other.failed]


def run_rows(
    request: Request,
    compiled: Compiled | Code,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    counted: Callable[[int, Machine], object] | None = None,
    explain: bool = True,
    threads: int | None = None,
) -> BatchWords:
    """Run the program for every row, as requested. Raises InputError RG1001, DeviceError; traps are part of the result.

    `kept`, `summed`: the memory that is returned of each element, and that is added up over all. `numbers`: the kept
    ranges that are returned as real numbers, too. `counted(i, machine)` is called with each element's machine at
    its end: machines run the elements one after the other then, since only machines keep all counts. `explain`: False
    leaves elements that fail in an engine in `failed`, without their traps; so does `Code`. `threads`: by default one
    for each core.
    """
    found, limit = engine_named(request.engine), limit_of(request.max_steps)
    if loaded.report is None:
        loaded = loaded.in_memory()
    else:
        loaded = loaded.in_memory(device=found in ("auto", "cuda") and counted is None and not compiled.externals)
    if loaded.is_on_device:
        return _on_device(request, compiled, loaded, (tuple(kept), tuple(summed)), numbers, limit, explain)
    if not request.checks:
        found = _unchecked(found, compiled)
    count, size = len(loaded), sum(n for _, n in summed)
    out = _not_run(request, compiled, kept, size, numbers, count)
    alone = _SequentialRunner(compiled, out, loaded, (tuple(kept), tuple(summed)), request, limit, counted)
    with Bar(count, request.progress, "running") as bar:
        if found == "reference" or compiled.externals:
            # Only a machine that stops at each mark can execute `rg.external` blocks.
            alone.run(range(count), "reference", bar)
            return out
        if counted is not None:
            alone.run(range(count), found, bar)
            return out
        first = 0
        if found != "auto":
            tiering.record(Decision(found, Reason.NAMED))
        else:
            first = _by_machines(compiled, count, alone, bar)
        if first < count:
            _compiled(compiled, out, loaded, first, found, alone, bar, explain, threads)
    return out


def empty_results(
    kept: Sequence[Range], numbers: Mapping[Range, Numbers], count: int, w: Format
) -> tuple[Words, list[ResultArray]]:
    """(a matrix of kept words, the arrays of the results, whose words are its columns): see `run_rows`. Trap: they hold
    anything until all rows are put."""
    exact = [r for r in kept if r not in numbers or numbers[r].words]
    # Numbers of neighbouring elements lie side by side, so that lanes write them at once.
    order: Literal["C", "F"] = "F" if all(n == 1 for _, n in exact) else "C"
    matrix = np.empty((count, width(exact)), np.uint64, order)
    columns, out = iter(split_columns(matrix, exact)), []
    for r in kept:
        found = numbers.get(r)
        words = next(columns) if found is None or found.words else None
        reals = None if found is None else np.empty((count, r[1]))
        out.append(ResultArray(words, reals, w, 0 if found is None else found.scale))
    return matrix, out


def add_words(out: BatchWords, request: Request, compiled: Compiled, loaded: Loaded, kept: Sequence[Range]) -> None:
    """Give results that have only numbers their words: round(number · 2^F). Elements with a number of more than 53 bits run again."""
    again = np.zeros(len(loaded), dtype=np.bool_)
    for result in out.results:
        if result.words is None and result.reals is not None:
            rounded = np.abs(result.reals) >= 2.0**EXACT * result.factor
            result.words = fixed_words(np.where(rounded, 0.0, result.reals), compiled.format)
            again |= rounded.any(axis=1)
    if again.any():
        which = np.flatnonzero(again).tolist()
        numbers = {r: Numbers() for r, found in zip(kept, out.results, strict=True) if found.reals is not None}
        other = run_rows(replace(request, progress=False), compiled, loaded.at(which), kept, numbers=numbers)
        out.replace_rows(which, other)
        out.traps = dict(sorted(out.traps.items()))
    out.after = _joined_words(out.results, len(loaded))


def _by_machines(compiled: Compiled | Code, every: int, alone: _SequentialRunner, bar: Callable[[int], object]) -> int:
    """Run rows on one machine, until a loop over the others pays (`Policy.decide_rows`).

    Returns the first row that is left.
    """
    first = 0
    account = tiering.policy.account(compiled.program, kind="backward batch" if alone.request.backward else "batch")
    while first < every:
        decision = tiering.policy.decide_rows(account, every - first, alone.at_hand(), alone.price)
        if decision.engine != "auto":
            break
        # In portions that double, since the first rows may be no measure of the others.
        last = alone.run(range(first, min(every, first + max(first, 1))), "auto", bar)
        tiering.policy.count_rows(account, last - first, int(alone.out.steps[first:last].sum()), alone.out.engine)
        first = last
    return first


def _unchecked(engine: str, compiled: Compiled | Code) -> str:
    """The engine that leaves checks out.

    Machines always make them: they can stop anywhere and go back. Raises InputError.
    """
    if compiled.externals:
        raise InputError(
            Diagnostic("RG1001", "a function with `rg.external` is run by machines, which make every check")
        )
    if engine in ("reference", "threaded"):
        hint = "engine = auto, native, translated or cuda; or checks = True"
        raise InputError(Diagnostic("RG1001", f"the engine `{engine}` makes every check", hint=hint))
    return "native" if engine == "auto" else engine


def _compiled(
    compiled: Compiled | Code,
    out: BatchWords,
    loaded: Loaded,
    first: int,
    engine: str,
    alone: _SequentialRunner,
    bar: Callable[[int], object],
    explain: bool,
    threads: int | None,
) -> None:
    """The rows from `first` on by an engine that takes them as one."""
    count, program = len(loaded) - first, compiled.program
    if engine == "threaded":
        alone.run(range(first, len(loaded)), "threaded", bar)
        return
    cycles, limit = out.cycles is not None, alone.limit
    ran: RowCounts
    if engine == "cuda":
        from retrograd.simulator.engines.cuda import batch as on_gpus

        results = [result.part(first) for result in out.results] if first else out.results
        arrays = [array[first:] for array in loaded.arrays] if first else loaded.arrays
        name = "cuda"
        ran = on_gpus.run_arrays(
            program, alone.columns, count, arrays, results, alone.shared,
            modes=alone.modes | {"cycles": cycles}, limit=limit, progress=bar,
        )  # fmt: skip
        _received(ran, loaded, out.results, results)
    else:
        from retrograd.simulator.engines.batch import cpu as on_cores

        way = alone.request
        key = (
            "row runs",
            loaded.given,
            alone.ranges,
            way.backward,
            way.overflow,
            way.checks,
            cycles,
            alone.modes["core"],
        )
        runs: on_cores.RowRuns | None = compiled.derived.get(key)
        if runs is None:
            runs = on_cores.RowRuns(program, alone.columns, **alone.modes, cycles=cycles)
            compiled.derived[key] = runs
        results = [result.part(first) for result in out.results] if first else out.results
        arrays = [array[first:] for array in loaded.arrays] if first else loaded.arrays
        name = "translated"
        ran = runs(count, arrays, results, loaded.shared, limit=limit, threads=threads, progress=bar)
        _received(ran, loaded, out.results, results)
    if first:
        out.steps[first:] = ran.steps
    else:
        out.steps = ran.steps
    if ran.sums:
        out.sums = [a + b for a, b in zip(out.sums, ran.sums, strict=True)]
    if ran.lost_words is not None:
        lost = ran.lost_words * compiled.format.width
        if first:
            out.erased_bits[first:] = lost
        else:
            out.erased_bits = lost
    if out.cycles is not None and ran.cycles is not None:
        out.cycles[first:] = ran.cycles
    if not len(ran.failed):
        out.engine = name
        return
    out.own_counts()
    for counts in (out.steps, out.erased_bits, out.cycles):
        if counts is not None:
            counts[first + ran.failed] = 0
    for result in out.results:
        result.put(first + ran.failed, np.zeros((len(ran.failed), result.width), dtype=np.uint64))
    failed = [first + int(i) for i in ran.failed]
    if explain and isinstance(compiled, Compiled):
        # A machine gives the trap of each row that failed, and meets a limit to the step.
        alone.run(failed, "auto", lambda _: None)
    else:
        out.failed = failed
    out.engine = name


def _on_device(
    request: Request,
    compiled: Compiled | Code,
    loaded: Loaded,
    ranges: tuple[tuple[Range, ...], tuple[Range, ...]],
    numbers: Mapping[Range, Numbers],
    limit: int | None,
    explain: bool,
) -> BatchWords:
    """The rows on the device on which some of them lie: see `run_rows`.

    Elements that fail are run again as rows of the host.
    """
    from retrograd.runtime._device import DeviceBatch, DeviceResult
    from retrograd.simulator.engines.batch.loops import facts_of
    from retrograd.simulator.engines.cuda.kernels import Mark

    tiering.record(Decision("cuda", Reason.NAMED))
    count, w, program = len(loaded), compiled.format, compiled.program
    none = np.zeros(0, dtype=np.int64)
    nothing = BatchWords(none.astype(np.uint64), [], none, none, "cuda", [])
    alone = _SequentialRunner(compiled, nothing, loaded, ranges, request, limit)
    batch = DeviceBatch(program, alone.columns, alone.modes | {"cycles": request.cycles}, loaded.arrays)
    scales = [None if (n := numbers.get(r)) is None or n.words else n.scale for r in ranges[0]]
    results = [DeviceResult(batch.where, count, r[1], w, k) for r, k in zip(ranges[0], scales, strict=True)]
    loses = facts_of(tuple(program.code), w, program.table, request.backward).loses
    ran, (steps, lost, cycles) = batch.run(
        compiled.derived, count, alone.shared, limit, results, (True, loses, request.cycles)
    )
    if ran.marks[Mark.REFUSED]:
        raise AssertionError(f"all {len(loaded.rows)} rows have words")  # `rows` raises the InputError
    if ran.marks[Mark.LOSSY] and loaded.report is not None:
        loaded.report()
    out = BatchWords(none.astype(np.uint64), [*results], none, np.zeros(count, dtype=np.int64), "cuda", ran.sums)
    later: dict[str, Callable[[], Any]] = {"after": partial(_joined_words, results, count)}
    if steps is not None:
        later["steps"] = steps
    if lost is not None:
        later["erased_bits"] = lambda: lost() * w.width
    out.make_later(later)
    out.cycles = None if cycles is None else cycles()
    if ran.status is None:
        return out
    failed = np.flatnonzero(ran.status)
    for counts in (out.steps, out.erased_bits, out.cycles):
        if counts is not None:
            counts[failed] = 0
    for r, result in zip(ranges[0], results, strict=True):
        result.put(failed, np.zeros((len(failed), r[1]), dtype=np.uint64))
    if explain and isinstance(compiled, Compiled):
        alone.out = out
        alone.run(failed.tolist(), "auto", lambda _: None)
        out.engine = "cuda"
    else:
        out.failed = failed.tolist()
    return out


def _joined_words(results: Sequence[ResultArray], count: int) -> Words:
    """The matrix of the kept words; of results on a device, their copy."""
    columns = [np.zeros((count, 0), dtype=np.uint64), *(result.words for result in results if result.words is not None)]
    return np.concatenate(columns, axis=1)


def _received(ran: RowCounts, loaded: Loaded, results: Sequence[ResultArray], parts: Sequence[ResultArray]) -> None:
    """Raise the InputError of a number that has no word; mark the results in whose parts a number has more bits than a float64."""
    if ran.refused:
        raise AssertionError(f"all {len(loaded.rows)} rows have words")  # `rows` raises the InputError
    for result, part in zip(results, parts, strict=True):
        result.large = result.large or part.large


@dataclass
class _SequentialRunner:
    """Runs rows one after the other on one machine: to decode a program takes as long as a hundred steps."""

    compiled: Compiled | Code
    out: BatchWords
    loaded: Loaded
    #: the ranges of memory that are kept, and that are summed
    ranges: tuple[tuple[Range, ...], tuple[Range, ...]]
    request: Request
    #: instructions of each row
    limit: int | None
    counted: Callable[[int, Machine], object] | None = None

    @cached_property
    def columns(self) -> BatchLayout:
        """The layout of the batch."""
        return BatchLayout(self.loaded.given, *self.ranges)

    @cached_property
    def shared(self) -> Words:
        """The first words of an instance's memory, up to the last one of a range, of which there may be many zeros."""
        begin = self._begin
        out = np.zeros(max(len(begin), self.columns.end), dtype=np.uint64)
        out[: len(begin)] = begin
        return out

    @property
    def _begin(self) -> list[int]:
        """The program's data, and the arguments that all elements share."""
        own = self.loaded.shared.tolist()
        return [*own, *self.compiled.program.data[len(own) :]]

    @property
    def modes(self) -> dict[str, Any]:
        """The options by which compiled code differs."""
        r = self.request
        return {
            "backward": r.backward,
            "overflow": r.overflow,
            "checks": r.checks,
            "core": r.core if r.cycles else "small",
        }

    def at_hand(self) -> bool:
        """Whether compiled code for such rows is loaded already."""
        engine = sys.modules.get("retrograd.simulator.engines.batch.loops")
        # Another thread may be importing it now.
        found = getattr(engine, "at_hand", None)
        return found is not None and bool(
            found(self.compiled.program, **self.modes, cycles=self.out.cycles is not None)
        )

    def price(self) -> float:
        """Seconds until compiled code for such rows is loaded."""
        from retrograd.simulator.engines.batch import loops as batch

        return batch.price(self.compiled.program, **self.modes, cycles=self.out.cycles is not None)

    def run(self, which: Iterable[int], engine: str, bar: Callable[[int], object]) -> int:
        """Run these rows. Returns the index behind the last row that was run."""
        machine: Machine | None = None
        blank: Store = []
        given, kept, summed = (_places(r) for r in (self.columns.given, self.columns.kept, self.columns.summed))
        signed, rows = self.compiled.format.signed, self.loaded.rows
        self.out.own_counts()
        #: rows that ended, and their kept words
        done: list[tuple[int, list[int]]] = []
        i = -1
        for i in which:
            if machine is None:
                r = self.request
                machine = machine_for(
                    self.compiled.program, engine, backward=r.backward, overflow=r.overflow, core=r.core
                )
                first = self._begin
                blank = memory_words(first, len(machine.memory), max(8 * len(first), LARGE_IN_PYTHON))
                origin = machine.pc
            begin = blank.copy() if isinstance(blank, SparseWords) else list(blank)
            for place, word in zip(given, rows[i].tolist(), strict=True):
                begin[place] = word
            # These are words already, so the checks of `machine.load` are left out.
            machine.memory.store[:] = begin
            machine.registers.store[:] = [0] * REGISTERS
            machine.pc, machine.br, machine.direction = origin, 0, -1 if self.request.backward else 1
            for hits in machine.executed.values():
                hits[:] = [0] * len(hits)
            try:
                if isinstance(self.compiled, Code):
                    if not _ends(machine, self.limit):
                        self.out.failed.append(i)
                        done.append((i, [begin[place] for place in kept]))
                        machine = None
                        continue
                else:
                    execute(self.compiled, machine, self.limit)
            except ProgramTrap as trap:
                self.out.traps[i] = ElementTrap(trap.diagnostics[0], trap.machine, trap.trap, i)
                done.append((i, [begin[place] for place in kept]))
                machine = None  # the machine that trapped belongs to the trap
                continue
            finally:
                bar(1)
            if self.counted is not None:
                self.counted(i, machine)
            self.out.engine = machine.engine
            words = machine.memory.store
            done.append((i, [words[place] for place in kept]))
            self.out.sums = [a + signed(words[place]) for a, place in zip(self.out.sums, summed, strict=True)]
            self.out.steps[i], self.out.erased_bits[i] = machine.retired, machine.erased_bits
            if self.out.cycles is not None:
                self.out.cycles[i] = machine.cycles
            if len(done) == _PORTION:
                self._put(done)
        self._put(done)
        return i + 1

    def _put(self, done: list[tuple[int, list[int]]]) -> None:
        """Write the kept words of rows, and forget these."""
        if done:
            at = np.array([i for i, _ in done], dtype=np.intp)
            words = np.array([row for _, row in done], dtype=np.uint64).reshape(len(done), width(self.columns.kept))
            for result, part in zip(self.out.results, split_columns(words, self.columns.kept), strict=True):
                result.put(at, part)
            done.clear()


def _ends(machine: Machine, max_steps: int | None) -> bool:
    """Run a machine; whether it halts."""
    try:
        return machine.run(max_steps).stop is Stop.HALTED
    except Trap:
        return False


def _places(ranges: Sequence[Range]) -> list[int]:
    """The addresses in the ranges, one by one."""
    return [place for address, count in ranges for place in range(address, address + count)]


# -----------------------------------------------------------------------------
# The rows of a batch as tasks: in this process or on workers, in memory or a chunk at a time.
#
#     run_distributed(request, compiled, loaded, kept, summed) == run_rows(request, compiled, loaded, kept, summed),
# bit for bit
#
# A task holds code and words, so workers need this package alone and functions need no names. A worker reports
# elements that
# do not end by their index; they run again where the call is made, which has the source of their traps. Sums are sums
# of
# integers: the same for any number of workers, any size of tasks and any loss.

#: bytes of a task's rows, or of its results; and the number of tasks of a batch, unless rows are large or tasks become
#: small
_BYTES, _TASKS, _ROWS = 1 << 20, 64, 64
#: codes that a worker keeps with their compiled loops
_CODES = 8


WholeCounts = NDArray[np.integer[Any]]


class RowTask(NamedTuple):
    """Some rows of a batch, as they are sent to a worker."""

    #: the rows' place in the batch, which determines nothing
    first: int
    last: int
    #: the hash of code and request
    digest: str
    code: Code
    ranges: tuple[Range, ...]
    #: rows of each range: words, or float64s
    arrays: tuple[NDArray[Any], ...]
    shared: NDArray[np.uint64]
    kept: tuple[Range, ...]
    summed: tuple[Range, ...]
    numbers: dict[Range, Numbers]
    #: without its function
    request: Request
    threads: int | None


class RowPart(NamedTuple):
    """The results of a task."""

    words: NDArray[np.uint64]
    #: the numbers of ranges that are returned without words, and whether one of them has more bits than a float64
    reals: tuple[NDArray[np.float64], ...]
    large: tuple[bool, ...]
    #: counts of each element, in few bytes: see `_packed`
    steps: WholeCounts
    erased_bits: WholeCounts
    cycles: WholeCounts | None
    sums: tuple[int, ...]
    #: elements that did not end, counted from the task's first
    failed: tuple[int, ...]
    engine: str
    #: a real number that is given has no word
    refused: bool = False


def run_distributed(
    request: Request,
    compiled: Compiled,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    explain: bool = True,
) -> BatchWords:
    """Run the program for every row: see `run_rows`. Without workers and chunks the rows run at once, in this process.

    Raises InputError RG1501 to RG1508 besides.
    """
    if request.over is None and (compiled.externals or not loaded.is_chunked):
        return run_rows(request, compiled, loaded, kept, summed, numbers=numbers, explain=explain)
    count = len(loaded)
    out = _not_run(request, compiled, kept, sum(n for _, n in summed), numbers, count)
    parts = chunks(request, compiled, loaded, kept, summed, numbers=numbers, explain=explain)
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
    request: Request,
    compiled: Compiled,
    loaded: Loaded,
    kept: Sequence[Range],
    summed: Sequence[Range] = (),
    *,
    numbers: Mapping[Range, Numbers] = MappingProxyType({}),
    explain: bool = True,
) -> Generator[tuple[int, BatchWords], None, None]:
    """(the first row, the results) of each task, in the order in which tasks end: see `run_distributed`."""
    if compiled.externals:
        refuse_task("RG1508", f"`{compiled.function.__name__}` has statements for the host, in `with rg.external():`")
    over = request.over or Distribution()
    engine_named(request.engine)
    count = len(loaded)
    plain = request.of_code()
    code = Code.of(compiled.program)
    head = _digest(plain, code, kept, summed, numbers)
    ranges, threads = loaded.given, None if over.executor is None else 1
    rows = rows_of_task(over, count, width(ranges) + width(kept))

    def task(first: int) -> RowTask:
        last = min(first + rows, count)
        arrays = tuple(np.ascontiguousarray(array[first:last]) for array in loaded.arrays)
        return RowTask(
            first, last, head, code, ranges, arrays, loaded.shared, tuple(kept), tuple(summed), dict(numbers), plain, threads
        )  # fmt: skip

    with Bar(count, request.progress, "running") as bar:
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
                found = _restored(plain, compiled, part, kept, numbers, n)
                if some is not None and explain:
                    failed = [*part.failed]
                    again = run_rows(plain, compiled, some.at(failed), kept, summed, numbers=numbers)
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
        found = run_rows(task.request, code, loaded, task.kept, task.summed, numbers=task.numbers, threads=task.threads)
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


def _packed(counts: WholeCounts) -> WholeCounts:
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
    """Rows of a task, of `words` in and out.

    It does not depend on the number of workers, which may differ when a store goes on.
    """
    if over.chunk is not None:
        return over.chunk
    most = max(1, _BYTES // (8 * max(words, 1)))
    return max(1, min(most, max(_ROWS, -(-count // _TASKS))))


def _not_run(
    request: Request,
    compiled: Compiled | Code,
    kept: Sequence[Range],
    size: int,
    numbers: Mapping[Range, Numbers],
    n: int,
) -> BatchWords:
    """Results of n rows, none of which has run."""
    after, results = empty_results(kept, numbers, n, compiled.format)
    # An engine that runs a batch as one brings its own counts.
    none = np.broadcast_to(np.int64(0), n)
    out = BatchWords(after, results, none, none, "reference", [0] * size)
    if request.cycles:
        out.cycles = np.zeros(n, dtype=np.int64)
    return out


def _restored(
    request: Request,
    compiled: Compiled,
    part: RowPart,
    kept: Sequence[Range],
    numbers: Mapping[Range, Numbers],
    n: int,
) -> BatchWords:
    """The results of a task in the form of a batch."""
    out = _not_run(request, compiled, kept, len(part.sums), numbers, n)
    exact = [r for r in kept if r not in numbers or numbers[r].words]
    words, reals = iter(split_columns(part.words, exact)), zip(part.reals, part.large, strict=True)
    for result in out.results:
        if result.words is not None:
            result.put(slice(None), next(words))
        elif result.reals is not None:
            result.reals[:], result.large = next(reals)
    out.own_counts()
    out.steps[:], out.erased_bits[:] = part.steps, part.erased_bits
    if out.cycles is not None and part.cycles is not None:
        out.cycles[:] = part.cycles
    out.sums, out.engine, out.failed = [*part.sums], part.engine, [*part.failed]
    return out


# ---------------------------------------------------------------------- in a store


def _digest(
    request: Request, code: Code, kept: Sequence[Range], summed: Sequence[Range], numbers: Mapping[Range, Numbers]
) -> str:
    """The hash of all that determines results, except the rows. Another version may count differently."""
    p, r = code.program, request
    table = "" if p.table is TABLE else hashlib.sha256(pickle.dumps(p.table)).hexdigest()
    how = [r.backward, r.max_steps, r.overflow, r.checks, r.cycles, r.core]
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
