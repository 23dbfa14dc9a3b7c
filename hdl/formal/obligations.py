"""Obligations: the assumptions of one proof and the formulas that it must show, in order, and their refutation by the solver.

    facts = assumptions and obligations, in order;  an obligation holds if no state satisfies the facts before it and not itself

A proof of nothing is none: a state that satisfies all facts is looked for at the end, and witnesses that the end is reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import z3
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.terms import Word


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
