"""Numbers on a CUDA device: `on_device`, and batches whose arguments and results lie there.

    x = rg.on_device(array)                     uploaded once
    y = rg.vmap(f)(y0, x).y                     a DeviceArray: nothing is copied
    y.numpy()                                   the numbers of rg.vmap(f)(y0, array).y, with their words

Arrays of PyTorch, JAX, CuPy and Numba on a device are arguments, too, and a DeviceArray is an array for these
libraries, by
`__cuda_array_interface__` and DLPack. A DeviceArray that a run has made holds words. They are used as they are where
the array is an argument in the same format, and become float64s when another library reads it.

Trap: words that a float64 would round stay beside the numbers, so such an array is lent as read-only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.language.types import ArrayType, ScalarType, Type
from retrograd.isa.program import Program
from retrograd.isa.words import Format
from retrograd.runtime._arrays import WordArray, as_array, is_lent_by_device, nearest_reals, plain, reals_of
from retrograd.runtime._binding import Arguments
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.layout import BatchLayout, ResultArray
from retrograd.simulator.engines.choice import machine_for
from retrograd.simulator.engines.cuda.batch import GivenRows, KeptRows
from retrograd.simulator.engines.cuda.device_arrays import (
    DeviceRuns,
    borrowed,
    convert,
    copied_to_host,
    device_of,
    is_device_array,
    refuse_array,
    words_at,
)
from retrograd.simulator.engines.cuda.kernels import Mark
from retrograd.simulator.engines.cuda.runtime import Device, address_of_array, device, on, simulated
from retrograd.simulator.engines.cuda.stepped_machine import DeviceMachine, ResidentWords
from retrograd.simulator.machine import Machine


class DeviceArray:
    """An array of numbers on a CUDA device: see the head of the module. `device`: its index."""

    __retrograd_device__ = True

    def __init__(
        self, where: Device, shape: tuple[int, ...], values: Any, words: Any = None, format: Format | None = None
    ) -> None:
        """`values`: flat, a device array of Numba; or None, and `words` of fixed numbers of the format."""
        self._where, self.shape, self._values, self._words, self._format = where, shape, values, words, format
        self.dtype = np.dtype(np.float64 if values is None else values.dtype)

    # ------------------------------------------------------------------ as an array

    @property
    def device(self) -> int:
        return self._where.index

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a number has no length")
        return self.shape[0]

    def numpy(self) -> NDArray[Any]:
        """A copy on the host: numbers with the words that they were made from."""
        with on(self._where):
            if self._words is not None and self._format is not None:
                words = self._words.copy_to_host()[: self.size].astype(np.uint64)
                return reals_of(words, "fixed", self._format).reshape(self.shape)
            found: NDArray[Any] = self._values.copy_to_host()[: self.size].reshape(self.shape)
            return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("an array on a device is copied to the host")
        return self.numpy().astype(dtype, copy=False) if dtype is not None else self.numpy()

    def __repr__(self) -> str:
        return f"<DeviceArray of shape {self.shape} and type {self.dtype} on {self._where}>"

    # ------------------------------------------------------------------ for other libraries

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        values = self._read()
        at = address_of_array(values) if self.size else 0
        data = at, self._words is not None
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": data,
            "strides": None,
            "stream": None,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of a device of Numba's simulator is the host's."""
        return (1, 0) if simulated() else (2, self._where.index)

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        """The numbers for another library. They are ready, so no stream has to wait for them."""
        values = self._read()
        return _capsule(
            self, address_of_array(values) if self.size else 0, self.shape, self.dtype, self.__dlpack_device__()
        )

    def _read(self) -> Any:
        """The numbers as float64s, which are made from words at the first time.

        Where they are exact, the words are not needed any more.
        """
        if self._values is None:
            assert self._format is not None
            with on(self._where) as cuda:
                values = cuda.device_array(max(1, self.size), np.float64)
            if self._convert(values, self._format) or not self.size:
                self._words = None
            self._values = values
        return self._values

    def _convert(self, values: Any, w: Format) -> bool:
        """Write the words as numbers, by the kernel of batches. Returns whether all of them are exact."""
        if not self.size:
            return True
        numbers = KeptRows(0, 0, 8, address_of_array(values), 2.0**-w.frac)
        return not convert(self._where, w, self.size, words_at(self._words), numbers)[Mark.LARGE]

    # ------------------------------------------------------------------ as an argument

    def given(self, w: Format) -> tuple[Any, float]:
        """(the array that a batch in the format reads, the factor from its numbers to words, or 0 where it holds words)."""
        if self._words is not None and self._format == w:
            return self._words, 0.0
        return self._read(), 2.0**w.frac


