"""Arrays of other libraries, used in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from retrograd.simulator.engines.cuda import device_arrays
from retrograd.simulator.engines.cuda.device_arrays import ArrayError, borrowed, copied_to_host, is_device_array
from retrograd.simulator.engines.cuda.runtime import Device, address_of_array, device, numba_cuda

import retrograd as rg
from retrograd import fixed, reversible

HERE = np.arange(12, dtype=np.int64)


class Interface:
    """An array of another library: under the simulator the memory of the device is the host's."""

    def __init__(self, shape: Any = (12,), **entries: Any) -> None:
        self.__cuda_array_interface__: Any = {
            "shape": shape, "typestr": "<i8", "data": (HERE.ctypes.data, False), "version": 3, **entries,
        }  # fmt: skip


class Lender:
    """An array lent by DLPack only."""

    def __init__(self, array: Any, kind: int = 2, index: int = 0) -> None:
        self.array, self.place = array, (kind, index)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place

    def __dlpack__(self, **more: Any) -> Any:
        return self.array.__dlpack__()


def test_it_is_used_in_place(gpu: Device) -> None:
    for shape in ((12,), (3, 4), (1, 12, 1)):
        found = borrowed(Interface(shape), gpu, dtypes=["i8"], writable=True)
        assert found.shape == shape
        assert address_of_array(found) == HERE.ctypes.data
    assert borrowed(Interface((0, 3)), gpu).shape == (0, 3)
    assert borrowed(Interface((1, 12), strides=(7, 8)), gpu).shape == (1, 12)
    own = numba_cuda().to_device(HERE)
    assert borrowed(own, gpu) is own


def test_the_lender_lives_as_long(gpu: Device) -> None:
    words = np.arange(1000)

    class Owner(Interface):
        pass

    owner = Owner((1000,), data=(words.ctypes.data, False))
    owner.words = words  # type: ignore[attr-defined]
    found = borrowed(owner, gpu)
    del owner, words
    assert found.copy_to_host().tolist() == list(range(1000))


CASES: dict[str, tuple[Any, str]] = {
    "a list": (lambda: [1, 2], "x is no array on a device, but list"),
    "an array of the host's": (lambda: np.zeros(3), "x is in the host's memory, and the program on cuda:0"),
    "another kind of device": (lambda: Lender(HERE, 10), "x is in a device of DLPack type 10, and"),
    "another device": (lambda: Lender(HERE, 2, 1), "x is on cuda:1, and the program on cuda:0"),
    "columns": (lambda: Interface((2, 2), strides=(8, 16)), "x is not contiguous: along axis 1"),
    "steps": (lambda: Interface((2,), strides=(16,)), "along axis 0 its elements lie 16 bytes apart, and not 8"),
    "backward": (lambda: Interface((2,), strides=(-8,)), "along axis 0 its elements lie -8 bytes apart"),
    "broadcast": (lambda: Interface((2, 2), strides=(0, 8)), "along axis 0 its elements lie 0 bytes apart, and not 16"),
    "another type": (lambda: Interface(typestr="<f8"), "x has elements of type float64, and the program takes int64 or uint64"),
    "another byte order": (lambda: Interface(typestr=">i8"), "in the byte order of another"),
    "objects": (lambda: Interface(typestr="|O8"), "x has elements of type object, which are no numbers"),
    "read-only": (lambda: Interface(data=(HERE.ctypes.data, True)), "x is read-only, and the program writes it"),
    "a mask": (lambda: Interface(mask=Interface()), "x is masked"),
    "no type": (lambda: Interface(typestr="<nonsense"), "is not lent by its library: TypeError"),
    "an address alone": (lambda: Interface(data=1), "is not lent by its library: TypeError"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_arrays_that_cannot_be_used(gpu: Device, case: str) -> None:
    make, said = CASES[case]
    with pytest.raises(ArrayError) as caught:
        borrowed(make(), gpu, name="x", dtypes=["i8", "u8"], writable=True)
    assert caught.value.code == "RG1006"
    assert said in str(caught.value)
    assert isinstance(caught.value, BufferError)


def test_what_other_libraries_raise(gpu: Device) -> None:
    class WantsGradient:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")

    with pytest.raises(ArrayError, match="requires grad"):
        borrowed(WantsGradient(), gpu)
    assert not is_device_array(WantsGradient())


def test_memory_lent_by_dlpack_has_an_interface() -> None:
    """The view of cuda.core, of an array on the host: shape, strides in bytes, type and address."""
    utils = pytest.importorskip("cuda.core.utils")
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    view = utils.StridedMemoryView.from_dlpack(array, -1)
    found = device_arrays._Interface(view, array.itemsize).__cuda_array_interface__
    assert (found["shape"], found["typestr"]) == ((3, 4), "<i4")
    assert found["data"][0] == array.ctypes.data
    assert found["strides"] in (None, array.strides)


def test_what_is_a_device_array() -> None:
    assert is_device_array(Interface())
    assert is_device_array(Lender(HERE))
    assert not is_device_array(Lender(HERE, 1))
    assert not is_device_array(HERE)
    assert not is_device_array([1])


def test_copies(gpu: Device) -> None:
    assert copied_to_host(Interface((3, 4)), "x").tolist() == HERE.reshape(3, 4).tolist()
    assert copied_to_host(5, "x") == 5
    with pytest.raises(ArrayError, match="cuda:0, and the program on cuda:1"):
        borrowed(Interface(), device(1))


def test_as_arguments_of_batches() -> None:
    """Engines of the CPU copy them; the engine `cuda` uses them there, and its results stay there."""

    @reversible
    def f(y: fixed, x: fixed):
        y += x * x

    xs = np.array([1.0, 2.5, -3.0])
    there = Interface((3,), typestr="<f8", data=(xs.ctypes.data, False))
    for engine in ("reference", "native", "cuda"):
        found = rg.run_batch(f, np.zeros(3), there, engine=engine).values.y
        assert np.asarray(found).tolist() == (xs * xs).tolist()
