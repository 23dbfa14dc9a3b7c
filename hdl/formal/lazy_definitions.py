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

import time
from collections.abc import Iterable, Sequence

import z3
from retrograd.hdl.formal.solving import Sample, solved, truth
from retrograd.hdl.formal.terms import Term, Word, equal, negation, unknown

#: what an equality of names may take: layers of definitions, and seconds
_DEPTH, _SECONDS = 4, 5.0
#: how often words are drawn: so many that even bits are seldom alike by chance
_DRAWS = 32


class Definitions:
    """Equal terms have one name."""

    def __init__(self) -> None:
        #: term -> its name
        self._names: dict[Term, Term] = {}
        #: name -> the term
        self._terms: dict[Term, Term] = {}
        #: words that a name may be equal to, and by their samples those of them that have been looked at
        self._words: list[Term] = []
        self._alike: dict[tuple[int, ...], list[Term]] = {}
        self._sample = Sample(_DRAWS, self._terms)
        self._looked_at: set[Term] = set()

    def name(self, term: Term) -> Term:
        """The name of a term: an unknown word of its width."""
        known = self._names.get(term)
        if known is not None:
            return known
        name = unknown(f"t{len(self._names)}", term.width)
        self._terms[name] = term
        self._mean_what_was_read(term)
        self.mean(name)
        return self._keep(term, name)

    def _mean_what_was_read(self, term: Term) -> None:
        """What comes back may be a word of a memory as it was at first."""
        todo = [term]
        while todo:
            one = todo.pop()
            if one not in self._looked_at:
                self._looked_at.add(one)
                if one.operator == "select":
                    self.mean(one)
                todo += one.terms

    def mean(self, word: Term) -> None:
        """Later words may be equal to this one."""
        self._words.append(word)

    def recognised(self, term: Term) -> Term:
        """The name of a term, or a word known before that always equals it."""
        if term in self._names:
            return self._names[term]
        for word in self._words:
            self._alike.setdefault(self._sample.of(word), []).append(word)
        self._words.clear()
        for word in self._alike.get(self._sample.of(term), ()):
            if word.width == term.width and self._equal(term, word):
                return self._keep(term, word)
        return self.name(term)

    def _equal(self, term: Term, word: Term) -> bool:
        return bool(self.check([negation(equal(term, word, term.width))], _SECONDS, _DEPTH) == z3.unsat)

    def _keep(self, term: Term, name: Term) -> Term:
        self._names[term] = name
        return name

    def check(
        self, formulas: Sequence[Word], seconds: float, depth: int | None = None
    ) -> z3.ModelRef | z3.CheckSatResult:
        """A solution of all the formulas, or `unsat`; `unknown` where so many seconds, or layers of definitions, do not suffice.

        A formula is a bit.
        """
        if any(isinstance(formula, int) and not formula for formula in formulas):
            return z3.unsat
        ends = time.monotonic() + seconds
        solver = z3.Solver()
        solver.add(*map(truth, formulas))
        seen: set[Term] = set()
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
            terms = [self._terms[name] for name in layer]
            solver.add(*(solved(name) == solved(term) for name, term in zip(layer, terms, strict=True)))
            layer = self._within(terms, seen)

    def _within(self, terms: Iterable[Word], seen: set[Term]) -> list[Term]:
        """The names in some terms that have not been seen."""
        found, todo = [], [term for term in terms if isinstance(term, Term)]
        while todo:
            term = todo.pop()
            if term in seen:
                continue
            seen.add(term)
            if term in self._terms:
                found.append(term)
            todo += term.terms
        return found