def on_device(x: Any, index: int = 0) -> DeviceArray:
    """x on a CUDA device, copied there once: an array of real numbers, of integers or of bools. A DeviceArray is returned as it is.

    Numbers that keep the words they were made from keep them there. `index`: of the device. `y.numpy()` is x again.
    Raises
    DeviceError RG1002 where there is no device, RG1006 for objects that are no such array.
    """
    if isinstance(x, DeviceArray):
        return x
    where = device(index)
    array = as_array(x)
    if array.dtype.kind not in "iufb" or array.dtype.itemsize > 8:
        refuse_array(
            "the array",
            f"has elements of type {array.dtype}",
            "Arrays on a device hold real numbers, integers or bools.",
        )
    words, w = _words_of(array)
    with on(where) as cuda:
        if words is not None and w is not None:
            there = cuda.to_device(np.ascontiguousarray(words, DTYPES[w.width]).ravel())
            return DeviceArray(where, array.shape, None, there, w)
        values = np.ascontiguousarray(plain(array)).ravel()
        return DeviceArray(where, array.shape, cuda.to_device(values if values.size else np.zeros(1, values.dtype)))


def _words_of(array: NDArray[Any]) -> tuple[NDArray[np.uint64] | None, Format | None]:
    """The words of fixed numbers, where all of them belong to their numbers."""
    if not isinstance(array, WordArray) or array.origin is None or not array.size:
        return None, None
    kind, w = array.origin
    words = array.words(kind, w)
    if kind != "fixed" or words is None or not np.array_equal(nearest_reals(words, "fixed", w), plain(array)):
        return None, None
    return words, w


def copied(value: Any, name: str) -> Any:
    """A copy of an array of any library on the host, with the words of a DeviceArray."""
    return value.numpy() if isinstance(value, DeviceArray) else copied_to_host(value, name)


def copied_arguments(
    args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any], int | None]:
    """(the arguments with copies of arrays that lie on a device, the index of the device, or None)."""
    places: set[int] = set()

    def one(value: Any, name: str) -> Any:
        if not is_lent_by_device(value) or not is_device_array(value):
            return value
        places.add(device_of(value).index)
        return copied(value, name)

    given = tuple(one(value, f"argument {i}") for i, value in enumerate(args))
    named = {name: one(value, f"`{name}`") for name, value in keywords.items()}
    return given, named, min(places, default=None)


