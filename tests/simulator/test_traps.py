"""Traps, memory and formats: the state after a trap, addresses, and formats without some functions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from retrograd.isa.diagnostics import KINDS

import retrograd as rg

MASK = (1 << 64) - 1

Make = Callable[..., rg.Machine]


def straight(*lines: str, **options: Any) -> rg.Program:
    return rg.assemble("\n".join(["start", *lines, "finish"]), **options)


def loose(*lines: str, **options: Any) -> rg.Program:
    """A program that the verifier would refuse."""
    return rg.assemble("\n".join(lines), check=False, **options)


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
    ("assertion", ["start", "add r1, -3", "assert.ltu r1, r2", "finish"],
     "RG0413", 2, -3 & MASK, "the comparison of -3 with another word does not hold"),
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
