"""Arrays of other libraries on a device, used in place, without a copy: PyTorch, JAX, CuPy and Numba.

    words = borrowed(tensor, device, dtypes=[np.uint64])            a device array of Numba, on the same memory

by `__cuda_array_interface__`, or by DLPack if the library lacks it. Both pass an address and a stream, since work that writes the array may
still be queued; Numba synchronises that stream. An array is used in place, so it must be contiguous, in the byte order of the machine,
and on the same device. Results are device arrays of Numba, which other libraries take by the same interface.

Trap: a borrowed array holds a reference to its lender, so the memory lives as long as the borrowed array.

Source: CUDA array interface, version 3; array API 2024.12, `__dlpack__`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.diagnostics import DeviceError, Diagnostic
from retrograd.isa.program import Program
from retrograd.simulator.engines.array_words import DTYPES
from retrograd.simulator.engines.batch.cpu import WordMatrix, memory_of
from retrograd.simulator.engines.batch.layout import BatchLayout, exact_sums, width
from retrograd.simulator.engines.batch.loops import longest_stretch
from retrograd.simulator.engines.cuda.batch import (
    BLOCK,
    BatchCode,
    GivenRows,
    KeptRows,
    at_least_one,
    device_table,
    grid_of,
)
from retrograd.simulator.engines.cuda.kernels import Mark
from retrograd.simulator.engines.cuda.runtime import (
    Device,
    address_of_array,
    array_of_interface,
    device,
    on,
    simulated,
    view_by_dlpack,
)
from retrograd.simulator.engines.state import UNLIMITED
from retrograd.simulator.stores import limit_of

#: types of devices in DLPack
_CPU, _CUDA, _MANAGED = 1, 2, 13


class ArrayError(DeviceError, BufferError):
    """RG1006: an array that cannot be used on the device."""


def refuse_array(name: str, why: str, hint: str | None = None) -> NoReturn:
    raise ArrayError(Diagnostic("RG1006", f"{name} {why}", hint=hint))


def is_device_array(value: object) -> bool:
    """Whether the object declares that it is on a CUDA device. Never raises."""
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return True
        return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in (_CUDA, _MANAGED)
    except Exception:  # other libraries raise undocumented exceptions
        return False


class _Interface:
    """The CUDA array interface of memory that is lent by DLPack."""

    def __init__(self, view: Any, itemsize: int) -> None:
        self._view = view  # holds the lender's memory
        strides = None if view.strides is None else tuple(int(s) * itemsize for s in view.strides)
        self.__cuda_array_interface__ = {
            "shape": tuple(view.shape), "typestr": np.dtype(view.dtype).str, "data": (int(view.ptr), bool(view.readonly)),
            "strides": strides, "stream": None, "version": 3,
        }  # fmt: skip


def borrowed(
    value: Any,
    where: Device,
    *,
    name: str = "the array",
    dtypes: Collection[DTypeLike] | None = None,
    writable: bool = False,
) -> Any:
    """A device array of Numba on the memory of another library's array, which is ready when this returns.

    `dtypes`: accepted types. `writable`: it will be written. `name`: its name in errors. Raises ArrayError with the reason.
    """
    if simulated() and hasattr(value, "__cuda_ndarray__"):
        _check_type(name, value.dtype, dtypes)
        return value
    try:
        found = value if hasattr(value, "__cuda_array_interface__") else _by_dlpack(value, where, name)
        interface = found.__cuda_array_interface__
        shape = tuple(int(length) for length in interface["shape"])
        dtype, read_only = np.dtype(str(interface["typestr"])), bool(interface["data"][1])
        strides = interface.get("strides")
    except DeviceError:
        raise
    except Exception as error:  # PyTorch raises RuntimeError for a tensor with requires_grad
        refuse_array(name, f"is not lent by its library: {type(error).__name__}: {error}")
    if interface.get("mask") is not None:
        refuse_array(name, "is masked", "Fill in what is masked first.")
    _check_type(name, dtype, dtypes)
    if writable and read_only:
        refuse_array(name, "is read-only, and the program writes it", "Copy it with the library that it is from.")
    _check_contiguous(name, shape, strides, dtype.itemsize)
    _check_device(name, value, where)
    return array_of_interface(found, where, shape, dtype)


def _by_dlpack(value: Any, where: Device, name: str) -> _Interface:
    if not hasattr(value, "__dlpack__"):
        kind = type(value)
        refuse_array(
            name, f"is no array on a device, but {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
        )
    kind_, _ = (int(part) for part in value.__dlpack_device__())
    if kind_ not in (_CUDA, _MANAGED):
        place = "the host's memory" if kind_ == _CPU else f"a device of DLPack type {kind_}"
        refuse_array(name, f"is in {place}, and the program on {where}")
    _check_device(name, value, where)
    view = view_by_dlpack(value, where)
    return _Interface(view, np.dtype(view.dtype).itemsize)


def _check_type(name: str, dtype: np.dtype[Any], dtypes: Collection[DTypeLike] | None) -> None:
    if dtype.kind not in "biufc":
        refuse_array(name, f"has elements of type {dtype}, which are no numbers")
    if not dtype.isnative:
        refuse_array(name, f"has elements of type {dtype}, in the byte order of another machine")
    if dtypes is not None and dtype not in (wanted := [np.dtype(d) for d in dtypes]):
        refuse_array(name, f"has elements of type {dtype}, and the program takes {' or '.join(map(str, wanted))}")


def _check_contiguous(name: str, shape: tuple[int, ...], strides: Any, itemsize: int) -> None:
    if strides is None or 0 in shape:
        return
    step = itemsize
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1 and int(strides[axis]) != step:
            refuse_array(
                name,
                f"is not contiguous: along axis {axis} its elements lie {strides[axis]} bytes apart, and not {step}",
                "Copy it: `x.contiguous()` in PyTorch, `cupy.ascontiguousarray(x)`.",
            )
        step *= shape[axis]


def _device_index(value: Any) -> int:
    """The index of an array's device: by DLPack, or the attribute `device` of CuPy's and Numba's arrays; else the current one, 0."""
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    found = getattr(value, "device", None)
    return next((int(i) for i in (getattr(found, "id", None), getattr(found, "index", None)) if i is not None), 0)