def on_the_device_of(found: Any, index: int) -> Any:
    """Arrays of numbers in a result, and in its tuples, on a device; all else as it is."""
    if isinstance(found, tuple):
        parts = [on_the_device_of(part, index) for part in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
    if isinstance(found, np.ndarray) and found.ndim and found.dtype.kind in "iufb":
        return on_device(found, index)
    return found


# -----------------------------------------------------------------------------
# Arguments and results of batches.


class DeviceItems:
    """An argument of a batch that lies on a device, of float64s or float32s."""

    def __init__(self, value: Any, name: str) -> None:
        self._value, self.where = value, device_of(value)
        self._array: Any = value
        if not isinstance(value, DeviceArray):
            self._array = borrowed(value, self.where, name=name)
        self.shape: tuple[int, ...] = tuple(int(n) for n in self._array.shape)
        self.dtype, self.ndim = np.dtype(self._array.dtype), len(self.shape)
        self._host: NDArray[Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: Any) -> Any:
        """Elements as an array of the host, copied once."""
        if self._host is None:
            if isinstance(self._value, DeviceArray):
                self._host = self._value.numpy()
            else:
                with on(self.where):
                    self._host = self._array.copy_to_host()
        return self._host[at]

    def example(self) -> Any:
        """Zeros in the place of the argument."""
        return np.zeros(self.shape, self.dtype)[()]

    def given(self, w: Format) -> tuple[Any, float]:
        """See `DeviceArray.given`."""
        return self._array.given(w) if isinstance(self._array, DeviceArray) else (self._array, 2.0**w.frac)


def items_of(value: Any, name: str) -> DeviceItems | None:
    """The argument as a batch reads it on its device; None for arrays that become words on the host."""
    found = DeviceItems(value, name)
    return found if found.dtype in (np.float64, np.float32) and found.shape and 0 not in found.shape else None


class DeviceRows:
    """The rows of an argument on a device. `shared`: all rows are the argument itself."""

    def __init__(self, items: DeviceItems, count: int, size: int, shared: bool = False) -> None:
        self.items, self._count, self.size, self.shared = items, count, size, shared

    def __len__(self) -> int:
        return self._count

    def given(self, w: Format) -> tuple[GivenRows, Any]:
        """(the rows as a kernel reads them, the array that has to live as long)."""
        array, scale = self.items.given(w)
        step = array.dtype.itemsize
        return GivenRows(address_of_array(array), 0 if self.shared else self.size * step, step, step, scale), array


class DeviceResult(ResultArray):
    """The kept words, or numbers, of a range, on a device.

    Rows may be replaced on the host, and then the array is copied there again.
    """

    there = True

    def __init__(self, where: Device, count: int, size: int, w: Format, scale: int | None = None) -> None:
        """`scale`: numbers are kept, 2^scale times as small; None: words."""
        self._where, self._shape, self.format = where, (count, size), w
        self.large, self._changed = False, False
        self.factor = 2.0 ** -(w.frac + (scale or 0))
        self._exact = scale is None
        dtype: Any = DTYPES[w.width] if self._exact else np.float64
        with on(where) as cuda:
            self._there = cuda.device_array(max(1, count * size), dtype)
        self._host: NDArray[Any] | None = None

    def kept(self) -> KeptRows:
        """The array as a kernel writes it."""
        at, size = address_of_array(self._there), self._there.dtype.itemsize
        return KeptRows(at, self._shape[1] * size, size) if self._exact else KeptRows(0, 0, 8, at, self.factor)

    def _copied(self) -> NDArray[Any]:
        if self._host is None:
            with on(self._where):
                found = self._there.copy_to_host()[: prod(self._shape)].reshape(self._shape)
            self._host = found.astype(np.uint64) if self._exact else found
        return self._host

    @property
    def words(self) -> Any:  # type: ignore[override]
        """The words on the host; None where the array holds numbers."""
        return self._copied() if self._exact else None

    @property
    def reals(self) -> Any:  # type: ignore[override]
        """The numbers on the host; None where the array holds words."""
        return None if self._exact else self._copied()

    def put(self, at: Any, words: NDArray[np.uint64]) -> None:
        """See `ResultArray.put`."""
        super().put(at, words)
        self._changed = True

    def put_rows(self, at: Any, other: ResultArray) -> None:
        """See `ResultArray.put_rows`."""
        super().put_rows(at, other)
        self._changed = True

    def on_device(self, shape: tuple[int, ...]) -> DeviceArray:
        """The numbers as a DeviceArray of that shape."""
        if self._changed:
            host = self._copied()
            with on(self._where) as cuda:
                self._there = cuda.to_device(np.ascontiguousarray(host, self._there.dtype).ravel())
            self._changed = False
        if self._exact:
            return DeviceArray(self._where, shape, None, self._there, self.format)
        return DeviceArray(self._where, shape, self._there)


def _one_device(of: Iterable[Device]) -> Device:
    """The device of all arguments. Raises ArrayError."""
    places = {where.index: where for where in of}
    if len(places) > 1:
        on_them = f"are on {' and '.join(f'cuda:{i}' for i in sorted(places))}"
        refuse_array("the arguments", on_them, "Copy them to one device.")
    (where,) = places.values()
    return where


class DeviceBatch:
    """A batch of which some arguments lie on a device. All arrays are used there, and the results are left there."""

    def __init__(self, program: Program, layout: BatchLayout, modes: dict[str, Any], arrays: Sequence[Any]) -> None:
        self.program, self.layout, self.modes, self.arrays = program, layout, modes, arrays
        self.where = _one_device(rows.items.where for rows in arrays if isinstance(rows, DeviceRows))

    def run(
        self, derived: dict[Any, Any], count: int, shared: NDArray[np.uint64], limit: int | None, results: Sequence[DeviceResult],
        wanted: Sequence[bool],
    ) -> tuple[Any, list[Callable[[], NDArray[np.int64]] | None]]:  # fmt: skip
        """(a DeviceRan, functions that copy the counts that are wanted: steps, words lost, cycles).

        `derived` keeps the loop for later batches.
        """
        w = self.program.format
        key = "device runs", self.where.index, self.layout, tuple(sorted(self.modes.items()))
        runs = derived.get(key)
        if runs is None:
            runs = derived[key] = DeviceRuns(self.program, self.where, self.layout, self.modes)
        given, alive = zip(*map(self._given, self.arrays), strict=True)
        with on(self.where) as cuda:
            counts = [cuda.device_array(max(1, count), np.int64) if one else None for one in wanted]
        at = [0 if array is None else address_of_array(array) for array in counts]
        ran = runs(count, given, [result.kept() for result in results], shared, at, limit)
        del alive
        for k, result in enumerate(results):
            result.large = w.width > 53 and bool(ran.marks[Mark.LARGE + k])
        return ran, [None if array is None else _copier(self.where, array, count) for array in counts]

    def _given(self, rows: Any) -> tuple[GivenRows, Any]:
        w = self.program.format
        if isinstance(rows, DeviceRows):
            return rows.given(w)
        array = np.ascontiguousarray(rows)
        with on(self.where) as cuda:
            there = cuda.to_device(array.ravel() if array.size else np.zeros(1, array.dtype))
        scale = 2.0**w.frac if array.dtype == np.float64 else 0.0
        return GivenRows(address_of_array(there), array.shape[1] * 8, 8, 8, scale), there


def _copier(where: Device, array: Any, count: int) -> Callable[[], NDArray[np.int64]]:
    def copy() -> NDArray[np.int64]:
        with on(where):
            found: NDArray[np.int64] = array.copy_to_host()[:count]
        return found

    return copy


# -----------------------------------------------------------------------------
# Arguments and results of single runs.

#: numbers of an array from which on they become words on the device: a launch takes as long as the host for thousands
_MANY = 1 << 14


class DeviceArguments(Arguments):
    """The arguments of a call, of which some arrays lie on a device, as `DeviceItems`."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(values)
        self.examples = [v.example() if isinstance(v, DeviceItems) else v for v in values]

    @property
    def where(self) -> Device:
        """The device. Raises ArrayError where they lie on several."""
        return _one_device(v.where for v in self if isinstance(v, DeviceItems))

    def copied(self) -> Arguments:
        return Arguments(map(on_host, self))

    def placed(self, results: dict[str, Any]) -> dict[str, Any]:
        return {name: on_the_device_of(one, self.where.index) for name, one in results.items()}


def left_on_device(values: Arguments, names: Iterable[str]) -> Arguments:
    """The arguments of a single run: arrays of float64s and float32s on a device as they are, copies of others."""
    found: list[Any] = []
    for value, name in zip(values, names, strict=True):
        there = is_lent_by_device(value) and is_device_array(value)
        items = items_of(value, f"`{name}`") if there else None
        found.append(items or (copied(value, f"`{name}`") if there else value))
    return DeviceArguments(found) if any(isinstance(v, DeviceItems) for v in found) else Arguments(found)


def machine_there(program: Program, types: Sequence[Type], values: Sequence[Any], engine: str, **modes: Any) -> Machine:
    """A machine of the engine, which is `cuda`, for arguments of these types.

    Its memory lies on the device if some of them are large.
    """
    own = {"where": values.where} if isinstance(values, DeviceArguments) else {}
    machine = machine_for(program, engine, **own, **modes)
    assert isinstance(machine, DeviceMachine)
    if any(map(_is_large, types, values)):
        machine.begin_there()
    return machine


def load_numbers(machine: Machine, t: Type, address: int, value: Any, w: Format) -> NDArray[np.int64] | None:
    """Load the numbers of a large array, which become words there. Returns the marks; None for other arguments."""
    if not _is_large(t, value):
        return None
    memory = cast("ResidentWords", cast("DeviceMachine", machine).resident)
    numbers = cast("ScalarType", cast("ArrayType", t).element).kind.numbers(w)
    if isinstance(value, DeviceItems):
        given, factor = value.given(numbers)
    else:
        factor = 2.0**numbers.frac
        with on(memory.where) as cuda:
            given = cuda.to_device(np.ascontiguousarray(plain(value)).ravel())
    return memory.load(address, t.size, given, factor)


def on_host(value: Any) -> Any:
    """The argument itself, or a copy of `DeviceItems`."""
    return value[...] if isinstance(value, DeviceItems) else value


def _is_large(t: Type, value: Any) -> bool:
    """Whether a device makes the words of an argument: an array there, or many float64s or float32s without words."""
    if not (isinstance(t, ArrayType) and isinstance(t.element, ScalarType) and t.element.kind.is_fixed):
        return False
    if isinstance(value, DeviceItems):
        return True
    known = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray) and value.size >= _MANY
    return (
        known
        and value.dtype in (np.float64, np.float32)
        and value.shape == t.shape
        and not (isinstance(value, WordArray) and value.origin is not None)
    )


def numbers_there(
    run: Any, values: Sequence[Any], t: Type, address: int, w: Format, scale: int | None = None
) -> NDArray[Any] | DeviceArray | None:
    """The numbers of an array of fixed numbers at an address, of a run whose memory lies on a device; else None.

    Where an argument lay there, a DeviceArray, which has the words unless `scale` is given: then the numbers are
    2^scale times as small.
    """
    memory = run.resident if isinstance(run, DeviceMachine) else None
    if memory is None or not isinstance(t, ArrayType):
        return None
    if not (isinstance(t.element, ScalarType) and t.element.kind.is_fixed):
        return None
    stays, numbers = isinstance(values, DeviceArguments), t.element.kind.numbers(w)
    if not (stays or memory.is_there):
        return None  # the run ended on the host
    if stays and scale is None:
        return DeviceArray(memory.where, t.shape, None, memory.copy_words(address, t.size), numbers)
    if not stays and t.size < _MANY:
        return None
    found, exact = memory.copy_numbers(address, t.size, 2.0 ** -(numbers.frac + (scale or 0)))
    if stays:
        return DeviceArray(memory.where, t.shape, found)
    if scale is None and not exact:
        return None
    with on(memory.where):
        copied: NDArray[Any] = found.copy_to_host()
    return copied.reshape(t.shape)


# -----------------------------------------------------------------------------
# DLPack: a capsule with the address, the shape and the type of an array.
#
# Source: DLPack 0.8, dlpack.h; the capsule is `dltensor` until a library takes it.


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("kind", ctypes.c_int32), ("index", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


#: the address of a tensor that is lent -> all that lives as long
_lent: dict[int, tuple[Any, ...]] = {}
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_NAME = b"dltensor"


_called = cast("Callable[[Callable[[int], None]], Any]", ctypes.CFUNCTYPE(None, ctypes.c_void_p))


@_called
def _end(address: int) -> None:
    """A library does not need a tensor any more."""
    _lent.pop(address, None)


@_called
def _forget(capsule: int) -> None:
    """A capsule ends. Where no library has taken it, its tensor ends, too."""
    if _api.PyCapsule_IsValid(capsule, _NAME):
        _end(_api.PyCapsule_GetPointer(capsule, _NAME))


_api = ctypes.PyDLL(None)
_api.PyCapsule_New.restype, _api.PyCapsule_New.argtypes = (
    ctypes.py_object,
    [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
)
_api.PyCapsule_IsValid.restype, _api.PyCapsule_IsValid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
_api.PyCapsule_GetPointer.restype, _api.PyCapsule_GetPointer.argtypes = (
    ctypes.c_void_p,
    [ctypes.c_void_p, ctypes.c_char_p],
)


def _capsule(owner: Any, at: int, shape: tuple[int, ...], dtype: np.dtype[Any], place: tuple[int, int]) -> Any:
    lengths = (ctypes.c_int64 * max(1, len(shape)))(*shape)
    tensor = _Tensor(
        at, *place, len(shape), _CODES[dtype.kind], 8 * dtype.itemsize, 1, ctypes.addressof(lengths), None, 0, None,
        ctypes.cast(_end, ctypes.c_void_p).value,
    )  # fmt: skip
    address = ctypes.addressof(tensor)
    _lent[address] = tensor, lengths, owner
    return _api.PyCapsule_New(address, _NAME, ctypes.cast(_forget, ctypes.c_void_p).value)
