"""Runs with breakpoints: every machine stops where the reference machine does, in the same state, with the same counts.

Compiled code stops at breakpoints and goes on from there, as a program that prints does at each print.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import pytest

import retrograd as rg

Make = Callable[..., rg.Machine]

#: an inner loop with a vector form, in a loop with a stop before it and one behind it; then a product that may not fit
NESTED = """\
.memory 128
        start
outer:  from.ne r1, r0, next
        add r5, 1
        add r2, 3
inner:  from.ne r6, r0, more
        add r7, r2
        ld.add r8, [r7]
        sub r7, r2
        add r7, r6
        st.add [r7 + 8], r6
        sub r7, r6
        add r6, 1
more:   goto.ne r6, r9, inner
        sub r6, r9
        add r4, r5
        add r1, 1
next:   goto.ne r1, r3, outer
        mul.add r10, r11, r11
        erase r5
        add r12, 1
        finish
"""
PASSES, ROWS = 20, 30


def nested(make: Make, factor: int = 1 << 33, **modes: Any) -> rg.Machine:
    machine = make(rg.assemble(NESTED), **modes)
    machine.registers[3], machine.registers[9], machine.registers[11] = ROWS, PASSES, factor
    return machine


def observed(machine: rg.Machine, stop: Any) -> Any:
    return stop, machine.state(), machine.counts(+1), machine.counts(-1), machine.erased_bits


def segments(machine: rg.Machine, stops: Collection[int], limit: int | None = None) -> Iterator[Any]:
    """What is seen at each stop of a run, to its end or its trap."""
    while True:
        try:
            outcome = machine.run(limit, breakpoints=stops)
        except rg.Trap as trap:
            yield observed(machine, (str(trap), trap.value))
            return
        yield observed(machine, outcome)
        if outcome.stop is rg.Stop.HALTED:
            return


def plain(program: rg.Program) -> list[int]:
    """The instructions that are neither branches nor ends: the translation stops there."""
    ends = {program.start, program.finish}
    return [at for at, i in enumerate(program.instructions) if "br" not in i.opcode.writes and at not in ends]


def test_each_address_is_a_stop(make: Make) -> None:
    size = len(rg.assemble(NESTED).code)
    for at in range(size + 1):
        machine, reference = nested(make), nested(rg.Machine)
        assert list(segments(machine, {at})) == list(segments(reference, {at})), at


def test_the_translation_runs_between_the_stops(make: Make, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.params["make"]
    for at in plain(rg.assemble(NESTED)):
        machine = nested(make)
        assert len(list(segments(machine, {at}))) > 1
        assert machine.engine == name, at


@pytest.mark.parametrize("limit", [90, 400, 1501])
def test_a_limit_beside_stops(make: Make, limit: int) -> None:
    for stops in ((), {5}, {2, 14}, {15}):
        machine, reference = nested(make), nested(rg.Machine)
        assert list(segments(machine, stops, limit)) == list(segments(reference, stops, limit))


@pytest.mark.parametrize("factor", [1 << 33, 1 << 62])
def test_back_from_the_end_and_from_a_trap(make: Make, factor: int) -> None:
    for stops in ({5}, {2, 14}, {4, 15, 18}, {13}):
        machine, reference = nested(make, factor), nested(rg.Machine, factor)
        assert list(segments(machine, stops)) == list(segments(reference, stops))
        machine.turn(), reference.turn()
        assert list(segments(machine, stops)) == list(segments(reference, stops))


def test_a_program_that_turns(make: Make, sample: rg.Program) -> None:
    stops = plain(sample)
    for chosen in (stops[:1], stops[::3], stops[1::4], stops):
        for backward in (False, True):
            machine, reference = make(sample, backward=backward), rg.Machine(sample, backward=backward)
            assert list(segments(machine, chosen)) == list(segments(reference, chosen))


def test_a_machine_is_put_at_a_stop(make: Make) -> None:
    # No run from the start comes there: the code behind `finish` is reached by a change of the PC alone.
    program = rg.assemble("start\nadd r1, 1\nfinish\nadd r2, 1\nadd r3, 1\nadd r4, 1", check=False)
    machine, reference = make(program), rg.Machine(program)
    machine.pc = reference.pc = 4
    assert list(segments(machine, {4, 5})) == list(segments(reference, {4, 5}))


def test_cotangents_move_between_stops(make: Make) -> None:
    def backward(machine: rg.Machine) -> list[Any]:
        machine.run()
        machine.differentiating = True
        machine.cotangents[8] = 1 << 32
        machine.turn()
        return list(segments(machine, {6, 16}))

    program = rg.assemble(NESTED.replace("        erase r5\n", ""))

    def made(make: Make) -> rg.Machine:
        machine = make(program)
        machine.registers[3], machine.registers[9], machine.registers[11] = ROWS, PASSES, 1 << 33
        return machine

    assert backward(made(make)) == backward(made(rg.Machine))
