"""The arguments that are differentiated, and their cotangents as words and as Python values.

Derivatives belong to the numbers of an argument: the fixed numbers and lognums of a struct have theirs, and its ints and bools have 0
in their place. Inside, a cotangent is flat: one real number ∂L/∂word for each word of the argument, in the order of memory. For a lognum x
programs compute ∂L/∂ln|x|, and users see ∂L/∂x = ∂L/∂ln|x| / x.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled, Precision
from retrograd.compiler.frontends.python.source import NOTHING
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    ArrayType,
    ComplexNumber,
    ScalarType,
    StackType,
    StaticType,
    StructType,
    Type,
    field_of_index,
    has_points,
    is_complex,
    keys_of,
    part_name,
    shown_fields,
)
from retrograd.compiler.language.values import FormType
from retrograd.compiler.pipeline import Argument
from retrograd.isa.diagnostics import Diagnostic, InputError, RetrogradError, nearest
from retrograd.isa.words import Format, nearest_point
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
from retrograd.runtime._execution import ArgumentPart, ProgramTrap, Request, Scale, Unexplained, Which
from retrograd.runtime._marshal import Losses
from retrograd.runtime._reversible import Inverse, Made, NotDifferentiable, Reversible, oriented

Reals = NDArray[np.float64]


def refuse(message: str, hint: str | None = None) -> NoReturn:
    """Raise NotDifferentiable RG0603."""
    raise NotDifferentiable(Diagnostic("RG0603", message, hint=hint))


# ---------------------------------------------------------------------- which arguments


def direction_of(f: Any) -> tuple[Reversible, bool]:
    """(the reversible function, whether f is its inverse). Raises NotDifferentiable for any other object."""
    return oriented(f, NotDifferentiable)


def differentiable(
    f: Any,
    scale: Scale = "auto",
    engine: str = "auto",
    format: Format | str | None = None,
    precision: Precision | None = None,
    argnums: Which = None,
    loss: Any = NOTHING,
    value: bool = False,
) -> Request:
    """The request for a derivative of f: see `Request`.

    `loss`: a position, a name or a part; NOTHING for derivatives of all results.

    Raises NotDifferentiable, also for arguments that f does not have.
    """
    function, backward = direction_of(f)
    argnums = deepcopy(argnums)  # the caller may change a list
    return Request(
        function, backward=backward, engine=engine, format=format, precision=precision,
        chosen=chosen_parts(f, argnums), argnums=argnums, loss=None if loss is NOTHING else loss_part(f, loss),
        scale=scale, value=value,
    )  # fmt: skip


def given_function(request: Request) -> Reversible | Inverse:
    """The function of a request as the caller gave it: the inverse, where that is differentiated."""
    assert isinstance(request.function, Reversible)
    return ~request.function if request.backward else request.function


def made_by(face: Callable[..., Any], request: Request, loss: Which) -> Made:
    """The call of the public function that makes the request again from a pickle; `loss`: the loss, or the outputs, as given."""
    precision = None if request.options is None else request.options.precision
    settings = {"scale": request.scale, "engine": request.engine, "format": request.format, "precision": precision}
    return face, (given_function(request), request.argnums, loss), settings


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
    """The positions of the parameters without a derivative by default: `differentiated`, and with one result of a functional function all of its results."""
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
            return None if kind.is_real else kind.value
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


def _of_kind(t: Type, wanted: Callable[[Kind], bool]) -> list[int]:
    """Which words are of a kind that is wanted."""
    if isinstance(t, ArrayType) and isinstance(t.element, ScalarType):
        return list(range(t.size)) if wanted(t.element.kind) else []
    return [i for i, kind in enumerate(kinds(t)) if wanted(kind)]


def _logs(t: Type) -> list[int]:
    """Which words are lognums."""
    return _of_kind(t, lambda kind: kind is Kind.LOGNUM)


def _exponents(t: Type, w: Format) -> tuple[list[int], list[int]]:
    """(which words are fixed numbers with a point p of their own, F − p of each): the cotangent of the word x·2^p is ∂L/∂x · 2^(F − p)."""
    places = _of_kind(t, lambda kind: kind.is_fixed and kind is not Kind.FIXED)
    every = kinds(t) if places else []
    return places, [w.frac - every[i].point(w) for i in places]


def all_fixed(t: Type) -> bool:
    """Whether all numbers of a differentiable type are `fixed`, without points of their own: all `sizes` are 1."""
    return not _of_kind(t, lambda kind: kind.is_real and kind is not Kind.FIXED)


def unit(t: Type, w: Format) -> float:
    """The `sizes` of a fixed number: 2^(F − p) for a point p of its own."""
    return 2.0 ** (w.frac - t.kind.point(w)) if isinstance(t, ScalarType) and t.kind.is_fixed else 1.0


def sizes(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> Reals:
    """dx/d ln|x| = x for a lognum, 1 for a fixed, dx/d(word/2^F) = 2^(F − p) for a fixed[p]."""
    out = np.ones(len(words))
    logs, (places, exponents) = _logs(t), _exponents(t, w)
    if logs:
        out[logs] = nearest_reals(np.array([words[i] for i in logs], dtype=np.uint64), "lognum", w)
    if places:
        out[places] = np.exp2(np.array(exponents, dtype=np.float64))
    return out


def logarithms(t: Type, words: Sequence[int] | NDArray[np.uint64], w: Format) -> tuple[Reals, Reals]:
    """(s, l) with s·2^l = x where a word holds the lognum x, (1, 0) where it is fixed: `sizes` beyond the range of floats."""
    signs, logs = np.ones(len(words)), np.zeros(len(words))
    own, exponents = _exponents(t, w)
    logs[own] = exponents
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


def _cotangents_of(kind: Kind, w: Format, scale: int) -> Format:
    """The format of the cotangents of fixed numbers of a point p: 2F − p places, and `scale` more."""
    point = 2 * w.frac - kind.point(w) + scale
    return w.at(nearest_point(point, w.width))


def _tangents_of(kind: Kind, w: Format, scale: int) -> Format:
    """The same of tangents: p places, and `scale` more."""
    return w.at(nearest_point(kind.point(w) + scale, w.width))


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
    words_of = _cotangents_of if what == "cotangent" else _tangents_of
    for a, flat in given:
        match a.type:
            case ScalarType(kind) if kind.is_fixed:
                losses.number(a.name, float(flat[0]), words_of(kind, compiled.format, scale))
            case ArrayType(ScalarType(kind), shape) if kind.is_fixed:
                losses.array(a.name, flat.reshape(shape), words_of(kind, compiled.format, scale))
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
            return float(flat[0]) if kind.is_real else 0
        case ArrayType(ScalarType(kind), shape):
            return flat.reshape(shape) if kind.is_real else np.zeros(shape, dtype=np.int64)
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


def shape_of(t: Type) -> tuple[int, ...]:
    """The shape of a value's numbers; a struct is one more axis, the last."""
    match t:
        case ArrayType(element, shape):
            return (*shape, *shape_of(element))
        case StructType():
            return (t.size,)
    return ()


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
            if is_complex(t) and isinstance(value, int | float | complex | np.number):
                return np.array([value.real, value.imag], np.float64)
            if not isinstance(value, Mapping):
                value = fields_of(t, value)
            if value is None:
                refuse(
                    f"the {what} of `{name}` is {_kind(given)}, and `{name}` is {t}",
                    f"give a {t} or a mapping; its fields are {shown_fields(t)}",
                )
            known, keys = [field for field, _ in fields], keys_of(t.cls)
            value = {keys.get(key, key): part for key, part in value.items()}
            for field in value:
                if field not in known:
                    near = nearest(str(field), known) or f"its fields are {shown_fields(t)}"
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


