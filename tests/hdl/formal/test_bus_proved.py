"""The host interface: bounded proofs from any of its states, and faults that must be refuted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver
from retrograd.isa.words import Format

Q8 = Format(8, 4)
Plant = Callable[[str, str, str], type]


@pytest.mark.share(0)
@pytest.mark.parametrize("width", [8, pytest.param(64, marks=pytest.mark.slow)])
def test_every_claim(width: int) -> None:
    prover = BusProver(Format(width, width // 2))
    for name in prover.claims():
        found = prover.prove(name)
        assert (found.holds, found.witnessed) == (True, True), (name, found.counterexample)


#: (its source, the planted source, the claim that refutes it, the fact that fails)
FAULTS = [
    # a transfer with no end
    ("with m.Elif(in_window & ~asked):", "with m.Elif(in_window):", "answered", "it is answered"),
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
    ("host.zeroes.eq(host.zeroing & inside &", "host.zeroes.eq(host.zeroing &", "zeroes", "the place"),
    ("window.write.eq((self.zeroes | writes) & self.idle)", "window.write.eq(self.zeroes | writes)", "zeroes", "an idle core"),
    ("running.any() | ~self.idle | self.zeroing)", "running.any() | ~self.idle)", "zeroes", "transfers are refused"),
    ("steps, status, busy = Signal(64, init=UNLIMITED)", "steps, status, busy = Signal(64, init=UNLIMITED - 1)", "reset", "steps"),
]  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("old", "new", "claim", "fact"),
    [pytest.param(*case, marks=[] if k % 4 == 0 else [pytest.mark.slow]) for k, case in enumerate(FAULTS)],
    ids=[claim + ": " + fact for _, _, claim, fact in FAULTS],
)
def test_planted_faults_are_refuted(planted: Plant, old: str, new: str, claim: str, fact: str) -> None:
    interface = planted("bus.host_interface", old, new)
    found = BusProver(Q8, interface=interface).prove(f"host interface: {claim}")
    assert not found.holds
    assert found.counterexample.startswith(fact)
