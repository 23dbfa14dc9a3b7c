"""Arrays in `.npz` files with the words that float64s cannot hold.

    x           the values, float64, for every reader
    x.words     their words, uint64, of the same shape; only where the values alone would not give them back
    x.format    how to read these: "fixed Q32.32" or "lognum Q32.32"

`split_words` makes the second and third member, `join_words` takes them away again: join_words(split_words(arrays)) is arrays.
As in memory, a word counts only as long as it still rounds to the value beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format, FormatError
from retrograd.values.arrays import FORMAT, WORDS, WordArray, as_array, needed_words, split_words, with_words
from retrograd.values.conversions import RealKind
from retrograd.values.exact import WordFloat, WordFloat64

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
        found = Format.named(written)
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
