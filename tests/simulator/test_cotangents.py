"""Runs with D = 1 on every machine: cotangents of known functions, memory and control flow, freed ancillas, overflow."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import mpmath
import pytest
from retrograd.simulator.machine import REGISTERS

import retrograd as rg

ONE = 1 << 32

W = rg.Format()

Make = Callable[..., rg.Machine]


def word(value: float) -> int:
    return W.from_real(value)


def real(found: int) -> float:
    return float(W.to_real(found))


def straight(*lines: str) -> rg.Program:
    return rg.assemble("\n".join(["start", *lines, "finish"]))


def gradient(
    make: Make,
    program: rg.Program,
    registers: Mapping[int, float],
    result: int = 9,
    memory: tuple[float, ...] = (),
    **options: Any,
) -> rg.Machine:
    """A machine back at `start`, the cotangents of all registers and words being the derivatives of R[result]."""
    machine = make(program, **options)
    for r, x in registers.items():
        machine.registers[r] = word(x)
    machine.load(0, [word(x) for x in memory])
    begun = machine.state()
    machine.run()
    machine.differentiating = True
    machine.cotangents[result] = ONE
    machine.turn()
    assert machine.run().stop is rg.Stop.HALTED
    assert machine.state()[:2] == begun[:2]
    return machine


def derivatives(machine: rg.Machine, *registers: int) -> list[float]:
    return [real(machine.cotangents[r]) for r in registers]


# ---------------------------------------------------------------- the machine


#: loops, an if, calls both ways, an ancilla, and memory; r1 and r2 are fixed-point numbers
SAMPLE = """
        .memory 24
        .reg z, r0
        .reg x, r1
        .reg y, r2
        .reg i, r3
        .reg n, r4
        .reg t, r5
        .reg sp, r6
        .reg link, r7

        proc shear, link, sp
        fmul.add t, x, x
        fmul.add y, t, x
        fmul.sub t, x, x
        assertz t
        ld.add x, [i + 16]
        neg y
        endproc

        start
        add sp, 8
        add n, 3
top:    from.ne i, z, bottom
        call shear
choose: goto.lt x, z, negative
        fadd y, x
over:   goto join
negative: from choose
        fsub y, x
join:   from.ge x, z, over
        exch y, [i + 18]
        uncall shear
        swap x, y
        rot x, y, n
        add i, 1
bottom: goto.ne i, n, top
        finish
