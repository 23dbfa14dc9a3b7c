"""Batches on the CPU: a program's translation, run for each row of a matrix of words, on all cores.

    rows[i] := the kept words of memory, after the program has run on the shared words and rows[i],  for each i
    sums    := Σᵢ of the summed words of memory, exactly

An instance that traps or exceeds its limit of steps is reported as failed. The caller runs it again on a machine, which raises
the trap.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.array_words import DTYPES, ReusedZeros, address_of, zeros
from retrograd.simulator.engines.batch.layout import (
    BatchLayout,
    ResultArray,
    array_table,
    exact_sums,
    mark_large,
    split_columns,
    width,
)
from retrograd.simulator.engines.batch.loops import (
    PENDING,
    REFUSED,
    REGISTERS,
    Key,
    facts_of,
    give_up,
    groups_of,
    is_loaded,
    key_of,
    lane_loop_of,
    lanes_of,
    loop_of,
    variant_of,
)
from retrograd.simulator.engines.llvm.jit import cores, jit_compiler
from retrograd.simulator.engines.state import UNLIMITED
from retrograd.simulator.engines.translator.ghost_uncompute import disable_ghosts
from retrograd.simulator.stores import limit_of

#: pieces of a thread's share: threads end nearly together, and progress is shown
PIECES = 16
#: instances of the first portion, and steps that each may take before it is left to a thread
FIRST, PROBE = 16, 1 << 18
#: steps of a portion that ends before a user could press Ctrl-C, if its instances take as many steps as those before them
QUICK = 1 << 20
#: steps of an instance up to which a thread of its own costs more than it gains: some milliseconds
SHORT = 1 << 22
#: an instance that takes more than this many times the steps of all instances before it is left to a thread
FAR = 16
#: bytes of a line of the cache
LINE = 64
#: zero words of an instance from which on it begins with pages that are cleared: to write the zeros takes longer than a
#: call for each instance
SPARSE = 1 << 16
#: seconds between two updates of the progress of threads
GLANCE = 0.2

#: processor time of batches that ran without lanes, which does not depend on the load of the machine
_seconds: dict[Key, float] = {}
#: the least processor time of an instance alone, and the number of measurements by which lanes took longer so far
_alone: dict[Key, float] = {}
_slower: dict[Key, int] = {}
#: the least processor time of an instance in lanes
_in_lanes: dict[Key, float] = {}
#: (loop, whether instances ran alone) -> processor time and instances of batches that are too short to be measured one by one
_short: dict[tuple[Key, bool], tuple[float, int]] = {}
#: processor time of batches that are measured together, and measurements in which lanes take longer, after which they are given up
MEASURED, SLOWER = 2e-3, 3

WordMatrix = NDArray[np.uint64]

_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p
_Batch = ctypes.CFUNCTYPE(
    None, _POINTER, _WORD, _WORD, _POINTER, _WORD, _POINTER, _WORD, _POINTER, _POINTER, _POINTER
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The results of a batch, except the kept words."""

    #: instructions executed by each instance; a view of one number, which cannot be written to, where all execute as many
    steps: NDArray[np.int64]
    #: words lost by each instance; None where the program loses none
    lost_words: NDArray[np.int64] | None
    #: the instances that did not reach the end
    failed: NDArray[np.int64]
    #: the summed words, as signed numbers, over all instances that reached the end
    sums: list[int] = field(default_factory=list)
    #: cycles of each instance on the co-processor, if they were requested
    cycles: NDArray[np.int64] | None = None
    #: the number of instances that left their lanes and ran alone
    given_up: int = 0
    #: some real number that is given has no word; its instance did not run
    refused: bool = False
    #: on a device: some real number that is given loses more than half of its bits
    lossy: bool = False


@dataclass(frozen=True, kw_only=True)
class RowResults(RowCounts):
    """The results of a batch."""

    #: the kept words, one row for each instance. The row of a failed instance holds its given words if the same words are kept
    #: as given, else zeros
    rows: WordMatrix


