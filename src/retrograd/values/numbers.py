"""The number types of the machine, for Python and NumPy: real numbers <-> words.

`fixed`, `lognum` and `uint` name the types. Functions of the first two convert whole arrays; errors name the element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.values.arrays import as_array, plain, reals_of, remembered
from retrograd.values.conversions import RealKind, Rounding, fail, fixed_words, integer_words, lognum_words

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _reals(array: NDArray[Any]) -> NDArray[Any]:
    """The array's values as floats: float64s, or longer ones as they are."""
    array = plain(array)
    if array.dtype.kind not in "iufb":
        raise fail("RG0602", f"{array.dtype} is no type of real numbers", ())
    longer = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array if longer else array.astype(np.float64, copy=False)


def _by_memory(
    array: NDArray[Any],
    kind: RealKind,
    format: Format,
    convert: Callable[[NDArray[Any]], NDArray[np.uint64]],
    blank: float,
) -> NDArray[np.uint64]:
    """The kept words of an array where they still round to its values, and the words of all other elements by `convert`."""
    found = remembered(array, kind, format)
    if found is None:
        return convert(_reals(array))
    words, valid = found
    if valid.all():
        return words.copy()
    # `blank` has a word, and stands for the elements that keep theirs.
    return np.where(valid, words, convert(np.where(valid, blank, plain(array))))


class _NumberType(type):
    """Makes `fixed(0)` a call for editors; only the compiler executes it."""

    def __call__(cls, value: Any = 0) -> Any:
        name = cls.__name__
        message = f"{name}(…) is part of the language: it is compiled within @reversible functions"
        hint = f"numbers of Python's own are converted by {name}.to_words"
        if cls is uint:
            hint = "outside, a uint is an int: write `x % 2**W` for words of W bits"
        raise InputError(Diagnostic("RG0602", message, hint=hint))


class _Declared:
    """Operators of numbers and arrays in reversible functions, declared for type checkers; Python executes none of them."""

    if TYPE_CHECKING:
        shape: tuple[int, ...]
        size: int
        ndim: int
        T: Any

        def __init__(self, value: Any = 0) -> None: ...
        def __add__(self, other: Any) -> Any: ...

        __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
        __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = __add__
        __iadd__ = __isub__ = __imul__ = __itruediv__ = __ixor__ = __add__

        def __lt__(self, other: Any) -> bool: ...
        def __le__(self, other: Any) -> bool: ...
        def __gt__(self, other: Any) -> bool: ...
        def __ge__(self, other: Any) -> bool: ...
        def __eq__(self, other: object) -> bool: ...
        def __ne__(self, other: object) -> bool: ...
        def __hash__(self) -> int: ...
        def __float__(self) -> float: ...
        def __neg__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...
        def __iter__(self) -> Any: ...
        def __len__(self) -> int: ...


class fixed(_Declared, metaclass=_NumberType):
    """value = word / 2^F, word in two's complement: `to_words` and `to_reals` are inverse."""

    #: the name of the type in the compiler
    retrograd_kind = "fixed"

    @staticmethod
    def to_words(
        values: ArrayLike, format: Format | str = Q32_32, rounding: Rounding = "nearest"
    ) -> NDArray[np.uint64]:
        """round(value * 2^F), ties to even, or floored; an array of the same shape. Integers are exact.

        to_words(to_reals(words)) == words: numbers with a word (see `retrograd.values.exact`) are that word.
        Raises InputError RG0601 naming the first element that does not fit, RG0602 for a NaN or another type.
        Trap: an ordinary float64 has 53 bits, and a word may have 64.
        """
        w, array = format_of(format), as_array(values)
        if array.dtype.kind in "iu":
            return integer_words(array, w)

        return _by_memory(array, "fixed", w, lambda reals: fixed_words(reals, w, rounding), 0.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """word / 2^F, as near as a float64 comes; an array with its words where that is not exact."""
        return reals_of(as_array(words), "fixed", format_of(format))


class uint(_Declared, metaclass=_NumberType):
    """value = word, an integer of 0 … 2^W − 1: arithmetic is mod 2^W, and comparisons, `>>`, `//` and `%` are unsigned.

    Outside of reversible functions a uint is an int, and an array of them one of np.uint64.
    """

    retrograd_kind = "uint"


class lognum(_Declared, metaclass=_NumberType):
    """value = ±2^(log / 2^F): the sign in the top bit, log2|value| below it. Zero has no lognum."""

    retrograd_kind = "lognum"

    @staticmethod
    def to_words(values: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.uint64]:
        """The sign bit over round(log2|value| * 2^F), for an array of the same shape.

        to_words(to_reals(words)) == words, even where the float is 0 or an infinity: such numbers keep their word.
        Raises InputError RG0601 naming the first element whose logarithm does not fit (infinities among them),
        RG0411 for a zero, RG0602 for a NaN or another type.
        """

        w = format_of(format)

        return _by_memory(as_array(values), "lognum", w, lambda reals: lognum_words(reals, w), 1.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """±2^(log / 2^F), as near as a float64 comes, beyond its range an infinity or 0; an array with its words."""
        return reals_of(as_array(words), "lognum", format_of(format))