"""


def sample_machine(make: Make, **options: Any) -> rg.Machine:
    machine = make(rg.assemble(SAMPLE), overflow=False, **options)
    machine.registers[1:3] = word(0.75), word(-0.5)
    machine.load(16, [word(x) for x in (0.1, -0.2, 0.3, 0.4, 0.5)])
    return machine


def fill(machine: rg.Machine, seed: int) -> None:
    rng = random.Random(seed)
    machine.differentiating = True
    machine.cotangents[:] = [rng.getrandbits(64) for _ in machine.cotangents]
    machine.memory_cotangents[:] = [rng.getrandbits(64) for _ in machine.memory_cotangents]


def states(machine: rg.Machine) -> list[Any]:
    out = [machine.state()]
    while machine.step():
        out.append(machine.state())
    return out


def test_without_differentiation_there_are_no_cotangents(make: Make) -> None:
    machine = sample_machine(make)
    assert (machine.differentiating, machine.cotangents, machine.memory_cotangents) == (False, [], [])
    machine.clear_cotangents()
    machine.run()
    assert len(machine.state()) == 5
    assert machine.dropped_bits == 0
    machine.differentiating = False
    assert machine.cotangents == []


def test_cotangents_begin_as_zeros_and_stay(make: Make) -> None:
    machine = sample_machine(make)
    machine.differentiating = True
    assert machine.cotangents == [0] * REGISTERS
    assert machine.memory_cotangents == [0] * 24
    machine.cotangents[3] = 5
    machine.differentiating = False
    assert machine.cotangents[3] == 5
    machine.differentiating = True
    assert machine.cotangents[3] == 5
    assert machine.state()[5:] == (True, tuple(machine.cotangents), tuple(machine.memory_cotangents))
    machine.clear_cotangents()
    assert not any(machine.cotangents)


@pytest.mark.parametrize("backward", [False, True])
def test_step_back_is_the_inverse_of_the_lifted_step(make: Make, backward: bool) -> None:
    machine = sample_machine(make, keep_dropped=True)
    if backward:
        machine.run()
        machine.turn()
    fill(machine, 1)
    passed = states(machine)
    assert len(passed) > 90
    assert {state[4] for state in passed} == {1, -1}
    for state in reversed(passed[1:]):
        assert machine.state() == state
        machine.step_back()
    assert machine.state() == passed[0]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_run_back_and_turn_undo_a_lifted_run(make: Make, size: int) -> None:
    machine = sample_machine(make, keep_dropped=True)
    fill(machine, 2)
    passed = states(machine)
    while machine.run_back(size).stop is rg.Stop.LIMIT:
        assert machine.state() in passed
    assert machine.state() == passed[0]
    machine.run()
    assert machine.state() == passed[-1]
    machine.turn()
    machine.run()
    # Halted at `start`, which does nothing: it is turned round there that the machine has taken its first step.
    machine.turn()
    assert machine.state() == passed[1]


def test_back_and_forth_with_turn(make: Make) -> None:
    rng = random.Random(4)
    machine = sample_machine(make, keep_dropped=True)
    fill(machine, 3)
    passed = states(machine)
    at = len(passed) - 1
    for _ in range(60):
        size = rng.randrange(1, 30)
        if rng.random() < 0.5:
            at += machine.run(size).steps
        elif rng.random() < 0.5:
            at -= machine.run_back(size).steps
        elif at > size:
            machine.turn()
            at -= machine.run(size).steps
            machine.turn()
        assert machine.state() == passed[at]


def test_values_are_those_without_differentiation(make: Make) -> None:
    one, other = sample_machine(make), sample_machine(make)
    fill(other, 5)
    while True:
        assert one.state() == other.state()[:5]
        moved = one.step()
        assert other.step() == moved
        if not moved:
            break
    assert one.executed == other.executed


def test_differentiation_switched_on_in_the_middle(make: Make) -> None:
    # The second half's gradient: that of the state in the middle.
    program = straight("fmul.add r3, r1, r1", "fmul.add r4, r3, r1", "fmul.add r9, r4, r4")
    machine = make(program)
    machine.registers[1] = word(1.5)
    machine.run()
    machine.differentiating = True
    machine.cotangents[9] = ONE
    machine.turn()
    machine.run(1)
    assert derivatives(machine, 4, 3, 1) == [2 * 1.5**3, 0, 0]
    machine.differentiating = False
    middle = machine.cotangents[:]
    machine.run()
    machine.turn()
    machine.run()
    machine.turn()
    assert machine.cotangents == middle
    machine.differentiating = True
    machine.run(2)
    assert derivatives(machine, 4, 3, 1) == [4 * 1.5**3, 4 * 1.5**4, 4 * 1.5**5]


def test_a_watched_run_is_the_same_run(make: Make) -> None:
    one, other = sample_machine(make), sample_machine(make)
    fill(one, 6)
    fill(other, 6)
    seen: list[int] = []
    assert one.run() == other.run(observe=lambda machine, pc: seen.append(machine.cotangents[1]))
    assert one.state() == other.state()
    assert one.dropped_bits == other.dropped_bits
    assert len(set(seen)) > 10


# ---------------------------------------------------------------- derivatives known otherwise


UNARY: list[tuple[str, Callable[[Any], Any], tuple[float, ...]]] = [
    ("fmov", lambda x: x, (0.0, -3.25)),
    ("fsqrt", mpmath.sqrt, (0.01, 2.0, 1e6)),
    ("fabs", abs, (2.5, -2.5)),
    ("fexp", mpmath.exp, (-3.0, 0.5, 5.0)),
    ("flog", mpmath.log, (0.125, 2.5, 1e5)),
    ("fsin", mpmath.sin, (-7.0, 0.0, 1.0)),
    ("fcos", mpmath.cos, (-7.0, 0.5, 2.0)),
]
BINARY: list[tuple[str, Callable[[Any, Any], Any], tuple[float, float]]] = [
    ("fmul", lambda x, y: x * y, (1.75, -2.5)),
    ("fmul", lambda x, y: x * y, (-300.0, 0.01)),
    ("fdiv", lambda x, y: x / y, (1.0, 3.0)),
    ("fdiv", lambda x, y: x / y, (-7.0, 0.125)),
    ("fatan2", mpmath.atan2, (1.0, 2.0)),
    ("fatan2", mpmath.atan2, (-4.0, -0.25)),
    ("fatan2", mpmath.atan2, (0.5, -100.0)),
]


def close(found: float, expected: float, places: float = 8) -> bool:
    """Within so many last places, and as many of the number itself where it is larger than one."""
    return abs(found - expected) <= places * 2.0**-32 * (1 + abs(expected))


@pytest.mark.parametrize(("name", "function", "points"), UNARY, ids=[row[0] for row in UNARY])
@pytest.mark.parametrize("update", ["add", "sub"])
def test_functions_of_one_operand(
    make: Make, name: str, function: Callable[[Any], Any], points: tuple[float, ...], update: str
) -> None:
    program = straight(f"{name}.{update} r9, r1")
    sign = 1 if update == "add" else -1
    for x in points:
        machine = gradient(make, program, {1: x})
        expected = sign * float(mpmath.diff(function, real(word(x))))
        assert close(*derivatives(machine, 1), expected), (x, expected)
        assert machine.cotangents[9] == ONE


@pytest.mark.parametrize(("name", "function", "point"), BINARY)
def test_functions_of_two_operands(
    make: Make, name: str, function: Callable[[Any, Any], Any], point: tuple[float, float]
) -> None:
    machine = gradient(make, straight(f"{name}.add r9, r1, r2"), {1: point[0], 2: point[1]})
    words = tuple(mpmath.mpf(real(word(x))) for x in point)
    for r, order in ((1, (1, 0)), (2, (0, 1))):
        expected = float(mpmath.diff(function, words, order))
        assert close(*derivatives(machine, r), expected, 12), (r, expected)


@pytest.mark.parametrize("angle", [-9.0, -0.3, 0.0, 1.0, 2.5, 4.0])
@pytest.mark.parametrize("name", ["rot", "irot"])
def test_rotations(make: Make, name: str, angle: float) -> None:
    sign = 1 if name == "rot" else -1
    program = straight(f"{name} r1, r2, r3", "fmul.add r8, r1, r1", "fmul.add r9, r8, r2")

    def loss(x: Any, y: Any, t: Any) -> Any:
        t = sign * t
        u, v = x * mpmath.cos(t) - y * mpmath.sin(t), x * mpmath.sin(t) + y * mpmath.cos(t)
        return u * u * v

    point = (1.25, -0.5, angle)
    machine = gradient(make, program, {1: point[0], 2: point[1], 3: point[2]})
    for i in range(3):
        expected = float(mpmath.diff(loss, point, tuple(int(i == j) for j in range(3))))
        assert close(*derivatives(machine, i + 1), expected, 32)


def test_lognums(make: Make) -> None:
    # L = a + b − c in lognums: ∂L/∂ln|a| = a, and so on.
    lines = ["ladd.mul r4, r1, r2", "lsub.mul r5, r4, r3", "ltof.add r9, r5"]
    machine = make(straight("ftol.mul r1, r11", "ftol.mul r2, r12", "ftol.mul r3, r13", *lines))
    numbers = (2.5, -0.75, 1.25)
    machine.registers[11:14] = [word(x) for x in numbers]
    machine.run()
    assert close(real(machine.registers[9]), 2.5 - 0.75 - 1.25)
    machine.differentiating = True
    machine.cotangents[9] = ONE
    machine.turn()
    machine.run(len(lines))
    for found, expected in zip(derivatives(machine, 1, 2, 3), (2.5, -0.75, -1.25), strict=True):
        assert close(found, expected, 32)
    # And on to the fixed-point numbers that they were made of.
    machine.run()
    for found, expected in zip(derivatives(machine, 11, 12, 13), (1, 1, -1), strict=True):
        assert close(found, expected, 64)


def test_a_product_of_lognums(make: Make) -> None:
    # p = x³/y: ∂p/∂x = 3 p/x, ∂p/∂y = −p/y
    lines = ["ftol.mul r3, r1", "lmul r4, r3", "lmul r4, r3", "lmul r4, r3", "ftol.div r4, r2", "ltof.add r9, r4"]
    machine = gradient(make, straight(*lines), {1: -1.5, 2: 4.0})
    p = -(1.5**3) / 4
    for found, expected in zip(derivatives(machine, 1, 2), (3 * p / -1.5, -p / 4), strict=True):
        assert close(found, expected, 64)


# ---------------------------------------------------------------- operands, memory, control


@pytest.mark.parametrize(
    ("line", "expected"), [("fmul.add r9, r1, r1", 6.0), ("fdiv.add r9, r1, r1", 0.0), ("fatan2.add r9, r1, r1", 0.0)]
)
def test_one_register_for_both_operands(make: Make, line: str, expected: float) -> None:
    (found,) = derivatives(gradient(make, straight(line), {1: 3.0}), 1)
    assert abs(found - expected) <= 2.0**-31


def test_a_word_read_by_several(make: Make) -> None:
    machine = gradient(
        make, straight("fadd r9, r1", "fmul.add r9, r1, r2", "fsub r9, r1", "fmul.add r9, r2, r1"), {1: 3, 2: 5}
    )
    assert derivatives(machine, 1, 2) == [10, 6]


def test_memory_operands(make: Make) -> None:
    lines = ["ld.add r1, [r0]", "ld.add r2, [r0 + 1]", "fmul.add r3, r1, r2", "st.add [r0 + 2], r3"]
    lines += ["exch r4, [r0 + 2]", "fmul.add r9, r4, r1"]
    program = rg.assemble("\n".join([".memory 3", "start", *lines, "finish"]))
    # L = (m₀ m₁ + m₂) m₀
    machine = gradient(make, program, {}, memory=(1.5, 2.0, 0.25))
    assert [real(c) for c in machine.memory_cotangents] == [2 * 1.5 * 2 + 0.25, 1.5**2, 1.5]


def test_exchanges(make: Make) -> None:
    lines = ["swap r1, r2", "cswap r1, r3, r4", "cswap r2, r3, r5", "neg r3", "fmul.add r9, r1, r3", "fadd r9, r2"]
    # r4 ≠ 0 and r5 = 0: L = −r3 r2 + r1
    machine = gradient(make, straight(*lines), {1: 2.0, 2: 3.0, 3: 5.0, 4: 1.0})
    assert derivatives(machine, 1, 2, 3, 4, 5) == [1, -5, -3, 0, 0]


def test_a_branch_not_taken_counts_for_nothing(make: Make) -> None:
    text = """
        start
