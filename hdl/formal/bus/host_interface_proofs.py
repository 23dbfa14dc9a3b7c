# amaranth: UnusedElaboratable=no
"""Bounded proofs of the host interface: from any of its states, while the core does anything, for all transfers of a few cycles.

    answered     each transfer ends within three cycles, with `ack` or `err`, and not with both
    refused      a transfer that ends with `err` leaves every register as it would be without the transfer, and changes no part of the core
    busy         while the core is busy, no transfer reaches its memories, PC, BR, DIR, cotangents or counters, sets modes, sizes or steps, or starts it
    halves       two halves that are written to a slot arrive together; two halves that are read are those of one moment
    other slot   a held half is dropped by a write to the low word of another slot
    stop         a command to stop is obeyed in the cycle of its answer
    zeroes       a command that sets words to zero writes zeros only, while the core is idle, within the sizes; no transfer reaches a memory meanwhile
    reset        the state after reset

A master holds a transfer until it is answered. The states are all states of the registers, so the bounds limit the transfers, and not the time
before them. `copies_proofs.py` proves the same of an interface with direct memory access, whether a copy goes on or not, and more of its copies;
`lanes_proofs.py` proves it of the interface of two lanes, and more of the slot LANE.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import z3
from retrograd.hdl.bus.host_interface import HostInterface
from retrograd.hdl.bus.register_map import UNLIMITED, HostRegister
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus.host_transfers import CYCLES, LINES, HostTransfers, any_of, implies
from retrograd.hdl.formal.obligations import ProofResult
from retrograd.hdl.formal.solving import truth
from retrograd.hdl.formal.terms import Word
from retrograd.isa.words import Format


class Fact(NamedTuple):
    """A formula that must hold wherever the premise does; the premise must be possible."""

    name: str
    holds: Word
    premise: Word = 1


class BusProver(HostTransfers):
    """The claims on the host interface of a co-processor of this format. `interface`: another one, to test that it is refuted."""

    #: the part in the names of claims
    part = "host interface"

    def __init__(self, w: Format, seconds: float = 60, interface: type[HostInterface] = HostInterface) -> None:
        super().__init__(w, interface)
        self.seconds = seconds

    def claims(self) -> dict[str, Callable[[], list[Fact]]]:
        """name -> the facts that must hold, made by executing the interface."""
        return {f"{self.part}: {name}": facts for name, facts in self._claims().items()}

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return {
            "answered": self._answered,
            "refused": self._refused,
            "busy": self._busy,
            "halves written": self._written,
            "halves read": self._read,
            "other slot": self._other_slot,
            "stop": self._stop,
            "zeroes": self._zeroes,
            "reset": self._reset,
        }

    def prove(self, name: str) -> ProofResult:
        """The result of one claim."""
        begun, wrong = time.monotonic(), ""
        # The premise of the last fact, which some state satisfies.
        possible: Word | None = None
        for fact in self.claims()[name]():
            solver = z3.Solver()
            solver.set("timeout", int(1000 * self.seconds))
            solver.add(truth(fact.premise))
            if fact.premise is not possible and solver.check() != z3.sat:
                wrong = f"{fact.name}: no state satisfies the premise"
                break
            possible = fact.premise
            solver.add(z3.Not(truth(fact.holds)))
            match solver.check():
                case z3.sat:
                    wrong = f"{fact.name}: {solver.model()}"
                    break
                case z3.unknown:
                    wrong = f"undecided: {fact.name}"
                    break
        return ProofResult(name, not wrong, time.monotonic() - begun, 0, wrong, not wrong)

    # ---------------------------------------------------------------- claims

    def _answered(self) -> list[Fact]:
        self._begin()
        found = self._transfer(*self._any_transfer())
        return [
            Fact("it is answered", terms.disjunction(found.acked, found.refused)),
            Fact("not by both", terms.negation(found.both)),
            self._acts_with_its_answer(),
        ]

    def _acts_with_its_answer(self) -> Fact:
        """In the cycle after any state, with anything on the bus."""
        hw = self.hardware
        hw.reset()
        hw.forget([])
        self._moment = 0
        lines = {f"bus__{name}": terms.unknown(name, width) for name, width in LINES.items()}
        hw.settle(**self._inputs({}), **lines)
        hw.tick()
        acts = terms.piece_of(hw.peek(self.interface.accepted.as_value()), 0, 1)
        return Fact("a write acts with its answer", implies(acts, hw.peek(self.interface.bus.ack)))

    def _refused(self) -> list[Fact]:
        self._begin()
        found, _, same, _ = self._beside_none(*self._any_transfer())
        premise = reduce(terms.conjunction, (self._rests(found), self._belongs(found.cycles[0]), found.refused))
        return [
            *(Fact("the registers", one, premise) for one in same),
            Fact("the core", terms.negation(found.changes), premise),
        ]

    def _busy(self) -> list[Fact]:
        return self._spared(idle=0)

    def _spared(self, **fixed: Word) -> list[Fact]:
        """No transfer reaches a core with these inputs, or, without any, a core while words are copied."""
        self._begin()
        hw = self.hardware
        hw.settle(**self._inputs({"begins": 0} | fixed), bus__cyc=0)
        kept = ("code_size", "data_size", "differentiate", "overflow", "strict", "run")
        before = {name: hw.peek(self.outputs[name]) for name in kept}
        transfer = self._any_transfer()
        found = self._transfer(*transfer, **fixed)
        busy = 1 if fixed else found.cycles[0]["copying"]
        after = self._outputs()
        facts = [
            Fact(f"{name} is kept", terms.equal(after[name], before[name], len(self.outputs[name])), busy)
            for name in kept
            if name != "run"
        ]
        started = terms.conjunction(self._stands(before), terms.negation(self._stands(after)))
        return [
            *facts,
            Fact("it is not started", terms.negation(started), busy),
            Fact("memories are refused", found.refused, terms.conjunction(busy, self._in_window(transfer[1]))),
            Fact("the core", terms.negation(found.reaches), busy),
        ]

    def _slots(self) -> tuple[Word, Word]:
        """The address of the low and of the high word of any slot."""
        slot = terms.unknown("slot", 29)
        return terms.joined([(0, 1), (slot, 29)]), terms.joined([(1, 1), (slot, 29)])

    def _written(self) -> list[Fact]:
        """Through the window, and by reading back the slot of steps."""
        low, high = self._slots()
        x, y = terms.unknown("x", 32), terms.unknown("y", 32)
        self._begin()
        first = self._transfer(1, high, x, idle=1)
        self._pause(idle=1)
        second = self._transfer(1, low, y, idle=1)
        whole = terms.joined([(y, 32), (x, 32)])
        through = [
            terms.disjunction(terms.negation(cycle["window.write"]), terms.equal(cycle["window.written"], whole, 64))
            for cycle in second.cycles
        ]
        acked = terms.conjunction(first.acked, second.acked)
        wrote = terms.conjunction(acked, any_of(cycle["window.write"] for cycle in second.cycles))
        facts = [Fact("through the window", reduce(terms.conjunction, through), wrote)]
        self._begin()
        steps = HostRegister.STEPS.value * 2
        idle = {"idle": 1, "begins": 0, "halts": 0, "traps": 0}
        writes = [self._transfer(1, steps + 1, x, **idle), self._transfer(1, steps, y, **idle)]
        reads = [self._transfer(0, steps, 0, **idle), self._transfer(0, steps + 1, 0, **idle)]
        acked = reduce(terms.conjunction, [one.acked for one in (*writes, *reads)])
        back = terms.conjunction(terms.equal(reads[0].data, y, 32), terms.equal(reads[1].data, x, 32))
        return [*facts, Fact("read back", back, acked)]

    def _read(self) -> list[Fact]:
        """The cycles, which change while the halves are read; and any word of the window."""
        facts = []
        self._begin()
        counter = HostRegister.CYCLES.value * 2
        low = self._transfer(0, counter, 0)
        moments = [terms.unknown(f"counters__0@{k + 1}", 64) for k in range(CYCLES)]
        self._pause()
        high = self._transfer(0, counter + 1, 0)
        whole = terms.joined([(low.data, 32), (high.data, 32)])
        one = any_of(terms.equal(whole, moment, 64) for moment in moments)
        facts.append(Fact("the cycles", one, terms.conjunction(low.acked, high.acked)))
        self._begin()
        word = terms.unknown("word", 64)
        first, second = self._slots()
        in_window = self._in_window(first)
        # The core holds the word that was read until the next read.
        low = self._transfer(0, first, 0, idle=1, window__data=word)
        high = self._transfer(0, second, 0, idle=1)
        whole = terms.joined([(low.data, 32), (high.data, 32)])
        acked = reduce(terms.conjunction, (low.acked, high.acked, in_window))
        return [*facts, Fact("the window", terms.equal(whole, word, 64), acked)]

    def _other_slot(self) -> list[Fact]:
        self._begin()
        _, high = self._slots()
        other = terms.unknown("other", 29)
        x, y = terms.unknown("x", 32), terms.unknown("y", 32)
        differs = terms.negation(terms.equal(other, terms.part(high, 1, 29), 29))
        first = self._transfer(1, high, x, idle=1)
        second = self._transfer(1, terms.joined([(0, 1), (other, 29)]), y, idle=1)
        alone = terms.joined([(y, 32), (0, 32)])
        through = [
            terms.disjunction(terms.negation(cycle["window.write"]), terms.equal(cycle["window.written"], alone, 64))
            for cycle in second.cycles
        ]
        wrote = any_of(cycle["window.write"] for cycle in second.cycles)
        premise = reduce(terms.conjunction, (differs, first.acked, second.acked, wrote))
        return [Fact("its high half is 0", reduce(terms.conjunction, through), premise)]

    def _stop(self) -> list[Fact]:
        """Also in a cycle in which an instruction begins."""
        self._begin()
        found = self._transfer(1, HostRegister.CONTROL.value * 2, 4)
        after = {"run": self.hardware.peek(self.outputs["run"])}
        return [Fact("it is accepted", found.acked), Fact("it stops", self._stands(after))]

    def _zeroes(self) -> list[Fact]:
        self._begin()
        hw, (_, adr, *_) = self.hardware, self._any_transfer()
        hw.settle(**self._inputs({}), bus__cyc=0)
        goes_on = hw.peek(self.outputs["zeroing"])
        self._moment = 0
        found = self._transfer(*self._any_transfer())
        facts = []
        for k, cycle in enumerate(found.cycles[1:], 2):
            space, at = cycle["window.space"], cycle["window.address"]
            sizes = [
                terms.joined([(cycle[name], n), (0, 32 - n)])
                for name in ("data_size", "register_size")
                for n in [len(self.outputs[name])]
            ]
            size = terms.choice(terms.piece_of(space, 1, 1), sizes[0], sizes[1], 32)
            less = terms.apply("u<", 1, [32, 32], [at, size])
            inside = terms.conjunction(terms.negation(terms.piece_of(space, 2, 1)), less)
            holds = [terms.equal(cycle["window.written"], 0, 64), terms.unknown(f"idle@{k}", 1), inside]
            facts += [
                Fact(f"{name}, cycle {k}", one, cycle["zeroed"])
                for name, one in zip(("the word", "an idle core", "the place"), holds, strict=True)
            ]
        return [
            Fact("transfers are refused", found.refused, terms.conjunction(goes_on, self._in_window(adr))),
            *facts,
            Fact("the core", terms.negation(found.reaches), goes_on),
        ]

    def _reset(self) -> list[Fact]:
        hw, p = self.hardware, self.interface.parameters
        hw.reset()
        hw.settle(bus__cyc=0)
        expected = {
            "run": 0,
            "code_size": p.code_words,
            "data_size": p.data_words,
            "differentiate": 0,
            "overflow": 0,
            "strict": 0,
        } | ({"copying": 0, "memory.cyc": 0} if self.dma else {})
        facts = [
            Fact(name, terms.equal(hw.peek(self.outputs[name]), word, len(self.outputs[name])))
            for name, word in expected.items()
        ]
        low = self._transfer(0, HostRegister.STEPS.value * 2, 0)
        high = self._transfer(0, HostRegister.STEPS.value * 2 + 1, 0)
        return [*facts, Fact("steps", terms.equal(terms.joined([(low.data, 32), (high.data, 32)]), UNLIMITED, 64))]
