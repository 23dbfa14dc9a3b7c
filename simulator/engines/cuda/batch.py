"""Tiers on a device: the interpreter's kernel, which runs every program, and the translated kernel of one program.

    code = BatchCode(program, device, modes, count)
    code.kernel().launch(…)                        for each piece of the batch

Both kernels give the same words, counts and sums. While the translation of a new program is compiled in the background, the
interpreter runs the pieces of the batch; `tiering.Policy.decide_device` has the policy. Under the CUDA simulator there is only the interpreter,
since the simulator runs no PTX.

The translated kernel is generated whole, from LLVM IR, with its batch loop. A device function that nvJitLink links to a loop in numba.cuda
took twice the registers; merged with that loop into one PTX text, Bessel's kernel took 96 registers against 86.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.program import Program
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.cpu import (
    Memory,
    RowResults,
    WordMatrix,
    layout_of,
    memory_of,
)
from retrograd.simulator.engines.batch.layout import BatchLayout, exact_sums, width
from retrograd.simulator.engines.batch.loops import REPORT, WARP, longest_stretch
from retrograd.simulator.engines.cuda.interpreter import (
    MOST_THREADS,
    Modes,
    Opcodes,
    begin_interpreter,
    decoded,
    interpreter_ptx,
    is_compiled,
    opcodes_for,
    simulated_kernel,
)
from retrograd.simulator.engines.cuda.kernels import KERNEL, is_kept, ptx
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    Kernel,
    device,
    device_error,
    devices,
    memory_of_device,
    on,
    profiled,
    simulated,
    size_text,
)
from retrograd.simulator.engines.state import UNLIMITED
from retrograd.simulator.engines.tiering import Reason, policy
from retrograd.simulator.stores import limit_of

#: translated kernels that stay loaded
_LOADED = 64


class BatchKernel(Protocol):
    """A kernel that runs a program for each row of a batch."""

    #: type of a word of an instance's memory on the device
    word: np.dtype[Any]

    def block(self, threads: int, *, adds: bool) -> int:
        """Threads in a block: the requested number within the limit of the device; whole warps if they add up sums."""

    def places(self, block: int) -> int:
        """The number of blocks that run at once on the device."""

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        """Queue it. The arguments are those of `kernel_loop.emit_kernel_loop`: flat device arrays, and integers."""


def _whole_warps(threads: int, most: int, adds: bool) -> int:
    block = min(threads, most)
    return max(WARP, block // WARP * WARP) if adds else block


class TranslatedKernel:
    """A program's own code, on a device. Raises DeviceError RG1003 if the driver does not accept it."""

    def __init__(self, program: Program, device: Device, modes: dict[str, Any]) -> None:
        self.device, self.word = device, np.dtype(DTYPES[program.format.width])
        self.code = Kernel(ptx(program, device.target, **modes), KERNEL, device)

    def block(self, threads: int, *, adds: bool) -> int:
        return _whole_warps(threads, self.code.max_threads, adds)

    def places(self, block: int) -> int:
        return max(1, self.code.blocks_per_multiprocessor(block)) * self.device.multiprocessors

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        self.code.launch(grid, block, arguments, stream)


_interpreters: dict[tuple[Any, Opcodes, int], Kernel] = {}


