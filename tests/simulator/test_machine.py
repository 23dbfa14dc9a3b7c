"""The machine, whatever runs it: what a step is, what takes it back, and what a trap leaves behind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations, islice
from math import gcd
from typing import Any

import pytest
from retrograd.isa import laws
from retrograd.isa.diagnostics import KINDS
from retrograd.isa.encoding import Instruction, encode, inverse
from retrograd.isa.entries import Function, Opcode
from retrograd.isa.functions import available
from retrograd.simulator.machine import REGISTERS
from retrograd.simulator.semantics import Fault, handler, handler_source

import retrograd as rg

MASK = (1 << 64) - 1
Make = Callable[..., rg.Machine]

#: loops, an if with else, calls both ways, a recursive call: every kind of step
SAMPLE = """
        .memory 24
        .reg z, r0
        .reg i, r1
        .reg n, r2
        .reg x, r3
        .reg y, r4
        .reg sp, r5
        .reg deep, r6
        .reg link, r7

        .data
table:  .word 3, 1, 4, 1, 5

        .text
        proc twist, link, sp
        add x, 7
        mul.xor y, x, n
        rol x, n
outer:  goto.eq deep, z, deepest
        sub deep, 1
        uncall twist
        call twist
        add deep, 1
deepest: from.eq deep, z, outer
        exch y, [i + table]
        endproc

        start
        add sp, 8
        add n, 4
top:    from.ne i, z, bottom
        call twist
choose: goto.lt x, z, negative
        add y, x
over:   goto join
negative: from choose
        sub y, x
join:   from.ge x, z, over
        add i, 1
bottom: goto.ne i, n, top
        add deep, 2
        uncall twist
        finish
