"""The arguments that are differentiated, and their cotangents as words and as Python values.

Derivatives belong to the numbers of an argument: the fixed numbers and lognums of a struct have theirs, and its ints and bools have 0
in their place. Inside, a cotangent is flat: one real number ∂L/∂word for each word of the argument, in the order of memory. For a lognum x
programs compute ∂L/∂ln|x|, and users see ∂L/∂x = ∂L/∂ln|x| / x.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
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
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.isa.diagnostics import Diagnostic, InputError, nearest
from retrograd.isa.words import Format
from retrograd.runtime._arrays import (
    Ragged,
    as_array,
    host_array,
    is_foreign,
    nearest_reals,
    plain,
    refuse_masked,
    signed,
)
from retrograd.runtime._binding import fields_of, fixed
from retrograd.runtime._execution import Request
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, NotDifferentiable, Reversible, oriented

Which = int | str | Sequence[int | str] | None
Reals = NDArray[np.float64]


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise NotDifferentiable RG0603."""
    raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))


# ---------------------------------------------------------------------- which arguments


def direction_of(f: Any) -> tuple[Reversible, bool]:
    """(the reversible function, whether f is its inverse). Raises NotDifferentiable for any other object."""
    return oriented(f, NotDifferentiable)


def differentiable(f: Any, engine: str, format: Format | str | None, precision: Precision | None = None) -> Request:
    """The request for runs of f and of its derivatives. Raises NotDifferentiable."""
    function, backward = direction_of(f)
    return Request(function, backward=backward, engine=engine, format=format, precision=precision)


def position(f: Any, which: Any) -> int:
    """The position of an argument given by position or name. Raises NotDifferentiable, listing the arguments."""
    function, _ = direction_of(f)
    names = [p.name for p in function.parameters]
    listed = f"its arguments are {', '.join(names)}" if names else "it takes no arguments"
    if isinstance(which, str):
        if which in names:
            return names.index(which)
        near = nearest(which, names)
        refuse(f"`{f.__name__}` has no argument {which!r}", f"{near}; {listed}" if near else listed)
    try:
        if isinstance(which, bool | np.bool_):
            raise TypeError
        i = operator.index(which)
    except TypeError:
        refuse(f"{which!r:.40} is neither the position nor the name of an argument of `{f.__name__}`", listed)
    if not -len(names) <= i < len(names):
        refuse(f"`{f.__name__}` has no argument {i}", listed)
    return i % len(names)


def loss_position(f: Any, loss: Any) -> int:
    """The position of the loss; of a functional function, the default 0 stands for its first result. Raises NotDifferentiable."""
    function, _ = direction_of(f)
    return position(f, function.first_result if isinstance(loss, int) and loss == 0 else loss)


def not_inputs(f: Any, differentiated: Collection[int]) -> Collection[int]:
    """The positions by which no derivative is taken unless they are named: `differentiated`, and all results of a functional function if it has one of them."""
    function, backward = direction_of(f)
    first = function.first_result
    if not first or backward or all(i < first for i in differentiated):
        return differentiated
    return {*differentiated, *range(first, len(function.parameters))}


def positions(f: Reversible | Inverse, argnums: Any) -> list[int] | None:
    """The positions that `argnums` names, in its order; None for all that have a derivative."""
    if argnums is None:
        return None
    several = argnums if isinstance(argnums, Sequence | np.ndarray) and not isinstance(argnums, str) else [argnums]
    chosen = [position(f, which) for which in several]
    for k, i in enumerate(chosen):
        if i in chosen[:k]:
            refuse(f"`{direction_of(f)[0].parameters[i].name}` of `{f.__name__}` is chosen twice", "choose it once")
    return chosen


def is_one(argnums: Any) -> bool:
    """Whether `argnums` names one argument by itself."""
    return argnums is not None and (isinstance(argnums, str) or not isinstance(argnums, Sequence | np.ndarray))


def without_derivative(t: Type) -> str | None:
    """Why no number of a value of this type has a derivative, in words; None where one has, and for a struct without numbers."""
    match t:
        case ScalarType(kind):
            return None if kind in (Kind.FIXED, Kind.LOGNUM) else kind.value
        case ArrayType(element):
            return without_derivative(element)
        case FormType(form=form):
            if form is None:
                return "a list or data class that is not there before the run"
            return None if t.structure.holds_numbers else "a value without fixed numbers"
        case StructType(_, fields):
            found = [without_derivative(inner) for _, inner in fields]
            return f"its field `{fields[0][0]}`, {found[0]}," if found and None not in found else None
        case StackType():
            return "a stack"
        case StaticType():
            return "a static value"