class InterpreterKernel:
    """The interpreter, and a program decoded for it, on a device."""

    word = np.dtype(np.int64)

    def __init__(self, program: Program, device: Device, modes: dict[str, Any]) -> None:
        self.device, self.format, self.opcodes = device, program.format, opcodes_for(program)
        overflow = modes["checks"] and modes["overflow"]  # without checks words wrap
        flags = Modes.CHECKS * modes["checks"] | Modes.OVERFLOW * overflow | Modes.CYCLES * modes["cycles"]
        code = decoded(program, backward=modes["backward"], cycles=modes["cycles"], core=modes["core"])
        self.modes = int(flags)
        with on(device) as cuda:
            self.code = cuda.to_device(code)
        self.kernel: Kernel | None = None
        if not simulated():
            key = program.format, self.opcodes, device.index
            if key not in _interpreters:
                _interpreters[key] = Kernel(*interpreter_ptx(program.format, device.target, self.opcodes), device)
            self.kernel = _interpreters[key]

    def block(self, threads: int, *, adds: bool) -> int:
        return _whole_warps(threads, MOST_THREADS if self.kernel is None else self.kernel.max_threads, adds)

    def places(self, block: int) -> int:
        if self.kernel is None:
            return 1
        return max(1, self.kernel.blocks_per_multiprocessor(block)) * self.device.multiprocessors

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        every = [*arguments, self.code, self.code.shape[0], self.modes]
        if self.kernel is not None:
            self.kernel.launch(grid, block, every, stream)
            return
        rows, out, count, table, shared = every[:5]
        signed = np.dtype(f"i{DTYPES[self.format.width]().itemsize}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # words wrap
            simulated_kernel(self.format, self.opcodes)[grid, block](
                rows.view(signed), out.view(signed), count, table, shared.view(signed), *every[5:]
            )


class BatchCode:
    """The kernels of a program for a batch of `count` rows, on a device."""

    def __init__(
        self, program: Program, device: Device, modes: dict[str, Any], count: int, tier: str | None = None
    ) -> None:
        """`tier`: `interpreted` or `translated`; None: by the policy. Raises DeviceError RG1003."""
        self.program, self.device, self.modes = program, device, modes
        self._interpreter: InterpreterKernel | None = None
        self._translation: Future[BatchKernel] | None = None
        if tier is None:
            tier = self._decided(count)
        if tier == "translated":
            translated_kernel(program, device, modes)
        else:
            self._interpreter = InterpreterKernel(program, device, modes)
            if tier == "both":
                self._translation = _background().submit(translated_kernel, program, device, modes)

    def _decided(self, count: int) -> str:
        """The tier by the policy, which may begin the interpreter's kernel for later batches."""
        program, target = self.program, self.device.target
        ready = _is_loaded(program, self.device, self.modes) or is_kept(program, target, **self.modes)
        interpreter = program.format, target, opcodes_for(program)
        found = policy.decide_device(len(program.code), count, ready, is_compiled(*interpreter), simulated())
        if found.reason is Reason.DEVICE_WITHOUT_INTERPRETER and found.spent >= found.limit:
            begin_interpreter(*interpreter)
        return found.engine

    def kernel(self) -> BatchKernel:
        """The kernel for the next piece. Raises DeviceError RG1003 where the device does not accept the translated kernel."""
        if self._translation is not None and self._translation.done():
            self._translation.result()
            self._translation = self._interpreter = None
        return self._interpreter or translated_kernel(self.program, self.device, self.modes)


_loaded: OrderedDict[tuple[Any, ...], BatchKernel] = OrderedDict()
_loading = Lock()
_pool: list[ThreadPoolExecutor] = []


def _background() -> ThreadPoolExecutor:
    if not _pool:
        _pool.append(ThreadPoolExecutor(1, thread_name_prefix="retrograd-ptx"))
    return _pool[0]


def _kernel_key(program: Program, device: Device, modes: dict[str, Any]) -> tuple[Any, ...]:
    digest = sha256(repr(tuple(program.code)).encode()).digest()
    return digest, program.format, program.table, device.index, tuple(sorted(modes.items()))


def _is_loaded(program: Program, device: Device, modes: dict[str, Any]) -> bool:
    return _kernel_key(program, device, modes) in _loaded


def translated_kernel(program: Program, device: Device, modes: dict[str, Any]) -> BatchKernel:
    """The translated kernel, loaded once. Raises DeviceError RG1003."""
    key = _kernel_key(program, device, modes)
    with _loading:
        found = _loaded.get(key)
        if found is None:
            found = _loaded[key] = TranslatedKernel(program, device, modes)
            while len(_loaded) > _LOADED:
                _loaded.popitem(last=False)
        _loaded.move_to_end(key)
        return found


# -----------------------------------------------------------------------------
# Batches on GPUs: a kernel runs one piece of the batch while others are copied.
#
#     rows[i] := the kept words of memory, after the program has run on shared words and rows[i],  for each i
#     sums    := Σᵢ of words of memory, exactly
#
# Words, counts and sums equal those of every other engine, and depend neither on the size of blocks nor on the number of devices.

#: pieces of a batch in flight on a device: one arrives, one runs, one leaves
LANES = 3
#: default number of threads in a block; since no thread waits for another, few are as good as many
BLOCK = 128
#: instances in a piece, so that copies and kernels overlap; fewer if memory is short
PIECE = 1 << 18
#: share of the free memory for a batch
SHARE = 0.8
#: bytes of pinned memory that are kept for later batches, on each device
KEPT = 1 << 29


@dataclass(frozen=True)
class Setting:
    """The division of a batch into blocks and pieces, and the kernel that runs it. It does not change the result."""

    block: int = BLOCK
    piece: int = PIECE
    devices: Sequence[int] | None = None
    #: `interpreted` or `translated`; None: by the policy of tiers
    tier: str | None = None


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
    core: str = "small",
    limit: int | None = None,
    progress: Callable[[int], object] | None = None,
    setting: Setting = Setting(),
    timed: Timed | None = None,
) -> RowResults:
    """See `retrograd.simulator.engines.batch.cpu.run_batch`. Raises DeviceError RG1002 to RG1005.

    Several devices take consecutive parts of the batch. `timed` receives the times of the devices.
    """
    places = devices() if setting.devices is None else tuple(device(index) for index in setting.devices)
    memory = memory_of(program, layout_of(rows, columns), shared)
    given_limit = limit_of(limit, "limit")
    limited = UNLIMITED if given_limit is None else min(given_limit, UNLIMITED)
    batch = _Batch(program, rows, memory, limited, setting, progress, timed)
    modes = {"backward": backward, "overflow": overflow, "checks": checks, "cycles": cycles, "core": core}
    if longest_stretch(program, backward) > limited:
        return batch.results(cycles)
    with profiled("retrograd batch"):
        batch.run(places, modes)
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

    def run(self, places: Sequence[Device], modes: dict[str, Any]) -> None:
        """Run all instances. The devices work side by side; this thread serves one after the other."""
        bounds = np.linspace(0, len(self.rows), len(places) + 1).astype(int).tolist()
        parts = [_Part(self, d, a, b, modes) for d, a, b in zip(places, bounds, bounds[1:], strict=False) if a < b]
        waiting = deque(parts)
        while waiting:
            part = waiting.popleft()
            if part.advance():
                waiting.append(part)
        for part in parts:
            part.finish()


