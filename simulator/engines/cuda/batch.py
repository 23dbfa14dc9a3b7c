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
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.program import Program
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.cpu import (
    Memory,
    RowCounts,
    RowResults,
    WordMatrix,
    layout_of,
    memory_of,
)
from retrograd.simulator.engines.batch.layout import BatchLayout, ResultArray, exact_sums, split_columns, width
from retrograd.simulator.engines.batch.loops import WARP, facts_of
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
from retrograd.simulator.engines.cuda.kernels import KERNEL, Mark, is_kept, ptx
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    Kernel,
    address_of_array,
    device,
    device_error,
    devices,
    memory_of_device,
    on,
    profiled,
    simulated,
    size_text,
)
from retrograd.simulator.engines.cuda.teams import most_threads, words_of_team
from retrograd.simulator.engines.llvm.builder import bits_of
from retrograd.simulator.engines.state import UNLIMITED
from retrograd.simulator.engines.tiering import Decision, Reason, policy, record
from retrograd.simulator.stores import limit_of

#: translated kernels that stay loaded
_LOADED = 64


class BatchKernel(Protocol):
    """A kernel that runs a program for each row of a batch."""

    #: type of a word of an instance's memory on the device
    word: np.dtype[Any]
    #: whether several threads may run an instance together (teams.py), and the words that each has behind its memory
    teams: bool
    behind: int

    def block(self, threads: int, *, adds: bool) -> int:
        """Threads in a block: the requested number within the limit of the device; whole warps if they add up sums."""

    def places(self, block: int) -> int:
        """The number of blocks that run at once on the device."""

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        """Queue it.

        The arguments are those of `kernels.emit_kernel_loop`: flat device arrays, pinned arrays, and integers; the
        threads of a team come last, and are left out where the kernel has no teams.
        """


