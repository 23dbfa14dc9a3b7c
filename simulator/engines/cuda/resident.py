"""Batches whose words are on the device, and stay there: arrays of PyTorch, CuPy, JAX and others, without a copy.

    batch = ResidentBatch(program, context, columns)
    ran = batch(rows, out)                               out[i] := the kept words of memory, after the run on rows[i]

The module is loaded once, for any number of calls. Words are those of the program: a fixed-point number x is the integer
x·2^F (`retrograd.fixed`), in integers as wide as the format, signed or not.
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
from retrograd.simulator.engines.cuda.arrays import DeviceArray, device_array, refuse_array
from retrograd.simulator.engines.cuda.batch import BLOCK, blocks_of, launch_arguments, sent
from retrograd.simulator.engines.cuda.context import Context
from retrograd.simulator.engines.cuda.kernels import Module
from retrograd.simulator.engines.cuda.ptx import KERNEL, ptx
from retrograd.simulator.engines.state.control_block import UNLIMITED
from retrograd.simulator.engines.state.words import DTYPES
from retrograd.simulator.stores import limit_of


@dataclass(frozen=True)
class DeviceRowResults:
    """The result of a batch: its words on the device, counts and status here."""

    #: a row for each instance; an instance that failed keeps its former row
    out: DeviceArray
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
        context: Context,
        columns: BatchLayout,
        *,
        shared: WordMatrix | None = None,
        block: int = BLOCK,
        backward: bool = False,
        overflow: bool = True,
        checks: bool = True,
        cycles: bool = False,
    ) -> None:
        self.program, self.context, self.columns = program, context, columns
        modes = {"backward": backward, "overflow": overflow, "checks": checks, "cycles": cycles}
        self._counted = cycles
        self._longest = longest_stretch(program, backward)
        self._dtype = np.dtype(DTYPES[program.format.width])
        memory = memory_of(program, columns, shared)
        self._n = len(memory.shared)
        self._read = sent(context, columns.table(self._n)), sent(context, memory.shared)
        text = ptx(program, context.device.target, **modes)
        self._kernel = Module(context, text, name="the batch").kernel(KERNEL)
        self._block = blocks_of(self._kernel, block, adds=bool(columns.summed))
        places = max(1, self._kernel.blocks_per_multiprocessor(self._block)) * context.device.multiprocessors
        self._places = places * self._block

    def __call__(self, rows: Any, out: Any = None, *, limit: int | None = None) -> DeviceRowResults:
        """Run it for each row of an array of words on the device. `out` receives the kept words (default: a new array).

        It waits for queued work on both arrays, and returns when all instances have ended. `limit`: steps for each instance.
        Raises ArrayError RG1006 for arrays that cannot be used, DeviceError RG1004 and RG1005.
        """
        context, columns = self.context, self.columns
        words = [self._dtype, np.dtype(self._dtype.name.replace("uint", "int"))]
        given = device_array(rows, context, name="the array of rows", dtypes=words)
        _check_shape("the array of rows", given, width(columns.given))
        count = given.shape[0]
        shape = (count, width(columns.kept))
        if out is None:
            kept = DeviceArray.empty(shape, given.dtype, context)
            kept.buffer.fill(0)
        else:
            kept = device_array(out, context, name="the array of results", dtypes=words, writable=True)
            _check_shape("the array of results", kept, *shape[::-1])
        given_limit = limit_of(limit, "limit")
        most = UNLIMITED if given_limit is None else min(given_limit, UNLIMITED)
        report = np.zeros((count, REPORT), dtype=np.int64)
        status = np.ones(count, dtype=np.uint8)
        sums = np.zeros(2 * width(columns.summed), dtype=np.int64)
        if count and self._longest <= most:
            grid = max(1, min(-(-count // self._block), self._places // self._block))
            threads = grid * self._block
            with (
                context.allocate(threads * (self._n + 1) * self._dtype.itemsize) as memory,
                sent(context, report) as told,
                sent(context, status) as ended,
                sent(context, sums) as total,
                context.stream() as stream,
            ):
                arguments = launch_arguments(
                    given.buffer, kept.buffer, count, self._read, self._n, memory, threads, most, (told, ended, total)
                )
                self._kernel.launch(grid, self._block, arguments, stream)
                stream.synchronize()
                told.copy_to_host(report)
                ended.copy_to_host(status)
                if len(sums):
                    total.copy_to_host(sums)
        steps, lost, cycles = report.T.copy()
        taken = cycles if self._counted else None
        return DeviceRowResults(kept, steps, lost, np.flatnonzero(status), exact_sums(sums), taken)


def _check_shape(name: str, array: DeviceArray, columns: int, rows: int | None = None) -> None:
    """Raise ArrayError unless it is a matrix of these columns and rows."""
    if array.ndim != 2 or array.shape[1] != columns or rows not in (None, array.shape[0]):
        wanted = f"{'any number of' if rows is None else rows} rows of {columns} words"
        refuse_array(name, f"has shape {array.shape}; wanted are {wanted}")
