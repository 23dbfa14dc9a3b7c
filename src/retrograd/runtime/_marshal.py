"""Numbers that lose their bits on the way to words, noted where they are converted, and reported once a call.

    |word/2^F − number| > |number| · 2^(−W/4)        more than half of the bits are lost: see `Format.keeps`

`Options.precision` chooses the kind of report: a PrecisionWarning, an error (RG0607), or nothing. Numbers with a word of their own, integers
and lognums lose nothing: a lognum has the same relative error for every number, which is a property of the format.

Cost: for a number of Python's one comparison; for a long array of positive numbers or zeros its least element, for others a second pass.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
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
from retrograd.isa.diagnostics import Diagnostic, InputError, PrecisionWarning
from retrograd.isa.words import Format, brief, holding, nearest_point
from retrograd.runtime._arrays import (
    WordArray,
    as_array,
    complex_array,
    host_array,
    is_foreign,
    parts_of,
    plain,
    real_of,
    reals_of,
    refuse_masked,
    remembered,
    types_within,
    word_of,
)
from retrograd.runtime._binding import described, fields_of, fixed, items_of, located, lognum, refuse_argument, shape_of

#: elements that are looked at together
_BLOCK = 1 << 15


class Loss(NamedTuple):
    """Numbers of one argument that lose more than half of their bits: the first, how many, and how many of them become 0."""

    name: str
    place: tuple[int, ...]
    value: float
    #: of the words of these numbers
    format: Format
    lost: int = 1
    zeros: int = 0


class Losses(list[Loss]):
    """The losses of one call. To make it costs no more than to make a list, since most calls have none."""

    #: the index of the first row of the arrays, where they are a part of others
    begin = 0

    def number(self, name: str, value: float, w: Format) -> None:
        """Note a number of Python's if it loses bits; of those whose word has a magnitude of `Format.few` or more none does."""
        scaled = math.ldexp(value, w.frac)
        word = round(scaled)
        # Exact, as numbers of so few digits are.
        if abs(word - scaled) * w.few > abs(scaled):
            self.append(Loss(name, (), value, w, 1, int(word == 0)))

    def array(self, name: str, array: NDArray[Any], w: Format) -> None:
        """Note the elements of an array of floats, which have words."""
        if array.dtype.kind != "f" or not array.size:
            return
        few = math.ldexp(w.few, -w.frac)
        if isinstance(array, WordArray):
            found = remembered(array, "fixed", w)
            array = plain(array) if found is None else np.where(found[1], 0.0, plain(array))
        # The ufuncs' own `reduce` takes half of the time of `min` for a short array.
        least = np.minimum.reduce(array, axis=None)
        if least >= few or (least == 0 and np.maximum.reduce(array, axis=None) == 0):
            return
        flat = array.reshape(-1)
        room = np.empty(min(_BLOCK, len(flat)), flat.dtype)
        for at in range(0, len(flat), _BLOCK):
            block = flat[at : at + _BLOCK]
            sizes = np.abs(block, out=room[: len(block)])
            if np.minimum.reduce(sizes) >= few:
                continue
            small = sizes < few
            if np.count_nonzero(small) == len(block) - np.count_nonzero(block):
                continue  # zeros only
            near = np.flatnonzero(small)
            values = block[near]
            scaled = np.ldexp(values.astype(np.result_type(values, np.float64), copy=False), w.frac)
            words = np.rint(scaled)
            lost = np.flatnonzero(np.abs(words - scaled) * w.few > np.abs(scaled))
            if len(lost):
                first = int(lost[0])
                index = [int(i) for i in np.unravel_index(at + int(near[first]), array.shape)] if array.ndim else []
                if index:
                    index[0] += self.begin
                zeros = int((words[lost] == 0).sum())
                self.append(Loss(name, tuple(index), float(values[first]), w, len(lost), zeros))

    def report(self, compiled: Compiled, what: str = "", format: Format | None = None) -> None:
        """Warn of the numbers, if there are any, or raise InputError RG0607.

        `what`: the kind of numbers, for messages; `format`: that of their words, if it is another one than the program's.
        """
        precision = compiled.options.precision
        if not self or precision == "ignore":
            return
        w, exponent = self[0].format, math.frexp(self[0].value)[1]
        message = self._message(w, what)
        remedy = _remedy(w, exponent) if w in (compiled.format, format) else _point_remedy(w, exponent)
        if precision == "error":
            parameter = re.split(r"[.\[]", self[0].name, maxsplit=1)[0]
            raise InputError(located(Diagnostic("RG0607", message, hint=remedy), compiled.function, parameter))
        warnings.warn(PrecisionWarning(f"{message}. {remedy}"), stacklevel=_level_of_caller())

    def _message(self, w: Format, what: str) -> str:
        first = self[0]
        place = f"{what}`{first.name}{list(first.place)}`" if first.place else f"{what}`{first.name}`"
        word = math.ldexp(round(math.ldexp(first.value, w.frac)), -w.frac)
        became = f"is {word:.6g} in {w}" + (f", a relative error of {abs(word / first.value - 1):.2g}" if word else "")
        count, zeros = sum(loss.lost for loss in self), sum(loss.zeros for loss in self)
        if count == 1:
            return f"{place} = {first.value:.6g} {became}"
        others = f", and {zeros} of them become{'s' * (zeros == 1)} 0" if zeros else ""
        return f"{count} numbers lose more than half of their bits{others}; the first is {place} = {first.value:.6g}, which {became}"


