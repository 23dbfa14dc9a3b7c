"""Python and NumPy values <-> words in memory, by the types of the language.

from_words(t, to_words(t, value, w, name), w) = value,  rounded to the words of its type
to_words(t, from_words(t, words, w), w, name) = words,  bit for bit
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    FIXED,
    ArrayType,
    ComplexNumber,
    ScalarType,
    StackType,
    StaticType,
    StructType,
    Type,
    is_complex,
    part_name,
)
from retrograd.compiler.language.values import FormType, Unfilled
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format, brief
from retrograd.values.arrays import as_array, reals_of, refuse_masked, types_within
from retrograd.values.binding import described, refuse_argument
from retrograd.values.complex_arrays import complex_array, parts_of
from retrograd.values.exact import real_of, word_of
from retrograd.values.foreign import host_array, is_foreign
from retrograd.values.numbers import fixed, lognum
from retrograd.values.precision import Losses
from retrograd.values.trees import fields_of

# ---------------------------------------------------------------------- values to words


def to_words(t: Type, value: Any, w: Format, name: str, losses: Losses | None = None) -> list[int]:
    """The words of a value: the words that it keeps, or else the nearest words.

    to_words(t, from_words(t, words, w), w, name) == words, bit for bit. `losses`: notes the numbers that lose most of their bits.
    Raises InputError RG0601, RG0602, RG0411 naming the argument and the element.
    """
    if isinstance(t, ScalarType):
        word = _word(t.kind, value, w, name, losses)
        if word is not None:
            return [word]
    words: list[int] = word_array(t, value, w, name, losses).tolist()
    return words


def _word(kind: Kind, value: Any, w: Format, name: str, losses: Losses | None) -> int | None:
    """The word of a number, without NumPy; None for a number of another type, or that does not fit."""
    match kind, value:
        case Kind.FIXED | Kind.LOGNUM, float():
            word = word_of(value, "fixed" if kind is Kind.FIXED else "lognum", w)
            if word is not None:
                return word
            if kind is Kind.LOGNUM:
                return _lognum_word(float(value), w)
            # Scaling by a power of two is exact; round() takes ties to even, as np.rint does.
            scaled = float(value) * (1 << w.frac)
            if not math.isfinite(scaled):
                return None
            integer = round(scaled)
            if losses is not None and -w.few < integer < w.few and integer != scaled:
                losses.number(name, float(value), w)
        case Kind.BOOL, bool():
            return int(value)
        case Kind.FIXED, int() if not isinstance(value, bool):
            integer = value << w.frac if -w.sign <= value < w.sign else w.sign
        case Kind.INT, int() if not isinstance(value, bool):
            integer = value
        case Kind.UINT, int() if not isinstance(value, bool):
            return value if 0 <= value <= w.mask else None
        case _:
            return None
    return integer & w.mask if -w.sign <= integer < w.sign else None


def _lognum_word(value: float, w: Format) -> int | None:
    """`lognum.to_words` of one number; None if `lognum.to_words` would raise an error."""
    if value == 0 or not math.isfinite(value):
        return None
    # NumPy's logarithm, not Python's: a number has the same word alone and in an array.
    log = round(float(np.log2(abs(value))) * (1 << w.frac))
    if not -(w.sign >> 1) <= log < w.sign >> 1:
        return None
    return log & (w.sign - 1) | (w.sign if value < 0 else 0)


def word_array(t: Type, value: Any, w: Format, name: str, losses: Losses | None = None) -> NDArray[np.uint64]:
    """`to_words` as an array."""
    try:
        return _to_words(t, value, w, name, losses)
    except InputError as error:
        d = error.diagnostics[0]
        if d.message.startswith("`"):
            raise
        raise InputError(Diagnostic(d.code, f"`{name}`: {d.message}", hint=d.hint)) from None


def _to_words(t: Type, value: Any, w: Format, name: str, losses: Losses | None) -> NDArray[np.uint64]:
    match t:
        case ScalarType(kind):
            return _array_words(kind, _of_shape(_numbers(kind, value), (), name), w, name, losses)
        case ArrayType(ScalarType(kind), shape):
            return _array_words(kind, _of_shape(_numbers(kind, value), shape, name), w, name, losses)
        case ArrayType(StructType() as element, shape):
            refuse_masked(value)
            value = host_array(value) if is_foreign(type(value)) else value
            if is_complex(element) and (parts := _complex_parts(value)) is not None:
                columns = [_array_words(Kind.FIXED, _of_shape(part, shape, name), w, name, losses) for part in parts]
                return np.stack(columns, axis=-1).ravel()
            items = _of_shape(np.asarray(value, dtype=object), shape, name)
            return _joined([word_array(element, item, w, name, losses) for item in items.ravel()])
        case FormType():
            return _form_words(t, value, w, name, losses)
        case StructType(cls, fields):
            if is_complex(t) and (numbers := _parts_of_number(value)) is not None:
                pairs = zip(numbers, fields, strict=True)
                words = [to_words(FIXED, part, w, part_name(name, t, field), losses)[0] for part, (field, _) in pairs]
                return np.array(words, dtype=np.uint64)
            held = vars(value) if isinstance(value, cls) else fields_of(t, value)
            if held is None:
                refuse_argument(f"`{name}` takes a {cls.__name__}, not {described(value)}")
            return _joined(
                [word_array(inner, held[field], w, part_name(name, t, field), losses) for field, inner in fields]
            )
        case StackType(element, capacity):
            out = np.zeros(1 + capacity, dtype=np.uint64)
            out[0] = len(value)
            if len(value):
                out[1 : 1 + len(value)] = _array_words(element.kind, _numbers(element.kind, value), w, name, losses)
            return out
        case StaticType():
            return np.zeros(0, dtype=np.uint64)
    raise TypeError(t)


def _parts_of_number(value: Any) -> tuple[Any, Any] | None:
    """The real and the imaginary part of a number, exactly; None for other values."""
    if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iufbc":
        refuse_masked(value)
        value = value[()]
    match value:
        case ComplexNumber():
            return value.re, value.im
        case complex() | np.complexfloating():
            return value.real, value.imag
        case bool() | int() | float() | np.number() | np.bool_():
            return value, 0.0
    return None


def _complex_parts(value: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The real and the imaginary parts of complex numbers, with the words that they keep; None for other values."""
    if isinstance(value, np.ndarray):
        return parts_of(value)
    if isinstance(value, list | tuple):
        try:
            array = np.asarray(value)
        except ValueError:
            return None
        # NumPy rounds integers, and drops the words of other numbers.
        if array.dtype.kind == "c" and types_within(value) <= _COMPLEX:
            return array.real, array.imag
    return None


