"""The CUDA driver by ctypes: its library, calls, errors and devices.

    driver().devices  ·  driver().call("cuCtxSynchronize")

Kernels are PTX text from LLVM's NVPTX back end. They are loaded and launched through the *driver API*, not through a Python
package for CUDA. Its interface is frozen (a function that changes gets a new name, such as cuMemAlloc_v2) and comes with
the driver, so a machine with a GPU needs no other installation. Packages for CUDA depend on certain versions of NumPy, the
toolkit and the driver. `context` has the resources of a device. It retains the primary context, which PyTorch, JAX, CuPy and
Numba use, too, so that their arrays in the same process can be used in place (`arrays`).

Nothing here imports NumPy: `retrograd devices` starts at once. Source: CUDA Driver API, cuda.h of CUDA 11.0 to 13.0.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from retrograd.isa.diagnostics import DeviceError, Diagnostic

_Handle = c_void_p  # CUcontext, CUmodule, CUfunction, CUstream, CUevent: opaque pointers
_Address = c_uint64  # CUdeviceptr: unsigned long long
_Device = c_int  # CUdevice

#: function -> types of its arguments. Each returns a CUresult.
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(_Device), c_int),
    "cuDeviceGetName": (c_char_p, c_int, _Device),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, _Device),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), _Device),
    "cuDevicePrimaryCtxRetain": (POINTER(_Handle), _Device),
    "cuDevicePrimaryCtxRelease_v2": (_Device,),
    "cuCtxPushCurrent_v2": (_Handle,),
    "cuCtxPopCurrent_v2": (POINTER(_Handle),),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemAlloc_v2": (POINTER(_Address), c_size_t),
    "cuMemFree_v2": (_Address,),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoDAsync_v2": (_Address, c_void_p, c_size_t, _Handle),
    "cuMemcpyDtoHAsync_v2": (c_void_p, _Address, c_size_t, _Handle),
    "cuMemcpyDtoDAsync_v2": (_Address, _Address, c_size_t, _Handle),
    "cuMemsetD8Async": (_Address, c_ubyte, c_size_t, _Handle),
    "cuPointerGetAttribute": (c_void_p, c_int, _Address),
    "cuStreamCreate": (POINTER(_Handle), c_uint),
    "cuStreamDestroy_v2": (_Handle,),
    "cuStreamSynchronize": (_Handle,),
    "cuStreamQuery": (_Handle,),
    "cuStreamWaitEvent": (_Handle, _Handle, c_uint),
    "cuEventCreate": (POINTER(_Handle), c_uint),
    "cuEventDestroy_v2": (_Handle,),
    "cuEventRecord": (_Handle, _Handle),
    "cuEventSynchronize": (_Handle,),
    "cuEventQuery": (_Handle,),
    "cuEventElapsedTime": (POINTER(c_float), _Handle, _Handle),
    "cuModuleLoadDataEx": (POINTER(_Handle), c_void_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleUnload": (_Handle,),
    "cuModuleGetFunction": (POINTER(_Handle), _Handle, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, _Handle),
    "cuFuncSetAttribute": (_Handle, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), _Handle, c_int, c_size_t),
    # The third is a callback, from a block's size to its shared memory; ours does not depend on the size.
    "cuOccupancyMaxPotentialBlockSize": (POINTER(c_int), POINTER(c_int), _Handle, c_void_p, c_size_t, c_int),
    "cuLaunchKernel": (_Handle, *[c_uint] * 7, _Handle, POINTER(c_void_p), POINTER(c_void_p)),
}

#: results (CUresult) with an error of their own
OUT_OF_MEMORY, NOT_FOUND, NOT_READY = 2, 500, 600
#: results for code that is not accepted: image, PTX, PTX version, architecture, no compiler or none allowed
REJECTED = frozenset({200, 209, 218, 221, 222, 223, 225, 300})

#: attributes of a device (CUdevice_attribute)
_THREADS_PER_BLOCK, _SHARED_PER_BLOCK, _WARP, _CLOCK, _MULTIPROCESSORS = 1, 97, 10, 13, 16
_THREADS_PER_MULTIPROCESSOR, _MAJOR, _MINOR = 39, 75, 76

#: result of a failed start of CUDA or a device -> (reason, remedy)
_STARTING = {
    3: ("it was started before this process was forked from another",
        "Start processes with multiprocessing's method `spawn` or `forkserver`."),
    34: ("what was found is the toolkit's stub of it, made for linking only",
         "Take the folder `stubs` out of LD_LIBRARY_PATH."),
    46: ("the device is busy or out of order, or another process has it for itself",
         "`nvidia-smi` shows which; wait for the process, or take another device."),
    100: ("it finds no device",
          "See whether `nvidia-smi` lists one, and what CUDA_VISIBLE_DEVICES says; a container is given devices by `--gpus all`."),
    304: ("the operating system refused it a service", "Check the permissions of /dev/nvidia*, and the container's limits."),
    802: ("the system is not ready: where GPUs are joined by NVSwitch, the fabric manager is started first",
          "Start it: `systemctl start nvidia-fabricmanager`."),
    803: ("its library and its kernel module are of different versions, as after an update",
          "Restart the machine, or load the kernel module anew."),
    804: ("the library of the compatibility package serves data-centre devices only",
          "Take the folder `compat` out of LD_LIBRARY_PATH, or remove the package cuda-compat."),
    805: ("the server that processes share the device through (MPS) does not answer",
          "Start it, `nvidia-cuda-mps-control -d`, or do without: unset CUDA_MPS_PIPE_DIRECTORY."),
    999: ("for a reason that it does not know; often the kernel module nvidia_uvm is missing, or the machine has slept",
          "`sudo modprobe nvidia_uvm`, or restart the machine."),
}  # fmt: skip

_LOST = (
    "A kernel did what it must not, and the device's context is lost: start the process again. "
    "If no array was freed too early, please report it with the program."
)
#: result of a failed call -> remedy
_FAILED = {
    3: _STARTING[3][1],
    201: "The context was given back, or another library has reset the device: start the process again.",
    214: "The device's memory is faulty: `nvidia-smi -q -d ECC` shows it.",
    700: _LOST,
    701: "Launch fewer threads in a block: the kernel needs more registers or shared memory than there are for so many.",
    702: "The device drives a display, and ends kernels that take long: run fewer steps at once, or take another device.",
    709: "Another library has reset the device: start the process again.",
    **dict.fromkeys((714, 715, 716, 717, 718, 719), _LOST),
}

#: the newest PTX that each version of CUDA reads, newest first
_PTX = (
    ((13, 1), (9, 1)), ((13, 0), (9, 0)), ((12, 9), (8, 8)), ((12, 8), (8, 7)), ((12, 7), (8, 6)), ((12, 5), (8, 5)),
    ((12, 4), (8, 4)), ((12, 3), (8, 3)), ((12, 2), (8, 2)), ((12, 1), (8, 1)), ((12, 0), (8, 0)), ((11, 8), (7, 8)),
    ((11, 7), (7, 7)), ((11, 6), (7, 6)), ((11, 5), (7, 5)), ((11, 4), (7, 4)), ((11, 3), (7, 3)), ((11, 2), (7, 2)),
    ((11, 1), (7, 1)), ((11, 0), (7, 0)),
)  # fmt: skip

Version = tuple[int, int]


def newest_ptx(cuda: Version) -> Version:
    """The newest known PTX that a driver of this version of CUDA reads; newer drivers read more."""
    return next((ptx for version, ptx in _PTX if version <= cuda), (6, 5))


def cuda_that_reads(ptx: Version) -> Version | None:
    """The first version of CUDA that reads this PTX; None if it is not in the table."""
    return min((version for version, newest in _PTX if newest >= ptx), default=None)


def version_text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"


def size_text(size: int) -> str:
    """A number of bytes, to three or four digits."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} bytes"


