"""Every machine, on random programs: what was run can be taken back, from anywhere, traps included.

One suite, the machine is a fixture. A failure names its seed: `generate(seed)` of generator.py is the program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from retrograd.assembler.verify import findings
from retrograd.isa.encoding import inverse
from retrograd.isa.entries import Function, a, b
from retrograd.simulator.engines import tiered_machine
from retrograd.simulator.engines.llvm.instructions import step
from retrograd.simulator.engines.tiered_machine import TieredMachine
from retrograd.simulator.semantics import Handler
from retrograd.simulator.semantics import handler as machine_handler
from support import generator

import retrograd as rg

Make = Callable[..., rg.Machine]
Check = Callable[[Make, Any, bool], None]


@dataclass(frozen=True)
class Candidate:
    """A machine with the interface of the reference machine, and how many programs it gets."""

    make: Make
    #: programs in the default tier: each runs with and without the overflow check
    quick: int
    #: programs in the full tier
    slow: int
    #: programs that run side by side
    chunk: int
    slow_chunk: int
    #: what of `generate` is not as usual
    drawn: Mapping[str, Any] = field(default_factory=dict)


def is_short(opcode: Any) -> bool:
    """Whether compiling it takes little time: the long functions would be most of what there is to compile."""
    return step(opcode, rg.Format(), False, False).size <= 40


SHORT_ONES = {"allow": is_short, "sizes": (10, 50)}
MACHINES: dict[str, Candidate] = {
    "reference": Candidate(rg.Machine, 48, 100_000, 48, 2000),
    "threaded": Candidate(partial(TieredMachine, engine="threaded"), 8, 4000, 8, 500),
    "translated": Candidate(partial(TieredMachine, engine="translated", level=0), 4, 100, 4, 10, SHORT_ONES),
    "auto": Candidate(partial(TieredMachine, level=0), 4, 100, 4, 10, SHORT_ONES),
}
PIECES = [(name, first) for name, m in MACHINES.items() for first in range(0, m.quick, m.chunk)]
SLOW_PIECES = [(name, first) for name, m in MACHINES.items() for first in range(0, m.slow, m.slow_chunk)]


@pytest.fixture
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Candidate:
    """The machine under test."""
    if request.param == "threaded":
        # Single steps are taken by compiled code too.
        monkeypatch.setattr(tiered_machine, "FEW", 1)
    if request.param == "auto":
        request.getfixturevalue("soon")
    return MACHINES[request.param]


@contextmanager
def told(seed: int, overflow: bool | None = None) -> Iterator[None]:
    """Whatever fails inside says for which program."""
    try:
        yield
    except Exception as error:
        error.add_note(f"program: generator.generate({seed}), overflow={overflow}")
        raise


def ready(make: Make, case: Any, overflow: bool) -> rg.Machine:
    """A machine with the case's program and initial words."""
    machine = make(case.program, overflow=overflow)
    case.load(machine.registers, machine.memory)
    return machine


def run(machine: rg.Machine, case: Any) -> rg.Trap | None:
    """Run to the end, which must come in time, or to the trap."""
    try:
        outcome = machine.run(case.bound)
    except rg.Trap as trap:
        return trap
    assert outcome.stop is rg.Stop.HALTED
    assert machine.at_end
    return None


def words(machine: rg.Machine) -> tuple[tuple[int, ...], tuple[int, ...]]:
    registers, memory, *_ = machine.state()
    return registers, memory


def same_trap(one: rg.Trap, other: rg.Trap) -> bool:
    return (one.code, one.pc, one.direction, one.value) == (other.code, other.pc, other.direction, other.value)


# ------------------------------------------------------------ the checks, one program each


def check_run_back(make: Make, case: Any, overflow: bool) -> None:
    """Forward and back restores the whole state, and executes the inverse of everything once."""
    machine = ready(make, case, overflow)
    before = machine.state()
    run(machine, case)
    forward = machine.counts()
    assert sum(forward.values()) == machine.retired
    machine.run_back()
    assert machine.state() == before
    assert machine.at_origin
    both = machine.counts()
    table = case.program.table
    undone = {table[name].inverse_name: n for name, n in forward.items()}
    assert {name: n - forward.get(name, 0) for name, n in both.items() if n != forward.get(name, 0)} == undone
    # Every address was passed as often one way as the other; what turns is undone facing the way it was done.
    for pc, i in enumerate(case.program.instructions):
        one, other = machine.executed[+1][pc], machine.executed[-1][pc]
        assert (one + other) % 2 == 0 if i.opcode.turns else one == other


