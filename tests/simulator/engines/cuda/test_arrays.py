"""Arrays on a device, lent and borrowed: by DLPack and by `__cuda_array_interface__`, on a driver that is none.

NumPy takes part on the other side: it writes the structures that are read here, and reads those that are written here, since
the fake's memory is the host's. Other lenders are made by hand, their structures packed byte by byte as dlpack.h lays them out.
"""

from __future__ import annotations

import ctypes
import gc
import struct
from ctypes import c_char_p, c_int, c_uint64, c_void_p, py_object
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from retrograd.isa.diagnostics import DeviceError
from retrograd.simulator.engines.cuda import dlpack
from retrograd.simulator.engines.cuda.arrays import ArrayError, DeviceArray, device_array, is_device_array
from retrograd.simulator.engines.cuda.context import Buffer, Context, Stream
from retrograd.simulator.engines.cuda.driver import driver, using

TYPES = st.sampled_from(["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
ARRAYS = TYPES.flatmap(lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)))

_api = ctypes.pythonapi
is_called = ctypes.PYFUNCTYPE(c_int, py_object, c_char_p)(("PyCapsule_IsValid", _api))
pointer_in = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", _api))
new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", _api))
PLAIN, VERSIONED = b"dltensor", b"dltensor_versioned"


def refused(*arguments: Any, **more: Any) -> str:
    with pytest.raises(ArrayError) as caught:
        device_array(*arguments, **more)
    assert caught.value.code == "RG1006"
    assert isinstance(caught.value, DeviceError)
    assert isinstance(caught.value, BufferError)
    return str(caught.value).split("\n")[0]


class Interface:
    """An array of another library that has `__cuda_array_interface__` only."""

    def __init__(self, address: int, shape: Any = (4,), typestr: Any = "<i8", **more: Any) -> None:
        entries = {"shape": shape, "typestr": typestr, "data": (address, False), "version": 3, **more}
        self.__cuda_array_interface__ = {key: value for key, value in entries.items() if value is not ...}


class Lender:
    """An array of another library that has DLPack."""

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...] = (4,),
        strides: tuple[int, ...] | None = None,
        *,
        kind: tuple[int, int, int] = (0, 64, 1),
        device: tuple[int, int] = (2, 0),
        offset: int = 0,
        major: int = 0,
        flags: int = 0,
        axes: int | None = None,
        deleter: bool = True,
        name: bytes | None = None,
        says: tuple[int, int] | None = None,
    ) -> None:
        self.ended = 0
        self.asked: dict[str, Any] = {}
        self._says = says or device
        self._arrays = ((ctypes.c_int64 * len(shape))(*shape), (ctypes.c_int64 * len(shape))(*(strides or ())))
        self._deleter = ctypes.CFUNCTYPE(None, c_void_p)(self._end)
        where = [ctypes.addressof(array) for array in self._arrays]
        tensor = struct.pack(
            "<QiiiBBHQQQ", address, *device, len(shape) if axes is None else axes, *kind, where[0],
            0 if strides is None else where[1], offset,
        )  # fmt: skip
        end = ctypes.cast(self._deleter, c_void_p).value if deleter else 0
        data = struct.pack("<IIQQQ", major, 0, 0, end, flags) + tensor if major else tensor + struct.pack("<QQ", 0, end)
        self._managed = ctypes.create_string_buffer(data, len(data))
        self._name = name or (VERSIONED if major else PLAIN)
        self.capsule = new_capsule(ctypes.addressof(self._managed), self._name, None)

    def _end(self, managed: int) -> None:
        assert managed == ctypes.addressof(self._managed)
        self.ended += 1

    @property
    def taken(self) -> bool:
        return bool(is_called(self.capsule, b"used_" + self._name))

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._says

    def __dlpack__(self, **asked: Any) -> Any:
        self.asked = asked
        return self.capsule


class OnlyDLPack:
    """One of our arrays, as another library's."""

    def __init__(self, array: DeviceArray) -> None:
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__