def _whole_warps(threads: int, most: int, adds: bool) -> int:
    block = min(threads, most)
    return max(WARP, block // WARP * WARP) if adds else block


class TranslatedKernel:
    """A program's own code, on a device. Raises DeviceError RG1003 if the driver does not accept it."""

    def __init__(self, program: Program, device: Device, modes: dict[str, Any]) -> None:
        self.device, self.word = device, np.dtype(DTYPES[program.format.width])
        self.teams = bool(modes.get("teams"))
        self.behind = words_of_team(program, modes["backward"]) if self.teams else 0
        self.code = Kernel(ptx(program, device.target, **modes), KERNEL, device)

    def block(self, threads: int, *, adds: bool) -> int:
        return _whole_warps(threads, self.code.max_threads, adds or self.teams)

    def places(self, block: int) -> int:
        return max(1, self.code.blocks_per_multiprocessor(block)) * self.device.multiprocessors

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        self.code.launch(grid, block, arguments, stream)


_interpreters: dict[tuple[Any, Opcodes, int], Kernel] = {}


class InterpreterKernel:
    """The interpreter, and a program decoded for it, on a device."""

    word = np.dtype(np.int64)
    teams, behind = False, 0

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
        arrays, count, shared = every[:3]
        signed = np.dtype(f"i{DTYPES[self.format.width]().itemsize}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # words wrap
            kernel = simulated_kernel(self.format, self.opcodes)
            kernel[grid, block](arrays, count, shared.view(signed), *every[3:])


def threads_of_instance(program: Program, device: Device, modes: dict[str, Any], count: int) -> int:
    """The threads that run an instance of a batch of `count` together: a power of two.

    As many as the longest loop that can be divided has passes, but no more than have places on the device for all
    instances at once.
    """
    places = device.threads_per_multiprocessor * device.multiprocessors // max(1, count)
    found = min(most_threads(program, modes["backward"]), 1 << places.bit_length() - 1) if places > 1 else 1
    return (
        1 if found > 1 and _undivided and _kernel_key(program, device, modes | {"teams": True}) in _undivided else found
    )


class BatchCode:
    """The kernels of a program for a batch of `count` rows, on a device."""

    def __init__(
        self,
        program: Program,
        device: Device,
        modes: dict[str, Any],
        count: int,
        tier: str | None = None,
        team: int = 1,
    ) -> None:
        """`tier`: `interpreted` or `translated`; None: by the policy. `team`: the threads of an instance.

        Raises DeviceError RG1003.
        """
        if team > 1:
            modes = modes | {"teams": True}
        self.program, self.device, self.modes, self._team = program, device, modes, team
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

    def team(self, kernel: BatchKernel) -> int:
        """The threads that run an instance together in a kernel."""
        if not kernel.teams:
            return 1
        # A team of more than a warp is a block, which has fewer threads the more registers they take.
        most = max(WARP, 1 << kernel.block(self._team, adds=True).bit_length() - 1)
        team = min(self._team, most)
        record(Decision(f"{team} threads an element", Reason.DEVICE_TEAMS))
        return team

    def is_undivided(self, marks: NDArray[np.int64]) -> bool:
        """Whether a loop could not be divided, by the marks of a launch: later batches have one thread an instance."""
        found = self._team > 1 and bool(marks[Mark.ALONE])
        if found:
            _undivided.add(_kernel_key(self.program, self.device, self.modes))
        return found


#: kernels whose teams could not divide their loops
_undivided: set[tuple[Any, ...]] = set()
_loaded: OrderedDict[tuple[Any, ...], BatchKernel] = OrderedDict()
_loading = Lock()
_pool: list[ThreadPoolExecutor] = []


def _background() -> ThreadPoolExecutor:
    if not _pool:
        _pool.append(ThreadPoolExecutor(1, thread_name_prefix="retrograd-ptx"))
    return _pool[0]


def _kernel_key(program: Program, device: Device, modes: dict[str, Any]) -> tuple[Any, ...]:
    digest = sha256(repr(tuple(program.code)).encode()).digest()
    hints = program.hints if modes.get("teams") else None
    return digest, program.format, program.table, hints, device.index, tuple(sorted(modes.items()))


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
# Rows of arrays as a kernel reads and writes them.


class GivenRows(NamedTuple):
    """An array on a device, of words or of numbers."""

    address: int
    #: bytes from row to row, from element to element, and of an element: 8, or less for words as wide as those of
    #: memory and for float32s
    row: int
    step: int
    size: int
    #: 2^F of numbers, 0 of words
    scale: float = 0.0


class KeptRows(NamedTuple):
    """The arrays on a device that receive a kept range: words, numbers, or both; an address of 0 for the other."""

    words: int
    #: bytes from row to row of the words, and of a word
    row: int
    size: int
    #: the address of the numbers, and a number over its word
    reals: int = 0
    factor: float = 0.0


def device_table(
    layout: BatchLayout, n: int, given: Sequence[GivenRows], kept: Sequence[KeptRows], counts: Sequence[int]
) -> NDArray[np.int64]:
    """The layout for memories of n words, with an array for each range that is given or kept: `array_table`, of addresses on a device.

    A given range: address, length, then `address`, `row`, `step`, the bits of `scale`, `size`. A kept one: address,
    length, then `words`, `row`,
    `reals`, the bits of `factor`, `size`. `counts`: addresses of the arrays of steps, lost words and cycles; 0 for an
    array that is not kept.
    """
    shared = layout.shared(n)
    out = [len(given), len(shared), len(kept), len(layout.summed), *counts]
    for (address, length), g in zip(layout.given, given, strict=True):
        out += (address, length, g.address, g.row, g.step, bits_of(g.scale), g.size)
    for pair in shared:
        out += pair
    for (address, length), k in zip(layout.kept, kept, strict=True):
        out += (address, length, k.words, k.row, k.reals, bits_of(k.factor), k.size)
    for pair in layout.summed:
        out += pair
    return np.array(out, dtype=np.int64)


# -----------------------------------------------------------------------------
# Batches on GPUs from arrays of the host: a kernel runs one piece of the batch while others are copied.
#
#     rows[i] := the kept words of memory, after the program has run on shared words and rows[i],  for each i
#     sums    := Σᵢ of words of memory, exactly
#
# Words, counts and sums equal those of every other engine, and depend neither on the size of blocks nor on the number of devices.
# Numbers are copied as they are, and become words on the device; results become numbers there.

#: pieces of a batch in flight on a device: one arrives, one runs, one leaves
LANES = 3
#: default number of threads in a block; since no thread waits for another, few are as good as many
BLOCK = 128
#: instances in a piece, so that copies and kernels overlap; fewer if memory is short
PIECE = 1 << 18
#: share of the free memory for a batch
SHARE = 0.8
#: bytes of pinned memory, and of a device's memory, that are kept for later batches, for each device
KEPT = 1 << 29


@dataclass(frozen=True)
class Setting:
    """The division of a batch into blocks and pieces, and the kernel that runs it. It does not change the result."""

    block: int = BLOCK
    piece: int = PIECE
    devices: Sequence[int] | None = None
    #: `interpreted` or `translated`; None: by the policy of tiers
    tier: str | None = None
    #: threads that run an instance together; None: by the policy of `threads_of_instance`
    team: int | None = None


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
    layout = layout_of(rows, columns)
    words = np.asarray(rows).astype(np.uint64, copy=False)
    out = np.zeros((len(rows), width(layout.kept)), dtype=np.uint64)
    kept = [ResultArray(part, None, program.format) for part in split_columns(out, layout.kept)]
    modes = {"backward": backward, "overflow": overflow, "checks": checks, "cycles": cycles, "core": core}
    counts = run_arrays(
        program, layout, len(rows), split_columns(words, layout.given), kept, shared,
        modes=modes, limit=limit_of(limit, "limit"), progress=progress, setting=setting, timed=timed,
    )  # fmt: skip
    if layout.kept == layout.given:
        out[counts.failed] = words[counts.failed]
    lost = np.zeros(len(out), dtype=np.int64) if counts.lost_words is None else counts.lost_words
    return RowResults(**{**vars(counts), "lost_words": lost}, rows=out)


def run_arrays(
    program: Program,
    layout: BatchLayout,
    count: int,
    given: Sequence[NDArray[Any]],
    kept: Sequence[ResultArray],
    shared: WordMatrix | None,
    *,
    modes: dict[str, Any],
    limit: int | None = None,
    progress: Callable[[int], object] | None = None,
    setting: Setting = Setting(),
    timed: Timed | None = None,
) -> RowCounts:
    """Run the program for each row of the `given` arrays, and write its results into the `kept` ones: see `cpu.RowRuns`.

    `modes`: the options by which kernels differ, `backward`, `overflow`, `checks`, `cycles` and `core`. Raises
    DeviceError RG1002 to RG1005.
    """
    places = devices() if setting.devices is None else tuple(device(index) for index in setting.devices)
    limited = UNLIMITED if limit is None else min(limit, UNLIMITED)
    batch = _Batch(program, layout, count, given, kept, memory_of(program, layout, shared), limited, setting)
    facts = facts_of(tuple(program.code), program.format, program.table, modes["backward"])
    batch.count(facts.loses, modes["cycles"])
    batch.progress, batch.timed = progress, timed
    if facts.stretch <= limited:
        with profiled("retrograd batch"):
            batch.run(places, modes)
    return batch.results()


class _Batch:
    """A batch that runs."""

    progress: Callable[[int], object] | None
    timed: Timed | None

    def __init__(
        self,
        program: Program,
        layout: BatchLayout,
        rows: int,
        given: Sequence[NDArray[Any]],
        kept: Sequence[ResultArray],
        memory: Memory,
        limit: int,
        setting: Setting,
    ) -> None:
        self.program, self.layout, self.rows, self.limit, self.setting = program, layout, rows, limit, setting
        self.given, self.kept, self.memory, self.n = given, kept, memory, len(memory.shared)
        self.dtype = np.dtype(DTYPES[program.format.width])
        self.status = np.ones(rows, dtype=np.uint8)
        self.sums = np.zeros(2 * width(layout.summed), dtype=np.int64)
        self.refused = self.lossy = False
        #: types of the given arrays on the device: words are as wide as those of memory
        self.types = [np.dtype(np.float64) if a.dtype == np.float64 else self.dtype for a in given]

    def count(self, loses: bool, cycles: bool) -> None:
        """Make the arrays of steps, lost words and cycles."""
        wanted = True, loses, cycles
        self.counts = [np.zeros(self.rows, dtype=np.int64) if one else None for one in wanted]

    def results(self) -> RowCounts:
        steps, lost, cycles = self.counts
        assert steps is not None
        failed = np.flatnonzero(self.status)
        return RowCounts(
            steps=steps,
            lost_words=lost,
            failed=failed,
            sums=exact_sums(self.sums),
            cycles=cycles,
            refused=self.refused,
            lossy=self.lossy,
        )

    def run(self, places: Sequence[Device], modes: dict[str, Any]) -> None:
        """Run all instances. The devices work side by side; this thread serves one after the other."""
        bounds = np.linspace(0, self.rows, len(places) + 1).astype(int).tolist()
        parts = [_Part(self, d, a, b, modes) for d, a, b in zip(places, bounds, bounds[1:], strict=False) if a < b]
        waiting = deque(parts)
        while waiting:
            part = waiting.popleft()
            if part.advance():
                waiting.append(part)
        for part in parts:
            part.finish()

    def arrays_of_piece(self) -> list[tuple[int, np.dtype[Any]]]:
        """(elements of a row, type) of the arrays of a piece: the given ones, words and numbers of the kept ones, counts, status, marks."""
        out = [(n, dtype) for (_, n), dtype in zip(self.layout.given, self.types, strict=True)]
        for (_, n), result in zip(self.layout.kept, self.kept, strict=True):
            out.append((n if result.words is not None else 0, self.dtype))
            out.append((n if result.reals is not None else 0, np.dtype(np.float64)))
        return [*out, *((int(a is not None), np.dtype(np.int64)) for a in self.counts), (1, np.dtype(np.uint8))]


class _Part:
    """Consecutive instances of a batch, on one device."""

    def __init__(self, batch: _Batch, where: Device, first: int, last: int, modes: dict[str, Any]) -> None:
        self.batch, self.device, self.next, self.last = batch, where, first, last
        program, count, team = batch.program, last - first, batch.setting.team
        self.team = threads_of_instance(program, where, modes, count) if team is None else team
        self.code = BatchCode(program, where, modes, count, batch.setting.tier, self.team)
        self.piece = self._piece(last - first)
        with on(where) as cuda:
            self.shared = cuda.to_device(batch.memory.shared)
            self.sums = cuda.to_device(at_least_one(batch.sums))
            count = min(LANES, -(-(last - first) // self.piece))
            self.lanes = deque(_Lane(self, cuda) for _ in range(count))

    def _piece(self, count: int) -> int:
        """Instances in a piece: the number that fits in memory together with the pieces of the other lanes."""
        batch = self.batch
        free, _ = memory_of_device(self.device)
        kernel = self.code.kernel()
        size = max(batch.dtype.itemsize, kernel.word.itemsize)
        each = (batch.n + 1 + kernel.behind) * self.code.team(kernel) * size
        each += sum(n * dtype.itemsize for n, dtype in batch.arrays_of_piece())
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
                lane.end()
            if len(self.batch.sums):
                self.batch.sums += self.sums.copy_to_host()


class KeptMemory:
    """Memory that a call of numba.cuda gives, kept for later batches: the driver takes longer to give it than a kernel runs on as many words.

    `call`: `pinned_array`, memory of the host that a device copies from and to while the host goes on; or
    `device_array`.
    """

    def __init__(self, call: str) -> None:
        self._call = call
        self._kept: dict[int, list[Any]] = {}
        self._lock = threading.Lock()

    def take(self, cuda: Any, where: Device, size: int) -> Any:
        """At least `size` bytes: the smallest kept block with room for them, or a new one."""
        with self._lock:
            kept = self._kept.get(where.index, [])
            fitting = [k for k, block in enumerate(kept) if block.nbytes >= size]
            if fitting:
                return kept.pop(min(fitting, key=lambda k: kept[k].nbytes))
        return getattr(cuda, self._call)(max(8, size), np.uint8)

    def keep(self, where: Device, block: Any) -> None:
        """Take a block back. The blocks that were used longest ago are given up where there are too many."""
        with self._lock:
            kept = self._kept.setdefault(where.index, [])
            kept.append(block)
            while kept and sum(one.nbytes for one in kept) > KEPT:
                kept.pop(0)


pinned_memory, device_memory = KeptMemory("pinned_array"), KeptMemory("device_array")


def places_in_block(parts: Sequence[tuple[int, DTypeLike]]) -> tuple[list[tuple[int, int]], int]:
    """(the bytes [first, last) of arrays of these numbers of elements and types in a block, the bytes of all): larger elements come first."""
    order = sorted(range(len(parts)), key=lambda k: -np.dtype(parts[k][1]).itemsize)
    out, at = [(0, 0)] * len(parts), 0
    for k in order:
        size = parts[k][0] * np.dtype(parts[k][1]).itemsize
        out[k], at = (at, at + size), at + size
    return out, at


def at_least_one(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or an element where it has none: a device has no arrays without elements."""
    return array if array.size else np.zeros(1, array.dtype)


def grid_of(kernel: BatchKernel, threads: int, count: int, *, adds: bool, team: int = 1) -> tuple[int, int]:
    """(blocks, threads in a block) for `count` threads, within the places of the device.

    Beyond them, each thread runs several instances. A team of more than a warp is a block.
    """
    block = kernel.block(threads if team <= WARP else team, adds=adds)
    return max(1, min(-(-count // block), kernel.places(block))), block


class _Lane:
    """A stream with room for one piece of the batch; a new piece is sent when the last has come back."""

    def __init__(self, part: _Part, cuda: Any) -> None:
        self.part, batch, piece = part, part.batch, part.piece
        self.stream: Any = cuda.stream()
        sizes = [(piece * n, dtype) for n, dtype in batch.arrays_of_piece()]
        # The device writes marks into the memory of the host.
        marks = Mark.LARGE + len(batch.kept)
        places, size = places_in_block([*sizes, (marks, np.int64)])
        self.pinned = pinned_memory.take(cuda, part.device, size)
        self.block_on_device = device_memory.take(cuda, part.device, size)
        #: the arrays of a piece here and there, None for arrays that are not kept
        self.held: list[Any]
        self.there: list[Any]
        self.held, self.there = (
            [
                block[first:last].view(dtype) if last > first else None
                for (first, last), (_, dtype) in zip(places, sizes, strict=False)
            ]
            for block in (self.pinned, self.block_on_device)
        )
        first, last = places[-1]
        self.marks = self.pinned[first:last].view(np.int64)
        self.kernel: BatchKernel | None = None
        self.grid, self.block = 1, 1
        #: the last argument of a kernel with teams
        self.team: list[int] = []
        #: the memories of the threads: bytes, and words
        self.memory: Any = None
        self.words: Any = None
        self.table = cuda.to_device(self._table())
        self.events: list[Any] = [cuda.event() for _ in range(4)] if batch.timed is not None else []
        self.sent: tuple[int, int] | None = None

    def _table(self) -> NDArray[np.int64]:
        batch, layout = self.part.batch, self.part.batch.layout
        places = [0 if array is None else address_of_array(array) for array in self.there]
        inputs, outputs, counts = len(batch.given), 2 * len(batch.kept), len(batch.counts)
        given = [
            GivenRows(at, n * dtype.itemsize, dtype.itemsize, dtype.itemsize, 2.0**batch.program.format.frac * (dtype.kind == "f"))
            for at, (_, n), dtype in zip(places, layout.given, batch.types, strict=False)
        ]  # fmt: skip
        size = batch.dtype.itemsize
        kept = [
            KeptRows(places[inputs + 2 * k], n * size, size, places[inputs + 2 * k + 1], result.factor)
            for k, ((_, n), result) in enumerate(zip(layout.kept, batch.kept, strict=True))
        ]
        return device_table(layout, batch.n, given, kept, places[inputs + outputs : inputs + outputs + counts])

    def _prepare(self, cuda: Any) -> BatchKernel:
        """The kernel for the next piece, with the memories of its threads."""
        part, batch = self.part, self.part.batch
        kernel = part.code.kernel()
        if kernel is not self.kernel:
            self._give_back(self.memory)
            self.memory, self.kernel = None, kernel
            team = part.code.team(kernel)
            self.team, threads = [team] * kernel.teams, part.piece * team
            sums = bool(len(batch.sums))
            self.grid, self.block = grid_of(kernel, batch.setting.block, threads, adds=sums, team=team)
            size = self.grid * self.block * (batch.n + 1 + kernel.behind) * kernel.word.itemsize
            self.memory = device_memory.take(cuda, part.device, size)
            self.words = self.memory[:size].view(kernel.word)
        return kernel

    def _give_back(self, block: Any) -> None:
        if block is not None:
            device_memory.keep(self.part.device, block)

    def end(self) -> None:
        """Give the memory back for later batches."""
        pinned_memory.keep(self.part.device, self.pinned)
        self._give_back(self.block_on_device)
        self._give_back(self.memory)
        self.memory = self.words = None

    def send(self, cuda: Any, first: int, last: int) -> None:
        """Queue copies and kernel for these instances."""
        part, batch, count, stream = self.part, self.part.batch, last - first, self.stream
        kernel = self._prepare(cuda)
        self.marks[:] = 0
        self._mark(0)
        for array, here, there in zip(batch.given, self.held, self.there, strict=False):
            if here is not None:
                rows = array[first:last]
                here[: rows.size].reshape(rows.shape)[:] = rows
                there.copy_to_device(here, stream)
        self._mark(1)
        arguments = [
            self.table, count, part.shared, batch.n, self.words, self.grid * self.block,
            batch.limit, self.there[-1], part.sums, self.marks, *self.team,
        ]  # fmt: skip
        with profiled("retrograd kernel"):
            kernel.launch(self.grid, self.block, arguments, stream)
        self._mark(2)
        for here, there in zip(self.held[len(batch.given) : -1], self.there[len(batch.given) : -1], strict=True):
            if here is not None:
                there.copy_to_host(here, stream)
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
        count = last - first
        status = batch.status[first:last]
        status[:] = 0
        if self.marks[Mark.FAILED]:
            self.there[-1].copy_to_host(self.held[-1], self.stream)
            self.stream.synchronize()
            status[:] = self.held[-1][:count]
        self.part.code.is_undivided(self.marks)
        batch.refused |= bool(self.marks[Mark.REFUSED])
        batch.lossy |= bool(self.marks[Mark.LOSSY])
        ended = status == 0 if status.any() else slice(None)
        held = iter(self.held[len(batch.given) :])
        for k, ((_, n), result) in enumerate(zip(batch.layout.kept, batch.kept, strict=True)):
            for target in (result.words, result.reals):
                array = next(held)
                if target is not None and array is not None:
                    target[first:last][ended] = array[: count * n].reshape(count, n)[ended]
            result.large |= bool(self.marks[Mark.LARGE + k])
        for numbers in batch.counts:
            array = next(held)
            if numbers is not None and array is not None:
                numbers[first:last][ended] = array[:count][ended]
        if batch.timed is not None:
            began, arrived, ran, left = self.events
            batch.timed.kernel += arrived.elapsed_time(ran)
            batch.timed.copies += began.elapsed_time(arrived) + ran.elapsed_time(left)
        if batch.progress is not None:
            batch.progress(count)
