"""The claims on parts of the co-processor that are no opcodes: its units, its host interface, its direct memory access, the mask and the order of lanes."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from retrograd.hdl.formal.bus.copies_proofs import CopyingBusProver
from retrograd.hdl.formal.bus.dma_proofs import CopyProver
from retrograd.hdl.formal.bus.host_interface_proofs import BusProver
from retrograd.hdl.formal.bus.lanes_proofs import LanesBusProver
from retrograd.hdl.formal.lanes.mask import MASK, MaskProver
from retrograd.hdl.formal.lanes.order import ORDER, OrderProver
from retrograd.hdl.formal.obligations import ProofResult
from retrograd.hdl.formal.unit_proofs import UNITS, UnitProver
from retrograd.isa.microarchitecture.lanes import LANES
from retrograd.isa.words import Format

#: the claim on a part, as it is printed
PART_CLAIM = "its function"
#: names of the parts, as the command line takes them
PARTS = (*UNITS, "bus")
_Prover = type[BusProver] | type[CopyProver] | type[MaskProver] | type[OrderProver]
#: the provers of the parts besides units: of the bus without and with direct memory access, and of direct memory access
_PROVERS: dict[str, tuple[_Prover, ...]] = {"bus": (BusProver, CopyingBusProver, CopyProver)}
#: the same of the core `lanes`
_OF_LANES: dict[str, tuple[_Prover, ...]] = {"bus": (LanesBusProver,), MASK: (MaskProver,), ORDER: (OrderProver,)}


def _provers(core: str) -> dict[str, tuple[_Prover, ...]]:
    """part -> its provers. The host interface is the same for each core with one lane."""
    return _OF_LANES if core == LANES else _PROVERS


def parts_of(core: str) -> tuple[str, ...]:
    """The parts of a core."""
    return (*UNITS, *_provers(core))


def _units(w: Format, seconds: float, core: str) -> UnitProver:
    """The units of a core; those of a lane are the core small's."""
    return UnitProver(w, seconds=seconds, core="small" if core == LANES else core)


def part_claims(w: Format, parts: Collection[str], core: str = "small") -> dict[str, str]:
    """The name of each claim on these parts of the core -> the part."""
    found = {}
    if {*parts} & {*UNITS}:
        found = {claim.name: claim.unit for claim in _units(w, 60, core).claims() if claim.unit in parts}
    others = ((part, prover) for part, provers in _provers(core).items() if part in parts for prover in provers)
    return found | {name: part for part, prover in others for name in prover(w).claims()}


def prove_parts(
    w: Format, parts: Collection[str] = PARTS, seconds: float = 60, core: str = "small"
) -> Iterator[ProofResult]:
    """A result for each claim on these parts; a claim that the solver does not decide in time does not hold."""
    if {*parts} & {*UNITS}:
        units = _units(w, seconds, core)
        yield from (units.prove(claim) for claim in units.claims() if claim.unit in parts)
    for prover in (prover for part, provers in _provers(core).items() if part in parts for prover in provers):
        others = prover(w, seconds)
        yield from (others.prove(name) for name in others.claims())