"""


@pytest.fixture(scope="module")
def sample() -> rg.Program:
    return rg.assemble(SAMPLE)


def straight(*lines: str, **options: Any) -> rg.Program:
    return rg.assemble("\n".join(["start", *lines, "finish"]), **options)


def loose(*lines: str, **options: Any) -> rg.Program:
    """A program that the verifier would refuse."""
    return rg.assemble("\n".join(lines), check=False, **options)


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


# ------------------------------------------------------------ traps, one after the other


def fixed(value: float) -> int:
    return rg.Format().from_real(value)


BIG = 1 << 62
W8 = ".format 8, 4"

#: (name, lines, code, the trapping PC, value, part of the message)
TRAPS: list[tuple[str, list[str], str, int, int | None, str]] = [
    ("load", [".memory 4", "start", "add r1, 4", "ld.add r2, [r1]", "finish"],
     "RG0401", 2, 4, "address 4 is outside the memory of 4 words"),
    ("load below", [".memory 4", "start", "ld.add r2, [r1 - 1]", "finish"],
     "RG0401", 1, MASK, "address 18446744073709551615 is outside the memory of 4 words"),
    ("store", ["start", "st.xor [r1], r2", "finish"], "RG0401", 1, 0, "address 0 is outside the memory of 0 words"),
    ("exchange", [".memory 2", "start", "exch r2, [r1 + 2]", "finish"], "RG0401", 1, 2, "address 2 is outside"),
    ("division", ["start", "add r1, 3", "div.add r2, r1, r3", "finish"], "RG0402", 2, 0, "division by zero"),
    ("remainder", ["start", "mod.xor r2, r1, r3", "finish"], "RG0402", 1, 0, "division by zero"),
    ("fixed division", ["start", "add r1, 1q", "fdiv.add r2, r1, r3", "finish"], "RG0402", 2, 0, "division by zero"),
    ("root", ["start", "sub r1, 2.5q", "fsqrt.add r2, r1", "finish"],
     "RG0403", 3, fixed(-2.5), "the argument -2.5 is outside the function's domain"),
    ("product", ["start", "add r1, 100000q", "fmul.add r2, r1, r1", "finish"],
     "RG0404", 2, fixed(100000), "fixed-point overflow in Q32.32, with operand 100000.0"),
    ("quotient", ["start", "add r1, 100000q", "add r3, 0.00001q", "fdiv.add r2, r1, r3", "finish"],
     "RG0404", 3, fixed(100000), "fixed-point overflow in Q32.32"),
    ("sum", ["start", f"add r1, {BIG}", f"add r2, {BIG}", "fadd r2, r1", "finish"],
     "RG0404", 3, BIG, "fixed-point overflow in Q32.32"),
    ("difference", [W8, "start", "add r1, 100", "sub r2, 100", "fsub r2, r1", "finish"],
     "RG0404", 3, 100, "fixed-point overflow in Q4.4, with operand 6.25"),
    ("magnitude", [W8, "start", "add r1, -128", "fabs.add r2, r1", "finish"],
     "RG0404", 2, 128, "fixed-point overflow in Q4.4, with operand -8.0"),
    ("integer to fixed", [W8, "start", "add r1, 8", "itof.add r2, r1", "finish"], "RG0404", 2, 8, "overflow in Q4.4"),
    ("unpaired", ["start", "goto .+2", "from .-1", "add r1, 1", "finish"],
     "RG0405", 3, 2, "control arrived by a jump (BR = 2), and this instruction does not end it"),
    ("unpaired, at a finish", ["start", "goto .+1", "finish"], "RG0405", 2, 1, "control arrived by a jump (BR = 1)"),
    ("unpaired, at a call", ["start", "goto .+1", "call .+2", "finish", "swapbr r1"],
     "RG0405", 2, 1, "control arrived by a jump (BR = 1)"),
    ("unpaired, at an uncall", ["start", "goto .+1", "uncall .+2", "finish", "swapbr r1"],
     "RG0405", 2, 1, "control arrived by a jump (BR = 1)"),
    ("unpaired, backward", ["start", "goto .-1", "finish"], "RG0405", 0, MASK, "control arrived by a jump (BR = -1)"),
    ("a second jump", ["start", "goto .+1", "goto .+5", "finish"], "RG0405", 2, 1, "control arrived by a jump (BR = 1)"),
    ("contradicted, from above", ["start", "top: from.eq r1, r0, bottom", "add r1, 1", "bottom: goto.ne r1, r2, top",
     "finish"], "RG0406", 1, None, "control came from above, but the comefrom's condition says that it came by the jump"),
    ("contradicted, by the jump", ["start", "top: from.ne r1, r0, bottom", "add r2, 1", "bottom: goto.eq r1, r0, top",
     "finish"], "RG0406", 1, None, "control came by the jump (BR = -2), but the comefrom's condition says otherwise"),
    ("the wrong comefrom", ["start", "goto .+2", "from .-1", "from .-1", "finish"],
     "RG0406", 3, None, "control came by the jump (BR = 2), but"),
    ("ancilla", ["start", "sub r1, 3", "assertz r1", "finish"],
     "RG0407", 2, -3 & MASK, "the ancilla holds -3, not zero: freeing it would erase 64 bits"),
    ("logarithm of zero", ["start", "ftol.mul r2, r1", "finish"], "RG0411", 1, 0, "lognum of zero"),
    ("difference of equals", ["start", "add r1, 1q", "add r3, 1q", "lsub.mul r2, r1, r3", "finish"],
     "RG0411", 3, None, "lognum of zero"),
    ("end of the code", ["finish", "start", "add r1, 1"], "RG0410", 3, 3, "PC = 3 is outside the code"),
    ("far away", ["start", "goto .+100", "finish"], "RG0410", 101, 101, "PC = 101 is outside the code"),
    ("before the code", ["start", "goto .-5", "finish"], "RG0410", -4, -4, "PC = -4 is outside the code"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "code", "pc", "value", "message"), [t[1:] for t in TRAPS], ids=[t[0] for t in TRAPS])
def test_traps(make: Make, lines: list[str], code: str, pc: int, value: int | None, message: str) -> None:
    program = loose(*lines)
    machine = make(program)
    initial = machine.state()
    before = initial
    caught = None
    for _ in range(20):
        before = machine.state()
        try:
            machine.step()
        except rg.Trap as trap:
            caught = trap
            break
    assert caught is not None
    assert caught.code == code
    assert caught.pc == machine.pc == pc
    assert caught.direction == 1
    if value is not None:
        assert caught.value is not None
        assert program.format.wrap(caught.value) == program.format.wrap(value)
    found = caught.diagnostics[0]
    assert message in found.message
    assert f"pc {pc}" in found.message
    assert "running forward" in found.message
    if 0 <= pc < len(program.code):
        assert found.span == program.source.span(pc)
        assert found.line is not None
    assert KINDS[code].why in str(caught)
    # Precise: the faulting instruction has changed nothing, and is met again.
    assert machine.state() == before
    with pytest.raises(rg.Trap, match=code):
        machine.run()
    assert machine.state() == before
    # And it can be left backward.
    assert machine.run_back().stop is rg.Stop.HALTED
    assert machine.state() == initial


def test_every_trap_of_a_machine_is_provoked() -> None:
    provoked = {t[2] for t in TRAPS} | {"RG0408", "RG0409"}
    assert provoked == {code for code in KINDS if "RG0401" <= code < "RG0420"}


def test_a_trap_in_an_uncall_says_that_it_ran_backward(make: Make) -> None:
    program = rg.assemble("start\nuncall f\nfinish\nproc f, r9\ndiv.add r1, r2, r3\nendproc")
    machine = make(program)
    with pytest.raises(rg.Trap) as caught:
        machine.run()
    assert (caught.value.code, caught.value.pc, caught.value.direction) == ("RG0402", 6, -1)
    assert "`div.add r1, r2, r3` running backward as `div.sub r1, r2, r3`" in caught.value.diagnostics[0].message
    machine.run_back()
    assert machine.state() == make(program).state()


def test_a_contradiction_met_backward(make: Make) -> None:
    # Backward, the goto is the comefrom: the loop's exit condition does not say how control came.
    program = rg.assemble("start\ntop: from.ne r1, r0, bottom\nadd r1, 1\nbottom: goto.ne r1, r2, top\nfinish")
    machine = make(program, backward=True)
    machine.registers[1] = 3
    with pytest.raises(rg.Trap) as caught:
        machine.run()
    assert (caught.value.code, caught.value.pc, caught.value.direction) == ("RG0406", 3, -1)
    assert "control came from above" in caught.value.diagnostics[0].message


def test_a_memory_trap_names_the_line(make: Make) -> None:
    program = rg.assemble("start\n  ld.add r2, [r1 + 9] ; here\nfinish", name="demo.rga")
    with pytest.raises(rg.Trap) as caught:
        make(program).run()
    text = str(caught.value)
    assert text.startswith("error[RG0401]: address 9 is outside the memory of 0 words")
    assert "--> demo.rga:2:3" in text
    assert "2 |   ld.add r2, [r1 + 9] ; here" in text


def test_overflow_can_wrap(make: Make) -> None:
    for lines, result in (
        ([f"add r1, {BIG}", f"add r2, {BIG}", "fadd r2, r1"], 1 << 63),
        (["add r1, 100000q", "fmul.add r2, r1, r1"], fixed(100000) ** 2 >> 32 & MASK),
    ):
        with pytest.raises(rg.Trap, match="RG0404"):
            make(straight(*lines)).run()
        machine = make(straight(*lines), overflow=False)
        machine.run()
        assert machine.registers[2] == result
        machine.run_back()
        assert machine.registers[2] == 0
    # Domains stay checked.
    with pytest.raises(rg.Trap, match="RG0402"):
        make(straight("fdiv.add r1, r2, r3"), overflow=False).run()


def test_a_trap_at_pc_0(make: Make) -> None:
    """The first address is an instruction like any other: a trap there shows it, whichever way it is executed."""
    jumped = loose("x: add r1, 5", "start", "goto x", "finish")
    machine = make(jumped)
    with pytest.raises(rg.Trap, match=r"\(at pc 0, `imm.add r1, 5` running forward\)") as caught:
        machine.run()
    assert (caught.value.code, caught.value.pc, machine.pc, machine.br) == ("RG0405", 0, 0, -2)
    assert caught.value.diagnostics[0].line == "x: add r1, 5"

    divides = loose("div.add r1, r2, r3", "start", "finish")
    for direction, way in ((1, "forward"), (-1, "backward as `div.sub r1, r2, r3`")):
        machine = make(divides)
        machine.pc, machine.direction = 0, direction
        before = machine.state()
        for move in (machine.run, machine.step):
            with pytest.raises(rg.Trap, match=rf"\(at pc 0, `div.add r1, r2, r3` running {way}\)") as caught:
                move()
            assert (caught.value.code, caught.value.pc, caught.value.direction) == ("RG0402", 0, direction)
        assert machine.state() == before
    # One address lower there is none.
    machine = make(divides)
    machine.pc = -1
    with pytest.raises(rg.Trap, match=r"\(at pc -1, running forward\)"):
        machine.run()


# ------------------------------------------------------------ memory


def test_memory_limit(make: Make) -> None:
    program = rg.assemble(".memory 1000\nstart\nfinish")
    assert len(make(program, memory_limit=1000).memory) == 1000
    with pytest.raises(rg.InputError) as caught:
        make(program, memory_limit=999)
    assert caught.value.code == "RG0421"
    assert "needs 1000 words of memory; this machine grants 999" in str(caught.value)
    with pytest.raises(rg.InputError, match="RG0421"):
        make(program, memory=1 << 40)


def test_memory_size_can_be_given(make: Make) -> None:
    program = rg.assemble(".memory 10\n.data\n.word 1, 2, 3\n.text\nstart\nfinish")
    assert make(program).memory == [1, 2, 3] + [0] * 7
    assert make(program, memory=20).memory == [1, 2, 3] + [0] * 17
    # Never less than the program asks for.
    assert make(program, memory=0).memory == [1, 2, 3] + [0] * 7
    assert make(rg.assemble(".data\n.word 1, 2\n.text\nstart\nfinish"), memory=1).memory == [1, 2]


@pytest.mark.parametrize(("address", "count"), [(0, 5), (4, 1), (5, 0)])
def test_load(make: Make, address: int, count: int) -> None:
    machine = make(rg.assemble(".memory 5\nstart\nfinish"))
    machine.load(address, [-1] * count)
    assert machine.memory == [MASK if address <= i < address + count else 0 for i in range(5)]


@pytest.mark.parametrize(("address", "count"), [(0, 6), (5, 1), (-1, 1), (-1, 0), (1 << 70, 1)])
def test_load_outside_the_memory(make: Make, address: int, count: int) -> None:
    machine = make(rg.assemble(".memory 5\nstart\nfinish"))
    with pytest.raises(rg.InputError) as caught:
        machine.load(address, [7] * count)
    assert caught.value.code == "RG0505"
    assert "memory of 5 words" in str(caught.value)
    assert machine.memory == [0] * 5


def test_machines_share_nothing(make: Make, sample: rg.Program) -> None:
    one, other = make(sample), make(sample)
    one.run()
    assert other.state() == make(sample).state()
    assert other.retired == 0


def test_what_cannot_be_made_into_a_machine(make: Make) -> None:
    for lines, code in ((["finish"], "RG0204"), (["start", "start", "finish"], "RG0204")):
        with pytest.raises(rg.VerificationError, match=code):
            make(loose(*lines))
    with pytest.raises(rg.VerificationError, match="RG0205"):
        make(loose("start"), backward=True)
    with pytest.raises(rg.ImageError, match="RG0306"):
        make(rg.Program([0]))


# ------------------------------------------------------------ formats


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_words_wrap_at_the_width(make: Make, width: int) -> None:
    machine = make(rg.assemble(f".format {width}, 4\nstart\nsub r1, 1\nadd r2, -1\nneg r2\nshri.add r3, r1, 1\nfinish"))
    machine.run()
    assert machine.registers[1:4] == [(1 << width) - 1, 1, (1 << width - 1) - 1]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
@pytest.mark.parametrize("frac", [0, 1, 4, 7])
def test_fixed_point_products(make: Make, width: int, frac: int) -> None:
    w = rg.Format(width, frac)
    rng = random.Random(width * 100 + frac)
    program = rg.assemble(f".format {width}, {frac}\nstart\nfmul.add r3, r1, r2\nfinish")
    for _ in range(25):
        x, y = rng.getrandbits(width), rng.getrandbits(width)
        machine = make(program, overflow=False)
        machine.registers[1:3] = x, y
        machine.run()
        assert (
            machine.registers[3] == math.floor(Fraction(w.signed(x) * w.signed(y), 1 << frac) + Fraction(1, 2)) & w.mask
        )


def test_a_jump_too_long_for_a_word(make: Make) -> None:
    # BR is a word. Where the verifier passes a jump, the machine must be able to take it.
    lines = [".format 8, 4", "start", "a: goto.eq r1, r0, b", *["add r2, 1"] * 256, "b: from.eq r1, r0, a", "finish"]
    try:
        program = rg.assemble("\n".join(lines))
    except rg.RetrogradError:
        return
    assert make(program).run(1000) == rg.Outcome(rg.Stop.HALTED, 3)


# ------------------------------------------------------------ the handlers against the trees


def operand_states(opcode: Opcode, w: rg.Format, rng: random.Random, count: int) -> Iterator[dict[str, int]]:
    """Words by place; BR as a signed number: nothing, this branch's own jump either way, another's."""
    corners = (0, 1, w.mask, w.sign, w.sign - 1, 2)
    # Offsets and constants are used modulo 2^W; a jump's offset is one that the word can hold.
    bound = min(w.sign, 1 << 31) - 1

    def word() -> int:
        return rng.choice(corners) if rng.random() < 0.4 else rng.getrandbits(w.width) >> rng.randrange(w.width)

    for _ in range(count):
        state = {place: word() for place in ("d", "a", "b", "m")}
        if rng.random() < 0.3:
            state["b"] = state["a"]
        imm = rng.randint(-bound, bound) if rng.random() < 0.6 else rng.choice((0, 1, -1, bound, -bound))
        br = rng.choice((0, 0, 0, imm, -imm, rng.randint(-bound, bound)))
        yield {**state, "imm": imm, "br": br}


def compare(opcode: Opcode, w: rg.Format, modes: frozenset[str], state: dict[str, int], run: Any) -> str | None:
    """Run a handler and the definition on one state; what differs, or the trap's code or None if nothing does."""
    registers, memory = [0] * 8, [11, 12, 13, 14]
    fields = {"d": 1, "a": 2, "b": 3}
    for place, number in fields.items():
        registers[number] = state[place]
    imm, address = state["imm"], 2
    if "[ra+imm]" in opcode.operands:
        registers[fields["a"]] = address - imm & w.mask
        memory[address] = state["m"]
    expected = laws.execute(
        opcode,
        {**state, "a": registers[2], "imm": imm & w.mask, "br": state["br"] & w.mask},
        w,
        ("always", *modes),
    )
    before = list(registers), list(memory)
    fault: Fault | None = None
    br = 0
    try:
        br = run(registers, memory, state["br"], 1, 2, 3, imm & w.mask)
    except Fault as raised:
        fault = raised
    if fault is not None:
        assert (registers, memory) == before, "a trap has changed something"
        assert fault.code == expected
        return fault.code
    assert not isinstance(expected, str), f"should trap {expected}"
    assert {p: registers[n] for p, n in fields.items()} == {p: expected[p] for p in fields}
    if "[ra+imm]" in opcode.operands:
        assert memory == [11, 12, expected["m"], 14]
    else:
        assert memory == before[1]
    assert br == w.signed(expected["br"])
    assert registers[4:] == [0] * 4
    return None


