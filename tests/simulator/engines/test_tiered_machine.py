"""Runs that begin in Python and go on in machine code equal runs of the reference machine, wherever the change comes."""

from __future__ import annotations

from typing import Any

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.simulator.engines import native, tiering
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.machine import Machine, Trap

#: steps of Python, over all runs of a test
SHORT = 100_000

LOOP = """\
.memory 4
        start
loop:   from.ne r1, r0, again
        mul.add r3, r1, r1
        exch r3, [r0 + 1]
        add r1, 1
again:  goto.ne r1, r2, loop
        {last}
        finish
"""
N = 40_000  # passes of five steps: more than SHORT


@pytest.fixture(autouse=True)
def python_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = tiering.Costs(python_step=1.0, python_lifted_step=1.0, enter=0.0, share=1.0)
    monkeypatch.setattr(tiering, "policy", tiering.Policy(costs))
    monkeypatch.setattr(tiering.policy, "to_import", lambda: 0.0)
    monkeypatch.setattr(native, "ready", lambda *_: tiering.Ready(SHORT, 3.0 * SHORT))


def machines(last: str = "add r4, 1", passes: int = N, **modes: Any) -> tuple[TieredMachine, Machine]:
    program = assemble(LOOP.format(last=last))
    pair = TieredMachine(program, **modes), Machine(program, **modes)
    for machine in pair:
        machine.registers[2] = passes
    return pair


def same(left: Machine, right: Machine) -> bool:
    executed = {way: list(hits) for way, hits in left.executed.items()}
    return (left.state(), executed) == (right.state(), right.executed)


def test_it_starts_in_python_and_goes_on_compiled() -> None:
    machine, reference = machines(passes=1000)
    assert machine.run() == reference.run()
    assert machine.engine == "reference"
    machine, reference = machines()
    assert machine.run() == reference.run()
    assert machine.engine in ("threaded", "translated")
    assert same(machine, reference)
    assert machine.run_back() == reference.run_back()
    assert same(machine, reference)


@pytest.mark.parametrize("piece", [1, 7, 30_000, SHORT - 1, SHORT, SHORT + 1])
def test_runs_in_pieces(piece: int) -> None:
    machine, reference = machines()
    for _ in range(8):
        assert machine.run(piece) == reference.run(piece)
        assert same(machine, reference)
    assert (machine.engine != "reference") == (8 * piece > SHORT)
    assert machine.run() == reference.run()
    assert same(machine, reference)
    for _ in range(3):
        assert machine.step_back() == reference.step_back()
    assert same(machine, reference)


def test_it_ends_with_its_last_step_of_python() -> None:
    steps = SHORT // 5
    program = assemble(LOOP.format(last="neg r4"))
    probe = Machine(program)
    probe.registers[2] = steps
    probe.run()
    machine, reference = machines("neg r4", steps)
    for m in (machine, reference):
        m.run(probe.retired - SHORT)
    assert machine.run(SHORT) == reference.run(SHORT)
    assert same(machine, reference)
    assert machine.run() == reference.run()


@pytest.mark.parametrize("passes", [10, N])
def test_traps_are_those_of_the_reference_machine(passes: int) -> None:
    machine, reference = machines("assertz r1", passes)
    found = []
    for m in (machine, reference):
        with pytest.raises(Trap) as trap:
            m.run()
        found.append(str(trap.value))
    assert found[0] == found[1]
    assert same(machine, reference)
    assert machine.run_back() == reference.run_back()
    assert same(machine, reference)


@pytest.mark.parametrize("modes", [{"strict": True}, {"overflow": False}, {"memory": 50}, {"backward": True}])
def test_modes_stay_as_they_were(modes: dict[str, Any]) -> None:
    machine, reference = machines("fmul.add r5, r3, r3", **modes)
    ends = []
    for m in (machine, reference):
        try:
            ends.append(str(m.run()))
        except Trap as trap:
            ends.append(str(trap))
    assert ends[0] == ends[1]
    assert same(machine, reference)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("passes", [10, N])
def test_cotangents_go_with_it(passes: int, keep: bool) -> None:
    program = assemble(LOOP.format(last="fmul.add r5, r4, r4\n assertz r6"))
    pair = TieredMachine(program, keep_dropped=keep), Machine(program, keep_dropped=keep)
    for m in pair:
        m.registers[2], m.registers[4] = passes, 3 << 32
        m.run()
        m.differentiating = True
        m.cotangents[5], m.cotangents[6] = 1 << 32, 5
        m.turn()
        m.run()
        assert m.cotangents[4] == 6 << 32
    assert same(*pair)
    assert pair[0].dropped_bits == pair[1].dropped_bits == (0 if keep else 64)


@pytest.mark.parametrize("keep", [False, True])
def test_cotangents_from_the_first_step(keep: bool) -> None:
    """What was dropped before compiled code took over is known to it."""
    machine, reference = machines("fmul.add r5, r4, r4\n assertz r6", keep_dropped=keep)
    for m in (machine, reference):
        m.registers[4] = 3 << 32
        m.differentiating = True
        m.cotangents[5], m.cotangents[6] = 1 << 32, 5
        m.run()
    assert machine.engine != "reference"
    assert same(machine, reference)
    assert machine.dropped_bits == reference.dropped_bits
    for m in (machine, reference):
        m.turn()
        if keep:
            m.run()
            assert m.cotangents[6] == 5
        else:
            with pytest.raises(Trap, match="RG0409"):
                m.run()
    assert same(machine, reference)


def test_a_condition_is_looked_at_after_every_step() -> None:
    machine, reference = machines()
    for m in (machine, reference):
        m.run(SHORT + 5)
        m.run(until=lambda m: m.registers[1] % 97 == 5)
    assert same(machine, reference)
    assert machine.registers[1] % 97 == 5
