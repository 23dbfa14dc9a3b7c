"""CUDA runtime: devices, streams, events, arrays and kernels, through Numba's CUDA target.

    for device in devices(): …
    with on(device):
        words = numba_cuda().to_device(array)
        kernel = Kernel(ptx, "retrograd_batch", device)
        kernel.launch(grid, block, [words, len(words)], stream)

This is the only module that imports `numba.cuda` (the package numba-cuda), and it does so when it is first used. Numba has the
contexts, arrays, streams and events. PTX text is loaded and launched by `cuda.core`, the library of NVIDIA on which numba-cuda itself
is built. Numba retains the primary context of a device, which PyTorch, JAX and CuPy use, too, so that their arrays can be used in place.

Under Numba's CUDA simulator (NUMBA_ENABLE_CUDASIM=1) arrays lie in the host's memory and PTX cannot run.

Traps: a launch returns at once, and its errors are raised by a later call. A device array is freed when it is collected, so a
reference to it is kept until the stream is synchronised.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from retrograd.isa.diagnostics import DeviceError, Diagnostic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike

#: (major, minor)
Version = tuple[int, int]

#: a pattern of the text of an error, its code, and the remedy
_MEANINGS: tuple[tuple[str, str, str | None], ...] = (
    (r"OUT_OF_MEMORY", "RG1004", None),
    (r"INVALID_PTX|UNSUPPORTED_PTX|NO_BINARY_FOR_GPU|INVALID_IMAGE|INVALID_SOURCE|JIT_", "RG1003", None),
    (r"INVALID_HANDLE|_NOT_FOUND", "RG1003", None),
    (
        r"NO_DEVICE|NOT_INITIALIZED|SYSTEM_DRIVER_MISMATCH|DEVICE_UNAVAILABLE|driver init|library cannot be found",
        "RG1002",
        "`retrograd devices` lists the devices. The CPU runs every program.",
    ),
    (r"ILLEGAL_ADDRESS|LAUNCH_FAILED|ASSERT|MISALIGNED", "RG1005", "The device is usable again in a new process."),
)
#: classes of the errors that Numba and cuda.core raise; they are private, so they are known by their names
_ERRORS = frozenset({"CudaAPIError", "CudaDriverError", "CudaSupportError", "CUDAError", "LinkerError", "NVRTCError"})


#: a remedy where there is no device
CPU_RUNS = "The CPU runs every program."


def device_error(code: str, message: str, hint: str | None = None) -> DeviceError:
    return DeviceError(Diagnostic(code, message, hint=hint))


def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def size_text(size: float) -> str:
    """A number of bytes, to three or four digits."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


# ---------------------------------------------------------------------------------------------- Numba


#: the module of numba-cuda that puts its `numba.cuda` in the place of Numba's
_REDIRECTOR = "_numba_cuda_redirector"


def numba_cuda() -> ModuleType:
    """The module `numba.cuda` of numba-cuda. Raises DeviceError RG1002 if there is none."""
    if importlib.util.find_spec("numba_cuda") is None:
        raise device_error(
            "RG1002", "the package numba-cuda is not installed", "`pip install 'retrograd[cuda]'` installs it."
        )
    try:
        # Python does this when it starts, if numba-cuda lies in site-packages. In a folder of PYTHONPATH its start-up file is not read.
        if importlib.util.find_spec(_REDIRECTOR) is not None:
            importlib.import_module(_REDIRECTOR)
        from numba import cuda  # the one import of numba.cuda
    except Exception as error:  # an incompatible NumPy or a broken toolkit: any exception
        raise device_error("RG1002", f"numba-cuda cannot be imported: {_one_line(error)}") from error
    module: ModuleType = cuda
    if "numba_cuda" not in str(module.__file__):
        raise device_error(
            "RG1002",
            "`numba.cuda` is Numba's own, not that of numba-cuda",
            "Another module has imported it first: run a batch on the GPU, or `import _numba_cuda_redirector`, before that import.",
        )
    return module


def simulated() -> bool:
    """Whether Numba's CUDA simulator takes the place of the devices."""
    numba_cuda()
    import numba

    return bool(numba.config.ENABLE_CUDASIM)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def translated_errors(what: str = "a CUDA call") -> Iterator[None]:
    """Raise errors of Numba and of cuda.core as DeviceError RG1002 to RG1005. `what`: the subject of the message."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DeviceError) or not _ERRORS & {kind.__name__ for kind in type(error).__mro__}:
            raise
        text = _one_line(error)
        code, hint = next(((c, h) for pattern, c, h in _MEANINGS if re.search(pattern, text)), ("RG1005", None))
        raise device_error(code, f"{what} failed: {text}", hint) from error


# ---------------------------------------------------------------------------------------------- devices


@dataclass(frozen=True)
class Device:
    """A device and its resources; the clock in kHz."""

    index: int
    name: str
    capability: Version
    multiprocessors: int
    clock: int
    threads_per_multiprocessor: int

    def __str__(self) -> str:
        return f"cuda:{self.index}"

    @property
    def target(self) -> str:
        """Its architecture in LLVM's notation: sm_90."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


