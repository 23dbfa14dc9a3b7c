"""Kernels: PTX text translated by the driver for the device at hand, and launched.

    kernel = Module(context, ptx).kernel("add")
    kernel.launch(grid=-(-n // 128), block=128, arguments=[words, c_int64(n)])

Traps: a launch returns at once, and its errors are reported by a later call. Arguments must be as wide as the kernel's
parameters; otherwise the device reads beyond them.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from ctypes import byref, c_int, c_uint64, c_void_p
from typing import Any

from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda.context import Context, Resource, Stream
from retrograd.simulator.engines.cuda.driver import (
    NOT_FOUND,
    OUT_OF_MEMORY,
    REJECTED,
    Device,
    cuda_that_reads,
    device_error,
    newest_ptx,
    version_text,
)

# attributes of a function (CUfunction_attribute)
_MAX_THREADS, _SHARED, _LOCAL, _REGISTERS, _DYNAMIC_SHARED = 0, 1, 3, 4, 8
# options of the compiler in the driver (CUjit_option)
_MAX_REGISTERS, _INFO_LOG, _INFO_SIZE, _ERROR_LOG, _ERROR_SIZE, _LEVEL, _VERBOSE = 0, 3, 4, 5, 6, 7, 12
_LOG_BYTES = 1 << 14
#: lines of the compiler's log that an error shows
_LOG_LINES = 3


class Module(Resource):
    """Code on a device, from PTX text. Raises DeviceError RG1003 if the driver does not accept it.

    `name`: its name in errors. `max_registers`: limit for a thread; other values are in memory. `level`: of optimisation, 0 to 4;
    a lower level compiles faster. `log`: the compiler's report of registers, memory and spills.
    """

    def __init__(
        self, context: Context, ptx: str, *, name: str = "kernels", max_registers: int | None = None, level: int = 4
    ) -> None:
        self.ptx, self.name = ptx, name
        if "\0" in ptx:
            raise device_error("RG1003", f"the code of {name} is no PTX: it holds a NUL")
        log, info = ctypes.create_string_buffer(_LOG_BYTES), ctypes.create_string_buffer(_LOG_BYTES)
        options = {
            _LEVEL: level, _ERROR_LOG: ctypes.addressof(log), _ERROR_SIZE: _LOG_BYTES,
            _INFO_LOG: ctypes.addressof(info), _INFO_SIZE: _LOG_BYTES, _VERBOSE: 1,
        }  # fmt: skip
        if max_registers is not None:
            options[_MAX_REGISTERS] = max_registers
        handle = c_void_p()
        with context.current() as driver:
            result = driver.result(
                "cuModuleLoadDataEx",
                byref(handle),
                ptx.encode() + b"\0",
                len(options),
                (c_int * len(options))(*options),
                # The call takes numbers in the place of pointers.
                (c_void_p * len(options))(*options.values()),
            )
        if result == OUT_OF_MEMORY:
            raise device_error("RG1004", f"{context.device} ({context.device.name}) has no room for the code of {name}")
        if result in REJECTED:
            raise self._rejected(context.device, result, log.value.decode("utf-8", "replace"))
        if result:
            raise driver.failed("cuModuleLoadDataEx", result)
        self.log = info.value.decode("utf-8", "replace").strip()
        super().__init__(context, handle.value or 0, "cuModuleUnload")

    def _rejected(self, device: Device, result: int, log: str) -> DeviceError:
        """The error with the log of the driver's compiler, and whether the driver is too old."""
        driver = device.driver
        lines = [line.strip() for line in log.split("\n") if line.strip("\0 \r\t")]
        said = "; ".join(lines[:_LOG_LINES]) + "; …" * (len(lines) > _LOG_LINES) or driver.describe(result)
        version = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", self.ptx, re.MULTILINE)
        target = re.search(r"^\s*\.target\s+sm_(\d+)(\d)", self.ptx, re.MULTILINE)
        text, hint = "is no PTX", None
        if version is not None:
            ptx = int(version[1]), int(version[2])
            text = f"is PTX {version_text(ptx)}"
            if newest_ptx(driver.version) < ptx:
                needed = cuda_that_reads(ptx)
                hint = f"Update the driver: PTX {version_text(ptx)} needs " + (
                    f"CUDA {version_text(needed)}." if needed else "a newer one."
                )
        if target is not None:
            text += f" for sm_{target[1]}{target[2]}"
            if (int(target[1]), int(target[2])) > device.capability:
                hint = hint or f"Make it anew, for {device.target}."
        error = device_error(
            "RG1003",
            f"the driver does not accept the code of {self.name}: {said}. The code {text}; the driver is of "
            f"CUDA {version_text(driver.version)}, {device} ({device.name}) is {device.target}",
            hint,
        )
        if len(lines) > _LOG_LINES:
            error.add_note("\n".join(lines))
        return error

    def kernel(self, name: str) -> Kernel:
        """The kernel with a name. Raises DeviceError RG1003 if there is none."""
        handle = c_void_p()
        with self.context.current() as driver:
            result = driver.result("cuModuleGetFunction", byref(handle), self.handle, name.encode())
        if result == NOT_FOUND:
            raise device_error(
                "RG1003",
                f"the code of {self.name} has no kernel `{name}`",
                "A kernel is a `.visible .entry` of the PTX; its name there is the one to ask for.",
            )
        if result:
            raise driver.failed("cuModuleGetFunction", result)
        return Kernel(self, name, handle.value or 0)


