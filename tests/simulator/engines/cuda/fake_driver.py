"""A CUDA driver without a device: what `retrograd.simulator.engines.cuda` is tested with.

    fake = FakeDriver(devices=[FakeDevice(memory=1 << 20)])
    fake.kernels["add"] = lambda grid, block, arguments: …
    with driver.using(fake): …
    fake.check()

The functions are real C functions: pointers made by ctypes from `DECLARATIONS`, which says in C what NVIDIA's cuda.h says. So
every argument takes the way that it takes to the driver, and is cut off where its type is too narrow.

It is stricter than a device where a device would be lenient or late:
- What is queued in a stream is done only when something waits for it, and no more of it than must be: who forgets to wait
  reads memory that was not written yet.
- New memory is full of `FRESH`, freed memory of `STALE`; writing beside an allocation is found by the guards around it, as
  well as in the calls.
- Memory, code and streams must not be given back while work is under way that uses them.
- The array of a kernel's arguments ends with a null; one too few is found by it, and one too many.

Device memory is the host's, so that an address is one: a kernel may be any C function. Faults go to `faults`, since an
exception does not pass through C; `check` raises them, and names what was not given back.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from ctypes import c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any

#: cuda.h, of CUDA 11.0 to 13.0, with the names that the library has
DECLARATIONS = """
CUresult cuInit(unsigned int Flags);
CUresult cuDriverGetVersion(int *driverVersion);
CUresult cuGetErrorName(CUresult error, const char **pStr);
CUresult cuGetErrorString(CUresult error, const char **pStr);
CUresult cuDeviceGetCount(int *count);
CUresult cuDeviceGet(CUdevice *device, int ordinal);
CUresult cuDeviceGetName(char *name, int len, CUdevice dev);
CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev);
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev);
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev);
CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *pctx);
CUresult cuCtxSynchronize(void);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);
CUresult cuMemFree_v2(CUdeviceptr dptr);
CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags);
CUresult cuMemFreeHost(void *p);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream);
CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream);
CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream);
CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags);
CUresult cuStreamDestroy_v2(CUstream hStream);
CUresult cuStreamSynchronize(CUstream hStream);
CUresult cuStreamQuery(CUstream hStream);
CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags);
CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags);
CUresult cuEventDestroy_v2(CUevent hEvent);
CUresult cuEventRecord(CUevent hEvent, CUstream hStream);
CUresult cuEventSynchronize(CUevent hEvent);
CUresult cuEventQuery(CUevent hEvent);
CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);
CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions, CUjit_option *options, void **optionValues);
CUresult cuModuleUnload(CUmodule hmod);
CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name);
CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc);
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value);
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize);
CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func, CUoccupancyB2DSize blockSizeToDynamicSMemSize, size_t dynamicSMemSize, int blockSizeLimit);
CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra);
"""

#: what the types are: enumerations are ints, handles are pointers, and so is the one pointer to a function
_TYPES: dict[str, Any] = {
    "int": c_int, "unsigned int": c_uint, "unsigned char": c_ubyte, "size_t": c_size_t, "float": c_float,
    "CUresult": c_int, "CUdevice": c_int, "CUdeviceptr": c_uint64,
    **dict.fromkeys(("CUdevice_attribute", "CUfunction_attribute", "CUpointer_attribute", "CUjit_option"), c_int),
    **dict.fromkeys(("CUcontext", "CUmodule", "CUfunction", "CUstream", "CUevent", "CUoccupancyB2DSize"), c_void_p),
}  # fmt: skip

Name = str
Result = int
(SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE, INVALID_DEVICE, INVALID_CONTEXT, NO_BINARY, INVALID_PTX,
 UNSUPPORTED_PTX, INVALID_HANDLE, NOT_FOUND, NOT_READY, ILLEGAL_ADDRESS, OUT_OF_RESOURCES, LAUNCH_FAILED, UNKNOWN) = (
    0, 1, 2, 3, 100, 101, 201, 209, 218, 222, 400, 500, 600, 700, 701, 719, 999)  # fmt: skip

ERRORS: dict[int, tuple[str, str]] = {
    0: ("CUDA_SUCCESS", "no error"),
    1: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    2: ("CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
    3: ("CUDA_ERROR_NOT_INITIALIZED", "initialization error"),
    34: ("CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"),
    46: ("CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"),
    100: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    101: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    201: ("CUDA_ERROR_INVALID_CONTEXT", "invalid device context"),
    209: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    218: ("CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"),
    222: ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."),
    304: ("CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"),
    400: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    500: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    600: ("CUDA_ERROR_NOT_READY", "device not ready"),
    700: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    701: ("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"),
    702: ("CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"),
    719: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    802: ("CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"),
    803: ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"),
    804: ("CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"),
    999: ("CUDA_ERROR_UNKNOWN", "unknown error"),
}

#: what fresh and what freed memory is full of, and the guards around it
FRESH, STALE, GUARD = 0xCB, 0xDD, 0xA5
_GUARD_BYTES, _ALIGNMENT = 256, 256
LEGACY, PER_THREAD = 1, 2
_BLOCKING, _NON_BLOCKING = 0, 1
_DEFAULT_SHARED = 48 << 10

#: (grid, block, arguments); arguments are ints, floats, or bytes for parameters that are arrays of bytes
KernelFunction = Callable[[tuple[int, int, int], tuple[int, int, int], tuple[Any, ...]], object]


class DeviceFault(Exception):
    """Raised by a kernel's function to end it as a device does, with a result such as ILLEGAL_ADDRESS."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


