# amaranth: UnusedElaboratable=no
"""The core of a co-processor's parameters."""

from __future__ import annotations

from retrograd.hdl.core.core import Core
from retrograd.hdl.core.overlapped.core import OverlappedCore
from retrograd.hdl.microcode import Microcode
from retrograd.hdl.parameters import Parameters


def core_of(parameters: Parameters, microcode: Microcode | None = None) -> Core:
    """The core, with the microcode of its table unless another is given."""
    kind = OverlappedCore if parameters.microarchitecture.overlapped else Core
    return kind(parameters, microcode)
