"""Direct memory access as a master of its bus: proofs of a step from any state, and faults that must be refuted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from retrograd.hdl.formal.bus_proofs import CopyProver
from retrograd.isa.words import Format

Plant = Callable[[str, str, str], type]


@pytest.mark.parametrize("width", [8, 64])
def test_every_claim(width: int) -> None:
    prover = CopyProver(Format(width, width // 2))
    assert len(prover.claims()) > 4
    for name in prover.claims():
        found = prover.prove(name)
        assert (found.holds, found.witnessed) == (True, True), (name, found.counterexample)


#: (its source, the planted source, the claim that refutes it)
FAULTS = [
    ("(length == 1) | ending", "(length == 1) | stops", "held"),
    ("with m.Elif(memory.ack):", "with m.Else():", "held"),
    ("address.eq(address + 1)", "address.eq(address + 2)", "announced"),
    ("memory.cyc.eq(~last)", "memory.cyc.eq(0)", "announced"),
    ("memory.cyc.eq(~last)", "memory.cyc.eq(1)", "ended"),
    ("[memory.cyc.eq(0), self.busy.eq(0), self.failed.eq(1)]", "[self.busy.eq(0), self.failed.eq(1)]", "refused"),
    ("with m.Elif(self.busy):", "with m.Elif(1):", "free"),
]


@pytest.mark.parametrize(("old", "new", "claim"), FAULTS)
def test_planted_faults_are_refuted(planted: Plant, old: str, new: str, claim: str) -> None:
    prover = CopyProver(Format(8, 4), unit=planted("bus.host_interface.DirectMemoryAccess", old, new))
    found = prover.prove(f"direct memory access: {claim}")
    assert not found.holds
    assert found.counterexample
