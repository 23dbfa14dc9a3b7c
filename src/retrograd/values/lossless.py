"""Arrays in `.npz` files with the words that float64s cannot hold.

    x           the values, float64, for every reader
    x.words     their words, uint64, of the same shape; only where the values alone would not give them back
    x.format    how to read these: "fixed Q32.32" or "lognum Q32.32"

`split_words` makes the second and third member, `join_words` takes them away again: join_words(split_words(arrays)) is arrays.
As in memory, a word counts only as long as it still rounds to the value beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.values.exact import RealKind, WordArray, WordFloat, WordFloat64, as_array, plain, remembered, with_words
from retrograd.values.numbers import fixed, lognum

WORDS, FORMAT = ".words", ".format"
_NUMBERS: dict[RealKind, Any] = {"fixed": fixed, "lognum": lognum}


def _needed(value: Any) -> tuple[Any, RealKind, Format] | None:
    """(the words, their kind and format) of an array from whose values they could not be had again."""
    if not isinstance(value, WordArray) or value.origin is None:
        return None
    kind, format = value.origin
    found = remembered(value, kind, format)
    if found is None:
        return None
    words, valid = found
    try:
        if (_NUMBERS[kind].to_words(plain(value), format) == words)[valid].all():
            return None
    except InputError:
        pass  # a value that has no word by itself
    return words, kind, format


def needs_words(value: Any) -> bool:
    """Whether a value of the language has numbers in it that would not give their words back if they were plain floats."""
    if isinstance(value, WordFloat | WordFloat64 | WordArray):
        return _needed(as_array(value)) is not None
    if isinstance(value, list | tuple):
        return any(map(needs_words, value))
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(needs_words, value.ravel().tolist()))
    return hasattr(value, "__retrograd_fields__") and any(
        needs_words(getattr(value, name)) for name in value.__retrograd_fields__
    )


def split_words(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, and beside those that need them their words and their format, under names of their own."""
    out: dict[str, Any] = {}
    for name, value in arrays.items():
        array = as_array(value)
        out[name] = plain(array)
        needed = _needed(array)
        if needed is not None:
            words, kind, format = needed
            out[name + WORDS], out[name + FORMAT] = words, np.array(f"{kind} {format}")
    return out


def join_words(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays with their words, as `split_words` had them; of what `np.load` opens, too. Raises InputError RG0504."""
    out = dict(arrays)
    for name in list(out):
        if name + WORDS not in out or name + FORMAT not in out:
            continue
        words, format = out.pop(name + WORDS), out.pop(name + FORMAT)
        out[name] = _joined(name, np.asarray(out[name]), np.asarray(words), np.asarray(format))
    return out


def _joined(name: str, values: Any, words: Any, format: Any) -> WordArray:
    kind, _, written = str(format[()]).partition(" ") if format.ndim == 0 and format.dtype.kind == "U" else ("", "", "")
    try:
        found = Format.named(written)
    except ValueError:
        found = None
    if found is None or kind not in _NUMBERS:
        raise _fail(f"`{name}{FORMAT}` is no format of words", 'It is a text such as "fixed Q32.32".')
    if words.dtype != np.uint64 or values.dtype != np.float64 or words.shape != values.shape:
        message = f"`{name}{WORDS}` is an array of {words.dtype} and shape {words.shape}"
        raise _fail(message, f"The words of `{name}` are one uint64 for each of its float64s, of shape {values.shape}.")
    if words.size and int(words.max()) > found.mask:
        raise _fail(f"`{name}{WORDS}` holds {int(words.max())}, more than {found.width} bits", None)
    return with_words(values, words, kind, found)


def _fail(message: str, hint: str | None) -> InputError:
    return InputError(Diagnostic("RG0504", message, hint=hint))


def saving(save: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """np.savez with words as further members; np.save where nothing is lost by it. Raises InputError RG0606."""
    if save is not np.save:
        file, *positional = args
        named = {f"arr_{i}": value for i, value in enumerate(positional)}
        option = {name: value for name, value in keywords.items() if name == "allow_pickle"}
        arrays = {name: value for name, value in keywords.items() if name not in option}
        return save(file, **split_words({**named, **arrays}), **option)
    bound = dict(zip(("file", "arr"), args, strict=False)) | keywords
    if _needed(as_array(bound["arr"])) is not None:
        hint = (
            "Save it with `np.savez`, which writes the words too, or give `np.asarray(x)` to save the rounded values."
        )
        raise InputError(Diagnostic("RG0606", "`np.save` would round the array to float64", hint=hint))
    bound["arr"] = plain(bound["arr"])
    return save(**bound)