def _form_words(t: FormType, value: Any, w: Format, name: str, losses: Losses | None) -> NDArray[np.uint64]:
    if isinstance(value, Unfilled):
        return np.zeros(t.size, dtype=np.uint64)
    found = t.structure.encoded(value, name)
    parts = zip((Kind.FIXED, Kind.INT), (found.numbers, found.integers), strict=True)
    return _joined([_array_words(kind, _numbers(kind, part), w, name, losses) for kind, part in parts if part])


def _numbers(kind: Kind, value: Any) -> NDArray[Any]:
    """The value as an array, with the words that it keeps; integers are objects if NumPy would convert them to floats."""
    array = as_array(value, exact=kind not in (Kind.INT, Kind.UINT))
    if array.dtype.kind in "mM":
        raise InputError(Diagnostic("RG0602", f"{array.dtype} is no type of numbers"))
    if kind in (Kind.INT, Kind.UINT) and array.dtype.kind == "f" and isinstance(value, list | tuple):
        array = np.asarray(value, dtype=object)
    return array


#: numbers that NumPy puts into an array of complex numbers as they are, and lists of them
_COMPLEX = frozenset({complex, float, np.complex128, np.float64, list, tuple})


def _of_shape(array: np.ndarray[Any, Any], shape: tuple[int, ...], name: str) -> np.ndarray[Any, Any]:
    """The array, of the declared shape; a field of a struct may hold any array, and must not overwrite its neighbours."""
    if array.shape != shape:
        refuse_argument(f"`{name}` is an array of shape {array.shape}; its type has shape {shape}")
    return array


