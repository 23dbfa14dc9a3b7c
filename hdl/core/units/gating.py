"""Words behind gates: a multiplexer with a line for each word, whose last word synthesis can put next to the output."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Const


def gated(pairs: Iterable[tuple[Any, Any]]) -> Any:
    """The disjunction of the words whose gates are open."""
    words = [gate.replicate(len(word)) & word for gate, word in pairs]
    return any_of(words) if words else Const(0)


def any_of(words: list[Any]) -> Any:
    """The disjunction of the words, as a balanced tree."""
    while len(words) > 1:
        words = [reduce(or_, words[at : at + 2]) for at in range(0, len(words), 2)]
    return words[0]