class AsNumPyTakesIt:
    """A capsule of ours that says that its memory is the host's, as it is in the fake."""

    def __init__(self, array: DeviceArray, versioned: bool) -> None:
        self._array, self._versioned = array, versioned

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __dlpack__(self, **asked: Any) -> Any:
        capsule = self._array.__dlpack__(max_version=asked.get("max_version") if self._versioned else None)
        where = pointer_in(capsule, VERSIONED) + 32 if self._versioned else pointer_in(capsule, PLAIN)
        assert struct.unpack_from("<ii", ctypes.string_at(where, 48), 8) == (2, 0)
        ctypes.memmove(where + 8, struct.pack("<i", 1), 4)
        return capsule


def written(fake: Any, values: np.ndarray[Any, Any], **more: bool) -> int:
    """The address of memory of another library, holding this."""
    address: int = fake.lend(values.nbytes, **more)
    fake.write_at(address, values.tobytes())
    return address


# --------------------------------------------------------------------------------------------------- ours


@settings(max_examples=60)
@given(ARRAYS, st.booleans())
def test_there_and_back(fakes: ModuleType, array: np.ndarray[Any, Any], transposed: bool) -> None:
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        source = array.T if transposed else array
        there = DeviceArray.from_host(source, context)
        assert (there.shape, there.dtype, there.size, there.nbytes) == (
            source.shape,
            source.dtype,
            source.size,
            source.nbytes,
        )
        back = there.copy_to_host()
        assert (back.shape, back.dtype, back.tobytes()) == (
            source.shape,
            source.dtype,
            np.ascontiguousarray(source).tobytes(),
        )
        stream = context.stream()
        again = DeviceArray.from_host(source, context, stream)
        out = np.zeros_like(back)
        assert again.copy_to_host(out, stream) is out
        stream.synchronize()
        assert out.tobytes() == back.tobytes()
    gc.collect()
    library.check()


def test_the_byte_order_becomes_ours(context: Context) -> None:
    there = DeviceArray.from_host(np.arange(5, dtype=">i4"), context)
    assert there.dtype == np.dtype("i4")
    assert there.copy_to_host().tolist() == list(range(5))


def test_what_an_array_is(context: Context) -> None:
    array = DeviceArray.empty((3, 4), "f4", context)
    assert repr(array) == "DeviceArray(shape=(3, 4), dtype=float32, cuda:0)"
    assert (len(array), array.ndim, array.address) == (3, 2, array.buffer.address)
    with pytest.raises(TypeError):
        len(DeviceArray.empty((), "f4", context))
    for shape, dtype, said in [
        ((-1,), "f4", "shape (-1,)"),
        ((1,), "O", "object"),
        ((1,), ">f4", "byte order"),
        ((1,), "M8[s]", "datetime"),
    ]:
        with pytest.raises(ArrayError) as caught:
            DeviceArray.empty(shape, dtype, context)
        assert said in str(caught.value)
    with pytest.raises(ArrayError) as caught:
        DeviceArray((5,), "f8", context.allocate(39), context)
    assert "has 40 bytes, and its memory 39" in str(caught.value)


def test_arrays_of_the_host_that_are_not_alike(context: Context) -> None:
    array = DeviceArray.from_host(np.zeros((2, 3)), context)
    for other in (np.zeros((3, 2)), np.zeros(6), np.zeros((2, 3), np.int64)):
        for copy in (array.copy_to_host, array.copy_from_host):
            with pytest.raises(ArrayError) as caught:
                copy(other)
            assert "and that on the device float64[2, 3]" in str(caught.value)
    array.read_only = True
    with pytest.raises(ArrayError):
        array.copy_from_host(np.zeros((2, 3)))


