"""Arrays of other libraries on a device, used in place, without a copy: PyTorch, JAX, CuPy and Numba.

    words = borrowed(tensor, device, dtypes=[np.uint64])            a device array of Numba, on the same memory

by `__cuda_array_interface__`, or by DLPack if the library lacks it. Both pass an address and a stream, since work that writes the array may
still be queued; Numba synchronises that stream. An array is used in place, so it must be contiguous, in the byte order of the machine,
and on the same device. Results are device arrays of Numba, which other libraries take by the same interface.

Trap: a borrowed array holds a reference to its lender, so the memory lives as long as the borrowed array.

Source: CUDA array interface, version 3; array API 2024.12, `__dlpack__`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import DTypeLike, NDArray
from retrograd.isa.diagnostics import DeviceError, Diagnostic
from retrograd.isa.encoding import Instruction, encode
from retrograd.isa.program import Program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
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
    device_memory,
    device_table,
    grid_of,
    pinned_memory,
    threads_of_instance,
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
    if hasattr(type(value), "__retrograd_device__"):
        return True  # its interface is not read, since that makes numbers of its words
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
    """The index of an array's device: by the attribute `device` of our own arrays, by DLPack, or by the attribute `device` of CuPy's and Numba's; else the current one, 0."""
    found = getattr(value, "device", None)
    if isinstance(found, int):
        return found
    if hasattr(value, "__dlpack_device__"):
        return int(value.__dlpack_device__()[1])
    return next((int(i) for i in (getattr(found, "id", None), getattr(found, "index", None)) if i is not None), 0)


def _check_device(name: str, value: Any, where: Device) -> None:
    index = _device_index(value)
    if index != where.index:
        refuse_array(name, f"is on cuda:{index}, and the program on {where}")


def device_of(value: Any) -> Device:
    """The device on which an array lies. Raises DeviceError RG1002."""
    return device(_device_index(value))


def copied_to_host(value: Any, name: str) -> Any:
    """A NumPy copy of a device array of any library; other objects unchanged. Raises DeviceError, ArrayError."""
    if not is_device_array(value):
        return value
    where = device_of(value)
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


# -----------------------------------------------------------------------------
# Loops over rows of arrays that lie on a device: one launch, and no copy in a warm call.
#
#     runs = DeviceRuns(program, device, layout, modes)
#     ran = runs(count, given, kept)
#
# The tables of addresses and the shared words stay on the device, and are copied where they change. The kernel writes
# its marks into pinned memory
# of the host. Sums, and the status of each instance where one has failed, are copied to the host.

#: tables that stay on the device: the arrays of a loop of a user take few places in turn
_TABLES = 32


class DeviceRan(NamedTuple):
    """The result of a launch."""

    #: see `kernels.Mark`
    marks: NDArray[np.int64]
    #: REFUSED, 1 or 0 for each instance; None where all completed
    status: NDArray[np.uint8] | None
    sums: list[int]