def devices() -> tuple[Device, ...]:
    """The devices, without devices that CUDA_VISIBLE_DEVICES hides. Raises DeviceError RG1002 if there are none."""
    cuda = numba_cuda()
    if not cuda.is_available():
        why = cuda.cuda_error()
        text = " ".join(str(why).split()) if why else "the CUDA driver finds no device"
        raise device_error("RG1002", text.rstrip("."), CPU_RUNS)
    with translated_errors("the list of devices"):
        found = tuple(_described(index, cuda.gpus[index]) for index in range(len(cuda.gpus)))
    if not found:
        raise device_error("RG1002", "the CUDA driver finds no device")
    return found


def _described(index: int, gpu: Any) -> Device:
    major, minor = gpu.compute_capability
    if simulated():
        return Device(index, "Numba's CUDA simulator", (major, minor), 1, 0, 1024)
    name = gpu.name.decode() if isinstance(gpu.name, bytes) else str(gpu.name)
    return Device(
        index, name, (major, minor), gpu.MULTIPROCESSOR_COUNT, gpu.CLOCK_RATE, gpu.MAX_THREADS_PER_MULTIPROCESSOR
    )


def device(index: int = 0) -> Device:
    """The device with an index. Raises DeviceError RG1002 if there is none."""
    found = devices()
    if not 0 <= index < len(found):
        there = "the only one is 0" if len(found) == 1 else f"they are 0 to {len(found) - 1}"
        raise device_error("RG1002", f"there is no CUDA device {index}: {there}")
    return found[index]


@contextmanager
def on(where: Device) -> Iterator[Any]:
    """numba.cuda, with the device current in this thread; errors of calls are raised as DeviceError."""
    cuda = numba_cuda()
    with translated_errors(f"a call of {where}"), cuda.gpus[where.index]:
        yield cuda


def memory_of_device(where: Device) -> tuple[float, float]:
    """(free, total) bytes of the device's memory; infinite under the simulator."""
    with on(where) as cuda:
        free, total = cuda.current_context().get_memory_info()
    return free, total


def driver_version() -> Version | None:
    """The newest CUDA that the driver serves, such as (12, 4); None under the simulator. Raises DeviceError."""
    if simulated():
        return None
    from cuda.core import system

    with translated_errors("the version of the driver"):
        major, minor = tuple(system.get_user_mode_driver_version())[:2]
    return int(major), int(minor)


# ---------------------------------------------------------------------------------------------- kernels


def address_of_array(array: Any) -> int:
    """The address of a device array, or of pinned memory of the host, which a device reads and writes at the same address."""
    import numpy as np

    if simulated() or isinstance(array, np.ndarray):
        return int(array.ctypes.data)
    return int(array.__cuda_array_interface__["data"][0] or 0)


class Kernel:
    """A kernel of PTX text, loaded on a device. Raises DeviceError RG1003 if the driver does not accept the text.

    `registers` and `local_bytes` (spills included) of a thread, `shared_bytes` of a block, and `max_threads` of a block.
    """

    def __init__(self, text: str, name: str, where: Device) -> None:
        self.name, self.device = name, where
        if simulated():
            hint = (
                "Unset NUMBA_ENABLE_CUDASIM where there is a GPU. In the simulator, run a batch: rg.run_batch or vmap."
            )
            raise device_error("RG1003", f"Numba's CUDA simulator runs no PTX, and `{name}` is PTX", hint)
        from cuda.core import ObjectCode

        with on(where), translated_errors(f"loading `{name}` on {where} ({where.target})"):
            self._kernel: Any = ObjectCode.from_ptx(text.encode()).get_kernel(name)
            found = self._kernel.attributes
            self.registers, self.local_bytes = int(found.num_regs), int(found.local_size_bytes)
            self.shared_bytes, self.max_threads = int(found.shared_size_bytes), int(found.max_threads_per_block)

    def blocks_per_multiprocessor(self, block: int) -> int:
        """The number of blocks of `block` threads that run at once on a multiprocessor."""
        with on(self.device):
            return int(self._kernel.occupancy.max_active_blocks_per_multiprocessor(block, 0))

    def occupancy(self, block: int) -> float:
        """The share of a multiprocessor's threads that blocks of this size fill, 0 to 1."""
        return self.blocks_per_multiprocessor(block) * block / self.device.threads_per_multiprocessor

    def launch(self, grid: int, block: int, arguments: Sequence[Any], stream: Any) -> None:
        """Queue `grid` blocks of threads in a stream of Numba or a graph. `arguments`: device arrays, and 64-bit integers."""
        from cuda.core import LaunchConfig, launch

        words = [a if isinstance(a, int) else address_of_array(a) for a in arguments]
        queue = _queue(stream) if hasattr(stream, "__cuda_stream__") else stream
        launch(queue, LaunchConfig(grid=grid, block=block), self._kernel, *words)


