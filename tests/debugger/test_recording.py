"""Recordings: the changes of the steps give every state of the reference machine, in both directions."""

from __future__ import annotations

import pytest
from retrograd.assembler.assemble import assemble
from retrograd.isa.program import Program
from retrograd.simulator.machine import Machine
from support.generator import generate

from retrograd.observe._timeline import Bank, Recorder, Recording, record
from tests.debugger.test_session import SUM


def words_of(machine: Machine) -> dict[tuple[Bank, int], int]:
    """The words that are not zero."""
    stores = {
        Bank.REGISTER: machine.registers,
        Bank.MEMORY: machine.memory,
        Bank.REGISTER_COTANGENT: machine.cotangents,
        Bank.MEMORY_COTANGENT: machine.memory_cotangents,
    }
    return {(bank, n): int(word) for bank, store in stores.items() for n, word in enumerate(store) if word}


def check(recording: Recording, machine: Machine) -> None:
    """`machine` stands where the recording began."""
    for n, state in enumerate(recording.states()):
        assert state == words_of(machine), n
        if n < len(recording.steps):
            step = recording.steps[n]
            assert (step.pc, step.direction) == (machine.pc, machine.direction), n
            machine.run(1)
            assert step.br == machine.br
    assert recording.last == (machine.pc, machine.direction, machine.differentiating)


def machine_of(program: Program, n: int) -> Machine:
    machine = Machine(program)
    machine.registers[1] = n
    return machine


def test_a_run_and_its_way_back() -> None:
    program = assemble(SUM)
    recording = record(machine_of(program, 3))
    assert recording.end == "halted"
    assert len(recording.steps) == machine_of(program, 3).run().steps
    check(recording, machine_of(program, 3))
    ended = machine_of(program, 3)
    ended.run()
    ended.turn()
    recorder = Recorder(ended)
    recorder.run(10)
    assert (len(recorder.recording.steps), recorder.recording.end) == (10, "limit")
    again = machine_of(program, 3)
    again.run()
    again.turn()
    check(recorder.recording, again)


def test_a_trap_ends_a_recording() -> None:
    recording = record(Machine(assemble("start\n add r1, 1\n assertz r1\n finish")))
    assert (len(recording.steps), recording.end, recording.last[0]) == (2, "RG0407", 2)
    assert "r1" in recording.message


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    case = generate(seed)

    def machine() -> Machine:
        found = Machine(case.program)
        case.load(found.registers, found.memory)
        return found

    recording = record(machine(), 400)
    assert recording.steps
    again = machine()
    for state, step in zip(recording.states(), recording.steps, strict=False):
        assert state == words_of(again)
        assert step.pc == again.pc
        again.run(1)


def test_cotangents_are_recorded() -> None:
    def turned() -> Machine:
        machine = machine_of(assemble("start\n fmul.add r2, r1, r1\n finish"), 3 << 32)
        machine.run()
        machine.differentiating = True
        machine.cotangents[2] = 1 << 32
        machine.turn()
        return machine

    machine = machine_of(assemble("start\n fmul.add r2, r1, r1\n finish"), 3 << 32)
    recorder = Recorder(machine)
    assert recorder.run(100)
    machine.differentiating = True
    machine.cotangents[2] = 1 << 32
    machine.turn()
    recorder.begin_differentiating()
    assert recorder.run(100)
    *_, last = recorder.recording.states()
    assert last[Bank.REGISTER_COTANGENT, 1] == 6 << 32
    end = turned()
    end.run()
    assert last == words_of(end)
    assert [step.differentiating for step in recorder.recording.steps] == [False, False, True]