def test_copies_wait_for_the_stream_that_writes(fake: Any, context: Context) -> None:
    first, second = context.stream(), context.stream()
    array = DeviceArray.from_host(np.arange(4), context, first)
    assert array.stream is first
    out = array.copy_to_host(stream=second)
    second.synchronize()
    assert out.tolist() == [0, 1, 2, 3]
    array.copy_from_host(np.arange(4, 8), first)
    array.copy_from_host(np.arange(8, 12), second)  # after that of the first
    second.synchronize()
    assert fake.pending == 0
    assert array.copy_to_host().tolist() == [8, 9, 10, 11]
    array.copy_from_host(np.arange(4), first)
    array.synchronize()
    assert (array.stream, fake.pending) == (None, 0)


def test_a_stream_that_was_closed_is_done(context: Context) -> None:
    with context.stream() as stream:
        array = DeviceArray.from_host(np.arange(4), context, stream)
    assert array.__cuda_array_interface__["stream"] is None
    assert array.copy_to_host(stream=context.default_stream) is not None
    array.synchronize()


# ----------------------------------------------------------------------------------------------- to others


def test_the_interface(context: Context) -> None:
    array = DeviceArray.from_host(np.zeros((2, 3), np.int32), context)
    assert array.__cuda_array_interface__ == {
        "shape": (2, 3), "typestr": "<i4", "data": (array.address, False), "strides": None, "stream": None, "version": 3,
    }  # fmt: skip
    stream = context.stream()
    array.stream, array.read_only = stream, True
    assert array.__cuda_array_interface__["stream"] == stream.handle
    assert array.__cuda_array_interface__["data"][1] is True
    array.stream = context.default_stream
    assert array.__cuda_array_interface__["stream"] == 1  # 0 could mean either default stream, and must not be said
    assert DeviceArray.empty((0, 3), "f8", context).__cuda_array_interface__["data"] == (0, False)


@settings(max_examples=60)
@given(ARRAYS, st.booleans())
def test_numpy_borrows(fakes: ModuleType, array: np.ndarray[Any, Any], versioned: bool) -> None:
    """Address, shape, strides and type as NumPy reads them; and the memory lives until NumPy needs it no more."""
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        ours = DeviceArray.from_host(array, context)
        theirs = np.from_dlpack(AsNumPyTakesIt(ours, versioned))
        assert (theirs.shape, theirs.dtype, theirs.tobytes()) == (array.shape, array.dtype, array.tobytes())
        assert theirs.flags.c_contiguous
        del ours
        gc.collect()
        assert library.allocated == array.nbytes
        assert theirs.tobytes() == array.tobytes()
        del theirs
        gc.collect()
        assert library.allocated == 0
        assert dlpack._loans == {}
    library.check()


def test_a_borrower_is_told_what_is_read_only_or_a_copy(fake: Any, context: Context) -> None:
    array = DeviceArray.from_host(np.arange(4), context)
    array.read_only = True
    assert not np.from_dlpack(AsNumPyTakesIt(array, True)).flags.writeable
    with pytest.raises(ArrayError) as caught:
        array.__dlpack__()
    assert "the borrower's version of DLPack" in str(caught.value)
    copy = dlpack.look(array.__dlpack__(max_version=(1, 0), copy=True))
    assert (copy.copied, copy.read_only, copy.address == array.address) == (True, False, False)
    context.synchronize()
    assert fake.bytes_at(copy.address, 32) == fake.bytes_at(array.address, 32)
    # It is made in the borrower's stream, where it is used; and nobody waits for it here.
    lent = dlpack.look(array.__dlpack__(max_version=(1, 0), copy=True, stream=(theirs := fake.stream_of_another())))
    assert fake.pending == 1
    Stream(context, theirs).synchronize()
    assert fake.bytes_at(lent.address, 32) == fake.bytes_at(array.address, 32)
    assert dlpack.look(array.__dlpack__(max_version=(1, 0), copy=True, stream=-1)).copied


