"""Arrays of other libraries as arrays of NumPy: PyTorch, JAX, and every library that lends arrays by DLPack.

    host_array(x)[i] == x[i],  exactly: numbers of bfloat16 and float8 are numbers of float32, too

Trap: a tensor of PyTorch that requires a gradient is refused, since the gradient would end at the call. `rg.to_torch(f)` continues it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import countOf
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format, FormatError, holding


def is_foreign(kind: type) -> bool:
    """Whether values of this type are arrays of another library."""
    return hasattr(kind, "__dlpack__") and not issubclass(kind, np.ndarray)


def is_lent_by_device(value: Any) -> bool:
    """Whether an object may be an array on a CUDA device.

    To look takes little time, since most arguments are of few types.
    """
    if isinstance(value, np.ndarray | np.generic | int | float | complex | list | tuple):
        return False
    # Of our own arrays the interface is not read, since that makes numbers of their words.
    own = hasattr(type(value), "__retrograd_device__")
    return own or hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack_device__")


def way_out(value: Any) -> str | None:
    """A hint: the argument to pass in place of an array of another library; None for other values."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad or torch._C._functorch.is_functorch_wrapped_tensor(value):
            return "`rg.to_torch(f)` is a function that Torch differentiates and maps; `x.detach()` is the tensor without its gradient."
    elif jax is not None and isinstance(value, jax.core.Tracer):
        return "`rg.to_jax(f)` is a function that JAX compiles, differentiates and maps."
    if not is_foreign(type(value)):
        return None
    if hasattr(value, "item"):
        return "Pass a NumPy array of its numbers, or `x.item()` for one number."
    return "Pass a NumPy array of its numbers, `numpy.from_dlpack(x)`."


def host_array(value: Any) -> NDArray[Any]:
    """np.asarray(value), of a type of NumPy's own. Raises InputError RG0603 for an array that its library does not lend, naming a way out."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad:
            message = "a tensor of Torch that requires a gradient, which would end at this call"
            raise InputError(Diagnostic("RG0603", message, hint=way_out(value)))
        return tensor_array(value)
    try:
        array = np.asarray(value)
        if array.dtype == object and is_foreign(type(value)):
            array = np.from_dlpack(value)
    except Exception as error:  # libraries raise exceptions of their own
        if not hasattr(value, "__array__") and not is_foreign(type(value)):
            raise
        raise _not_lent(value, error) from None
    return of_own_type(array)


def tensor_array(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor of Torch, without its gradient. Raises InputError RG0603 for tensors without numbers on the host, such as sparse ones."""
    torch = sys.modules["torch"]
    try:
        t = tensor.detach().cpu().resolve_conj().resolve_neg()
        if t.dtype is torch.complex32:
            t = t.to(torch.complex64)
        elif t.is_floating_point() and t.dtype not in (torch.float16, torch.float32, torch.float64):
            t = t.to(torch.float32)
        found: NDArray[Any] = t.numpy()
    except Exception as error:  # RuntimeError, TypeError and NotImplementedError, by layout and version
        raise _not_lent(tensor, error) from None
    return found


def of_own_type(array: NDArray[Any]) -> NDArray[Any]:
    """An array of bfloat16, float8 or int4, types that JAX adds to NumPy, as one of float32 or int32, which hold each of their numbers."""
    # NumPy's own types are 1, structured ones 0.
    if array.dtype.isbuiltin != 2:
        return array
    return array.astype(np.int32 if "int" in array.dtype.name else np.float32)


def _not_lent(value: Any, error: Exception) -> InputError:
    kind = type(value)
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    message = (
        f"an array of `{kind.__module__}.{kind.__qualname__}` that is not in the host's memory as numbers: {reason}"
    )
    return InputError(Diagnostic("RG0603", message, hint=way_out(value)))


# -----------------------------------------------------------------------------
# Arrays of words <-> arrays of real numbers, without memory of where a number came from.
#
#     fixed:   value = word / 2^F,  word in two's complement
#     lognum:  value = ±2^(log / 2^F),  the sign in the top bit of the word
#
# A float64 has 53 bits and a word may have 64, so words → numbers rounds. `retrograd.runtime._arrays` keeps the words beside the numbers.

#: the two kinds of words that stand for real numbers
RealKind = Literal["fixed", "lognum"]
Rounding = Literal["nearest", "floor"]
Words = NDArray[np.uint64]


