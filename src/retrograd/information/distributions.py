"""Distributions of arguments, as rows of words with or without probabilities.

    {(1, 2): 0.25, (3, 4): 0.75}             arguments and their probabilities
    {"x": range(8), "y": "words"}            independent and uniform: x among values, y among all words
    "words"                                  each word of each argument independent and uniform
    [(1, 2), (3, 4)]                         samples
    lambda rng: (rng.integers(8), 0)         a function that draws arguments, from a generator of NumPy with the given seed

Trap: independent values that are too many to be enumerated are drawn, and then all entropies are estimates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.compiler.language.types import Type, complete
from retrograd.functions.execution import argument_words
from retrograd.functions.requests import Request
from retrograd.information.errors import refuse
from retrograd.isa.words import Format
from retrograd.values.binding import bind
from retrograd.values.marshal import from_words
from retrograd.values.precision import Losses

Distribution: TypeAlias = "Mapping[Any, Any] | Sequence[Any] | str | Callable[[np.random.Generator], Any]"

#: inputs that are enumerated at most
MOST_INPUTS = 1 << 16
#: stands for all words
WORDS = "words"


@dataclass(frozen=True)
class WordRows:
    """Inputs of a program, each as the words of its arguments."""

    compiled: Compiled
    rows: list[tuple[int, ...]]
    #: of each row; None: the rows are samples
    probabilities: NDArray[np.float64] | None
    #: the entropy of the input, where it is known although the rows are samples
    input_bits: float | None = None


def word_rows(request: Request, distribution: Distribution, samples: int, seed: int) -> WordRows:
    """The rows of a distribution. Raises InputError RG1601, RG0603; CompileError."""
    if samples < 1:
        raise refuse("RG1601", f"{samples} samples are none", "Draw at least 1.")
    if isinstance(distribution, str):
        if distribution != WORDS:
            raise refuse("RG1601", f"`{distribution[:40]}` names no distribution; `{WORDS}` does")
        distribution = {p.name: WORDS for p in request.function.parameters}
    if isinstance(distribution, Mapping):
        if all(isinstance(key, str) for key in distribution):
            return _independent(request, distribution, samples, np.random.default_rng(seed))
        return _with_probabilities(request, distribution)
    if callable(distribution):
        rng = np.random.default_rng(seed)
        return _Rows(request).words([distribution(rng) for _ in range(samples)])
    if not isinstance(distribution, Iterable):
        raise refuse("RG1601", f"`{distribution!r:.40}` is no distribution")
    return _Rows(request).words(list(distribution))


def _with_probabilities(request: Request, given: Mapping[Any, Any]) -> WordRows:
    if len(given) > MOST_INPUTS:
        raise refuse("RG1601", f"{len(given)} inputs have probabilities; at most {MOST_INPUTS} may", "Give samples.")
    found = {}
    for key, p in given.items():
        try:
            number = float(p)
        except (TypeError, ValueError):
            number = -1.0
        if not (math.isfinite(number) and number >= 0):
            raise refuse("RG1601", f"`{p!r:.40}` is no probability")
        if number:
            found[key] = number
    weight = math.fsum(found.values())
    if abs(weight - 1) > 1e-9:
        raise refuse("RG1601", f"the probabilities have the sum {weight:.9g}", "Divide each by their sum.")
    return _Rows(request).words(list(found), np.array([*found.values()]) / weight)


class _Rows:
    """Arguments as words of one program: all inputs have the types of the first."""

    def __init__(self, request: Request) -> None:
        self.request = request

    def words(self, inputs: Sequence[Any], probabilities: NDArray[np.float64] | None = None) -> WordRows:
        if not inputs:
            raise refuse("RG1601", "the distribution is empty")
        types: tuple[Type, ...] | None = None
        rows = []
        losses = Losses()
        for given in inputs:
            args = given if isinstance(given, tuple) else (given,)
            values = bind(self.request.function, args, {}, self.request.format)
            found = self.request.function.types_of(values)
            if types is None:
                types, compiled = found, self.request.compiled(values)
            elif found != types:
                hint = "Arrays have one size, and static arguments one value, in all inputs."
                raise refuse("RG1601", f"the input {given!r:.60} has other types than the first", hint)
            rows.append(tuple(argument_words(compiled, values, losses)))
        losses.report(compiled)
        return WordRows(compiled, rows, probabilities)


def _independent(request: Request, given: Mapping[str, Any], samples: int, rng: np.random.Generator) -> WordRows:
    parameters = request.function.parameters
    names = [p.name for p in parameters]
    for name in (*given, *names):
        if (name in given) != (name in names):
            what = "has no values" if name in names else f"is no parameter of `{request.function.__name__}`"
            raise refuse("RG1601", f"`{name}` {what}", f"Its parameters are {', '.join(names)}.")
    pools: dict[str, Sequence[Any]] = {}
    first = []
    for p in parameters:
        values = given[p.name]
        if isinstance(values, str):
            if values != WORDS:
                raise refuse("RG1601", f"`{p.name}`: `{values:.40}` are no values; `{WORDS}` stands for all")
            first.append(_zero(p.name, p.annotation))
            continue
        try:
            # A range may be long: of its numbers, the drawn numbers alone become words.
            pools[p.name] = values if isinstance(values, range) else list(values)
        except TypeError:
            raise refuse("RG1601", f"`{p.name}`: `{values!r:.40}` is no list of values") from None
        if not pools[p.name]:
            raise refuse("RG1601", f"`{p.name}` has no values")
        first.append(pools[p.name][0])
    compiled = request.compiled(first)
    types, losses = request.function.types_of(first), Losses()

    def chooser(i: int) -> Callable[[int], Sequence[int]]:
        """The words of value k of argument i."""
        argument = compiled.arguments[i]

        @cache
        def words(k: int) -> Sequence[int]:
            value = pools[argument.name][k]
            values = [*first[:i], value, *first[i + 1 :]]
            if request.function.types_of(values) != types:
                raise refuse("RG1601", f"`{argument.name}`: {value!r:.60} has another type than the first value")
            return argument_words(compiled, values, losses)[argument.address : argument.address + argument.type.size]

        return words

    # Word by word or argument by argument: the number of choices, and the words of a choice.
    choices: list[tuple[int, Callable[[int], Sequence[int]]]] = []
    for i, argument in enumerate(compiled.arguments):
        pool = pools.get(argument.name)
        if pool is None:
            choices += [(1 << compiled.format.width, lambda k: (k,))] * argument.type.size
        else:
            choices.append((_length(argument.name, pool), chooser(i)))
    inputs = math.prod(number for number, _ in choices)

    def row(numbers: Iterable[int]) -> tuple[int, ...]:
        return tuple(word for k, (_, words) in zip(numbers, choices, strict=True) for word in words(k))

    if inputs <= MOST_INPUTS:
        rows = [row(numbers) for numbers in itertools.product(*(range(number) for number, _ in choices))]
        _reported(losses, compiled)
        return WordRows(compiled, rows, np.full(inputs, 1 / inputs))
    drawn = [rng.integers(0, number - 1, samples, np.uint64, endpoint=True).tolist() for number, _ in choices]
    bits = math.fsum(math.log2(number) for number, _ in choices)
    rows = [row(numbers) for numbers in zip(*drawn, strict=True)]
    _reported(losses, compiled)
    return WordRows(compiled, rows, None, bits)


def _reported(losses: Losses, compiled: Compiled) -> None:
    """Report the losses; the first value of an argument became a word with each value of the others."""
    losses[:] = dict.fromkeys(losses)
    losses.report(compiled)


def _length(name: str, pool: Sequence[Any]) -> int:
    """The number of values, which a generator can draw."""
    try:
        return len(pool)
    except OverflowError:
        raise refuse("RG1601", f"`{name}` has more values than words") from None


def _zero(name: str, annotation: Any) -> Any:
    """A value of a parameter whose words are drawn."""
    try:
        t = complete(annotation)
    except TypeError:
        raise refuse("RG1601", f"`{name}`: its annotation leaves the number of words open", "Give values.") from None
    return from_words(t, [0] * t.size, Format(64, 32))
