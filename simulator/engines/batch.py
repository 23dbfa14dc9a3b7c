"""Batches on the CPU: a program's translation, run for each row of a matrix of words, on all cores.

    rows[i] := the first words of memory after the program has run on rows[i],  for each i

A row whose run does not end well (a trap, too many steps) is left as it was and reported: one machine tells why.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE, Table
from retrograd.isa.words import Format
from retrograd.simulator.engines.flow import PROMOTED, Variant, flow_of
from retrograd.simulator.engines.host import definition, host
from retrograd.simulator.engines.llvm_module import Module
from retrograd.simulator.engines.threaded import storage
from retrograd.simulator.engines.translate import translate
from retrograd.simulator.engines.translations import level_for
from retrograd.simulator.engines.words import DTYPES, zeros

#: more than any run takes
UNLIMITED = 1 << 62
#: pieces that a thread's share is cut into, so that threads end together and progress shows
PIECES = 16
#: steps that the first instance may take before it is left to a thread
PROBE = 1 << 22
#: how many times the steps of those before it an instance may take before it is left to a thread
FAR = 16
#: seconds in which nobody presses Ctrl-C, and threads gain nothing
BRIEF = 0.01
#: seconds between two looks at how far the threads are
GLANCE = 0.2
#: status of an instance that has not ended; 0 and 1 are those of one that came to its end, or did not
PENDING = 2

Words = NDArray[np.uint64]

_Batch = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    *[ctypes.c_int64] * 3,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    *[ctypes.c_void_p] * 3,
)


def emit_batch(module: Module, w: Format, instance: str, name: str = "batch") -> None:
    """Define the loop over the instances of a batch on a CPU:

        name(rows, first, last, width, blank, n, M, limit, report, status, stop)

    Row i of `rows` (width words) is the beginning of instance i's memory; the rest is `blank`'s, of n words. M is room for one
    memory and a word. Rows whose status is PENDING are run. Afterwards the row is what the memory became, where status[i] = 0; where
    it is 1, the row is untouched. It ends early once another thread has made the word at `stop` nonzero.
    """
    s, size = storage(w), max(8, w.width) // 8
    copy = "@llvm.memcpy.p0.p0.i64"
    module.define(copy, f"declare void {copy}(ptr, ptr, i64, i1)")
    module.functions.append(
        f"""define void @{name}(ptr noalias %rows, i64 %first, i64 %last, i64 %width, ptr noalias %blank, i64 %n,
    ptr noalias %M, i64 %limit, ptr noalias %report, ptr noalias %status, ptr %stop) nounwind {{
  %row.bytes = mul i64 %width, {size}
  %rest = sub i64 %n, %width
  %rest.bytes = mul i64 %rest, {size}
  %M.rest = getelementptr {s}, ptr %M, i64 %width
  %blank.rest = getelementptr {s}, ptr %blank, i64 %width
  br label %check
check:
  %i = phi i64 [ %first, %0 ], [ %next, %done ]
  %asked = load volatile i64, ptr %stop
  %wanted = icmp eq i64 %asked, 0
  %inside = icmp slt i64 %i, %last
  %more = and i1 %wanted, %inside
  br i1 %more, label %look, label %out
look:
  %status.at = getelementptr i8, ptr %status, i64 %i
  %before = load i8, ptr %status.at
  %pending = icmp eq i8 %before, {PENDING}
  br i1 %pending, label %run, label %done
run:
  %at = mul i64 %i, %width
  %row = getelementptr {s}, ptr %rows, i64 %at
  %two = shl i64 %i, 1
  %told = getelementptr i64, ptr %report, i64 %two
  call void {copy}(ptr %M, ptr %row, i64 %row.bytes, i1 false)
  call void {copy}(ptr %M.rest, ptr %blank.rest, i64 %rest.bytes, i1 false)
  %why = call i64 @{instance}(ptr %M, i64 %n, i64 1, i64 %limit, ptr %told, ptr %stop)
  %bad = icmp ne i64 %why, 0
  %code = zext i1 %bad to i8
  store i8 %code, ptr %status.at
  br i1 %bad, label %done, label %keep
keep:
  call void {copy}(ptr %row, ptr %M, i64 %row.bytes, i1 false)
  br label %done
done:
  %next = add i64 %i, 1
  br label %check
out:
  ret void
}}"""
    )


@dataclass(frozen=True)
class Ran:
    """A batch afterwards."""

    #: one row for each instance; of one that failed, as it was
    rows: Words
    #: instructions executed by each
    steps: NDArray[np.int64]
    #: words lost by each
    lost_words: NDArray[np.int64]
    #: the instances that did not come to the end
    failed: NDArray[np.int64]


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def batch_ir(program: Program, *, backward: bool = False, overflow: bool = True, checks: bool = True) -> str:
    """The batch's code as LLVM IR: `instance` runs one, `batch` all of a part of the rows."""
    return _ir(program, _variant(program, backward, overflow, checks))


