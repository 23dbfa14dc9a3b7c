"""Toggles of gates and flip-flops: against Amaranth's simulator, against the meter of overwritten bits, against the core's own counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Signal, Value
from retrograd.hdl.core.core import Core
from retrograd.hdl.simulation.amaranth_simulator import Simulation
from retrograd.hdl.simulation.bit_netlist import BitNetlist
from retrograd.hdl.simulation.meters import ActivityMeter, document
from retrograd.hdl.simulation.runs import Place, orders_for, parameters_for, run
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.gates import activity_from

import retrograd as rg
from retrograd.hardware import run_on_hardware

#: a product, a quotient, memory and a jump, which run back as well
TEXT = """
.format 8, 4
start
add r1, 3
fmul.add r3, r1, r2
st.add [r0 + 1], r3
a: goto.eq r1, r0, e
fdiv.add r4, r3, r2
e: from.eq r1, r0, a
finish
"""
REGISTERS = {1: 17, 2: 40}
#: kinds of cells that keep state
STATE = ("DFF", "memory port", "memory bits")


@pytest.fixture(scope="module")
def program() -> rg.Program:
    return replace(rg.assemble(TEXT), memory=4)


@pytest.fixture(scope="module")
def measured(program: rg.Program) -> list[Any]:
    """Forward, and back with cotangents."""
    return run(program, registers=REGISTERS, loss=Place(4, register=True), activity=True)


def toggles(found: Any, *kinds: str) -> Counter[str]:
    """Unit -> the toggles of its cells of some kinds."""
    out = Counter[str]()
    for unit, parts in found.activity["units"].items():
        out[unit] += sum(part["toggles"] for kind, part in parts.items() if kind in kinds)
    return +out


def test_state_toggles_as_the_other_meter_counts(program: rg.Program, measured: list[Any]) -> None:
    """Exactly, for each submodule, with the names of function units; and as the core's counter of bits of registers and memory."""
    names = {"rom": "ROM", "branch": "branch unit"}
    for way, other in zip(
        measured, run(program, registers=REGISTERS, loss=Place(4, register=True), erasure=True), strict=True
    ):
        assert other.overwrites is not None
        assert way.activity["cycles"] == other.overwrites.cycles
        found = {names.get(part, part): n for part, (_, _, n) in other.overwrites.by_part.items() if n}
        assert toggles(way, *STATE) == found
        assert toggles(way, *STATE).total() == other.overwrites.toggled > 100
        words = toggles(way, "memory bits")
        stored = ("registers.words", "registers.cotangents", "memory.words", "memory.cotangents")
        assert sum(words[f"memory {name}"] for name in stored) == way.toggled == other.toggled > 0
    assert [(way.activity["direction"], way.activity["D"]) for way in measured] == [(1, 0), (-1, 1)]
    assert [way.activity["instructions"] for way in measured] == [way.retired for way in measured]


class Tick:
    """A tick of Amaranth's simulator, before which the watch looks."""

    def __init__(self, watch: Watch, count: int = 1) -> None:
        self.watch, self.count = watch, count

    def repeat(self, count: int) -> Tick:
        return Tick(self.watch, count)

    def __await__(self) -> Generator[Any, Any, None]:
        async def ticks() -> None:
            for _ in range(self.count):
                self.watch.look()
                await self.watch.ctx.tick()

        return ticks().__await__()


class Watch:
    """The context of Amaranth's simulator; it counts the toggles of signals behind cycles in which the core is not idle."""

    def __init__(self, ctx: Any, core: Core, signals: list[Any]) -> None:
        self.ctx, self.core, self.signals = ctx, core, signals
        self.get, self.set, self.before = ctx.get, ctx.set, None
        self.toggles = [0] * len(signals)

    def tick(self) -> Tick:
        return Tick(self)

    def look(self) -> None:
        words = [self.ctx.get(signal) for signal in self.signals]
        if self.before is not None:
            masks = [(1 << len(Value.cast(signal))) - 1 for signal in self.signals]
            self.toggles = [
                n + ((a ^ b) & mask).bit_count()
                for n, a, b, mask in zip(self.toggles, words, self.before, masks, strict=True)
            ]
        self.before = None if self.ctx.get(self.core.idle) else words


class Watched(Simulation):
    """Amaranth's simulator under a watch."""

    def __init__(self, core: Core, signals: list[Any]) -> None:
        super().__init__(core)
        self.signals, self.toggles = signals, [0] * len(signals)

    async def _carry_out(self, ctx: Any, orders: Any) -> Any:
        watch = Watch(ctx, self.core, self.signals)
        report = await super()._carry_out(watch, orders)
        self.toggles = [a + b for a, b in zip(self.toggles, watch.toggles, strict=True)]
        return report


