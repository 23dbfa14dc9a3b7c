# amaranth: UnusedElaboratable=no
"""The core of a co-processor's parameters."""

from __future__ import annotations

from typing import Any

from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.lanes import LanesCore
from retrograd.hdl.core.overlapped import OverlappedCore
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import BATCH_CORES, LANES
from retrograd.isa.microarchitecture.micro_operations import BARREL

#: a core with one lane
SingleCore = Core | OverlappedCore
#: a core that executes a batch
SeveralCore = LanesCore | BarrelCore


def core_of(parameters: Parameters, microcode: Microcode | None = None) -> SingleCore:
    """The core, with the microcode of its table unless another is given."""
    if parameters.core in BATCH_CORES:
        raise ValueError(f"the core {parameters.core} executes a batch, see `several_of`")
    kind = OverlappedCore if parameters.microarchitecture.overlapped else Core
    return kind(parameters, microcode)


def lanes_of(parameters: Parameters, microcode: Microcode | None = None) -> LanesCore:
    """The core `lanes`. Raises ValueError for the parameters of another core."""
    if parameters.core != LANES:
        raise ValueError(f"the core {parameters.core} has no lanes")
    return LanesCore(parameters, microcode)


def several_of(parameters: Parameters, microcode: Any = None) -> SeveralCore:
    """The core of several lanes or threads. Raises ValueError as `lanes_of`."""
    return BarrelCore(parameters, microcode) if parameters.core == BARREL else lanes_of(parameters, microcode)