def _variant(program: Program, backward: bool, overflow: bool, checks: bool) -> Variant:
    promoted = len(program.code) <= PROMOTED
    return Variant(backward=backward, overflow=overflow, checks=checks, whole=False, promoted=promoted)


def _ir(program: Program, variant: Variant) -> str:
    module = Module(divide=host().divide)
    translate(program, variant, module, "instance")
    emit_batch(module, program.format, "instance")
    return module.text()


@cache
def _code(code: tuple[int, ...], w: Format, table: Table, variant: Variant) -> tuple[int, int]:
    """(address of the loop over a batch, steps that an instance takes before it looks at its limit)"""
    program = Program(code, format=w, table=table)

    def emit() -> str:
        return _ir(program, variant)

    key = f"{definition()} batch {w} {variant} {sha256(repr(code).encode()).hexdigest()}" if table is TABLE else emit()
    found = host().load(key, ("batch",), emit, level_for(len(code)))
    return found["batch"], sum(map(len, flow_of(program, variant).blocks.values())) + 1


def run_batch(
    program: Program,
    rows: Words,
    *,
    backward: bool = False,
    overflow: bool = True,
    checks: bool = True,
    limit: int | None = None,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Ran:
    """Run the program on each row of words, from its start or, backward, from its finish.

    A row is the beginning of an instance's memory; the rest is the program's data, or zeros. `limit`: steps for each.
    `checks=False` leaves out every guard but that of memory: what would trap goes on with wrapped words.
    `progress` is told how many more instances have ended. The result does not depend on `threads`.
    """
    w = program.format
    variant = _variant(program, backward, overflow, checks)
    address, longest = _code(tuple(program.code), w, program.table, variant)
    run = _Batch(address)
    count, width = rows.shape
    n = max(program.memory, width)
    out = np.ascontiguousarray(rows, dtype=DTYPES[w.width]).copy()
    blank = zeros(n, w)
    blank[: len(program.data)] = program.data
    report = np.zeros((count, 2), dtype=np.int64)
    status = np.full(count, PENDING, dtype=np.uint8)
    stop = np.zeros(1, dtype=np.int64)
    most = UNLIMITED if limit is None else min(limit, UNLIMITED)

    def work(first: int, last: int, steps: int = most) -> None:
        memory = zeros(n + 1, w)
        addresses: list[Any] = [a.ctypes.data for a in (blank, memory, report, status, stop)]
        run(out.ctypes.data, first, last, width, addresses[0], n, addresses[1], steps, *addresses[2:])

    if longest <= most:
        ended = _alone(work, status, report[:, 0], most, longest)
        if progress is not None and ended:
            progress(ended)
        if ended < count:
            _in_threads(work, status, threads or cores(), stop, progress)
    failed = np.flatnonzero(status)
    # Exact to the step is the interpreter's affair.
    failed = np.union1d(failed, np.flatnonzero(report[:, 0] > most))
    if len(failed):
        out[failed] = rows[failed]
    return Ran(out.astype(np.uint64), report[:, 0].copy(), report[:, 1].copy(), failed)


def _alone(
    work: Callable[..., None], status: NDArray[np.uint8], taken: NDArray[np.int64], most: int, longest: int
) -> int:
    """Run instances, first one, then more and more, while that takes less time than threads take to begin with; how many ended.

    Nobody could stop them: one that takes far more steps than those before it is left to the threads.
    """
    began = time.perf_counter()
    count, done, steps = len(status), 0, PROBE
    while done < count and time.perf_counter() - began < BRIEF:
        more = min(3 * done + 1, count - done)
        bound = min(most, max(longest, steps))
        work(done, done + more, bound)
        if bound < most and status[done : done + more].any():
            status[np.flatnonzero(status)] = PENDING
            break
        done += more
        steps = FAR * int(taken[:done].max())
    return count - int(np.count_nonzero(status == PENDING))


def _in_threads(
    work: Callable[..., None],
    status: NDArray[np.uint8],
    threads: int,
    stop: NDArray[np.int64],
    progress: Callable[[int], object] | None,
) -> None:
    """The other instances, in threads even where one would do: Python hears of Ctrl-C while it waits, and asks them to stop."""
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
                    future.result()
                if progress is not None:
                    before, pending = pending, int(np.count_nonzero(status == PENDING))
                    progress(before - pending)
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise
