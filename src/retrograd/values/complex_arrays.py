"""Arrays of complex numbers that keep the words of their parts.

A `ComplexArray` is a NumPy array of complex128s, with the arrays `re` and `im` of its parts as they were made from words. It prints,
compares and computes as its values do; slices and results of arithmetic are ordinary arrays. Trap: after a write in place the parts that
no longer round to the values are not used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.values.arrays import plain


class ComplexArray(np.ndarray[Any, np.dtype[np.complex128]]):
    """Complex numbers, and their parts."""

    re: NDArray[np.float64] | None = None
    im: NDArray[np.float64] | None = None

    def __array_finalize__(self, obj: Any) -> None:
        self.re = self.im = None

    def __reduce__(self) -> tuple[Any, ...]:
        held = parts_of(self)
        return (complex_array, held) if held is not None else (np.array, (self.view(np.ndarray),))

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """Arithmetic gives ordinary arrays."""
        given = [x.view(np.ndarray) if isinstance(x, ComplexArray) else x for x in inputs]
        if "out" in keywords:
            keywords["out"] = tuple(x.view(np.ndarray) if isinstance(x, ComplexArray) else x for x in keywords["out"])
        return getattr(ufunc, method)(*given, **keywords)


def complex_array(re: NDArray[np.float64], im: NDArray[np.float64]) -> ComplexArray:
    """The complex numbers of these parts."""
    values = np.empty(re.shape, dtype=np.complex128)
    values.real, values.imag = plain(re), plain(im)
    out = values.view(ComplexArray)
    out.re, out.im = re, im
    return out


def parts_of(array: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The parts of an array of complex numbers: the arrays that it was made from, where it still holds their numbers."""
    if array.dtype.kind != "c":
        return None
    values = array.view(np.ndarray)
    re, im = (array.re, array.im) if isinstance(array, ComplexArray) else (None, None)
    if re is None or im is None or re.shape != values.shape:
        return values.real, values.imag
    kept = np.array_equal(plain(re), values.real) and np.array_equal(plain(im), values.imag)
    return (re, im) if kept else (values.real, values.imag)