def modes_of(opcode: Opcode, w: rg.Format) -> Iterator[frozenset[str]]:
    """Every set of modes that the opcode can tell apart."""
    known = sorted({g.mode for g in opcode.guards(w)} - {"always"})
    for size in range(len(known) + 1):
        yield from (frozenset(chosen) for chosen in combinations(known, size))


FORMATS = [rg.Format(8, 4), rg.Format(16, 8), rg.Format(32, 16), rg.Format(64, 32), rg.Format(64, 0), rg.Format(64, 63)]


def is_rounded(opcode: Opcode) -> bool:
    """Whether it is a real function rounded, which formats without room for it refuse."""
    entry = opcode.entry
    return (entry.partials if isinstance(entry, Function) else entry.lifted) is not None


@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_handlers_agree_with_the_trees(opcode: Opcode) -> None:
    check_handlers(opcode, 20)


@pytest.mark.slow
@pytest.mark.parametrize("opcode", list(rg.TABLE), ids=lambda o: o.name)
def test_handlers_agree_with_the_trees_on_more_states(opcode: Opcode) -> None:
    check_handlers(opcode, 200)


def check_handlers(opcode: Opcode, count: int) -> None:
    rng = random.Random(opcode.code)
    for w in FORMATS:
        for modes in modes_of(opcode, w):
            run = handler(opcode, w, modes)
            states = operand_states(opcode, w, rng, 50 * count)
            met = {compare(opcode, w, modes, state, run) for state in islice(states, count)}
            if None not in met:  # a state that passes is rare, and there must be one
                met |= {compare(opcode, w, modes, state, run) for state in islice(states, 10 * count)}
            absent = is_rounded(opcode) and not available(w)
            assert None in met or opcode.name == "unerase" or "strict" in modes or (absent and "RG0403" in met)