class DeviceRuns:
    """A program's loop over rows on a device, for one layout and one variant. Raises DeviceError RG1003."""

    def __init__(self, program: Program, where: Device, layout: BatchLayout, modes: dict[str, Any]) -> None:
        self.program, self.device, self.layout = program, where, layout
        self.longest = longest_stretch(program, modes["backward"])
        self._modes = modes
        #: threads of an instance -> the code; rows -> these threads
        self._codes: dict[int, BatchCode] = {}
        self._teams: dict[int, int] = {}
        self._tables: OrderedDict[bytes, Any] = OrderedDict()
        self._shared: NDArray[Any] = np.zeros(0, dtype=np.uint64)
        self._there: Any = None
        self._stream: Any = None

    def __call__(
        self,
        count: int,
        given: Sequence[GivenRows],
        kept: Sequence[KeptRows],
        shared: WordMatrix | None = None,
        counts: Sequence[int] = (0, 0, 0),
        limit: int | None = None,
    ) -> DeviceRan:
        """Run the program for each of `count` rows. The arrays of the rows are ready, and those of the results are when this returns.

        `shared`: the first words of memory; `counts`: addresses for steps, words lost and cycles, or 0. Raises
        DeviceError RG1004, RG1005.
        """
        most, layout, where = UNLIMITED if limit is None else min(limit, UNLIMITED), self.layout, self.device
        marks = np.zeros(Mark.LARGE + len(kept), dtype=np.int64)
        sums = np.zeros(2 * width(layout.summed), dtype=np.int64)
        if self.longest > most or not count:
            marks[Mark.FAILED] = count
            return DeviceRan(marks, np.ones(count, dtype=np.uint8) if count else None, exact_sums(sums))
        with on(where) as cuda:
            self._stream = self._stream or cuda.stream()
            n = self._send_shared(cuda, memory_of(self.program, layout, shared).shared)
            table = self._table(cuda, device_table(layout, n, given, kept, counts))
            code = self._code_for(count)
            kernel = code.kernel()
            team = code.team(kernel)
            grid, block = grid_of(kernel, BLOCK, count * team, adds=bool(len(sums)), team=team)
            size = grid * block * (n + 1 + kernel.behind) * kernel.word.itemsize
            memory, status = (device_memory.take(cuda, where, room) for room in (size, count))
            pinned = pinned_memory.take(cuda, where, marks.nbytes)
            held = pinned[: marks.nbytes].view(np.int64)
            held[:] = 0
            total = cuda.to_device(sums, self._stream) if len(sums) else status[:8].view(np.int64)
            arguments = [
                table, count, self._there, n, memory[:size].view(kernel.word), grid * block, most, status, total, held,
                *[team] * kernel.teams,
            ]  # fmt: skip
            kernel.launch(grid, block, arguments, self._stream)
            if len(sums):
                total.copy_to_host(sums, self._stream)
            self._stream.synchronize()
            marks[:] = held
            if code.is_undivided(marks):
                self._teams.clear()
            ended = status.copy_to_host()[:count] if marks[Mark.FAILED] else None
            for block_ in (memory, status):
                device_memory.keep(where, block_)
            pinned_memory.keep(where, pinned)
        return DeviceRan(marks, ended, exact_sums(sums))

    def _code_for(self, count: int) -> BatchCode:
        """The code for a number of rows."""
        team = self._teams.get(count)
        if team is None:
            team = threads_of_instance(self.program, self.device, self._modes, count)
            self._teams = {**dict(list(self._teams.items())[-_TABLES:]), count: team}
        if team not in self._codes:
            self._codes[team] = BatchCode(self.program, self.device, self._modes, 1 << 30, team=team)
        return self._codes[team]

    def _send_shared(self, cuda: Any, words: NDArray[Any]) -> int:
        """Copy the shared words where they have changed. Returns their number."""
        if self._there is None or not np.array_equal(words, self._shared):
            self._shared, self._there = words, cuda.to_device(words, self._stream)
        return len(words)

    def _table(self, cuda: Any, table: NDArray[np.int64]) -> Any:
        """The table on the device."""
        key = table.tobytes()
        found = self._tables.get(key)
        if found is None:
            found = self._tables[key] = cuda.to_device(table, self._stream)
            while len(self._tables) > _TABLES:
                self._tables.popitem(last=False)
        self._tables.move_to_end(key)
        return found


# -----------------------------------------------------------------------------
# Numbers of an array as words, and its words as numbers: a batch of runs that do nothing, each on one word.

_NOTHING = tuple(encode(Instruction(TABLE.by_name[name])) for name in ("start", "finish"))
_PLAIN: dict[str, Any] = {"backward": False, "overflow": True, "checks": True, "cycles": False, "core": "small"}
_converters: dict[tuple[Format, int], DeviceRuns] = {}


def convert(where: Device, w: Format, count: int, given: GivenRows, kept: KeptRows) -> NDArray[np.int64]:
    """kept[i] := given[i], as words or as numbers, for i < count. Returns the marks: see `Mark`."""
    key = w, where.index
    if key not in _converters:
        program = Program(_NOTHING, memory=1, format=w)
        _converters[key] = DeviceRuns(program, where, BatchLayout.first(1), _PLAIN)
    return _converters[key](count, [given], [kept]).marks


def words_at(array: Any) -> GivenRows:
    """The words of a device array, an element a row."""
    size = array.dtype.itemsize
    return GivenRows(address_of_array(array), size, size, size)
