"""The claims on parts of the co-processor that are no opcodes: its units, its host interface, its direct memory access, the mask of a lane."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from retrograd.hdl.formal.bus.copies_proofs import CopyingBusProver
from retrograd.hdl.formal.bus.dma_proofs import CopyProver
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver
from retrograd.hdl.formal.lanes.mask import MASK, MaskProver
from retrograd.hdl.formal.obligations import ProofResult
from retrograd.hdl.formal.unit_proofs import UNITS, UnitProver
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.words import Format

#: the claim on a part, as it is printed
PART_CLAIM = "its function"
#: names of the parts, as the command line takes them
PARTS = (*UNITS, "bus")
#: the provers of the bus: of the host interface without and with direct memory access, and of direct memory access
_BUS = (BusProver, CopyingBusProver, CopyProver)


def parts_of(core: str) -> tuple[str, ...]:
    """The parts of a core. Nothing is claimed of the host interface of the core `lanes`."""
    return (*UNITS, MASK) if core == LANES else PARTS


def _units(w: Format, seconds: float, core: str) -> UnitProver:
    """The units of a core; those of a lane are the core small's."""
    return UnitProver(w, seconds=seconds, core="small" if core == LANES else core)


def part_claims(w: Format, parts: Collection[str], core: str = "small") -> dict[str, str]:
    """The name of each claim on these parts of the core -> the part. The host interface is the same for each core with one lane."""
    found = {}
    if {*parts} & {*UNITS}:
        found = {claim.name: claim.unit for claim in _units(w, 60, core).claims() if claim.unit in parts}
    bus = [name for prover in _BUS for name in prover(w).claims()] if "bus" in parts else []
    mask = MaskProver(w).claims() if MASK in parts else []
    return found | dict.fromkeys(bus, "bus") | dict.fromkeys(mask, MASK)


def prove_parts(
    w: Format, parts: Collection[str] = PARTS, seconds: float = 60, core: str = "small"
) -> Iterator[ProofResult]:
    """A result for each claim on these parts; a claim that the solver does not decide in time does not hold."""
    if {*parts} & {*UNITS}:
        units = _units(w, seconds, core)
        yield from (units.prove(claim) for claim in units.claims() if claim.unit in parts)
    if "bus" in parts:
        for prover in _BUS:
            bus = prover(w, seconds)
            yield from (bus.prove(name) for name in bus.claims())
    if MASK in parts:
        mask = MaskProver(w, seconds)
        yield from (mask.prove(name) for name in mask.claims())
