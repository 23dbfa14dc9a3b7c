"""Arrays on a device: allocated here, or borrowed from other libraries in place, without a copy.

    device_array(tensor, context) -> DeviceArray         PyTorch, JAX, CuPy, Numba … → here
    torch.from_dlpack(array), cupy.asarray(array)        here → there

by DLPack, or if a library lacks it by `__cuda_array_interface__`. Both pass an address and a stream, since work that writes the
array may still be queued: the borrower makes its stream, or the host, wait for the lender's stream. An array is used in place,
so it must be contiguous, aligned, in the byte order of the machine, and on the same device.

Trap: another library uses a lent array in place. `close()` frees it even so.

Source: array API 2024.12, `__dlpack__`; CUDA array interface, version 3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ctypes import byref, c_int, c_uint, c_void_p
from math import prod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.diagnostics import DeviceError, Diagnostic
from retrograd.simulator.engines.cuda import dlpack
from retrograd.simulator.engines.cuda.context import LEGACY_STREAM, Buffer, Context, Stream
from retrograd.simulator.engines.cuda.driver import driver

# attributes of a pointer (CUpointer_attribute), and the type of host memory (CUmemorytype)
_CONTEXT, _MEMORY_TYPE, _IS_MANAGED, _DEVICE_ORDINAL = 1, 2, 8, 9
_HOST = 1
_INVALID_VALUE = 1
_INTERFACE_VERSION = 3


class ArrayError(DeviceError, BufferError):
    """RG1006: an array that cannot be used on the device. Libraries that try one protocol after another expect BufferError."""


def refuse_array(name: str, why: str, hint: str | None = None) -> NoReturn:
    raise ArrayError(Diagnostic("RG1006", f"{name} {why}", hint=hint))


class DeviceArray:
    """An array in a device's memory, contiguous, the last axis fastest.

    `stream`: the stream with queued work that writes it, for which its users wait; None: no work is queued. The function that
    queues such work sets it.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DTypeLike,
        buffer: Buffer,
        context: Context,
        *,
        stream: Stream | None = None,
        read_only: bool = False,
    ) -> None:
        self.shape, self.dtype = _checked("the array", shape, np.dtype(dtype))
        self.buffer, self.context, self.stream, self.read_only = buffer, context, stream, read_only
        if self.nbytes > buffer.size:
            refuse_array("the array", f"has {self.nbytes} bytes, and its memory {buffer.size}")

    @classmethod
    def empty(cls, shape: Sequence[int], dtype: DTypeLike, context: Context) -> Self:
        """A new array with undefined contents."""
        sizes, kind = _checked("the array", shape, np.dtype(dtype))
        return cls(sizes, kind, context.allocate(prod(sizes) * kind.itemsize), context)

    @classmethod
    def from_host(cls, array: NDArray[Any], context: Context, stream: Stream | None = None) -> Self:
        """A copy of a host array."""
        source = np.asarray(array, order="C")
        source = source.astype(source.dtype.newbyteorder("="), copy=False)
        new = cls.empty(source.shape, source.dtype, context)
        new.copy_from_host(source, stream)
        return new

    @property
    def address(self) -> int:
        return self.buffer.address

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, {self.context.device})"

    def copy_from_host(self, array: NDArray[Any], stream: Stream | None = None) -> None:
        """Write all of it. With a stream the copy is queued there; `array` must not change until it is done."""
        if self.read_only:
            refuse_array("the array", "is read-only")
        self._check_alike(array)
        if stream is not None:
            self.ready_in(stream)
        self.buffer.copy_from_host(array, stream)
        self.stream = stream

    def copy_to_host(self, out: NDArray[Any] | None = None, stream: Stream | None = None) -> NDArray[Any]:
        """A copy of it, in `out` if that is given. With a stream the copy is queued there; its contents are undefined until it is done."""
        if out is None:
            out = np.empty(self.shape, self.dtype)
        self._check_alike(out)
        if stream is not None:
            self.ready_in(stream)
        self.buffer.copy_to_host(out, stream)
        return out

    def ready_in(self, stream: Stream) -> None:
        """Make work that is queued in the stream from now on wait until it is written."""
        if self._pending is not None:
            stream.wait_for(self._pending)

    def synchronize(self) -> None:
        """Wait until it is written."""
        if self._pending is not None:
            self._pending.synchronize()
        self.stream = None

    @property
    def _pending(self) -> Stream | None:
        # A freed stream is done.
        return self.stream if self.stream is not None and self.stream.is_open else None

    def _check_alike(self, array: NDArray[Any]) -> None:
        if array.shape != self.shape or array.dtype != self.dtype:
            refuse_array(
                "the array in the host's memory",
                f"is {array.dtype}{list(array.shape)}, and that on the device {self.dtype}{list(self.shape)}",
            )

    def close(self) -> None:
        """Free its memory, or return it to its library."""
        self.buffer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, self.read_only),
            "strides": None,
            "stream": None if self._pending is None else self._pending.handle,
            "version": _INTERFACE_VERSION,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.context.device.index

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule. `stream`: the stream that will use it, and waits for it. None and 1: the default stream; 2: that of
        the thread; −1: no stream has to wait. Raises ArrayError.
        """
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            refuse_array(
                "the array", f"is on {self.context.device}, and is not moved by lending it", "`copy_to_host` copies it."
            )
        if stream is not None and (
            isinstance(stream, bool) or not isinstance(stream, int) or stream < -1 or stream == 0
        ):
            refuse_array(
                "the array",
                f"cannot be made ready in the stream {stream!r}",
                "Name one by its address; 1 is the default stream.",
            )
        versioned = max_version is not None and max_version[0] >= 1
        lent = self
        if stream == -1:
            if copy:
                lent = self._copy(None)
        else:
            there = Stream(self.context, LEGACY_STREAM if stream is None else stream)
            self.ready_in(there)
            if copy:
                lent = self._copy(there)
        if lent.read_only and not versioned:
            refuse_array("the array", "is read-only, which the borrower's version of DLPack cannot tell")
        return dlpack.lend(
            lent.address,
            self.__dlpack_device__(),
            self.shape,
            self.dtype,
            lent,
            versioned=versioned,
            read_only=lent.read_only,
            copied=bool(copy),
        )

    def _copy(self, stream: Stream | None) -> DeviceArray:
        buffer = self.context.allocate(self.buffer.size)
        buffer.copy_from(self.buffer, stream)
        return DeviceArray(self.shape, self.dtype, buffer, self.context)


# ------------------------------------------------------------------------------------------------ borrow


def is_device_array(value: object) -> bool:
    """Whether the object declares that it is on a CUDA device. Never raises."""
    try:
        if hasattr(value, "__dlpack_device__"):
            return int(value.__dlpack_device__()[0]) in (dlpack.CUDA, dlpack.CUDA_MANAGED)
        return hasattr(value, "__cuda_array_interface__")
    except Exception:  # other libraries raise undocumented exceptions
        return False


def device_array(
    value: Any,
    context: Context,
    *,
    name: str = "the array",
    dtypes: Collection[DTypeLike] | None = None,
    writable: bool = False,
    stream: Stream | None = None,
) -> DeviceArray:
    """An array of another library, or ours, for use in place; a reference to it is held.

    `stream`: the stream that will use it, which waits for queued work on it; None: wait here. `dtypes`: accepted types.
    `writable`: it will be written. `name`: its name in errors. Raises ArrayError with the reason.
    """
    if isinstance(value, DeviceArray):
        array = value
        if array.context.device.index != context.device.index:
            refuse_array(name, f"is on {array.context.device}, and the program on {context.device}")
        if stream is None:
            array.synchronize()
        else:
            array.ready_in(stream)
    elif _has(value, name, "__dlpack__") and _has(value, name, "__dlpack_device__"):
        array = _by_dlpack(value, name, context, writable, stream)
    elif _has(value, name, "__cuda_array_interface__"):
        array = _by_interface(value, name, context, stream)
    else:
        refuse_array(name, f"is no array on a device, but {_kind_of(value)}")
    _check_type(name, array.dtype, str(array.dtype), dtypes)
    if writable and array.read_only:
        refuse_array(name, "is read-only, and the program writes it", "Copy it with the library that it is from.")
    return array


def copied_to_host(value: Any, name: str) -> Any:
    """A NumPy copy of a device array of any library; other objects unchanged. Raises DeviceError, ArrayError."""
    if not is_device_array(value):
        return value
    index = int(value.__dlpack_device__()[1]) if hasattr(value, "__dlpack_device__") else 0
    with Context(driver().device(index)) as context:
        return device_array(value, context, name=name).copy_to_host()


def _kind_of(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _has(value: Any, name: str, attribute: str) -> bool:
    try:
        return hasattr(value, attribute)
    except Exception as error:  # PyTorch raises RuntimeError for a tensor with requires_grad
        refuse_array(name, f"is not lent by its library: {type(error).__name__}: {error}")


def _by_dlpack(value: Any, name: str, context: Context, writable: bool, stream: Stream | None) -> DeviceArray:
    try:
        kind, index = (int(part) for part in value.__dlpack_device__())
    except Exception as error:
        refuse_array(name, f"is not lent by its library: {type(error).__name__}: {error}")
    _check_device(name, kind, index, context)
    handle = LEGACY_STREAM if stream is None else stream.handle
    try:
        try:
            capsule = value.__dlpack__(stream=handle, max_version=dlpack.MAX_VERSION)
        except TypeError:  # from before DLPack 1.0
            capsule = value.__dlpack__(stream=handle)
    except Exception as error:
        refuse_array(name, f"is not lent by its library: {type(error).__name__}: {error}")
    try:
        lent = dlpack.look(capsule)
    except ValueError as error:
        refuse_array(name, f"cannot be borrowed: {error}")
    _check_device(name, *lent.device, context)
    if lent.dtype is None:
        refuse_array(name, f"has elements of type {lent.type_name}, which NumPy has not")
    if lent.copied and writable:
        refuse_array(name, "is lent as a copy, in which the program's results would be lost")
    size = _check_layout(name, lent.shape, lent.strides, lent.dtype.itemsize)
    _check_address(name, lent.address, size, lent.dtype, context)
    if stream is None:
        context.default_stream.synchronize()
    # Not earlier: if an exception is raised, the capsule must still belong to the lender.
    buffer = Buffer(context, size, lent.address if size else 0, lent.take())
    return DeviceArray(lent.shape, lent.dtype, buffer, context, read_only=lent.read_only)


def _by_interface(value: Any, name: str, context: Context, stream: Stream | None) -> DeviceArray:
    interface = value.__cuda_array_interface__
    try:
        shape = tuple(int(length) for length in interface["shape"])
        kind = np.dtype(str(interface["typestr"]))
        address, read_only = interface["data"]
        address, read_only, version = int(address or 0), bool(read_only), int(interface["version"])
        strides = interface.get("strides")
        strides = None if strides is None else tuple(int(stride) for stride in strides)
        queue = interface.get("stream") if version >= _INTERFACE_VERSION else None
    except Exception as error:
        refuse_array(name, f"has a __cuda_array_interface__ that is malformed: {type(error).__name__}: {error}")
    if interface.get("mask") is not None:
        refuse_array(name, "is masked", "Fill in what is masked first.")
    if min(shape, default=0) < 0 or (strides is not None and len(strides) != len(shape)):
        refuse_array(name, f"has a __cuda_array_interface__ that is malformed: shape {shape}, strides {strides}")
    if queue is not None and (isinstance(queue, bool) or not isinstance(queue, int) or queue <= 0):
        refuse_array(name, f"names the stream {queue!r}, which is none")
    _check_type(name, kind, str(kind), None)
    size = _check_layout(name, shape, strides, kind.itemsize)
    _check_address(name, address, size, kind, context)
    if version < _INTERFACE_VERSION:
        context.synchronize()  # old versions do not name the stream with queued work
    elif queue is not None:
        theirs = Stream(context, queue)
        if stream is None:
            theirs.synchronize()
        else:
            stream.wait_for(theirs)
    return DeviceArray(shape, kind, Buffer(context, size, address if size else 0, value), context, read_only=read_only)


def _checked(name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    sizes = tuple(int(length) for length in shape)
    if min(sizes, default=0) < 0:
        refuse_array(name, f"cannot have the shape {sizes}")
    _check_type(name, dtype, str(dtype), None)
    return sizes, dtype


def _check_type(name: str, dtype: np.dtype[Any], text: str, dtypes: Collection[DTypeLike] | None) -> None:
    if dtype.kind not in "biufc":
        refuse_array(name, f"has elements of type {text}, which are no numbers")
    if not dtype.isnative:
        refuse_array(name, f"has elements of type {text}, in the byte order of another machine")
    if dtypes is not None and dtype not in (wanted := [np.dtype(d) for d in dtypes]):
        refuse_array(name, f"has elements of type {text}, and the program takes {' or '.join(map(str, wanted))}")


def _check_device(name: str, kind: int, index: int, context: Context) -> None:
    if kind == dlpack.CUDA and index != context.device.index:
        refuse_array(name, f"is on cuda:{index}, and the program on {context.device}")
    if kind not in (dlpack.CUDA, dlpack.CUDA_MANAGED):
        refuse_array(
            name,
            f"is in {dlpack.DEVICES.get(kind, f'a device of DLPack type {kind}')}, and the program on {context.device}",
        )


def _check_layout(name: str, shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> int:
    """The number of bytes; ArrayError if the array is not contiguous with the last axis fastest."""
    if min(shape, default=0) < 0:
        refuse_array(name, f"has the shape {shape}")
    size = prod(shape) * itemsize
    if strides is None or size == 0:
        return size
    step = itemsize
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1 and strides[axis] != step:
            why = f"along axis {axis} its elements lie {strides[axis]} bytes apart, and not {step}"
            if _in_columns(shape, strides, itemsize):
                why = "it lies column by column, as after a transposition"
            refuse_array(
                name, f"is not contiguous: {why}", "Copy it: `x.contiguous()` in PyTorch, `cupy.ascontiguousarray(x)`."
            )
        step *= shape[axis]
    return size


def _in_columns(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bool:
    step = itemsize
    for length, stride in zip(shape, strides, strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def _check_address(name: str, address: int, size: int, dtype: np.dtype[Any], context: Context) -> None:
    """Raise ArrayError unless the driver reports the address as memory of this device and context."""
    if size == 0:
        return
    if address <= 0 or address + size > 1 << 64:
        refuse_array(name, f"has {size} bytes at address {address}, where there is none")
    if address % dtype.alignment:
        refuse_array(
            name,
            f"begins at an address that is no multiple of {dtype.alignment}",
            "Copy it with the library that it is from.",
        )
    with context.current() as driver:
        memory, managed, ordinal, owner = c_uint(), c_uint(), c_int(), c_void_p()
        result = driver.result("cuPointerGetAttribute", byref(memory), _MEMORY_TYPE, address)
        if result == _INVALID_VALUE:
            refuse_array(
                name, "is at an address that the CUDA driver does not know: it is not on a device, or was freed"
            )
        if result:
            raise driver.failed("cuPointerGetAttribute", result)
        driver.call("cuPointerGetAttribute", byref(managed), _IS_MANAGED, address)
        if managed.value:
            return  # within the reach of every device
        if memory.value == _HOST:
            refuse_array(name, f"is in the host's memory, and the program on {context.device}")
        driver.call("cuPointerGetAttribute", byref(ordinal), _DEVICE_ORDINAL, address)
        if ordinal.value != context.device.index:
            refuse_array(name, f"is on cuda:{ordinal.value}, and the program on {context.device}")
        # Memory without a context, such as that of pools, belongs to all contexts.
        result = driver.result("cuPointerGetAttribute", byref(owner), _CONTEXT, address)
        if result == 0 and owner.value and owner.value != context.retained.handle:
            refuse_array(
                name,
                "belongs to a context that its library made for itself",
                "Let the library use the device's primary context; with PyCUDA, `import pycuda.autoprimaryctx`.",
            )
