"""The CUDA driver through ctypes, its devices, memory, streams and kernels, on a driver that is none (fake_driver.py)."""

from __future__ import annotations

import ctypes
import gc
import os
import re
import threading
import weakref
from collections.abc import Callable
from ctypes import c_int8, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda import driver as drivers
from retrograd.simulator.engines.cuda.context import Buffer, Context, Stream
from retrograd.simulator.engines.cuda.driver import (
    PROTOTYPES,
    Driver,
    cuda_that_reads,
    devices,
    driver,
    newest_ptx,
    size_text,
    using,
)
from retrograd.simulator.engines.cuda.kernels import Module

PTX = """\
//
// by hand
//
.version 8.0
.target sm_80
.address_size 64

.visible .entry add_one(
	.param .u64 .ptr .global .align 8 add_one_param_0,
	.param .u64 add_one_param_1
)
{
	ret;
}
.visible .entry mixed(.param .u8 a, .param .s32 b, .param .u64 c, .param .f32 d, .param .f64 e, .param .align 8 .b8 f[24])
{
	ret;
}
.visible .entry nothing()
{
	ret;
}
"""


def error_of(code: str, call: Callable[..., object], *arguments: Any, **more: Any) -> str:
    """What is said, under this code and no other."""
    with pytest.raises(DeviceError) as caught:
        call(*arguments, **more)
    assert caught.value.code == code
    return str(caught.value)


def add_one(_grid: object, _block: object, arguments: tuple[int, int]) -> None:
    address, count = arguments
    np.ctypeslib.as_array((c_int64 * count).from_address(address))[:] += 1


# ------------------------------------------------------------------------------------------- prototypes


def test_prototypes_are_those_of_the_declarations_in_c(fakes: ModuleType) -> None:
    """Pointers where C has pointers, to things as wide; numbers as wide as in C, and signed where they are."""
    declared = fakes.declared()
    assert set(PROTOTYPES) == set(declared)
    for name, types in PROTOTYPES.items():
        parameters = declared[name]
        assert len(types) == len(parameters), name
        for ours, theirs in zip(types, parameters, strict=True):
            is_pointer = ours in (c_void_p, ctypes.c_char_p) or hasattr(ours, "contents")
            assert is_pointer == (theirs.ctype is c_void_p), (name, theirs)
            if hasattr(ours, "contents"):
                inner = fakes.Parameter(theirs.base, theirs.stars - 1).ctype
                assert ctypes.sizeof(ours._type_) == ctypes.sizeof(inner), (name, theirs)
            elif not is_pointer:
                assert ctypes.sizeof(ours) == ctypes.sizeof(theirs.ctype), (name, theirs)
                assert (ours(-1).value < 0) == (theirs.ctype(-1).value < 0), (name, theirs)


def header() -> Path | None:
    folders = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda", "/usr"]
    found = (Path(folder) / "include" / "cuda.h" for folder in folders if folder)
    return next((path for path in found if path.exists() and "cuMemcpyHtoDAsync" in path.read_text("latin-1")), None)


def test_declarations_are_those_of_cuda_h(fakes: ModuleType) -> None:
    path = header()
    if path is None:
        pytest.skip("no cuda.h of NVIDIA's on this machine")
    text = re.sub(r"\s+", " ", path.read_text("latin-1")).replace("* ", "*")
    theirs: dict[str, Any] = {}
    for match in re.finditer(r"CUresult CUDAAPI \w+\([^;]*?\);", text):  # of several versions the newest comes first
        for name, parameters in fakes.declared(match[0]).items():
            theirs.setdefault(name, parameters)
    for name, ours in fakes.declared().items():
        plain = name.removesuffix("_v2")
        assert [(p.base, p.stars) for p in theirs[plain]] == [(p.base, p.stars) for p in ours], name
        if plain != name:
            assert re.search(rf"#define {plain} (?:__CUDA_API_PTSZ\()?{name}\b", text), name


def test_what_is_too_wide_for_its_type_does_not_pass_unseen(fake: Any) -> None:
    """Why the fake's functions are C functions: with a wrong type an address would arrive cut off, as it would at the driver."""
    function = fake.cuMemFree_v2
    function.argtypes = (ctypes.c_uint,)
    with Context(driver().device(0)) as context, context.current():
        function(0x7F00_1234_5678)
    assert "0x12345678 is freed" in str(fake.faults.pop())


# ----------------------------------------------------------------------------------------------- devices


