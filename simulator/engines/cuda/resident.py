"""Batches whose words are on the device, and stay there: arrays of PyTorch, CuPy, JAX and others, without a copy.

    batch = ResidentBatch(program, device, columns)
    ran = batch(rows, out)                               out[i] := the kept words of memory, after the run on rows[i]

The kernel is loaded once, for any number of calls. Words are those of the program: a fixed-point number x is the integer
x·2^F (`retrograd.fixed`), in integers as wide as the format, signed or not. Arrays of results are device arrays of Numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from retrograd.isa.program import Program
from retrograd.simulator.engines.batch.compiled_loops import longest_stretch
from retrograd.simulator.engines.batch.cpu import WordMatrix, memory_of
from retrograd.simulator.engines.batch.instance_loop import REPORT
from retrograd.simulator.engines.batch.layout import BatchLayout, exact_sums, width
from retrograd.simulator.engines.cuda.batch import BLOCK, grid_of
from retrograd.simulator.engines.cuda.batch_code import BatchCode
from retrograd.simulator.engines.cuda.borrowed_arrays import borrowed, refuse_array
from retrograd.simulator.engines.cuda.runtime import Device, on
from retrograd.simulator.engines.state.control_block import UNLIMITED
from retrograd.simulator.engines.state.words import DTYPES
from retrograd.simulator.stores import limit_of


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
            self._table, self._shared = cuda.to_device(columns.table(self._n)), cuda.to_device(memory.shared)
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
        report = np.zeros(max(1, count) * REPORT, dtype=np.int64)
        status = np.ones(max(1, count), dtype=np.uint8)
        sums = np.zeros(max(1, 2 * width(columns.summed)), dtype=np.int64)
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
                told, ended, total = (cuda.to_device(array, queue) for array in (report, status, sums))
                flat, target = (_flat(array, self._dtype, cuda) for array in (given, kept))
                arguments = [
                    flat, target, count, self._table, self._shared, self._n, memory, grid * block, most, told, ended, total,
                ]  # fmt: skip
                kernel.launch(grid, block, arguments, queue)
                for array, held in ((told, report), (ended, status), (total, sums)):
                    array.copy_to_host(held, queue)
                queue.synchronize()
        steps, lost, cycles = report[: count * REPORT].reshape(count, REPORT).T.copy()
        taken = cycles if self._counted else None
        added = exact_sums(sums[: 2 * width(columns.summed)])
        return DeviceRowResults(kept, steps, lost, np.flatnonzero(status[:count]), added, taken)


def _flat(array: Any, dtype: np.dtype[Any], cuda: Any) -> Any:
    """The array's words in one row, as unsigned integers; a word where it has none."""
    return array.view(dtype).reshape(-1) if array.size else cuda.device_array(1, dtype)


def _check_shape(name: str, array: Any, columns: int, rows: int | None = None) -> None:
    """Raise ArrayError unless it is a matrix of these columns and rows."""
    if array.ndim != 2 or array.shape[1] != columns or rows not in (None, array.shape[0]):
        wanted = f"{'any number of' if rows is None else rows} rows of {columns} words"
        refuse_array(name, f"has shape {array.shape}; wanted are {wanted}")
