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
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from retrograd.compiler.compiled import Compiled
from retrograd.isa.diagnostics import Diagnostic, InputError, PrecisionWarning
from retrograd.isa.words import Format
from retrograd.values.arrays import WordArray, plain, remembered
from retrograd.values.binding import located

#: elements that are looked at together
_BLOCK = 1 << 15


class Loss(NamedTuple):
    """Numbers of one argument that lose more than half of their bits: the first, how many, and how many of them become 0."""

    name: str
    place: tuple[int, ...]
    value: float
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
            self.append(Loss(name, (), value, 1, int(word == 0)))

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
                self.append(Loss(name, tuple(index), float(values[first]), len(lost), zeros))

    def report(self, compiled: Compiled, what: str = "", format: Format | None = None) -> None:
        """Warn of the numbers, if there are any, or raise InputError RG0607.

        `what`: the kind of numbers, for messages; `format`: that of their words, if it is another one than the program's.
        """
        precision, w = compiled.options.precision, format or compiled.format
        if not self or precision == "ignore":
            return
        message, remedy = self._message(w, what), _remedy(w, math.frexp(self[0].value)[1])
        if precision == "error":
            parameter = re.split(r"[.\[]", self[0].name, maxsplit=1)[0]
            raise InputError(located(Diagnostic("RG0607", message, hint=remedy), compiled.function, parameter))
        warnings.warn(PrecisionWarning(f"{message}. {remedy}"), stacklevel=_level_of_caller())

    def _message(self, w: Format, what: str) -> str:
        first = self[0]
        place = f"{what}`{first.name}{list(first.place)}`" if first.place else f"{what}`{first.name}`"
        word = round(math.ldexp(first.value, w.frac)) / (1 << w.frac)
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


def _level_of_caller() -> int:
    """The `stacklevel` of the first frame that is not of Retrograd."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "retrograd":
        frame, level = frame.f_back, level + 1
    return level
