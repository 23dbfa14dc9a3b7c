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

import warnings
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from threading import Lock
from typing import Any, Protocol

import numpy as np
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.instance_loop import WARP
from retrograd.simulator.engines.cuda.interpreter import Modes, Opcodes, decoded, opcodes_for
from retrograd.simulator.engines.cuda.interpreter_kernel import (
    MOST_THREADS,
    begin_interpreter,
    interpreter_ptx,
    is_compiled,
    simulated_kernel,
)
from retrograd.simulator.engines.cuda.ptx import KERNEL, is_kept, ptx
from retrograd.simulator.engines.cuda.runtime import Device, Kernel, on, simulated
from retrograd.simulator.engines.state.words import DTYPES
from retrograd.simulator.engines.tiering import Reason, policy

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