class _Refuse(Exception):
    """What a function returns."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        self.result = result


def _demand(condition: object, result: Result) -> None:
    if not condition:
        raise _Refuse(result)


# ------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True)
class Parameter:
    """A parameter in C: its base type, and how many times it is a pointer."""

    base: str
    stars: int

    @property
    def ctype(self) -> Any:
        return c_void_p if self.stars else _TYPES[self.base]


def declared(text: str = DECLARATIONS) -> dict[Name, tuple[Parameter, ...]]:
    """name -> parameters, read from C."""
    found: dict[Name, tuple[Parameter, ...]] = {}
    for name, inside in re.findall(r"CUresult (?:CUDAAPI )?(\w+)\(([^)]*)\);", text):
        parameters = []
        for piece in [] if inside.strip() == "void" else inside.split(","):
            words = piece.replace("*", " * ").replace("const ", "").split()
            base = " ".join(word for word in words[:-1] if word != "*")
            parameters.append(Parameter(base, words.count("*")))
        found[name] = tuple(parameters)
    return found


# ------------------------------------------------------------------------------------------------ the parts


@dataclass(frozen=True)
class FakeDevice:
    """What a device is like. Attributes are those of an A100 if nothing else is said."""

    name: str = "Fake A100"
    capability: tuple[int, int] = (8, 0)
    memory: int = 1 << 30
    multiprocessors: int = 108
    clock: int = 1_410_000
    threads_per_multiprocessor: int = 2048
    shared_per_block: int = 163 << 10
    registers_per_multiprocessor: int = 1 << 16
    #: what the device refuses to be used with, such as 46; 0: nothing
    refuses: Result = 0

    def attribute(self, number: int) -> int:
        values = {
            1: 1024, 5: 2**31 - 1, 8: 48 << 10, 10: 32, 13: self.clock, 16: self.multiprocessors,
            39: self.threads_per_multiprocessor, 75: self.capability[0], 76: self.capability[1], 97: self.shared_per_block,
        }  # fmt: skip
        _demand(number in values, INVALID_VALUE)
        return values[number]


@dataclass(frozen=True)
class FakeKernel:
    """What the compiler makes of a kernel; `FakeDriver.compiled` says it by name."""

    registers: int = 32
    local_bytes: int = 0
    shared_bytes: int = 0
    max_threads: int = 1024


@dataclass(eq=False)
class _Memory:
    """An allocation, with guards around it."""

    device: int
    context: int
    address: int
    size: int
    store: Any
    managed: bool = False
    #: the host's memory, pinned
    host: bool = False

    def guards_hold(self) -> bool:
        before = ctypes.string_at(self.address - _GUARD_BYTES, _GUARD_BYTES)
        after = ctypes.string_at(self.address + self.size, _GUARD_BYTES)
        return before == after == bytes([GUARD]) * _GUARD_BYTES


@dataclass(eq=False)
class _Work:
    """A piece of work, with the addresses that it was given and the code that it runs."""

    do: Callable[[], object]
    addresses: tuple[int, ...] = ()
    module: _Module | None = None


@dataclass(eq=False)
class _Mark:
    """A point in a stream."""

    stream: _Stream
    passed: bool = False
    time: float = 0.0


@dataclass(eq=False)
class _Stream:
    handle: int
    context: _Context
    flags: int
    work: deque[_Work | _Mark] = field(default_factory=deque)
    alive: bool = True


@dataclass(eq=False)
class _Event:
    handle: int
    context: _Context
    flags: int
    mark: _Mark | None = None


@dataclass(eq=False)
class _Function:
    handle: int
    module: _Module
    name: str
    parameters: tuple[str, ...]
    facts: FakeKernel
    dynamic_shared: int


@dataclass(eq=False)
class _Module:
    handle: int
    context: _Context
    functions: dict[str, _Function]


@dataclass(eq=False)
class _Context:
    device: int
    handle: int
    retained: int = 0
    #: the result that all calls return once a kernel has failed
    lost: Result = 0
    streams: list[_Stream] = field(default_factory=list)


def _words(value: Any) -> list[int]:
    """What may be addresses in an argument."""
    if isinstance(value, bytes):
        return [word for (word,) in struct.iter_unpack("=Q", value[: len(value) // 8 * 8])]
    return [value] if isinstance(value, int) else []


_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr(?:\s+\.\w+(?:\s+\d+)?)*)?\s+(\w+)(?:\[(\d+)\])?"
)
_FORMATS = {
    "u8": "B", "b8": "B", "s8": "b", "u16": "H", "b16": "H", "s16": "h", "u32": "I", "b32": "I", "s32": "i",
    "u64": "Q", "b64": "Q", "s64": "q", "f32": "f", "f64": "d",
}  # fmt: skip


def entries(ptx: str) -> dict[str, tuple[str, ...]]:
    """kernel -> the formats (of `struct`) of its parameters."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.DOTALL)
    found = {}
    for name, inside in re.findall(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?", text):
        formats = []
        for _, kind, _, count in _PARAMETER.findall(inside):
            formats.append(f"{count}s" if count else _FORMATS[kind])
        found[name] = tuple(formats)
    return found


# ----------------------------------------------------------------------------------------------- the driver


class FakeDriver:
    """The library, as `Driver` takes it: an attribute for every function of `DECLARATIONS`."""

    def __init__(
        self,
        devices: Sequence[FakeDevice] = (FakeDevice(),),
        version: int = 12040,
        ptx: tuple[int, int] = (8, 4),
        starts: Result = SUCCESS,
    ) -> None:
        """`version` as cuDriverGetVersion says it, `ptx` the newest that it reads, `starts` what cuInit returns."""
        self.devices, self.version, self.ptx, self.starts = tuple(devices), version, ptx, starts
        #: name of a kernel -> what it does
        self.kernels: dict[str, KernelFunction] = {}
        #: name of a kernel -> what the compiler says of it
        self.compiled: dict[str, FakeKernel] = {}
        #: what went wrong in here
        self.faults: list[BaseException] = []
        #: name of a function -> times that it was called
        self.calls: Counter[Name] = Counter()
        #: (kernel, grid, block, shared, arguments), in the order of launching
        self.launches: list[tuple[str, tuple[int, int, int], tuple[int, int, int], int, tuple[Any, ...]]] = []
        #: options of the compiler in the last cuModuleLoadDataEx
        self.options: dict[int, int] = {}
        #: milliseconds; each piece of work takes one
        self.now = 0.0
        self._failures: dict[tuple[Name, int], Result] = {}
        self._started = False
        self._handles = iter(range(0x7F00_0000_1000, 0x7FFF_0000_0000, 16))
        self._memory: dict[int, _Memory] = {}
        self._contexts = {index: _Context(index, next(self._handles)) for index in range(len(self.devices))}
        self._foreign: dict[int, _Context] = {}
        self._streams: dict[int, _Stream] = {}
        self._events: dict[int, _Event] = {}
        self._modules: dict[int, _Module] = {}
        self._functions: dict[int, _Function] = {}
        self._stacks: dict[int, list[_Context]] = {}
        self._lock = threading.RLock()
        #: addresses and handles of what belongs to other libraries
        self._lent: set[int] = set()
        #: what was freed last, so that what still points there does no harm
        self._graves: deque[Any] = deque(maxlen=256)
        self._kept = [
            (ctypes.create_string_buffer(name.encode()), ctypes.create_string_buffer(text.encode()))
            for name, text in ERRORS.values()
        ]
        self._texts = dict(zip(ERRORS, self._kept, strict=True))
        for name, parameters in declared().items():
            setattr(self, name, self._function(name, parameters))

    # ------------------------------------------------------------------------------------ for tests

    def fail(self, name: Name, result: Result, nth: int = 1) -> None:
        """Let the n-th call of a function from now on return this, and do nothing."""
        self._failures[name, self.calls[name] + nth] = result

    def lend(
        self, size: int, device: int = 0, *, managed: bool = False, host: bool = False, own_context: bool = False
    ) -> int:
        """The address of memory that another library has allocated; not counted as a leak. `take_back` frees it."""
        context = self._contexts[device]
        if own_context:
            context = self._foreign.setdefault(device, _Context(device, next(self._handles)))
        memory = self._reserve(size, device, context.handle, managed=managed, host=host)
        self._lent.add(memory.address)
        return memory.address

    def take_back(self, address: int) -> None:
        """What `lend` lent; a fault if work is under way that uses it."""
        self._lent.discard(address)
        self._end(self._memory.pop(address))

    def stream_of_another(self, device: int = 0) -> int:
        """The handle of a stream that another library has made."""
        stream = _Stream(next(self._handles), self._contexts[device], _NON_BLOCKING)
        self._streams[stream.handle] = stream
        stream.context.streams.append(stream)
        self._lent.add(stream.handle)
        return stream.handle

    def queue(self, stream: int, do: Callable[[], object], *addresses: int, device: int = 0) -> None:
        """Work of another library, which uses what lies at these addresses."""
        found = self._streams.get(stream) or self._standing(self._contexts[device], stream)
        self._push(found, _Work(do, addresses))

    def bytes_at(self, address: int, size: int) -> bytes:
        """What device memory holds now, without waiting for anything."""
        self._inside(address, size)
        return ctypes.string_at(address, size)

    def write_at(self, address: int, data: bytes) -> None:
        self._inside(address, len(data))
        ctypes.memmove(address, data, len(data))

    @property
    def pending(self) -> int:
        """Pieces of work that are queued and not done."""
        return sum(len(s.work) for c in self._contexts.values() for s in c.streams)

    @property
    def allocated(self) -> int:
        """Bytes of device memory that are allocated."""
        return sum(m.size for m in self._memory.values() if not m.host)

    @property
    def retained(self) -> int:
        """Times that a context is retained."""
        return sum(context.retained for context in self._contexts.values())

    def leaks(self) -> list[str]:
        """What was taken and not given back."""
        found = [
            f"{m.size} bytes of {'pinned' * m.host or 'device'} memory"
            for a, m in self._memory.items()
            if a not in self._lent
        ]
        found += [f"stream {h:#x}" for h, s in self._streams.items() if s.alive and h not in self._lent]
        found += [f"event {handle:#x}" for handle in self._events]
        found += [f"module with {sorted(m.functions)}" for m in self._modules.values()]
        found += [f"context of device {c.device}, {c.retained} times" for c in self._contexts.values() if c.retained]
        found += [f"{len(stack)} current contexts of a thread" for stack in self._stacks.values() if stack]
        return found

    def check(self) -> None:
        """Raise the first fault; AssertionError for what was not given back."""
        for memory in self._memory.values():
            self._check_guards(memory)
        if self.faults:
            raise self.faults[0]
        assert self.leaks() == []

    # -------------------------------------------------------------------------------------- calls

    def _function(self, name: Name, parameters: tuple[Parameter, ...]) -> Any:
        body = getattr(self, "_" + name.removesuffix("_v2"))

        def function(*arguments: Any) -> Result:
            with self._lock:
                self.calls[name] += 1
                failure = self._failures.pop((name, self.calls[name]), None)
                if failure is not None:
                    return failure
                try:
                    if not self._started and name not in _BEFORE_INIT:
                        return NOT_INITIALIZED
                    body(*(0 if a is None else a for a in arguments))
                except _Refuse as refusal:
                    return refusal.result
                except BaseException as fault:
                    self.faults.append(fault)
                    return UNKNOWN
                return SUCCESS

        return ctypes.CFUNCTYPE(c_int, *(p.ctype for p in parameters))(function)

    @property
    def _stack(self) -> list[_Context]:
        return self._stacks.setdefault(threading.get_ident(), [])

    @property
    def _context(self) -> _Context:
        """The current context of the thread, if it is not lost."""
        _demand(self._stack, INVALID_CONTEXT)
        context = self._stack[-1]
        _demand(context.retained, 709)
        if context.lost:
            raise _Refuse(context.lost)
        return context

    def _fault(self, text: str) -> None:
        self.faults.append(AssertionError(text))

    # ------------------------------------------------------------------------------------- streams

    def _standing(self, context: _Context, handle: int) -> _Stream:
        """The default streams: 0 and 1 are one, 2 is the thread's."""
        which = PER_THREAD if handle == PER_THREAD else LEGACY
        for stream in context.streams:
            if stream.handle == which:
                return stream
        stream = _Stream(which, context, _BLOCKING)
        context.streams.append(stream)
        return stream

    def _stream(self, handle: int) -> _Stream:
        context = self._context
        if handle in (0, LEGACY, PER_THREAD):
            return self._standing(context, handle)
        _demand(handle in self._streams, INVALID_HANDLE)
        stream = self._streams[handle]
        _demand(stream.context is context and stream.alive, INVALID_HANDLE)
        return stream

    def _push(self, stream: _Stream, work: _Work | _Mark) -> None:
        """Queue it. The legacy stream waits for the blocking ones, and they for it."""
        if stream.flags == _BLOCKING:
            for other in stream.context.streams:
                joined = other.flags == _BLOCKING and LEGACY in (other.handle, stream.handle)
                if joined and other is not stream and other.work:
                    self._wait(stream, self._mark(other))
        stream.work.append(work)

    def _mark(self, stream: _Stream) -> _Mark:
        mark = _Mark(stream)
        stream.work.append(mark)
        return mark

    def _wait(self, stream: _Stream, mark: _Mark) -> None:
        stream.work.append(_Work(lambda: self._run(mark.stream, mark)))

    def _run(self, stream: _Stream, until: _Mark | None = None, pieces: int | None = None) -> None:
        """Do the stream's work: all, up to a mark, or so many pieces."""
        while stream.work and not (until is not None and until.passed):
            if pieces == 0 and not isinstance(stream.work[0], _Mark):
                return
            work = stream.work.popleft()
            if isinstance(work, _Mark):
                work.passed, work.time = True, self.now
                continue
            pieces = None if pieces is None else pieces - 1
            self.now += 1.0
            if stream.context.lost:
                continue
            try:
                work.do()
            except DeviceFault as fault:
                stream.context.lost = fault.result
            except BaseException as fault:
                self.faults.append(fault)
                stream.context.lost = LAUNCH_FAILED

    def _finish(self, context: _Context, streams: Sequence[_Stream]) -> None:
        for stream in list(streams):
            self._run(stream)
        for memory in self._memory.values():
            self._check_guards(memory)
        if context.lost:
            raise _Refuse(context.lost)

    def _must_not_be_used(self, what: str, uses: Callable[[_Work], bool]) -> None:
        """A fault if work is under way that uses it."""
        works = (w for c in self._contexts.values() for stream in c.streams for w in stream.work)
        if any(isinstance(work, _Work) and uses(work) for work in works):
            self._fault(f"{what} is given back while work is under way that uses it")

    # -------------------------------------------------------------------------------------- memory

    def _reserve(self, size: int, device: int, context: int, **more: bool) -> _Memory:
        store = ctypes.create_string_buffer(size + 2 * _GUARD_BYTES + _ALIGNMENT)
        address = ctypes.addressof(store) + _GUARD_BYTES
        address += -address % _ALIGNMENT
        ctypes.memset(address - _GUARD_BYTES, GUARD, size + 2 * _GUARD_BYTES)
        ctypes.memset(address, FRESH, size)
        memory = self._memory[address] = _Memory(device, context, address, size, store, **more)
        return memory

    def _check_guards(self, memory: _Memory) -> None:
        if not memory.guards_hold():
            self._fault(f"something was written beside {memory.size} bytes of memory")
            ctypes.memset(memory.address - _GUARD_BYTES, GUARD, _GUARD_BYTES)
            ctypes.memset(memory.address + memory.size, GUARD, _GUARD_BYTES)

    def _end(self, memory: _Memory) -> None:
        inside = range(memory.address, memory.address + memory.size)
        self._must_not_be_used("memory", lambda work: any(address in inside for address in work.addresses))
        self._check_guards(memory)
        ctypes.memset(memory.address, STALE, memory.size)
        self._graves.append(memory.store)

    def _found(self, address: int) -> _Memory | None:
        return next((m for m in self._memory.values() if m.address <= address < m.address + m.size), None)

    def _inside(self, address: int, size: int) -> None:
        """The bytes must all lie in one allocation on the device."""
        memory = self._found(address)
        if memory is None or memory.host or address + size > memory.address + memory.size:
            self._fault(f"{size} bytes at {address:#x} are not all in an allocation on the device")
            raise _Refuse(INVALID_VALUE)

    def _outside(self, address: int) -> None:
        memory = self._found(address)
        if address == 0 or (memory is not None and not memory.host):
            self._fault(f"{address:#x} is no address of the host's")
            raise _Refuse(INVALID_VALUE)

    def _copy(
        self, target: int, source: int, size: int, stream: int, *, device: tuple[int, ...], host: tuple[int, ...]
    ) -> None:
        queue = self._stream(stream)
        for address in device:
            self._inside(address, size)
            memory = self._found(address)
            assert memory is not None
            if memory.device != queue.context.device:
                self._fault(f"memory of device {memory.device} is used in a context of device {queue.context.device}")
        for address in host:
            self._outside(address)

        def work() -> None:
            for address in device:
                self._inside(address, size)  # freed meanwhile?
            ctypes.memmove(target, source, size)

        self._push(queue, _Work(work, (*device, *host)))

    # --------------------------------------------------------------- the functions, in the header's order

    def _cuInit(self, flags: int) -> None:
        _demand(flags == 0, INVALID_VALUE)
        _demand(self.starts == SUCCESS, self.starts)
        self._started = True

    def _cuDriverGetVersion(self, version: int) -> None:
        c_int.from_address(version).value = self.version

    def _text(self, error: int, out: int, which: int) -> None:
        _demand(error in self._texts, INVALID_VALUE)
        c_void_p.from_address(out).value = ctypes.addressof(self._texts[error][which])

    def _cuGetErrorName(self, error: int, out: int) -> None:
        self._text(error, out, 0)

    def _cuGetErrorString(self, error: int, out: int) -> None:
        self._text(error, out, 1)

    def _cuDeviceGetCount(self, count: int) -> None:
        c_int.from_address(count).value = len(self.devices)

    def _cuDeviceGet(self, device: int, ordinal: int) -> None:
        _demand(0 <= ordinal < len(self.devices), INVALID_DEVICE)
        c_int.from_address(device).value = ordinal

    def _device(self, index: int) -> FakeDevice:
        _demand(0 <= index < len(self.devices), INVALID_DEVICE)
        return self.devices[index]

    def _cuDeviceGetName(self, name: int, length: int, device: int) -> None:
        text = self._device(device).name.encode()[: length - 1] + b"\0"
        ctypes.memmove(name, text, len(text))

    def _cuDeviceGetAttribute(self, value: int, attribute: int, device: int) -> None:
        c_int.from_address(value).value = self._device(device).attribute(attribute)

    def _cuDeviceTotalMem(self, size: int, device: int) -> None:
        c_size_t.from_address(size).value = self._device(device).memory

    def _cuDevicePrimaryCtxRetain(self, context: int, device: int) -> None:
        refuses = self._device(device).refuses
        _demand(not refuses, refuses)
        self._contexts[device].retained += 1
        c_void_p.from_address(context).value = self._contexts[device].handle

    def _cuDevicePrimaryCtxRelease(self, device: int) -> None:
        self._device(device)
        context = self._contexts[device]
        if not context.retained:
            self._fault(f"the context of device {device} is released more often than it was retained")
            raise _Refuse(INVALID_CONTEXT)
        context.retained -= 1
        if context.retained:
            return
        if any(stream.work for stream in context.streams):
            self._fault("a context is given back while work is under way")
        left = [m for a, m in self._memory.items() if m.device == device and a not in self._lent]
        if left:
            self._fault(f"the context of device {device} is released, and {len(left)} allocations in it are not")
        context.lost = 0
        context.streams.clear()

    def _cuCtxPushCurrent(self, handle: int) -> None:
        found = next((c for c in self._contexts.values() if c.handle == handle), None)
        _demand(found is not None and found.retained, INVALID_CONTEXT)
        assert found is not None
        self._stack.append(found)

    def _cuCtxPopCurrent(self, out: int) -> None:
        _demand(self._stack, INVALID_CONTEXT)
        c_void_p.from_address(out).value = self._stack.pop().handle

    def _cuCtxSynchronize(self) -> None:
        context = self._context
        self._finish(context, context.streams)

    def _free(self, context: _Context) -> int:
        return self.devices[context.device].memory - sum(
            m.size for m in self._memory.values() if m.device == context.device and not m.host
        )

    def _cuMemGetInfo(self, free: int, total: int) -> None:
        c_size_t.from_address(free).value = self._free(self._context)
        c_size_t.from_address(total).value = self.devices[self._context.device].memory

    def _cuMemAlloc(self, out: int, size: int) -> None:
        context = self._context
        _demand(size, INVALID_VALUE)
        _demand(size <= self._free(context), OUT_OF_MEMORY)
        c_uint64.from_address(out).value = self._reserve(size, context.device, context.handle).address

    def _give_back(self, address: int, *, host: bool) -> None:
        _demand(self._stack, INVALID_CONTEXT)
        memory = self._memory.get(address)
        if memory is None or memory.host is not host or address in self._lent:
            self._fault(f"{address:#x} is freed, and is no allocation, or was freed before")
            raise _Refuse(INVALID_VALUE)
        del self._memory[address]
        self._end(memory)

    def _cuMemFree(self, address: int) -> None:
        self._give_back(address, host=False)

    def _cuMemHostAlloc(self, out: int, size: int, flags: int) -> None:
        context = self._context
        _demand(size and not flags & ~7, INVALID_VALUE)
        c_void_p.from_address(out).value = self._reserve(size, context.device, context.handle, host=True).address

    def _cuMemFreeHost(self, address: int) -> None:
        self._give_back(address, host=True)

    def _cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(target, source, size, stream, device=(target,), host=(source,))

    def _cuMemcpyDtoHAsync(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(target, source, size, stream, device=(source,), host=(target,))

    def _cuMemcpyDtoDAsync(self, target: int, source: int, size: int, stream: int) -> None:
        self._copy(target, source, size, stream, device=(target, source), host=())

    def _cuMemsetD8Async(self, target: int, byte: int, size: int, stream: int) -> None:
        queue = self._stream(stream)
        self._inside(target, size)
        self._push(queue, _Work(lambda: (self._inside(target, size), ctypes.memset(target, byte, size)), (target,)))

    def _cuPointerGetAttribute(self, out: int, attribute: int, address: int) -> None:
        _demand(self._stack, INVALID_CONTEXT)
        memory = self._found(address)
        _demand(memory is not None, INVALID_VALUE)
        assert memory is not None
        match attribute:
            case 1:
                c_void_p.from_address(out).value = memory.context
            case 2:
                c_uint.from_address(out).value = 1 if memory.host else 2
            case 8:
                c_ubyte.from_address(out).value = memory.managed
            case 9:
                c_int.from_address(out).value = memory.device
            case _:
                raise _Refuse(INVALID_VALUE)

    def _cuStreamCreate(self, out: int, flags: int) -> None:
        context = self._context
        _demand(flags in (_BLOCKING, _NON_BLOCKING), INVALID_VALUE)
        stream = _Stream(next(self._handles), context, flags)
        self._streams[stream.handle] = stream
        context.streams.append(stream)
        c_void_p.from_address(out).value = stream.handle

    def _cuStreamDestroy(self, handle: int) -> None:
        if handle in self._lent or handle not in self._streams:
            self._fault(f"stream {handle:#x} is destroyed, and is not ours")
            raise _Refuse(INVALID_HANDLE)
        stream = self._streams.pop(handle)
        if stream.work:
            self._fault("a stream is given back while work is under way")
        stream.alive = False
        if stream in stream.context.streams:
            stream.context.streams.remove(stream)

    def _cuStreamSynchronize(self, handle: int) -> None:
        stream = self._stream(handle)
        self._finish(stream.context, [stream])

    def _cuStreamQuery(self, handle: int) -> None:
        stream = self._stream(handle)
        done = not stream.work
        self._run(stream, pieces=1)  # the device goes on meanwhile
        _demand(done, NOT_READY)

    def _event(self, handle: int) -> _Event:
        _demand(handle in self._events, INVALID_HANDLE)
        return self._events[handle]

    def _cuStreamWaitEvent(self, handle: int, event: int, flags: int) -> None:
        _demand(flags == 0, INVALID_VALUE)
        stream, mark = self._stream(handle), self._event(event).mark
        if mark is not None:
            self._wait(stream, mark)

    def _cuEventCreate(self, out: int, flags: int) -> None:
        event = _Event(next(self._handles), self._context, flags)
        self._events[event.handle] = event
        c_void_p.from_address(out).value = event.handle

    def _cuEventDestroy(self, handle: int) -> None:
        self._event(handle)
        del self._events[handle]

    def _cuEventRecord(self, handle: int, stream: int) -> None:
        event = self._event(handle)
        queue = self._stream(stream)
        _demand(event.context is queue.context, INVALID_HANDLE)
        mark = _Mark(queue)
        self._push(queue, mark)
        event.mark = mark

    def _cuEventSynchronize(self, handle: int) -> None:
        mark, context = self._event(handle).mark, self._context
        if mark is not None:
            self._run(mark.stream, mark)
        if context.lost:
            raise _Refuse(context.lost)

    def _cuEventQuery(self, handle: int) -> None:
        mark, context = self._event(handle).mark, self._context
        done = mark is None or mark.passed
        if mark is not None and not mark.passed:
            self._run(mark.stream, mark, pieces=1)
        if context.lost:
            raise _Refuse(context.lost)
        _demand(done, NOT_READY)

    def _cuEventElapsedTime(self, out: int, start: int, end: int) -> None:
        first, last = self._event(start), self._event(end)
        _demand(not (first.flags | last.flags) & 2 and first.mark and last.mark, INVALID_HANDLE)
        assert first.mark is not None
        assert last.mark is not None
        _demand(first.mark.passed and last.mark.passed, NOT_READY)
        c_float.from_address(out).value = last.mark.time - first.mark.time

    def _cuModuleLoadDataEx(self, out: int, image: int, count: int, options: int, values: int) -> None:
        context = self._context
        keys = (c_int * count).from_address(options) if count else ()
        slots = (c_uint64 * count).from_address(values) if count else ()
        self.options = dict(zip(keys, slots, strict=True))
        text = ctypes.string_at(image).decode()
        said = self._compile(text, context)
        if said is not None:
            result, log = said
            place = {key: i for i, key in enumerate(keys)}
            if {5, 6} <= place.keys():
                data = log.encode()[: slots[place[6]] - 1] + b"\0"
                ctypes.memmove(slots[place[5]], data, len(data))
                slots[place[6]] = len(data)
            raise _Refuse(result)
        if {3, 4} <= self.options.keys():
            data = f"ptxas info    : {len(entries(text))} kernels compiled".encode()[: self.options[4] - 1] + b"\0"
            ctypes.memmove(self.options[3], data, len(data))
        module = _Module(next(self._handles), context, {})
        for name, formats in entries(text).items():
            facts = self.compiled.get(name, FakeKernel())
            function = _Function(
                next(self._handles), module, name, formats, facts, _DEFAULT_SHARED - facts.shared_bytes
            )
            module.functions[name] = self._functions[function.handle] = function
        self._modules[module.handle] = module
        c_void_p.from_address(out).value = module.handle

    def _compile(self, ptx: str, context: _Context) -> tuple[Result, str] | None:
        """What the compiler in the driver has against a text."""
        version = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
        target = re.search(r"^\s*\.target\s+sm_(\d+)(\d)", ptx, re.MULTILINE)
        if version is None:
            return (
                INVALID_PTX,
                "ptxas application ptx input, line 1; fatal   : Missing .version directive at start of file",
            )
        if (int(version[1]), int(version[2])) > self.ptx:
            newest = f"{self.ptx[0]}.{self.ptx[1]}"
            return UNSUPPORTED_PTX, (
                f"ptxas application ptx input, line 1; fatal   : Unsupported .version {version[1]}.{version[2]}; "
                f"current version is '{newest}'"
            )
        if target is None:
            return (
                INVALID_PTX,
                "ptxas fatal   : Missing .target directive\nptxas fatal   : Ptx assembly aborted due to errors",
            )
        if (int(target[1]), int(target[2])) > self.devices[context.device].capability:
            return INVALID_PTX, (
                "ptxas application ptx input, line 2; fatal   : SM version specified by .target is higher than default SM "
                "version assumed"
            )
        if ".entry" not in ptx or ptx.count("{") != ptx.count("}"):
            line = ptx.count("\n") + 1
            return INVALID_PTX, (
                f"ptxas application ptx input, line {line}; error   : Parsing error near '': syntax error\n"
                "ptxas fatal   : Ptx assembly aborted due to errors"
            )
        return None

    def _cuModuleUnload(self, handle: int) -> None:
        _demand(handle in self._modules, INVALID_HANDLE)
        module = self._modules.pop(handle)
        self._must_not_be_used("code", lambda work: work.module is module)
        for function in module.functions.values():
            del self._functions[function.handle]

    def _cuModuleGetFunction(self, out: int, handle: int, name: int) -> None:
        _demand(handle in self._modules, INVALID_HANDLE)
        functions = self._modules[handle].functions
        text = ctypes.string_at(name).decode()
        _demand(text in functions, NOT_FOUND)
        c_void_p.from_address(out).value = functions[text].handle

    def _get_function(self, handle: int) -> _Function:
        _demand(handle in self._functions, INVALID_HANDLE)
        function = self._functions[handle]
        _demand(function.module.context is self._context, INVALID_HANDLE)
        return function

    def _cuFuncGetAttribute(self, out: int, attribute: int, handle: int) -> None:
        function = self._get_function(handle)
        facts = function.facts
        values = {
            0: facts.max_threads, 1: facts.shared_bytes, 3: facts.local_bytes, 4: facts.registers, 8: function.dynamic_shared,
        }  # fmt: skip
        _demand(attribute in values, INVALID_VALUE)
        c_int.from_address(out).value = values[attribute]

    def _cuFuncSetAttribute(self, handle: int, attribute: int, value: int) -> None:
        function = self._get_function(handle)
        most = self.devices[function.module.context.device].shared_per_block - function.facts.shared_bytes
        _demand(attribute == 8 and 0 <= value <= most, INVALID_VALUE)
        function.dynamic_shared = value

    def _blocks(self, function: _Function, block: int, shared: int) -> int:
        device = self.devices[function.module.context.device]
        most = [device.threads_per_multiprocessor // block, 32]
        most.append(device.registers_per_multiprocessor // (function.facts.registers * (block + -block % 32)))
        used = shared + function.facts.shared_bytes
        if used:
            most.append(device.shared_per_block // used)
        return 0 if block > function.facts.max_threads else min(most)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: int, handle: int, block: int, shared: int) -> None:
        function = self._get_function(handle)
        _demand(block > 0, INVALID_VALUE)
        c_int.from_address(out).value = self._blocks(function, block, shared)

    def _cuOccupancyMaxPotentialBlockSize(
        self, blocks: int, threads: int, handle: int, callback: int, shared: int, limit: int
    ) -> None:
        function = self._get_function(handle)
        _demand(callback == 0, 801)
        most = min(function.facts.max_threads, limit or function.facts.max_threads)
        best = max(range(32, most + 1, 32), key=lambda block: (self._blocks(function, block, shared) * block, block))
        c_int.from_address(threads).value = best
        device = self.devices[function.module.context.device]
        c_int.from_address(blocks).value = self._blocks(function, best, shared) * device.multiprocessors

    def _cuLaunchKernel(self, handle: int, *rest: int) -> None:
        sizes, shared, stream, parameters, extra = rest[:6], rest[6], rest[7], rest[8], rest[9]
        function, queue = self._get_function(handle), self._stream(stream)
        x, y, z, bx, by, bz = sizes
        _demand(min(sizes) > 0 and x < 1 << 31 and max(y, z) < 1 << 16, INVALID_VALUE)
        _demand(bx <= 1024 and by <= 1024 and bz <= 64 and bx * by * bz <= 1024, INVALID_VALUE)
        _demand(bx * by * bz <= function.facts.max_threads, OUT_OF_RESOURCES)
        _demand(shared <= function.dynamic_shared and extra == 0, INVALID_VALUE)
        values = []
        for i, kind in enumerate(function.parameters):
            where = c_uint64.from_address(parameters + 8 * i).value
            if not where:
                raise AssertionError(f"{function.name} takes {len(function.parameters)} arguments, and was given {i}")
            data = ctypes.string_at(where, struct.calcsize(kind))
            values.append(struct.unpack("=" + kind, data)[0])
        if c_uint64.from_address(parameters + 8 * len(values)).value:
            raise AssertionError(f"{function.name} takes {len(values)} arguments, and was given more")
        arguments, body = tuple(values), self.kernels.get(function.name)
        self.launches.append((function.name, (x, y, z), (bx, by, bz), shared, arguments))
        if body is None:
            raise AssertionError(f"no function is registered for the kernel {function.name}")
        words = [word for value in arguments for word in _words(value)]
        self._push(queue, _Work(lambda: body((x, y, z), (bx, by, bz), arguments), tuple(words), function.module))


_BEFORE_INIT = frozenset({"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString"})