choose: goto.lt r1, r0, negative
        fmul.add r9, r1, r2
over:   goto join
negative: from choose
        fsub r9, r1
join:   from.ge r1, r0, over
        finish
"""
    assert derivatives(gradient(make, rg.assemble(text), {1: 3.0, 2: 5.0}), 1, 2) == [5, 3]
    assert derivatives(gradient(make, rg.assemble(text), {1: -3.0, 2: 5.0}), 1, 2) == [-1, 0]


def test_a_loop(make: Make) -> None:
    # y := y + x y each time round, by an ancilla: (1 + x)ⁿ y.
    text = """
        start
        add r3, 5
top:    from.ne r4, r0, bottom
        fmul.add r5, r1, r9
        fadd r9, r5
        fmov.sub r6, r5
        swap r5, r6
        add r4, 1
        exch r6, [r4]
bottom: goto.ne r4, r3, top
        finish
"""
    program = rg.assemble(".memory 8\n" + text)
    machine = make(program)
    machine.registers[1], machine.registers[9] = word(0.5), word(2.0)
    machine.run()
    # r5 holds minus the product of before, which the next one is added to: what matters is only that all is smooth.
    result = machine.registers[9]

    def value(x: float, y: float) -> float:
        r5, saved = 0.0, 0.0
        for _ in range(5):
            r5 += x * y
            y += r5
            saved -= r5
            r5, saved = saved, r5
            saved = 0.0
        return y

    assert close(real(result), value(0.5, 2.0), 32)
    machine = gradient(make, program, {1: 0.5, 9: 2.0})
    h = 2.0**-14
    expected = (value(0.5 + h, 2) - value(0.5 - h, 2)) / (2 * h), (value(0.5, 2 + h) - value(0.5, 2 - h)) / (2 * h)
    for found, wanted in zip(derivatives(machine, 1, 9), expected, strict=True):
        assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(("calls", "expected"), [(["call"], 6.0), (["uncall"], -6.0), (["call", "uncall"], 0.0),
                                                 (["call", "call"], 12.0)])  # fmt: skip
def test_subroutines(make: Make, calls: list[str], expected: float) -> None:
    text = "\n".join(["start", *(f"{c} f" for c in calls), "finish", "proc f, r8", "fmul.add r9, r1, r1", "endproc"])
    machine = gradient(make, rg.assemble(text), {1: 3.0})
    assert derivatives(machine, 1) == [expected]
    assert not any(machine.cotangents[2:9])


def test_recursion(make: Make) -> None:
    # f(n): y += x y' with y' of f(n − 1): on a stack of saved links.
    text = """
        .memory 64
        .reg z, r0
        .reg n, r1
        .reg x, r2
        .reg y, r9
        .reg t, r3
        proc f, r4, r5
