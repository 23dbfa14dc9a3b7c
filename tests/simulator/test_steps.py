"""Steps and runs of every machine: one step, the ends of a program, runs there and back, counters, erasure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from retrograd.simulator.machine import REGISTERS

import retrograd as rg

MASK = (1 << 64) - 1

Make = Callable[..., rg.Machine]


def straight(*lines: str, **options: Any) -> rg.Program:
    return rg.assemble("\n".join(["start", *lines, "finish"]), **options)


def states(machine: rg.Machine) -> list[Any]:
    """The state before every step and after the last."""
    out = [machine.state()]
    while machine.step():
        out.append(machine.state())
    return out


# ------------------------------------------------------------ one step


def test_a_new_machine(make: Make) -> None:
    machine = make(rg.assemble(".memory 3\n.data\n.word 8, 9\n.text\nstart\nfinish"))
    assert machine.state() == ((0,) * REGISTERS, (8, 9, 0), 0, 0, 1)
    assert machine.at_origin
    assert not machine.at_end
    assert (machine.retired, machine.erased_bits, machine.counts()) == (0, 0, {})


def test_a_step_executes_and_advances(make: Make) -> None:
    machine = make(straight("add r1, 5", "mul.add r2, r1, r1"))
    seen = []
    while machine.step():
        seen.append((machine.pc, machine.registers[1], machine.registers[2]))
    assert seen == [(1, 0, 0), (2, 5, 0), (3, 5, 25)]
    assert machine.at_end
    # At the end a step does nothing, however often.
    end = machine.state()
    assert not machine.step()
    assert machine.state() == end
    assert machine.retired == 3


def test_step_back_is_the_inverse_of_step(make: Make, sample: rg.Program) -> None:
    machine = make(sample)
    passed = states(machine)
    assert len(passed) > 200
    assert {state[4] for state in passed} == {1, -1}
    for state in reversed(passed):
        assert machine.state() == state
        machine.step_back()
    assert machine.state() == passed[0]
    assert not machine.step_back()
    assert machine.state() == passed[0]


def test_step_back_keeps_the_direction(make: Make) -> None:
    machine = make(straight("add r1, 5"))
    machine.run()
    machine.step_back()
    assert (machine.pc, machine.direction, machine.registers[1]) == (1, 1, 0)


def test_turn_is_an_involution(make: Make, sample: rg.Program) -> None:
    machine = make(sample)
    while True:
        state = machine.state()
        machine.turn()
        assert machine.direction == -state[4]
        machine.turn()
        assert machine.state() == state
        if not machine.step():
            break


def test_step_back_is_turn_step_turn(make: Make, sample: rg.Program) -> None:
    passed = states(make(sample))
    machine, other = make(sample), make(sample)
    for state in passed[2:]:
        while machine.state() != state:
            machine.step()
            other.step()
        assert machine.step_back()
        other.turn()
        assert other.step()
        other.turn()
        assert machine.state() == other.state()


def test_turned_round_the_first_step_is_not_taken_back(make: Make) -> None:
    # `start` met backward halts: turn, step, turn is no step there, and step_back is.
    machine = make(straight())
    machine.step()
    before = machine.state()
    machine.turn()
    assert machine.at_end
    assert not machine.step()
    machine.turn()
    assert machine.state() == before
    assert machine.step_back()
    assert machine.pc == 0


def test_turn_in_the_middle_of_a_jump(make: Make) -> None:
    program = rg.assemble("start\nb: goto a\nc: from d\nadd r1, 1\nd: goto c\na: from b\nfinish", check=False)
    machine = make(program)
    machine.run(2)
    assert (machine.pc, machine.br) == (5, 4)
    machine.turn()
    assert (machine.pc, machine.br, machine.direction) == (1, 4, -1)
    assert machine.step()
    assert (machine.pc, machine.br) == (0, 0)


def test_a_call_turns_the_link(make: Make, sample: rg.Program) -> None:
    program = rg.assemble("start\ncall f\nfinish\nproc f, r1\nadd r2, 3\nendproc")
    machine = make(program)
    machine.run(2)
    assert (machine.pc, machine.br) == (4, 3)
    machine.step()
    assert (machine.registers[1], machine.br) == (3, 0)
    machine.run()
    assert machine.registers[:3] == [0, 0, 3]


def test_an_uncall_runs_the_body_backward(make: Make) -> None:
    program = rg.assemble("start\nuncall f\nfinish\nproc f, r1\nadd r2, 3\nadd r3, r2\nendproc")
    machine = make(program)
    machine.run(2)
    assert (machine.pc, machine.br, machine.direction) == (4, -3, -1)
    assert machine.run() == rg.Outcome(rg.Stop.HALTED, 8)
    assert machine.registers[:4] == [0, 0, -3 & MASK, 0]
    assert machine.counts() == {
        "start": 1, "uncall": 2, "swapbr": 2, "neg": 1, "imm.sub": 1, "mov.sub": 1, "from": 1, "goto": 1,
    }  # fmt: skip
    assert machine.counts(-1) == {
        "uncall": 1, "swapbr": 2, "neg": 1, "imm.sub": 1, "mov.sub": 1, "from": 1, "goto": 1,
    }  # fmt: skip


@pytest.mark.parametrize("condition", ["eq", "ne", "lt", "ge", "ltu", "geu"])
@pytest.mark.parametrize(("x", "y"), [(0, 0), (1, 0), (0, 1), (-1, 1), (1, -1), (1 << 63, 1), (-1, -1)])
def test_conditions(make: Make, condition: str, x: int, y: int) -> None:
    program = rg.assemble(f"start\na: goto.{condition} r1, r2, b\nadd r3, 1\nb: from.{condition} r1, r2, a\nfinish")
    machine = make(program)
    machine.registers[1:3] = x & MASK, y & MASK
    machine.run()
    u, v = x & MASK, y & MASK
    signed_x, signed_y = (u ^ 1 << 63) - (1 << 63), (v ^ 1 << 63) - (1 << 63)
    holds = {
        "eq": u == v, "ne": u != v, "lt": signed_x < signed_y, "ge": signed_x >= signed_y, "ltu": u < v, "geu": u >= v,
    }[condition]  # fmt: skip
    assert machine.registers[3] == (not holds)


# ------------------------------------------------------------ halting


def test_forward_halts_at_finish_and_not_at_start(make: Make) -> None:
    machine = make(rg.assemble("start\nfinish"))
    assert machine.run() == rg.Outcome(rg.Stop.HALTED, 1)
    assert (machine.pc, machine.direction, machine.counts()) == (1, 1, {"start": 1})
    assert machine.run() == rg.Outcome(rg.Stop.HALTED, 0)


def test_backward_halts_at_start(make: Make) -> None:
    machine = make(straight("add r1, 5"), backward=True)
    assert (machine.pc, machine.direction) == (2, -1)
    assert machine.at_origin
    assert machine.run() == rg.Outcome(rg.Stop.HALTED, 2)
    # `finish`, met backward, is executed as its inverse, `start`.
    assert machine.counts() == {"start": 1, "imm.sub": 1}
    assert (machine.pc, machine.direction, machine.registers[1]) == (0, -1, -5 & MASK)
    assert machine.at_end
    assert machine.run_back() == rg.Outcome(rg.Stop.HALTED, 2)
    assert (machine.pc, machine.direction, machine.registers[1]) == (2, -1, 0)
    assert not machine.step_back()


def test_backward_is_the_inverse_program_forward(make: Make, sample: rg.Program) -> None:
    machine = make(sample)
    machine.run()
    back, other = make(sample, backward=True), make(~sample)
    for m in (back, other):
        m.registers[:], m.memory[:] = machine.registers, machine.memory
    last = len(sample.code) - 1
    for mine, its in zip(states(back), states(other), strict=True):
        assert mine[:2] == its[:2]
        assert (mine[2], mine[3], mine[4]) == (last - its[2], its[3], -its[4])
    assert back.registers == [0] * REGISTERS
    assert back.memory[:5] == [3, 1, 4, 1, 5]


def test_start_in_the_middle(make: Make) -> None:
    program = rg.assemble("proc f, r9\nadd r1, 2\nendproc\nstart\ncall f\ncall f\nfinish")
    machine = make(program)
    assert machine.pc == program.start == 5
    machine.run()
    assert (machine.pc, machine.registers[1]) == (program.finish, 4)
    machine.run_back()
    assert machine.state() == make(program).state()


# ------------------------------------------------------------ run and run_back


LOOP = """
        start
        add r2, 3