def run_batch(
    program: Program,
    rows: WordMatrix,
    *,
    columns: BatchLayout | None = None,
    shared: WordMatrix | None = None,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    core: str = "small",
    limit: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RowResults:
    """Run the program for each row of words, from its start or, backward, from its finish.

    `columns`: the places of a row's words in an instance's memory; by default a row is given and kept as the first words.
    `shared`: the other words of memory at the beginning; by default the program's data and zeros.
    `limit`: the most steps of an instance.
    `checks=False`: guards are left out, except the bounds of memory, and words wrap.
    `cycles=True`: cycles are counted, those of the co-processor's core of this name.
    `progress(n)` is called when n more instances have ended.
    The result does not depend on `threads`.
    """
    layout = layout_of(rows, columns)
    words = np.asarray(rows).astype(np.uint64, copy=False)
    out = np.zeros((len(rows), width(layout.kept)), dtype=np.uint64)
    kept = [ResultArray(part, None, program.format) for part in split_columns(out, layout.kept)]
    begin = memory_of(program, layout, shared).shared[: len(program.data if shared is None else shared)]
    runs = RowRuns(program, layout, backward=backward, overflow=overflow, checks=checks, cycles=cycles, core=core)
    given = split_columns(words, layout.given)
    counts = runs(len(rows), given, kept, begin, limit=limit_of(limit, "limit"), threads=threads, progress=progress)
    if layout.kept == layout.given:
        out[counts.failed] = words[counts.failed]
    lost = np.zeros(len(out), dtype=np.int64) if counts.lost_words is None else counts.lost_words
    return RowResults(**{**vars(counts), "lost_words": lost}, rows=out)


class RowRuns:
    """A program's loop over rows, for one layout and one variant: the parts that are the same in each batch."""

    def __init__(
        self,
        program: Program,
        layout: BatchLayout,
        *,
        backward: bool = False,
        overflow: bool = True,
        checks: bool = True,
        cycles: bool = False,
        core: str = "small",
    ) -> None:
        self.program, self.layout, self.cycles = program, layout, cycles
        self._variant = variant_of(program, backward, overflow, checks, cycles, core)
        self._facts = facts_of(tuple(program.code), program.format, program.table, backward)
        self._words = max(program.memory, layout.end)
        self._shared = layout.shared(self._words)
        self._code = loop_of(program, self._variant)
        self._at = 0
        self.refresh()
        self._keys: dict[int, Key] = {}
        #: the loop for a number of lanes, once it is loaded
        self._wide: dict[int, Any] = {}
        self._summed = 2 * width(layout.summed)
        #: steps of the longest instance of the last batch that was left to threads
        self._seen = 0

    def __call__(
        self,
        count: int,
        given: Sequence[NDArray[Any]],
        kept: Sequence[ResultArray],
        shared: NDArray[np.unsignedinteger[Any]],
        *,
        limit: int | None = None,
        threads: int | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> RowCounts:
        """Run the program for each row of the `given` arrays, and write its results into the `kept` ones.

        `given`, `kept`: an array of `count` rows for each range of the layout. A given array holds words as uint64s, or real numbers
        as float64s, which become words as in `values/conversions.py`; its rows and its words may lie anywhere apart. The row of a
        kept array stays as it is where the instance fails. `shared`: the first words of an instance's memory, where no row goes;
        the others are those of the program's data. Otherwise as `run_batch`.
        """
        return _RowRun(self, count, given, kept, shared, limit).run(threads, progress)

    def key(self, lanes: int) -> Key:
        """The key of the loop for a number of lanes."""
        found = self._keys.get(lanes)
        if found is None:
            found = self._keys[lanes] = key_of(self.program, self._variant, lanes)
        return found

    def refresh(self) -> None:
        """Take the fastest code of the loop that is loaded."""
        if self._code.address != self._at:
            self._at = self._code.address
            self._loop = _Batch(self._at)

    def memory(self, shared: NDArray[np.unsignedinteger[Any]]) -> NDArray[np.unsignedinteger[Any]]:
        """The memory with which instances begin."""
        data = self.program.data
        out = zeros(max(self._words, len(shared)), self.program.format)
        if len(data) > len(shared):
            out[: len(data)] = data
        out[: len(shared)] = shared
        return out


class _RowRun:
    """A batch that runs."""

    def __init__(
        self,
        of: RowRuns,
        count: int,
        given: Sequence[NDArray[Any]],
        kept: Sequence[ResultArray],
        shared: NDArray[np.unsignedinteger[Any]],
        limit: int | None,
    ) -> None:
        self.of, self.count, self.given, self.kept = of, count, given, kept
        program, layout = of.program, of.layout
        self.format, self.layout = program.format, layout
        #: written by the code, or a view of one number where all runs take as many
        one_way = of._facts.steps
        self.steps = np.zeros(count, np.int64) if one_way is None else np.broadcast_to(np.int64(one_way), count)
        self.lost = np.zeros(count, dtype=np.int64) if of._facts.loses else None
        self.cycles = np.zeros(count, dtype=np.int64) if of.cycles else None
        self.n = n = max(of._words, len(shared))
        ranges = of._shared if n == of._words else layout.shared(n)
        #: the words behind are zeros
        self.begin = begin = max(len(program.data), len(shared))
        #: whether instances begin on cleared memory, in place of copied zeros
        self.sparse = ReusedZeros.are_supported and n - begin >= SPARSE
        if self.sparse:
            ranges = [(address, min(size, begin - address)) for address, size in ranges if address < begin]
        # A large memory is not copied where no word behind the shared ones is read.
        whole = self.sparse and begin == len(shared) and shared.dtype == DTYPES[self.format.width]
        self.memory = shared if whole and shared.flags.c_contiguous else of.memory(shared)
        counted = None if one_way is not None else self.steps
        self.table = array_table(layout, ranges, given, kept, (counted, self.lost, self.cycles), self.format)
        self.status = np.full(count, PENDING, dtype=np.uint8)
        self.most = UNLIMITED if limit is None else min(limit, UNLIMITED)
        self._addresses = tuple(map(address_of, (self.table, self.memory, self.status)))
        of.refresh()
        self._loop = of._loop
        lanes = lanes_of(program.format)
        # Lanes that part begin again on their memory, inside of a call of the loop.
        restarting = self.sparse and jit_compiler().diverging
        self.lanes = lanes if count >= lanes and not restarting else 1
        #: the loop for lanes, where it is loaded
        self._wide: Any = of._wide.get(self.lanes)
        #: numbers of instances that left their lanes; threads add to it
        self.given_up: list[int] = []

    def run(self, threads: int | None, progress: Callable[[int], object] | None) -> RowCounts:
        """Run all instances."""
        of, count, lanes, costs = self.of, self.count, self.lanes, tiering.policy.costs
        pending = of._code.pending
        key, spent, began = None, 0.0, time.process_time() if lanes > 1 or pending else 0.0
        if lanes > 1 and self._wide is None:
            key = of.key(lanes)
            spent = _seconds.get(key, 0.0)
            if is_loaded(key) or spent >= costs.lanes:
                self._load_lanes(count * _alone.get(key, 0.0))
        room = _Room(self)
        if of._facts.stretch <= self.most:
            ended = self._first_rows(room)
            if progress is not None and ended:
                progress(ended)
            if pending:
                self._count(time.process_time() - began)
            if ended < count:
                so_far = time.process_time() - began
                # A few instances take less time than to begin.
                each = min(so_far / max(ended, 1), math.inf if key is None else _alone.get(key, math.inf))
                to_come = each * (count - ended)
                if key is not None and spent + to_come > costs.lanes:
                    _compare(key, so_far, ended, alone=True)
                    self._load_lanes(to_come)
                self._in_threads(room, threads or cores(), progress)
                of._seen = int(self.steps.max())
        took = time.process_time() - began if lanes > 1 else 0.0
        if key is not None and self._wide is None:
            _seconds[key] = spent + took
            _compare(key, took, count, alone=True)
        elif self._wide is not None:
            # Most groups of instances part, and then run alone; or lanes take longer, for the same reason.
            parted = not jit_compiler().diverging and sum(self.given_up) > count // 2
            if parted or (key is None and _compare(of.key(lanes), took, count, alone=False)):
                give_up(of.key(lanes))
                of._wide.clear()
        failed = self.status.nonzero()[0]
        if len(failed) and of._variant.ghosts is not None:
            self._execute_uncomputes(room)
            failed = self.status.nonzero()[0]
        room.end()
        mark_large(self.kept, self.table)
        if len(failed) and not self.steps.flags.writeable:
            self.steps = self.steps.copy()
            self.steps[failed] = 0
        return RowCounts(
            steps=self.steps,
            lost_words=self.lost,
            failed=failed,
            sums=exact_sums(room.sums) if of._summed else [],
            cycles=self.cycles,
            given_up=sum(self.given_up),
            refused=bool(len(failed)) and bool((self.status[failed] == REFUSED).any()),
        )

    def _execute_uncomputes(self, room: _Room) -> None:
        """Run the failed instances again, without ghosts: they may have failed at an uncompute block that was to be skipped."""
        of, stuck = self.of, np.flatnonzero(self.status == 1)
        if not len(stuck):
            return
        executing = replace(of._variant, ghosts=None)
        code = loop_of(of.program, executing)
        self._loop, self._wide = _Batch(code.address), None
        self.status[stuck] = PENDING
        self.work(int(stuck[0]), int(stuck[-1]) + 1, self.most, room)
        if not self.status[stuck].all():
            disable_ghosts(of.program)
            of._variant, of._code = executing, code
            of._keys.clear()

    def _load_lanes(self, seconds: float) -> None:
        """Take the loop for lanes, or have it made. `seconds`: the time that is left without it."""
        code = lane_loop_of(self.of.key(self.lanes), seconds)
        if code is not None and code.pending:
            # Threads have made no room for lanes if the code comes while they run, so it is looked for here only.
            code.count(0.0)
        if code is not None and code.address:
            self._wide = self.of._wide[self.lanes] = _Batch(code.address)

    def _count(self, seconds: float) -> None:
        """Add time that the loop ran; use optimised code from here on if it has come."""
        if self.of._code.count(seconds):
            self.of.refresh()
            self._loop = self.of._loop

    def work(self, first: int, last: int, steps: int, room: _Room) -> None:
        """Run instances, in lanes if their loop is loaded. Instances that leave their lanes are then run alone."""
        table, memory, status = self._addresses
        stop = table + self.table.nbytes - self.table.itemsize
        around = memory, self.n, room.memory, steps, status, room.sums_at, stop

        def run(loop: Any, together: int) -> None:
            if room.cleared is None:
                loop(table, first, last, *around)
                return
            for at in range(first, last, together):
                room.begin()
                loop(table, at, min(at + together, last), *around)
                # Each step, and each word that is there at the beginning, uses a word.
                room.steps = self.begin + int(self.steps[at : at + together].sum())

        if self._wide is None:
            run(self._loop, 1)
            return
        run(self._wide, self.lanes)
        left = first + np.flatnonzero(self.status[first:last] == 1)
        if len(left):
            self.given_up.append(len(left))
            self.status[left] = PENDING
            run(self._loop, 1)

    def _first_rows(self, room: _Room) -> int:
        """Run instances in portions that grow, for as long as threads would gain nothing. Returns the number that ended.

        Ctrl-C cannot interrupt these instances. An instance that takes far more steps than those before it is left to the threads. Its
        work until then is lost, so the next batch of the program allows for as many steps, unless that takes too long.
        """
        began, status, count, most = time.perf_counter(), self.status, self.count, self.most
        if self.of._seen > SHORT and self.count < FIRST:
            # They would be stopped, and begin again.
            return 0
        done, more, steps = 0, FIRST, PROBE
        if PROBE < self.of._seen <= SHORT:
            more, steps = max(1, QUICK // self.of._seen), 2 * self.of._seen
        while done < count and time.perf_counter() - began < tiering.policy.costs.threads:
            last = min(done + more, count)
            bound = min(most, max(self.of._facts.stretch, steps))
            self.work(done, last, bound, room)
            if bound < most and status[done:last].any():
                status[status.nonzero()] = PENDING
                break
            done = last
            if done < count:
                longest = int(self.steps[:done].max())
                steps, more = FAR * longest, max(3 * done, QUICK // max(longest, 1))
        return done if done == count else count - int(np.count_nonzero(status == PENDING))

    def _in_threads(self, total: _Room, threads: int, progress: Callable[[int], object] | None) -> None:
        """Run the other instances in threads. Python receives Ctrl-C while it waits, and then stops the threads."""
        status, count = self.status, self.count

        def work(first: int, last: int) -> NDArray[np.int64]:
            room = _Room(self)
            self.work(first, last, self.most, room)
            room.end()
            return room.sums

        pending = int(np.count_nonzero(status == PENDING))
        first = int(np.argmax(status == PENDING))
        workers = max(1, min(threads, pending))
        size = max(1, -(-(count - first) // (workers * PIECES)))
        now = time.process_time()
        with ThreadPoolExecutor(workers) as pool:
            running = {pool.submit(work, at, min(at + size, count)) for at in range(first, count, size)}
            try:
                while running:
                    ended, running = wait(running, timeout=GLANCE)
                    for future in ended:
                        total.sums += future.result()
                    if self.of._code.pending:
                        spent, now = now, time.process_time()
                        self._count(now - spent)
                    if progress is not None:
                        before, pending = pending, int(np.count_nonzero(status == PENDING))
                        progress(before - pending)
            except BaseException:
                self.table[-1] = 1
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _compare(key: Key, seconds: float, count: int, alone: bool) -> bool:
    """Note the time of instances that ran alone or in lanes. Returns whether lanes have taken longer in SLOWER measurements."""
    before, instances = _short.pop((key, alone), (0.0, 0))
    seconds, count = before + seconds, instances + count
    if seconds < MEASURED or not count:
        _short[key, alone] = seconds, count
        return False
    each = seconds / count
    if alone:
        _alone[key] = min(each, _alone.get(key, each))
        return False
    # The least times are compared: a measurement on a busy machine is longer.
    least = _in_lanes[key] = min(each, _in_lanes.get(key, each))
    _slower[key] = _slower.get(key, 0) + (least > _alone.get(key, least))
    return _slower[key] >= SLOWER


class _Room:
    """Memory of a thread for instances, as many as there are lanes, and the sums of its instances.

    `cleared`: the memory, if it is cleared before each call of the loop; `steps`: of the call before.
    """

    def __init__(self, run: _RowRun) -> None:
        lanes, n = run.lanes if run._wide is not None else 1, run.n
        item = max(1, run.format.width // 8)
        size = n + 1 if lanes == 1 else lanes * (groups_of(n) * (n + 1) + REGISTERS) + LINE // item
        self.cleared = ReusedZeros.of(-(-size * item // 8)) if run.sparse else None
        self.steps: int | None = None
        self._words = zeros(size, run.format) if self.cleared is None else self.cleared.array
        self.sums = np.zeros(run.of._summed, dtype=np.int64)
        base = address_of(self._words)
        # Vectors are aligned to lines of the cache, since a vector across two lines takes two reads.
        self.memory, self.sums_at = base + (-base % LINE if lanes > 1 else 0), address_of(self.sums)

    def begin(self) -> None:
        """Clear the memory if an instance has run on it."""
        if self.cleared is not None and self.steps is not None:
            self.cleared.clear(self.steps)

    def end(self) -> None:
        """Leave the memory to other batches."""
        if self.cleared is not None:
            del self._words
            self.cleared.used(self.steps or 0)


@dataclass(frozen=True)
class Memory:
    """The memory with which instances begin."""

    columns: BatchLayout
    shared: NDArray[np.unsignedinteger[Any]]


def layout_of(rows: WordMatrix, columns: BatchLayout | None) -> BatchLayout:
    """The layout of a batch: by default rows are given and kept as the first words. Raises ValueError if it is not that of the rows."""
    found = BatchLayout.first(rows.shape[1]) if columns is None else columns
    if rows.shape[1] != width(found.given):
        raise ValueError(f"rows have {rows.shape[1]} words, columns {width(found.given)}")
    return found


def memory_of(program: Program, columns: BatchLayout, shared: WordMatrix | None) -> Memory:
    """The memory of a batch's instances. `shared`: its first words; by default the program's data."""
    begin = np.array(program.data, dtype=np.uint64) if shared is None else shared
    out = zeros(max(program.memory, columns.end, len(begin)), program.format)
    out[: len(begin)] = begin
    return Memory(columns, out)