def test_devices(fake: Any) -> None:
    first, second = devices()
    assert (first.index, first.name, first.capability, first.target) == (0, "Fake A100", (8, 0), "sm_80")
    assert (first.memory, first.multiprocessors, first.clock, first.warp) == (1 << 30, 108, 1_410_000, 32)
    assert (first.threads_per_block, first.threads_per_multiprocessor, first.shared_per_block) == (
        1024,
        2048,
        163 << 10,
    )
    assert (str(second), second.name, second.target) == ("cuda:1", "Fake H100", "sm_90")
    assert driver().version == (12, 4)
    assert driver().device() is first
    assert driver() is driver()
    assert "there is no CUDA device 2: they are 0 to 1" in error_of("RG1002", driver().device, 2)
    error_of("RG1002", driver().device, -1)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        (100, "it finds no device"), (802, "fabric manager"), (803, "different versions"), (804, "cuda-compat"), (34, "stub"),
        (999, "nvidia_uvm"), (304, "/dev/nvidia"), (3, "`spawn`"), (1, "CUDA_ERROR_INVALID_VALUE (1): invalid argument"),
        (4711, "result 4711, which it has no name for"),
    ],
)  # fmt: skip
def test_a_driver_that_does_not_start(fakes: ModuleType, result: int, said: str) -> None:
    text = error_of("RG1002", Driver, fakes.FakeDriver(starts=result))
    assert said in text
    assert f"({result})" in text or result == 4711


