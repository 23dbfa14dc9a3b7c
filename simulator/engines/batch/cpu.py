"""Batches on the CPU: a program's translation, run for each row of a matrix of words, on all cores.

    rows[i] := the kept words of memory, after the program has run on the shared words and rows[i],  for each i
    sums    := Σᵢ of the summed words of memory, exactly

An instance that traps or exceeds its limit of steps is reported as failed. The caller runs it again on a machine, which raises
the trap.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines import tiering
from retrograd.simulator.engines.batch.array_loop import emit_array_loop
from retrograd.simulator.engines.batch.instance_loop import PENDING, REFUSED
from retrograd.simulator.engines.batch.lane_loop import REGISTERS, emit_lane_loop
from retrograd.simulator.engines.batch.lanes import translate_lanes
from retrograd.simulator.engines.batch.layout import (
    BatchLayout,
    array_table,
    exact_sums,
    large_results,
    split_columns,
    width,
)
from retrograd.simulator.engines.batch.results import ResultArray
from retrograd.simulator.engines.llvm.jit import jit_compiler, source_digest
from retrograd.simulator.engines.state.control_block import UNLIMITED
from retrograd.simulator.engines.state.words import zeros
from retrograd.simulator.engines.tiering import level_for
from retrograd.simulator.engines.translator.flow import Variant, flow_of
from retrograd.simulator.engines.translator.translate import translate
from retrograd.simulator.stores import limit_of

#: pieces of a thread's share: threads end nearly together, and progress is shown
PIECES = 16
#: instances of the first portion, and steps that each may take before it is left to a thread
FIRST = 16
PROBE = 1 << 22
#: an instance that takes more than this many times the steps of all instances before it is left to a thread
FAR = 16
#: words of a line of the cache
LINE = 8
#: seconds between two updates of the progress of threads
GLANCE = 0.2

WordMatrix = NDArray[np.uint64]

_WORD, _POINTER = ctypes.c_int64, ctypes.c_void_p
_Batch = ctypes.CFUNCTYPE(
    None, _POINTER, _WORD, _WORD, _POINTER, _WORD, _POINTER, _WORD, _POINTER, _POINTER, _POINTER
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """The results of a batch, except the kept words."""

    #: instructions executed by each instance
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


@dataclass(frozen=True, kw_only=True)
class RowResults(RowCounts):
    """The results of a batch."""

    #: the kept words, one row for each instance. The row of a failed instance holds its given words if the same words are kept
    #: as given, else zeros
    rows: WordMatrix


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batch_ir(program: Program, *, backward: bool = False, overflow: bool = True, checks: bool = True) -> str:
    """The batch's code as LLVM IR: `instance` runs one instance, `batch` all instances of a range of rows."""
    return _ir(program, _variant(program, backward, overflow, checks))


def _variant(program: Program, backward: bool, overflow: bool, checks: bool, cycles: bool = False) -> Variant:
    promoted = len(program.code) <= tiering.OPTIMISED
    return Variant(backward=backward, overflow=overflow, checks=checks, whole=False, promoted=promoted, cycles=cycles)


def _ir(program: Program, variant: Variant, lanes: int = 1) -> str:
    module = jit_compiler().module()
    if lanes == 1:
        translate(program, variant, module, "instance")
        emit_array_loop(module, program.format, "instance", "batch")
    elif len(program.code) > tiering.OPTIMISED:
        raise NotImplementedError("what LLVM does not optimise is quicker alone")
    else:
        translate_lanes(program, variant, module, lanes, "instances")
        emit_lane_loop(module, program.format, "instances", "batch", lanes)
    return module.text()


Key = tuple[tuple[int, ...], Format, Table, Variant, int]

#: addresses of the loaded loops over batches; 0 for a loop that lanes cannot run
_loops: dict[Key, int] = {}
#: processor time of batches that ran without lanes, which does not depend on the load of the machine
_seconds: dict[Key, float] = {}


def _key(program: Program, variant: Variant, lanes: int) -> Key:
    return tuple(program.code), program.format, program.table, variant, lanes


def _code(program: Program, variant: Variant, lanes: int = 1) -> int:
    """The address of the loop over a batch; 0 if lanes cannot run the program."""
    key = _key(program, variant, lanes)
    found = _loops.get(key)
    if found is None:
        code, w, table = key[:3]
        bare = Program(code, format=w, table=table)

        def emit() -> str:
            return _ir(bare, variant, lanes)

        try:
            found = jit_compiler().load(
                _name(key) if table is TABLE else emit(), ("batch",), emit, level_for(len(code))
            )["batch"]
        except NotImplementedError:
            found = 0
        _loops[key] = found
    return found