top:    from.ne r1, r0, bottom
        add r1, 1
        add r3, r1
bottom: goto.ne r1, r2, top
        finish
"""
LOOP_STEPS = 2 + 3 * 4


@pytest.mark.parametrize("watched", [False, True])
def test_max_steps_is_resumable_both_ways(make: Make, watched: bool) -> None:
    options: dict[str, Any] = {"observe": lambda machine, pc: None} if watched else {}
    whole = states(make(rg.assemble(LOOP)))
    assert len(whole) == LOOP_STEPS + 1
    for size in range(1, LOOP_STEPS):
        machine = make(rg.assemble(LOOP))
        at = 0
        while at + size < LOOP_STEPS:
            assert machine.run(size, **options) == rg.Outcome(rg.Stop.LIMIT, size)
            at += size
            assert machine.state() == whole[at]
        rest = LOOP_STEPS - at
        assert machine.run(size + 1, **options) == rg.Outcome(rg.Stop.HALTED, rest)
        at = LOOP_STEPS
        while at - size > 0:
            assert machine.run_back(size, **options) == rg.Outcome(rg.Stop.LIMIT, size)
            at -= size
            assert machine.state() == whole[at]
        assert machine.run_back(size + 1, **options) == rg.Outcome(rg.Stop.HALTED, at)
        assert machine.state() == whole[0]


def test_no_steps(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    assert machine.run(0) == rg.Outcome(rg.Stop.LIMIT, 0)
    assert machine.run_back(0).steps == 0
    machine.run(1)
    before = machine.state()
    assert machine.run_back(0) == rg.Outcome(rg.Stop.LIMIT, 0)
    assert machine.state() == before


@pytest.mark.parametrize("watched", [False, True])
def test_the_limit_that_is_just_enough(make: Make, watched: bool) -> None:
    # Watching a run must not change how it ends.
    options: dict[str, Any] = {"observe": lambda machine, pc: None} if watched else {}
    machine = make(rg.assemble(LOOP))
    assert machine.run(LOOP_STEPS, **options) == rg.Outcome(rg.Stop.HALTED, LOOP_STEPS)
    assert machine.run_back(LOOP_STEPS, **options) == rg.Outcome(rg.Stop.HALTED, LOOP_STEPS)


def test_breakpoints(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    bottom = machine.program.labels["bottom"]
    stops = []
    while (outcome := machine.run(breakpoints={bottom})).stop is rg.Stop.BREAKPOINT:
        stops.append((outcome.steps, machine.pc, machine.registers[1]))
    # The breakpoint that the machine stands on does not stop it again.
    assert stops == [(5, bottom, 1), (4, bottom, 2), (4, bottom, 3)]
    assert outcome == rg.Outcome(rg.Stop.HALTED, 1)
    back = []
    while (outcome := machine.run_back(breakpoints={bottom})).stop is rg.Stop.BREAKPOINT:
        back.append((machine.pc, machine.registers[1]))
    assert back == [(bottom, 3), (bottom, 2), (bottom, 1)]
    assert outcome == rg.Outcome(rg.Stop.HALTED, 5)
    assert machine.run(3, breakpoints={bottom}) == rg.Outcome(rg.Stop.LIMIT, 3)


def test_until(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    assert machine.run(until=lambda m: m.registers[3] == 3) == rg.Outcome(rg.Stop.CONDITION, 9)
    assert machine.registers[1] == 2
    assert machine.run_back(until=lambda m: m.registers[1] == 1) == rg.Outcome(rg.Stop.CONDITION, 2)
    assert machine.run(until=lambda m: False).stop is rg.Stop.HALTED
    # It is looked at after a step, not before the first.
    machine = make(rg.assemble(LOOP))
    assert machine.run(until=lambda m: True).steps == 1


def test_observe(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    seen: list[tuple[int, int]] = []

    def watch(m: rg.Machine, pc: int) -> None:
        assert m is machine
        seen.append((pc, m.registers[3]))

    assert machine.run(observe=watch).steps == len(seen) == LOOP_STEPS
    assert [pc for pc, _ in seen] == [0, 1] + [2, 3, 4, 5] * 3
    assert [total for pc, total in seen if pc == 4] == [1, 3, 6]
    forward, seen[:] = [pc for pc, _ in seen], []
    assert machine.run_back(observe=watch).steps == LOOP_STEPS
    assert [pc for pc, _ in seen] == forward[::-1]
    assert [total for pc, total in seen if pc == 4] == [3, 1, 0]


def test_observe_sees_an_uncall_both_ways(make: Make, sample: rg.Program) -> None:
    machine = make(sample)
    seen: list[int] = []
    machine.run(observe=lambda m, pc: seen.append(pc))
    executed = [machine.executed[+1][pc] + machine.executed[-1][pc] for pc in range(len(sample.code))]
    assert [seen.count(pc) for pc in range(len(sample.code))] == executed
    forward = list(seen)
    seen.clear()
    machine.run_back(observe=lambda m, pc: seen.append(pc))
    assert seen == forward[::-1]


@pytest.mark.parametrize("way", ["run", "run_back"])
def test_a_watched_run_is_the_same_run(make: Make, sample: rg.Program, way: str) -> None:
    one, other = make(sample), make(sample)
    if way == "run_back":
        one.run()
        other.run()
    assert getattr(one, way)() == getattr(other, way)(observe=lambda machine, pc: None)
    assert one.state() == other.state()
    assert one.executed == other.executed


# ------------------------------------------------------------ counters


def test_counts_by_name_and_direction(make: Make) -> None:
    machine = make(rg.assemble(LOOP))
    machine.run()
    forward = {"start": 1, "imm.add": 4, "from.ne": 3, "mov.add": 3, "goto.ne": 3}
    assert machine.counts() == machine.counts(+1) == forward
    assert machine.counts(-1) == {}
    assert machine.retired == sum(forward.values()) == LOOP_STEPS
    machine.run_back()
    backward = {"finish": 1, "imm.sub": 4, "goto.ne": 3, "mov.sub": 3, "from.ne": 3}
    assert machine.counts(+1) == forward
    assert machine.counts(-1) == backward
    assert machine.retired == 2 * LOOP_STEPS


def test_counts_of_single_steps_back(make: Make) -> None:
    machine, other = make(rg.assemble(LOOP)), make(rg.assemble(LOOP))
    machine.run()
    other.run()
    machine.run_back()
    while other.step_back():
        pass
    assert machine.executed == other.executed


# ------------------------------------------------------------ erasing


def test_erase_counts_bits(make: Make) -> None:
    for width in (8, 16, 32, 64):
        machine = make(rg.assemble(f".format {width}, 4\nstart\nadd r1, 7\nerase r1\nerase r2\nfinish"))
        machine.run()
        assert machine.registers[1] == 0
        assert machine.erased_bits == 2 * width
        assert machine.counts()["erase"] == 2


@pytest.mark.parametrize("way", ["run_back", "step_back", "turn and run"])
def test_erase_met_backward_traps(make: Make, way: str) -> None:
    machine = make(straight("add r1, 7", "erase r1", "add r2, 1"))
    machine.run(4)
    if way == "step_back":
        assert machine.step_back()
        state = machine.state()
        with pytest.raises(rg.Trap) as caught:
            machine.step_back()
    elif way == "run_back":
        with pytest.raises(rg.Trap) as caught:
            machine.run_back()
        state = (tuple([0] * REGISTERS), (), 3, 0, 1)
    else:
        machine.turn()
        with pytest.raises(rg.Trap) as caught:
            machine.run()
        state = (tuple([0] * REGISTERS), (), 2, 0, -1)
    assert (caught.value.code, caught.value.pc, caught.value.direction) == ("RG0409", 2, -1)
    assert "`erase r1` running backward as `unerase r1`" in caught.value.diagnostics[0].message
    assert machine.state() == state
    assert machine.erased_bits == 64
    # It can go on forward from there.
    if way == "turn and run":
        machine.turn()
    assert machine.run().stop is rg.Stop.HALTED
    assert machine.registers[2] == 1


def test_strict_mode_erases_nothing(make: Make) -> None:
    program = straight("add r1, 7", "erase r1")
    machine = make(program, strict=True)
    with pytest.raises(rg.Trap) as caught:
        machine.run()
    assert (caught.value.code, caught.value.pc, caught.value.value) == ("RG0408", 2, None)
    assert machine.registers[1] == 7
    assert machine.erased_bits == 0
    machine.run_back()
    assert machine.state() == make(program).state()
    # Other instructions are the same in strict mode.
    assert make(rg.assemble(LOOP), strict=True).run().steps == LOOP_STEPS


def test_strict_mode_does_not_depend_on_the_value(make: Make) -> None:
    with pytest.raises(rg.Trap, match="RG0408"):
        make(straight("erase r1"), strict=True).run()
