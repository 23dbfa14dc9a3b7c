# amaranth: UnusedElaboratable=no
"""Proofs of the core `lanes`: the step of a lane beside another lane, the mask of a lane, the order of lanes, and the host interface.

step     chosen  ⇒  the step of the lane is the table's, in any state of the other lane
mask     masked  ⇒  a cycle changes nothing of the lane, which stays masked until it is chosen
order    a lane executes  ⇔  it is able to begin, and no lane that is able to begin stands before it
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from itertools import product

from amaranth.hdl import Signal
from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.core.core import Lane
from retrograd.hdl.core.cores import lanes_of
from retrograd.hdl.core.lanes import LanesCore
from retrograd.hdl.core.sequencer import Phase
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus_proofs import BusProver, Fact
from retrograd.hdl.formal.core_execution import STORES, CoreExecution
from retrograd.hdl.formal.solving import Definitions, Obligations, ProofResult, Undecided
from retrograd.hdl.formal.symbolic import Hook, Symbolic
from retrograd.hdl.formal.terms import Word
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.entries import Opcode
from retrograd.isa.microarchitecture.lanes import DEPTH, LANES
from retrograd.isa.words import Format

# -----------------------------------------------------------------------------
# A lane executed on terms, beside another lane in any state.
#
# PC, DIR and depth of the other lane, the cycles in which it leaves an instruction, and whether it may begin one are arbitrary in each cycle.
# A step ends once the lane takes no part. The sequencer may then go on for the other lane. By the claims on the mask the lane keeps its
# state until it is chosen again.

#: lanes of the core that is executed
COUNT = 2


def arbitrary(lanes: LanesCore, own: int) -> list[Signal]:
    """The signals by which the other lanes act on a lane."""
    return [
        signal
        for i, lane in enumerate(lanes.lanes)
        if i != own
        for signal in (lane.branch.pc, lane.branch.backward, lanes.depths[i], lanes.leaves[i])
    ]


def kept(lane: Lane) -> dict[str, Signal]:
    """The registers of a lane that hold its state between instructions."""
    branch, tracker = lane.branch, lane.ledger
    return {
        "PC": branch.pc, "BR": branch.br, "DIR": branch.backward, "reversals": branch.turned, "crossings": tracker.crossed,
        "the last loss": tracker.lost, "whether there is one": tracker.known, "its direction": tracker.lost_turned,
    }  # fmt: skip


def with_bit(word: Word, lane: int, bit: int) -> Word:
    """The word of a bit for each lane, with the bit of this lane."""
    pieces = [(bit if i == lane else terms.piece_of(word, i, 1), 1) for i in range(COUNT)]
    return terms.joined(pieces)


class LaneExecution(CoreExecution):
    """A lane of a core of one format: the first, unless another is given."""

    def __init__(
        self, w: Format, microcode: Microcode | None = None, seconds: float = 60, core_name: str = LANES, own: int = 0
    ) -> None:
        self.own, self.inside = own, f"lane{own}."
        self._drawn = 0
        #: the arbitrary words of this cycle
        self._now: dict[int, Word] = {}
        super().__init__(w, microcode, seconds, core_name)

    def _made(self, p: Parameters, microcode: Microcode | None) -> tuple[LanesCore, Lane]:
        self.lanes = lanes_of(replace(p, lanes=COUNT), microcode)
        return self.lanes, self.lanes.lanes[self.own]

    def _own_hooks(self) -> list[tuple[Signal, Hook]]:
        return [(self.lanes.chosen, self._chosen)]

    def _given(self) -> list[tuple[Signal, Callable[[], Word]]]:
        others = enumerate(arbitrary(self.lanes, self.own))
        return [(signal, partial(self._of_other, k, len(signal))) for k, signal in others]

    def _of_other(self, k: int, width: int) -> Word:
        """An arbitrary word in each cycle."""
        if k not in self._now:
            self._now[k] = self._any(width)
        return self._now[k]

    def _any(self, width: int) -> Word:
        self._drawn += 1
        return terms.unknown(f"other{self._drawn}", width)

    def _chosen(self, word: Word) -> Word:
        """At the fetch of this lane's instruction assume that the lane is chosen."""
        if self.hardware.peek(self.core.phase) != Phase.FETCH.value:
            return word
        self.run.assume(terms.piece_of(word, self.own, 1))
        return with_bit(word, self.own, 1)

    def _selection(self) -> dict[str, Word]:
        return {"selected": self.own}

    def _run(self, runs: bool) -> Word:
        """The other lane may begin instructions or not."""
        return with_bit(self._any(COUNT), self.own, int(runs))

    def _advance(self) -> None:
        hw, fetches = self.hardware, self.hardware.peek(self.core.phase) == Phase.FETCH.value
        super()._advance()
        self._now.clear()
        if fetches:
            # The instruction is executed in the direction of this lane.
            own, direction = hw.peek(self.core.backward), self.lanes.backwards
            self.run.oblige("the direction", terms.equal(hw.peek(direction), own, 1))
            hw.poke(direction, own)

    def step(self, opcode: Opcode) -> int:
        """Execute one instruction of the lane. Before its next one the other lane may execute any number."""
        cycles = super().step(opcode)
        hw, core = self.hardware, self.core
        hw.forget(kept(core).values())
        hw.poke(core.phase, Phase.IDLE.value)
        hw.settle(run=0)
        hw.tick()
        return cycles

    def _ended(self) -> bool:
        """Whether it takes no part from now on: it has left, or the sequencer is between two instructions."""
        hw = self.hardware
        phase, live = hw.peek(self.core.phase), hw.peek(self.lanes.live)
        between = [terms.equal(phase, p.value, len(self.core.phase)) for p in (Phase.IDLE, Phase.FETCH)]
        if isinstance(phase, int) and not any(between):
            return False
        left = terms.negation(terms.piece_of(live, self.own, 1))
        self.run.oblige("no other trap", terms.negation(hw.peek(self.core.traps)))
        self.run.oblige("the instruction goes on", terms.disjunction(left, terms.disjunction(*between)))
        return True