def signed(words: ArrayLike, width: int) -> NDArray[np.int64]:
    """The low `width` bits as signed integers."""
    array: NDArray[Any] = np.asarray(words).astype(np.uint64, copy=False)
    if width == 64:
        return array.view(np.int64)
    up = np.uint64(64 - width)
    return (array << up).view(np.int64) >> np.int64(64 - width)


def nearest_reals(words: ArrayLike, kind: RealKind, format: Format) -> NDArray[np.float64]:
    """The float64s nearest to word / 2^F, or to ±2^(log / 2^F); beyond the range of floats an infinity or 0."""
    if kind == "fixed":
        reals: NDArray[np.float64] = signed(words, format.width) * np.float64(2.0**-format.frac)
        return reals
    array = np.asarray(words).astype(np.uint64)
    log = signed(array, format.width - 1).astype(np.float64) / 2.0**format.frac
    with np.errstate(over="ignore", under="ignore"):
        size = np.exp2(log)
    return np.where((array & np.uint64(format.sign)) != 0, -size, size)


# ---------------------------------------------------------------------- numbers to words


def fixed_words(reals: NDArray[Any], w: Format, rounding: Rounding = "nearest") -> Words:
    """round(value * 2^F), ties to even, or floored. Raises InputError RG0601, RG0602 naming the first element that has no word."""
    # Scaling by a power of two is exact, or overflows to an infinity that the range check finds.
    with np.errstate(over="ignore"):
        scaled = np.asarray(reals * reals.dtype.type(2.0**w.frac))
    (np.rint if rounding == "nearest" else np.floor)(scaled, out=scaled)
    low, high = -float(w.sign), float(w.sign)
    # Two passes instead of four: a NaN fails both comparisons.
    if scaled.size and not (
        np.minimum.reduce(scaled, axis=None) >= low and np.maximum.reduce(scaled, axis=None) < high
    ):
        at = _first(np.isnan(reals))
        if at is not None:
            raise fail("RG0602", "NaN is not a number", at)
        at = _first((scaled < low) | (scaled >= high))
        raise fail("RG0601", f"{reals[at]!s} does not fit {w}", at or (), holding(reals[at or ()], w))
    return _masked(scaled, low, high)


