"""Devices, errors and kernels, as Numba presents them."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda import runtime
from retrograd.simulator.engines.cuda.batch import Setting, run_batch
from retrograd.simulator.engines.cuda.runtime import (
    Kernel,
    address_of_array,
    device,
    devices,
    memory_of_device,
    numba_cuda,
    on,
    size_text,
    translated_errors,
)

import retrograd as rg


def code_of(call: Any) -> tuple[str, str]:
    with pytest.raises(DeviceError) as caught:
        call()
    return caught.value.code, str(caught.value)


def test_devices() -> None:
    assert [str(d) for d in devices()] == ["cuda:0", "cuda:1"]
    assert devices()[0].target == "sm_52"
    assert device(1).index == 1
    for index in (-1, 2):
        code, text = code_of(lambda index=index: device(index))
        assert code == "RG1002"
        assert f"no CUDA device {index}: they are 0 to 1" in text
    assert memory_of_device(device(0))[0] > 0


def test_the_only_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_cuda().gpus, "lst", numba_cuda().gpus.lst[:1])
    assert "the only one is 0" in code_of(lambda: device(1))[1]
    monkeypatch.setattr(numba_cuda().gpus, "lst", ())
    assert "finds no device" in code_of(devices)[1]


def test_facts_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As numba-cuda has them on a machine with a GPU."""

    class Gpu:
        compute_capability, name = (9, 0), b"NVIDIA H200"
        MULTIPROCESSOR_COUNT, CLOCK_RATE, MAX_THREADS_PER_MULTIPROCESSOR = 132, 1_980_000, 2048

    monkeypatch.setattr(runtime, "simulated", lambda: False)
    monkeypatch.setattr(numba_cuda().gpus, "lst", (Gpu(),))
    (found,) = devices()
    assert (found.name, found.target, found.multiprocessors) == ("NVIDIA H200", "sm_90", 132)
    assert (found.clock, found.threads_per_multiprocessor) == (1_980_000, 2048)


def test_without_numba_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "numba_cuda" else original(name))
    code, text = code_of(devices)
    assert code == "RG1002"
    assert "numba-cuda is not installed" in text
    assert "pip install 'retrograd[cuda]'" in text


def test_a_numba_cuda_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    monkeypatch.delattr(numba, "cuda", raising=False)
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    assert "numba-cuda cannot be imported" in code_of(devices)[1]


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = numba_cuda()
    monkeypatch.setattr(cuda, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "cuda_error", lambda: "\nCUDA driver library cannot be found.\nInstall it.\n")
    code, text = code_of(devices)
    assert code == "RG1002"
    assert "CUDA driver library cannot be found. Install it" in text
    monkeypatch.setattr(cuda, "cuda_error", lambda: None)
    assert "finds no device" in code_of(devices)[1]


def named(name: str, text: str) -> Exception:
    return type(name, (Exception,), {})(text)