# -----------------------------------------------------------------------------
# The order of lanes, for every number of lanes in COUNTS.
#
#     before(j, i)  =  depth j > depth i,  or depths are equal and  (j forward and i backward,  or both directions are equal and j is behind)
#
# A lane is behind another if its PC is less, or, backward, greater. PC counts modulo the size of the code memory. Depth counts the calls that a
# lane is in; it wraps around after 2^DEPTH. All depths, directions, PCs and sets of lanes that are able to begin are covered.

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


# -----------------------------------------------------------------------------
# The host interface of two lanes: the claims of every interface, and two on the slot LANE.
#
#     lane        a write to LANE chooses the lane that is seen, and whether writes and commands go to all; no other transfer changes either;
#                 the number is that of a lane
#     commands    a command to run or to step starts the lanes that it goes to, and no other


_ALL, _INDEX = HostRegister.LANE.field("all").low, HostRegister.LANE.field("index").width
#: the commands that start a lane
_RUN, _STEP = (HostRegister.CONTROL.field(name).mask for name in ("run", "step"))


class LanesBusProver(BusProver):
    """The claims on the host interface of a core with two lanes."""

    part, core, lanes = "host interface of lanes", LANES, 2

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return super()._claims() | {"lane": self._lane, "commands": self._commands}

    def _chosen(self) -> tuple[Word, Word]:
        """The lane that is seen, and whether commands go to all lanes."""
        seen = self.hardware.peek(self.outputs["selected"])
        return seen, terms.piece_of(self.hardware.peek(self.outputs["lane"]), 8, 1)

    def _exists(self) -> Word:
        """Whether the number of the lane that is seen is that of a lane."""
        index = terms.piece_of(self.hardware.peek(self.outputs["lane"]), 0, _INDEX)
        return terms.apply("u<", 1, [_INDEX, _INDEX], [index, self.lanes])

    def _lane(self) -> list[Fact]:
        self._begin()
        self.hardware.settle(**self._inputs({}), bus__cyc=0)
        before, existed = self._chosen(), self._exists()
        self._moment = 0
        we, adr, dat, sel = self._any_transfer()
        found = self._transfer(we, adr, dat, sel)
        after = self._chosen()
        is_lane = terms.equal(adr, HostRegister.LANE.value * 2, 30)
        written = reduce(terms.conjunction, (found.acked, we, is_lane))
        # A number that is too large means the last lane.
        first = terms.equal(terms.piece_of(dat, 0, _INDEX), 0, _INDEX)
        pairs = zip(
            ("the lane", "all"), before, after, (terms.negation(first), terms.piece_of(dat, _ALL, 1)), strict=True
        )
        return [
            Fact("it exists", self._exists(), existed),
            *(
                fact
                for name, old, new, given in pairs
                for fact in (
                    Fact(f"{name} is chosen", terms.equal(new, given, 1), written),
                    Fact(f"{name} is kept", terms.equal(new, old, 1), terms.negation(written)),
                )
            ),
        ]

    def _commands(self) -> list[Fact]:
        """To an idle core whose lanes neither begin, nor halt, nor trap meanwhile. With STEPS = 0 a command to run starts no lane."""
        facts = []
        for name, command in (("run", _RUN), ("step", _STEP)):
            self._begin()
            still: dict[str, Word] = {"idle": 1, "begins": 0, "halts": 0, "traps": 0}
            self.hardware.settle(**self._inputs(still), bus__cyc=0)
            stood, (seen, every) = terms.conjunction(self._stands(self._outputs()), self._exists()), self._chosen()
            self._moment = 0
            found = self._transfer(1, HostRegister.CONTROL.value * 2, command, **still)
            run = self.hardware.peek(self.outputs["run"])
            runs = [terms.piece_of(run, i, 1) for i in range(self.lanes)]
            meant = [terms.disjunction(every, terms.equal(seen, i, 1)) for i in range(self.lanes)]
            premise = terms.conjunction(stood, found.acked)
            started = terms.conjunction(premise, terms.negation(self._stands({"run": run})))
            facts += [
                Fact(f"{name} starts lane {i}", terms.equal(one, asked, 1), premise if name == "step" else started)
                for i, (one, asked) in enumerate(zip(runs, meant, strict=True))
            ]
        return facts


