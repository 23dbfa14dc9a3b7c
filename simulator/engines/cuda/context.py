"""Resources of a device: its context, memory, streams and events.

    with Context(driver().device(0)) as context:
        words = context.allocate(array.nbytes)
        words.copy_from_host(array)
        Module(context, ptx).kernel("add").launch(grid, block, arguments=[words, c_int64(len(array))])
        words.copy_to_host(array)

The context is the *primary* context of the device, retained; other libraries of this process use it, too. It is made current
around every call and restored after it, so any thread may call, and no library finds another context than it left.

Each resource is freed once: by `close()`, at the end of a `with`, or when it is collected. Memory is freed only after all queued
work of the device. Managed memory is never used: too much of it can hang a device.

Trap: work in a stream is done later, and its errors are reported by a later call.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_float, c_size_t, c_uint64, c_void_p
from itertools import count
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda.driver import (
    NOT_READY,
    OUT_OF_MEMORY,
    Device,
    Driver,
    device_error,
    size_text,
)

#: permanent streams (CUstream): the default stream, and one for each thread
LEGACY_STREAM, THREAD_STREAM = 1, 2

_NON_BLOCKING, _NO_TIMING, _PORTABLE = 1, 2, 1
#: number of held arrays of a stream from which on the stream is queried
_HELD = 64
#: resources that are freed only when no queued work can use them
_IN_USE = frozenset({"cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy_v2"})


class _Retained:
    """A retained primary context, released when it has no more references."""

    def __init__(self, device: Device) -> None:
        self.driver: Driver = device.driver
        handle = c_void_p()
        result = self.driver.result("cuDevicePrimaryCtxRetain", byref(handle), device.handle)
        if result == OUT_OF_MEMORY:
            raise device_error(
                "RG1004", f"{device} ({device.name}, {size_text(device.memory)}) has no room left for another process"
            )
        if result:
            raise self.driver.unavailable(f"{device} ({device.name}) cannot be used", result)
        self.handle = handle.value
        when_collected(self, _release, self.driver, device.handle)


def when_collected(thing: object, call: Callable[..., object], *arguments: Any) -> weakref.finalize[..., Any]:
    """Call a function once `thing` is collected; not at the end of the process, when the driver frees everything."""
    finalizer = weakref.finalize(thing, call, *arguments)
    finalizer.atexit = False
    return finalizer


def _release(driver: Driver, device: int) -> None:
    if driver.process == os.getpid():
        driver.result("cuDevicePrimaryCtxRelease_v2", device)


def _give_back(retained: _Retained, name: str, *handle: int) -> None:
    """Ignore errors: earlier faults are reported by the next synchronisation, and have no remedy here."""
    driver = retained.driver
    if driver.process != os.getpid():
        return  # a child by fork has the objects, and not the context
    if driver.result("cuCtxPushCurrent_v2", retained.handle) == 0:
        if name in _IN_USE:
            driver.result("cuCtxSynchronize")
        driver.result(name, *handle)
        driver.result("cuCtxPopCurrent_v2", byref(c_void_p()))


def _let_go(retained: _Retained, _owner: Any) -> None:
    """Hold memory of another library until the device is done with it, since that library may use it again at once."""
    _give_back(retained, "cuCtxSynchronize")


def _given_back(what: str) -> DeviceError:
    return device_error(
        "RG1005", f"{what} was given back, and is used again", "Keep it open for as long as it is used."
    )


class Resource:
    """A resource of a context, freed once."""

    def __init__(self, context: Context, handle: int, give_back: str | None) -> None:
        self.context = context
        self._handle = handle
        self._finalizer: weakref.finalize[..., Any] | None = None
        if give_back is not None:
            self._finalizer = when_collected(self, _give_back, context.retained, give_back, handle)
        self._open = True
        context.keep(self)

    @property
    def handle(self) -> int:
        """The driver's handle or address."""
        if not self._open:
            raise _given_back(f"the {type(self).__name__.lower()}")
        return self._handle

    @property
    def is_open(self) -> bool:
        """Whether it has not been freed."""
        return self._open

    def close(self) -> None:
        """Free it now; a second call has no effect."""
        self._open = False
        if self._finalizer is not None:
            self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Context:
    """A device, ready for work. Raises DeviceError: RG1002 if it cannot be used, RG1004 if it has no room.

    `close()` frees all its resources, except host memory that is still in use by a NumPy array.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._retained: _Retained | None = _Retained(device)
        self._resources: weakref.WeakSet[Resource] = weakref.WeakSet()
        #: the default stream
        self.default_stream = Stream(self, LEGACY_STREAM)

    @property
    def retained(self) -> _Retained:
        if self._retained is None:
            raise _given_back(f"the context of {self.device}")
        return self._retained

    def keep(self, resource: Resource) -> None:
        """Close it when the context is closed."""
        self._resources.add(resource)

    @contextmanager
    def current(self) -> Iterator[Driver]:
        """The driver, while this context is current in the thread."""
        retained = self.retained
        driver = retained.driver
        driver.call("cuCtxPushCurrent_v2", retained.handle)
        try:
            yield driver
        finally:
            driver.result("cuCtxPopCurrent_v2", byref(c_void_p()))

    def synchronize(self) -> None:
        """Wait until all work on the device is done, including that of other libraries in this process."""
        with self.current() as driver:
            driver.call("cuCtxSynchronize")

    def memory(self) -> tuple[int, int]:
        """(free, total) bytes of the device's memory."""
        free, total = c_size_t(), c_size_t()
        with self.current() as driver:
            driver.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> Buffer:
        """Device memory of `size` bytes with undefined contents. Raises DeviceError RG1004."""
        return Buffer(self, size)

    def pinned(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """An array in pinned host memory, which the device reads and writes itself: copies run beside other work.

        Its contents are undefined. It is freed with the last array that uses it. Raises DeviceError RG1004.
        """
        kind = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else shape
        size = prod(shape) * kind.itemsize
        if size == 0:
            return np.empty(shape, kind)
        pointer = c_void_p()
        with self.current() as driver:
            result = driver.result("cuMemHostAlloc", byref(pointer), size, _PORTABLE)
        if result == OUT_OF_MEMORY:
            raise device_error(
                "RG1004",
                f"no {size_text(size)} of the host's memory can be pinned for {self.device}",
                "Pinned memory cannot be swapped out: use less of it.",
            )
        if result or pointer.value is None:
            raise driver.failed("cuMemHostAlloc", result)
        memory = (ctypes.c_ubyte * size).from_address(pointer.value)
        when_collected(memory, _give_back, self.retained, "cuMemFreeHost", pointer.value)
        return np.ndarray(shape, kind, buffer=memoryview(memory))  # it and its views hold `memory`

    def stream(self) -> Stream:
        """A new stream, which waits for no other and for which none waits."""
        handle = c_void_p()
        with self.current() as driver:
            driver.call("cuStreamCreate", byref(handle), _NON_BLOCKING)
        return Stream(self, handle.value or 0, "cuStreamDestroy_v2")

    def event(self, *, timing: bool = True) -> Event:
        """A new event; without `timing` it is faster, and has no time."""
        handle = c_void_p()
        with self.current() as driver:
            driver.call("cuEventCreate", byref(handle), 0 if timing else _NO_TIMING)
        return Event(self, handle.value or 0, "cuEventDestroy_v2")

    def close(self) -> None:
        """Free all its resources; a second call has no effect."""
        for resource in list(self._resources):
            resource.close()
        self._retained = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _array_bytes(array: NDArray[Any], *, written: bool) -> tuple[int, int]:
    """(address, bytes) of an array in the host's memory."""
    if not array.flags.c_contiguous:
        raise device_error(
            "RG1006", "the array in the host's memory is not contiguous", "`numpy.ascontiguousarray` makes it so."
        )
    if written and not array.flags.writeable:
        raise device_error(
            "RG1006", "the array in the host's memory is read-only", "Copy into one that can be written."
        )
    return array.ctypes.data, array.nbytes


class Buffer(Resource):
    """Device memory, `size` bytes from `address`: allocated, or lent by `owner`, which is held until the device is done with it.

    Copies without a stream begin when all work on the device is done, and are done when they return. With a stream they are
    queued in it, and the host array is held until the stream is done. Trap: before that the host array must not be written,
    and its contents are undefined.
    """

    def __init__(self, context: Context, size: int, address: int | None = None, owner: Any = None) -> None:
        if size < 0:
            raise ValueError("memory of less than no bytes")
        self.size = size
        if address is not None:
            super().__init__(context, address, None)
            self._finalizer = when_collected(self, _let_go, context.retained, owner)
        elif size == 0:
            super().__init__(context, 0, None)
        else:
            super().__init__(context, _allocated(context, size), "cuMemFree_v2")

    @property
    def address(self) -> int:
        """Its address; 0 if it has no bytes."""
        return self.handle

    def copy_from_host(self, array: NDArray[Any], stream: Stream | None = None, offset: int = 0) -> None:
        """Write the array's bytes, from byte `offset` on."""
        source, size = _array_bytes(array, written=False)
        self._queue("cuMemcpyHtoDAsync_v2", (self.address + offset, source, size), size, offset, stream, array)

    def copy_to_host(self, array: NDArray[Any], stream: Stream | None = None, offset: int = 0) -> None:
        """Fill the array, from byte `offset` on."""
        target, size = _array_bytes(array, written=True)
        self._queue("cuMemcpyDtoHAsync_v2", (target, self.address + offset, size), size, offset, stream, array)

    def copy_from(self, other: Buffer, stream: Stream | None = None, offset: int = 0) -> None:
        """Write all of another buffer of this device, from byte `offset` on."""
        self._queue(
            "cuMemcpyDtoDAsync_v2",
            (self.address + offset, other.address, other.size),
            other.size,
            offset,
            stream,
            other,
        )

    def fill(self, byte: int, stream: Stream | None = None) -> None:
        """Write one byte everywhere."""
        self._queue("cuMemsetD8Async", (self.address, byte, self.size), self.size, 0, stream, None)

    def _queue(
        self, name: str, arguments: tuple[int, ...], size: int, offset: int, stream: Stream | None, held: object
    ) -> None:
        if not 0 <= offset <= offset + size <= self.size:
            raise device_error(
                "RG1006", f"bytes {offset} to {offset + size} are not all in a buffer of {self.size} bytes"
            )
        if size == 0:
            return
        with self.context.current() as driver:
            if stream is not None:
                stream.hold(held)
                driver.call(name, *arguments, stream.handle)
                return
            driver.call("cuCtxSynchronize")
            driver.call(name, *arguments, LEGACY_STREAM)
            driver.call("cuStreamSynchronize", LEGACY_STREAM)


def _allocated(context: Context, size: int) -> int:
    address = c_uint64()
    with context.current() as driver:
        result = driver.result("cuMemAlloc_v2", byref(address), size)
    if result == OUT_OF_MEMORY:
        free, total = context.memory()
        raise device_error(
            "RG1004",
            f"{context.device} ({context.device.name}) has no room for {size_text(size)}: "
            f"{size_text(free)} of {size_text(total)} are free",
        )
    if result:
        raise driver.failed("cuMemAlloc_v2", result)
    return address.value


class Stream(Resource):
    """A queue of work, done in order."""

    def __init__(self, context: Context, handle: int, give_back: str | None = None) -> None:
        """`give_back` None: the stream belongs to another library, or to the driver."""
        super().__init__(context, handle, give_back)
        self._held: dict[int, object] = {}
        self._holds = count()

    def hold(self, thing: object) -> None:
        """Hold a reference to it until the stream is done."""
        held = list(self._held)
        if len(held) >= _HELD and self.done:
            self._let_go(held)
        self._held[next(self._holds)] = thing

    def synchronize(self) -> None:
        """Wait until all queued work is done. Raises DeviceError RG1005 for its errors."""
        held = list(self._held)
        with self.context.current() as driver:
            driver.call("cuStreamSynchronize", self.handle)
        self._let_go(held)

    def _let_go(self, held: Sequence[int]) -> None:
        """Release these references only, since other threads may have queued more work."""
        for key in held:
            self._held.pop(key, None)

    @property
    def done(self) -> bool:
        """Whether no work is left in it."""
        return _ready(self.context, "cuStreamQuery", self.handle)

    def record(self) -> Event:
        """An event that happens when all work queued so far is done."""
        event = self.context.event(timing=False)
        event.record(self)
        return event

    def wait(self, event: Event) -> None:
        """Let work that is queued here from now on wait for the event."""
        with self.context.current() as driver:
            driver.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def wait_for(self, other: Stream) -> None:
        """Let work that is queued here from now on wait for the work of the other stream."""
        if other.handle != self.handle:
            with other.record() as event:
                self.wait(event)


class Event(Resource):
    """A point in a stream."""

    def __init__(self, context: Context, handle: int, give_back: str) -> None:
        super().__init__(context, handle, give_back)

    def record(self, stream: Stream | None = None) -> None:
        """Let it happen when the work queued in the stream is done."""
        with self.context.current() as driver:
            driver.call("cuEventRecord", self.handle, (stream or self.context.default_stream).handle)

    def synchronize(self) -> None:
        """Wait for it."""
        with self.context.current() as driver:
            driver.call("cuEventSynchronize", self.handle)

    @property
    def done(self) -> bool:
        """Whether it has happened."""
        return _ready(self.context, "cuEventQuery", self.handle)

    def since(self, start: Event) -> float:
        """Milliseconds from `start` to it, to half a microsecond; waits for both."""
        start.synchronize()
        self.synchronize()
        time = c_float()
        with self.context.current() as driver:
            driver.call("cuEventElapsedTime", byref(time), start.handle, self.handle)
        return time.value


def _ready(context: Context, question: str, handle: int) -> bool:
    with context.current() as driver:
        result = driver.result(question, handle)
    if result not in (0, NOT_READY):
        raise driver.failed(question, result)
    return result == 0