def need_derivative(f: Reversible | Inverse, name: str, t: Type) -> None:
    """Raise NotDifferentiable, naming argument and type, unless numbers of this type have derivatives."""
    found = without_derivative(t)
    if found is not None:
        refuse(f"`{name}` of `{f.__name__}` is {t}: {found} has no derivative", "choose arguments of fixed or lognum")


def need_scale(scale: Any, w: Format) -> int:
    """The scale as an integer for which 2^scale is a word. Raises NotDifferentiable."""
    highest = highest_scale(w)
    try:
        k = operator.index(scale)
    except TypeError:
        refuse(f"scale = {scale!r:.40}", f'an integer from {-w.frac} to {highest} in {w}, or "auto"')
    if not -w.frac <= k <= highest:
        refuse(f"scale = {k}", f'{-w.frac} to {highest} in {w}, or "auto"')
    return k


def highest_scale(w: Format) -> int:
    """The greatest k for which 2^k is a positive word."""
    return w.width - w.frac - 2


# ---------------------------------------------------------------------- words and reals


#: the kinds of words that have a derivative
REAL = frozenset((Kind.FIXED, Kind.LOGNUM))


def kinds(t: Type) -> list[Kind]:
    """The kind of each word of a type: of a stack, which has no derivative, INT."""
    match t:
        case ScalarType(kind):
            return [kind]
        case StackType() | StaticType():
            return [Kind.INT] * t.size
        case ArrayType(element, shape):
            return kinds(element) * int(np.prod(shape, dtype=int))
        case StructType(_, fields):
            return [kind for _, inner in fields for kind in kinds(inner)]


def _logs(t: Type) -> list[int]:
    """Which words are lognums."""
    if isinstance(t, ArrayType) and t.element == ScalarType(Kind.FIXED):
        return []
    return [i for i, kind in enumerate(kinds(t)) if kind is Kind.LOGNUM]


def all_fixed(t: Type) -> bool:
    """Whether a differentiable type has no lognums, so that all `sizes` are 1."""
    return not _logs(t)


