"""The netlist after synthesis, in Verilator: gates, flip-flops and memories in lockstep with the reference machine, and planted faults of single gates."""

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


def parameters(core: str) -> Parameters:
    return Parameters(Q8, 64, 16, core=core)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """core -> (folder, the netlist of its probe)"""
    made: dict[str, tuple[Path, str]] = {}

    def of(core: str) -> tuple[Path, str]:
        if core not in made:
            made[core] = tmp_path_factory.mktemp(core), netlist(Probe(core_of(parameters(core))), "probe")
        return made[core]

    return of


@pytest.mark.parametrize("core", ["small", "fast"])
def test_the_gates_are_the_machine(lockstep: Any, nets: Any, core: str) -> None:
    """All opcodes but a few that chance leaves out, from random states, in both directions, without cotangents and with them."""
    folder, text = nets(core)
    # All logic is gates: no operator wider than a bit, and no case statement, is left of the source.
    assert not re.search(r"\s(\+|-|\*|<<|>>|<|>)\s", re.sub(r"\[.*?\]|//.*", "", text))
    gates = Verilated(core_of(parameters(core)), folder, text)
    for lifted in (False, True):
        executed, traps = lockstep.sequences(gates.run, Q8, lifted, 5, states=60, programs=3)
        assert executed.total() > 700
        assert len(executed) > 80
        assert len(traps) > 5


def test_a_wrong_gate_is_found(lockstep: Any, nets: Any) -> None:
    """One gate has its inputs joined by ∨ in place of ∧."""
    folder, text = nets("small")
    gates = [*re.finditer(r"(assign \S+\s*= \S+(?: \[\d+\])?) & ", text)]
    assert len(gates) > 1000
    gate = gates[len(gates) // 2]
    wrong = Verilated(core_of(parameters("small")), folder, f"{text[: gate.start()]}{gate[1]} | {text[gate.end() :]}")

    def soak() -> None:
        for seed in range(5, 9):
            lockstep.sequences(wrong.run, Q8, seed % 2 == 1, seed, states=60, programs=3)

    with pytest.raises((AssertionError, TimeoutError)):
        soak()