# -----------------------------------------------------------------------------
# The mask of a lane: one cycle in each phase, from any state of all registers.
#
# By induction over the cycles the lane keeps its state until it is chosen.

#: name of the part, as the command line takes it
MASK = "mask"


class MaskProver:
    """The claims on a lane that does not execute the instruction, for one cycle in each phase and from any state of all registers.

    The host gives no command, and accesses no memory of an idle core. The count of toggled bits is late by three cycles, and is not claimed.
    """

    def __init__(self, w: Format, seconds: float = 60) -> None:
        self.seconds = seconds
        self.lanes = lanes_of(Parameters(w, code_words=8, data_words=4, core=LANES, lanes=COUNT))
        self._hardware: dict[int, Symbolic] = {}
        self._drawn = 0

    def claims(self) -> list[str]:
        """The names of all claims."""
        return [f"lane {i}: {phase.name.lower()}" for i, phase in product(range(COUNT), Phase)]

    def prove(self, name: str) -> ProofResult:
        """Prove a claim. A claim that the solver does not decide in time does not hold."""
        begun, claims = time.monotonic(), self.claims()
        i, phase = [*product(range(COUNT), Phase)][claims.index(name)]
        facts, definitions = Obligations(), Definitions()
        self._cycle(facts, i, phase)
        try:
            wrong = facts.refute(definitions, self.seconds)
        except Undecided as error:
            wrong = str(error)
        return ProofResult(name, not wrong, time.monotonic() - begun, 1, wrong, facts.witnessed)

    def _of(self, i: int) -> Symbolic:
        """The hardware on which lane i depends."""
        if i not in self._hardware:
            lanes, lane = self.lanes, self.lanes.lanes[i]
            units = [unit.result for unit in lane.multipliers.values()] + [
                unit.result for unit in lane.dividers.values()
            ]
            ports = lane.traps, lane.halts, lane.phase, *lane.counters
            roots = [*ports, lanes.live, lanes.depths[i], *kept(lane).values()]
            free = [(signal, partial(self._any, len(signal))) for signal in (*arbitrary(lanes, i), *units)]
            self._hardware[i] = Symbolic(lanes, roots, given=free, inside=f"lane{i}.")
        return self._hardware[i]

    def _any(self, width: int) -> Word:
        self._drawn += 1
        return terms.unknown(f"any{self._drawn}", width)

    def _state(self, i: int) -> dict[str, tuple[Word, int]]:
        """The state of lane i, name -> (word, width); of each memory one arbitrary word."""
        hw, lane = self._of(i), self.lanes.lanes[i]
        signals = kept(lane) | {"depth": self.lanes.depths[i]}
        signals |= {f"counter {k}": lane.counters[k] for k in (0, 1, 3)}
        found: dict[str, tuple[Word, int]] = {name: (hw.peek(signal), len(signal)) for name, signal in signals.items()}
        for store in STORES:
            words = hw.memory(store)
            found[store] = terms.selected(words, terms.unknown(f"any of {store}", words.address)), words.width
        return found

    def _cycle(self, facts: Obligations, i: int, phase: Phase) -> None:
        """One cycle from any state in this phase."""
        hw, lanes, lane = self._of(i), self.lanes, self.lanes.lanes[i]
        hw.reset()
        hw.poke(lane.phase, phase.value)
        hw.forget([lane.phase])
        executes = phase not in (Phase.IDLE, Phase.FETCH)
        if executes:
            hw.poke(lanes.live, with_bit(self._any(COUNT), i, 0))
        for store in (*STORES, "code"):
            hw.unknown(store)
        ports = {name: width for name, (_, width) in hw.cells[0].ports_i.items() if not name.startswith("settings__")}
        for name in ("clk", "rst", *(("window__read", "window__write") if phase is Phase.IDLE else ())):
            del ports[name]
        hw.settle(**{name: self._any(width) for name, width in ports.items()})
        before, chosen = self._state(i), terms.piece_of(hw.peek(lanes.chosen), i, 1)
        hw.tick()
        for name, (word, width) in self._state(i).items():
            facts.oblige(name, terms.equal(word, before[name][0], width))
        if phase is not Phase.IDLE:
            live = terms.piece_of(hw.peek(lanes.live), i, 1)
            facts.oblige("the mask", terms.equal(live, 0 if executes else chosen, 1))
        facts.oblige("no trap", terms.negation(hw.peek(lane.traps)))
        facts.oblige("no end", terms.negation(hw.peek(lane.halts)))