def sizes(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Reals:
    """x where a word holds the lognum x, 1 where it is fixed: dx/d ln|x|, and dx/dx."""
    out = np.ones(len(words))
    logs = _logs(t)
    if logs:
        out[logs] = nearest_reals(np.array([words[i] for i in logs], dtype=np.uint64), "lognum", w)
    return out


def logarithms(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> tuple[Reals, Reals]:
    """(s, l) with s·2^l = x where a word holds the lognum x, (1, 0) where it is fixed: `sizes` beyond the range of floats."""
    signs, logs = np.ones(len(words)), np.zeros(len(words))
    places = _logs(t)
    if places:
        held = np.array([words[i] for i in places], dtype=np.uint64)
        signs[places] = np.where(held & np.uint64(w.sign), -1.0, 1.0)
        logs[places] = signed(held, w.width - 1) / 2.0**w.frac
    return signs, logs


def by_sizes(inside: Reals, of: Sequence[Any], by: Sequence[Reals]) -> Reals:
    """∂y/∂x = (y/x)·∂ln y/∂ln x for lognums; `of`, `by`: signs and logarithms of y and of each x, (1, 0) for fixed.

    The quotient is that of logarithms: it may have a float where y and x have none. Zero stays zero.
    """
    (sign, log), (signs, logs) = of, by
    with np.errstate(over="ignore", under="ignore"):
        quotient = sign * signs * np.exp2(log - logs)
        row: Reals = np.multiply(inside, quotient, out=np.zeros_like(inside), where=inside != 0)
    return row


def to_words(cotangent: Reals, size: Reals, scale: int, w: Format, name: str, what: str = "cotangent") -> list[int]:
    """Cotangents ∂L/∂x as the machine's words, 2^scale times as large. Raises InputError RG0601, RG0602 naming the argument.

    `what`: their name in messages; tangents and vectors are given in the same way.
    """
    # Zero stays zero even where x is beyond the range of floats.
    by_log = np.multiply(cotangent, size, out=np.zeros_like(cotangent), where=cotangent != 0)
    try:
        try:
            return [int(v) for v in fixed.to_words(by_log * 2.0**scale, w).ravel()]
        except InputError:
            # The message is of the number that is given, where that has no word.
            fixed.to_words(by_log, w)
            raise
    except InputError as error:
        d = error.diagnostics[0]
        raise InputError(Diagnostic(d.code, f"{what} of `{name}`: {d.message}", hint=d.hint)) from None


@cache
def _finer(w: Format, scale: int) -> Format:
    """The format with `scale` more places."""
    return Format(w.width, w.frac + scale)


def report_losses(compiled: Compiled, given: Iterable[tuple[Argument, Reals]], scale: int, what: str) -> None:
    """Report given derivatives, flat, that lose most of their bits at this scale, as in the format with that many more places. Raises InputError RG0607.

    `what`: their name in messages. Looked at are fixed numbers, arrays of these, and complex numbers.
    """
    if compiled.options.precision == "ignore":
        return
    losses, w = Losses(), _finer(compiled.format, scale)
    for a, flat in given:
        match a.type:
            case ScalarType(Kind.FIXED):
                losses.number(a.name, float(flat[0]), w)
            case ArrayType(ScalarType(Kind.FIXED), shape):
                losses.array(a.name, flat.reshape(shape), w)
            case _ if is_complex(a.type):
                losses.array(a.name, flat, w)
    losses.report(compiled, f"the {what} of ", w)


def from_words(
    words: Sequence[int] | NDArray[np.uint64], size: Reals | None, scale: int | NDArray[np.int64], w: Format
) -> Reals:
    """Words of cotangents as ∂L/∂x; 0 over a lognum too small for floats stays 0. `size`: None where all sizes are 1.

    `scale`: of all words, or of each.
    """
    reals = nearest_reals(np.array(words, dtype=np.uint64), "fixed", w) / 2.0**scale
    if size is None:
        return reals
    with np.errstate(divide="ignore", over="ignore"):
        return np.divide(reals, size, out=np.zeros_like(reals), where=reals != 0)


def from_integers(sums: Sequence[int], size: Reals, scale: int, w: Format) -> Reals:
    """As `from_words`, of sums of signed words, which may be longer than words: each is rounded once."""
    reals = np.array([total / (1 << (w.frac + scale)) for total in sums], dtype=np.float64)
    with np.errstate(divide="ignore", over="ignore"):
        return np.divide(reals, size, out=np.zeros_like(reals), where=reals != 0)


# ---------------------------------------------------------------------- reals and values


def shaped(t: Type, flat: Reals) -> Any:
    """Flat cotangents as a value of the argument's own form: number, array, struct, array of structs; 0 for parts without derivative."""
    match t:
        case ScalarType(kind):
            return float(flat[0]) if kind in REAL else 0
        case ArrayType(ScalarType(kind), shape):
            return flat.reshape(shape) if kind in REAL else np.zeros(shape, dtype=np.int64)
        case StackType():
            return []
        case StaticType():
            return 0
        case ArrayType(StructType(cls), shape) if cls is ComplexNumber:
            return (flat[0::2] + 1j * flat[1::2]).reshape(shape)
        case ArrayType(StructType() as element, shape):
            out = np.empty(int(np.prod(shape, dtype=int)), dtype=object)
            for i, part in enumerate(flat.reshape(len(out), element.size)):
                out[i] = shaped(element, part)
            return out.reshape(shape)
        case FormType(form=form):
            assert form is not None
            return t.structure.decoded([float(x) for x in flat[: t.count]], form)
        case StructType(cls, fields):
            found, at = {}, 0
            for name, inner in fields:
                found[name] = shaped(inner, flat[at : at + inner.size])
                at += inner.size
            return cls(**found)


def flattened(t: Type, value: Any, name: str, what: str = "cotangent", *, lenient: bool = False) -> Reals:
    """A cotangent given by the user, flat; None is zero. Raises NotDifferentiable naming the argument and both shapes.

    `what`: its name in messages. A part without derivative has 0, and with `lenient` any value, which counts as 0.
    """
    if value is None:
        return np.zeros(t.size)
    match t:
        case (
            StackType()
            | StaticType()
            | ScalarType(Kind.INT | Kind.UINT | Kind.BOOL)
            | ArrayType(ScalarType(Kind.INT | Kind.UINT | Kind.BOOL))
        ):
            if not lenient and not _is_zero(value):
                refuse(
                    f"`{name}` is {t}, which has no derivative, and its {what} is {value!r:.40}",
                    "leave it out, or give 0",
                )
            return np.zeros(t.size)
        case ScalarType():
            array = _numbers(value, name, t, what)
            if array.ndim:
                refuse(f"the {what} of `{name}` has shape {array.shape}, and `{name}` is one {t}, of shape ()")
            return array.reshape(1)
        case ArrayType(ScalarType(), shape):
            array = _numbers(value, name, t, what)
            if array.shape != shape:
                refuse(f"the {what} of `{name}` has shape {array.shape}, and `{name}` has shape {shape}")
            return array.ravel()
        case ArrayType(StructType() as element, shape):
            return _structs(element, shape, value, name, what, lenient)
        case FormType():
            return _of_form(t, value, name, what)
        case StructType(_, fields):
            given = value
            if is_complex(t) and isinstance(value, complex | np.complexfloating):
                return np.array([value.real, value.imag])
            if not isinstance(value, Mapping):
                value = fields_of(t, value)
            if value is None:
                refuse(
                    f"the {what} of `{name}` is {_kind(given)}, and `{name}` is {t}",
                    f"give a {t} or a mapping; its fields are {', '.join(name for name, _ in fields)}",
                )
            known = [field for field, _ in fields]
            for field in value:
                if field not in known:
                    near = nearest(str(field), known) or f"its fields are {', '.join(known)}"
                    refuse(f"`{name}`, a {t}, has no field {field!r:.40}", near)
            parts = [
                flattened(inner, value.get(field), part_name(name, t, field), what, lenient=lenient)
                for field, inner in fields
            ]
            return np.concatenate(parts) if parts else np.zeros(0)
    raise TypeError(t)


def _is_zero(value: Any) -> bool:
    """Whether a value stands for no derivative: 0, or an array or a list of zeros."""
    array = np.asarray(value)
    return array.dtype.kind in "biuf" and not array.any()


def _of_form(t: FormType, value: Any, name: str, what: str) -> Reals:
    """Cotangents of the numbers of a list or data class, given in its form; its ints and bools are ignored."""
    try:
        found = t.structure.encoded(value, name)
    except TypeError as error:
        refuse(f"the {what} of `{name}` is a {t}, and {error}")
    if len(found.numbers) != t.count or found.form != t.form:
        hint = "Lists have the lengths, and data classes the classes, of the value."
        refuse(f"the {what} of `{name}` has another form than its value", hint)
    return np.concatenate([np.array(found.numbers, dtype=np.float64), np.zeros(t.size - t.count)])


def _structs(element: StructType, shape: tuple[int, ...], value: Any, name: str, what: str, lenient: bool) -> Reals:
    try:
        refuse_masked(value)
        value = host_array(value) if is_foreign(type(value)) else value
    except InputError as error:
        refuse(f"the {what} of `{name}`: {error.diagnostics[0].message}", error.diagnostics[0].hint)
    array = value if isinstance(value, np.ndarray) else None
    if array is None:
        try:
            array = np.asarray(value, dtype=object)
        except ValueError:
            refuse(f"the {what} of `{name}` has rows of different lengths, and `{name}` has shape {shape}")
    if array.shape != shape:
        refuse(f"the {what} of `{name}` has shape {array.shape}, and `{name}` has shape {shape}")
    if is_complex(element) and array.dtype.kind == "c":
        return np.stack([array.real, array.imag], axis=-1).astype(np.float64).ravel()
    parts = []
    for i, item in enumerate(array.ravel().tolist()):
        index = i if array.ndim == 1 else ", ".join(map(str, np.unravel_index(i, shape)))
        parts.append(flattened(element, item, f"{name}[{index}]", what, lenient=lenient))
    return np.concatenate(parts) if parts else np.zeros(0)


def _numbers(value: Any, name: str, t: Type, what: str) -> Reals:
    try:
        array = as_array(value)
    except Ragged:
        refuse(f"the {what} of `{name}` has rows of different lengths, and `{name}` is {t}")
    except InputError as error:
        refuse(f"the {what} of `{name}`: {error.diagnostics[0].message}", error.diagnostics[0].hint)
    if array.dtype.kind not in "iufb":
        refuse(f"the {what} of `{name}` is {_kind(value)}, and `{name}` is {t}", f"{what}s are real numbers")
    return np.array(plain(array), dtype=np.float64)


def _kind(value: Any) -> str:
    name = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


# ---------------------------------------------------------------------- unit vectors

#: words of unit vectors that are made at a time
PIECE = 1 << 22
T = TypeVar("T")


def pieces(of: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The sequence, `size` elements at a time."""
    yield from (of[at : at + size] for at in range(0, len(of), size))