def test_handlers_have_the_guards_of_their_modes() -> None:
    w = rg.Format()
    assert "RG0404" in handler_source(rg.TABLE["fmul.add"], w, frozenset({"overflow"}))
    assert "RG0404" not in handler_source(rg.TABLE["fmul.add"], w, frozenset())
    assert "RG0408" in handler_source(rg.TABLE["erase"], w, frozenset({"strict"}))
    assert "RG0408" not in handler_source(rg.TABLE["erase"], w, frozenset({"overflow"}))


@pytest.mark.parametrize("name", ["mul.add", "st.xor", "exch", "cswap", "from.lt", "uncall", "fdiv.sub", "rol"])
def test_a_wrong_handler_is_found(name: str) -> None:
    opcode, w = rg.TABLE[name], rg.Format()
    other = rg.TABLE[{"exch": "ld.add", "cswap": "swap", "uncall": "call", "rol": "ror"}.get(name, "")
                     or rg.TABLE[name].inverse_name]  # fmt: skip
    if other is opcode:
        other = rg.TABLE[name.replace("xor", "add")]
    run = handler(other, w, frozenset())

    def differences() -> None:
        for state in operand_states(opcode, w, random.Random(1), 200):
            compare(opcode, w, frozenset(), state, run)

    with pytest.raises(AssertionError):
        differences()