@pytest.mark.parametrize(
    ("max_version", "versioned"), [(None, False), ((0, 8), False), ((1, 0), True), ((1, 1), True), ((2, 0), True)]
)
def test_the_structure_is_one_that_the_borrower_reads(context: Context, max_version: Any, versioned: bool) -> None:
    """No version, or one before 1.0: the old structure. Of a newer borrower we give what we have; it looks at the version."""
    capsule = DeviceArray.empty((1,), "f8", context).__dlpack__(max_version=max_version)
    assert bool(is_called(capsule, VERSIONED)) is versioned
    assert bool(is_called(capsule, PLAIN)) is not versioned
    if versioned:
        assert struct.unpack("<II", ctypes.string_at(pointer_in(capsule, VERSIONED), 8)) == (1, 0)


def test_what_cannot_be_lent(fake: Any, context: Context) -> None:
    array = DeviceArray.empty((1,), "f8", context)
    for stream in (0, -2, True, 1.5, "1"):
        with pytest.raises(ArrayError) as caught:
            array.__dlpack__(stream=stream)  # type: ignore[arg-type]
        assert f"the stream {stream!r}" in str(caught.value)
    for device in ((1, 0), (2, 1)):
        with pytest.raises(BufferError):
            array.__dlpack__(dl_device=device)
    assert array.__dlpack__(dl_device=(2, 0)) is not None
    with pytest.raises(BufferError):
        np.from_dlpack(array, device="cpu")
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(array)  # does not ask for the host's memory, and says itself that it has no other


def test_the_borrowers_stream_waits(fake: Any, context: Context) -> None:
    ours = context.stream()
    kept: list[DeviceArray] = []
    for theirs, handle in ((None, 1), (1, 1), (2, 2), (other := fake.stream_of_another(), other)):
        array = DeviceArray.from_host(np.arange(1, 5), context, ours)
        kept.append(array)  # when it is collected all work is done
        assert fake.pending == 1
        seen: list[bytes] = []
        capsule = array.__dlpack__(stream=theirs)
        fake.queue(handle, lambda a=array.address, s=seen: s.append(fake.bytes_at(a, 32)))
        Stream(context, handle).synchronize()
        assert seen == [np.arange(1, 5).tobytes()], theirs
        del capsule
    kept.append(array := DeviceArray.from_host(np.arange(4), context, ours))
    array.__dlpack__(stream=-1)
    Stream(context, other).synchronize()
    assert fake.pending == 1


def test_a_capsule_that_nobody_takes(fake: Any, context: Context) -> None:
    """Its memory is given back when the next is made; and the error that a borrower raised is not lost."""
    array = DeviceArray.empty((8,), "i8", context)
    with pytest.raises(TypeError, match="PyCapsule"):
        int(array.__dlpack__())
    del array
    gc.collect()
    assert (len(dlpack._loans), fake.allocated) == (1, 64)
    kept = DeviceArray.empty((1,), "i8", context).__dlpack__()
    assert (len(dlpack._loans), fake.allocated) == (1, 8)
    other = DeviceArray.empty((2,), "i8", context).__dlpack__()
    assert (len(dlpack._loans), fake.allocated) == (2, 24)  # one that somebody holds may be taken yet
    del kept, other


def test_a_capsule_that_was_taken_is_kept(fake: Any, context: Context) -> None:
    """Its name says so, though nobody holds the capsule: the borrower has the structure."""
    borrowed = device_array(OnlyDLPack(DeviceArray.from_host(np.arange(8), context)), context)
    DeviceArray.empty((1,), "i8", context).__dlpack__()
    gc.collect()
    assert borrowed.copy_to_host().tolist() == list(range(8))
    borrowed.close()
    assert len(dlpack._loans) == 1


# --------------------------------------------------------------------------------------------- from others


