"""The solver (Z3): terms as its expressions, definitions that reach it layer by layer, and the obligations of one proof.

truth(bit), solved(word)     a term as an expression of the solver
Definitions                  name₁ = t₁,  name₂ = t₂(name₁),  …, revealed to the solver only as far as a proof needs them
Obligations                  facts in order: an obligation holds if no state satisfies the facts before it and violates it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import z3
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.terms import Term, Word, equal, known_result, negation, unknown

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


# -----------------------------------------------------------------------------
# Lazy definition refinement (counterexample-guided, CEGAR): names for terms, whose definitions reach the solver layer by layer.
#
#     name₁ = t₁,  name₂ = t₂(name₁),  …
#
# A formula over names that is unsatisfiable for arbitrary names is unsatisfiable for the defined ones. So the solver first has no
# definitions, then those of the names in the formula, then those of the names in these, and so on. A solution counts only once
# all definitions have been added.
#
# Words that are equal for a reason other than their structure, such as (x + y) − y and x, should have one name as well, or all terms
# made of them would differ. Random simulation finds candidates for equality; the solver proves them.

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


# -----------------------------------------------------------------------------
# Obligations: the assumptions of one proof and the formulas that it must show, in order, and their refutation by the solver.
#
#     facts = assumptions and obligations, in order;  an obligation holds if no state satisfies the facts before it and violates it
#
# If the assumptions contradict each other, every obligation holds and nothing is proved. So the solver is finally given all facts: a state that satisfies
# them is a witness that the end is reached.


class Undecided(Exception):
    """The solver reached its time limit."""


class Stuck(Exception):
    """No state reaches the end of the instruction: the core does not begin it, does not end it, or traps in all states."""


@dataclass(frozen=True)
class ProofResult:
    """The result of one proof. `counterexample`: words for which a location is not restored, or a trap occurs.

    `witnessed`: the solver has found a state that reaches the end of the instruction. For a dead core it soon proves that there is
    none. At 32 bits it may find neither where the words of long functions must fit.
    """

    opcode: str
    holds: bool
    seconds: float
    cycles: int
    counterexample: str = ""
    witnessed: bool = False


@dataclass
class Obligations:
    """The facts of one proof. An obligation must follow from all facts before it."""

    #: (name of the obligation, or "" for an assumption; the formula)
    facts: list[tuple[str, Word]] = field(default_factory=list)
    #: a state is known that reaches the end
    witnessed: bool = False

    @property
    def known(self) -> list[Word]:
        """All formulas, as if the obligations had been proved."""
        return [holds for _, holds in self.facts]

    def assume(self, holds: Word) -> None:
        """Add an assumption."""
        self.facts.append(("", holds))

    def oblige(self, what: str, holds: Word) -> None:
        """Add an obligation."""
        self.facts.append((what, holds))

    def refute(self, definitions: Definitions, seconds: float) -> str:
        """Words for which an obligation fails; or "". Raises Undecided at the limit of seconds, Stuck if the facts contradict each other."""
        known: list[Word] = []
        for what, holds in self.facts:
            if what and not _evident(holds, definitions, seconds):
                match definitions.check([*known, terms.negation(holds)], seconds):
                    case z3.ModelRef() as model:
                        return f"{what}: {model}"
                    case z3.unknown:
                        raise Undecided(f"undecided: {what}")
            known.append(holds)
        # Anything follows from contradictory facts: a state must exist that satisfies them.
        found = definitions.check(known, seconds)
        if found == z3.unsat:
            raise Stuck("traps in all states")
        self.witnessed = found != z3.unknown
        return ""


def _evident(holds: Word, definitions: Definitions, seconds: float) -> bool:
    """Whether the formula holds without any assumption."""
    return bool(definitions.check([terms.negation(holds)], seconds, 3) == z3.unsat)
