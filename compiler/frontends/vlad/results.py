"""Results that hold lists of the heap: first their lengths are found, each by a run, then the items are the words of the result.

A program's results are words, whose number is known when it is compiled, and the heap is empty when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.core import Binding, Core
from retrograd.compiler.frontends.functional.types import List, Tuple, Type
from retrograd.compiler.frontends.vlad.primitives import CAR, CDR
from retrograd.compiler.frontends.vlad.structure import LIBRARY

#: the form of a tuple that stands for a list
ITEMS = "items"
#: a place in a value: numbers of items, from outside to inside
Path = tuple[int, ...]
#: the lengths of the lists at these places
Lengths = dict[Path, int]


def unknown_list(t: Type, lengths: Mapping[Path, int], path: Path = ()) -> Path | None:
    """The place of the first list whose length is not known."""
    inside: list[Type] = []
    if isinstance(t, List):
        if path not in lengths:
            return path
        inside = [t.item] * lengths[path]
    elif isinstance(t, Tuple):
        inside = list(t.items)
    found = (unknown_list(item, lengths, (*path, k)) for k, item in enumerate(inside))
    return next((p for p in found if p is not None), None)


def with_items(value: core.Lambda, t: Type, lengths: Mapping[Path, int]) -> core.Lambda:
    """The expression with the tuple of their items in place of lists; or the length of the first list of which it is not known."""
    at = value.at
    whole = Binding("whole", at)
    asked = unknown_list(t, lengths)
    made = _made(core.Ref(whole, at), t, lengths, ()) if asked is None else _length(core.Ref(whole, at), t, asked)
    return core.Lambda(value.name, (), core.Let(whole, value.body, made, at), at)


def _element(list_: Core, k: int) -> Core:
    for _ in range(k):
        list_ = core.Primitive(CDR, (list_,), list_.at)
    return core.Primitive(CAR, (list_,), list_.at)


def _length(value: Core, t: Type, path: Path) -> Core:
    for k in path:
        if isinstance(t, List):
            value, t = _element(value, k), t.item
        elif isinstance(t, Tuple):
            value, t = core.Item(value, k, value.at), t.items[k]
    return core.Apply(core.Global(LIBRARY["length"], value.at), (value,), value.at)


def _made(value: Core, t: Type, lengths: Mapping[Path, int], path: Path) -> Core:
    at = value.at
    if isinstance(t, List):
        rests = [Binding("rest", at) for _ in range(lengths[path] + 1)]
        items = [
            _made(core.Primitive(CAR, (core.Ref(rest, at),), at), t.item, lengths, (*path, k))
            for k, rest in enumerate(rests[:-1])
        ]
        # Not a chain of pairs, which would be a list of the heap again where it is long.
        made: Core = core.Record(tuple(items), at, ITEMS)
        for before, rest in reversed(list(pairwise(rests))):
            made = core.Let(rest, core.Primitive(CDR, (core.Ref(before, at),), at), made, at)
        return core.Let(rests[0], value, made, at)
    if isinstance(t, Tuple) and _has_lists(t):
        parts = [_made(core.Item(value, k, at), item, lengths, (*path, k)) for k, item in enumerate(t.items)]
        return core.Record(tuple(parts), at, t.form)
    return value


def _has_lists(t: Type) -> bool:
    return isinstance(t, List) or (isinstance(t, Tuple) and any(map(_has_lists, t.items)))