@settings(max_examples=60)
@given(ARRAYS, st.booleans(), st.booleans(), st.booleans())
def test_what_numpy_lends_is_read(
    array: np.ndarray[Any, Any], versioned: bool, transposed: bool, stepped: bool
) -> None:
    """The structures that NumPy writes: address, shape, strides in bytes, type, flags."""
    view = array.T if transposed else array
    view = view[::2] if stepped and view.ndim else view
    view.flags.writeable = not versioned
    lent = dlpack.look(view.__dlpack__(max_version=(1, 0)) if versioned else view.__dlpack__())
    assert (lent.address, lent.shape, lent.dtype, lent.device) == (view.ctypes.data, view.shape, view.dtype, (1, 0))
    assert (lent.strides or ()) == (view.strides if view.ndim else ()) or view.size == 0
    assert (lent.read_only, lent.copied) == (versioned, False)
    owner = lent.take()
    assert is_called(lent.capsule, b"used_" + (VERSIONED if versioned else PLAIN))
    with pytest.raises(ValueError, match="used before"):
        dlpack.look(lent.capsule)
    del owner


@settings(max_examples=60)
@given(ARRAYS, st.booleans())
def test_an_array_in_place(fakes: ModuleType, array: np.ndarray[Any, Any], interface: bool) -> None:
    """What is borrowed is the same memory, and what is written to it the lender sees."""
    library = fakes.FakeDriver()
    with using(library), Context(driver().device(0)) as context:
        theirs = DeviceArray.from_host(array, context)
        value: Any = OnlyDLPack(theirs)
        if interface:
            value = type("Other", (), {"__cuda_array_interface__": theirs.__cuda_array_interface__})()
        ours = device_array(value, context, writable=True)
        assert (ours.shape, ours.dtype, ours.address) == (array.shape, array.dtype, theirs.address)
        assert ours.copy_to_host().tobytes() == array.tobytes()
        ours.copy_from_host(np.zeros_like(array))
        assert theirs.copy_to_host().tobytes() == bytes(array.nbytes)
        assert device_array(theirs, context) is theirs
        del ours, value
    gc.collect()
    library.check()
    assert dlpack._loans == {}


@pytest.mark.parametrize("major", [0, 1])
def test_a_lender_is_told_once_when_the_device_is_done(fake: Any, context: Context, major: int) -> None:
    lender = Lender(address := fake.lend(32), major=major)
    array = device_array(lender, context)
    assert (lender.taken, lender.ended) == (True, 0)
    seen: list[tuple[int, int]] = []
    fake.queue(1, lambda: seen.append((lender.ended, len(fake.bytes_at(address, 32)))), address)
    del array
    gc.collect()
    assert seen == [(0, 32)]
    assert lender.ended == 1
    with device_array(Lender(fake.lend(32), deleter=False), context) as array:
        array.buffer.fill(0)


def test_an_object_is_held_while_its_memory_is_used(fake: Any, context: Context) -> None:
    class Owned(Interface):
        ended = 0

        def __del__(self) -> None:
            Owned.ended += 1

    array = device_array(Owned(fake.lend(32)), context)
    gc.collect()
    assert Owned.ended == 0
    array.close()
    assert Owned.ended == 1


def test_who_cannot_be_used_keeps_what_it_lent(fake: Any, context: Context) -> None:
    """A capsule that we refuse is the lender's still, who takes it back himself."""
    lender = Lender(fake.lend(64), strides=(2,))
    refused(lender, context)
    assert (lender.taken, lender.ended) == (False, 0)


def test_lenders_from_before_versions(fake: Any, context: Context) -> None:
    class Old(Lender):
        def __dlpack__(self, *, stream: int | None = None) -> Any:  # type: ignore[override]
            return super().__dlpack__(stream=stream)

    old, new = Old(fake.lend(32)), Lender(fake.lend(32), major=1)
    device_array(old, context)
    assert old.asked == {"stream": 1}
    stream = context.stream()
    device_array(new, context, stream=stream)
    assert new.asked == {"stream": stream.handle, "max_version": (1, 1)}


def test_where_an_array_begins(fake: Any, context: Context) -> None:
    address = written(fake, np.arange(10))
    array = device_array(Lender(address, (3,), offset=16), context)
    assert array.copy_to_host().tolist() == [2, 3, 4]
    # An axis of one element may have any stride, and so may an array of none.
    assert device_array(Lender(address, (1, 3, 1), (99, 1, 77)), context).shape == (1, 3, 1)
    assert device_array(Lender(0, (0, 3), (5, 5)), context).copy_to_host().shape == (0, 3)
    assert device_array(Interface(0, (3, 0)), context).address == 0
    assert device_array(Interface(address, (2, 3), strides=(24, 8)), context).shape == (2, 3)
    assert device_array(Lender(address, ()), context).copy_to_host() == 0


