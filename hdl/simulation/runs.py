"""A program on simulated hardware: its results, and its cycles.

    run(program)                     forward, or backward
    run(program, loss=…)             forward, then backward with cotangents: ∂loss/∂(initial words)

Amaranth's simulator needs no other tool. Verilator is about a hundred times as fast once it has compiled the core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from retrograd.hdl.bus.device import need_scale, need_steps
from retrograd.hdl.core.cores import barrel_of, core_of
from retrograd.hdl.core.ports import Space
from retrograd.hdl.microword import TrapCause
from retrograd.hdl.parameters import REGISTERS, Parameters
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.meters import ActivityMeter, ErasureMeter, Overwrites
from retrograd.hdl.simulation.transactions import Order, OrderReport
from retrograd.hdl.simulation.verilated import Verilated
from retrograd.isa.microarchitecture.micro_operations import BARREL
from retrograd.isa.program import Program

#: default limit of instructions: some minutes in Amaranth's simulator
STEPS = 100_000
_SPACES = (Space.REGISTERS, Space.DATA, Space.REGISTER_COTANGENTS, Space.DATA_COTANGENTS)


@dataclass(frozen=True)
class Place:
    """A register, or a word of memory."""

    address: int
    register: bool = False


@dataclass(frozen=True)
class SimulatedRun:
    """A run that has ended, and the machine after it."""

    #: "halted", "limit" or "trap"; and the code of the trap
    stop: str
    code: str | None
    pc: int
    br: int
    #: +1 or −1
    direction: int
    registers: list[int]
    memory: list[int]
    cotangents: list[int]
    memory_cotangents: list[int]
    #: of this run: cycles of retired instructions, their number, clock cycles in all, bits toggled, bits erased
    cycles: int
    retired: int
    clock: int
    toggled: int
    erased: int
    #: bits of the core's state that were overwritten, if they were counted
    overwrites: Overwrites | None = None
    #: a run of the document retrograd.activity/1, if the toggles of gates were counted
    activity: dict[str, Any] | None = None


class Simulator(Protocol):
    """A simulator of the core."""

    def run(self, orders: Sequence[Order]) -> list[OrderReport]:
        """Carry out orders in sequence on one machine."""


def parameters_for(program: Program, core: str = "small") -> Parameters:
    """A co-processor with room for the program. Raises ValueError for a format that the hardware cannot have."""
    return Parameters(program.format, _room(len(program.code)), _room(program.memory), table=program.table, core=core)


def _room(words: int) -> int:
    return max(16, 1 << (words - 1).bit_length())


def run(
    program: Program,
    *,
    registers: Mapping[int, int] | None = None,
    memory: Mapping[int, int] | None = None,
    backward: bool = False,
    overflow: bool = True,
    strict: bool = False,
    steps: int | None = STEPS,
    loss: Place | None = None,
    scale: int = 0,
    folder: Path | None = None,
    vcd: str | None = None,
    erasure: bool = False,
    activity: bool = False,
    core: str = "small",
) -> list[SimulatedRun]:
    """The forward run and, with a loss, the run back with D = 1 and loss̄ = 2^scale.

    `folder`: the cache of Verilator's libraries; if it is given, Verilator simulates, else Amaranth. `vcd`: a file for waveforms,
    with Amaranth only. `core`: one of `CORES`. `erasure`: count the bits of state that each cycle overwrites, by another simulator, of gates;
    `activity`: count their toggles by the same. Both are for cores without lanes and without an overlapped front end.
    Raises ValueError, see `parameters_for`; InputError RG1009 for steps and a scale out of the hardware's range; FileNotFoundError without
    Verilator.
    """
    p = parameters_for(program, core)
    orders = orders_for(
        program,
        registers=registers,
        memory=memory,
        backward=backward,
        overflow=overflow,
        strict=strict,
        steps=steps,
        loss=loss,
        scale=scale,
    )
    built = core_of(p)
    if activity:
        counter = ActivityMeter(built)
        ways = (-1, 1) if backward else (1, -1)
        reports = counter.run(orders)
        told = [
            switching.as_dict(way, order.differentiate, report.counters[1])
            for switching, way, order, report in zip(counter.switching, ways, orders, reports, strict=False)
        ]
        return [_run(report, activity=one) for report, one in zip(reports, told, strict=True)]
    if erasure:
        meter = ErasureMeter(built)
        return [_run(report, found) for report, found in zip(meter.run(orders), meter.found, strict=True)]
    if folder is not None:
        reports = Verilated(built, folder).run(orders)
    else:
        reports = Simulation(built).run(orders, vcd)
    return [_run(report) for report in reports]


@dataclass(frozen=True)
class SimulatedBatch:
    """The runs of a batch, which have ended, a row each."""

    runs: list[SimulatedRun]
    #: cycles in which an instruction was on its way, and the instructions of all elements
    cycles: int
    issued: int


def run_batch(
    program: Program,
    memories: Sequence[Mapping[int, int]],
    lanes: int,
    *,
    slots: int = 1,
    backward: bool = False,
    overflow: bool = True,
    strict: bool = False,
    steps: int | None = STEPS,
    loss: Place | None = None,
    scale: int = 0,
    folder: Path | None = None,
) -> list[SimulatedBatch]:
    """`run` on the core barrel with this number of slots, for rows of memory words: `lanes` rows at a time, each on a
    thread, the next ones afterwards. The batch forward and, with a loss, back.

    A thread without a row repeats the last row, and does not count. Raises as `run`.
    """
    p = replace(parameters_for(program), core=BARREL, lanes=lanes, slots=slots)
    built = barrel_of(p)
    simulation = Simulation(built) if folder is None else None
    ways: list[SimulatedBatch] = []
    for first in range(0, len(memories), lanes):
        rows = memories[first : first + lanes]
        given = [*rows, *[rows[-1]] * (lanes - len(rows))]
        orders = [
            orders_for(
                program, memory=row, backward=backward, overflow=overflow, strict=strict, steps=steps, loss=loss, scale=scale,
            )
            for row in given
        ]  # fmt: skip
        # Each part of the batch begins on a core after reset.
        execute = simulation.run_batch if simulation is not None else Verilated(built, folder or Path()).run_batch
        reports = execute([*zip(*orders, strict=True)])
        parts = [_batch([_run(one) for one in r.lanes[: len(rows)]], r.cycles) for r in reports]
        ways = parts if not ways else [_joined(*pair) for pair in zip(ways, parts, strict=True)]
    return ways


def _batch(runs: list[SimulatedRun], cycles: int) -> SimulatedBatch:
    return SimulatedBatch(runs, cycles, sum(run.retired for run in runs))


def _joined(a: SimulatedBatch, b: SimulatedBatch) -> SimulatedBatch:
    return SimulatedBatch([*a.runs, *b.runs], a.cycles + b.cycles, a.issued + b.issued)


def orders_for(
    program: Program,
    *,
    registers: Mapping[int, int] | None = None,
    memory: Mapping[int, int] | None = None,
    backward: bool = False,
    overflow: bool = True,
    strict: bool = False,
    steps: int | None = STEPS,
    loss: Place | None = None,
    scale: int = 0,
) -> list[Order]:
    """The order of the forward run and, with a loss, that of the run back. Raises InputError RG1009, see `run`."""
    steps = need_steps(steps)
    if loss is not None:
        need_scale(scale, program.format)
    words = dict(enumerate([*program.data, *[0] * (program.memory - len(program.data))])) | dict(memory or {})
    writes = [(Space.CODE, at, word) for at, word in enumerate(program.code)]
    writes += [(Space.DATA, at, word) for at, word in words.items()]
    writes += [(Space.REGISTERS, at, word) for at, word in (registers or {}).items()]
    reads = [(space, 0, REGISTERS if space.name.startswith("REGISTER") else program.memory) for space in _SPACES]
    usual = Order(
        clear=True, overflow=overflow, strict=strict, steps=steps, code_size=len(program.code),
        data_size=program.memory, reads=reads, last_only=True,
    )  # fmt: skip
    origin = program.finish if backward else program.start
    orders = [replace(usual, writes=writes, pc=origin, br=0, backward=backward)]
    if loss is not None:
        space = Space.REGISTER_COTANGENTS if loss.register else Space.DATA_COTANGENTS
        one = [(space, loss.address, 1 << (program.format.frac + scale))]
        orders.append(replace(usual, writes=one, turn=True, forget=True, differentiate=True))
    return orders


def _run(
    report: OrderReport, overwrites: Overwrites | None = None, activity: dict[str, Any] | None = None
) -> SimulatedRun:
    trap = report.records[-1].trap if report.records else TrapCause.NONE
    stop = "trap" if trap is not TrapCause.NONE else "halted" if report.halted else "limit"
    registers, memory, cotangents, memory_cotangents = report.blocks
    cycles, retired, toggled, erased = report.counters
    clock = report.records[-1].clock if report.records else 0
    return SimulatedRun(
        stop,
        None if trap is TrapCause.NONE else trap.code,
        report.pc,
        report.br,
        -1 if report.backward else 1,
        registers,
        memory,
        cotangents,
        memory_cotangents,
        cycles,
        retired,
        clock,
        toggled,
        erased,
        overwrites,
        activity,
    )
