"""The host interface, without and with direct memory access, and that access as a master of its bus: proofs from any state, and faults that must be refuted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.bus import host_interface
from retrograd.hdl.formal.bus_proofs import BusProver, CopyingBusProver, CopyProver
from retrograd.isa.words import Format

Q8 = Format(8, 4)
Plant = Callable[[str, str, str], type]


@pytest.mark.long
@pytest.mark.parametrize("width", [8, pytest.param(64, marks=pytest.mark.long)])
@pytest.mark.parametrize("prover_of", [BusProver, CopyingBusProver])
def test_every_claim(prover_of: type[BusProver], width: int) -> None:
    prover = prover_of(Format(width, width // 2))
    for name in prover.claims():
        found = prover.prove(name)
        assert (found.holds, found.witnessed) == (True, True), (name, found.counterexample)


#: (its source, the planted source, the claim that refutes it, the fact that fails)
FAULTS = [
    # a transfer with no end
    ("waits: Value = in_window & ~waited[-1]", "waits: Value = in_window & 1", "answered", "it is answered"),
    # a refused write is held
    ("with m.If(~allowed):\n                m.d.sync += bus.err.eq(1)", "with m.If(~allowed):\n                m.d.sync += [bus.err.eq(1), waiting.valid.eq(0)]", "refused", "the registers"),
    # modes are set while the core is busy
    ("allowed.eq(bus.sel.all() & (~busy | free) & ~fixed)", "allowed.eq(bus.sel.all() & ~fixed)", "busy", "code_size is kept"),
    # the core is read while it is busy
    ("allowed.eq(~busy & (bus.sel.all() | ~bus.we))", "allowed.eq(bus.sel.all() | ~bus.we)", "busy", "memories"),
    # a word is read while the core runs
    ("in_window & ~busy & ~bus.we", "in_window & ~bus.we", "busy", "the core"),
    # a write acts again without an answer
    ("write.valid.eq(0),", "write.valid.eq(write.valid),", "answered", "a write acts"),
    # the held half is forgotten
    ("written = Cat(write.low, write.high)", "written = Cat(write.low, Const(0, 32))", "halves written", "through the window"),
    # the high half is read again at a later moment
    ("m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(kept.word)]", "m.d.sync += [bus.ack.eq(1), bus.dat_r.eq(told[32:])]", "halves read", "the cycles"),
    # the half of another slot is taken
    ("waiting.valid & (waiting.slot == here)", "waiting.valid", "other slot", "its high half is 0"),
    # a stop is lost when an instruction begins
    ("with m.If(obeyed.stop):", "with m.If(obeyed.stop & ~self.begins):", "stop", "it stops"),
    # words are set to zero beyond the size, while the core runs, or while a transfer reads them
    ("Value = host.zeroing & inside &", "Value = host.zeroing &", "zeroes", "the place"),
    ("window.write.eq((self.zeroes | writes) & self.idle)", "window.write.eq(self.zeroes | writes)", "zeroes", "an idle core"),
    ("running.any() | ~self.idle | self.zeroing)", "running.any() | ~self.idle)", "zeroes", "transfers are refused"),
    ("steps, status, busy = Signal(64, init=UNLIMITED)", "steps, status, busy = Signal(64, init=UNLIMITED - 1)", "reset", "steps"),
]  # fmt: skip


#: the same, of the claims on copies
COPY_FAULTS = [
    # a run and a copy begin together; words are set to zero during a copy
    ("(copies.all() | runs |", "(copies.all() |", "one at a time", "cycle 3"),
    ("copies.all() | runs | zero.any()", "copies.all() | runs", "one at a time", "cycle 3"),
    # a copy is not busy
    ("reduce(or_, copying, running.any()", "reduce(or_, [], running.any()", "core in a copy", "code_size is kept"),
    # STREAM is read during a copy
    ("exists.eq((addressed == Area.CONTROL.value) & addresses & ~streams)", "exists.eq((addressed == Area.CONTROL.value) & addresses)", "core in a copy", "memories are refused"),
    # a transfer reads in the middle of a copy
    ("window.read.eq(dma.read)", "window.read.eq(dma.read | begins)", "words of a copy", "none is added or changed: reads"),
    # the address on the bus is the place of a word that is copied
    ("index.eq(Mux(reduce(or_, copying, streams), pointer.index, number))", "index.eq(Mux(streams, pointer.index, number))", "words of a copy", "none is added or changed: writes"),
    ("area.eq(Mux(reduce(or_, copying, streams), pointer.area, addressed))", "area.eq(Mux(streams, pointer.area, addressed))", "words of a copy", "none is added or changed: writes"),
    # a transfer takes the place of a word
    ("window.write.eq(dma.write)", "window.write.eq(dma.write & ~begins)", "words of a copy", "none is lost: writes"),
    # slots are written during a copy
    ("(~busy | free) & ~fixed", "(~busy | free | Cat(*copying)) & ~fixed", "slots in a copy", "other registers"),
    # a write to a slot acts on the index of the copy
    ("write.index.eq(Mux(streams, pointer.index, number))", "write.index.eq(index)", "slots in a copy", "other registers"),
    ("write.index.eq(Mux(streams, pointer.index, number))", "write.index.eq(index)", "stop of a copy", "the copy ends"),
    # a refused write discards a held half; events stay enabled
    ("with m.If(~allowed):\n                m.d.sync += bus.err.eq(1)", "with m.If(~allowed):\n                m.d.sync += [bus.err.eq(1), waiting.valid.eq(0)]", "slots in a copy", "the held half"),
    ("m.d.sync += enabled.eq(written)", "m.d.sync += enabled.eq(written | enabled.as_value())", "slots in a copy", "events are enabled"),
    # events are cleared as soon as they are enabled; a clear clears all; a clear clears nothing
    ("m.d.sync += enabled.eq(written)", "m.d.sync += [enabled.eq(written), pending.eq(0)]", "slots in a copy", "no other write clears events"),
    ("m.d.comb += cleared.eq(written)", "m.d.comb += cleared.eq(~0)", "slots in a copy", "other events are kept"),
    ("pending.as_value() & ~cleared.as_value()", "pending.as_value()", "slots in a copy", "events are cleared"),
    # no stop is accepted during a copy; it does not reach the copy
    ("~(busy & others)", "~(busy & others) & ~Cat(*copying)", "stop of a copy", "it is accepted"),
    ("dma.stop.eq(obeyed.stop)", "dma.stop.eq(0)", "stop of a copy", "the copy ends"),
    # a stop moves the words
    ("moves_on | dma.read | copied", "moves_on | dma.read | copied | dma.stop", "stop of a copy", "no other words: writes"),
]  # fmt: skip
#: the same, in direct memory access
UNIT_FAULTS = [
    # a transfer goes on without a copy
    ("[memory.cyc.eq(0), self.busy.eq(0), self.failed.eq(1)]", "[self.busy.eq(0), self.failed.eq(1)]", "one at a time", "cycle 2"),
    # a copy is stopped in the middle of a word
    ("~high & (stops | (length == 0))", "stops | (length == 0)", "stop of a copy", "at the end of a word"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "claim", "fact"),
    [pytest.param(*case, marks=[] if k % 4 == 0 else [pytest.mark.long]) for k, case in enumerate(FAULTS)],
    ids=[claim + ": " + fact for _, _, claim, fact in FAULTS],
)
@pytest.mark.parametrize("prover_of", [BusProver, pytest.param(CopyingBusProver, marks=pytest.mark.long)])
def test_planted_faults_are_refuted(
    planted: Plant, prover_of: type[BusProver], old: str, new: str, claim: str, fact: str
) -> None:
    planted("bus.host_interface", old, new)
    _is_refuted(prover_of(Q8, interface=host_interface.HostInterface), claim, fact)


@pytest.mark.parametrize(
    ("unit", "old", "new", "claim", "fact"),
    [
        pytest.param(unit, *case, id=f"{case[2]}: {case[3]}", marks=[] if k % 4 == 0 else [pytest.mark.long])
        for unit, cases in (("bus.host_interface", COPY_FAULTS), ("bus.host_interface.DirectMemoryAccess", UNIT_FAULTS))
        for k, case in enumerate(cases)
    ],
)
def test_planted_faults_of_copies_are_refuted(
    planted: Plant, unit: str, old: str, new: str, claim: str, fact: str
) -> None:
    planted(unit, old, new)
    _is_refuted(CopyingBusProver(Q8, interface=host_interface.HostInterface), claim, fact)


def _is_refuted(prover: BusProver, claim: str, fact: str) -> None:
    found = prover.prove(f"{prover.part}: {claim}")
    assert not found.holds
    assert found.counterexample.startswith(fact)


# Direct memory access: a step from any state.


@pytest.mark.parametrize("width", [8, 64])
def test_every_claim_of_direct_memory_access(width: int) -> None:
    prover = CopyProver(Format(width, width // 2))
    assert len(prover.claims()) > 4
    for name in prover.claims():
        found = prover.prove(name)
        assert (found.holds, found.witnessed) == (True, True), (name, found.counterexample)


#: (its source, the planted source, the claim that refutes it)
COPYING_FAULTS = [
    ("(length == 1) | ending", "(length == 1) | stops", "held"),
    ("with m.Elif(memory.ack):", "with m.Else():", "held"),
    ("address.eq(address + 1)", "address.eq(address + 2)", "announced"),
    ("memory.cyc.eq(~last)", "memory.cyc.eq(0)", "announced"),
    ("memory.cyc.eq(~last)", "memory.cyc.eq(1)", "ended"),
    ("[memory.cyc.eq(0), self.busy.eq(0), self.failed.eq(1)]", "[self.busy.eq(0), self.failed.eq(1)]", "refused"),
    ("with m.Elif(free):", "with m.Elif(1):", "free"),
]


@pytest.mark.parametrize(("old", "new", "claim"), COPYING_FAULTS)
def test_planted_faults_of_direct_memory_access_are_refuted(planted: Plant, old: str, new: str, claim: str) -> None:
    prover = CopyProver(Format(8, 4), unit=planted("bus.host_interface.DirectMemoryAccess", old, new))
    found = prover.prove(f"direct memory access: {claim}")
    assert not found.holds
    assert found.counterexample
