"""Prices of netlists, by hand: reversible gates, held lines, garbage, irreversible cells, clocks."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from itertools import product

import pytest
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.laws import ramp_energy
from retrograd.simulator.energy.netlists import IrreversibleShape, ReversibleShape, levels_of, price_netlist, seconds_of
from retrograd.simulator.energy.pricing import NotModelled, Price
from retrograd.simulator.energy.technology import Range, exactly, shipped, technology, thermal_energy

approx = partial(pytest.approx, rel=1e-9, abs=0.0)

TOFFOLI, CNOT, X, FREDKIN = ((0, 1), (2,)), ((0,), (1,)), ((), (0,)), ((0,), (1, 2))
JUNCTION = Range(1.35e-21, 1.4e-21, 1.45e-21)
DEVICE = {
    "resistance": exactly(1e4),
    "capacitance": exactly(1e-15),
    "voltage": exactly(1.0),
    "power": exactly(1e-15),
    "quality": exactly(1e4),
}


def modelled(price: Price, cause: str) -> Range:
    found = price.of(cause)
    assert isinstance(found, Range)
    return found


def shape(*gates: tuple[tuple[int, ...], tuple[int, ...]], lines: int = 3, garbage: int = 0) -> ReversibleShape:
    whole = frozenset(range(lines))
    return ReversibleShape(lines, gates, whole, whole, garbage)


def test_levels_and_held_lines() -> None:
    """Toffoli takes 10 levels, CNOT 4: line 2 is idle for 4 levels, and nothing else."""
    found = shape(TOFFOLI, CNOT).timed({"Toffoli": 10, "CNOT": 4})
    assert (found.kinds, found.levels, found.idle, found.held) == ({"Toffoli": 1, "CNOT": 1}, 14, 4, 3 * 14)


def test_gates_on_other_lines_act_together() -> None:
    found = shape(CNOT, ((2,), (3,)), lines=4).timed({})
    assert (found.levels, found.idle) == (1, 0)


def test_an_ancilla_is_held_between_its_gates_only() -> None:
    """Line 2 begins and ends as 0: it is held from the first Toffoli to the last."""
    around = (CNOT, TOFFOLI, ((2,), (0,)), TOFFOLI, CNOT)
    clean = ReversibleShape(3, around, frozenset({0, 1}), frozenset({0, 1}))
    kept = ReversibleShape(3, around, frozenset({0, 1}), frozenset({0, 1, 2}), 1)
    assert (clean.timed({}).levels, clean.timed({}).held, kept.timed({}).held) == (5, 5 + 5 + 3, 5 + 5 + 4)


def test_gates_with_more_controls() -> None:
    """k controls are 2k − 3 Toffoli gates one after the other; an exchange adds two CNOT gates."""
    wide = shape(((0, 1, 2, 3), (4,)), ((0, 1), (2, 3)), lines=5).timed({"Toffoli": 3})
    assert wide.kinds == {"Toffoli": 5 + 3, "CNOT": 2}
    assert wide.levels == 3 * 8 + 2
    assert shape(((), (0, 1)), FREDKIN).timed({"swap": 0}).kinds == {"swap": 1, "Fredkin": 1}


def test_peres_gates() -> None:
    pair = shape(TOFFOLI, CNOT)
    assert pair.timed({}, peres=True).kinds == {"Peres": 1}
    assert pair.timed({}).kinds == {"Toffoli": 1, "CNOT": 1}
    assert shape(TOFFOLI, ((2,), (0,))).timed({}, peres=True).kinds == {"Toffoli": 1, "CNOT": 1}


@pytest.mark.parametrize("length", range(5))
def test_peres_gates_stand_for_all_gates(length: int) -> None:
    """A Peres gate is a Toffoli and a CNOT gate: with both in its place, the kinds are as without Peres gates."""
    pairs = 0
    for gates in product((TOFFOLI, CNOT, X, FREDKIN, ((2,), (0,))), repeat=length):
        found = Counter(shape(*gates).timed({}, peres=True).kinds)
        peres = found.pop("Peres", 0)
        found.update({"Toffoli": peres, "CNOT": peres} if peres else {})
        assert found == shape(*gates).timed({}).kinds, gates
        pairs += peres
    assert bool(pairs) == (length > 1)


def test_reversible_gates_of_aqfp_by_hand() -> None:
    """Junctions of a Toffoli and a Fredkin gate, and of six levels in which no gate acts on lines 0 to 2: all lines are used."""
    found = price_netlist(shape(TOFFOLI, FREDKIN, ((2,), (3,)), lines=4), technology("aqfp"))
    # Line 3 waits 16 levels for the last gate, lines 0 and 1 wait 4 for its end.
    junctions = 140 + 84 + 48 + 2 * (16 + 2 * 4)
    assert modelled(found, "logic") == approx(JUNCTION * junctions)
    assert modelled(found, "cooling") == approx(modelled(found, "logic") * Range(300, 400, 1000))


@pytest.mark.parametrize("hertz", [1.0, 1e3, 1e6, 5e9])
def test_reversible_gates_cost_nothing_in_the_slow_limit(hertz: float) -> None:
    """∝ f, without a floor: far below kT ln 2 for each gate."""
    fast, slow = (price_netlist(shape(TOFFOLI), technology("aqfp"), frequency=f) for f in (5e9, hertz))
    assert modelled(slow, "logic").nominal == approx(modelled(fast, "logic").nominal * hertz / 5e9)
    if hertz == 1.0:
        assert modelled(slow, "logic").hi < 2e-6 * thermal_energy(4.2)


@pytest.mark.parametrize("hertz", [1.0, 1e3, 1e6])
def test_irreversible_gates_have_a_floor(hertz: float) -> None:
    net = IrreversibleShape({"AND": 5}, {"AND": 5, "BUF": 7}, 3)
    found = modelled(price_netlist(net, technology("aqfp"), frequency=hertz), "logic")
    lost = 5 * (2 + 0.25 * math.log2(0.25) + 0.75 * math.log2(0.75))
    buffers = 7 * 2 * 1.4e-21 * hertz / 5e9
    least = lost * thermal_energy(4.2)
    assert found.nominal == approx(least + buffers)
    assert found.hi >= 175 * least


def test_irreversible_cells_at_full_clock() -> None:
    net = IrreversibleShape({"AND": 5}, {"AND": 5, "OR": 2, "MAJ3": 1, "BUF": 7, "splitter": 4}, 9)
    found = price_netlist(net, technology("aqfp"))
    assert modelled(found, "logic").nominal == approx(1.4e-21 * (8 * 6 + 11 * 2))
    # Nine levels are three cycles of four phases.
    assert seconds_of(net, found) == approx(3 / 5e9)


def test_garbage_is_erased_in_a_cycle() -> None:
    """kT ln 2 + B f for each bit."""
    net = shape(TOFFOLI, garbage=6)
    for hertz in (1e3, 5e9):
        found = modelled(price_netlist(net, technology("aqfp"), frequency=hertz), "erasure")
        assert found.nominal == approx(6 * (thermal_energy(4.2) + 5.6e-31 * hertz))
    landauer = price_netlist(net, technology("landauer"))
    assert modelled(landauer, "erasure") == exactly(6 * thermal_energy(300.0))
    assert landauer.complete()


def test_garbage_that_is_left_is_not_free() -> None:
    found = price_netlist(shape(TOFFOLI, garbage=6), technology("landauer"), garbage="left")
    assert isinstance(found.program, NotModelled)
    assert [(item.label, item.count) for item in found.missing] == [("garbage left", 6)]
    clean = price_netlist(shape(TOFFOLI), technology("landauer"), garbage="left")
    assert clean.complete()


def test_erasure_in_finite_time() -> None:
    """kT ln 2 + B/τ, B of the device, τ a cycle of the clock."""
    model = technology("landauer_finite")
    net = shape(TOFFOLI, garbage=2)
    assert isinstance(price_netlist(net, model).of("erasure"), NotModelled)
    given = model.with_figures({"finite_time": Range(1e-30, 2e-30, 3e-30)})
    for hertz in (1.0, 1e9):
        found = modelled(price_netlist(net, given, frequency=hertz), "erasure")
        assert found == approx(Range(*(2 * (thermal_energy(300.0) + b * hertz) for b in (1e-30, 2e-30, 3e-30))))


def test_adiabatic_ramps_times_depth_times_width() -> None:
    """Each of three lines in each of two levels is a node with two ramps; line 2 is idle in the second level."""
    model = technology("adiabatic_rc").with_figures(DEVICE)
    net = shape(TOFFOLI, CNOT)
    found = price_netlist(net, model, frequency=1e6)
    ramp = ramp_energy(1e4, 1e-15, 1.0, 1 / (8 * 1e6))
    assert modelled(found, "logic").nominal == approx(2 * 3 * 2 * ramp)
    # Three lines in two levels are six stages, each of which leaks in the whole cycle.
    assert modelled(found, "leakage").nominal == approx(1e-15 * 3 * 2 / 1e6)
    assert seconds_of(net, found) == approx(1 / 1e6)


def test_an_adiabatic_netlist_has_an_optimum_clock() -> None:
    model = technology("adiabatic_rc").with_figures(DEVICE)
    at = {f: price_netlist(shape(TOFFOLI, CNOT), model, frequency=f).program for f in (1e2, 1e5, 1e9)}
    assert all(isinstance(energy, Range) for energy in at.values())
    slow, middle, fast = (energy.nominal for energy in at.values() if isinstance(energy, Range))
    assert middle < slow
    assert middle < fast


def test_models_without_figures_for_gates() -> None:
    for name in ("cmos45", "cmos7"):
        for net in (shape(TOFFOLI), IrreversibleShape({"AND": 2}, {"AND": 2}, 1)):
            found = price_netlist(net, technology(name))
            assert isinstance(found.program, NotModelled)
            assert not found.complete()
            assert seconds_of(net, found) is None


def test_a_model_of_erasures_prices_what_gates_lose() -> None:
    net = IrreversibleShape({"AND": 1, "XOR": 1}, {"AND": 3, "OR": 1}, 3)
    found = price_netlist(net, technology("landauer"))
    assert modelled(found, "erasure").nominal == approx(2.18872 * thermal_energy(300.0), rel=1e-5)


def test_levels_by_model() -> None:
    net = shape(TOFFOLI, CNOT)
    assert {name: levels_of(net, technology(name)) for name in ("landauer", "aqfp", "adiabatic_rc")} == {
        "landauer": 2, "aqfp": 8, "adiabatic_rc": 2,
    }  # fmt: skip


@pytest.mark.parametrize("name", shipped())
def test_every_item_names_its_figures(name: str) -> None:
    model = technology(name)
    given = {**DEVICE, "finite_time": exactly(1e-30)}
    model = model.with_figures({k: given[k] for k in model.open})
    for net in (shape(TOFFOLI, CNOT, X, FREDKIN, garbage=2), IrreversibleShape({"XOR": 2}, {"AND": 4, "OR": 2}, 3)):
        for item in price_netlist(net, model).items:
            if isinstance(item.energy, Range) and item.energy.hi:
                assert item.figures
                assert 0 <= item.energy.lo <= item.energy.nominal <= item.energy.hi


def test_outside_of_the_model() -> None:
    with pytest.raises(InputError, match="RG1108"):
        price_netlist(shape(TOFFOLI), technology("aqfp"), frequency=6e9)
