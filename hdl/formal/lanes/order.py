"""The order of lanes: which lanes of the core `lanes` execute the next instruction, for every number of lanes in COUNTS.

    a lane executes  ⇔  it is able to begin, and no lane that is able to begin stands before it

    before(j, i)  =  depth j > depth i,  or depths are equal and  (j forward and i backward,  or both directions are equal and j is behind)

A lane is behind another if its PC is less, or, backward, greater. PC counts modulo the size of the code memory. Depth counts the calls that a
lane is in; it wraps around after 2^DEPTH. All depths, directions, PCs and sets of lanes that are able to begin are covered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, reduce

from amaranth.hdl import Signal
from retrograd.hdl.core.cores import lanes_of
from retrograd.hdl.core.lanes import LanesCore
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.lazy_definitions import Definitions
from retrograd.hdl.formal.obligations import Obligations, ProofResult, Undecided
from retrograd.hdl.formal.symbolic import Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import DEPTH, LANES
from retrograd.isa.words import Format

#: name of the part, as the command line takes it
ORDER = "order"
#: numbers of lanes for which the order is proved
COUNTS = (2, 3, 4, 8)


class OrderProver:
    """The claims on the choice of lanes."""

    def __init__(self, w: Format, seconds: float = 60) -> None:
        self.w, self.seconds = w, seconds
        #: number of lanes -> the choice among them
        self._choices: dict[int, Choice] = {}

    def claims(self) -> list[str]:
        """The names of all claims."""
        return [f"order of {count} lanes: lane {i}" for count in COUNTS for i in range(count)] + [
            f"order of {count} lanes: some lane is first" for count in COUNTS
        ]

    def prove(self, name: str) -> ProofResult:
        """Prove a claim. A claim that the solver does not decide in time does not hold."""
        begun, facts = time.monotonic(), Obligations()
        head, what = name.split(": ")
        count = int(head.split()[2])
        choice = self._choice(count)
        if what.startswith("lane "):
            i = int(what.split()[1])
            facts.oblige("it executes", terms.equal(choice.chosen(i), choice.first(i), 1))
        else:
            some = reduce(terms.disjunction, map(choice.chosen, range(count)))
            able = reduce(terms.disjunction, map(choice.able, range(count)))
            facts.oblige("some lane executes", terms.equal(some, able, 1))
        try:
            wrong = facts.refute(Definitions(), self.seconds)
        except Undecided as error:
            wrong = str(error)
        return ProofResult(name, not wrong, time.monotonic() - begun, 0, wrong, facts.witnessed)

    def _choice(self, count: int) -> Choice:
        if count not in self._choices:
            parameters = Parameters(self.w, code_words=64, data_words=4, core=LANES, lanes=count)
            self._choices[count] = Choice(lanes_of(parameters))
        return self._choices[count]


class Choice:
    """The choice of the core, and that of the order, where the state of each lane is arbitrary."""

    def __init__(self, lanes: LanesCore) -> None:
        self.count, self.bits = len(lanes.lanes), (lanes.parameters.code_words - 1).bit_length()
        given: list[tuple[Signal, Callable[[], Word]]] = [(lanes.able, partial(terms.unknown, "able", self.count))]
        self.pcs: list[Word] = []
        for i, lane in enumerate(lanes.lanes):
            given += [
                (signal, partial(terms.unknown, f"{name}{i}", len(signal)))
                for name, signal in (("pc", lane.branch.pc), ("back", lane.branch.backward), ("depth", lanes.depths[i]))
            ]
            self.pcs.append(terms.piece_of(terms.unknown(f"pc{i}", len(lane.branch.pc)), 0, self.bits))
        hw = Symbolic(lanes, [lanes.chosen], given=given)
        hw.reset()
        hw.settle()
        self._chosen = hw.peek(lanes.chosen)

    def chosen(self, i: int) -> Word:
        """Whether the core has lane i execute the next instruction."""
        return terms.piece_of(self._chosen, i, 1)

    def able(self, i: int) -> Word:
        """Whether lane i may begin an instruction."""
        return terms.piece_of(terms.unknown("able", self.count), i, 1)

    def first(self, i: int) -> Word:
        """Whether lane i may begin an instruction and no lane that may stands before it."""
        behind = [terms.negation(terms.conjunction(self.able(j), self.before(j, i))) for j in range(self.count)]
        return reduce(terms.conjunction, behind, self.able(i))

    def before(self, j: int, i: int) -> Word:
        """Whether lane j goes before lane i."""
        depth_j, depth_i = (terms.unknown(f"depth{k}", DEPTH) for k in (j, i))
        back_j, back_i = (terms.unknown(f"back{k}", 1) for k in (j, i))
        at_j, at_i = self.pcs[j], self.pcs[i]
        behind = terms.choice(back_i, _less(at_i, at_j, self.bits), _less(at_j, at_i, self.bits), 1)
        turned = terms.conjunction(terms.negation(back_j), back_i)
        along = terms.disjunction(turned, terms.conjunction(terms.equal(back_j, back_i, 1), behind))
        level = terms.equal(depth_j, depth_i, DEPTH)
        return terms.disjunction(_less(depth_i, depth_j, DEPTH), terms.conjunction(level, along))


def _less(x: Word, y: Word, width: int) -> Word:
    return terms.apply("u<", 1, [width, width], [x, y])
