"""The number types of the machine, for Python and NumPy: real numbers <-> words.

`fixed` and `lognum` name the types; their functions convert whole arrays and say which element is at fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Q32_32, Format, format_of
from retrograd.values.exact import RealKind, as_array, plain, reals_of, remembered

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Rounding = Literal["nearest", "floor"]


def _fail(code: str, what: str, index: tuple[int, ...]) -> InputError:
    where = "" if not index else f"element {index[0] if len(index) == 1 else index}: "
    return InputError(Diagnostic(code, where + what))


def _reals(array: NDArray[Any]) -> NDArray[Any]:
    """The array's values as floats: float64s, or longer ones as they are."""
    array = plain(array)
    if array.dtype.kind not in "iufb":
        raise _fail("RG0602", f"{array.dtype} is no type of real numbers", ())
    longer = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array if longer else array.astype(np.float64, copy=False)


def _by_memory(
    array: NDArray[Any],
    kind: RealKind,
    format: Format,
    convert: Callable[[NDArray[Any]], NDArray[np.uint64]],
    blank: float,
) -> NDArray[np.uint64]:
    """The words that an array remembers where they still round to its values, and of all other elements what `convert` makes of them."""
    found = remembered(array, kind, format)
    if found is None:
        return convert(_reals(array))
    words, valid = found
    if valid.all():
        return words.copy()
    # `convert` has words for `blank`, which stands where it need not look.
    return np.where(valid, words, convert(np.where(valid, blank, plain(array))))


def _first(wrong: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The index of the first True."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def _words(scaled: NDArray[np.float64], low: float, high: float) -> NDArray[np.uint64]:
    """Integral floats in [low, high) as two's complement, masked to the width that `high` tells."""
    words = scaled.astype(np.int64).view(np.uint64)
    mask = int(high) - int(low) - 1
    return words if mask == (1 << 64) - 1 else words & np.uint64(mask)


class _NumberType(type):
    """So that `fixed(0)` within reversible functions passes the checks of editors."""

    def __call__(cls, value: Any = 0) -> Any:
        name = cls.__name__
        message = f"{name}(…) is part of the language: it is compiled within @reversible functions"
        raise InputError(
            Diagnostic("RG0602", message, hint=f"numbers of Python's own are converted by {name}.to_words")
        )


class _Declared:
    """What type checkers need to know of numbers and arrays in reversible functions; Python executes none of it."""

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

    #: what the compiler knows the type by
    retrograd_kind = "fixed"

    @staticmethod
    def to_words(
        values: ArrayLike, format: Format | str = Q32_32, rounding: Rounding = "nearest"
    ) -> NDArray[np.uint64]:
        """round(value * 2^F), ties to even, or floored; an array of the same shape. Integers are exact.

        to_words(to_reals(words)) == words: numbers that remember their word (see `retrograd.values.exact`) are that word.
        Raises InputError RG0601 naming the first element that does not fit, RG0602 for a NaN or another type.
        Trap: an ordinary float64 has 53 bits, and a word may have 64.
        """
        w, array = format_of(format), as_array(values)
        if array.dtype.kind in "iu":
            return _shifted(array, w)

        def convert(reals: NDArray[Any]) -> NDArray[np.uint64]:
            # Scaling by a power of two is exact, or overflows to an infinity that the range check finds.
            with np.errstate(over="ignore"):
                scaled = np.asarray(reals * reals.dtype.type(2.0**w.frac))
            (np.rint if rounding == "nearest" else np.floor)(scaled, out=scaled)
            low, high = -float(w.sign), float(w.sign)
            # Two passes, not four: a NaN is neither at least one nor less than the other.
            if scaled.size and not (scaled.min() >= low and scaled.max() < high):
                at = _first(np.isnan(reals))
                if at is not None:
                    raise _fail("RG0602", "NaN is not a number", at)
                at = _first((scaled < low) | (scaled >= high))
                raise _fail("RG0601", f"{reals[at]!s} does not fit {w}", at or ())
            return _words(scaled, low, high)

        return _by_memory(array, "fixed", w, convert, 0.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """word / 2^F, as near as a float64 comes; an array that remembers its words where that is not exact."""
        return reals_of(words, "fixed", format_of(format))


def _shifted(integers: NDArray[Any], format: Format) -> NDArray[np.uint64]:
    """integer * 2^F, exactly. Raises InputError RG0601."""
    most = (format.sign - 1) >> format.frac
    # Of either sign: compared as Python's integers, since NumPy has no type that holds both int64 and uint64.
    if integers.size and not (-most - 1 <= int(integers.min()) and int(integers.max()) <= most):
        outside = (integers > most) if int(integers.max()) > most else np.zeros(integers.shape, dtype=bool)
        if int(integers.min()) < -most - 1:
            outside = outside | (integers < -most - 1)
        at = _first(outside) or ()
        raise _fail("RG0601", f"{integers[at]!s} does not fit {format}", at)
    return (integers.astype(np.int64) << np.int64(format.frac)).view(np.uint64) & np.uint64(format.mask)


class lognum(_Declared, metaclass=_NumberType):
    """value = ±2^(log / 2^F): the sign in the top bit, log2|value| below it. Zero has no lognum."""

    retrograd_kind = "lognum"

    @staticmethod
    def to_words(values: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.uint64]:
        """The sign bit over round(log2|value| * 2^F), for an array of the same shape.

        to_words(to_reals(words)) == words, even where the float is 0 or an infinity: such numbers remember their word.
        Raises InputError RG0601 naming the first element whose logarithm does not fit (infinities among them),
        RG0411 for a zero, RG0602 for a NaN or another type.
        """

        w = format_of(format)

        def convert(reals: NDArray[Any]) -> NDArray[np.uint64]:
            at = _first(np.isnan(reals))
            if at is not None:
                raise _fail("RG0602", "NaN is not a number", at)
            at = _first(reals == 0)
            if at is not None:
                raise _fail("RG0411", "zero has no lognum", at)
            scaled = np.rint(np.log2(np.abs(reals)) * 2.0**w.frac)
            high = float(w.sign // 2)
            at = _first((scaled < -high) | (scaled >= high))
            if at is not None:
                raise _fail("RG0601", f"{reals[at]!s} does not fit a lognum of {w}", at)
            sign = np.where(reals < 0, np.uint64(w.sign), np.uint64(0))
            return _words(scaled, -high, high) | sign

        return _by_memory(as_array(values), "lognum", w, convert, 1.0)

    @staticmethod
    def to_reals(words: ArrayLike, format: Format | str = Q32_32) -> NDArray[np.float64]:
        """±2^(log / 2^F), as near as a float64 comes, beyond its range an infinity or 0; an array that remembers its words."""
        return reals_of(words, "lognum", format_of(format))