def _name(key: Key) -> str:
    code, w, _, variant, lanes = key
    return f"{source_digest()} batch {w} {variant} {lanes} {sha256(repr(code).encode()).hexdigest()}"


def price(program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool) -> float:
    """Seconds until the code of such a batch is loaded."""
    costs, n = tiering.policy.costs, len(program.code)
    key = _key(program, _variant(program, backward, overflow, checks, cycles), 1)
    kept = program.table is TABLE and jit_compiler().has(_name(key), level_for(n))
    return costs.load_translation if kept else costs.translation(n)


def at_hand(program: Program, *, backward: bool, overflow: bool, checks: bool, cycles: bool) -> bool:
    """Whether the code of such a batch is loaded."""
    return _key(program, _variant(program, backward, overflow, checks, cycles), 1) in _loops


def longest_stretch(program: Program, backward: bool) -> int:
    """More steps than an instance takes between two tests of its limit, which are at back edges. An instance with fewer steps left
    is not begun."""
    return _stretch_and_losses(tuple(program.code), program.format, program.table, backward)[0]


@cache
def _stretch_and_losses(code: tuple[int, ...], w: Format, table: Table, backward: bool) -> tuple[int, bool]:
    """(`longest_stretch`, whether some instruction loses words)"""
    flow = flow_of(Program(code, format=w, table=table), Variant(backward=backward, whole=False))
    loses = any(flow.code[at].opcode.erased_words for run in flow.blocks.values() for at in run)
    return sum(map(len, flow.blocks.values())) + 1, loses


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
    limit: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RowResults:
    """Run the program for each row of words, from its start or, backward, from its finish.

    `columns`: the places of a row's words in an instance's memory; by default a row is given and kept as the first words.
    `shared`: the other words of memory at the beginning; by default the program's data and zeros.
    `limit`: the most steps of an instance.
    `checks=False`: guards are left out, except the bounds of memory, and words wrap.
    `cycles=True`: cycles are counted.
    `progress(n)` is called when n more instances have ended.
    The result does not depend on `threads`.
    """
    layout = layout_of(rows, columns)
    memory = memory_of(program, layout, shared)
    words = np.asarray(rows).astype(np.uint64, copy=False)
    out = np.zeros((len(rows), width(layout.kept)), dtype=np.uint64)
    kept = [ResultArray(part, None, program.format) for part in split_columns(out, layout.kept)]
    counts = run_arrays(
        program, len(rows), split_columns(words, layout.given), kept, memory, backward=backward, overflow=overflow, checks=checks,
        cycles=cycles, limit=limit, threads=threads, progress=progress,
    )  # fmt: skip
    if layout.kept == layout.given:
        out[counts.failed] = words[counts.failed]
    lost = np.zeros(len(out), dtype=np.int64) if counts.lost_words is None else counts.lost_words
    return RowResults(**{**vars(counts), "lost_words": lost}, rows=out)