@pytest.mark.parametrize("make", ["reference", "threaded"], indirect=True)
@pytest.mark.parametrize("way", [+1, -1])
def test_the_machine_executes_the_table(make: Make, way: int) -> None:
    """Every instruction by itself, in a machine, either way: its own definition, or its inverse's."""
    w = rg.Format()
    rng = random.Random(way)
    for opcode in rg.TABLE:
        if "br" in opcode.writes or opcode.name in ("start", "finish"):
            continue
        for state in operand_states(opcode, w, rng, 3):
            fields = {"rd": 1, "ra": 2, "rb": 3, "imm": state["imm"]}
            i = Instruction(opcode, **{f: v for f, v in fields.items() if f in opcode.fields})
            ends = [Instruction(rg.TABLE["start"]), i, Instruction(rg.TABLE["finish"])]
            machine = make(rg.Program([encode(x) for x in ends], memory=4), backward=way < 0)
            machine.registers[1:4] = state["d"], state["a"], state["b"]
            if "[ra+imm]" in opcode.operands:
                machine.registers[2] = 2 - state["imm"] & w.mask
                machine.memory[2] = state["m"]
            words = {**state, "a": machine.registers[2], "imm": state["imm"] & w.mask, "br": 0}
            executed = opcode if way > 0 else inverse(i).opcode
            expected = laws.execute(executed, words, w, ("always", "overflow"))
            before = machine.registers[:], machine.memory[:]
            machine.step()
            if isinstance(expected, str):
                with pytest.raises(rg.Trap, match=expected):
                    machine.run()
                assert (machine.registers, machine.memory) == before
                continue
            machine.run()
            assert machine.registers[1:4] == [expected["d"], expected["a"], expected["b"]]
            if "[ra+imm]" in opcode.operands:
                assert machine.memory == [0, 0, expected["m"], 0]


