"""Terms as expressions of the solver (Z3), and their values for random words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

import z3
from retrograd.hdl.formal.terms import Term, Word, known_result

_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y,
    "&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y, "~": lambda x: ~x,
    "<<": lambda x, y: x << y, "u>>": z3.LShR, "s>>": lambda x, y: x >> y, "concatenation": z3.Concat,
}  # fmt: skip
#: operators that compare words
_RELATIONS: Mapping[str, Callable[..., Any]] = {
    "==": lambda x, y: x == y, "u<": z3.ULT, "u<=": z3.ULE, "s<": lambda x, y: x < y, "s<=": lambda x, y: x <= y,
}  # fmt: skip
_CONNECTIVES: Mapping[str, Callable[..., Any]] = {"&": z3.And, "|": z3.Or, "^": z3.Xor, "~": z3.Not}


def truth(bit: Word) -> Any:
    """The solver's Boolean for bit = 1."""
    if isinstance(bit, int):
        return z3.BoolVal(bool(bit))
    _solve_all(bit)
    return _truth(bit)


def solved(word: Term) -> Any:
    """The solver's expression for a word."""
    _solve_all(word)
    return _word(word)


def _solve_all(term: Term) -> None:
    todo = [term]
    while todo:
        one = todo[-1]
        missing = [inner for inner in one.terms if inner.solved is None and inner.truth is None]
        if missing:
            todo += missing
            continue
        if one.solved is None and one.truth is None:
            _solve(one)
        todo.pop()


def _solve(one: Term) -> None:
    """Make one expression; those of its subterms have been made."""
    inner = one.terms
    if one.width == 1 and not one.address and (one.operator in _RELATIONS or one.operator in _CONNECTIVES):
        if one.operator in _RELATIONS:
            one.truth = _RELATIONS[one.operator](*map(_word, inner))
        else:
            one.truth = _CONNECTIVES[one.operator](*map(_truth, inner))
        return
    sort = z3.BitVecSort(one.width)
    match one.operator:
        case "known":
            one.solved = z3.BitVecVal(one.parameter, one.width)
        case "unknown":
            one.solved = z3.Const(one.parameter, sort)
        case "memory":
            one.solved = z3.Array(one.parameter, z3.BitVecSort(one.address), sort)
        case "function":
            one.solved = z3.Function(one.parameter, *(z3.BitVecSort(term.width) for term in inner), sort)(
                *map(_word, inner)
            )
        case "select":
            one.solved = z3.Select(*map(_word, inner))
        case "store":
            one.solved = z3.Store(*map(_word, inner))
        case "if":
            one.solved = z3.If(_truth(inner[0]), *map(_word, inner[1:]))
        case "part":
            one.solved = z3.Extract(one.parameter + one.width - 1, one.parameter, _word(inner[0]))
        case "extended":
            one.solved = z3.SignExt(one.width - inner[0].width, _word(inner[0]))
        case _:
            one.solved = _OPERATORS[one.operator](*map(_word, inner))


def _word(one: Term) -> Any:
    if one.solved is None:
        one.solved = z3.If(one.truth, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
    return one.solved


def _truth(one: Term) -> Any:
    if one.truth is None:
        one.truth = one.solved == z3.BitVecVal(1, 1)
    return one.truth


class RandomValues:
    """Values of terms for `count` random assignments to all unknown words and uninterpreted functions.

    `meanings`: name -> the term that it is defined as.
    """

    def __init__(self, count: int, meanings: Mapping[Term, Term]) -> None:
        self._count = count
        self._meanings = meanings
        #: of a memory: its name, and the words that have been written
        self._found: dict[Term, tuple[Any, ...]] = {}

    def of(self, term: Term) -> tuple[int, ...]:
        """The value of the term in each of the assignments."""
        todo = [term]
        while todo:
            one = todo[-1]
            if one in self._found:
                todo.pop()
                continue
            meaning = self._meanings.get(one)
            within = one.terms if meaning is None else (meaning,)
            missing = [inner for inner in within if inner not in self._found]
            if missing:
                todo += missing
                continue
            drawn = [self._found[inner] for inner in within]
            self._found[one] = drawn[0] if meaning is not None else self._computed(one, drawn)
            todo.pop()
        return self._found[term]

    def _computed(self, one: Term, inside: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        count, width = self._count, one.width
        match one.operator:
            case "known":
                return (one.parameter,) * count
            case "memory":
                return ((one.parameter, {}),) * count
            case "unknown":
                return tuple(_drawn(f"{n} {one.parameter}", width) for n in range(count))
            case "function":
                return tuple(_drawn(f"{n} {one.parameter} {x}", width) for n, x in enumerate(zip(*inside, strict=True)))
            case "select":
                return tuple(
                    written[at] if at in written else _drawn(f"{n} {name} at {at}", width)
                    for n, ((name, written), at) in enumerate(zip(*inside, strict=True))
                )
            case "store":
                return tuple((name, written | {at: word}) for (name, written), at, word in zip(*inside, strict=True))
            case "if":
                return tuple(x if bit else y for bit, x, y in zip(*inside, strict=True))
            case "part":
                mask = (1 << width) - 1
                return tuple(word >> one.parameter & mask for word in inside[0])
        widths = [term.width for term in one.terms]
        return tuple(known_result(one.operator, width, widths, words) for words in zip(*inside, strict=True))


def _drawn(by: str, width: int) -> int:
    return int.from_bytes(blake2b(by.encode()).digest(), "little") & ((1 << width) - 1)
