"""Random arguments from a function's annotations, and all laws over them. Needs hypothesis.

Drawn numbers are exact: a fixed number is a word over 2^F, so a failing example prints the numbers that were run.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from retrograd.compiler.frontends.python.source import NOTHING, Parameter
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.types import (
    ArrayAnnotation,
    ArrayType,
    ScalarType,
    StackAnnotation,
    StackType,
    StructType,
    Type,
    complete,
    element_of,
    element_of_stack,
    scalar_of,
    static,
    struct_of,
)
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.isa.words import Format
from retrograd.runtime._binding import FurtherArguments
from retrograd.runtime._compilation import format_or_default
from retrograd.runtime._execution import ProgramTrap
from retrograd.runtime._reversible import Inverse, Reversible
from retrograd.testing.gradients import check_gradient
from retrograd.testing.laws import LawBroken, assert_no_garbage, check_inverse

if TYPE_CHECKING:
    from types import ModuleType

    from hypothesis.strategies import SearchStrategy

#: traps of a function at arguments without a value: division by zero, domain, overflow, lognum of zero
DOMAIN = frozenset({"RG0402", "RG0403", "RG0404", "RG0411"})
#: laws about gradients that cannot be decided: no slope to compare with, or rounding
UNDECIDED = frozenset({"RG0903", "RG0906"})
#: the longest length for a name in a shape
_LONGEST = 4
#: bits of a float64
_FLOAT = 53


@dataclass(frozen=True)
class LawsReport:
    """Random arguments that were tried. `trapped`: f has no value there. `undecided`: there is no slope to compare a gradient with,
    or rounding leaves too little of it."""

    examples: int
    trapped: int
    undecided: int


def _hypothesis() -> ModuleType:
    try:
        import hypothesis.strategies
    except ImportError as error:
        message = "random arguments need the package hypothesis, which is not installed: pip install hypothesis"
        raise ImportError(message, name="hypothesis") from error
    return hypothesis


def words(format: Format | str | None = None) -> SearchStrategy[int]:
    """0 … 2^W − 1: all words of a format, those at its borders often. Raises ImportError without hypothesis."""
    st, w = _hypothesis().strategies, format_or_default(format)
    corners = [0, 1, w.mask, w.sign, w.sign - 1, 1 << w.frac]
    drawn: SearchStrategy[int] = st.one_of(st.integers(0, w.mask), st.sampled_from(corners))
    return drawn


def fixed_numbers(
    format: Format | str | None = None, low: float | None = None, high: float | None = None
) -> SearchStrategy[float]:
    """word / 2^F in [low, high], by default all that the format holds: whole numbers often, and never a float that would be rounded.

    Raises ImportError without hypothesis, InputError RG0601 for an empty range.
    """
    st, w = _hypothesis().strategies, format_or_default(format)
    first = -w.sign if low is None else max(-w.sign, math.ceil(low * 2.0**w.frac))
    last = w.sign - 1 if high is None else min(w.sign - 1, math.floor(high * 2.0**w.frac))
    if first > last:
        raise InputError(Diagnostic("RG0601", f"{w} has no numbers from {low} to {high}"))

    every = st.integers(first, last)
    one = 1 << w.frac
    wholes = (-(-first // one), last // one)
    drawn = st.one_of(st.integers(*wholes).map(lambda k: k * one), every) if wholes[0] <= wholes[1] else every

    # A composite strategy prints examples as numbers.
    def number(draw: Any) -> float:
        word = draw(drawn)
        # A float has fewer bits than a long word: the last ones are cleared, toward zero.
        spare = max(0, abs(word).bit_length() - _FLOAT)
        return math.copysign((abs(word) >> spare) << spare, word) / 2.0**w.frac

    numbers: SearchStrategy[float] = st.composite(number)()
    return numbers


def arguments(
    f: Reversible | Inverse, /, low: float = -8, high: float = 8, **overrides: Any
) -> SearchStrategy[tuple[Any, ...]]:
    """Tuples of arguments, from the annotations of f: numbers in [low, high], arrays of any shape that fits.

    A name in a shape is one length from 1 to 4, the same throughout; lognums are never 0, and negative only if `low` is.
    `overrides`: for parameters by name, a strategy or a value. Parameters without annotation, and static ones, take
    their defaults. Trap: an int within [low, high] may be no index within range; override such parameters.
    Raises InputError RG0603 naming a parameter that is neither annotated nor overridden, ImportError without hypothesis.
    """
    st = _hypothesis().strategies
    function: Reversible = ~f if isinstance(f, Inverse) else f
    w = function.format_for()
    names = [p.name for p in function.parameters]
    for name in overrides:
        if name not in names:
            _refuse(f"`{function.__name__}` has no parameter `{name}`", f"its parameters are {', '.join(names)}")
    lengths = {
        d: st.integers(1, _LONGEST)
        for p in function.parameters
        if isinstance(p.annotation, ArrayAnnotation) and p.name not in overrides
        for d in p.annotation.dims or ()
        if isinstance(d, str)
    }
    given = {
        name: value if isinstance(value, st.SearchStrategy) else st.just(value) for name, value in overrides.items()
    }
    for p in function.parameters:
        if p.name not in given and _open(p.annotation):
            if p.default is NOTHING:
                _refuse(
                    f"what `{p.name}` of `{function.__name__}` may be is not said",
                    f"Annotate it, or give a strategy or a value: arguments({function.__name__}, {p.name}=…).",
                )
            given[p.name] = st.just(p.default)

    def of_shape(sizes: dict[str, int]) -> Any:
        def values(p: Parameter) -> Any:
            if p.name in given:
                return given[p.name]
            one = _of(p.annotation, sizes, w, low, high)
            return st.lists(one, min_size=1, max_size=_LONGEST).map(FurtherArguments) if p.variadic else one

        return st.tuples(*map(values, function.parameters))

    drawn: SearchStrategy[tuple[Any, ...]] = (
        st.fixed_dictionaries(lengths).flatmap(of_shape) if lengths else of_shape({})
    )
    return drawn


def _open(annotation: Any) -> bool:
    """Whether an annotation leaves the type open."""
    if isinstance(annotation, StackAnnotation):
        return element_of_stack(annotation.element) is None
    if isinstance(annotation, ArrayAnnotation):
        return element_of(annotation.element) is None
    return annotation is static or element_of(annotation) is None


def _of(annotation: Any, sizes: dict[str, int], w: Format, low: float, high: float) -> Any:
    """Values for an annotation."""
    st = _hypothesis().strategies
    if isinstance(annotation, StackAnnotation):
        return _values(complete(annotation), w, low, high)
    if isinstance(annotation, ArrayAnnotation):
        inner = element_of(annotation.element)
        assert inner is not None
        if annotation.dims is None:
            return st.integers(1, _LONGEST).flatmap(lambda n: _values(ArrayType(inner, (n,)), w, low, high))
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in annotation.dims)
        return _values(ArrayType(inner, shape), w, low, high)
    found = scalar_of(annotation) or struct_of(annotation)
    assert found is not None
    return _values(found, w, low, high)


def _values(t: Type, w: Format, low: float, high: float) -> Any:
    """Values of a type."""
    st = _hypothesis().strategies
    match t:
        case ScalarType(Kind.BOOL):
            return st.booleans()
        case ScalarType(kind) if kind.is_fixed:
            return fixed_numbers(kind.numbers(w), low, high)
        case ScalarType(Kind.LOGNUM):
            largest = max(abs(low), abs(high), 2.0**-w.frac)
            logs = fixed_numbers(w, -3.0, max(-3.0, min(math.log2(largest), 2.0 ** (w.width - w.frac - 2) - 1)))
            signs = [s for s, there in ((1.0, high > 0), (-1.0, low < 0)) if there] or [1.0]
            return st.composite(lambda draw: draw(st.sampled_from(signs)) * 2.0 ** draw(logs))()
        case ScalarType(Kind.UINT):
            return st.integers(max(0, math.ceil(low)), min(w.mask, max(0, math.floor(high))))
        case ScalarType():
            return st.integers(max(-w.sign, math.ceil(low)), min(w.sign - 1, math.floor(high)))
        case ArrayType(element, shape):
            count = math.prod(shape)
            kinds = {Kind.BOOL: bool, Kind.INT: np.int64, Kind.UINT: np.uint64}
            dtype: Any = kinds.get(element.kind, np.float64) if isinstance(element, ScalarType) else object

            def array(draw: Any) -> Any:
                out = np.empty(count, dtype=dtype)
                out[:] = draw(st.lists(_values(element, w, low, high), min_size=count, max_size=count))
                return out.reshape(shape)

            return st.composite(array)()
        case StackType(element, capacity):
            return st.lists(_values(element, w, low, high), max_size=min(capacity, _LONGEST))
        case StructType(cls, fields):
            return st.builds(cls, **{name: _values(inner, w, low, high) for name, inner in fields})
    raise TypeError(t)


def check_laws(
    f: Reversible | Inverse,
    /,
    examples: int = 50,
    *,
    loss: int | str | None = None,
    low: float = -8,
    high: float = 8,
    accept: Collection[str] = DOMAIN,
    **overrides: Any,
) -> LawsReport:
    """check_inverse and assert_no_garbage, and check_gradient where `loss` is given, for random arguments as `arguments` draws them.

    Where f has no value (a trap whose code is in `accept`: division by zero, domain, overflow), it must run back to its start, bit for bit.
    Hypothesis prints the simplest example that breaks a law. The report counts gradients that cannot be judged. Trap: where
    nearly all arguments trap, little has been tested; the report counts these, too.
    Raises LawBroken; ProgramTrap of other codes; InputError where f has no value for any example; and the errors of
    `arguments`.
    """
    hypothesis = _hypothesis()
    if loss is not None and isinstance(f, Inverse):
        _refuse(f"`{f.__name__}` is an inverse, and has no gradient", "Write a function that uncalls it.")
    tried = trapped = undecided = 0

    def laws(drawn: tuple[Any, ...]) -> None:
        nonlocal tried, trapped, undecided
        tried += 1
        try:
            check_inverse(f, *drawn)
            assert_no_garbage(f, *drawn)
        except ProgramTrap as trap:
            if trap.code not in accept:
                raise
            trapped += 1
            return
        if loss is None:
            return
        try:
            check_gradient(f, *drawn, loss=loss)
        except ProgramTrap as trap:
            if trap.code not in accept:
                raise
            undecided += 1
        except LawBroken as broken:
            if broken.code not in UNDECIDED:
                raise
            undecided += 1

    # The phase that explains a failure by executed lines is left out: these lines are ours, and tracing them is slow.
    phases = (hypothesis.Phase.generate, hypothesis.Phase.target, hypothesis.Phase.shrink)
    settings = hypothesis.settings(
        max_examples=examples, deadline=None, database=None, phases=phases, report_multiple_bugs=False
    )
    settings(hypothesis.given(arguments(f, low, high, **overrides))(laws))()
    if trapped == tried:
        _refuse(
            f"`{f.__name__}` has no value for any of {tried} random arguments",
            "Choose others: `low`, `high`, or strategies by name.",
        )
    return LawsReport(tried, trapped, undecided)


def _refuse(message: str, hint: str) -> NoReturn:
    raise InputError(Diagnostic("RG0603", message, hint=hint))
