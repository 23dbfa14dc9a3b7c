# amaranth: UnusedElaboratable=no
"""Bounded proofs of the host interface with direct memory access: all its claims, whether a copy goes on or not, and claims on a copy.

    one at a time     a run, a copy and a command of zeros exclude each other, and a transfer to the host's memory belongs to a copy
    core in a copy    no transfer reaches the core during a copy, as while the core is busy; transfers to its memories and to STREAM are refused
    words of a copy   a copy has the same words, at the same places and times, with and without a transfer that is no command to stop
    slots in a copy   a write that is accepted during a copy has its effect on the slot that it names, and on no other register
    stop of a copy    a command to stop during a copy is accepted, and the copy ends at the end of a word; two more words at most are copied, and
                      these are words of the whole copy

A word of a copy counts as no access of a transfer, so the claims of `host_interface_proofs.py` need no premise about copies.
`refused` has a premise that `one at a time` proves of every state that is reached: a transfer to the host's memory belongs to a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from retrograd.hdl.bus.register_map import HostRegister
from retrograd.hdl.formal import terms
from retrograd.hdl.formal.bus.dma_proofs import TRANSFER
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver, Fact
from retrograd.hdl.formal.bus.host_transfers import Transfer
from retrograd.hdl.formal.terms import Word

#: cycles in which a copy ends that was stopped, behind the cycles of the command, if the memory answers each transfer at once
_ENDING = 5
#: words that are still copied: the word of the transfer that is under way, and the word that is announced
_MORE = 2
#: outputs of a copy's words and transfers: the signal that is high, and the signals that then count
_WORDS = {
    "writes": ("window.space", "window.address", "window.written"),
    "reads": ("window.read_space", "window.read_address"),
    "memory.cyc": tuple(f"memory.{name}" for name in TRANSFER),
}

_Cycles = list[dict[str, Word]]


class CopyingBusProver(BusProver):
    """The claims on the host interface of a co-processor with direct memory access."""

    part, dma = "host interface with copies", True

    def _claims(self) -> dict[str, Callable[[], list[Fact]]]:
        return super()._claims() | {
            "one at a time": self._one_at_a_time,
            "core in a copy": self._spared,
            "words of a copy": self._words,
            "slots in a copy": self._named_slot,
            "stop of a copy": self._copy_stops,
        }

    def _one_at_a_time(self) -> list[Fact]:
        """After each transfer, if before it. So, by induction over transfers from the state after reset on, it holds always."""
        self._begin()
        found = self._transfer(*self._any_transfer())
        first, *others = (self._exclusive(found, k) for k in range(len(found.cycles)))
        premise = terms.conjunction(first, self._rests(found))
        return [Fact(f"cycle {k}", holds, premise) for k, holds in enumerate(others, 2)]

    def _exclusive(self, found: Transfer, k: int) -> Word:
        cycle, idle = found.cycles[k], terms.unknown(f"idle@{k + 1}", 1)
        runs = terms.negation(terms.conjunction(self._stands(cycle), idle))
        pairs = ((runs, cycle["copying"]), (runs, cycle["zeroing"]), (cycle["copying"], cycle["zeroing"]))
        return reduce(
            terms.conjunction, [terms.negation(terms.conjunction(*pair)) for pair in pairs], self._belongs(cycle)
        )

    def _words(self) -> list[Fact]:
        self._begin()
        transfer = self._any_transfer()
        found, none, *_ = self._beside_none(*transfer)
        premise = terms.conjunction(_copies_alone(found), terms.negation(_stops(found, *transfer)))
        return [
            *self._no_other_words(found.cycles, none.cycles, premise, "none is added or changed"),
            *self._no_other_words(none.cycles, found.cycles, premise, "none is lost"),
        ]

    def _no_other_words(self, cycles: _Cycles, others: _Cycles, premise: Word, name: str, but: str = "") -> list[Fact]:
        """Each word of some cycles is also one of the others. `but`: an output that may differ."""
        facts = []
        for high, names in _WORDS.items():
            widths = {name: len(self.outputs[name]) for name in names if name != but}
            holds: Word = 1
            for cycle, other in zip(cycles, others, strict=True):
                same = [terms.equal(cycle[name], other[name], width) for name, width in widths.items()]
                also = reduce(terms.conjunction, same, other[high])
                holds = terms.conjunction(holds, terms.disjunction(terms.negation(cycle[high]), also))
            begun = reduce(terms.disjunction, [cycle[high] for cycle in cycles])
            facts.append(Fact(f"{name}: {high}", holds, terms.conjunction(premise, begun)))
        return facts

    def _named_slot(self) -> list[Fact]:
        part, (_, adr, dat, sel) = self.interface, self._any_transfer()
        but = [part.waiting.as_value(), part.enabled.as_value(), part.pending.as_value()]
        bits = len(but[-1])
        events = terms.part(dat, 0, bits)
        others = terms.apply("~", bits, [bits], [events])
        to_enable, to_clear = (
            _is_slot(adr, slot) for slot in (HostRegister.INTERRUPT_ENABLE, HostRegister.INTERRUPT_CLEAR)
        )
        self._begin()
        found, _, same, pairs = self._beside_none(1, adr, dat, sel, but=but)
        waiting, enabled, pending = (terms.equal(*pair, len(signal)) for pair, signal in zip(pairs, but, strict=True))
        copies = _copies_alone(found)
        enables, clears = (reduce(terms.conjunction, (copies, found.acked, slot)) for slot in (to_enable, to_clear))
        changed = terms.apply("^", bits, [bits, bits], pairs[2])
        kept = [
            *(("other registers", one, _stops(found, 1, adr, dat, sel)) for one in same),
            ("the held half", waiting, found.acked),
            ("no other write enables events", enabled, enables),
            ("no other write clears events", pending, terms.disjunction(clears, _stops(found, 1, adr, dat, sel))),
        ]
        facts = [Fact(name, holds, terms.conjunction(copies, terms.negation(unless))) for name, holds, unless in kept]
        # A memory that does not answer causes no event.
        self._begin()
        waits = self._transfer(1, adr, dat, sel, idle=1, begins=0, halts=0, traps=0, memory__ack=0, memory__err=0)
        first = waits.cycles[0]
        cleared = reduce(terms.conjunction, (_copies_alone(waits), first["memory.cyc"], waits.acked, to_clear))
        left = self.hardware.peek(part.pending.as_value())
        return [
            *facts,
            Fact("events are enabled", terms.equal(pairs[1][0], events, bits), enables),
            Fact("events are cleared", _none_of(events, left, bits), cleared),
            Fact("other events are kept", _none_of(others, changed, bits), clears),
        ]

    def _copy_stops(self) -> list[Fact]:
        self._begin()
        before = dict(self.hardware.words)
        runs = []
        for active in (1, 0):
            self.hardware.restore(before)
            self._moment = 0
            found = self._transfer(1, HostRegister.CONTROL.value * 2, 4, active=active)
            behind = [self._pause(memory__ack=1, memory__err=0) for _ in range(_ENDING + 1)]
            runs.append((found, [*found.cycles, found.behind, *behind]))
        (found, cycles), (_, none) = runs
        width, first = len(self.outputs["copy.length"]), cycles[0]
        more = terms.subtract(cycles[2]["copy.length"], cycles[-1]["copy.length"], width)
        premise = terms.conjunction(_copies_alone(found), self._belongs(first))
        return [
            Fact("it is accepted", found.acked, first["copying"]),
            Fact("the copy ends", terms.negation(cycles[-1]["copying"]), premise),
            Fact("two words at most", terms.apply("u<", 1, [width, width], [more, _MORE + 1]), premise),
            # The memory may have refused a word before.
            Fact(
                "at the end of a word",
                terms.negation(cycles[-1]["copy.high"]),
                terms.conjunction(premise, cycles[-_ENDING - 1]["copying"]),
            ),
            # The kind of a transfer announces the end of a burst.
            *self._no_other_words(cycles, none, premise, "no other words", but="memory.cti"),
        ]


def _copies_alone(found: Transfer) -> Word:
    """Whether a copy goes on as the transfer begins, and no words are set to zero."""
    return terms.conjunction(found.cycles[0]["copying"], terms.negation(found.cycles[0]["zeroing"]))


def _stops(found: Transfer, we: Word, adr: Word, dat: Word, sel: Word) -> Word:
    """Whether the transfer is an accepted command to stop."""
    return reduce(terms.conjunction, (found.acked, we, _is_slot(adr, HostRegister.CONTROL), terms.piece_of(dat, 2, 1)))


def _is_slot(adr: Word, slot: HostRegister) -> Word:
    """Whether the address is that of the low word of the slot."""
    return terms.equal(adr, slot.value * 2, 30)


def _none_of(x: Word, y: Word, width: int) -> Word:
    """Whether no bit of x is high in y."""
    return terms.equal(terms.apply("&", width, [width, width], [x, y]), 0, width)