def _check_device(name: str, value: Any, where: Device) -> None:
    index = _device_index(value)
    if index != where.index:
        refuse_array(name, f"is on cuda:{index}, and the program on {where}")


def copied_to_host(value: Any, name: str) -> Any:
    """A NumPy copy of a device array of any library; other objects unchanged. Raises DeviceError, ArrayError."""
    if not is_device_array(value):
        return value
    where = device(_device_index(value))
    found = borrowed(value, where, name=name)
    with on(where):
        return found.copy_to_host()


# -----------------------------------------------------------------------------
# Batches whose words are on the device, and stay there: arrays of PyTorch, CuPy, JAX and others, without a copy.
#
#     batch = ResidentBatch(program, device, columns)
#     ran = batch(rows, out)                               out[i] := the kept words of memory, after the run on rows[i]
#
# The kernel is loaded once, for any number of calls. Words are those of the program: a fixed-point number x is the integer
# x·2^F (`retrograd.fixed`), in integers as wide as the format, signed or not. Arrays of results are device arrays of Numba.


@dataclass(frozen=True)
class DeviceRowResults:
    """The result of a batch: its words on the device, counts and status here."""

    #: a device array with a row for each instance; an instance that failed keeps its former row
    out: Any
    #: instructions executed by each instance
    steps: NDArray[np.int64]
    #: words erased by each instance
    lost_words: NDArray[np.int64]
    #: the instances that failed
    failed: NDArray[np.int64]
    #: the sums of words, as signed numbers
    sums: list[int]
    #: cycles of each instance on the co-processor, if requested
    cycles: NDArray[np.int64] | None