CASES: dict[str, tuple[Any, str]] = {
    "a list": (lambda a: [1, 2], "x is no array on a device, but list"),
    "an array of the host's": (lambda a: np.zeros(3), "x is in the host's memory, and the program on cuda:0"),
    "another kind of device": (lambda a: Lender(a, device=(10, 0)), "x is in a ROCm device, and"),
    "an unknown kind of device": (lambda a: Lender(a, device=(77, 0)), "x is in a device of DLPack type 77, and"),
    "another device": (lambda a: Lender(a, device=(2, 1)), "x is on cuda:1, and the program on cuda:0"),
    "another device than it says": (lambda a: Lender(a, device=(2, 1), says=(2, 0)), "x is on cuda:1, and the program on cuda:0"),
    "columns": (lambda a: Lender(a, (2, 2), (1, 2)), "x is not contiguous: it lies column by column, as after a transposition"),
    "steps": (lambda a: Lender(a, (2,), (2,)), "x is not contiguous: along axis 0 its elements lie 16 bytes apart, and not 8"),
    "backward": (lambda a: Lender(a, (2,), (-1,)), "along axis 0 its elements lie -8 bytes apart"),
    "broadcast": (lambda a: Lender(a, (2, 2), (0, 1)), "along axis 0 its elements lie 0 bytes apart, and not 16"),
    "steps by the interface": (lambda a: Interface(a, (2,), strides=(16,)), "along axis 0 its elements lie 16 bytes apart"),
    "bfloat16": (lambda a: Lender(a, kind=(4, 16, 1)), "x has elements of type bfloat16, which NumPy has not"),
    "vectors": (lambda a: Lender(a, kind=(2, 32, 4)), "x has elements of type float32×4, which"),
    "half bytes": (lambda a: Lender(a, kind=(0, 4, 1)), "x has elements of type int4, which"),
    "another type": (lambda a: Lender(a, kind=(2, 64, 1)), "x has elements of type float64, and the program takes int64 or uint64"),
    "another byte order": (lambda a: Interface(a, typestr=">i8"), "x has elements of type >i8, in the byte order of another"),
    "objects": (lambda a: Interface(a, typestr="|O8"), "x has elements of type object, which are no numbers"),
    "dates": (lambda a: Interface(a, typestr="<M8[s]"), "x has elements of type datetime64[s], which are no numbers"),
    "misaligned": (lambda a: Lender(a + 4, (1,)), "x begins at an address that is no multiple of 8"),
    "no memory": (lambda a: Lender(0), "x has 32 bytes at address 0, where there is none"),
    "memory below": (lambda a: Interface(-8), "x has 32 bytes at address -8, where there is none"),
    "memory beyond": (lambda a: Interface((1 << 64) - 8), "where there is none"),
    "memory that nobody knows": (lambda a: Interface(1 << 40), "x is at an address that the CUDA driver does not know"),
    "read-only by the interface": (lambda a: Interface(a, data=(a, True)), "x is read-only, and the program writes it"),
    "read-only": (lambda a: Lender(a, major=1, flags=1), "x is read-only, and the program writes it"),
    "a copy": (lambda a: Lender(a, major=1, flags=2), "x is lent as a copy, in which the program's results would be lost"),
    "a newer DLPack": (lambda a: Lender(a, major=2), "x cannot be borrowed: it is lent by DLPack 2.0, which is not known here"),
    "another capsule": (lambda a: Lender(a, name=b"something"), "x cannot be borrowed: its `__dlpack__` gives no DLPack capsule"),
    "too many axes": (lambda a: Lender(a, axes=1000), "speaks of 1000 axes"),
    "axes below none": (lambda a: Lender(a, axes=-1), "speaks of -1 axes"),
    "a length below none": (lambda a: Lender(a, (-1, 4)), "x has the shape (-1, 4)"),
    "a mask": (lambda a: Interface(a, mask=Interface(a)), "x is masked"),
    "no shape": (lambda a: Interface(a, ...), "x has a __cuda_array_interface__ that is malformed: KeyError: 'shape'"),
    "no version": (lambda a: Interface(a, version=...), "malformed: KeyError"),
    "no type": (lambda a: Interface(a, typestr="<nonsense"), "malformed: TypeError"),
    "nonsense for an address": (lambda a: Interface(a, data=("here", False)), "malformed: ValueError"),
    "an address alone": (lambda a: Interface(a, data=a), "malformed: TypeError"),
    "a negative length": (lambda a: Interface(a, (-4,)), "malformed: shape (-4,), strides None"),
    "too few strides": (lambda a: Interface(a, (2, 2), strides=(8,)), "malformed: shape (2, 2), strides (8,)"),
    "the stream 0": (lambda a: Interface(a, stream=0), "x names the stream 0, which is none"),
    "a stream that is true": (lambda a: Interface(a, stream=True), "x names the stream True, which is none"),
    "a stream in words": (lambda a: Interface(a, stream="mine"), "x names the stream 'mine', which is none"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_arrays_that_cannot_be_used(fake: Any, context: Context, case: str) -> None:
    make, said = CASES[case]
    value = make(fake.lend(64))
    assert said in refused(value, context, name="x", dtypes=["i8", "u8"], writable=True)


def test_where_memory_is(fake: Any, context: Context) -> None:
    """What the driver says of the address counts, whatever the array says."""
    for more, said in (
        ({"device": 1}, "is on cuda:1, and the program on cuda:0"),
        ({"host": True}, "is in the host's memory"),
        ({"own_context": True}, "belongs to a context that its library made for itself"),
    ):
        assert said in refused(Interface(fake.lend(32, **more)), context)
        assert said in refused(Lender(fake.lend(32, **more)), context)
    # Managed memory is within the reach of every device, whichever it was allocated on.
    for device in (0, 1):
        managed = fake.lend(32, device=device, managed=True)
        assert device_array(Lender(managed, device=(13, 0)), context).address == managed
        assert device_array(Interface(managed), context).address == managed
    gone = fake.lend(32)
    fake.take_back(gone)
    assert "does not know" in refused(Interface(gone), context)
    with Context(driver().device(1)) as other:
        assert "is on cuda:0, and the program on cuda:1" in refused(DeviceArray.empty((1,), "i8", context), other)
    fake.fail("cuPointerGetAttribute", 700)
    with pytest.raises(DeviceError) as caught:
        device_array(Interface(fake.lend(32)), context)
    assert caught.value.code == "RG1005"
    fake.fail("cuPointerGetAttribute", 801, nth=4)  # that it belongs to no context
    assert device_array(Interface(fake.lend(32)), context).size == 4


def test_what_other_libraries_raise(fake: Any, context: Context) -> None:
    class WantsGradient:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")

    class Torn(Lender):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

    class Broken(Lender):
        def __dlpack_device__(self) -> Any:
            return None

    class NoCapsule(Lender):
        def __dlpack__(self, **_: Any) -> Any:
            return "capsule"

    class Confused(Lender):
        def __dlpack__(self, **_: Any) -> Any:
            raise TypeError("always")

    address = fake.lend(32)
    for value, said in (
        (WantsGradient(), "is not lent by its library: RuntimeError: Can't get"),
        (Torn(address), "is not lent by its library: BufferError: Can't export tensors that require gradient"),
        (Broken(address), "is not lent by its library: TypeError"),
        (NoCapsule(address), "gives no DLPack capsule"),
        (Confused(address), "is not lent by its library: TypeError: always"),
    ):
        assert said in refused(value, context)


@pytest.mark.parametrize("queue", [None, "given"])
def test_work_of_the_lender_is_waited_for(fake: Any, context: Context, queue: str | None) -> None:
    """Whichever way the array comes: what is read in our stream, or after the call, is what the lender's work writes."""
    stream = context.stream() if queue else None

    def read(array: DeviceArray) -> list[int]:
        if stream is None:
            assert fake.pending == 0
            return list(np.frombuffer(fake.bytes_at(array.address, 32), np.int64))
        out = np.zeros(4, np.int64)
        array.buffer.copy_to_host(out, stream)
        stream.synchronize()
        return out.tolist()

    def writes(address: int) -> Any:
        return lambda: fake.write_at(address, np.arange(4).tobytes())

    theirs = fake.stream_of_another()
    for handle in (1, 2, theirs):
        address = written(fake, np.zeros(4, np.int64))
        fake.queue(handle, writes(address), address)
        assert read(device_array(Interface(address, stream=handle), context, stream=stream)) == [0, 1, 2, 3]
    # The interface's old versions tell of no stream.
    address = written(fake, np.zeros(4, np.int64))
    fake.queue(theirs, writes(address), address)
    assert read(device_array(Interface(address, version=2, stream=0), context, stream=stream)) == [0, 1, 2, 3]

    class Lending(Lender):
        """Makes the borrower's stream wait, as DLPack wants it."""

        def __dlpack__(self, *, stream: int, max_version: Any) -> Any:  # type: ignore[override]
            Stream(context, stream).wait_for(Stream(context, theirs))
            return self.capsule

    address = written(fake, np.zeros(4, np.int64))
    fake.queue(theirs, writes(address), address)
    assert read(device_array(Lending(address), context, stream=stream)) == [0, 1, 2, 3]
    # Ours.
    mine = context.stream()
    array = DeviceArray.from_host(np.arange(4), context, mine)
    assert read(device_array(array, context, stream=stream)) == [0, 1, 2, 3]


def test_an_array_that_has_nothing_to_wait_for(fake: Any, context: Context) -> None:
    stream = context.stream()
    context.allocate(8).fill(0, stream)
    before = fake.calls["cuCtxSynchronize"]
    device_array(Interface(address := fake.lend(32), stream=None), context)
    device_array(Interface(address), context)
    assert fake.calls["cuCtxSynchronize"] - before <= 3  # of what was given back above
    assert fake.calls["cuStreamSynchronize"] == 0


def test_what_is_a_device_array(fake: Any, context: Context) -> None:
    class Raises:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError

    class RaisesToo:
        def __dlpack_device__(self) -> Any:
            raise RuntimeError

    address = fake.lend(32)
    ours = DeviceArray.empty((1,), "i8", context)
    assert [
        is_device_array(v) for v in (ours, Interface(address), Lender(address), Lender(address, device=(13, 0)))
    ] == [True] * 4
    others = (1, None, [1], np.zeros(3), Lender(address, device=(10, 0)), Raises(), RaisesToo(), Lender, DeviceArray)
    assert [is_device_array(v) for v in others] == [False] * len(others)


def test_kernels_take_arrays(fakes: ModuleType, fake: Any, context: Context) -> None:
    from retrograd.simulator.engines.cuda.kernels import Module

    def double(_grid: object, _block: object, arguments: tuple[int, int]) -> None:
        np.ctypeslib.as_array((ctypes.c_double * arguments[1]).from_address(arguments[0]))[:] *= 2

    fake.kernels["double"] = double
    text = ".version 7.0\n.target sm_70\n.visible .entry double(.param .u64 a, .param .u64 n) { ret; }"
    module, array = Module(context, text), DeviceArray.from_host(np.arange(4.0), context)
    module.kernel("double").launch(1, 32, [array, c_uint64(4)])
    module.kernel("double").launch(1, 32, [Buffer(context, 16, array.address + 16, array), c_uint64(2)])
    assert array.copy_to_host().tolist() == [0, 2, 8, 12]
