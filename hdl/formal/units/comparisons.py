"""Words of a unit and words that are expected of it: how they are made and compared."""

from __future__ import annotations

from typing import Any

import z3
from amaranth.hdl import Signal
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.solving import solved
from retrograd.hdl.formal.terms import Term, Word


class Refuted(Exception):
    """A fact that does not hold; the message names it, with words."""


def unit_outputs(unit: Any) -> list[Signal]:
    """The result, and whether it fits, for a unit that has such a flag."""
    return [unit.result, unit.fits] if unit.flags else [unit.result]


def fits_word(number: Word, size: int, width: int) -> Word:
    """Whether a signed number of `size` bits, at least `width`, is that of its low word."""
    return terms.equal(number, placed(terms.piece_of(number, 0, width), 0, size), size)


def magnitude(x: Term, width: int) -> Word:
    return terms.choice(terms.piece_of(x, width - 1, 1), terms.subtract(0, x, width), x, width)


def placed(word: Word, by: int, size: int, signed: bool = True) -> Word:
    """word · 2^by in a word of `size` bits."""
    if isinstance(word, int):
        return word << by & ((1 << size) - 1)
    if by >= size:
        return 0
    if word.width + by > size:
        word = terms.part(word, 0, size - by)
    wide = word if isinstance(word, int) else terms.extended(word, size - by, signed)
    return terms.joined([(0, by), (wide, size - by)]) if by else wide


def without_products(word: Word, names: dict[Term, Term]) -> Word:
    """The term with each product replaced by a name. Products whose factors are equal for all words have one name."""
    todo, seen = [word] if isinstance(word, Term) else [], set()
    while todo:
        one = todo.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.operator == "*" and one not in names:
            known = (name for other, name in names.items() if _equal_factors(one, other))
            names[one] = next(known, terms.unknown(f"product{len(names)}", one.width))
        elif one.operator != "*":
            todo += one.terms
    return terms.substitute(word, names)


def with_equal_sums(x: Word, y: Word) -> tuple[Word, Word]:
    """Both terms with sums that are proved equal replaced by one name, from the innermost on: each question has one addition on each side."""
    found: dict[Term, Term] = {}
    others: dict[Term, Term] = {}
    for k, (a, b) in enumerate(zip(_sums(x), _sums(y), strict=False)):
        if a.width == b.width and _equal_words(terms.substitute(a, found), terms.substitute(b, others)):
            found[a] = others[b] = terms.unknown(f"sum{k}", a.width)
    return terms.substitute(x, found), terms.substitute(y, others)


def _sums(word: Word) -> list[Term]:
    """The additions in a term, each behind those in its operands."""
    out: list[Term] = []
    todo, seen = [(word, False)] if isinstance(word, Term) else [], set()
    while todo:
        one, done = todo.pop()
        if done:
            if one.operator == "+":
                out.append(one)
        elif one not in seen:
            seen.add(one)
            todo.append((one, True))
            todo += [(inner, False) for inner in one.terms]
    return out


def _equal_factors(x: Term, y: Term) -> bool:
    return x.width == y.width and all(_equal_words(a, b) for a, b in zip(x.terms, y.terms, strict=True))


def _equal_words(x: Term, y: Term) -> bool:
    """Whether the solver soon proves that two words are equal."""
    solver = z3.Solver()
    solver.set("timeout", 2000)
    solver.add(solved(x) != solved(y))
    return x is y or bool(solver.check() == z3.unsat)


def same(x: Word, at: int, y: Word, low: int, width: int) -> Word:
    """Whether x[at : at + width] = y[low : low + width]."""
    return terms.equal(terms.piece_of(x, at, width), terms.piece_of(y, low, width), width)