def test_a_driver_that_starts_and_has_no_device(fakes: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    with using(fakes.FakeDriver(devices=[])):
        assert devices() == ()
        assert "CUDA_VISIBLE_DEVICES is `-1`" in error_of("RG1002", lambda: driver().devices)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def missing(name: str) -> None:
        asked.append(name)
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(drivers, "_driver", None)
    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert "no CUDA driver is installed: there is no libcuda.so.1" in error_of("RG1002", driver)
    assert devices() == ()
    assert "/usr/lib/wsl/lib/libcuda.so.1" in asked
    monkeypatch.setattr("sys.platform", "win32")
    assert "there is no nvcuda.dll" in error_of("RG1002", driver)


def test_a_library_that_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise OSError(f"{name}: wrong ELF class: ELFCLASS32")

    monkeypatch.setattr(ctypes, "CDLL", broken)
    assert "cannot be loaded: libcuda.so.1: wrong ELF class" in error_of("RG1002", drivers.load_library)


def test_a_driver_that_is_too_old(fakes: ModuleType) -> None:
    library = fakes.FakeDriver()
    del library.cuOccupancyMaxPotentialBlockSize
    assert "it has no cuOccupancyMaxPotentialBlockSize" in error_of("RG1002", Driver, library)


def test_a_child_by_fork(fake: Any, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the objects and not the device: it gives nothing back, and is told to be spawned."""
    assert driver().devices
    buffer, lent = context.allocate(8), Buffer(context, 8, fake.lend(8), "owner")
    before = fake.calls.copy()
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        assert "`spawn`" in error_of("RG1002", driver)
        buffer.close()
        lent.close()
    # `driver` asked for the error's text.
    assert {name for name in fake.calls if fake.calls[name] > before[name]} == {"cuGetErrorName", "cuGetErrorString"}
    with context.current() as parent:
        parent.call("cuMemFree_v2", buffer._handle)


def test_versions_of_ptx() -> None:
    assert newest_ptx((12, 4)) == (8, 4)
    assert newest_ptx((12, 6)) == (8, 5)
    assert newest_ptx((99, 0)) >= (9, 1)
    assert cuda_that_reads((8, 6)) == (12, 7)
    assert cuda_that_reads((99, 0)) is None


@settings(max_examples=60)
@given(st.tuples(st.integers(11, 14), st.integers(0, 9)))
def test_a_driver_reads_the_ptx_that_it_is_said_to(cuda: tuple[int, int]) -> None:
    needed = cuda_that_reads(newest_ptx(cuda))
    assert needed is not None
    assert needed <= cuda
    assert newest_ptx(needed) == newest_ptx(cuda)


def test_sizes() -> None:
    assert [size_text(n) for n in (0, 1023, 1024, 3 << 19, 80 << 30)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "80.0 GiB",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------------------- contexts


def test_the_context_is_current_only_while_it_is_used(fake: Any) -> None:
    with Context(driver().device(0)) as outer, outer.current(), Context(driver().device(1)) as inner:
        assert [c.device for c in fake._stack] == [0]
        with inner.current():
            assert [c.device for c in fake._stack] == [0, 1]
        with pytest.raises(ZeroDivisionError), inner.current():
            _ = 1 // 0
        inner.allocate(8)
        assert [c.device for c in fake._stack] == [0]
    assert fake.retained == 0


def test_threads_use_devices_side_by_side(fake: Any) -> None:
    contexts = [Context(d) for d in devices()]
    wrong: list[object] = []

    def work(index: int) -> None:
        try:
            context = contexts[index % 2]
            for i in range(20):
                data = np.full(16, 1000 * index + i)
                with context.allocate(data.nbytes) as buffer:
                    buffer.copy_from_host(data)
                    back = np.zeros_like(data)
                    buffer.copy_to_host(back)
                    if not np.array_equal(back, data):
                        wrong.append((index, back))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for context in contexts:
        context.close()
    assert wrong == []


def test_a_context_that_is_closed(context: Context) -> None:
    buffer, stream, event = context.allocate(8), context.stream(), context.event()
    module = Module(context, PTX)
    kernel = module.kernel("nothing")
    context.close()
    context.close()
    assert "the context of cuda:0 was given back" in error_of("RG1005", context.allocate, 8)
    assert "the buffer was given back" in error_of("RG1005", lambda: buffer.address)
    for call in (stream.synchronize, stream.record, event.synchronize, context.synchronize):
        assert "was given back" in error_of("RG1005", call)
    error_of("RG1005", kernel.launch, 1, 1, [])


def test_what_is_closed_is_not_used(context: Context) -> None:
    stream, event, buffer, module = context.stream(), context.event(), context.allocate(8), Module(context, PTX)
    kernel = module.kernel("nothing")
    for thing in (stream, event, buffer, module):
        assert thing.is_open
        thing.close()
        assert not thing.is_open
    assert "the stream was given back, and is used again" in error_of("RG1005", stream.synchronize)
    assert "the event was" in error_of("RG1005", context.default_stream.wait, event)
    assert "the buffer was" in error_of("RG1005", buffer.fill, 0)
    assert "the module was" in error_of("RG1005", kernel.launch, 1, 1, [])


def test_a_context_that_is_forgotten(fake: Any) -> None:
    """No `close` anywhere: all is given back in an order that the driver accepts."""
    context = Context(driver().device(0))
    kernel = Module(context, PTX).kernel("add_one")
    buffer, stream = context.allocate(80), context.stream()
    array = context.pinned(10, np.int64)
    fake.kernels["add_one"] = add_one
    kernel.launch(1, 32, [buffer, c_uint64(10)], stream)
    buffer.copy_to_host(array, stream)
    cycle: list[object] = [context, kernel, buffer, stream, array]
    cycle.append(cycle)
    del context, kernel, buffer, stream, array, cycle
    assert fake.leaks() != []
    gc.collect()
    assert fake.leaks() == []


def test_a_pinned_array_outlives_its_context(fake: Any) -> None:
    with Context(driver().device(0)) as context:
        array = context.pinned((3, 4), np.float32)
        array[:] = 7
    part = array[1:, ::2].T
    del array
    gc.collect()
    assert part.sum() == 28
    assert fake.retained == 1
    del part
    gc.collect()
    assert fake.leaks() == []


def test_pinned_memory(fake: Any, context: Context) -> None:
    array = context.pinned((2, 3), np.int32)
    assert (array.shape, array.dtype, array.flags.c_contiguous, array.flags.writeable) == ((2, 3), np.int32, True, True)
    assert context.pinned(0, np.int32).shape == (0,)
    fake.fail("cuMemHostAlloc", 2)
    assert "no 8.0 KiB of the host's memory can be pinned for cuda:0" in error_of("RG1004", context.pinned, 1024, "f8")


def test_pinned_memory_is_given_back_when_the_device_is_done_with_it(fake: Any, context: Context) -> None:
    """A kernel can use it as it lies, and then no stream holds the array."""
    fake.kernels["add_one"] = add_one
    module, array = Module(context, PTX), context.pinned(4, np.int64)
    module.kernel("add_one").launch(1, 32, [c_uint64(array.ctypes.data), c_uint64(4)])
    del array
    assert fake.pending == 0


def test_a_device_that_cannot_be_used(fakes: ModuleType) -> None:
    library = fakes.FakeDriver(devices=[fakes.FakeDevice(refuses=46), fakes.FakeDevice(refuses=2, memory=3 << 30)])
    with using(library):
        assert "cuda:0 (Fake A100) cannot be used: the device is busy" in error_of(
            "RG1002", Context, driver().device(0)
        )
        assert "cuda:1 (Fake A100, 3.0 GiB) has no room left" in error_of("RG1004", Context, driver().device(1))
    library.check()


# ------------------------------------------------------------------------------------------------ memory


@settings(max_examples=60)
@given(st.binary(max_size=300), st.integers(0, 40), st.integers(0, 40))
def test_what_is_copied_in_comes_out(fakes: ModuleType, data: bytes, before: int, after: int) -> None:
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        buffer = context.allocate(before + len(data) + after)
        buffer.fill(0x11)
        buffer.copy_from_host(np.frombuffer(data, np.uint8), offset=before)
        whole, part = np.zeros(buffer.size, np.uint8), np.zeros(len(data), np.uint8)
        buffer.copy_to_host(whole)
        buffer.copy_to_host(part, offset=before)
        assert part.tobytes() == data
        assert whole.tobytes() == b"\x11" * before + data + b"\x11" * after
        other = context.allocate(buffer.size + 3)
        other.fill(0)
        other.copy_from(buffer, offset=2)
        longer = np.zeros(other.size, np.uint8)
        other.copy_to_host(longer)
        assert longer.tobytes() == b"\0\0" + whole.tobytes() + b"\0"
    gc.collect()
    library.check()


@settings(max_examples=60)
@given(st.integers(0, 64), st.integers(-8, 80), st.integers(0, 80))
@example(8, 0, 8)
@example(8, 1, 8)
@example(8, 8, 1)
@example(8, -1, 8)
def test_no_copy_leaves_the_buffer(fakes: ModuleType, size: int, offset: int, count: int) -> None:
    """Inside it is made, outside refused before the driver is asked."""
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        buffer = context.allocate(size)
        inside = offset >= 0 and offset + count <= size
        for copy in (buffer.copy_from_host, buffer.copy_to_host):
            array = np.zeros(count, np.uint8)
            if inside:
                copy(array, offset=offset)
            else:
                assert f"a buffer of {size} bytes" in error_of("RG1006", copy, array, offset=offset)
    gc.collect()
    library.check()


def test_arrays_of_the_host_that_cannot_be_copied(context: Context) -> None:
    buffer, array = context.allocate(800), np.zeros((10, 10))
    assert "not contiguous" in error_of("RG1006", buffer.copy_from_host, array[:, :5])
    array.flags.writeable = False
    assert "read-only" in error_of("RG1006", buffer.copy_to_host, array)
    buffer.copy_from_host(array)


def test_memory_is_freed_once(fake: Any, context: Context) -> None:
    buffer = context.allocate(100)
    assert fake.allocated == 100
    buffer.close()
    assert fake.allocated == 0
    buffer.close()
    del buffer
    with context.allocate(7):
        assert fake.allocated == 7
    assert fake.allocated == 0
    forgotten = context.allocate(9)
    assert (fake.allocated, forgotten.size) == (9, 9)
    del forgotten
    assert fake.allocated == 0
    assert fake.calls["cuMemFree_v2"] == 3


def test_memory_of_no_bytes(fake: Any, context: Context) -> None:
    buffer = context.allocate(0)
    buffer.fill(1)
    buffer.copy_from_host(np.zeros(0))
    buffer.copy_to_host(np.zeros(0))
    assert buffer.address == 0
    assert fake.calls["cuMemAlloc_v2"] == 0
    with pytest.raises(ValueError, match="less than no bytes"):
        context.allocate(-1)


def test_memory_that_is_used_is_freed_when_the_work_is_done(fake: Any, context: Context) -> None:
    kernel, stream = Module(context, PTX).kernel("add_one"), context.stream()
    fake.kernels["add_one"] = add_one
    buffer, array = context.allocate(80), np.zeros(10, np.int64)
    buffer.copy_from_host(array, stream)
    kernel.launch(1, 32, [buffer, c_uint64(10)], stream)
    buffer.copy_to_host(array, stream)
    assert fake.pending == 3
    buffer.close()
    assert fake.pending == 0
    assert array.tolist() == [1] * 10


def test_lent_memory_goes_back_when_the_device_is_done_with_it(fake: Any, context: Context) -> None:
    class Owner:
        pass

    owner = Owner()
    weakref.finalize(owner, fake.take_back, address := fake.lend(16))
    buffer, stream = Buffer(context, 16, address, owner), context.stream()
    del owner
    buffer.fill(3, stream)
    assert fake.pending == 1
    del buffer  # `take_back` finds a fault if work is under way
    gc.collect()
    assert fake.pending == 0
    assert fake.calls["cuMemFree_v2"] == 0


def test_out_of_memory(fakes: ModuleType) -> None:
    library = fakes.FakeDriver(devices=[fakes.FakeDevice(memory=1 << 20)])
    with using(library), Context(driver().device(0)) as context:
        first = context.allocate(1 << 19)
        text = error_of("RG1004", context.allocate, (1 << 19) + 1)
        assert "cuda:0 (Fake A100) has no room for 512.0 KiB: 512.0 KiB of 1.0 MiB are free" in text
        error_of("RG1004", context.allocate, 1 << 62)
        assert context.memory() == (1 << 19, 1 << 20)
        first.close()
        assert context.allocate(1 << 20).size == 1 << 20
    gc.collect()
    library.check()


# ---------------------------------------------------------------------------------------- streams, events


def test_work_is_done_when_it_is_waited_for(fake: Any, context: Context) -> None:
    buffer, stream, back = context.allocate(4), context.stream(), np.zeros(4, np.uint8)
    buffer.fill(9, stream)
    buffer.copy_to_host(back, stream)
    assert (back.tolist(), fake.pending) == ([0] * 4, 2)
    stream.synchronize()
    assert (back.tolist(), fake.pending) == ([9] * 4, 0)


def test_copies_without_a_stream_wait_for_all_work(context: Context) -> None:
    buffer, stream, back = context.allocate(4), context.stream(), np.zeros(4, np.uint8)
    buffer.fill(9, stream)
    buffer.copy_to_host(back)
    assert back.tolist() == [9] * 4


def test_a_new_stream_waits_for_no_other(fake: Any, context: Context) -> None:
    """Nor for the default stream, where other libraries have their work."""
    buffer, stream, theirs = context.allocate(4), context.stream(), context.default_stream
    buffer.fill(1, theirs)
    buffer.fill(2, stream)
    stream.synchronize()
    assert fake.pending == 1


def test_done_says_when_the_work_is_done(context: Context) -> None:
    buffer, stream = context.allocate(4), context.stream()
    assert stream.done
    buffer.fill(1, stream)
    event = stream.record()
    buffer.fill(2, stream)
    answers = [(event.done, stream.done) for _ in range(4)]
    assert answers[0] == (False, False)
    assert answers[-1] == (True, True)


def test_an_array_is_held_until_its_copy_is_done(context: Context) -> None:
    buffer, stream = context.allocate(80), context.stream()
    array = np.arange(10)
    buffer.copy_from_host(array, stream)
    held = weakref.ref(array)
    del array
    assert held() is not None
    stream.synchronize()
    assert held() is None
    back = np.zeros(10, np.int64)
    buffer.copy_to_host(back)
    assert back.tolist() == list(range(10))


def test_a_stream_that_nobody_waits_for_does_not_hold_ever_more(fake: Any, context: Context) -> None:
    buffer, stream = context.allocate(8), context.stream()
    most = 0
    for i in range(1000):
        buffer.copy_from_host(np.array([i]), stream)
        most = max(most, len(stream._held))
        if i % 50 == 0:
            with context.current() as d:
                d.call("cuStreamSynchronize", stream.handle)  # by another library, say
    assert most <= 130
    assert fake.calls["cuStreamQuery"] > 0


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(["fill", "copy"]), st.integers(0, 2), st.integers(0, 2)),
        max_size=12,
    ),
    st.integers(0, 2),
)
def test_streams_that_wait_for_each_other_do_as_one(
    fakes: ModuleType, work: list[tuple[int, str, int, int]], last: int
) -> None:
    """Work spread over streams, each step made to wait for the one before, leaves what it leaves in order."""
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        streams = [context.stream(), context.stream(), context.default_stream]
        buffers, model = [context.allocate(4) for _ in range(3)], [bytes([0]) * 4] * 3
        for buffer in buffers:
            buffer.fill(0)
        before: Stream | None = None
        for i, (which, what, a, b) in enumerate(work):
            stream = streams[which]
            if before is not None:
                stream.wait_for(before)
            before = stream
            if what == "fill":
                buffers[a].fill(i + 1, stream)
                model[a] = bytes([i + 1]) * 4
            elif a != b:
                buffers[a].copy_from(buffers[b], stream)
                model[a] = model[b]
        out = np.zeros((3, 4), np.uint8)
        if before is not None:
            streams[last].wait_for(before)
        for i, buffer in enumerate(buffers):
            buffer.copy_to_host(out[i], streams[last])
        streams[last].synchronize()
        assert [row.tobytes() for row in out] == model
    gc.collect()
    library.check()


def test_streams_that_do_not_wait_do_otherwise(context: Context) -> None:
    """What the test before would say if nothing waited: so it can fail."""
    buffer, first, second = context.allocate(4), context.stream(), context.stream()
    buffer.fill(0)
    buffer.fill(1, first)
    out = np.zeros(4, np.uint8)
    buffer.copy_to_host(out, second)
    second.synchronize()
    assert out.tolist() == [0] * 4
    first.synchronize()


def test_times(fake: Any, context: Context) -> None:
    buffer, stream = context.allocate(4), context.stream()
    start, end = context.event(), context.event()
    start.record(stream)
    for _ in range(5):
        buffer.fill(0, stream)
    end.record(stream)
    assert end.since(start) == 5.0  # each piece of work takes the fake one millisecond
    assert fake.pending == 0
    assert "cuEventElapsedTime failed" in error_of("RG1005", stream.record().since, start)
    with_none = context.event()
    with_none.record()
    with_none.synchronize()
    assert with_none.done


# ------------------------------------------------------------------------------------------------ kernels


def test_a_kernel_is_launched(fake: Any, context: Context) -> None:
    fake.kernels["add_one"] = add_one
    kernel = Module(context, PTX).kernel("add_one")
    array = np.arange(1000)
    buffer = context.allocate(array.nbytes)
    buffer.copy_from_host(array)
    for _ in range(3):
        kernel.launch(-(-1000 // 128), 128, [buffer, c_uint64(1000)])
    buffer.copy_to_host(array)
    assert array.tolist() == list(range(3, 1003))
    assert fake.launches[0] == ("add_one", (8, 1, 1), (128, 1, 1), 0, (buffer.address, 1000))


@settings(max_examples=60)
@given(
    st.integers(0, 255), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**64 - 1), st.floats(width=32, allow_nan=False),
    st.floats(allow_nan=False), st.binary(min_size=24, max_size=24),
    st.lists(st.integers(1, 9), min_size=1, max_size=3), st.lists(st.integers(1, 9), min_size=1, max_size=3),
)  # fmt: skip
def test_arguments_arrive(
    fakes: ModuleType, a: int, b: int, c: int, d: float, e: float, f: bytes, grid: list[int], block: list[int]
) -> None:
    library = fakes.FakeDriver()
    seen: list[Any] = []
    library.kernels["mixed"] = lambda *everything: seen.append(everything)
    with using(library), Context(driver().device(0)) as context:
        given_ones = [
            c_uint8(a),
            c_int32(b),
            c_uint64(c),
            ctypes.c_float(d),
            ctypes.c_double(e),
            (c_int8 * 24)(*map(signed, f)),
        ]
        Module(context, PTX).kernel("mixed").launch(grid, block, given_ones)
        for value in given_ones[:5]:
            value.value = 0  # the driver took what they were when it was launched
        context.synchronize()
    assert seen == [((*grid, 1, 1)[:3], (*block, 1, 1)[:3], (a, b, c, d, e, f))]
    gc.collect()
    library.check()


def signed(byte: int) -> int:
    return byte - 256 * (byte > 127)


def test_a_grid_of_no_blocks_is_no_work(fake: Any, context: Context) -> None:
    kernel = Module(context, PTX).kernel("nothing")
    kernel.launch(0, 128, [])
    kernel.launch((5, 0), 128, [])
    assert fake.launches == []
    for grid in ((1, 1, 1, 1), (), -1):
        with pytest.raises(ValueError, match="one to three sizes"):
            kernel.launch(grid, 1, [])


def test_arguments_of_another_number_are_found(fake: Any, context: Context) -> None:
    kernel = Module(context, PTX).kernel("add_one")
    error_of("RG1005", kernel.launch, 1, 1, [c_uint64(0)])
    assert "takes 2 arguments, and was given 1" in str(fake.faults.pop())
    error_of("RG1005", kernel.launch, 1, 1, [c_uint64(0)] * 3)
    assert "takes 2 arguments, and was given more" in str(fake.faults.pop())
    with pytest.raises(TypeError, match="not int"):
        kernel.launch(1, 1, [1, 2])


def test_facts_of_a_kernel(fakes: ModuleType, fake: Any, context: Context) -> None:
    fake.compiled["add_one"] = fakes.FakeKernel(registers=64, local_bytes=48, shared_bytes=1024, max_threads=512)
    module = Module(context, PTX, max_registers=64, level=1)
    assert {0: 64, 7: 1}.items() <= fake.options.items()
    assert module.log == "ptxas info    : 3 kernels compiled"
    kernel = module.kernel("add_one")
    facts = (kernel.registers, kernel.local_bytes, kernel.shared_bytes, kernel.max_threads)
    assert facts == (64, 48, 1024, 512)
    threads, blocks = kernel.best_block()
    assert (threads, blocks) == (512, 2 * 108)
    assert kernel.blocks_per_multiprocessor(256) == 4
    assert kernel.occupancy(256) == 0.5
    assert kernel.best_block(limit=100)[0] <= 100
    assert kernel.blocks_per_multiprocessor(256, shared=80 << 10) == 2


def test_shared_memory_beyond_what_all_kernels_have_is_asked_for(fake: Any, context: Context) -> None:
    fake.kernels["nothing"] = lambda *_: None
    kernel = Module(context, PTX).kernel("nothing")
    kernel.launch(1, 1, [], shared=48 << 10)
    assert fake.calls["cuFuncSetAttribute"] == 0
    for _ in range(2):
        kernel.launch(1, 1, [], shared=100 << 10)
    assert fake.calls["cuFuncSetAttribute"] == 1
    assert [shared for _, _, _, shared, _ in fake.launches] == [48 << 10, 100 << 10, 100 << 10]
    assert "cuFuncSetAttribute failed" in error_of("RG1005", kernel.launch, 1, 1, [], shared=164 << 10)


def test_too_many_threads(fakes: ModuleType, fake: Any, context: Context) -> None:
    fake.compiled["nothing"] = fakes.FakeKernel(max_threads=256)
    kernel = Module(context, PTX).kernel("nothing")
    assert "fewer threads in a block" in error_of("RG1005", kernel.launch, 1, 512, [])
    error_of("RG1005", kernel.launch, 1, 2048, [])
    error_of("RG1005", kernel.launch, (1, 1 << 16), 1, [])


@pytest.mark.parametrize(
    ("ptx", "said"),
    [
        (PTX.replace("8.0", "8.8"), "Unsupported .version 8.8; current version is '8.4'. The code is PTX 8.8 for sm_80; the driver "
         "is of CUDA 12.4, cuda:0 (Fake A100) is sm_80"),
        (PTX.replace("8.0", "8.8"), "fix: Update the driver: PTX 8.8 needs CUDA 12.9."),
        (PTX.replace("8.0", "42.0"), "fix: Update the driver: PTX 42.0 needs a newer one."),
        (PTX.replace("sm_80", "sm_100a"), "fix: Make it anew, for sm_80."),
        (PTX.rstrip().removesuffix("}"), "syntax error; ptxas fatal   : Ptx assembly aborted due to errors. The code is PTX 8.0"),
        (PTX.replace(".entry", ".func"), "please report it with the program"),
        (PTX.replace("8.0", "8.8").replace("sm_80", "sm_90"), "fix: Update the driver: PTX 8.8 needs CUDA 12.9."),
        ("", "Missing .version directive at start of file. The code is no PTX"),
        ("\ufffd\x1b[31m", "The code is no PTX"),
        (PTX + "\0", "it holds a NUL"),
    ],
)  # fmt: skip
def test_code_that_is_not_accepted(context: Context, ptx: str, said: str) -> None:
    text = error_of("RG1003", Module, context, ptx, name="f")
    assert said in text
    assert "of f" in text
    assert "\x1b" not in text


def test_a_log_that_is_long_is_noted_in_full(fake: Any, context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"line {i}" for i in range(2000)]
    monkeypatch.setattr(fake, "_compile", lambda *_: (218, "\n".join(lines)))
    with pytest.raises(DeviceError) as caught:
        Module(context, PTX)
    assert "line 0; line 1; line 2; …. The code is PTX 8.0" in str(caught.value)
    assert "line 1000\n" in caught.value.__notes__[0]
    monkeypatch.setattr(fake, "_compile", lambda *_: (209, ""))
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel" in error_of("RG1003", Module, context, PTX)


def test_no_such_kernel(context: Context) -> None:
    module = Module(context, PTX, name="f")
    assert "the code of f has no kernel `add_two`" in error_of("RG1003", module.kernel, "add_two")


def test_a_kernel_that_fails(fakes: ModuleType, fake: Any) -> None:
    """It is told by the next that waits; the context is lost, and all that it has can be given back."""

    def fails(*_: object) -> None:
        raise fakes.DeviceFault(700)

    fake.kernels["nothing"] = fails
    with Context(driver().device(0)) as context:
        kernel, buffer, stream = Module(context, PTX).kernel("nothing"), context.allocate(8), context.stream()
        kernel.launch(1, 1, [], stream)
        text = error_of("RG1005", stream.synchronize)
        assert "cuStreamSynchronize failed with CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access" in text
        assert "the device's context is lost: start the process again" in text
        error_of("RG1005", buffer.copy_from_host, np.zeros(1))
    # A context that nobody retains begins anew; this one's memory was freed with it.
    assert fake.retained == 0


def test_a_kernel_that_fails_in_the_fake_is_a_fault_of_the_test(fake: Any, context: Context) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    fake.kernels["nothing"] = fails
    Module(context, PTX).kernel("nothing").launch(1, 1, [])
    assert "CUDA_ERROR_LAUNCH_FAILED" in error_of("RG1005", context.synchronize)
    assert isinstance(fake.faults.pop(), ZeroDivisionError)
    with pytest.raises(DeviceError):
        context.synchronize()


# ------------------------------------------------------------------------------------------ every failure


def everything(library: Any) -> None:
    """Uses every function that is bound."""
    library.kernels["add_one"] = add_one
    assert driver().version >= (11, 0)
    context = Context(driver().device(0))
    try:
        kernel = Module(context, PTX, max_registers=32).kernel("add_one")
        kernel.best_block()
        kernel.occupancy(32)
        array = context.pinned(4, np.int64)
        array[:] = range(4)
        words, copy, stream, other = context.allocate(32), context.allocate(32), context.stream(), context.stream()
        start, end = context.event(), context.event()
        start.record(stream)
        words.fill(0, stream)
        words.copy_from_host(array, stream)
        kernel.launch(1, 32, [words, c_uint64(4)], stream, shared=100 << 10)
        copy.copy_from(words, stream)
        end.record(stream)
        other.wait_for(stream)
        copy.copy_to_host(array, other)
        other.synchronize()
        end.since(start)
        assert not (stream.done and end.done and array.tolist() != [1, 2, 3, 4])
        copy.copy_to_host(array)
        Buffer(context, 8, library.lend(8), None).fill(0)
        place = ctypes.c_uint()
        with context.current() as d:
            d.call("cuPointerGetAttribute", ctypes.byref(place), 2, words.address)
        context.memory()
        context.synchronize()
    finally:
        context.close()


#: where nothing can be done: what cannot be given back stays
GIVE_BACK = {
    "cuMemFree_v2", "cuMemFreeHost", "cuModuleUnload", "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2", "cuCtxSynchronize", "cuDevicePrimaryCtxRelease_v2",
}  # fmt: skip


def test_everything_uses_every_function(fakes: ModuleType) -> None:
    library = fakes.FakeDriver()
    with using(library):
        everything(library)
    gc.collect()
    library.check()
    # The two that give results their texts are asked when there is an error.
    assert set(PROTOTYPES) - set(library.calls) == {"cuGetErrorName", "cuGetErrorString"}


@pytest.mark.parametrize("name", sorted(set(PROTOTYPES) - {"cuGetErrorName", "cuGetErrorString"}))
@pytest.mark.parametrize("result", [2, *(pytest.param(k, marks=pytest.mark.slow) for k in (218, 500, 999))])
def test_every_failure_is_told_and_nothing_is_left(fakes: ModuleType, name: str, result: int) -> None:
    """Whichever call of a function fails, with whatever result: a DeviceError, or it did not matter; never anything else."""
    nth, told = 1, set()
    while True:
        library = fakes.FakeDriver()
        library.fail(name, result, nth)
        try:
            with using(library):
                everything(library)
        except DeviceError as error:
            told.add(error.code)
        gc.collect()
        if library.calls[name] < nth:
            break
        if name not in GIVE_BACK:
            library.check()
        nth += 1
    assert nth > 1
    assert told <= {"RG1002", "RG1003", "RG1004", "RG1005"}
    assert told or name in GIVE_BACK


# ---------------------------------------------------------------------------------------------- the fake


def test_the_fake_finds_what_is_written_beside_memory(fake: Any, context: Context) -> None:
    kernel, buffer = Module(context, PTX).kernel("add_one"), context.allocate(80)
    fake.kernels["add_one"] = lambda _grid, _block, arguments: ctypes.memset(arguments[0] + 80, 0, 1)
    kernel.launch(1, 1, [buffer, c_uint64(0)])
    context.synchronize()
    assert "written beside 80 bytes" in str(fake.faults.pop())
    with context.current() as d:
        assert d.result("cuMemsetD8Async", buffer.address, 0, 81, 1) == 1
    assert "are not all in an allocation" in str(fake.faults.pop())


def test_the_fake_finds_what_is_freed_too_early_or_twice(fake: Any, context: Context) -> None:
    stream, buffer = context.stream(), context.allocate(80)
    with context.current() as d:
        buffer.fill(0, stream)
        d.call("cuMemFree_v2", buffer.address)
        assert "given back while work is under way" in str(fake.faults.pop())
        assert d.result("cuMemFree_v2", buffer.address) == 1
    assert "was freed before" in str(fake.faults.pop())
    buffer.close()
    assert len(fake.faults) >= 2  # what was queued found no memory; and freed again
    fake.faults.clear()
    fake._contexts[0].lost = 0


def test_the_fake_names_what_is_left(fakes: ModuleType) -> None:
    library = fakes.FakeDriver()
    d = Driver(library)
    handle, address = c_void_p(), c_uint64()
    d.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), 0)
    d.call("cuCtxPushCurrent_v2", handle)
    d.call("cuMemAlloc_v2", ctypes.byref(address), 64)
    d.call("cuStreamCreate", ctypes.byref(handle), 1)
    left = library.leaks()
    assert len(left) == 4
    assert "64 bytes of device memory" in left
    with pytest.raises(AssertionError):
        library.check()


def test_the_fake_reads_parameters(fakes: ModuleType) -> None:
    found = fakes.entries(PTX)
    assert found == {"add_one": ("Q", "Q"), "mixed": ("B", "i", "Q", "f", "d", "24s"), "nothing": ()}


def test_the_fake_orders_the_default_stream(context: Context) -> None:
    """Work of the default stream waits for streams that block, and theirs for it: as cuStreamCreate(0) is documented."""
    handle = c_void_p()
    with context.current() as d:
        d.call("cuStreamCreate", ctypes.byref(handle), 0)
        buffer, out = context.allocate(1), np.zeros(1, np.uint8)
        blocking = Stream(context, handle.value or 0, "cuStreamDestroy_v2")
        buffer.fill(1, blocking)
        buffer.fill(2, context.default_stream)
        buffer.copy_to_host(out, blocking)
        blocking.synchronize()
    assert out.tolist() == [2]


def test_a_c_function_is_a_kernel(fakes: ModuleType, fake: Any, context: Context) -> None:
    """Addresses of the fake's memory are the host's: compiled code can run on them."""
    memset = ctypes.CFUNCTYPE(c_void_p, c_void_p, ctypes.c_int, ctypes.c_size_t)(ctypes.memset)
    fake.kernels["add_one"] = lambda _grid, _block, arguments: memset(arguments[0], 5, arguments[1])
    buffer, out, module = context.allocate(6), np.zeros(6, np.uint8), Module(context, PTX)
    module.kernel("add_one").launch(1, 1, [buffer, c_uint64(6)])
    assert fake.bytes_at(buffer.address, 6) == bytes([fakes.FRESH]) * 6
    buffer.copy_to_host(out)
    assert out.tolist() == [5] * 6


def test_narrow_values_are_not_taken_for_wide_ones(fake: Any, context: Context) -> None:
    """A value that is narrower than its parameter is read with what lies beside it: the fake reads as the device does."""
    seen: list[int] = []
    fake.kernels["add_one"] = lambda _grid, _block, arguments: seen.append(arguments[1])
    pair = (c_uint16 * 4)(1, 2, 3, 4)
    narrow = c_uint16.from_buffer(pair)
    Module(context, PTX).kernel("add_one").launch(1, 1, [c_uint64(0), narrow])
    context.synchronize()
    assert seen == [1 | 2 << 16 | 3 << 32 | 4 << 48]