class _Part:
    """Consecutive instances of a batch, on one device."""

    def __init__(self, batch: _Batch, where: Device, first: int, last: int, modes: dict[str, Any]) -> None:
        self.batch, self.device, self.next, self.last = batch, where, first, last
        self.code = BatchCode(batch.program, where, modes, last - first, batch.setting.tier)
        self.piece = self._piece(last - first)
        with on(where) as cuda:
            self.shared, self.table = cuda.to_device(batch.memory.shared), cuda.to_device(batch.table)
            self.sums = cuda.to_device(_at_least_one(batch.sums))
            count = min(LANES, -(-(last - first) // self.piece))
            self.lanes = deque(_Lane(self, cuda) for _ in range(count))

    def _piece(self, count: int) -> int:
        """Instances in a piece: the number that fits in memory together with the pieces of the other lanes."""
        batch = self.batch
        free, _ = memory_of_device(self.device)
        item = max(batch.dtype.itemsize, self.code.kernel().word.itemsize)
        words = batch.before.shape[1] + batch.after.shape[1] + batch.n + 1
        each = words * item + REPORT * 8 + 1
        fits = free * SHARE / (LANES * each)
        if fits < 1:
            raise device_error(
                "RG1004",
                f"{self.device} ({self.device.name}) has no room for one instance of {size_text(each)}: "
                f"{size_text(free)} are free",
            )
        return int(min(batch.setting.piece, count, fits))

    def advance(self) -> bool:
        """Queue one piece, after the lane that ran the oldest one is free. Whether there are more."""
        begin, self.next = self.next, min(self.next + self.piece, self.last)
        with on(self.device) as cuda:
            lane = self.lanes.popleft()
            self.lanes.append(lane)
            lane.receive()
            lane.send(cuda, begin, self.next)
        return self.next < self.last

    def finish(self) -> None:
        """Wait for all pieces, and add up the sums of the device."""
        with on(self.device):
            for lane in self.lanes:
                lane.receive()
                _pinned.keep(self.device, lane.pinned)
            self.batch.sums += self.sums.copy_to_host()[: len(self.batch.sums)]


class PinnedMemory:
    """Memory of the host that a device copies from and to while the host goes on. It is kept for later batches: the driver
    takes longer to give it than a kernel runs on as many words.
    """

    def __init__(self) -> None:
        self._kept: dict[int, list[NDArray[np.uint8]]] = {}
        self._lock = threading.Lock()

    def take(self, cuda: Any, where: Device, size: int) -> NDArray[np.uint8]:
        """At least `size` bytes: the smallest kept block with room for them, or a new one."""
        with self._lock:
            kept = self._kept.get(where.index, [])
            fitting = [k for k, block in enumerate(kept) if len(block) >= size]
            if fitting:
                return kept.pop(min(fitting, key=lambda k: len(kept[k])))
        block: NDArray[np.uint8] = cuda.pinned_array(size, np.uint8)
        return block

    def keep(self, where: Device, block: NDArray[np.uint8]) -> None:
        """Take a block back. The blocks that were used longest ago are given up where there are too many."""
        with self._lock:
            kept = self._kept.setdefault(where.index, [])
            kept.append(block)
            while kept and sum(map(len, kept)) > KEPT:
                kept.pop(0)


_pinned = PinnedMemory()


def _parts(block: NDArray[np.uint8], *parts: tuple[int, DTypeLike]) -> list[NDArray[Any]]:
    """Arrays of these numbers of elements and types, one after the other in a block. The types with the largest elements come first."""
    out, at = [], 0
    for count, dtype in parts:
        size = count * np.dtype(dtype).itemsize
        out.append(block[at : at + size].view(dtype))
        at += size
    return out


def _at_least_one(array: NDArray[Any]) -> NDArray[Any]:
    """Zeros for a device, which has no arrays without elements."""
    return np.zeros(max(1, array.size), array.dtype)


def grid_of(kernel: BatchKernel, threads: int, count: int, *, adds: bool) -> tuple[int, int]:
    """(blocks, threads in a block): one thread an instance, within the places of the device; beyond them each thread runs several."""
    block = kernel.block(threads, adds=adds)
    return max(1, min(-(-count // block), kernel.places(block))), block


class _Lane:
    """A stream with room for one piece of the batch; a new piece is sent when the last has come back."""

    def __init__(self, part: _Part, cuda: Any) -> None:
        self.part, batch, piece = part, part.batch, part.piece
        self.stream: Any = cuda.stream()
        given, kept = batch.before.shape[1], batch.after.shape[1]
        self.rows = cuda.device_array(max(1, piece * given), batch.dtype)
        self.out = cuda.device_array(max(1, piece * kept), batch.dtype)
        self.report = cuda.device_array(piece * REPORT, np.int64)
        self.status = cuda.device_array(piece, np.uint8)
        words = max(1, piece * given) + max(1, piece * kept)
        size = piece * (REPORT * 8 + 1) + words * batch.dtype.itemsize
        self.pinned = _pinned.take(cuda, part.device, size)
        self.held_report, self.held_rows, self.held_out, self.held_status = _parts(
            self.pinned,
            (piece * REPORT, np.int64),
            (max(1, piece * given), batch.dtype),
            (max(1, piece * kept), batch.dtype),
            (piece, np.uint8),
        )
        self.kernel: BatchKernel | None = None
        self.grid, self.block = 1, 1
        self.memory: Any = None
        self.events: list[Any] = [cuda.event() for _ in range(4)] if batch.timed is not None else []
        self.sent: tuple[int, int] | None = None

    def _prepare(self, cuda: Any) -> BatchKernel:
        """The kernel for the next piece, with the memories of its threads."""
        part, batch = self.part, self.part.batch
        kernel = part.code.kernel()
        if kernel is not self.kernel:
            self.memory, self.kernel = None, kernel
            adds = bool(len(batch.sums))
            self.grid, self.block = grid_of(kernel, batch.setting.block, part.piece, adds=adds)
            self.memory = cuda.device_array(self.grid * self.block * (batch.n + 1), kernel.word)
        return kernel

    def send(self, cuda: Any, first: int, last: int) -> None:
        """Queue copies and kernel for these instances."""
        part, batch, count, stream = self.part, self.part.batch, last - first, self.stream
        kernel = self._prepare(cuda)
        given = batch.before[first:last].reshape(-1)
        self.held_rows[: given.size] = given
        self._mark(0)
        self.rows.copy_to_device(self.held_rows, stream)
        self._mark(1)
        arguments = [
            self.rows, self.out, count, part.table, part.shared, batch.n, self.memory, self.grid * self.block,
            batch.limit, self.report, self.status, part.sums,
        ]  # fmt: skip
        with profiled("retrograd kernel"):
            kernel.launch(self.grid, self.block, arguments, stream)
        self._mark(2)
        self.out.copy_to_host(self.held_out, stream)
        self.report.copy_to_host(self.held_report, stream)
        self.status.copy_to_host(self.held_status, stream)
        self._mark(3)
        self.sent = first, last

    def _mark(self, k: int) -> None:
        if self.events:
            self.events[k].record(self.stream)

    def receive(self) -> None:
        """Wait for the piece that was sent."""
        if self.sent is None:
            return
        (first, last), batch = self.sent, self.part.batch
        self.sent = None
        self.stream.synchronize()
        count, kept = last - first, batch.after.shape[1]
        batch.after[first:last] = self.held_out[: count * kept].reshape(count, kept)
        batch.report[first:last] = self.held_report[: count * REPORT].reshape(count, REPORT)
        batch.status[first:last] = self.held_status[:count]
        if batch.timed is not None:
            began, arrived, ran, left = self.events
            batch.timed.kernel += arrived.elapsed_time(ran)
            batch.timed.copies += began.elapsed_time(arrived) + ran.elapsed_time(left)
        if batch.progress is not None:
            batch.progress(count)