MEANINGS = [
    ("CudaAPIError", "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY", "RG1004"),
    ("CudaAPIError", "[700] Call to cuStreamSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS", "RG1005"),
    ("CUDAError", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled", "RG1003"),
    ("CUDAError", "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image", "RG1003"),
    ("CUDAError", "CUDA_ERROR_NOT_FOUND: named symbol not found", "RG1003"),
    ("CudaSupportError", "Error at driver init: CUDA driver library cannot be found", "RG1002"),
    ("CudaSupportError", "Error at driver init: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "RG1002"),
    ("CudaAPIError", "[46] Call to cuDevicePrimaryCtxRetain results in CUDA_ERROR_DEVICE_UNAVAILABLE", "RG1002"),
    ("LinkerError", "CUDA_ERROR_INVALID_PTX", "RG1003"),
    ("CudaAPIError", "[999] Call to cuCtxGetCurrent results in UNKNOWN_CUDA_ERROR", "RG1005"),
]


@pytest.mark.parametrize(("name", "text", "code"), MEANINGS)
def test_errors_of_numba_have_codes(name: str, text: str, code: str) -> None:
    def call() -> None:
        with translated_errors("loading `f`"):
            raise named(name, text)

    found, said = code_of(call)
    assert found == code
    assert f"loading `f` failed: {text}" in said


def test_the_classes_of_errors_are_those_of_numba_and_cuda_core() -> None:
    """Their modules are private, so the classes are known by name: here the names are looked up."""
    package = importlib.util.find_spec("numba_cuda")
    assert package is not None
    assert package.submodule_search_locations is not None
    source = ""
    for file in ("driver.py", "error.py"):
        for folder in package.submodule_search_locations:
            with open(f"{folder}/numba/cuda/cudadrv/{file}") as text:
                source += text.read()
    for name in ("CudaAPIError", "CudaSupportError", "LinkerError"):
        assert f"class {name}(" in source
    utils = pytest.importorskip("cuda.core._utils.cuda_utils")
    assert utils.CUDAError.__name__ in runtime._ERRORS


def test_other_errors_pass() -> None:
    for error in (KeyError("x"), named("MyError", "CUDA_ERROR_OUT_OF_MEMORY")):
        with pytest.raises(type(error)), translated_errors():
            raise error
    with pytest.raises(DeviceError, match="first"), translated_errors():
        raise runtime.device_error("RG1004", "first")


def test_the_simulator_runs_no_ptx() -> None:
    assert code_of(lambda: Kernel(".version 8.0", "run", device()))[0] == "RG1003"


def test_addresses() -> None:
    with on(device()) as cuda:
        array = cuda.to_device(np.arange(4))
    assert address_of_array(array) == array.ctypes.data


def test_launches_of_cuda_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of cuda.core that load and launch a kernel exist, with these parameters."""
    core = pytest.importorskip("cuda.core")
    made: list[Any] = []

    class Attributes:
        num_regs, local_size_bytes, shared_size_bytes, max_threads_per_block = 40, 8, 16, 1024

    class Occupancy:
        def max_active_blocks_per_multiprocessor(self, block: int, shared: int) -> int:
            return 2048 // block

    class Loaded:
        attributes, occupancy = Attributes(), Occupancy()

    class Code:
        @staticmethod
        def from_ptx(text: bytes) -> Any:
            made.append(text)
            return type("Code", (), {"get_kernel": lambda self, name: Loaded()})()

    monkeypatch.setattr(runtime, "simulated", lambda: False)
    monkeypatch.setattr(runtime, "address_of_array", lambda array: array.ctypes.data)
    assert callable(core.ObjectCode.from_ptx)
    module = importlib.import_module("cuda.core._module")
    # Before cuda-core 1 these were methods.
    names = [name for name in vars(Attributes) if not name.startswith("__")]
    assert all(inspect.isdatadescriptor(getattr(module.KernelAttributes, name)) for name in names)
    assert hasattr(module.KernelOccupancy, "max_active_blocks_per_multiprocessor")
    config = core.LaunchConfig(grid=3, block=32)
    assert (config.grid, config.block) == ((3, 1, 1), (32, 1, 1))
    monkeypatch.setattr(core, "ObjectCode", Code)
    monkeypatch.setattr(core, "launch", lambda *arguments: made.append(arguments))
    where = runtime.Device(0, "GPU", (9, 0), 132, 1, 2048)
    kernel = Kernel("text", "run", where)
    assert made == [b"text"]
    assert (kernel.registers, kernel.local_bytes, kernel.shared_bytes, kernel.max_threads) == (40, 8, 16, 1024)
    assert kernel.occupancy(256) == 1.0
    words = np.arange(3)
    # A stream of another library; cuda.core 1.2 warns where such a one is launched on as it is.
    foreign = type("Foreign", (), {"__cuda_stream__": lambda self: (0, 0xABC0)})()
    monkeypatch.setattr(
        core, "Stream", type("Stream", (), {"from_handle": staticmethod(lambda handle: ("own", handle))})
    )
    assert callable(importlib.import_module("cuda.core._stream").Stream.from_handle)
    kernel.launch(3, 32, [words, 5], foreign)
    stream, launched, loaded, *arguments = made[1]
    assert (stream, launched.grid, launched.block) == (("own", 0xABC0), (3, 1, 1), (32, 1, 1))
    assert isinstance(loaded, Loaded)
    assert arguments == [words.ctypes.data, 5]
    # Launches that a graph records; the real one has the same methods.
    real = importlib.import_module("cuda.core.graph")
    calls: list[Any] = []

    class Graph:
        def launch(self, queue: Any) -> None:
            calls.append(("launched", queue))

    class Builder:
        def begin_building(self) -> None:
            calls.append("begin")

        def end_building(self) -> Any:
            calls.append(len(made))
            return self

        def complete(self) -> Graph:
            return Graph()

    assert all(callable(getattr(real.GraphBuilder, name)) for name in vars(Builder) if not name.startswith("__"))
    assert callable(real.Graph.launch)
    assert callable(importlib.import_module("cuda.core._stream").Stream.create_graph_builder)
    queue, builder = type("Queue", (), {"create_graph_builder": lambda self: builder})(), Builder()
    monkeypatch.setattr(core.Stream, "from_handle", staticmethod(lambda handle: queue))
    launch = runtime.graph_of(foreign, lambda graph: [kernel.launch(1, 32, [k], graph) for k in range(2)])
    assert [one[0] for one in made[2:]] == [builder, builder]
    assert [one[3:] for one in made[2:]] == [(0,), (1,)]
    launch()
    launch()
    assert calls == ["begin", 4, ("launched", queue), ("launched", queue)]


def test_ranges_of_the_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch and the kernel of each piece, where nvtx is installed."""
    ranges: list[tuple[str, str, bool]] = []

    class Nvtx(ModuleType):
        @staticmethod
        @contextmanager
        def annotate(name: str, domain: str) -> Iterator[None]:
            ranges.append((name, domain, True))
            yield
            ranges.append((name, domain, False))

    program, found = rg.assemble(".memory 1\nstart\nfinish\n"), importlib.util.find_spec
    run_batch(program, np.zeros((4, 1), np.uint64), setting=Setting(piece=2))
    assert ranges == []
    monkeypatch.setitem(sys.modules, "nvtx", Nvtx("nvtx"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: name == "nvtx" or found(name, *more))
    run_batch(program, np.zeros((4, 1), np.uint64), setting=Setting(piece=2, devices=[0]))
    assert [name for name, _, begins in ranges if begins] == ["retrograd batch", *["retrograd kernel"] * 2]
    assert ranges[-1] == ("retrograd batch", "retrograd", False)


def test_sizes() -> None:
    assert [size_text(n) for n in (5, 2048, 3 << 20, 140 << 30)] == ["5 bytes", "2.0 KiB", "3.0 MiB", "140.0 GiB"]
