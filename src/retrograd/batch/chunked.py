"""Arrays in chunks as arguments of a batch: of Dask, of Zarr, or files of NumPy that are mapped into memory.

    ChunkedArray(source)[first:last] == np.asarray(source)[first:last],   and only these rows are read

Such an argument is read where its rows run, a task at a time, so a batch may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.distribution.executors import refuse
from retrograd.values.arrays import as_array


def is_chunked(value: Any) -> bool:
    """Whether the object is an array of which parts are read on request."""
    if isinstance(value, np.memmap):
        return value.ndim > 0
    return not isinstance(value, np.ndarray) and all(hasattr(value, name) for name in ("chunks", "shape", "dtype"))


class ChunkedArray:
    """The elements of a batched argument, along axis 0."""

    def __init__(self, source: Any, what: str) -> None:
        self._source = source
        self.shape: tuple[int, ...] = tuple(source.shape)
        if not self.shape or not all(isinstance(n, int) for n in self.shape):
            hint = "`compute_chunk_sizes()` of Dask finds the sizes."
            refuse("RG1509", f"{what} is an array in chunks of shape {self.shape}", hint)
        self.ndim = len(self.shape)
        self.dtype = np.dtype(source.dtype)

    @property
    def folder(self) -> Path | None:
        """The folder of a mapped file, or of an archive of Zarr; None for other arrays."""
        file = getattr(self._source, "filename", None)
        if file is not None:
            return Path(file).resolve().parent
        root = getattr(getattr(self._source, "store", None), "root", None)
        return None if root is None else Path(root).resolve()

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, at: int | slice) -> Any:
        """An element, or rows: an array of NumPy, a copy."""
        found = self._source[at]
        if hasattr(found, "compute"):
            found = found.compute()  # NumPy would make an ordinary array of masked chunks
        return np.array(as_array(found))[()]


class ChunkedRows:
    """The rows of a batched argument as a batch takes them: words, or real numbers.

    `make(first, last)` gives rows [first, last).
    """

    def __init__(self, count: int, make: Callable[[int, int], NDArray[Any]]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: slice) -> NDArray[Any]:
        """Rows in one piece."""
        first, last, _ = at.indices(self._count)
        return self._make(first, last)