test:   goto.eq n, z, base
        sub n, 1
        call f
        fmul.add t, y, x
        fmul.sub y, t, x
        swap t, y
        add n, 1
skip:   goto join
base:   from test
        fadd y, x
join:   from.ne n, z, skip
        endproc
        start
        add n, 1
        call f
        finish
"""
    # t := y x; y := y − t x = y (1 − x²); exchanged: y = x·x, what is left in t is x (1 − x²).
    machine = gradient(make, rg.assemble(text), {2: 0.5})
    assert derivatives(machine, 2) == [2 * 0.5]


def test_integers_leave_cotangents_where_they_are(make: Make) -> None:
    lines = ["mul.add r3, r1, r2", "mov.xor r4, r1", "rol r1, r2", "slt.sub r5, r1, r2", "andi.add r6, r1, 15"]
    machine = make(straight(*lines))
    machine.registers[1:3] = 12345, 678
    fill(machine, 7)
    before = machine.cotangents[:]
    machine.run()
    assert machine.registers[3] == 12345 * 678
    assert machine.cotangents == before


# ---------------------------------------------------------------- freed ancillas


FREED = ["fmul.add r5, r1, r1", "fmul.add r9, r5, r2", "fmul.sub r5, r1, r1", "assertz r5"]


def dropping(make: Make, **options: Any) -> rg.Machine:
    """Standing after FREED, facing back, with a cotangent in the freed register."""
    machine = make(straight(*FREED), **options)
    machine.registers[1:3] = word(3.0), word(0.5)
    machine.run()
    machine.differentiating = True
    machine.cotangents[9], machine.cotangents[5] = ONE, 7 * ONE
    machine.turn()
    return machine


def test_freeing_an_ancilla_drops_its_cotangent(make: Make) -> None:
    machine = dropping(make)
    machine.run(1)
    assert machine.cotangents[5] == 0
    assert (machine.dropped_bits, machine.erased_bits) == (64, 64)
    machine.run()
    # What was dropped has gone nowhere, and what is left is the derivative by the ancilla itself.
    assert derivatives(machine, 1, 2, 5) == [3.0, 9.0, 0.5]
    assert machine.dropped_bits == 64
    assert "erase" not in machine.counts()


def test_zero_is_dropped_for_nothing(make: Make) -> None:
    machine = dropping(make)
    machine.cotangents[5] = 0
    machine.run()
    assert machine.erased_bits == 0
    machine.turn()
    machine.run()
    assert machine.cotangents[9] == ONE
    assert not any(machine.cotangents[:9])


def test_a_program_without_assertions_drops_nothing(make: Make) -> None:
    # The same derivatives: what is left in the register is added where it is made, and taken off where it is unmade.
    machine = make(straight(*FREED[:3]))
    machine.registers[1:3] = word(3.0), word(0.5)
    machine.run()
    machine.differentiating = True
    machine.cotangents[9], machine.cotangents[5] = ONE, 7 * ONE
    machine.turn()
    machine.run()
    assert derivatives(machine, 1, 2, 5) == [3.0, 9.0, 7.5]
    assert machine.erased_bits == 0


@pytest.mark.parametrize("way", ["turn", "step_back", "run_back"])
def test_what_was_dropped_cannot_come_back(make: Make, way: str) -> None:
    machine = dropping(make)
    machine.run(3)
    if way == "turn":
        machine.turn()
        machine.run(2)
    else:
        machine.step_back()
        machine.step_back()
    state, executed = machine.state(), machine.retired
    with pytest.raises(rg.Trap) as caught:
        machine.run_back() if way == "run_back" else machine.step_back() if way == "step_back" else machine.run()
    assert (caught.value.code, caught.value.pc) == ("RG0409", 4)
    assert "cotangent that was dropped when the ancilla was freed here cannot come back" in str(caught.value)
    assert (machine.state(), machine.retired) == (state, executed)
    # Going on the way it came, it can; and with D = 0 both ways.
    if way == "turn":
        machine.turn()
    machine.run()
    assert derivatives(machine, 1, 2) == [3.0, 9.0]
    machine.differentiating = False
    machine.turn()
    machine.run()
    assert real(machine.registers[9]) == 4.5
    # Cleared, cotangents begin anew.
    machine.differentiating = True
    machine.clear_cotangents()
    machine.cotangents[9] = ONE
    machine.turn()
    machine.run()
    assert derivatives(machine, 1, 2) == [3.0, 9.0]
    assert machine.dropped_bits == 64


@pytest.mark.parametrize("way", ["turn", "step_back", "run_back"])
def test_what_is_kept_comes_back(make: Make, way: str) -> None:
    machine = dropping(make, keep_dropped=True)
    begun = machine.state()
    steps = machine.run().steps
    assert machine.cotangents[5] == word(0.5)
    assert machine.erased_bits == 0
    if way == "turn":
        machine.turn()
        assert machine.run().steps == steps
        machine.turn()
    elif way == "run_back":
        machine.run_back(steps)
    else:
        for _ in range(steps):
            machine.step_back()
    assert machine.state() == begun
    assert machine.erased_bits == 0


def test_a_strict_machine_drops_nothing(make: Make) -> None:
    machine = dropping(make, strict=True)
    state = machine.state()
    with pytest.raises(rg.Trap, match=r"RG0408.*would drop its cotangent, 7.0, and erase 64 bits") as caught:
        machine.run()
    assert caught.value.pc == 4
    assert machine.state() == state
    assert machine.erased_bits == 0
    kept = dropping(make, strict=True, keep_dropped=True)
    kept.run()
    assert derivatives(kept, 1, 2) == [3.0, 9.0]


def test_an_ancilla_freed_both_ways_by_one_subroutine(make: Make) -> None:
    # Called and then uncalled, the same `assertz` is met both ways in one run: each time is a point of its own.
    text = "start\ncall f\nfadd r9, r5\nuncall f\nfinish\nproc f, r8\nfadd r6, r1\nfsub r6, r1\nassertz r6\nfadd r5, r1\nendproc"
    for keep in (False, True):
        machine = make(rg.assemble(text), keep_dropped=keep)
        machine.registers[1] = word(3.0)
        machine.run()
        machine.differentiating = True
        machine.cotangents[9], machine.cotangents[6] = ONE, 5
        machine.turn()
        begun = machine.state()
        steps = machine.run().steps
        assert derivatives(machine, 1) == [1]
        assert machine.dropped_bits == (0 if keep else 64)
        if keep:
            machine.run_back(steps)
            assert machine.state() == begun


def test_an_erased_word_drops_its_cotangent(make: Make) -> None:
    machine = make(straight("erase r1", "erase r2"))
    machine.differentiating = True
    machine.registers[1], machine.cotangents[1] = 5, 6
    machine.run()
    assert (machine.registers[1], machine.cotangents[1]) == (0, 0)
    assert (machine.erased_bits, machine.dropped_bits) == (3 * 64, 64)
    with pytest.raises(rg.Trap, match="RG0409"):
        machine.run_back()


# ---------------------------------------------------------------- overflow


@pytest.mark.parametrize(
    ("lines", "registers", "cotangents"),
    [
        (["fmul.add r9, r1, r2"], {1: 2.0, 2: 100.0}, {9: 2.0**30}),
        (["fdiv.add r9, r1, r2"], {1: 1e-6, 2: 1e-6}, {9: 1e5}),
        (["fsqrt.add r9, r1"], {1: 2.0**-32}, {9: 2.0**16}),
        (["mov.add r9, r1"], {1: 1.0}, {9: 2.0**30, 1: 2.0**30}),
        (["neg r9"], {}, {9: -(2.0**31)}),
        (["fatan2.add r9, r1, r2"], {1: 2.0**-32}, {9: 0.25}),
        (["rot r1, r2, r3"], {3: 0.5}, {1: 1.9e9, 2: 1.9e9}),
    ],
)
def test_a_cotangent_that_does_not_fit_traps(
    make: Make, lines: list[str], registers: dict[int, float], cotangents: dict[int, float]
) -> None:
    machine = make(straight(*lines))
    for r, x in registers.items():
        machine.registers[r] = word(x)
    machine.run()
    machine.differentiating = True
    for r, x in cotangents.items():
        machine.cotangents[r] = word(x)
    machine.turn()
    state = machine.state()
    with pytest.raises(rg.Trap) as caught:
        machine.run()
    assert caught.value.code == "RG0404"
    assert "cotangent overflow in Q32.32, with cotangent" in str(caught.value)
    assert machine.state() == state
    # It can be left the way it came, and with D = 0 either way.
    machine.differentiating = False
    assert machine.run().stop is rg.Stop.HALTED


def test_zero_fits_everywhere(make: Make) -> None:
    # Next to the origin the derivative of the angle has no word; times zero, it is zero.
    machine = make(straight("fatan2.add r9, r1, r2"))
    machine.registers[1] = 1
    machine.run()
    machine.differentiating = True
    machine.turn()
    assert machine.run().stop is rg.Stop.HALTED
    assert not any(machine.cotangents)


def test_the_share_of_a_sum_that_cancels_does_not_fit(make: Make) -> None:
    # a − b where the lognums differ by one place: the derivative by ln|a| is a / (a − b), some 2^32.
    machine = make(straight("lsub.mul r9, r1, r2"))
    machine.registers[1:3] = 1, 0
    machine.run()
    machine.differentiating = True
    machine.cotangents[9] = 1
    machine.turn()
    with pytest.raises(rg.Trap, match="cotangent overflow"):
        machine.run()
    machine.cotangents[9] = 0
    machine.run()


def test_cotangents_can_wrap(make: Make) -> None:
    machine = make(straight("fmul.add r9, r1, r2"), overflow=False)
    machine.registers[1:3] = word(2.0), word(100.0)
    machine.run()
    machine.differentiating = True
    machine.cotangents[9] = word(2.0**30)
    begun = machine.state()
    machine.turn()
    machine.run()
    assert machine.cotangents[2] == (1 << 63)
    machine.turn()
    machine.run()
    assert machine.state() == begun
