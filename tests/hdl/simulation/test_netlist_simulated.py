"""The netlist after synthesis, in Verilator: gates, flip-flops and memories of the core small in lockstep with the reference machine."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.flow.gates import netlist
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.verilated import Probe, Verilated
from retrograd.isa.words import Format
from support import lockstep

pytestmark = pytest.mark.long
Q8 = Format(8, 4)


@pytest.fixture(scope="module")
def text() -> str:
    """The netlist of the core in the simulator's frame."""
    return netlist(Probe(core_of(Parameters(Q8, 64, 16))), "probe")


def _in_lockstep(text: str, folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Instructions and traps of random programs, on the gates as on the machine. Raises AssertionError, TimeoutError."""
    gates = Verilated(core_of(Parameters(Q8, 64, 16)), folder, text)
    executed, traps = Counter[str](), Counter[str]()
    for lifted in (False, True):
        found = lockstep.sequences(gates.run, Q8, lifted, 5, states=60, programs=3)
        executed, traps = executed + found[0], traps + found[1]
    return executed, traps


def test_the_gates_are_the_machine(tmp_path: Path, text: str) -> None:
    """All opcodes but a few that chance leaves out, from random states, in both directions, without cotangents and with them."""
    # All logic is gates: no operator on words is left.
    assert not re.search(r"\s(\+|-|\*|<<|>>|<|>)\s", text)
    executed, traps = _in_lockstep(text, tmp_path)
    assert executed.total() > 1400
    assert len(executed) > 80
    assert len(traps) > 5


@pytest.mark.parametrize("seed", [2, 3])
def test_wrong_gates_are_found(tmp_path: Path, text: str, seed: int) -> None:
    """Eight ANDs of the netlist are ORs: a single one may matter in no order that the run takes."""
    lines = text.splitlines()
    gates = [k for k, line in enumerate(lines) if re.fullmatch(r"\s*assign \S+ = ~?\S+ & ~?\S+;.*", line)]
    assert len(gates) > 1000
    for chosen in random.Random(seed).sample(gates, 8):
        lines[chosen] = lines[chosen].replace(" & ", " | ")
    with pytest.raises((AssertionError, TimeoutError)):
        _in_lockstep("\n".join(lines), tmp_path)
