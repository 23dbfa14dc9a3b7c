"""The netlist after synthesis, in Verilator: gates, flip-flops and memories of the core small in lockstep with the reference machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.flow.gates import netlist
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.verilated import Probe, Verilated
from retrograd.isa.words import Format

pytestmark = pytest.mark.slow
Q8 = Format(8, 4)


def test_the_gates_are_the_machine(lockstep: Any, tmp_path: Path) -> None:
    """All opcodes but a few that chance leaves out, from random states, in both directions, without cotangents and with them."""
    core = core_of(Parameters(Q8, 64, 16))
    text = netlist(Probe(core), "probe")
    # All logic is gates: no operator on words is left.
    assert not re.search(r"\s(\+|-|\*|<<|>>|<|>)\s", text)
    gates = Verilated(core, tmp_path, text)
    for lifted in (False, True):
        executed, traps = lockstep.sequences(gates.run, Q8, lifted, 5, states=60, programs=3)
        assert executed.total() > 700
        assert len(executed) > 80
        assert len(traps) > 5