def _queue(stream: Any) -> Any:
    """A stream of Numba as one of cuda.core."""
    from cuda.core import Stream

    return Stream.from_handle(int(stream.__cuda_stream__()[1]))


def graph_of(stream: Any, launches: Callable[[Any], None]) -> Callable[[], None]:
    """What queues launches in a stream at once, as a graph of the driver; `launches(graph)` launches them.

    Trap: it keeps no array alive.
    """
    queue = _queue(stream)
    with translated_errors("recording launches"):
        builder = queue.create_graph_builder()
        builder.begin_building()
        launches(builder)
        graph = builder.end_building().complete()

    def launch() -> None:
        graph.launch(queue)

    return launch


def compiled_by_numba(
    define: Callable[[Callable[..., Any]], Any], parameters: Sequence[DTypeLike | None], target: str
) -> str:
    """PTX of a kernel of numba.cuda for an architecture; `define(view)` returns it as a Python function.

    `view(pointer, shape)` makes an array of a pointer. A parameter is a pointer to words of a type, or, for None, an integer of 64 bits.
    """
    cuda = numba_cuda()
    from numba.cuda import types
    from numba.cuda.np.numpy_support import carray, from_dtype

    found = [types.int64 if p is None else types.CPointer(from_dtype(p)) for p in parameters]
    capability = int(target[3:-1]), int(target[-1])
    with translated_errors("compiling a kernel"):
        text, _ = cuda.compile_ptx(define(carray), types.void(*found), cc=capability)
    return str(text)


def memory_access(**types: DTypeLike) -> dict[str, Callable[..., Any]]:
    """`load_NAME(address)` and `store_NAME(address, value)` for functions of numba.cuda: an element of a type at an address of the device."""
    import numpy as np

    out: dict[str, Callable[..., Any]] = {}
    for name, kind in types.items():
        out[f"load_{name}"], out[f"store_{name}"] = (_host_access if simulated() else _device_access)(np.dtype(kind))
    return out


def _host_access(dtype: np.dtype[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Under the simulator, where the memory of a device is the host's."""
    import numpy as np

    cell: Any = np.ctypeslib.as_ctypes_type(dtype)

    def store(address: Any, value: Any) -> None:
        cell.from_address(int(address)).value = value.item()

    return lambda address: dtype.type(cell.from_address(int(address)).value), store


def _device_access(dtype: np.dtype[Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    from numba.cuda import types
    from numba.cuda.extending import intrinsic
    from numba.cuda.np.numpy_support import from_dtype

    cell, defined = from_dtype(dtype), cast("Callable[[Any], Callable[..., Any]]", intrinsic)

    def pointer(context: Any, builder: Any, address: Any) -> Any:
        return builder.inttoptr(address, context.get_value_type(cell).as_pointer())

    @defined
    def load(typing: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.load(pointer(context, builder, arguments[0]))

        return cell(types.int64), code

    @defined
    def store(typing: Any, address: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.store(arguments[1], pointer(context, builder, arguments[0]))
            return context.get_dummy_value()

        return types.void(types.int64, cell), code

    return load, store


# ---------------------------------------------------------------------------------------------- arrays of other libraries


def view_by_dlpack(value: Any, where: Device) -> Any:
    """A view of an array that is lent by DLPack, ready when this returns: it has ptr, shape, strides in elements, dtype and readonly."""
    from cuda.core.utils import StridedMemoryView

    with on(where) as cuda:
        # The lender makes this stream wait for its own work.
        stream = cuda.stream()
        view = StridedMemoryView.from_dlpack(value, int(stream.__cuda_stream__()[1]))
        stream.synchronize()
    return view


def array_of_interface(lender: Any, where: Device, shape: tuple[int, ...], dtype: Any) -> Any:
    """A device array on the memory of an object with a CUDA array interface, to which it holds a reference."""
    with on(where) as cuda:
        if not simulated():
            return cuda.as_cuda_array(lender)
        # The memory of a simulated device is the host's.
        import numpy as np
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        address, size = int(lender.__cuda_array_interface__["data"][0] or 0), prod(shape) * dtype.itemsize
        memory = (ctypes.c_ubyte * size).from_address(address) if size else bytearray()
        if size:
            memory.lender = lender  # type: ignore[union-attr]
        return FakeCUDAArray(np.frombuffer(memoryview(memory), dtype).reshape(shape))


@contextmanager
def profiled(name: str) -> Iterator[None]:
    """A range of the profiler's time line (NVTX), where the package nvtx is installed."""
    if importlib.util.find_spec("nvtx") is None:
        yield
        return
    import nvtx

    with nvtx.annotate(name, domain="retrograd"):
        yield