class Kernel:
    """A function that is launched on the device.

    `registers` and `local_bytes` (spills included) of a thread, `shared_bytes` of a block, and `max_threads` of a block.
    """

    def __init__(self, module: Module, name: str, handle: int) -> None:
        self.module, self.name, self.context = module, name, module.context
        self._handle = handle
        self.registers = self._attribute(_REGISTERS)
        self.local_bytes = self._attribute(_LOCAL)
        self.shared_bytes = self._attribute(_SHARED)
        self.max_threads = self._attribute(_MAX_THREADS)
        self._dynamic_shared = self._attribute(_DYNAMIC_SHARED)

    @property
    def handle(self) -> int:
        """The driver's handle."""
        _ = self.module.handle  # raises if the code was freed
        return self._handle

    def _attribute(self, number: int) -> int:
        value = c_int()
        with self.context.current() as driver:
            driver.call("cuFuncGetAttribute", byref(value), number, self.handle)
        return value.value

    def best_block(self, shared: int = 0, limit: int = 0) -> tuple[int, int]:
        """(threads in a block, blocks) with the greatest number of running threads, and blocks that fill the device.

        `shared`: dynamic shared memory of a block, in bytes; `limit` of the threads; 0: no limit.
        """
        blocks, threads = c_int(), c_int()
        with self.context.current() as driver:
            driver.call(
                "cuOccupancyMaxPotentialBlockSize", byref(blocks), byref(threads), self.handle, None, shared, limit
            )
        return threads.value, blocks.value

    def blocks_per_multiprocessor(self, block: int, shared: int = 0) -> int:
        """The number of blocks of `block` threads that run at once on a multiprocessor."""
        blocks = c_int()
        with self.context.current() as driver:
            driver.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", byref(blocks), self.handle, block, shared)
        return blocks.value

    def occupancy(self, block: int, shared: int = 0) -> float:
        """The share of a multiprocessor's threads that blocks of this size fill, 0 to 1."""
        threads = self.blocks_per_multiprocessor(block, shared) * block
        return threads / self.context.device.threads_per_multiprocessor

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        arguments: Sequence[Any],
        stream: Stream | None = None,
        shared: int = 0,
    ) -> None:
        """Queue it: `grid` blocks of `block` threads each, along one to three axes. A grid without blocks does nothing.

        `arguments`: ctypes values, as wide as the parameters are, or objects with an `address` (memory, arrays). `shared`:
        dynamic shared memory of a block, in bytes.
        """
        size = (*_three(grid), *_three(block))
        if 0 in size[:3]:
            return
        values = [_argument(value) for value in arguments]
        # The driver reads one pointer for each parameter. A final null makes a missing argument fail early.
        pointers = (c_void_p * (len(values) + 1))(*map(ctypes.addressof, values), None)
        with self.context.current() as driver:
            if shared > self._dynamic_shared:  # beyond the default, shared memory must be requested
                driver.call("cuFuncSetAttribute", self.handle, _DYNAMIC_SHARED, shared)
                self._dynamic_shared = shared
            queue = (stream or self.context.default_stream).handle
            driver.call("cuLaunchKernel", self.handle, *size, shared, queue, pointers, None)


def _three(size: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = (size,) if isinstance(size, int) else tuple(size)
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise ValueError(f"a grid or a block of {size}: one to three sizes, none below 0")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _argument(value: Any) -> Any:
    """A ctypes value of the argument; the driver takes a pointer to it."""
    if isinstance(value, ctypes._SimpleCData | ctypes.Structure | ctypes.Array):
        return value
    address = getattr(value, "address", None)
    if not isinstance(address, int):
        raise TypeError(f"a kernel's argument is a ctypes value or device memory, not {type(value).__name__}")
    return c_uint64(address)