def check_turn(make: Make, case: Any, overflow: bool) -> None:
    """Turned round at its end, or at its trap, a run goes back to where it began, on its own feet."""
    machine = ready(make, case, overflow)
    before = words(machine)
    run(machine, case)
    after = machine.state()
    machine.turn()
    machine.turn()
    assert machine.state() == after
    back_to_start(machine, before)
    # And forward once more: the end is the same one.
    machine.turn()
    run(machine, case)
    assert machine.state() == after


def back_to_start(machine: rg.Machine, before: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    machine.turn()
    assert machine.run().stop is rg.Stop.HALTED
    assert words(machine) == before
    assert (machine.pc, machine.br, machine.direction) == (machine.program.start, 0, -1)


def check_random_stop(make: Make, case: Any, overflow: bool) -> None:
    """Stopped anywhere, a run goes back, by each of the three ways."""
    rng = random.Random(case.seed)
    machine = ready(make, case, overflow)
    before = machine.state()
    run(machine, case)
    steps = machine.retired
    end = machine.state()
    machine.run_back()
    stop = rng.randint(1, steps)
    assert machine.run(stop).steps == stop
    middle = machine.state()
    outcome = machine.run_back(stop + 1)
    assert outcome == rg.Outcome(rg.Stop.HALTED, stop)
    assert machine.state() == before

    # Step by step; in the middle of it, forward again and back.
    machine.run(stop)
    assert machine.state() == middle
    few = rng.randint(0, min(stop, 60))
    for _ in range(few):
        assert machine.step_back()
    for _ in range(few):
        assert machine.step()
    assert machine.state() == middle
    for _ in range(few):
        assert machine.step_back()
    assert machine.run_back(stop - few).steps == stop - few
    assert machine.state() == before
    assert not machine.step_back()

    machine.run(stop)
    back_to_start(machine, before[:2])
    machine.turn()
    if machine.run(stop - 1).steps == stop - 1:
        assert machine.state() == middle
    run(machine, case)
    assert machine.state() == end


def check_every_step_back(make: Make, case: Any, overflow: bool) -> None:
    """Each step, taken back at once, leaves no trace; and all of them one by one."""
    machine = ready(make, case, overflow)
    before = machine.state()
    steps = 0
    while True:
        here = machine.state()
        try:
            if not machine.step():
                break
        except rg.Trap:
            assert machine.state() == here
            break
        there = machine.state()
        assert machine.step_back()
        assert machine.state() == here
        assert machine.step()
        assert machine.state() == there
        steps += 1
        assert steps <= case.bound
    while machine.step_back():
        steps -= 1
    assert steps == 0
    assert machine.state() == before


def check_inverse_program(make: Make, case: Any, overflow: bool) -> None:
    """The inverse program, run forward from the final words, ends with the initial ones."""
    machine = ready(make, case, overflow)
    before = words(machine)
    if run(machine, case) is not None:
        return
    other = make(~case.program, overflow=overflow)
    other.registers[:] = machine.registers
    other.memory[:] = machine.memory
    assert run(other, case) is None
    assert words(other) == before
    # `finish`, met as `start`, is a step here; the other's `start` was one there.
    assert other.retired == machine.retired


def check_trap(make: Make, case: Any, overflow: bool) -> None:
    """A trap has changed nothing, happens again where it happened, and can be left backward."""
    machine = ready(make, case, overflow)
    before = machine.state()
    trap = run(machine, case)
    if trap is None:
        return
    trapped = machine.state()
    assert trap.pc == machine.pc
    assert trap.direction == machine.direction
    taken = machine.retired

    other = ready(make, case, overflow)
    assert other.run(taken).steps == taken
    assert other.state() == trapped
    for motion in (other.step, other.run):
        with pytest.raises(rg.Trap) as again:
            motion()
        assert same_trap(again.value, trap)
        assert other.state() == trapped
    assert other.retired == taken

    machine.run_back()
    assert machine.state() == before
    if taken:
        back_to_start(other, before[:2])


CHECKS: dict[str, Check] = {
    "run back": check_run_back,
    "turn": check_turn,
    "random stop": check_random_stop,
    "inverse program": check_inverse_program,
    "trap": check_trap,
}


@pytest.mark.parametrize(("machine", "first"), PIECES, indirect=["machine"])
@pytest.mark.parametrize("overflow", [False, True], ids=["wrapping", "checked"])
@pytest.mark.parametrize("check", CHECKS)
def test_random_programs(machine: Candidate, check: str, overflow: bool, first: int) -> None:
    for seed in range(first, first + machine.chunk):
        with told(seed, overflow):
            CHECKS[check](machine.make, generator.generate(seed, **machine.drawn), overflow)


SINGLE_STEPS = [("reference", first, 30) for first in (0,)] + [("threaded", 0, 6)]


@pytest.mark.parametrize(("machine", "first", "count"), SINGLE_STEPS, indirect=["machine"])
def test_every_single_step(machine: Candidate, first: int, count: int) -> None:
    for seed in range(first, first + count):
        with told(seed, True):
            check_every_step_back(machine.make, generator.generate(seed), True)


@pytest.mark.long
@pytest.mark.parametrize(("machine", "first"), SLOW_PIECES, indirect=["machine"])
def test_many_random_programs(machine: Candidate, first: int) -> None:
    for seed in range(first, first + machine.slow_chunk):
        overflow = seed % 2 == 0
        # The seeds of the default tier are left to it.
        case = generator.generate(seed + machine.quick, **machine.drawn)
        with told(case.seed, overflow):
            check_run_back(machine.make, case, overflow)
            check_random_stop(machine.make, case, overflow)
            check_trap(machine.make, case, overflow)
            if seed % 16 < 2:
                rg.verify(case.program)
                check_inverse_program(machine.make, case, overflow)


# ------------------------------------------------------------ programs without a machine

CHUNK = MACHINES["reference"].chunk
FIRST = range(0, MACHINES["reference"].quick, CHUNK)


@pytest.mark.parametrize("first", FIRST)
def test_the_verifier_passes(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = generator.generate(seed).program
        with told(seed):
            # A subroutine that is never called draws a warning, and is meant to.
            assert {d.code for d in findings(program)} <= {"RG0210"}


@pytest.mark.parametrize("first", FIRST)
def test_the_inverse_program_verifies(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = generator.generate(seed).program
        with told(seed):
            assert {d.code for d in findings(~program)} <= {"RG0210"}


@pytest.mark.parametrize("first", FIRST)
def test_text_round_trip(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = generator.generate(seed).program
        with told(seed):
            again = rg.assemble(rg.disassemble(program))
            assert again.code == program.code
            assert again.data == program.data
            assert again.memory == program.memory
            assert again.format == program.format
            # The text names the targets of branches; once they have names, nothing is added.
            assert rg.assemble(rg.disassemble(again)) == again
            assert rg.assemble(rg.disassemble(again, addresses=True)) == again


@pytest.mark.parametrize("first", FIRST)
def test_image_round_trip(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = generator.generate(seed).program
        with told(seed):
            assert rg.from_image(rg.to_image(program)) == program


@pytest.mark.parametrize("first", FIRST)
def test_inverse_of_the_inverse(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = generator.generate(seed).program
        with told(seed):
            assert ~~program == program
            assert (~program).start == len(program.code) - 1 - program.finish


# ------------------------------------------------------------ the programs are worth running


@pytest.fixture(scope="module")
def sample() -> list[Any]:
    return [generator.generate(seed) for seed in range(400)]


def test_a_seed_is_a_program(sample: list[Any]) -> None:
    assert [generator.generate(seed) for seed in range(50)] == sample[:50]
    assert len({case.program.code for case in sample}) == len(sample)


def test_programs_use_every_instruction_both_ways(sample: list[Any]) -> None:
    executed: dict[int, set[str]] = {+1: set(), -1: set()}
    traps: dict[str, int] = {}
    lengths, steps = [], []
    for case in sample:
        machine = ready(rg.Machine, case, overflow=True)
        trap = run(machine, case)
        for way in (+1, -1):
            executed[way] |= set(machine.counts(way))
        lengths.append(len(case.program.code))
        if trap is None:
            steps.append(machine.retired)
        else:
            traps[trap.code] = traps.get(trap.code, 0) + 1
    never = {"start", "finish", "erase", "unerase"}
    assert set(executed[+1]) >= {o.name for o in rg.TABLE} - never
    # By uncall, code runs backward in the midst of a forward run.
    assert len(executed[-1]) > len(rg.TABLE) // 2
    assert {"goto.eq", "from", "call", "uncall", "swapbr"} <= executed[-1]
    assert {"RG0402", "RG0403", "RG0404"} <= set(traps)
    assert len(sample) // 50 < sum(traps.values()) < len(sample) // 4
    assert 60 < sum(lengths) / len(lengths) < 120
    assert 100 < sum(steps) / len(steps) < 600
    assert {case.program.format.width for case in sample} == {8, 16, 32, 64}


def test_a_new_entry_is_drawn() -> None:
    entry = Function("nand", rg.TABLE.free_code(), "integer", lambda w: ~(a & b), "Not and.", differentiable=False)
    table = rg.TABLE.extended(entry)
    names = {i.opcode.name for seed in range(40) for i in generator.generate(seed, table=table).program.instructions}
    assert {"nand.add", "nand.sub", "nand.xor"} <= names


def test_instructions_can_be_left_out() -> None:
    def cheap(opcode: Any) -> bool:
        return not opcode.multiplies

    w = ((rg.Format(32, 16), 1),)
    cases = [generator.generate(seed, formats=w, allow=cheap, sizes=(5, 20)) for seed in range(60)]
    used = {i.opcode.name for case in cases for i in case.program.instructions}
    assert not any(rg.TABLE[name].multiplies for name in used)
    assert {case.program.format for case in cases} == {rg.Format(32, 16)}


# ------------------------------------------------------------ the checks can fail


class Wrong(rg.Machine):
    """A machine with one fault, named by the class below."""

    @property
    def _decoded(self) -> Any:
        made = self._code.get(self._differentiating)
        if made is not None:
            return made
        forward = self.program.instructions
        executed = {+1: forward, -1: [inverse(i) for i in forward]}
        self._code[self._differentiating] = {
            way: [(self.spoil(i, handler), *rest) for i, (handler, *rest) in zip(executed[way], decoded, strict=True)]
            for way, decoded in super()._decoded.items()
        }
        return self._code[self._differentiating]

    def spoil(self, i: rg.Instruction, handler: Handler) -> Handler:
        return handler


class WrongInverse(Wrong):
    """`ror` is taken for `rol`."""

    def spoil(self, i: rg.Instruction, handler: Handler) -> Handler:
        if i.opcode.name == "ror":
            return machine_handler(inverse(i).opcode, self.format, self._modes)
        return handler


class WritesBeforeItChecks(Wrong):
    """An instruction that traps has counted itself in its destination."""

    def spoil(self, i: rg.Instruction, handler: Handler) -> Handler:
        def run(R: list[int], M: list[int], *operands: int) -> int:
            try:
                return handler(R, M, *operands)
            except Exception:
                R[operands[1]] ^= 1
                raise

        return run if i.opcode.group == "fixed" else handler


class ForgetsMemory(Wrong):
    """Undoing a store stores nothing."""

    def spoil(self, i: rg.Instruction, handler: Handler) -> Handler:
        if i.opcode.name == "st.sub":
            return lambda R, M, br, d, a, b, imm: handler(R, list(M), br, d, a, b, imm)
        return handler


class TurnsWrong(Wrong):
    """`turn` leaves the PC."""

    def turn(self) -> None:
        self.direction = -self.direction


class MiscountsBackward(Wrong):
    """What is taken back is counted as done again."""

    def run_back(self, *args: Any, **options: Any) -> rg.Outcome:
        outcome = super().run_back(*args, **options)
        self.executed[+1][:] = [n + m for n, m in zip(self.executed[+1], self.executed[-1], strict=True)]
        self.executed[-1][:] = [0] * len(self.executed[-1])
        return outcome


class LosesBranchRegister(Wrong):
    """Stopped in the middle of a jump, it forgets that it was jumping."""

    def run(self, *args: Any, **options: Any) -> rg.Outcome:
        outcome = super().run(*args, **options)
        self.br = 0
        return outcome


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        (WrongInverse, "run back"),
        (WrongInverse, "inverse program"),
        (WritesBeforeItChecks, "trap"),
        (ForgetsMemory, "run back"),
        (MiscountsBackward, "run back"),
        (TurnsWrong, "turn"),
        (LosesBranchRegister, "random stop"),
    ],
)
def test_a_planted_fault_is_found(fault: type[Wrong], check: str) -> None:
    for seed in range(300):
        try:
            CHECKS[check](fault, generator.generate(seed), True)
        except (AssertionError, rg.Trap, pytest.fail.Exception):
            return
    pytest.fail(f"{check} has not found: {fault.__doc__}")