def run_arrays(
    program: Program,
    count: int,
    given: Sequence[NDArray[Any]],
    kept: Sequence[ResultArray],
    memory: Memory,
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    cycles: bool = False,
    limit: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> RowCounts:
    """Run the program for each row of the `given` arrays, and write its results into the `kept` ones.

    `given`, `kept`: an array of `count` rows for each range of the layout. A given array holds words as uint64s, or real numbers as
    float64s, which become words as in `values/conversions.py`; its rows and its words may lie anywhere apart. The row of a kept
    array stays as it is where the instance fails. Otherwise as `run_batch`.
    """
    w, layout, n = program.format, memory.columns, len(memory.shared)
    variant = _variant(program, backward, overflow, checks, cycles)
    run = _Batch(_code(program, variant))
    longest, loses = _stretch_and_losses(tuple(program.code), w, program.table, backward)
    taken, lost, spent_cycles = (np.zeros(count, dtype=np.int64) if some else None for some in (True, loses, cycles))
    assert taken is not None
    table = array_table(layout, n, given, kept, (taken, lost, spent_cycles), w)
    status = np.full(count, PENDING, dtype=np.uint8)
    stop = np.zeros(1, dtype=np.int64)
    given_limit = limit_of(limit, "limit")
    most = UNLIMITED if given_limit is None else min(given_limit, UNLIMITED)
    read, written = (table.ctypes.data, memory.shared.ctypes.data), (status.ctypes.data, stop.ctypes.data)
    lanes = jit_compiler().lanes if count >= jit_compiler().lanes else 1

    def work(first: int, last: int, steps: int = most, room: _Room | None = None) -> NDArray[np.int64]:
        found = room or _Room(n, 1, w, layout)
        run(read[0], first, last, read[1], n, found.memory, steps, written[0], found.sums_at, written[1])
        return found.sums

    def side_by_side(first: int, last: int, steps: int = most, room: _Room | None = None) -> NDArray[np.int64]:
        """Run instances in lanes. Instances that leave their lanes are then run alone."""
        found = room or _Room(n, lanes, w, layout)
        _Batch(wide)(read[0], first, last, read[1], n, found.memory, steps, written[0], found.sums_at, written[1])
        left = first + np.flatnonzero(status[first:last] == 1)
        if len(left):
            given_up.append(len(left))
            status[left] = PENDING
            work(first, last, steps, found)
        return found.sums

    given_up: list[int] = []
    costs = tiering.policy.costs
    key = _key(program, variant, lanes)
    spent, began = _seconds.get(key, 0.0), time.process_time()
    wide = _code(program, variant, lanes) if lanes > 1 and (key in _loops or spent >= costs.lanes) else 0
    room = _Room(n, lanes if wide else 1, w, layout)
    total = room.sums
    if longest <= most:
        ended = _first_rows(partial(side_by_side if wide else work, room=room), status, taken, most, longest)
        if progress is not None and ended:
            progress(ended)
        if ended < count:
            to_come = (time.process_time() - began) * (count - ended) / max(ended, 1)
            if lanes > 1 and spent + to_come > costs.lanes:
                wide = _code(program, variant, lanes)
            _in_threads(side_by_side if wide else work, total, status, threads or cores(), stop, progress)
    if lanes > 1 and not wide:
        _seconds[key] = spent + time.process_time() - began
    failed = np.flatnonzero(status)
    for found, large in zip(kept, large_results(table), strict=True):
        found.large |= large
    return RowCounts(
        steps=taken,
        lost_words=lost,
        failed=failed,
        sums=exact_sums(total),
        cycles=spent_cycles,
        given_up=sum(given_up),
        refused=bool((status[failed] == REFUSED).any()),
    )


class _Room:
    """Memory of a thread for instances, as many as there are lanes, and the sums of its instances."""

    def __init__(self, n: int, lanes: int, w: Format, layout: BatchLayout) -> None:
        size = n + 1 if lanes == 1 else lanes * (n + 1 + REGISTERS)
        self._words = zeros(size + LINE * (lanes > 1), w)
        self.sums = np.zeros(2 * width(layout.summed), dtype=np.int64)
        base = self._words.ctypes.data
        # Vectors are aligned to lines of the cache, since a vector across two lines takes two reads.
        self.memory, self.sums_at = base + (-base % 64 if lanes > 1 else 0), self.sums.ctypes.data


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


def _first_rows(
    work: Callable[..., object], status: NDArray[np.uint8], taken: NDArray[np.int64], most: int, longest: int
) -> int:
    """Run instances in portions that grow, for as long as threads would gain nothing. Returns the number that ended.

    Ctrl-C cannot interrupt these instances. An instance that takes far more steps than those before it is left to the threads.
    """
    began = time.perf_counter()
    count, done, steps = len(status), 0, PROBE
    while done < count and time.perf_counter() - began < tiering.policy.costs.threads:
        more = min(3 * done + FIRST, count - done)
        bound = min(most, max(longest, steps))
        work(done, done + more, bound)
        if bound < most and status[done : done + more].any():
            status[np.flatnonzero(status)] = PENDING
            break
        done += more
        if done < count:
            steps = FAR * int(taken[:done].max())
    return count - int(np.count_nonzero(status == PENDING))


def _in_threads(
    work: Callable[..., NDArray[np.int64]],
    total: NDArray[np.int64],
    status: NDArray[np.uint8],
    threads: int,
    stop: NDArray[np.int64],
    progress: Callable[[int], object] | None,
) -> None:
    """Run the other instances in threads. Python receives Ctrl-C while it waits, and then stops the threads."""
    count, pending = len(status), int(np.count_nonzero(status == PENDING))
    first = int(np.argmax(status == PENDING))
    workers = max(1, min(threads, pending))
    size = max(1, -(-(count - first) // (workers * PIECES)))
    with ThreadPoolExecutor(workers) as pool:
        running = {pool.submit(work, at, min(at + size, count)) for at in range(first, count, size)}
        try:
            while running:
                ended, running = wait(running, timeout=GLANCE)
                for future in ended:
                    total += future.result()
                if progress is not None:
                    before, pending = pending, int(np.count_nonzero(status == PENDING))
                    progress(before - pending)
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise
