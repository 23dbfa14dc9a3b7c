"""Lazy definition refinement (counterexample-guided, CEGAR): names for terms, whose definitions reach the solver layer by layer.

    name₁ = t₁,  name₂ = t₂(name₁),  …

A formula over names that is unsatisfiable for arbitrary names is unsatisfiable for the defined ones. So the solver first has no
definitions, then those of the names in the formula, then those of the names in these, and so on. A solution counts only once
all definitions have been added.

Words that are equal for a reason other than their structure, such as (x + y) − y and x, should have one name as well, or all terms
made of them would differ. Random simulation finds candidates for equality; the solver proves them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import z3
from retrograd.hdl.formal.solving import RandomValues, solved, truth
from retrograd.hdl.formal.terms import Term, Word, equal, negation, unknown

#: limits for a proof that two names are equal: layers of definitions, and seconds
_DEPTH, _SECONDS = 4, 5.0
#: random assignments: enough that two different bits seldom agree in all of them
_DRAWS = 32


class Definitions:
    """Names of terms; terms that are equal have one name."""

    def __init__(self) -> None:
        #: term -> its name
        self._names: dict[Term, Term] = {}
        #: name -> the term
        self._terms: dict[Term, Term] = {}
        #: candidates for equality with a new term; and the evaluated ones by their random values
        self._words: list[Term] = []
        self._alike: dict[tuple[int, ...], list[Term]] = {}
        self._sample = RandomValues(_DRAWS, self._terms)
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
        """A word that was read from a memory may be its result after a round trip: add it to the candidates."""
        todo = [term]
        while todo:
            one = todo.pop()
            if one not in self._looked_at:
                self._looked_at.add(one)
                if one.operator == "select":
                    self.mean(one)
                todo += one.terms

    def mean(self, word: Term) -> None:
        """Add a candidate: later terms may be equal to this word."""
        self._words.append(word)

    def recognised(self, term: Term) -> Term:
        """The name of a term, or an earlier word that is proved to be equal to it."""
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
        """A model of all formulas, or `unsat`; `unknown` if `seconds` or `depth` layers of definitions do not suffice.

        A formula is a word of one bit.
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
        """The names in the terms that are not in `seen`."""
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