# ------------------------------------------------------------ known results


FIBONACCI = """
; After Axelsen, Glück, Yokoyama: n = 0 gives (1, 1); a call takes n to 0 and makes (x1, x2) = (F(n+1), F(n+2)).
        .memory 400
        .reg z, r0
        .reg n, r1
        .reg x1, r2
        .reg x2, r3
        .reg link, r4
        .reg sp, r5
        proc fib, link, sp
test:   goto.eq n, z, base
        sub n, 1
        call fib
        add x1, x2
        swap x1, x2
skip:   goto join
base:   from test
        add x1, 1
        add x2, 1
join:   from.ne x1, x2, skip
        endproc
        start
        {}
        finish
"""


def fibonacci(count: int) -> tuple[int, int]:
    x, y = 1, 1
    for _ in range(count):
        x, y = y, x + y
    return x, y


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 10, 60])
def test_fibonacci_called_and_uncalled(make: Make, n: int) -> None:
    called = rg.assemble(FIBONACCI.format("call fib"))
    machine = make(called)
    machine.registers[1] = n
    begun = machine.state()
    assert machine.run().stop is rg.Stop.HALTED
    assert machine.registers[1:6] == [0, *fibonacci(n), 0, 0]
    assert not any(machine.memory)
    assert machine.erased_bits == 0
    ended = machine.state()
    machine.run_back()
    assert machine.state() == begun

    # Uncalled, it finds which n two numbers belong to.
    other = make(rg.assemble(FIBONACCI.format("uncall fib")))
    other.registers[:] = ended[0]
    other.run()
    assert other.registers[1:6] == [n, 0, 0, 0, 0]

    # Called and uncalled in one program: nothing has happened.
    both = make(rg.assemble(FIBONACCI.format("call fib\nuncall fib\ncall fib\nuncall fib")))
    both.registers[1] = n
    both.run()
    assert both.registers[1:6] == [n, 0, 0, 0, 0]