def test_ports_toggle_as_in_the_simulator_of_amaranth(program: rg.Program) -> None:
    """All ports of the core and its units, of which most are outputs of gates."""
    core = Core(parameters_for(program))
    meter = ActivityMeter(core)
    known = meter.machine.netlist._netlist.signals
    units = (
        core,
        core.logic,
        core.multiplier,
        core.divider,
        core.rom,
        core.branch,
        core.registers,
        core.memory,
        core.operands,
    )
    ports = {}
    for unit in units:
        for _, _, value in unit.signature.flatten(unit):
            signal = Value.cast(value)
            if isinstance(signal, Signal) and signal in known:
                ports[id(signal)] = signal
    signals = [*ports.values()]
    assert len(signals) > 100
    orders = orders_for(program, registers=REGISTERS, loss=Place(4, register=True))
    simulation, total = Watched(core, signals), np.zeros(len(signals), np.int64)
    simulation.run(orders)
    for order in orders:
        meter.run([order])
        for k, signal in enumerate(signals):
            total[k] += sum(int(meter._toggles[line]) for line in meter.machine.netlist.signal(signal))
    wrong = {
        signal.name: (a, b) for signal, a, b in zip(signals, total.tolist(), simulation.toggles, strict=True) if a != b
    }
    assert wrong == {}
    assert np.count_nonzero(total) > 50


def test_a_run_back_toggles_the_same_bits(program: rg.Program) -> None:
    """Each write is undone by one over the same bits."""
    (there,) = run(program, registers=REGISTERS, activity=True)
    after = {r: word for r, word in enumerate(there.registers) if word}
    (back,) = run(program, registers=after, memory=dict(enumerate(there.memory)), backward=True, activity=True)
    stored = ("memory registers.words", "memory memory.words")
    found = [toggles(way, "memory bits") for way in (there, back)]
    assert all(found[0][name] == found[1][name] > 0 for name in stored)
    assert back.registers[1:3] == [17, 40]
    assert back.activity["direction"] == -1


def test_a_core_that_waits_toggles_nothing(program: rg.Program) -> None:
    meter = ActivityMeter(Core(parameters_for(program)))
    meter.run(orders_for(program, registers=REGISTERS, steps=0))
    (found,) = meter.switching
    assert found.cycles == found.toggles.total() == 0


def test_each_line_is_a_cell_of_one_unit(program: rg.Program, measured: list[Any]) -> None:
    netlist = BitNetlist(Core(parameters_for(program)))
    cells = Counter[str]()
    for parts in measured[0].activity["units"].values():
        for kind, part in parts.items():
            cells[kind] += part["cells"]
            assert part["toggles"] <= part["cells"] * measured[0].activity["cycles"]
    held = sum(port.width for port in netlist.reads)
    assert cells["DFF"] + cells["memory port"] == len(netlist.owners)
    assert cells["memory port"] == held
    assert cells["AND"] == sum(both for both, _, _ in netlist.gates)
    assert cells["AND"] + cells["XOR"] + cells["NOT"] == len(netlist.gates)
    assert cells["memory bits"] == sum(width * len(words) for _, width, words in netlist.memories.values())
    assert {"logic unit", "multiplier", "divider", "ROM", "branch unit", "decoder", "sequencer"} <= set(
        measured[0].activity["units"]
    )


def test_the_document_is_read_by_the_energy_models(program: rg.Program, measured: list[Any]) -> None:
    found = activity_from(document(program, "it", "small", [way.activity for way in measured]), "it")
    assert found.is_of(program)
    assert not found.is_of(rg.assemble(".format 8, 4\nstart\nfinish"))
    assert found.cycles == sum(way.activity["cycles"] for way in measured)
    parts = [way.activity["units"]["logic unit"]["XOR"] for way in measured]
    assert found.units["logic unit"]["XOR"] == (
        found.cycles * parts[0]["cells"],
        sum(part["toggles"] for part in parts),
    )


@rg.reversible
def square(y: rg.fixed, x: rg.fixed) -> None:
    y += x * x


@pytest.mark.long
def test_functions(tmp_path: Path) -> None:
    found = run_on_hardware(square, 0.0, 1.5, loss="y", format="Q4.4", activity=True)
    assert found.activity is not None
    assert [(one["direction"], one["D"]) for one in found.activity["runs"]] == [(1, 0), (-1, 1)]
    assert [one["instructions"] for one in found.activity["runs"]] == [found.steps, found.backward_steps]
    price = rg.energy(
        rg.grad(square), 0.0, 1.5, format="Q4.4", tech="cmos_switching", figures={"capacitance": "1fF", "voltage": "1V"},
        activity=found.activity, gates=_gates(tmp_path),
    ).price  # fmt: skip
    (item,) = (item for item in price.items if item.label == "gates and flip-flops")
    assert next(figure for figure in item.figures if figure.name == "activity").evidence == "simulated"


def _gates(folder: Path) -> Path:
    """Gate counts of a core with words of 8 bits: one gate."""
    (folder / "gates.json").write_text(
        '{"schema": "retrograd.gates/1", "format": {"width": 8, "frac": 4}, "units": {"logic unit": {"AND": 1}}}'
    )
    return folder / "gates.json"


@pytest.mark.parametrize("other", [{"core": "fast"}, {"vcd": "run.vcd"}, {"verilator": Path()}, {"erasure": True}])
def test_it_is_a_simulator_of_its_own(other: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        run_on_hardware(square, 0.0, 1.5, format="Q4.4", activity=True, **other)
    assert error.value.diagnostics[0].code == "RG1009"
