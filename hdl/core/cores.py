# amaranth: UnusedElaboratable=no
"""The core of a co-processor's parameters."""

from __future__ import annotations

from retrograd.hdl.core.core import Core
from retrograd.hdl.core.lanes import LanesCore
from retrograd.hdl.core.overlapped import OverlappedCore
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters
from retrograd.isa.microarchitecture.lanes import LANES

#: a core with one lane
SingleCore = Core | OverlappedCore


def core_of(parameters: Parameters, microcode: Microcode | None = None) -> SingleCore:
    """The core, with the microcode of its table unless another is given."""
    if parameters.core == LANES:
        raise ValueError("the core lanes has several data paths, see `lanes_of`")
    kind = OverlappedCore if parameters.microarchitecture.overlapped else Core
    return kind(parameters, microcode)


def lanes_of(parameters: Parameters, microcode: Microcode | None = None) -> LanesCore:
    """The core `lanes`. Raises ValueError for the parameters of another core."""
    if parameters.core != LANES:
        raise ValueError(f"the core {parameters.core} has no lanes")
    return LanesCore(parameters, microcode)