# -----------------------------------------------------------------------------
# The scale of cotangents: L̄ begins as 2^k, and derivatives are divided by 2^k.
#
#     "auto"  =  the greatest k of `automatic(w)` at which nothing overflows, or of `fine(w)` for arguments with points of their own
#
# A scale moves the last place of cotangents k places behind the last place of numbers. `"auto"` depends on the arguments alone: each
# attempt begins anew, so the result is the same on every engine, and after any other call.

#: the codes of a cotangent that outgrows its word, and of a given cotangent that has no word
OVERFLOW = ("RG0404", "RG0601")


@cache
def automatic(w: Format) -> tuple[int, ...]:
    """The scales of `"auto"`, from the greatest: 2s, s, 0, −s for s = (W − F)/4, and 0, −1, −2, −3 where s is 0. In Q32.32 16, 8, 0, −8.

    At 2s half of the bits before the point are left: cotangents are below 2^15 in Q32.32, and have 48 places. At 24 the
    gradients of the benchmarks are no better, except through 100 steps of planets. The last scale leaves three quarters
    of the places, or more.
    """
    s = (w.width - w.frac) // 4
    scales = (2 * s, s, 0, -s) if s else (0, -1, -2, -3)
    return tuple(dict.fromkeys(min(max(k, -(w.frac // 4)), highest_scale(w)) for k in scales))


@cache
def fine(w: Format) -> tuple[int, ...]:
    """The scales of `"auto"` where an argument has a binary point of its own: each third from the highest to −F.

    In Q32.32 30, 27, … −30. With points of their own the words of a program are nearly full, and those of its cotangents differ from
    that of the loss by the relative sensitivities. Where these are near 1 the first scales hold, and cotangents keep all but
    three of the bits that they can have. At 2s their errors are greater by up to 2^(2s), 10^4 in Q32.32.
    """
    return tuple(range(highest_scale(w), -w.frac - 1, -3))


def scales_of(scale: Scale, compiled: Compiled) -> tuple[int, ...]:
    """The scales to try, in their order: one, or those of `"auto"`. Raises NotDifferentiable for a scale that the format has not."""
    w = compiled.format
    if scale != "auto":
        return (need_scale(scale, w),)
    return fine(w) if any(has_points(a.type) for a in compiled.arguments) else automatic(w)


def at_scale(scales: Sequence[int], attempt: Callable[[int, bool], T]) -> T:
    """attempt(k, k is the last) for the first of the scales at which nothing overflows.

    Raises the error of the last attempt, or the first trap that is no overflow. An attempt that is not the last may raise Unexplained.
    """
    for k in scales:
        last = k == scales[-1]
        try:
            return attempt(k, last)
        except (Unexplained, ProgramTrap, InputError) as error:
            if last or not overflows(error):
                raise
    raise AssertionError("there is no scale to try")


def overflows(error: Exception) -> bool:
    """Whether a smaller scale may be free of the error."""
    return isinstance(error, Unexplained) or (isinstance(error, RetrogradError) and error.code in OVERFLOW)


# -----------------------------------------------------------------------------
# Parts of arguments by name: the loss `"a.x"`, the outputs `"y[1]"`.
#
#     part_of(f, arguments, part(f, "ps[2].x"))  =  the argument `ps[2].x`, of the part's own type, at its own address
#
# A path is an argument's name, then fields `.x` and indices `[1]`, `[-1]`, `[0, 2]`. Indices that are left out at the end leave an
# array: `m[0]` is the first row of a matrix.

_PATH = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*(?P<rest>[.\[].*)", re.DOTALL)
_STEP = re.compile(r"\s*(?:\.\s*(?P<field>[^\W\d]\w*)|\[(?P<index>\s*-?\d{1,18}\s*(?:,\s*-?\d{1,18}\s*)*)\])\s*")


def part_of(f: Any, arguments: Sequence[Argument], which: ArgumentPart) -> Argument:
    """The part as an argument of its own. Raises NotDifferentiable where the type has no such part."""
    a = arguments[which.position]
    for step in which.steps:
        a = _field(f, a, step) if isinstance(step, str) else _element(f, a, step)
    return a


def part(f: Any, which: Any) -> ArgumentPart:
    """The part of an argument that a position, a name or a path denotes. Raises NotDifferentiable."""
    found = _PATH.fullmatch(which) if isinstance(which, str) else None
    if found is None:
        variadic = direction_of(f)[0].variadic
        if variadic is not None and isinstance(which, int) and not isinstance(which, bool) and which >= variadic:
            # A position counts the arguments of the call.
            return ArgumentPart(variadic, ((which - variadic,),))
        return ArgumentPart(position(f, which))
    at, steps, rest = position(f, found["name"]), [], found["rest"]
    while rest:
        step = _STEP.match(rest)
        if step is None:
            refuse(
                f"{which!r:.60} is no part of an argument of `{f.__name__}`",
                "a part is a name with fields and indices, such as 'a.x', 'y[1]' or 'm[0, 2]'",
            )
        field = step["field"]
        steps.append(field if field is not None else tuple(int(i) for i in step["index"].split(",")))
        rest = rest[step.end() :]
    return ArgumentPart(at, tuple(steps))


def chosen_parts(f: Any, argnums: Any) -> tuple[ArgumentPart, ...] | None:
    """The parts that `argnums` names, in its order; None for all arguments that have a derivative."""
    if argnums is None:
        return None
    found = tuple(part(f, which) for which in (list(argnums) if not is_one(argnums) else [argnums]))
    for k, one in enumerate(found):
        if one in found[:k]:
            name = direction_of(f)[0].parameters[one.position].name + one.path
            refuse(f"`{name}` of `{f.__name__}` is chosen twice", "choose it once")
    return found


def loss_part(f: Any, loss: Any) -> ArgumentPart:
    """The part that the loss is; of a functional function, the default 0 stands for its first result. Raises NotDifferentiable."""
    found = part(f, loss)
    return found if found.steps else ArgumentPart(loss_position(f, loss))


def with_derivative(arguments: Sequence[Argument]) -> list[ArgumentPart]:
    """All arguments of which some number has a derivative, whole."""
    return [ArgumentPart(i) for i, a in enumerate(arguments) if without_derivative(a.type) is None]


def first_number(a: Argument) -> str | None:
    """The path of the first fixed number in an argument, or None."""
    path, t = a.name, a.type
    while not (isinstance(t, ScalarType) and t.kind.is_fixed):
        match t:
            case ArrayType(element, shape) if t.size:
                path, t = f"{path}[{', '.join('0' for _ in shape)}]", element
            case StructType(_, fields):
                found = (first_number(Argument(part_name(path, t, field), inner, 0)) for field, inner in fields)
                return next((name for name in found if name is not None), None)
            case ArrayType() | ScalarType() | StackType() | StaticType():
                return None
    return path


def _field(f: Any, a: Argument, name: str) -> Argument:
    """The field of a struct."""
    if not isinstance(a.type, StructType):
        refuse(f"`{a.name}` of `{f.__name__}` is {a.type}, and has no field `{name}`", _contents(a.type))
    address = a.address
    for field, inner in a.type.fields:
        if field == name:
            return Argument(f"{a.name}.{name}", inner, address)
        address += inner.size
    names = [field for field, _ in a.type.fields]
    refuse(f"`{a.name}` of `{f.__name__}` has no field `{name}`", nearest(name, names) or _contents(a.type))


def _element(f: Any, a: Argument, index: tuple[int, ...]) -> Argument:
    """The element of an array, or the row that fewer indices than axes leave."""
    shown = f"{a.name}[{', '.join(map(str, index))}]"
    t: Type = a.type
    if isinstance(t, StructType) and (own := field_of_index(t, index)) is not None:
        return replace(_field(f, a, own), name=shown)
    if isinstance(t, StructType) and t.is_tuple and len(index) == 1:
        count = len(t.fields)
        if not -count <= index[0] < count:
            refuse(f"`{f.__name__}` has no argument `{shown}`", f"`{a.name}` has {count} item{'s' * (count != 1)} here")
        return replace(_field(f, a, t.fields[index[0]][0]), name=shown)
    if not isinstance(t, ArrayType):
        refuse(f"`{a.name}` of `{f.__name__}` is {t}, and has no element `{shown}`", _contents(t))
    if len(index) > len(t.shape):
        refuse(
            f"`{shown}` has {len(index)} indices, and `{a.name}` of `{f.__name__}` has shape {t.shape}", _contents(t)
        )
    rest = t.shape[len(index) :]
    of = ArrayType(t.element, rest) if rest else t.element
    address, stride = a.address, t.size
    for i, n in zip(index, t.shape, strict=False):
        if not -n <= i < n:
            refuse(
                f"`{shown}` is outside of `{a.name}` of `{f.__name__}`, which has shape {t.shape}",
                f"indices of this axis are {-n} to {n - 1}" if n else "the array is empty",
            )
        stride //= n
        address += i % n * stride
    return Argument(shown, of, address)


def _contents(t: Type) -> str | None:
    match t:
        case StructType():
            return f"its fields are {shown_fields(t)}"
        case ArrayType(_, shape):
            return f"its elements are chosen by an index for each axis of {shape}"
        case ScalarType():
            return "a number has no parts: give its name alone"
        case StackType() | StaticType():
            return None