def lognum_words(reals: NDArray[Any], w: Format) -> Words:
    """The sign bit over round(log2|value| * 2^F).

    Raises InputError RG0601, RG0602, RG0411 naming the first element that has no word.
    """
    at = _first(np.isnan(reals))
    if at is not None:
        raise fail("RG0602", "NaN is not a number", at)
    at = _first(reals == 0)
    if at is not None:
        raise fail("RG0411", "zero has no lognum", at)
    scaled = np.rint(np.log2(np.abs(reals)) * 2.0**w.frac)
    high = float(w.sign // 2)
    at = _first((scaled < -high) | (scaled >= high))
    if at is not None:
        raise fail("RG0601", f"{reals[at]!s} does not fit a lognum of {w}", at)
    sign = np.where(reals < 0, np.uint64(w.sign), np.uint64(0))
    return _masked(scaled, -high, high) | sign


def integer_words(integers: NDArray[Any], w: Format) -> Words:
    """integer * 2^F, exactly, or rounded where F < 0. Raises InputError RG0601."""
    exact = 0 <= w.frac < w.width
    most = (w.sign - 1) >> w.frac if exact else int(w.times(w.sign - 1, -w.frac))
    # Compared as Python's integers, since NumPy has no type that holds both int64 and uint64.
    if integers.size and not (-most - 1 <= int(integers.min()) and int(integers.max()) <= most):
        outside = (integers > most) if int(integers.max()) > most else np.zeros(integers.shape, dtype=bool)
        if int(integers.min()) < -most - 1:
            outside = outside | (integers < -most - 1)
        at = _first(outside) or ()
        raise fail("RG0601", f"{integers[at]!s} does not fit {w}", at, holding(integers[at], w))
    if not exact:
        words = [w.wrap(round(w.times(n, w.frac))) for n in integers.ravel().tolist()]
        return np.array(words, dtype=np.uint64).reshape(integers.shape)
    return (integers.astype(np.int64) << np.int64(w.frac)).view(np.uint64) & np.uint64(w.mask)


def fail(code: str, message: str, index: tuple[int, ...], hint: str | None = None) -> InputError:
    """The error about one element of an array."""
    where = "" if not index else f"element {index[0] if len(index) == 1 else index}: "
    return InputError(Diagnostic(code, where + message, hint=hint))


def _first(wrong: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """The index of the first True."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.argwhere(wrong)[0])


def _masked(scaled: NDArray[np.float64], low: float, high: float) -> Words:
    """Integral floats in [low, high) as two's complement of high − low words."""
    words = scaled.astype(np.int64).view(np.uint64)
    mask = int(high) - int(low) - 1
    return words if mask == (1 << 64) - 1 else words & np.uint64(mask)


# -----------------------------------------------------------------------------
# Floats that keep the words they were made from.
#
# A float64 has 53 bits and a word may have 64. A number of a result is therefore a float that carries its word along:
#
#     to_words(to_reals(words)) == words,  bit for bit
#
# `WordFloat` is a float, `WordFloat64` a NumPy scalar; `retrograd.runtime._arrays` has the same for arrays. They print, compare and
# compute as their values do, and arithmetic gives ordinary floats, without words.

#: integers up to 2^53 are float64s
WHOLE = 1 << 53
#: logarithms up to this are those of floats that are not subnormal
_LOGS = 1022


class WordFloat(float):
    """A float that keeps the word it stands for: a result of a run that float64 alone cannot hold."""

    __slots__ = ("format", "kind", "word")
    format: Format
    kind: RealKind
    word: int

    def __new__(cls, value: float, word: int, kind: RealKind, format: Format) -> WordFloat:
        self = float.__new__(cls, value)
        self.word, self.kind, self.format = word, kind, format
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return WordFloat, (float(self), self.word, self.kind, self.format)

    def __copy__(self) -> WordFloat:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> WordFloat:
        return self


class WordFloat64(np.float64):
    """`WordFloat` as an element of an array: a np.float64."""

    format: Format
    kind: RealKind
    word: int

    def __new__(cls, value: float, word: int, kind: RealKind, format: Format) -> WordFloat64:
        self = super().__new__(cls, value)
        self.word, self.kind, self.format = word, kind, format
        return self

    def item(self, *args: Any) -> WordFloat:
        """The number as a float of Python's."""
        return WordFloat(float(self), self.word, self.kind, self.format)

    def tolist(self) -> WordFloat:
        """The number as a float of Python's."""
        return self.item()

    def __repr__(self) -> str:
        return repr(np.float64(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return WordFloat64, (float(self), self.word, self.kind, self.format)

    def __copy__(self) -> WordFloat64:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None) -> WordFloat64:
        return self


def real_of(word: int, kind: RealKind, format: Format) -> float:
    """The number that a word stands for; a WordFloat where a float64 has too few bits for it."""
    if kind == "fixed":
        integer = format.signed(word)
        value = math.ldexp(integer, -format.frac)
        if -WHOLE <= integer <= WHOLE or int(math.ldexp(value, format.frac)) == integer:
            return value
    else:
        half = format.sign >> 1
        log = (((word & (format.sign - 1)) ^ half) - half) / (1 << format.frac)
        if -_LOGS < log < _LOGS:
            value = float(np.exp2(log)) * (-1 if word & format.sign else 1)
        else:
            value = float(nearest_reals(np.array([word], dtype=np.uint64), kind, format)[0])
    return WordFloat(value, word, kind, format)


def word_of(value: Any, kind: RealKind, format: Format) -> int | None:
    """The word of a number, if it has one of this kind and format."""
    if type(value) is not WordFloat and type(value) is not WordFloat64:
        return None
    # Most formats are one object, and to compare two takes longer than all else here.
    same = value.format is format or value.format == format
    return value.word if same and value.kind == kind else None


# -----------------------------------------------------------------------------
# Arrays of floats that keep the words they were made from.
#
#     to_words(to_reals(words)) == words,  bit for bit
#
# A `WordArray` is a NumPy array of float64s with an array of words beside it. It prints, compares and computes as its values do.
# Only operations that move values (indexing, slices, copies, reshaping, concatenation, pickling, `np.savez`) keep the words.
# Arithmetic gives ordinary arrays, without words.
#
# Trap: an array can be written in place. A word counts only as long as it still rounds to the value beside it.

#: np.exp2 may differ in the last places between processors, and between an array and its slice
_ULPS = 4
#: suffixes of the names of an array's words and of their format in files: see `split_words`
WORDS, FORMAT = ".words", ".format"


def _agree(values: NDArray[np.float64], words: Words, kind: RealKind, format: Format) -> NDArray[np.bool_]:
    """Which words still round to the values beside them."""
    reals = nearest_reals(words, kind, format)
    same: NDArray[np.bool_] = reals == values
    if kind == "lognum" and not same.all():
        with np.errstate(invalid="ignore"):
            same |= np.abs(reals - values) <= _ULPS * np.spacing(np.abs(values))
    return same


def _exact(words: Words, kind: RealKind, format: Format) -> NDArray[np.bool_]:
    """Which words are exact as float64s, so that they need not be kept; of lognums none."""
    if kind == "lognum":
        return np.zeros(words.shape, dtype=np.bool_)
    # From the first bit that is set to the last are at most 53.
    size = np.abs(signed(words, format.width)).view(np.uint64)
    lowest = np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
    few: NDArray[np.bool_] = size // lowest < np.uint64(WHOLE)
    return few


class WordArray(np.ndarray[Any, np.dtype[np.float64]]):
    """An array of float64s with the words they stand for. See the head of the module."""

    # NumPy's results begin without words; operations that only move values add them below.
    _words: Words | None = None
    _kind: RealKind = "fixed"
    _format: Format = Format()

    def words(self, kind: RealKind, format: Format) -> Words | None:
        """The words beside the values, of the same shape, if they are of this kind and format.

        Trap: a value may have been overwritten since, so that its word does not round to it. `remembered` checks this.
        """
        return self._aligned() if self._kind == kind and self._format == format else None

    @property
    def origin(self) -> tuple[RealKind, Format] | None:
        """The kind and the format of the words; None without any."""
        return None if self._aligned() is None else (self._kind, self._format)

    def _aligned(self) -> Words | None:
        """The words in the shape of the values, which may have been changed in place."""
        words = self._words
        if words is None or words.shape == self.shape:
            return words
        return words.reshape(self.shape) if words.size == self.size else None

    def _joined(self, values: Any, words: Any) -> Any:
        """The result of an operation on the values, with its result on the words."""
        if isinstance(values, tuple | list):
            return type(values)(self._joined(v, x) for v, x in zip(values, words, strict=True))
        if isinstance(values, np.ndarray):
            if getattr(words, "dtype", None) != np.uint64 or values.dtype != np.float64 or words.shape != values.shape:
                return values
            return with_words(values, words, self._kind, self._format)
        if type(values) is np.float64 and isinstance(words, np.uint64):
            return _element(values, int(words), self._kind, self._format)
        return values

    # ------------------------------------------------------------------ elements

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        words = self._aligned()
        return found if words is None else self._joined(found, words[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        value = as_array(value)
        super().__setitem__(key, plain(value))
        words = self._aligned()
        if words is not None:
            own = value.words(self._kind, self._format) if isinstance(value, WordArray) else None
            words[key] = np.uint64(0) if own is None else own

    def item(self, *args: Any) -> Any:
        """One element as a number of Python's."""
        value, words = plain(self).item(*args), self._aligned()
        if words is None:
            return value
        found = _element(np.float64(value), words.item(*args), self._kind, self._format)
        return found.item()

    def tolist(self) -> Any:
        """The elements as numbers of Python's, in nested lists."""
        words = self._aligned()
        if words is None:
            return plain(self).tolist()
        kind, format = self._kind, self._format
        kept = _agree(plain(self), words, kind, format) & ~_exact(words, kind, format)
        out = np.empty(self.size, dtype=object)
        out[:] = [
            WordFloat(value, word, kind, format) if own else value
            for value, word, own in zip(plain(self).ravel().tolist(), words.ravel().tolist(), kept.ravel(), strict=True)
        ]
        return out.reshape(self.shape).tolist()

    # ------------------------------------------------------------------ copies

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (plain(self), self._aligned(), self._kind, self._format)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any] | None) -> Any:
        return self.copy()

    def astype(self, dtype: Any, *args: Any, **keywords: Any) -> Any:
        """The array as one of another type; as float64 it keeps its words."""
        found, words = plain(self).astype(dtype, *args, **keywords), self._aligned()
        return found if words is None else self._joined(found, words.copy())

    # ------------------------------------------------------------------ NumPy's functions

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **keywords: Any) -> Any:
        """Arithmetic is that of the values, and gives ordinary arrays."""
        if out is not None:
            keywords["out"] = tuple(plain(x) for x in out)
        found = getattr(ufunc, method)(*[plain(x) for x in inputs], **keywords)
        if out is None:
            return found
        return out[0] if len(out) == 1 else out

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Functions that move values about do so to the words, too; all others see the values."""
        if func in (np.save, np.savez, np.savez_compressed):
            return _saved(func, args, kwargs)
        values = func(*_each(plain, args), **_each(plain, kwargs))
        if func not in _MOVES or "out" in kwargs:
            return values
        return self._joined(values, func(*_each(self._as_words, args), **_each(self._as_words, kwargs)))

    def _as_words(self, x: Any) -> Any:
        """The words of an argument that holds values; 0 for values without any: the word 0 is right, or seen to be wrong."""
        if isinstance(x, WordArray):
            words = x.words(self._kind, self._format)
            return np.zeros(x.shape, dtype=np.uint64) if words is None else words
        if isinstance(x, float):
            return np.uint64(word_of(x, self._kind, self._format) or 0)
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            return np.zeros(x.shape, dtype=np.uint64)
        return x

    def __repr__(self) -> str:
        return repr(plain(self))

    def __str__(self) -> str:
        return str(plain(self))


def _moved(name: str) -> Callable[..., Any]:
    """A method of arrays that only moves values about, done to the words, too."""
    plainly = getattr(np.ndarray, name)

    def method(self: WordArray, *args: Any, **keywords: Any) -> Any:
        found, words = plainly(self, *args, **keywords), self._aligned()
        if words is None or "out" in keywords:
            return found
        return self._joined(found, plainly(words, *args, **keywords))

    method.__name__, method.__doc__ = name, plainly.__doc__
    return method


for _name in (
    "copy", "reshape", "ravel", "flatten", "transpose", "swapaxes", "squeeze", "diagonal", "take", "repeat", "compress",
):  # fmt: skip
    setattr(WordArray, _name, _moved(_name))
WordArray.T = property(lambda self: self.transpose())  # type: ignore[assignment,method-assign]
WordArray.mT = property(lambda self: self.swapaxes(-1, -2))  # type: ignore[assignment,method-assign]

_MOVES = frozenset({
    np.append, np.array_split, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.block, np.broadcast_arrays, np.broadcast_to,
    np.column_stack, np.compress, np.concatenate, np.copy, np.delete, np.diagonal, np.dsplit, np.dstack, np.expand_dims,
    np.extract, np.flip, np.fliplr, np.flipud, np.hsplit, np.hstack, np.insert, np.matrix_transpose, np.moveaxis, np.ravel, np.repeat,
    np.reshape, np.roll, np.rollaxis, np.rot90, np.split, np.squeeze, np.stack, np.swapaxes, np.take,
    np.take_along_axis, np.tile, np.transpose, np.vsplit, np.vstack, np.where,
})  # fmt: skip


def plain(x: Any) -> Any:
    """A WordArray as an ordinary array on the same memory; anything else as it is."""
    return x.view(np.ndarray) if isinstance(x, WordArray) else x


def _each(f: Callable[[Any], Any], x: Any) -> Any:
    """The arguments of a function, and those inside lists and tuples, through f."""
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*[_each(f, v) for v in x])
    if isinstance(x, list | tuple):
        return type(x)(_each(f, v) for v in x)
    if isinstance(x, dict):
        return {name: _each(f, v) for name, v in x.items()}
    return f(x)


def _element(value: np.float64, word: int, kind: RealKind, format: Format) -> np.float64:
    """The element of an array; with its word, if that rounds to it."""
    found = real_of(word, kind, format)
    if type(found) is not WordFloat:
        return value
    same = found == value or (kind == "lognum" and abs(found - value) <= _ULPS * math.ulp(value))
    return WordFloat64(value, word, kind, format) if same else value


def _restored(values: NDArray[np.float64], words: Words | None, kind: RealKind, format: Format) -> Any:
    return values if words is None else with_words(values, words, kind, format)


def with_words(values: NDArray[np.float64], words: Words, kind: RealKind, format: Format) -> WordArray:
    """The array with words, one for each element. Neither is copied."""
    out = values.view(WordArray)
    out._words, out._kind, out._format = words, kind, format
    return out


def reals_of(words: ArrayLike, kind: RealKind, format: Format) -> NDArray[np.float64]:
    """The numbers that words stand for; a WordArray where float64s have too few bits for them."""
    array = np.asarray(words).astype(np.uint64, copy=False)
    reals = nearest_reals(array, kind, format)
    if kind == "fixed":
        if format.width <= 53:
            return reals
        integers = signed(array, format.width)
        if not integers.size or (integers.max() <= WHOLE and integers.min() >= -WHOLE):
            return reals
    # The words are copied: the given ones may be part of a machine's memory.
    return with_words(np.asarray(reals), np.asarray(array & np.uint64(format.mask)), kind, format)


def remembered(array: NDArray[Any], kind: RealKind, format: Format) -> tuple[Words, NDArray[np.bool_]] | None:
    """(the words of an array, which of them still round to their values), if it has any of this kind and format."""
    words = array.words(kind, format) if isinstance(array, WordArray) else None
    if words is None or array.dtype != np.float64:
        return None
    return words, _agree(plain(array), words, kind, format)


# ---------------------------------------------------------------------- values that are given


class Ragged(InputError, ValueError):
    """RG0603: a list whose rows differ in length, so that it is no array. A ValueError, too."""


def as_array(value: Any, exact: bool = True) -> NDArray[Any]:
    """np.asarray(value) that keeps words: those of a WordArray, and of numbers and arrays in lists and tuples.

    Raises InputError RG0603 for an array of which elements are masked or that another library does not lend, Ragged for rows of different lengths; with `exact` RG0606 for a
    list with an integer that NumPy would round, since it makes floats of integers beside floats.
    """
    if isinstance(value, np.ndarray):
        if type(value) is np.ndarray or isinstance(value, WordArray):
            return value
        refuse_masked(value)
    if not isinstance(value, list | tuple):
        if isinstance(value, WordFloat | WordFloat64):
            return with_words(np.asarray(value), np.array(value.word, dtype=np.uint64), value.kind, value.format)
        return host_array(value)
    plain_type = _one_type(value)
    # Equal to np.asarray, in less time.
    if plain_type is float:
        return np.fromiter(value, np.float64, len(value))
    if plain_type is int:
        with suppress(OverflowError):
            return np.fromiter(value, np.int64, len(value))
    types = types_within(value)
    if any(issubclass(t, np.ma.MaskedArray) for t in types):
        refuse_masked(value)
    if any(map(is_foreign, types)):
        value = _on_host(value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise Ragged(
            Diagnostic("RG0603", "a list has rows of different lengths", hint="Make them equally long.")
        ) from None
    integers = all(issubclass(t, int | np.integer | list | tuple) for t in types)
    if array.dtype.kind == "f" and array.size and integers and array.min() >= 0:
        # NumPy makes floats of integers of 64 bits beside smaller ones. Beside a number below zero they have no common type.
        return np.asarray(np.asarray(value, dtype=object), dtype=np.uint64)
    if exact and array.dtype.kind in "fc":
        _refuse_rounded(value, array, types)
    if array.dtype == np.float64 and not types.isdisjoint(_CARRIERS):
        found = _first_origin(value)
        if found is not None:
            words = np.zeros(array.shape, dtype=np.uint64)
            _gather(value, words, *found)
            return with_words(array, words, *found)
    return array


def _on_host(values: Sequence[Any]) -> list[Any]:
    """A list in which the arrays of other libraries are NumPy's."""
    return [_on_host(v) if isinstance(v, list | tuple) else host_array(v) if is_foreign(type(v)) else v for v in values]


def types_within(values: Sequence[Any]) -> set[type]:
    """The types of the items of a list or tuple, and of those in the lists and tuples in it."""
    types = set(map(type, values))
    if types.isdisjoint({list, tuple}):
        return types
    inner = (v for v in values if isinstance(v, list | tuple))
    return types.union(*((one,) if (one := _one_type(v)) is not None else types_within(v) for v in inner))


def refuse_masked(value: Any) -> None:
    """Raise InputError RG0603 for an array of which elements are masked, and for a list that holds one."""
    if isinstance(value, list | tuple):
        for one in value:
            refuse_masked(one)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        at = np.argwhere(np.ma.getmaskarray(value))[0].tolist()
        where = "" if not at else f": element {at[0] if len(at) == 1 else tuple(at)} is masked"
        hint = "Fill it with `.filled(value)`, or leave the masked elements out with `.compressed()`."
        raise InputError(Diagnostic("RG0603", f"a masked array has elements without a value{where}", hint=hint))


def _refuse_rounded(values: Sequence[Any], array: NDArray[Any], types: set[type]) -> None:
    """Raise InputError RG0606 where a number of a list is another one in the array of floats that NumPy makes of it.

    These are integers beside floats, and beside complex numbers also floats with a word. Integers alone become floats where they have no word.
    """
    parts, is_complex = ((array.real, array.imag), True) if array.dtype.kind == "c" else ((array,), False)
    rounded = (int, np.integer, np.ndarray, WordFloat, WordFloat64) if is_complex else (int, np.integer, np.ndarray)
    if not any(issubclass(t, rounded) for t in types) or all(
        issubclass(t, int | np.integer | list | tuple) for t in types
    ):
        return
    # A longdouble holds all words.
    if parts[0].dtype.itemsize > 8 or (
        not is_complex and not (array.size and (array.max() >= WHOLE or array.min() <= -WHOLE))
    ):
        return
    for index, number in _numbers(values):
        if isinstance(number, int | np.integer):
            other = int(float(number)) != int(number)
        else:
            other = is_complex and isinstance(number, WordFloat | WordFloat64)
        if other:
            shown = index[0] if len(index) == 1 else index
            hint = "Write integers alone, which are exact, or the rounded number itself as a float."
            if is_complex:
                hint = "Give a struct of `re` and `im` in its place, or the rounded number itself as a float."
            kinds = "complex numbers" if is_complex else "floats"
            raise InputError(
                Diagnostic("RG0606", f"element {shown}: NumPy rounds {number!s} beside {kinds}", hint=hint)
            )


def _numbers(values: Any, index: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The numbers of a nested list, with their indices; of arrays in it those of integers."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        values = values.tolist()
    if isinstance(values, list | tuple):
        for i, v in enumerate(values):
            yield from _numbers(v, (*index, i))
    else:
        yield index, values


def _one_type(values: Sequence[Any]) -> type[float] | type[int] | None:
    """float or int, where all values of a list are of this type, as of most lists."""
    kind: Any = type(values[0]) if values else None
    return kind if (kind is float or kind is int) and countOf(map(type, values), kind) == len(values) else None


_CARRIERS = frozenset({WordFloat, WordFloat64, WordArray})


def _first_origin(values: Sequence[Any]) -> tuple[RealKind, Format] | None:
    """The kind and format of the first number with a word among the values."""
    for v in values:
        found = None
        if isinstance(v, WordFloat | WordFloat64):
            found = v.kind, v.format
        elif isinstance(v, WordArray):
            found = v.origin
        elif isinstance(v, list | tuple):
            found = _first_origin(v)
        if found is not None:
            return found
    return None


def _gather(values: Sequence[Any], words: Words, kind: RealKind, format: Format) -> None:
    """Write the words of the values at their places."""
    for i, v in enumerate(values):
        if isinstance(v, WordFloat | WordFloat64):
            words[i] = word_of(v, kind, format) or 0
        elif isinstance(v, list | tuple):
            _gather(v, words[i], kind, format)
        elif isinstance(v, WordArray):
            own = v.words(kind, format)
            if own is not None:
                words[i] = own


# ---------------------------------------------------------------------- files


def needed_words(value: Any) -> tuple[Any, RealKind, Format] | None:
    """(the words, their kind and format) of an array from whose values they could not be had again."""
    if not isinstance(value, WordArray) or value.origin is None:
        return None
    kind, format = value.origin
    found = remembered(value, kind, format)
    if found is None:
        return None
    words, valid = found
    try:
        convert = fixed_words if kind == "fixed" else lognum_words
        if (convert(plain(value), format) == words)[valid].all():
            return None
    except InputError:
        pass  # a value that has no word by itself
    return words, kind, format


def split_words(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, and where float64s would round them their words and format, under the names x.words and x.format."""
    out: dict[str, Any] = {}
    for name, value in arrays.items():
        array = as_array(value)
        out[name] = plain(array)
        needed = needed_words(array)
        if needed is not None:
            words, kind, format = needed
            out[name + WORDS], out[name + FORMAT] = words, np.array(f"{kind} {format}")
    return out


def _saved(save: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """np.savez with words as further members; np.save where nothing is lost by it. Raises InputError RG0606."""
    if save is not np.save:
        file, *positional = args
        named = {f"arr_{i}": value for i, value in enumerate(positional)}
        option = {name: value for name, value in keywords.items() if name == "allow_pickle"}
        arrays = {name: value for name, value in keywords.items() if name not in option}
        return save(file, **split_words({**named, **arrays}), **option)
    bound = dict(zip(("file", "arr"), args, strict=False)) | keywords
    if needed_words(as_array(bound["arr"])) is not None:
        hint = (
            "Save it with `np.savez`, which writes the words too, or give `np.asarray(x)` to save the rounded values."
        )
        raise InputError(Diagnostic("RG0606", "`np.save` would round the array to float64", hint=hint))
    bound["arr"] = plain(bound["arr"])
    return save(**bound)


# -----------------------------------------------------------------------------
# Arrays of complex numbers that keep the words of their parts.
#
# A `ComplexArray` is a NumPy array of complex128s, with the arrays `re` and `im` of its parts as they were made from words. It prints,
# compares and computes as its values do; slices and results of arithmetic are ordinary arrays. Trap: after a write in place the parts that
# no longer round to the values are not used.


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


# -----------------------------------------------------------------------------
# Arrays in `.npz` files with the words that float64s cannot hold.
#
#     x           the values, float64, for every reader
#     x.words     their words, uint64, of the same shape; only where the values alone would not give them back
#     x.format    how to read these: "fixed Q32.32" or "lognum Q32.32"
#
# `split_words` makes the second and third member, `join_words` takes them away again: join_words(split_words(arrays)) is arrays.
# As in memory, a word counts only as long as it still rounds to the value beside it.

__all__ = ["FORMAT", "WORDS", "join_words", "needs_words", "split_words"]


def needs_words(value: Any) -> bool:
    """Whether a value of the language holds numbers whose words would be lost if they were plain floats."""
    if isinstance(value, WordFloat | WordFloat64 | WordArray):
        return needed_words(as_array(value)) is not None
    if isinstance(value, list | tuple):
        return any(map(needs_words, value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(needs_words, value.ravel().tolist()))
    return hasattr(value, "__retrograd_fields__") and any(
        needs_words(getattr(value, name)) for name in value.__retrograd_fields__
    )


def join_words(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays with their words, as they were before `split_words`; `arrays` may be an archive opened by `np.load`. Raises InputError RG0504."""
    out = dict(arrays)
    for name in list(out):
        if name + WORDS not in out or name + FORMAT not in out:
            continue
        words, format = out.pop(name + WORDS), out.pop(name + FORMAT)
        out[name] = _joined(name, np.asarray(out[name]), np.asarray(words), np.asarray(format))
    return out


def _joined(name: str, values: Any, words: Any, format: Any) -> WordArray:
    text = str(format[()]) if format.ndim == 0 and format.dtype.kind == "U" else ""
    named, _, written = text.partition(" ")
    kinds: dict[str, RealKind] = {"fixed": "fixed", "lognum": "lognum"}
    kind = kinds.get(named)
    try:
        found = Format.of_numbers(written)
    except FormatError:
        found = None
    if found is None or kind is None:
        raise _fail(f"`{name}{FORMAT}` is no format of words", 'It is a text such as "fixed Q32.32".')
    if words.dtype != np.uint64 or values.dtype != np.float64 or words.shape != values.shape:
        message = f"`{name}{WORDS}` is an array of {words.dtype} and shape {words.shape}"
        raise _fail(message, f"The words of `{name}` are one uint64 for each of its float64s, of shape {values.shape}.")
    if words.size and int(words.max()) > found.mask:
        raise _fail(f"`{name}{WORDS}` holds {int(words.max())}, more than {found.width} bits", None)
    return with_words(values, words, kind, found)


def _fail(message: str, hint: str | None) -> InputError:
    return InputError(Diagnostic("RG0504", message, hint=hint))
