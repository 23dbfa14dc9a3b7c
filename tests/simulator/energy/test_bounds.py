"""No model prices an operation below kT ln 2 for each bit of conditional entropy that it loses."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from retrograd.hdl.reversible.circuit import Circuit, Gate, permutation
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Counts, counts_of
from retrograd.simulator.energy.gates import GATES, Gates, load_gates, lost_bits
from retrograd.simulator.energy.laws import REVERSIBLE
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, price_netlist
from retrograd.simulator.energy.pricing import NotModelled, price
from retrograd.simulator.energy.technology import (
    Range,
    Technology,
    exactly,
    from_text,
    shipped,
    technology,
    thermal_energy,
)

import retrograd as rg
from retrograd.physics.entropy import Logic, LogicGate

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "hdl" / "flow").glob("gates_*.json"))
#: decimal numbers may differ in the last place
ROUNDING = 1 - 1e-9
#: devices that a user may give: slow and small, so that ramps cost next to nothing; usual; large
DEVICES: list[dict[str, Range]] = [
    {
        "resistance": exactly(r), "capacitance": exactly(c), "voltage": exactly(v), "power": exactly(0.0),
        "finite_time": exactly(0.0),
    }
    for r, c, v in ((1e-3, 1e-18, 0.2), (1e4, 1e-15, 1.0), (1e6, 1e-12, 2.0))
]  # fmt: skip


def counts(w: rg.Format) -> Counts:
    machine = rg.Machine(rg.assemble(f".format {w.width}, {w.frac}\nstart\nadd r1, 3\nsub r1, 3\nfinish"))
    machine.run()
    return counts_of(machine)


def _models() -> Iterator[Technology]:
    for name in shipped():
        model = technology(name)
        given = [{k: v for k, v in device.items() if k in model.open} for device in DEVICES]
        yield from (model.with_figures(figures) for figures in given) if model.open else (model,)


MODELS = list(_models())


def places(model: Technology) -> Iterator[dict[str, Any]]:
    """Temperatures and clocks over the ranges of a model."""

    def between(span: Range, points: int) -> list[float]:
        inner = [span.lo * (span.hi / span.lo) ** (k / (points - 1)) for k in range(1, points - 1)]
        return [span.lo, *inner, span.hi]

    for kelvins in between(model.temperature.si, 4):
        for hertz in [None] if model.frequency is None else between(model.frequency.si, 9):
            yield {"temperature": kelvins, "frequency": hertz}


def test_bits_that_gates_lose() -> None:
    """The number of inputs that give 1, against entropies of all values; kinds that are no gates lose 0."""
    for kind, (inputs, _) in GATES.items():
        names = tuple("abcde"[:inputs])
        found = Logic(names, (LogicGate(kind, names, "y"),), ("y",)).losses().whole
        assert lost_bits(kind) == pytest.approx(found, abs=1e-12), kind
    assert lost_bits("MAJ5") == 4
    assert lost_bits("DFF") == 1
    assert lost_bits("CNOT") == lost_bits("memory bits") == 0


@pytest.mark.parametrize(("file", "kilobits"), [("gates_32_16.json", 32), ("gates_64_32.json", 77)])
def test_bits_that_the_logic_of_the_coprocessor_loses(file: str, kilobits: int) -> None:
    """In a cycle, for independent uniform inputs of each gate, without its registers."""
    cells = load_gates(ROOT / "hdl" / "flow" / file).cells()
    assert round(sum(n * lost_bits(kind) for kind, n in cells.items() if kind in GATES) / 1000) == kilobits


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_no_gate_is_priced_below_its_loss(model: Technology) -> None:
    gates = [load_gates(path) for path in FILES]
    w = gates[0].format
    gates += [Gates(w, {"logic unit": {kind: 1}}, levels=1, in_levels={kind: 1}) for kind in (*GATES, "DFF")]
    of_cells = [c for c in model.charges if c.law.name in ("cell", "ramp", "switching")]
    for found in gates if of_cells else ():
        run = counts(found.format)
        for place in places(model):
            priced = price(run, model, gates=found, **place)
            cells = found.cells(in_levels=model.phases is not None)
            least = thermal_energy(place["temperature"]) * run.cycles * (model.cycles(found.levels or 0) or 1)
            for charge in of_cells:
                assert charge.cells is not None
                lost = sum(n * lost_bits(k) for k, n in cells.items() if k in charge.cells or "any" in charge.cells)
                (item,) = (i for i in priced.items if i.label == charge.label)
                assert isinstance(item.energy, Range)
                assert item.energy.lo >= lost * least * ROUNDING, (place, found.units)
                assert item.energy.lo <= item.energy.nominal <= item.energy.hi


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_no_operation_is_priced_below_its_loss(model: Technology) -> None:
    """An operation loses at most its two words. Erasing a bit costs at least kT ln 2."""
    for place in places(model):
        kelvins = place["temperature"]
        for charge in model.charges:
            if charge.law.name == "operation":
                exponent = charge.figures["exponent"].si
                for size in charge.sizes:
                    for width in (2, 4, 8, 16, 32, 64):
                        factor = min((width / size.bits) ** e for e in exponent)
                        assert size.energy.at(kelvins).lo * factor >= 2 * width * thermal_energy(kelvins)
            elif charge.law.name == "instruction":
                assert charge.figures["energy"].at(kelvins).lo >= 3 * 64 * thermal_energy(kelvins)
            elif charge.law.of_bits and not list(model.below_bounds(kelvins)):
                assert charge.of_a_bit(kelvins, place["frequency"]).lo >= thermal_energy(kelvins) * ROUNDING


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_no_irreversible_netlist_is_priced_below_its_loss(model: Technology) -> None:
    for kind in GATES:
        shape = IrreversibleShape({kind: 3}, {kind: 3}, 1)
        for place in places(model):
            logic = price_netlist(shape, model, **place)
            spent = [energy.lo for energy in (logic.of("logic"), logic.of("erasure")) if isinstance(energy, Range)]
            least = 3 * lost_bits(kind) * thermal_energy(place["temperature"])
            assert not spent or sum(spent) >= least * ROUNDING, (kind, place)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.id)
def test_no_garbage_is_priced_below_its_loss(model: Technology) -> None:
    """A line of garbage of a Toffoli gate onto 0 is a bit that is lost where it is erased."""
    shape = ReversibleShape(3, [((0, 1), (2,))], frozenset({0, 1}), frozenset({0, 1, 2}), garbage=1)
    for place in places(model):
        erased = price_netlist(shape, model, **place).of("erasure")
        if isinstance(erased, Range):
            assert erased.lo >= thermal_energy(place["temperature"]) * ROUNDING
        left = price_netlist(shape, model, garbage="left", **place)
        assert isinstance(left.of("erasure"), NotModelled)
        assert not left.complete()


def test_kinds_of_the_law_gate_lose_nothing() -> None:
    """Each kind of reversible gate is a permutation, so that the law needs no floor; of `line`, nothing happens."""
    circuits = {
        "X": [Gate((), (0,))], "CNOT": [Gate((0,), (1,))], "Toffoli": [Gate((0, 1), (2,))],
        "Fredkin": [Gate((0,), (1, 2))], "swap": [Gate((), (0, 1))], "Peres": [Gate((0, 1), (2,)), Gate((0,), (1,))],
        "line": [],
    }  # fmt: skip
    assert set(circuits) == set(REVERSIBLE)
    for kind, gates in circuits.items():
        assert sorted(permutation(Circuit(3, tuple(gates)))) == list(range(8))
        timed = ReversibleShape(3, gates).timed({}, peres=True)
        assert timed.kinds == ({} if kind == "line" else {kind: 1})


def test_a_gate_that_loses_is_refused_by_the_law_gate() -> None:
    text = files("retrograd.simulator.energy").joinpath("models", "aqfp.toml").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"RG1103.*`AND` is no reversible gate"):
        from_text(text.replace("[charge.gates.CNOT]", "[charge.gates.AND]"), "aqfp.toml")


@pytest.mark.parametrize(("place", "figure"), [('law = "garbage"', "energy"), ('law = "cell"', "floor")])
def test_garbage_and_floors_below_the_bound_are_refused(place: str, figure: str) -> None:
    text = files("retrograd.simulator.energy").joinpath("models", "aqfp.toml").read_text(encoding="utf-8")
    before, after = text.split(place)
    table, rest = after.split(f"[charge.{figure}]", 1)
    wrong = f"{before}{place}{table}[charge.{figure}]{rest.replace('low = 1', 'low = 0.9', 1)}"
    with pytest.raises(InputError, match="RG1112"):
        from_text(wrong, "wrong.toml")


def test_prices_above_the_bound_are_those_of_the_figures() -> None:
    """At 5 GHz the bound changes nothing; at 1 MHz AND gates cost kT ln 2 per lost bit, and inverters cost their figures."""
    w = rg.Format(32, 16)
    run, model = counts(w), technology("aqfp")
    for kind, junctions in (("AND", 6), ("NOT", 2)):
        gates = Gates(w, {"logic unit": {kind: 10}}, levels=1, in_levels={kind: 10})
        fast, slow = (price(run, model, gates=gates, frequency=f).of("logic") for f in (5e9, 1e6))
        figure = run.cycles * 10 * junctions * 1.4e-21
        lost = 2 + 0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)
        least = run.cycles * 10 * lost * thermal_energy(4.2) if kind == "AND" else figure * 1e6 / 5e9
        assert isinstance(fast, Range)
        assert isinstance(slow, Range)
        assert fast.nominal == pytest.approx(figure, rel=1e-9, abs=0)
        assert slow.nominal == pytest.approx(least, rel=1e-9, abs=0)
