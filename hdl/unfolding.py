"""Names for terms, whose meaning the solver is told little by little.

    name₁ = t₁,  name₂ = t₂(name₁),  …

A formula over names that has no solution whatever the names stand for has none for what they do stand for: so the solver is first
told nothing of them, and then, one layer after the other, what the names stand for that it has heard of. A solution counts
only once it has been told all.

Words that are equal for another reason than that they were computed alike, such as (x + y) − y and x, are to have one name, too:
otherwise all that is computed from them has two. Which may be equal is found out by computing with words drawn by lot; the
solver says which are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from typing import Any

import z3

#: what an equality of names may take: layers of definitions, and seconds
_DEPTH, _SECONDS = 4, 5.0
#: bits to compare words by
_SAMPLED = 64


class Definitions:
    """Equal terms have one name."""

    def __init__(self) -> None:
        #: term by its identity -> its name; the terms are kept, so that no other can have their identity
        self._names: dict[int, tuple[Any, Any]] = {}
        #: name by its identity -> the term
        self._terms: dict[int, Any] = {}
        #: words that a name may be equal to, and by their samples those of them that have been looked at
        self._words: list[Any] = []
        self._alike: dict[tuple[int, ...], list[Any]] = {}
        self._samples: list[_Sample] = []

    def name(self, term: Any) -> Any:
        """The name of a term: a constant of its width."""
        known = self._names.get(term.get_id())
        if known is not None:
            return known[1]
        name = z3.BitVec(f"t{len(self._names)}", term.size())
        self._terms[name.get_id()] = term
        self.mean(name)
        return self._keep(term, name)

    def mean(self, word: Any) -> None:
        """Later words may be equal to this one."""
        self._words.append(word)

    def recognised(self, term: Any) -> Any:
        """The name of a term, or a word known before that always equals it."""
        if term.get_id() in self._names:
            return self.name(term)
        if not self._samples:
            self._samples = [_Sample(seed, self._terms) for seed in range(-(-_SAMPLED // term.size()))]
        while self._words:
            word = self._words.pop(0)
            self._alike.setdefault(self._sampled(word), []).append(word)
        for word in self._alike.get(self._sampled(term), ()):
            if word.size() == term.size() and self.check([term != word], _SECONDS, _DEPTH) == z3.unsat:
                return self._keep(term, word)
        return self.name(term)

    def _keep(self, term: Any, name: Any) -> Any:
        self._names[term.get_id()] = term, name
        return name

    def _sampled(self, word: Any) -> tuple[int, ...]:
        return tuple(sample.of(word) for sample in self._samples)

    def check(
        self, formulas: Sequence[z3.BoolRef], seconds: float, depth: int | None = None
    ) -> z3.ModelRef | z3.CheckSatResult:
        """A solution of all the formulas, or `unsat`; `unknown` where so many seconds, or layers of definitions, do not suffice."""
        ends = time.monotonic() + seconds
        solver = z3.Solver()
        solver.add(*formulas)
        seen: set[int] = set()
        layer = self._within(formulas, seen)
        while True:
            solver.set("timeout", max(1, int(1000 * (ends - time.monotonic()))))
            found = solver.check()
            if found != z3.sat:
                return found
            if not layer:
                return solver.model()
            if depth is not None:
                if depth == 0:
                    return z3.unknown
                depth -= 1
            terms = [self._terms[name.get_id()] for name in layer]
            solver.add(*(name == term for name, term in zip(layer, terms, strict=True)))
            layer = self._within(terms, seen)

    def _within(self, terms: Iterable[Any], seen: set[int]) -> list[Any]:
        """The names in some terms that have not been seen."""
        found, todo = [], list(terms)
        while todo:
            term = todo.pop()
            if term.get_id() in seen:
                continue
            seen.add(term.get_id())
            if term.get_id() in self._terms:
                found.append(term)
            todo += term.children()
        return found


class _Sample:
    """What terms are, for words drawn by lot in place of whatever is not known, and functions made up."""

    def __init__(self, seed: int, terms: dict[int, Any]) -> None:
        self._seed = seed
        self._terms = terms
        #: by the identity of terms, which are kept
        self._found: dict[int, tuple[Any, Any]] = {}

    def of(self, term: Any) -> int:
        found: int = self._of(term).as_long()
        return found

    def _of(self, term: Any) -> Any:
        known = self._found.get(term.get_id())
        if known is None:
            self._found[term.get_id()] = known = term, self._computed(term)
        return known[1]

    def _computed(self, term: Any) -> Any:
        meaning = self._terms.get(term.get_id())
        if meaning is not None:
            return self._of(meaning)
        kind = term.decl().kind()
        if kind in (z3.Z3_OP_BNUM, z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
            return term
        if kind == z3.Z3_OP_SELECT:
            return self._drawn(term, term.sexpr())
        arguments = [self._of(child) for child in term.children()]
        if kind == z3.Z3_OP_UNINTERPRETED:
            return self._drawn(term, " ".join((term.decl().name(), *(str(x.as_long()) for x in arguments))))
        return z3.simplify(term.decl()(*arguments))

    def _drawn(self, term: Any, by: str) -> Any:
        return z3.BitVecVal(random.Random(f"{self._seed} {by}").getrandbits(term.size()), term.size())
