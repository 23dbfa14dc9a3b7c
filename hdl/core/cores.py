# amaranth: UnusedElaboratable=no
"""The core of a co-processor's parameters."""

from __future__ import annotations

from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.overlapped import OverlappedCore
from retrograd.hdl.core.two_slots import TwoSlotCore
from retrograd.hdl.microcode import Microcode, RowMicrocode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.micro_operations import BARREL

#: a core with one lane
SingleCore = Core | OverlappedCore


def core_of(parameters: Parameters, microcode: Microcode | None = None) -> SingleCore:
    """The core, with the microcode of its table unless another is given."""
    if parameters.core == BARREL:
        raise ValueError(f"the core {BARREL} executes a batch, see `barrel_of`")
    kind = OverlappedCore if parameters.microarchitecture.overlapped else Core
    return kind(parameters, microcode)


def barrel_of(parameters: Parameters, microcode: RowMicrocode | None = None) -> BarrelCore:
    """The core of several threads, with one slot or two. Raises ValueError for the parameters of another core."""
    if parameters.core != BARREL:
        raise ValueError(f"the core {parameters.core} has no threads")
    return (TwoSlotCore if parameters.slots > 1 else BarrelCore)(parameters, microcode)
