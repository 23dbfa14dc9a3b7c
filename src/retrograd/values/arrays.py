"""Arrays of floats that keep the words they were made from.

    to_words(to_reals(words)) == words,  bit for bit

A `WordArray` is a NumPy array of float64s with an array of words beside it. It prints, compares and computes as its values do.
Only operations that move values (indexing, slices, copies, reshaping, concatenation, pickling, `np.savez`) keep the words.
Arithmetic gives ordinary arrays, without words.

Trap: an array can be written in place. A word counts only as long as it still rounds to the value beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import countOf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.values.conversions import RealKind, Words, fixed_words, lognum_words, nearest_reals, signed
from retrograd.values.exact import WHOLE, WordFloat, WordFloat64, real_of, word_of
from retrograd.values.foreign import host_array, is_foreign

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