@lru_cache(maxsize=256)
def _remedy(w: Format, exponent: int) -> str:
    """The formats that keep half of the bits of a number of this size: see `Format.remedy`."""
    # 2^-0.5 is no sum of few powers of two, as most numbers.
    return f'{w.remedy(math.ldexp(0.7071067811865476, exponent))} Or let it be so, by precision="ignore".'


def _point_remedy(w: Format, exponent: int) -> str:
    """The binary points that keep half of the bits of a number of this size."""
    most = nearest_point(w.width - 1 - exponent, w.width)
    return f'Its parameter keeps them from `fixed[{w.width // 4 - exponent}]` to `fixed[{most}]`. Or let it be so, by precision="ignore".'


def _level_of_caller() -> int:
    """The `stacklevel` of the first frame that is not of Retrograd."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "retrograd":
        frame, level = frame.f_back, level + 1
    return level


# -----------------------------------------------------------------------------
# Python and NumPy values <-> words in memory, by the types of the language.
#
# from_words(t, to_words(t, value, w, name), w) = value,  rounded to the words of its type
# to_words(t, from_words(t, words, w), w, name) = words,  bit for bit

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
    if kind is not Kind.FIXED and kind.is_fixed:
        kind, w = Kind.FIXED, kind.numbers(w)
    match kind, value:
        case Kind.FIXED | Kind.LOGNUM, float():
            # A plain float has no word of its own.
            word = None if type(value) is float else word_of(value, "fixed" if kind is Kind.FIXED else "lognum", w)
            if word is not None:
                return word
            if kind is Kind.LOGNUM:
                return _lognum_word(float(value), w)
            # Scaling by a power of two is exact; round() takes ties to even, as np.rint does.
            scaled = float(value) * 2.0**w.frac
            if not math.isfinite(scaled):
                return None
            integer = round(scaled)
            if losses is not None and -w.few < integer < w.few and integer != scaled:
                losses.number(name, float(value), w)
        case Kind.BOOL, bool():
            return int(value)
        case Kind.FIXED, int() if not isinstance(value, bool):
            if not 0 <= w.frac < w.width:
                return None
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
        case ArrayType(StackType() as element, shape):
            stacks = items_of(value, len(shape))
            if shape_of(value, len(shape)) != shape or len(stacks) != t.size // element.size:
                refuse_argument(f"`{name}` is {described(value)}; its type is {t}")
            return _joined([word_array(element, stack, w, name, losses) for stack in stacks])
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
            if not isinstance(value, list | tuple) or len(value) > capacity:
                given = f"a list of {len(value)}" if isinstance(value, list | tuple) else described(value)
                refuse_argument(f"`{name}` is a list of up to {capacity} values, not {given}")
            out = np.zeros(t.size, dtype=np.uint64)
            out[0] = len(value)
            if len(value):
                out[1 : 1 + len(value) * element.size] = _stack_words(element, value, w, name, losses)
            return out
        case StaticType():
            return np.zeros(0, dtype=np.uint64)
    raise TypeError(t)


def _stack_words(
    element: ScalarType | StructType | StackType, values: Sequence[Any], w: Format, name: str, losses: Losses | None
) -> NDArray[np.uint64]:
    if isinstance(element, ScalarType):
        return _array_words(element.kind, _numbers(element.kind, values), w, name, losses)
    if is_complex(element) and _complex_parts(values) is not None:
        return word_array(ArrayType(element, (len(values),)), values, w, name, losses)
    return _joined([word_array(element, v, w, f"{name}[{i}]", losses) for i, v in enumerate(values)])


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
    uints = [found.integers[k] for k in found.uints]
    for k in found.uints:
        found.integers[k] = 0
    parts = zip((Kind.FIXED, Kind.INT), (found.numbers, found.integers), strict=True)
    words = _joined([_array_words(kind, _numbers(kind, part), w, name, losses) for kind, part in parts if part])
    if uints:
        places = np.array(found.uints) + len(found.numbers)
        words[places] = _array_words(Kind.UINT, _numbers(Kind.UINT, uints), w, name, losses)
    return words


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
    if kind is not Kind.FIXED and kind.is_fixed:
        try:
            return _array_words(Kind.FIXED, array, kind.numbers(w), name, losses)
        except InputError as error:
            raise _with_point(error, array, w) from None
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


def _with_point(error: InputError, array: np.ndarray[Any, Any], w: Format) -> InputError:
    """The error of a number that does not fit its parameter, with the finest point that holds all of them."""
    greatest = max((abs(float(x)) for x in array.ravel().tolist()), default=0.0) if error.code == "RG0601" else math.nan
    if not math.isfinite(greatest):
        return error
    finest = nearest_point(w.width - 1 - math.frexp(greatest)[1], w.width)
    return InputError(replace(error.diagnostics[0], hint=f"Its parameter holds it as `fixed[{finest}]`."))


def _at(array: np.ndarray[Any, Any], i: int) -> str:
    """The i-th element of an array, at the beginning of a message."""
    if array.ndim == 0:
        return ""
    return f"element {i if array.ndim == 1 else tuple(map(int, np.unravel_index(i, array.shape)))}: "


def _word_of_object(kind: Kind, value: Any, w: Format, at: str, name: str, losses: Losses | None) -> int:
    """The word of a number out of an array of objects. Raises InputError."""
    if not isinstance(value, bool | int | float | np.number) or isinstance(value, np.complexfloating | np.timedelta64):
        raise InputError(Diagnostic("RG0602", f"{at}{value!r:.40} is no number"))
    beyond = kind is Kind.FIXED and w.frac >= 0 and not -w.sign <= value < w.sign
    if isinstance(value, int) and (value.bit_length() > 1000 or beyond):
        raise InputError(Diagnostic("RG0601", f"{at}{brief(value)} does not fit {w}", hint=holding(value, w)))
    word = _word(kind, value, w, name, losses)
    if word is None:
        # An integer fits longdouble, or is rounded as a lognum anyway.
        one = np.array(float(value) if kind is Kind.LOGNUM else value)
        word = int(_array_words(kind, one, w, name, losses)[0])
    return word


# ---------------------------------------------------------------------- words to values


def from_words(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Any:
    """The value that words hold: floats, ints, bools, NumPy arrays, structs, lists for stacks.

    Floats and arrays keep their words if a float64 would round them: see `retrograd.runtime._arrays`.
    """
    match t:
        case ScalarType(kind):
            word = int(words[0])
            if kind is Kind.FIXED or kind.is_real:
                return real_of(word, "lognum" if kind is Kind.LOGNUM else "fixed", kind.numbers(w))
            return word != 0 if kind is Kind.BOOL else word if kind is Kind.UINT else w.signed(word)
        case ArrayType(ScalarType(kind), shape):
            return _array_of(kind, words, w).reshape(shape)
        case ArrayType(StructType(cls) as element, shape) if cls is ComplexNumber:
            pairs = np.asarray(words, dtype=np.uint64).reshape(-1, 2)
            re, im = (reals_of(pairs[:, k], "fixed", w).reshape(shape) for k in (0, 1))
            return complex_array(re, im)
        case ArrayType(StructType() | StackType() as element, shape):
            size = element.size
            out = np.empty(len(words) // size if size else 0, dtype=object)
            for i in range(len(out)):
                out[i] = from_words(element, words[i * size : (i + 1) * size], w)
            return out.reshape(shape).tolist() if isinstance(element, StackType) else out.reshape(shape)
        case FormType():
            return _form_value(t, words, w)
        case StructType(cls, fields):
            values, at = {}, 0
            for field, inner in fields:
                values[field] = from_words(inner, words[at : at + inner.size], w)
                at += inner.size
            return cls(**values)
        case StackType(element, _):
            count, size = max(0, w.signed(int(words[0]))), element.size
            if isinstance(element, ScalarType):
                return _array_of(element.kind, words[1 : 1 + count], w).tolist()
            found = words[1 : 1 + count * size]
            return [from_words(element, found[i : i + size], w) for i in range(0, len(found), size)]
        case StaticType(value):
            return value


def _form_value(t: FormType, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Any:
    """The list or the object; None where all words are zero, as before a result is there, and after it has been taken back."""
    if not any(words):
        return None
    numbers = [real_of(int(word), "fixed", w) for word in words[: t.count]]
    try:
        return t.structure.decoded(numbers, [w.signed(int(word)) for word in words[t.count :]], w.mask)
    except ValueError:
        message = f"the words of a result are no {t}"
        hint = "Forward, leave the result out. Backward, pass the result that the function gave for the same arguments in the same format."
        raise InputError(Diagnostic("RG0603", message, hint=hint)) from None


def _array_of(kind: Kind, words: Sequence[int] | NDArray[np.uint64], w: Format) -> np.ndarray[Any, Any]:
    array = np.asarray(words, dtype=np.uint64)
    if kind.is_fixed:
        return reals_of(array, "fixed", kind.numbers(w))
    if kind is Kind.LOGNUM:
        return reals_of(array, "lognum", w)
    if kind is Kind.BOOL:
        truths: NDArray[np.bool_] = array != 0
        return truths
    if kind is Kind.UINT:
        # The memory may be that of a later run, and the caller may write to the result.
        return array.copy() if array is words or array.base is not None else array
    sign = np.uint64(w.sign)
    signed: NDArray[np.int64] = ((array ^ sign) - sign).view(np.int64)
    return signed
