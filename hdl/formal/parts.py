"""The claims on parts of the co-processor that are no opcodes: its units, its host interface, and its direct memory access."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from retrograd.hdl.formal.bus.copies_proofs import CopyingBusProver
from retrograd.hdl.formal.bus.dma_proofs import CopyProver
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver
from retrograd.hdl.formal.obligations import ProofResult
from retrograd.hdl.formal.unit_proofs import UNITS, UnitProver
from retrograd.isa.words import Format

#: the claim on a part, as it is printed
PART_CLAIM = "its function"
#: names of the parts, as the command line takes them
PARTS = (*UNITS, "bus")
#: the provers of the bus: of the host interface without and with direct memory access, and of direct memory access
_BUS = (BusProver, CopyingBusProver, CopyProver)


def part_claims(w: Format, parts: Collection[str], core: str = "small") -> dict[str, str]:
    """The name of each claim on these parts of the core -> the part. The host interface is the same for each core."""
    found = {}
    if {*parts} & {*UNITS}:
        found = {claim.name: claim.unit for claim in UnitProver(w, core=core).claims() if claim.unit in parts}
    bus = [name for prover in _BUS for name in prover(w).claims()] if "bus" in parts else []
    return found | dict.fromkeys(bus, "bus")


def prove_parts(
    w: Format, parts: Collection[str] = PARTS, seconds: float = 60, core: str = "small"
) -> Iterator[ProofResult]:
    """A result for each claim on these parts; a claim that the solver does not decide in time does not hold."""
    if {*parts} & {*UNITS}:
        units = UnitProver(w, seconds=seconds, core=core)
        yield from (units.prove(claim) for claim in units.claims() if claim.unit in parts)
    if "bus" in parts:
        for prover in _BUS:
            bus = prover(w, seconds)
            yield from (bus.prove(name) for name in bus.claims())