def device_error(code: str, message: str, hint: str | None = None) -> DeviceError:
    return DeviceError(Diagnostic(code, message, hint=hint))


# ---------------------------------------------------------------------------------------------- the library


def _library_names() -> tuple[str, ...]:
    if sys.platform == "win32":
        return ("nvcuda.dll",)
    # libcuda.so without the 1 is the toolkit's, for linking. The folders are those of WSL, of containers and of NixOS, where
    # the loader does not look by itself.
    folders = ("", "/usr/lib/wsl/lib/", "/usr/local/nvidia/lib64/", "/run/opengl-driver/lib/")
    return tuple(f"{folder}libcuda.so.1" for folder in folders)


def load_library() -> Any:
    """The driver's library. Raises DeviceError RG1002 if there is none, or none that can be loaded.

    A separate CDLL, so that other libraries do not share the argument types of its functions.
    """
    names = _library_names()
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            # A missing library is the usual case; other faults, such as a library for another processor, are reported.
            if not any(phrase in str(error) for phrase in ("No such file", "no such file", "not find")):
                raise device_error("RG1002", f"the CUDA driver's library cannot be loaded: {error}") from None
    raise device_error("RG1002", f"no CUDA driver is installed: there is no {names[0]}")


class Driver:
    """The driver: its functions by name, with types on their arguments, and started."""

    def __init__(self, library: Any) -> None:
        """`library`: the loaded library, or an object with its functions. Raises DeviceError RG1002 if it does not start."""
        if ctypes.sizeof(c_void_p) != 8:
            raise device_error("RG1002", "the CUDA driver has 64-bit addresses, and this Python has not")
        self._functions: dict[str, Any] = {}
        for name, types in PROTOTYPES.items():
            function = getattr(library, name, None)
            if function is None:
                raise device_error(
                    "RG1002", f"the CUDA driver is too old: it has no {name}", "Install a driver for CUDA 11 or newer."
                )
            function.argtypes, function.restype = types, c_int
            self._functions[name] = function
        #: the process in which it was started; others cannot use it
        self.process = os.getpid()
        result = self.result("cuInit", 0)
        if result:
            raise self.unavailable("the CUDA driver is installed, and does not start", result)

    def result(self, name: str, *arguments: Any) -> int:
        """The result of the call, 0 for success. Other threads run during the call."""
        result: int = self._functions[name](*arguments)
        return result

    def call(self, name: str, *arguments: Any) -> None:
        """Raises DeviceError RG1005 if the call fails."""
        result: int = self._functions[name](*arguments)
        if result:
            raise self.failed(name, result)

    def describe(self, result: int) -> str:
        """The driver's name and text of a result."""
        found = []
        for question in ("cuGetErrorName", "cuGetErrorString"):
            text = c_char_p()
            if self.result(question, result, byref(text)) == 0 and text.value:
                found.append(text.value.decode("utf-8", "replace"))
        return (
            ": ".join([f"{found[0]} ({result})", *found[1:]]) if found else f"result {result}, which it has no name for"
        )

    def failed(self, name: str, result: int) -> DeviceError:
        return device_error("RG1005", f"{name} failed with {self.describe(result)}", _FAILED.get(result))

    def unavailable(self, what: str, result: int) -> DeviceError:
        """The error for CUDA or a device that does not start."""
        why, fix = _STARTING.get(result, (None, None))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        hidden = "" if result != 100 or visible is None else f"; CUDA_VISIBLE_DEVICES is `{visible}`"
        text = self.describe(result)
        return device_error("RG1002", f"{what}: {f'{why}; {text}' if why else text}{hidden}", fix)

    @cached_property
    def version(self) -> Version:
        """The newest CUDA that this driver serves, such as (12, 4)."""
        number = c_int()
        self.call("cuDriverGetVersion", byref(number))
        return number.value // 1000, number.value % 1000 // 10

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices, without devices that CUDA_VISIBLE_DEVICES hides."""
        count = c_int()
        result = self.result("cuDeviceGetCount", byref(count))
        if result or not count.value:
            raise self.unavailable("the CUDA driver is installed, and cannot be used", result or 100)
        return tuple(self._device(index) for index in range(count.value))

    def device(self, index: int = 0) -> Device:
        """The device with an index. Raises DeviceError RG1002 if there is none."""
        if not 0 <= index < len(self.devices):
            there = "the only one is 0" if len(self.devices) == 1 else f"they are 0 to {len(self.devices) - 1}"
            raise device_error("RG1002", f"there is no CUDA device {index}: {there}")
        return self.devices[index]

    def _device(self, index: int) -> Device:
        handle, memory, name = _Device(), c_size_t(), ctypes.create_string_buffer(256)
        self.call("cuDeviceGet", byref(handle), index)
        self.call("cuDeviceGetName", name, len(name), handle)
        self.call("cuDeviceTotalMem_v2", byref(memory), handle)

        def attribute(number: int) -> int:
            value = c_int()
            self.call("cuDeviceGetAttribute", byref(value), number, handle)
            return value.value

        return Device(
            index=index,
            handle=handle.value,
            name=name.value.decode("utf-8", "replace"),
            capability=(attribute(_MAJOR), attribute(_MINOR)),
            memory=memory.value,
            multiprocessors=attribute(_MULTIPROCESSORS),
            clock=attribute(_CLOCK),
            warp=attribute(_WARP),
            threads_per_block=attribute(_THREADS_PER_BLOCK),
            threads_per_multiprocessor=attribute(_THREADS_PER_MULTIPROCESSOR),
            shared_per_block=attribute(_SHARED_PER_BLOCK),
            driver=self,
        )


@dataclass(frozen=True)
class Device:
    """A device and its resources. Memory in bytes, the clock in kHz; `shared_per_block` for kernels that request it."""

    index: int
    handle: int
    name: str
    capability: Version
    memory: int
    multiprocessors: int
    clock: int
    warp: int
    threads_per_block: int
    threads_per_multiprocessor: int
    shared_per_block: int
    driver: Driver = field(repr=False)

    def __str__(self) -> str:
        return f"cuda:{self.index}"

    @property
    def target(self) -> str:
        """Its architecture in LLVM's notation: sm_90."""
        return f"sm_{self.capability[0]}{self.capability[1]}"


_lock = threading.Lock()
_driver: Driver | None = None


def driver() -> Driver:
    """The driver of this machine, started once. Raises DeviceError RG1002, after which it may be called again."""
    global _driver  # noqa: PLW0603 - one driver in a process, as there is one library
    with _lock:
        if _driver is None:
            _driver = Driver(load_library())
        elif _driver.process != os.getpid():
            raise _driver.unavailable("the CUDA driver cannot be used here", 3)
        return _driver


def devices() -> tuple[Device, ...]:
    """The CUDA devices of this machine; none if there is no driver. `driver().devices` raises the reason."""
    try:
        return driver().devices
    except DeviceError:
        return ()


@contextmanager
def using(library: Any) -> Iterator[Driver]:
    """Replace the driver by that of another library, for tests without a device."""
    global _driver  # noqa: PLW0603
    with _lock:
        before, _driver = _driver, Driver(library)
    try:
        yield _driver
    finally:
        with _lock:
            _driver = before
