"""Batches on GPUs: the translated kernel, launched on one piece of the batch while others are copied.

    rows[i] := the kept words of memory, after the program has run on shared words and rows[i],  for each i
    sums    := Σᵢ of words of memory, exactly

Words, counts and sums equal those of every other engine, and depend neither on the size of blocks nor on the number of devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import c_int64
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.compiled_loops import longest_stretch
from retrograd.simulator.engines.batch.cpu import (
    Memory,
    RowResults,
    WordMatrix,
    layout_of,
    memory_of,
)
from retrograd.simulator.engines.batch.instance_loop import REPORT, WARP
from retrograd.simulator.engines.batch.layout import BatchLayout, exact_sums, width
from retrograd.simulator.engines.cuda.context import Buffer, Context, Event, Stream
from retrograd.simulator.engines.cuda.driver import Device, driver
from retrograd.simulator.engines.cuda.kernels import Kernel, Module
from retrograd.simulator.engines.cuda.ptx import KERNEL, ptx
from retrograd.simulator.engines.state.control_block import UNLIMITED
from retrograd.simulator.engines.state.words import DTYPES
from retrograd.simulator.stores import limit_of

#: pieces of a batch in flight: one arrives, one runs, one leaves
LANES = 3
#: default number of threads in a block; since no thread waits for another, few are as good as many
BLOCK = 128
#: instances in a piece, so that copies and kernels overlap; fewer if memory is short
PIECE = 1 << 18
#: share of the free memory for a batch
SHARE = 0.8


@dataclass(frozen=True)
class Setting:
    """The division of a batch into blocks and pieces. It does not change the result."""

    block: int = BLOCK
    piece: int = PIECE
    devices: Sequence[int] | None = None


@dataclass
class Timed:
    """The times of a device for a batch, in milliseconds by its own clock."""

    kernel: float = 0.0
    copies: float = 0.0


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
    progress: Callable[[int], object] | None = None,
    setting: Setting = Setting(),
    timed: Timed | None = None,
) -> RowResults:
    """See `retrograd.simulator.engines.batch.cpu.run_batch`. Raises DeviceError RG1002 to RG1005.

    Several devices take consecutive parts of the batch. `timed` receives the times of the devices.
    """
    found = driver()
    wanted = range(len(found.devices)) if setting.devices is None else setting.devices
    devices = [found.device(index) for index in wanted]
    memory = memory_of(program, layout_of(rows, columns), shared)
    given_limit = limit_of(limit, "limit")
    limited = UNLIMITED if given_limit is None else min(given_limit, UNLIMITED)
    batch = _Batch(program, rows, memory, limited, setting, progress, timed)
    modes = {"backward": backward, "overflow": overflow, "checks": checks, "cycles": cycles}
    if longest_stretch(program, backward) > limited:
        return batch.results(cycles)
    bounds = np.linspace(0, len(rows), len(devices) + 1).astype(int).tolist()
    parts = [(d, a, b) for d, a, b in zip(devices, bounds, bounds[1:], strict=False) if a < b]
    if len(parts) < 2:
        for part in parts:
            batch.on_device(*part, modes)
    else:
        with ThreadPoolExecutor(len(parts)) as pool:
            for future in [pool.submit(batch.on_device, *part, modes) for part in parts]:
                future.result()
    return batch.results(cycles)


class _Batch:
    def __init__(
        self,
        program: Program,
        rows: WordMatrix,
        memory: Memory,
        limit: int,
        setting: Setting,
        progress: Callable[[int], object] | None,
        timed: Timed | None,
    ) -> None:
        self.program, self.rows, self.limit, self.setting = program, rows, limit, setting
        self.progress, self.timed = progress, timed
        self.memory, self.n = memory, len(memory.shared)
        self.table = memory.columns.table(self.n)
        self.dtype = np.dtype(DTYPES[program.format.width])
        self.before = np.ascontiguousarray(rows, dtype=self.dtype)
        self.after = np.zeros((len(rows), width(memory.columns.kept)), self.dtype)
        self.report = np.zeros((len(rows), REPORT), dtype=np.int64)
        self.status = np.ones(len(rows), dtype=np.uint8)
        self.sums = np.zeros(2 * width(memory.columns.summed), dtype=np.int64)
        self.adding = Lock()

    def results(self, cycles: bool) -> RowResults:
        failed = np.flatnonzero(self.status)
        columns = self.memory.columns
        self.after[failed] = self.before[failed] if columns.kept == columns.given else 0
        steps, lost, taken = self.report.T.copy()
        return RowResults(
            rows=self.after.astype(np.uint64, copy=False),
            steps=steps,
            lost_words=lost,
            failed=failed,
            sums=exact_sums(self.sums),
            cycles=taken if cycles else None,
        )

    def on_device(self, device: Device, first: int, last: int, modes: dict[str, bool]) -> None:
        """Run the instances from `first` up to `last` on the device."""
        with Context(device) as context:
            text = ptx(self.program, device.target, **modes)
            kernel = Module(context, text, name="the batch").kernel(KERNEL)
            found = np.zeros_like(self.sums)
            shared, table, sums = (sent(context, array) for array in (self.memory.shared, self.table, found))
            piece = self._piece(context, last - first)
            lanes = [
                _Lane(self, context, kernel, (table, shared), sums, piece)
                for _ in range(min(LANES, -(-(last - first) // piece)))
            ]
            for k, begin in enumerate(range(first, last, piece)):
                lanes[k % len(lanes)].send(begin, min(begin + piece, last))
            # In the order of sending, so that progress is even.
            for lane in [lanes[(k + 1 + (last - first - 1) // piece) % len(lanes)] for k in range(len(lanes))]:
                lane.receive()
            if len(self.sums):
                sums.copy_to_host(found)
                with self.adding:
                    self.sums += found

    def _piece(self, context: Context, count: int) -> int:
        """Instances in a piece: the number that fits in memory together with the pieces of the other lanes."""
        free, _ = context.memory()
        words = self.before.shape[1] + self.after.shape[1] + self.n + 1
        each = words * self.dtype.itemsize + REPORT * 8 + 1
        fits: int = int(free * SHARE) // (LANES * each)
        return max(1, min(self.setting.piece, count, fits))


def sent(context: Context, array: NDArray[Any]) -> Buffer:
    """A copy on the device."""
    buffer = context.allocate(max(1, array.nbytes))
    if array.nbytes:
        buffer.copy_from_host(array)
    return buffer


def blocks_of(kernel: Kernel, threads: int, *, adds: bool) -> int:
    """Threads in a block: the requested number within the limit of the device; whole warps if they add up sums."""
    block = min(threads, kernel.max_threads)
    return max(WARP, block // WARP * WARP) if adds else block


def launch_arguments(
    rows: Buffer,
    out: Buffer,
    count: int,
    read: tuple[Buffer, Buffer],
    n: int,
    memory: Buffer,
    threads: int,
    limit: int,
    told: tuple[Buffer, Buffer, Buffer],
) -> list[Buffer | c_int64]:
    """The arguments of the kernel, see `kernel_loop.emit_kernel_loop`. `read`: columns and shared memory; `told`: report, status, sums."""
    return [rows, out, c_int64(count), *read, c_int64(n), memory, c_int64(threads), c_int64(limit), *told]


class _Lane:
    """A stream with room for one piece of the batch; a new piece is sent when the last has come back."""

    def __init__(
        self, batch: _Batch, context: Context, kernel: Kernel, read: tuple[Buffer, Buffer], sums: Buffer, piece: int
    ) -> None:
        self.batch, self.kernel, self.read, self.sums = batch, kernel, read, sums
        self.stream: Stream = context.stream()
        block = blocks_of(kernel, batch.setting.block, adds=bool(len(batch.sums)))
        # One thread an instance, within the places of the device; beyond them each thread runs several instances.
        places = max(1, kernel.blocks_per_multiprocessor(block)) * context.device.multiprocessors
        self.grid, self.block = max(1, min(-(-piece // block), places)), block
        self.threads = self.grid * block
        item, given, kept = batch.dtype.itemsize, batch.before.shape[1], batch.after.shape[1]
        self.rows = context.allocate(max(1, piece * given * item))
        self.out = context.allocate(max(1, piece * kept * item))
        self.memory = context.allocate(self.threads * (batch.n + 1) * item)
        self.report, self.status = context.allocate(piece * REPORT * 8), context.allocate(piece)
        # Pinned: other memory cannot be copied while the host continues.
        self.held_rows: NDArray[Any] = context.pinned((piece, given), batch.dtype)
        self.held_out: NDArray[Any] = context.pinned((piece, kept), batch.dtype)
        self.held_report: NDArray[Any] = context.pinned((piece, REPORT), np.int64)
        self.held_status: NDArray[Any] = context.pinned(piece, np.uint8)
        self.events: list[Event] = [context.event() for _ in range(4)] if batch.timed is not None else []
        self.sent: tuple[int, int] | None = None

    def send(self, first: int, last: int) -> None:
        """Queue copies and kernel for these instances."""
        self.receive()
        batch, count = self.batch, last - first
        rows, out = self.held_rows[:count], self.held_out[:count]
        report, status = self.held_report[:count], self.held_status[:count]
        rows[:] = batch.before[first:last]
        self._mark(0)
        if rows.nbytes:
            self.rows.copy_from_host(rows, self.stream)
        self._mark(1)
        self.kernel.launch(
            self.grid,
            self.block,
            launch_arguments(
                self.rows,
                self.out,
                count,
                self.read,
                batch.n,
                self.memory,
                self.threads,
                batch.limit,
                (self.report, self.status, self.sums),
            ),
            self.stream,
        )
        self._mark(2)
        if out.nbytes:
            self.out.copy_to_host(out, self.stream)
        self.report.copy_to_host(report, self.stream)
        self.status.copy_to_host(status, self.stream)
        self._mark(3)
        self.sent = first, last

    def _mark(self, k: int) -> None:
        if self.events:
            self.events[k].record(self.stream)

    def receive(self) -> None:
        """Wait for the piece that was sent."""
        if self.sent is None:
            return
        (first, last), batch = self.sent, self.batch
        self.sent = None
        self.stream.synchronize()
        count = last - first
        batch.after[first:last] = self.held_out[:count]
        batch.report[first:last] = self.held_report[:count]
        batch.status[first:last] = self.held_status[:count]
        if batch.timed is not None:
            began, arrived, ran, left = self.events
            batch.timed.kernel += ran.since(arrived)
            batch.timed.copies += arrived.since(began) + left.since(ran)
        if batch.progress is not None:
            batch.progress(count)