def test_numbers_that_are_not_of_fibonacci(make: Make) -> None:
    machine = make(rg.assemble(FIBONACCI.format("uncall fib")))
    machine.registers[2:4] = 4, 7
    begun = machine.state()
    # (4, 7) is of the other such sequence: it goes back past its beginning, until the stack leaves the memory.
    with pytest.raises(rg.Trap):
        machine.run(100_000)
    machine.run_back()
    assert machine.state() == begun


EUCLID = """
        .memory 100
        .reg z, r0
        .reg a, r1
        .reg b, r2
        .reg q, r3
        .reg t, r4
        .reg sp, r5
        start
top:    from.ne sp, z, bottom
test:   goto.eq b, z, exit
        div.add q, a, b
        mul.add t, q, b
        sub a, t
        mul.sub t, q, b
        swap a, b
        push q, sp
bottom: goto top
exit:   from test
        finish
"""


@pytest.mark.parametrize(
    ("a", "b", "quotients"),
    [(1071, 462, [2, 3, 7]), (462, 1071, [0, 2, 3, 7]), (1, 1, [1]), (17, 0, []), (355, 113, [3, 7, 16])],
)
def test_euclid(make: Make, a: int, b: int, quotients: list[int]) -> None:
    program = rg.assemble(EUCLID)
    machine = make(program)
    machine.registers[1:3] = a, b
    begun = machine.state()
    machine.run()
    assert machine.registers[1:6] == [gcd(a, b), 0, 0, 0, len(quotients)]
    assert machine.memory[: len(quotients) + 1] == [*quotients, 0]
    machine.run_back()
    assert machine.state() == begun
    # From a quotients' list backward: the numbers with that continued fraction.
    other = make(program, backward=True)
    other.registers[1], other.registers[5] = gcd(a, b), len(quotients)
    other.load(0, quotients)
    other.run()
    assert other.registers[1:6] == [a, b, 0, 0, 0]
    assert not any(other.memory)


def test_a_reversible_generator_of_random_numbers(make: Make) -> None:
    # xorshift64 of Marsaglia: three updates of a word by shifts of itself, each through a copy that is uncomputed.
    rounds = 50
    body = []
    for shift, name in ((13, "shli"), (7, "shri"), (17, "shli")):
        undo = range(shift, 64, shift)
        body += [f"{name}.xor r2, r1, {shift}", "xor r1, r2"]
        # r2 = old << s; from the new word, old = new ^ new<<s ^ new<<2s …, so the copy is a sum of shifts of the new.
        body += [f"{name}.xor r2, r1, {k}" for k in undo]
    program = rg.assemble("\n".join([
        "start", f"add r4, {rounds}", "top: from.ne r3, r0, bottom", *body, "add r3, 1",
        "bottom: goto.ne r3, r4, top", "finish"]))  # fmt: skip
    machine = make(program)
    machine.registers[1] = 88172645463325252
    machine.run()
    x = 88172645463325252
    for _ in range(rounds):
        x ^= x << 13 & MASK
        x ^= x >> 7
        x ^= x << 17 & MASK
    assert machine.registers[1:4] == [x, 0, rounds]
    machine.run_back()
    assert machine.registers[1] == 88172645463325252


def test_recursion_uses_its_stack(make: Make) -> None:
    machine = make(rg.assemble(FIBONACCI.format("call fib")))
    machine.registers[1] = 30
    deepest = 0

    def watch(m: rg.Machine, pc: int) -> None:
        nonlocal deepest
        deepest = max(deepest, m.registers[5])

    machine.run(observe=watch)
    assert deepest == 31