class ResidentBatch:
    """A program on a device, ready to run on rows that are there.

    `columns`, `shared`, and the modes are those of `batch.run_batch`. Raises DeviceError RG1003 to RG1005.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        columns: BatchLayout,
        *,
        shared: WordMatrix | None = None,
        block: int = BLOCK,
        backward: bool = False,
        overflow: bool = True,
        checks: bool = True,
        cycles: bool = False,
        core: str = "small",
    ) -> None:
        self.program, self.device, self.columns = program, device, columns
        self._modes: dict[str, Any] = {
            "backward": backward,
            "overflow": overflow,
            "checks": checks,
            "cycles": cycles,
            "core": core,
        }
        self._counted, self._block = cycles, block
        self._longest = longest_stretch(program, backward)
        self._dtype = np.dtype(DTYPES[program.format.width])
        memory = memory_of(program, columns, shared)
        self._n = len(memory.shared)
        with on(device) as cuda:
            self._shared = cuda.to_device(memory.shared)
        self._code = BatchCode(program, device, self._modes, 1 << 30)

    def __call__(self, rows: Any, out: Any = None, *, limit: int | None = None, stream: Any = None) -> DeviceRowResults:
        """Run it for each row of an array of words on the device. `out` receives the kept words (default: a new array).

        The kernel is queued in `stream`, a stream of Numba (`numba.cuda.external_stream(address)` for that of another library), after all
        work on both arrays, and the call returns when all instances have ended. `limit`: steps for each instance.
        Raises ArrayError RG1006 for arrays that cannot be used, DeviceError RG1004 and RG1005.
        """
        columns, where = self.columns, self.device
        words = [self._dtype, np.dtype(self._dtype.name.replace("uint", "int"))]
        given = borrowed(rows, where, name="the array of rows", dtypes=words)
        _check_shape("the array of rows", given, width(columns.given))
        count = int(given.shape[0])
        shape = (count, width(columns.kept))
        given_limit = limit_of(limit, "limit")
        most = UNLIMITED if given_limit is None else min(given_limit, UNLIMITED)
        counts = np.zeros(3 * max(1, count), dtype=np.int64)
        status = np.ones(max(1, count), dtype=np.uint8)
        sums = at_least_one(np.zeros(2 * width(columns.summed), dtype=np.int64))
        marks = np.zeros(Mark.LARGE + len(columns.kept), dtype=np.int64)
        with on(where) as cuda:
            if out is None:
                kept = cuda.to_device(np.zeros(shape, given.dtype))
            else:
                kept = borrowed(out, where, name="the array of results", dtypes=words, writable=True)
                _check_shape("the array of results", kept, *shape[::-1])
            if count and self._longest <= most:
                queue = cuda.stream() if stream is None else stream
                kernel = self._code.kernel()
                grid, block = grid_of(kernel, self._block, count, adds=bool(columns.summed))
                memory = cuda.device_array(grid * block * (self._n + 1), kernel.word)
                told, ended, total, marked = (cuda.to_device(array, queue) for array in (counts, status, sums, marks))
                table = cuda.to_device(self._table_of(given, kept, address_of_array(told), count), queue)
                arguments = [
                    table, count, self._shared, self._n, memory, grid * block, most, ended, total, marked,
                ]  # fmt: skip
                kernel.launch(grid, block, arguments, queue)
                for array, held in ((told, counts), (ended, status), (total, sums)):
                    array.copy_to_host(held, queue)
                queue.synchronize()
        steps, lost, cycles = counts[: 3 * count].reshape(3, count)
        taken = cycles if self._counted else None
        added = exact_sums(sums[: 2 * width(columns.summed)])
        return DeviceRowResults(kept, steps, lost, np.flatnonzero(status[:count]), added, taken)

    def _table_of(self, given: Any, kept: Any, counts: int, count: int) -> NDArray[np.int64]:
        """The table of rows of words, which are as wide as those of memory."""
        size = self._dtype.itemsize
        tables = []
        for array, ranges in ((given, self.columns.given), (kept, self.columns.kept)):
            row, at = width(ranges) * size, address_of_array(array) if array.size else 0
            starts = np.cumsum([0, *(n * size for _, n in ranges)])[:-1].tolist()
            tables.append([(at + first if at else 0, row) for first in starts])
        rows = [GivenRows(at, row, size, size) for at, row in tables[0]]
        results = [KeptRows(at, row, size) for at, row in tables[1]]
        return device_table(self.columns, self._n, rows, results, [counts + 8 * count * k for k in range(3)])


def _check_shape(name: str, array: Any, columns: int, rows: int | None = None) -> None:
    """Raise ArrayError unless it is a matrix of these columns and rows."""
    if array.ndim != 2 or array.shape[1] != columns or rows not in (None, array.shape[0]):
        wanted = f"{'any number of' if rows is None else rows} rows of {columns} words"
        refuse_array(name, f"has shape {array.shape}; wanted are {wanted}")