def _joined(parts: list[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint64)


def _array_words(
    kind: Kind, array: np.ndarray[Any, Any], w: Format, name: str, losses: Losses | None
) -> NDArray[np.uint64]:
    if kind in (Kind.FIXED, Kind.LOGNUM) and array.dtype.kind == "O":
        objects = enumerate(array.ravel().tolist())
        words = [_word_of_object(kind, v, w, _at(array, i), name, losses) for i, v in objects]
        return np.array(words, dtype=np.uint64)
    if kind is Kind.FIXED:
        found = fixed.to_words(array, w).ravel()
        if losses is not None:
            losses.array(name, array, w)
        return found
    if kind is Kind.LOGNUM:
        return lognum.to_words(array, w).ravel()
    least, most = {Kind.BOOL: (0, 1), Kind.UINT: (0, w.mask)}.get(kind, (-w.sign, w.sign - 1))
    if array.dtype.kind in "iu" and _holds(array, least, most):
        whole = np.uint64 if array.dtype.kind == "u" else np.int64
        return array.ravel().astype(whole).view(np.uint64) & np.uint64(w.mask)
    if array.dtype.kind == "b":
        return array.ravel().astype(np.uint64)
    out: list[int] = []
    for i, v in enumerate(array.ravel().tolist()):
        at = _at(array, i)
        if isinstance(v, np.generic):
            # An item of longdouble is one again.
            v = int(v) if isinstance(v, np.longdouble) and v.is_integer() else v.item()  # noqa: PLW2901
        if not isinstance(v, bool | int | float):
            raise InputError(Diagnostic("RG0602", f"{at}{v!r:.40} is no number"))
        if kind is Kind.BOOL:
            if v not in (0, 1):
                raise InputError(Diagnostic("RG0602", f"{at}{v!r} is no bool"))
            out.append(int(v))
            continue
        if isinstance(v, float) and not v.is_integer():
            raise InputError(Diagnostic("RG0602", f"{at}{v!r} is no integer"))
        if not least <= int(v) <= most:
            raise _outside(kind, int(v), at, w)
        out.append(int(v) & w.mask)
    return np.array(out, dtype=np.uint64)


def _outside(kind: Kind, value: int, at: str, w: Format) -> InputError:
    """The error about an integer beyond the range of its type, with the type that has it, if there is one."""
    if kind is Kind.UINT:
        why = "is negative, and a uint is not" if value < 0 else f"does not fit in {w.width} bits"
        other = "declare the parameter an `int`" if value < 0 else "choose a format of more bits"
        way = f"Pass x % 2**{w.width}, its word mod 2^{w.width}; or {other}."
        return InputError(Diagnostic("RG0601", f"{at}{brief(value)} {why}", hint=way))
    hint = None
    if w.sign <= value <= w.mask:
        hint = f"An int has {-w.sign} … {w.sign - 1}: declare the parameter a `uint`, which has 0 … {w.mask}."
    return InputError(Diagnostic("RG0601", f"{at}{brief(value)} does not fit in {w.width} bits", hint=hint))


def _holds(array: np.ndarray[Any, Any], least: int, most: int) -> bool:
    """Whether all integers of the array are in the range."""
    of_type = np.iinfo(array.dtype)
    if least <= of_type.min and of_type.max <= most:
        return True
    return not array.size or (int(array.min()) >= least and int(array.max()) <= most)


def _at(array: np.ndarray[Any, Any], i: int) -> str:
    """The i-th element of an array, at the beginning of a message."""
    if array.ndim == 0:
        return ""
    return f"element {i if array.ndim == 1 else tuple(map(int, np.unravel_index(i, array.shape)))}: "


def _word_of_object(kind: Kind, value: Any, w: Format, at: str, name: str, losses: Losses | None) -> int:
    """The word of a number out of an array of objects. Raises InputError."""
    if not isinstance(value, bool | int | float | np.number) or isinstance(value, np.complexfloating):
        raise InputError(Diagnostic("RG0602", f"{at}{value!r:.40} is no number"))
    if isinstance(value, int) and (value.bit_length() > 1000 or (kind is Kind.FIXED and not -w.sign <= value < w.sign)):
        raise InputError(Diagnostic("RG0601", f"{at}{brief(value)} does not fit {w}"))
    word = _word(kind, value, w, name, losses)
    if word is None:
        # An integer fits longdouble, or is rounded as a lognum anyway.
        one = np.array(float(value) if kind is Kind.LOGNUM else value)
        word = int(_array_words(kind, one, w, name, losses)[0])
    return word


# ---------------------------------------------------------------------- words to values


def from_words(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Any:
    """The value that words hold: floats, ints, bools, NumPy arrays, structs, lists for stacks.

    Floats and arrays keep their words if a float64 would round them: see `retrograd.values.exact`.
    """
    match t:
        case ScalarType(kind):
            word = int(words[0])
            if kind is Kind.FIXED or kind is Kind.LOGNUM:
                return real_of(word, "fixed" if kind is Kind.FIXED else "lognum", w)
            return word != 0 if kind is Kind.BOOL else word if kind is Kind.UINT else w.signed(word)
        case ArrayType(ScalarType(kind), shape):
            return _array_of(kind, words, w).reshape(shape)
        case ArrayType(StructType(cls) as element, shape) if cls is ComplexNumber:
            pairs = np.asarray(words, dtype=np.uint64).reshape(-1, 2)
            re, im = (reals_of(pairs[:, k], "fixed", w).reshape(shape) for k in (0, 1))
            return complex_array(re, im)
        case ArrayType(StructType() as element, shape):
            size = element.size
            out = np.empty(len(words) // size if size else 0, dtype=object)
            for i in range(len(out)):
                out[i] = from_words(element, words[i * size : (i + 1) * size], w)
            return out.reshape(shape)
        case FormType():
            return _form_value(t, words, w)
        case StructType(cls, fields):
            values, at = {}, 0
            for field, inner in fields:
                values[field] = from_words(inner, words[at : at + inner.size], w)
                at += inner.size
            return cls(**values)
        case StackType(element, _):
            count = w.signed(int(words[0]))
            return _array_of(element.kind, words[1 : 1 + max(0, count)], w).tolist()
        case StaticType(value):
            return value


def _form_value(t: FormType, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Any:
    """The list or the object; None where all words are zero, as before a result is there, and after it has been taken back."""
    if not any(words):
        return None
    numbers = [real_of(int(word), "fixed", w) for word in words[: t.count]]
    try:
        return t.structure.decoded(numbers, [w.signed(int(word)) for word in words[t.count :]])
    except ValueError:
        message = f"the words of a result are no {t}"
        hint = "Forward, leave the result out. Backward, pass the result that the function gave for the same arguments in the same format."
        raise InputError(Diagnostic("RG0603", message, hint=hint)) from None


def _array_of(kind: Kind, words: Sequence[int] | NDArray[np.uint64], w: Format) -> np.ndarray[Any, Any]:
    array = np.asarray(words, dtype=np.uint64)
    if kind is Kind.FIXED:
        return reals_of(array, "fixed", w)
    if kind is Kind.LOGNUM:
        return reals_of(array, "lognum", w)
    if kind is Kind.BOOL:
        truths: NDArray[np.bool_] = array != 0
        return truths
    if kind is Kind.UINT:
        return array
    sign = np.uint64(w.sign)
    signed: NDArray[np.int64] = ((array ^ sign) - sign).view(np.int64)
    return signed
