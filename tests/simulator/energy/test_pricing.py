"""What counts cost: exact where physics is, additive, equal there and back, and never 0 for what is not modelled."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retrograd.isa.diagnostics import InputError
from retrograd.simulator.energy.counts import Counts, HostTraffic, counts_of, host_traffic
from retrograd.simulator.energy.gates import Gates, gates_from, lost_bits
from retrograd.simulator.energy.laws import optimum, ramp_energy
from retrograd.simulator.energy.pricing import Covered, NotModelled, Price, price
from retrograd.simulator.energy.technology import (
    BOLTZMANN,
    CAUSES,
    Range,
    Technology,
    exactly,
    from_text,
    shipped,
    technology,
    thermal_energy,
    with_prefix,
)
from scipy.integrate import solve_ivp

import retrograd as rg
from retrograd import library

#: energies are smaller than 1e-12, the absolute tolerance of pytest.approx
approx = partial(pytest.approx, rel=1e-6, abs=0.0)

KT_LN2 = BOLTZMANN * 300 * math.log(2)
SMALL = rg.Format(32, 16)
GATES = gates_from(
    {
        "schema": "retrograd.gates/1",
        "format": {"width": 32, "frac": 16},
        "units": {"logic unit": {"AND": 100, "XOR": 10}, "multiplier": {"AND": 1000, "DFF": 7}},
        "in levels": {"levels": 9, "cells": {"AND": 1120, "OR": 10, "splitter": 50, "BUF": 500}},
    },
    "gates.json",
)
#: a device that nobody has made: round numbers
DEVICE = {
    "resistance": exactly(1e4), "capacitance": exactly(1e-15), "voltage": exactly(1.0), "power": exactly(1e-15),
    "finite_time": exactly(1e-30), "quality": exactly(1e4),
}  # fmt: skip


def ran(text: str, **modes: Any) -> Counts:
    machine = rg.Machine(rg.assemble(text), **modes)
    machine.run()
    return counts_of(machine)


def with_device(model: Technology) -> Technology:
    return model.with_figures({name: DEVICE[name] for name in model.open})


def erasing(words: int) -> Counts:
    return ran("start\n" + "erase r1\n" * words + "finish")


def modelled(energy: Range | NotModelled) -> Range:
    assert isinstance(energy, Range)
    return energy


# ------------------------------------------------------------------ landauer


@pytest.mark.parametrize("words", [0, 1, 7])
@pytest.mark.parametrize("kelvins", [4.2, 77.0, 300.0])
def test_erasing_n_bits_costs_n_kt_ln2(words: int, kelvins: float) -> None:
    found = price(erasing(words), technology("landauer"), temperature=kelvins)
    assert found.program == exactly(64 * words * (BOLTZMANN * kelvins * math.log(2)))
    assert found.in_bits(kelvins) == exactly(64 * words)
    assert modelled(found.of("erasure")) == found.program


def test_the_bound_at_300_k() -> None:
    assert thermal_energy(300) == approx(2.87098e-21, rel=1e-5)


def test_what_is_reversible_costs_nothing_but_load_and_copy_out() -> None:
    machine = rg.run(library.norm, 0.0, [3.0, 4.0]).machine
    host = host_traffic(machine.program, 3, 3)
    found = price(counts_of(machine, host), technology("landauer"))
    assert found.program == exactly(0.0)
    assert found.of("program load") == exactly((len(machine.program.code) + 3) * 64 * KT_LN2)
    assert found.of("copy-out") == exactly(3 * 64 * KT_LN2)
    assert modelled(found.total).nominal == approx(host.bits * KT_LN2, rel=1e-12)


def test_one_erase_costs_the_bits_of_a_word() -> None:
    landauer = technology("landauer")
    without = price(ran(".format 32, 16\nstart\nadd r1, 5\nfinish"), landauer)
    with_one = price(ran(".format 32, 16\nstart\nadd r1, 5\nerase r1\nfinish"), landauer)
    assert modelled(with_one.program).nominal - modelled(without.program).nominal == 32 * KT_LN2


def test_dropped_cotangents_are_erased_bits() -> None:
    machine = rg.Machine(rg.assemble(".format 32, 16\nstart\nassertz r2\nfmov.add r1, r2\nfinish"), backward=True)
    machine.differentiating = True
    machine.cotangents[1] = 5
    machine.run()
    found = price(counts_of(machine), technology("landauer"))
    assert found.program == exactly(32 * KT_LN2)
    assert {i.label: i.count for i in found.items if i.cause == "erasure"} == {
        "erased bits: erase": 0, "erased bits: cotangents dropped": 32,
    }  # fmt: skip


def test_what_landauer_has_no_figure_for_is_not_zero() -> None:
    found = price(erasing(1), technology("landauer"))
    told = found.as_dict()["causes"]
    for cause in ("logic", "leakage", "clock", "memory"):
        assert isinstance(found.of(cause), Covered)
        assert str(found.of(cause)) == told[cause] == "covered by the bound of erasures"
    assert isinstance(found.of("cooling"), NotModelled)
    assert str(found.of("cooling")) == told["cooling"] == "not modelled"


# ------------------------------------------------------------------ laws of prices


def everything() -> list[tuple[str, Any]]:
    return [(name, with_device(technology(name))) for name in shipped()]


TEXT = """
.format 32, 16
.memory 3
start
add r1, 5
top: from.ne r3, r0, bottom
add r3, 1
fmul.add r4, r3, r1
st.add [r0 + 1], r4
rot r5, r4, r3
bottom: goto.ne r3, r1, top
finish
"""


@pytest.mark.parametrize(("name", "model"), everything())
def test_prices_of_parts_add_up(name: str, model: Any) -> None:
    machine = rg.Machine(rg.assemble(TEXT))
    machine.run(11)
    first = counts_of(machine)
    machine.run()
    whole = counts_of(machine, HostTraffic(64, 32, 32))
    prices = [price(c, model, gates=GATES) for c in (first, whole - first, whole)]
    for a, b, both in zip(*(p.items for p in prices), strict=True):
        assert (a.cause, a.label) == (b.cause, b.label) == (both.cause, both.label)
        if isinstance(both.energy, Range):
            assert (modelled(a.energy) + modelled(b.energy)) == approx(both.energy, rel=1e-12)
            assert a.count + b.count == approx(both.count)


@pytest.mark.parametrize(("name", "model"), everything())
def test_a_run_back_costs_what_the_run_did(name: str, model: Any) -> None:
    machine = rg.Machine(rg.assemble(TEXT))
    machine.run()
    forward = counts_of(machine)
    machine.run_back()
    back = counts_of(machine) - forward
    assert price(back, model, gates=GATES).causes == price(forward, model, gates=GATES).causes


@pytest.mark.parametrize(("name", "model"), everything())
def test_ranges_are_in_order(name: str, model: Any) -> None:
    for item in price(ran(TEXT), model, gates=GATES).items:
        if isinstance(item.energy, Range):
            assert 0 <= item.energy.lo <= item.energy.nominal <= item.energy.hi


def test_every_price_names_its_figures() -> None:
    for _, model in everything():
        for item in price(erasing(1) + erasing(1), model).items:
            if isinstance(item.energy, Range) and item.energy.hi:
                assert item.figures
                assert all(figure.source and figure.evidence for figure in item.figures)


# ------------------------------------------------------------------ cmos


def test_cmos_by_hand() -> None:
    text = ".format 32, 16\n.memory 2\nstart\nadd r1, 3\nmul.add r2, r1, r1\nst.add [r0], r2\nfinish"
    found = price(ran(text), technology("cmos45"))
    items = {i.label: i for i in found.items}
    assert items["sums, comparisons, shifts"].count == 3
    assert modelled(items["sums, comparisons, shifts"].energy) == approx(Range(0.05e-12, 0.1e-12, 0.15e-12) * 3)
    assert modelled(items["products"].energy) == approx(Range(3.05e-12, 3.1e-12, 3.15e-12))
    assert modelled(items["fetch, decode, registers, control"].energy) == approx(Range(31e-12, 70e-12, 400e-12) * 4)
    # A store reads and writes; half of a 64-bit access each.
    assert modelled(items["data memory"].energy) == approx(Range(5e-12, 10e-12, 15e-12))
    assert found.missing == []


@pytest.mark.parametrize(("words", "joules"), [(2048, 10e-12), (2049, 20e-12), (8193, 100e-12), (1 << 18, 100e-12)])
def test_the_smallest_memory_that_holds_it(words: int, joules: float) -> None:
    counts = ran(f".format 32, 16\n.memory {words}\nstart\nld.add r1, [r0]\nfinish")
    assert modelled(price(counts, technology("cmos45")).of("memory")).nominal == approx(joules / 2)


def test_dram_beyond() -> None:
    counts = ran(".format 32, 16\n.memory 262145\nstart\nld.add r1, [r0]\nfinish")
    assert price(counts, technology("cmos45")).of("memory") == approx(Range(650e-12, 975e-12, 1300e-12))


def test_wider_words_than_the_figures() -> None:
    found = price(ran("start\nmul.add r2, r1, r1\nfinish"), technology("cmos45"))
    product = next(i for i in found.items if i.label == "products")
    assert product.energy == approx(Range(3.05e-12 * 2**1.97, 3.1e-12 * 4, 3.15e-12 * 4))
    assert [f.unit.name for f in product.figures] == ["pJ", "1"]


def test_cmos7_is_its_source() -> None:
    """Jouppi et al., ISCA 2021, table 2: 7 nm."""
    sums, products, memory = technology("cmos7").charges
    assert [(s.bits, s.energy.si.nominal) for s in sums.sizes] == [(8, 0.007e-12), (32, approx(0.030e-12))]
    assert [(s.bits, s.energy.si.nominal) for s in products.sizes] == [(8, 0.070e-12), (32, 1.48e-12)]
    assert {(s.capacity, s.bits): s.energy.si.nominal for s in memory.sizes} == {
        (8192, 64): 7.5e-12, (32768, 64): 8.5e-12, (1 << 20, 64): 14e-12, (None, 64): approx(1300e-12),
    }  # fmt: skip
    found = price(
        ran(".format 32, 16\n.memory 2\nstart\nmul.add r2, r1, r1\nst.add [r0], r2\nfinish"), technology("cmos7")
    )
    items = {i.label: i.energy for i in found.items}
    assert items["products"] == approx(Range(1.475e-12, 1.48e-12, 1.485e-12))
    assert items["data memory"] == approx(Range(7.45e-12, 7.5e-12, 7.55e-12))
    for name in ("cmos7", "cmos7_caches"):
        dram = technology(name).charges[-1].sizes[-1].energy.si
        # HBM2 begins at 250 pJ, GDDR6 at 350 pJ; DDR3 and DDR4 have 1300 pJ.
        assert (dram.lo, dram.nominal) == approx((250e-12, 1300e-12))
    assert technology("cmos7").version == "2.1"


@pytest.mark.parametrize("width", [4, 8, 16, 32, 64])
@pytest.mark.parametrize("name", ["cmos45", "cmos7"])
def test_prices_at_every_width(name: str, width: int) -> None:
    """Of the widest figure that is no wider, else of the narrowest, times (W / bits)^exponent; the ends by those of the exponent."""
    text = f".format {width}, {width // 2}\nstart\nadd r1, 1\nmul.add r2, r1, r1\nfinish"
    items = {i.label: i for i in price(ran(text), technology(name)).items}
    for charge in technology(name).charges[:2]:
        size = {4: 8, 8: 8, 16: 8, 32: 32, 64: 32}[width]
        figure = next(s.energy for s in charge.sizes if s.bits == size)
        factors = [(width / size) ** e for e in charge.figures["exponent"].si]
        item = items[charge.label]
        expected = Range(min(factors), factors[1], max(factors)) * figure.si * item.count
        assert item.count > 0
        assert item.energy == approx(expected)


def test_a_unit_without_a_figure_is_told() -> None:
    found = price(ran("start\nadd r2, 3\ndiv.add r1, r2, r2\nfinish"), technology("cmos45"))
    assert [(i.cause, i.of) for i in found.missing] == [("logic", "operations of the divider")]
    assert not found.as_dict()["complete"]
    assert modelled(found.of("logic")).nominal > 0


# ------------------------------------------------------------------ cells


def test_aqfp_by_hand() -> None:
    counts = ran(".format 32, 16\nstart\nadd r1, 3\nfinish")
    found = price(counts, technology("aqfp"), gates=GATES)
    # Nine levels are three cycles of four phases. The floor of 1 to 175 kT ln 2 for each lost bit counts for flip-flops.
    junctions, each = 1130 * 6 + 550 * 2, Range(1.35e-21, 1.4e-21, 1.45e-21)
    held = Range(2 * 1.35e-21, 2 * 1.4e-21, 175 * thermal_energy(4.2)) * 7
    assert found.of("logic") == approx((each * junctions + held) * (3 * counts.cycles))
    assert found.of("cooling") == approx(modelled(found.of("logic")) * Range(300, 400, 1000))
    assert [(i.cause, i.label) for i in found.missing] == [
        ("clock", "all clock"), ("cooling", "helium refrigerator: all clock"),
    ]  # fmt: skip
    slow = price(counts, technology("aqfp"), gates=GATES, frequency=1e9)
    assert modelled(slow.of("logic")).nominal == approx(modelled(found.of("logic")).nominal * 0.2)


def test_a_junction_in_thermal_units() -> None:
    joules = 1.4e-21
    assert joules / (BOLTZMANN * 4.2) == approx(24, rel=0.01)
    assert joules / (BOLTZMANN * 300) == approx(0.34, rel=0.01)
    found = price(ran(".format 32, 16\nstart\nadd r1, 3\nfinish"), technology("aqfp"), gates=GATES)
    at_work, at_room = modelled(found.in_bits(4.2)), modelled(found.in_bits(300.0))
    assert at_work.nominal / at_room.nominal == approx(300 / 4.2)
    told = found.as_dict()
    assert told["program_ktln2_at_operating_temperature"] == at_work.as_dict()
    assert told["program_ktln2_at_300_K"] == at_room.as_dict()


def test_heat_arises_where_it_does() -> None:
    counts = ran(".format 32, 16\nstart\nerase r1\nfinish").with_host(HostTraffic(64, 32, 32))
    found = price(counts, technology("aqfp"), gates=GATES)
    kelvins = {i.cause: i.temperature for i in found.items}
    assert kelvins == {
        "logic": 4.2, "leakage": 4.2, "clock": 4.2, "memory": 4.2, "erasure": 4.2, "program load": 4.2,
        "cooling": 300.0, "copy-out": 300.0,
    }  # fmt: skip
    assert found.of("erasure") == Range(1, 1, 7) * (32 * thermal_energy(4.2))
    assert found.of("copy-out") == Range(1, 1, 7) * (32 * thermal_energy(300.0))


def test_what_is_loaded_into_the_cold_is_cooled() -> None:
    """The heat of the bits that the host overwrites in the machine; what it overwrites in its own memory is in the room."""
    counts = ran(".format 32, 16\nstart\nfinish")
    without, beside = (
        price(c, technology("aqfp"), gates=GATES) for c in (counts, counts.with_host(HostTraffic(64, 32, 96)))
    )
    heat = 96 * thermal_energy(4.2)
    more = [b - a for a, b in zip(modelled(without.of("cooling")), modelled(beside.of("cooling")), strict=True)]
    assert more == approx([heat * w for w in (300, 400, 7 * 1000)], rel=1e-6)
    assert beside.program == without.program
    assert modelled(beside.total).nominal - modelled(without.total).nominal == approx(
        heat * 401 + 96 * thermal_energy(300.0), rel=1e-6
    )


# ------------------------------------------------------------------ what no sum may hide


def one_cause(cause: str, covered: str = "") -> Technology:
    """A model of one cause, in the room or for the cold."""
    law, figure = ("erased bit", "energy") if cause == "erasure" else ("instruction", "energy")
    return from_text(
        f"""
schema = "retrograd.technology/1"
id = "one"
version = "1"
title = "One cause"
doc = "No other."
{covered}
[temperature]
value = 300
low = 4
high = 300
unit = "K"
source = "made up"
evidence = "assumed"
[[charge]]
cause = "{cause}"
label = "it"
law = "{law}"
[charge.{figure}]
value = 1
unit = "pJ"
source = "made up"
evidence = "assumed"
""",
        "one.toml",
    )


EVENTFUL = ".format 32, 16\n.memory 2\nstart\nadd r1, 3\nst.add [r0], r1\nerase r1\nfinish"


@pytest.mark.parametrize("cause", CAUSES[:-1])
def test_a_sum_without_a_cause_that_happened_is_a_lower_bound(cause: str) -> None:
    """Whatever of the causes has a charge, the others happened: steps, cycles, accesses, erased bits."""
    counts = ran(EVENTFUL)
    others = [c for c in CAUSES[:-1] if c != cause]
    found = price(counts, one_cause(cause))
    assert {i.cause: i.count for i in found.missing} == {
        c: {"logic": counts.retired, "memory": 2, "erasure": 32}.get(c, counts.cycles) for c in others
    }
    assert not found.complete(program=True)
    assert not found.complete()
    for left in others:
        all_but_one = ", ".join(f'"{c}"' for c in others if c != left)
        assert not price(counts, one_cause(cause, f"covered = [{all_but_one}]")).complete(program=True)
    every = price(counts, one_cause(cause, "covered = [{}]".format(", ".join(f'"{c}"' for c in others))))
    assert every.complete(program=True)
    assert every.program == found.program


def test_a_sum_in_the_cold_without_cooling_is_a_lower_bound() -> None:
    model = one_cause("logic", 'covered = ["leakage", "clock", "memory", "erasure"]')
    for kelvins, complete in ((300.0, True), (4.2, False)):
        found = price(ran(EVENTFUL), model, temperature=kelvins)
        assert found.complete(program=True)
        assert found.complete() is complete


@pytest.mark.parametrize("name", shipped())
def test_shipped_models_are_complete_or_say_what_is_not(name: str) -> None:
    """What has no charge and is not covered is missing in every eventful run's sum."""
    model = technology(name)
    found = price(ran(EVENTFUL), with_device(model), gates=GATES)
    open_causes = set(CAUSES[:-1]) - {c.cause for c in model.charges} - set(model.covered)
    assert {i.cause for i in found.missing if i.label.startswith("all ")} == open_causes
    assert found.complete(program=True) == (name in ("landauer", "landauer_finite", "cmos45", "cmos45_caches"))


# ------------------------------------------------------------------ what thermodynamics allows


@pytest.mark.parametrize(("energy", "kelvins", "allowed"), [
    (2.88e-21, 300.0, True), (2.86e-21, 300.0, False), (2.86e-21, 298.0, True), (4.1e-23, 4.2, True), (4.0e-23, 4.2, False), (0.0, 4.2, False),
])  # fmt: skip
def test_erasing_below_kt_ln2_is_refused_for_given_figures(energy: float, kelvins: float, allowed: bool) -> None:
    model = technology("landauer").with_figures({"energy": Range(energy, 1e-20, 1e-20)})
    if allowed:
        assert modelled(price(erasing(1), model, temperature=kelvins).program).lo >= 64 * thermal_energy(kelvins)
    else:
        with pytest.raises(InputError, match=r"RG1112.*less than kT ln 2"):
            price(erasing(1), model, temperature=kelvins)


def test_a_charge_that_is_dropped_is_no_less_than_kt_ln2() -> None:
    """½CV² of a small enough device is."""
    device = {k: DEVICE[k] for k in technology("adiabatic_rc").open} | {"capacitance": exactly(1e-18)}
    for volts, allowed in ((0.08, True), (0.07, False)):
        model = technology("adiabatic_rc").with_figures({**device, "voltage": exactly(volts)})
        if allowed:
            price(erasing(1), model)
        else:
            with pytest.raises(InputError, match="RG1112"):
                price(erasing(1), model)


def test_cooling_below_carnot_is_refused_for_given_figures() -> None:
    carnot = (300 - 4.2) / 4.2
    for overhead, allowed in ((carnot * 1.001, True), (carnot * 0.999, False)):
        model = technology("aqfp").with_figures({"overhead": Range(overhead, 400, 400)})
        if allowed:
            price(erasing(1), model)
        else:
            with pytest.raises(InputError, match=r"RG1112.*Carnot"):
                price(erasing(1), model)


def test_host_memory_in_the_room_is_not_priced_by_the_cold() -> None:
    """A figure in joules is for its temperature: 100 zJ in the cold says nothing of a bit at 300 K."""
    counts = ran(".format 32, 16\nstart\nfinish").with_host(HostTraffic(64, 32, 96))
    model = technology("aqfp").with_figures({"energy": exactly(1e-22)})
    assert isinstance(price(counts, model).of("copy-out"), NotModelled)
    assert price(counts, model).of("program load") == approx(exactly(96 * 1e-22))


@pytest.mark.parametrize("gates", [None, Gates(rg.Format(64, 32), {"logic unit": {"AND": 1}})])
def test_without_gate_counts_of_its_format_it_is_not_modelled(gates: Gates | None) -> None:
    counts = ran(".format 32, 16\nstart\nadd r1, 3\nfinish")
    found = price(counts, technology("aqfp"), gates=gates)
    for energy in (found.of("logic"), found.of("cooling"), found.program):
        assert isinstance(energy, NotModelled)
        assert "no gate counts for Q16.16" in energy.why


# ------------------------------------------------------------------ adiabatic


def dissipated(resistance: float, capacitance: float, voltage: float, duration: float) -> float:
    """∫ (Vr − Vc)²/R dt by the differential equation, the ramp and what settles after it."""
    rc = resistance * capacitance

    def slope(t: float, y: Any) -> list[float]:
        drop = min(t / duration, 1.0) * voltage - y[0]
        return [drop / rc, drop * drop / resistance]

    y = [0.0, 0.0]
    for begin, end in ((0.0, duration), (duration, duration + 40 * rc)):
        y = solve_ivp(slope, (begin, end), y, rtol=1e-9, atol=[1e-12, 1e-26], method="LSODA").y[:, -1]
    return float(y[1])


@pytest.mark.parametrize("x", [1e-3, 1e-2, 0.1, 0.5, 1.0, 3.0, 30.0])
def test_the_ramp_against_its_equation(x: float) -> None:
    resistance, capacitance, voltage = 1e4, 1e-15, 0.8
    duration = resistance * capacitance / x
    exact = dissipated(resistance, capacitance, voltage, duration)
    assert ramp_energy(resistance, capacitance, voltage, duration) == approx(exact, rel=1e-4)


def test_slow_and_fast_ramps() -> None:
    cv2 = 1e-15
    assert ramp_energy(1e4, 1e-15, 1.0, 1e-5) == approx(1e-6 * cv2, rel=1e-5)
    assert ramp_energy(1e4, 1e-15, 1.0, 1e-17) == approx(cv2 / 2, rel=1e-5)
    # Both forms meet where one gives way to the other.
    assert ramp_energy(1e4, 1e-15, 1.0, 1e-14 * 1.0001) == approx(ramp_energy(1e4, 1e-15, 1.0, 1e-14), rel=1e-4)


@settings(max_examples=200)
@given(st.floats(1e-9, 1e9), st.floats(1.0001, 10))
def test_a_faster_ramp_costs_more(x: float, by: float) -> None:
    assert ramp_energy(x, 1.0, 1.0, 1.0) <= ramp_energy(x * by, 1.0, 1.0, 1.0) * (1 + 1e-6)


def test_what_is_left_open_is_not_modelled_until_it_is_given() -> None:
    counts = ran(".format 32, 16\nstart\nerase r1\nfinish")
    model = technology("adiabatic_rc")
    found = price(counts, model, gates=GATES)
    assert str(found.of("logic")) == str(found.of("erasure")) == str(found.total) == "not modelled"
    assert found.of("logic") == NotModelled("give resistance, capacitance, voltage")
    priced = price(counts, with_device(model), gates=GATES)
    assert priced.of("erasure") == approx(exactly(32 * 0.5e-15))
    # Nine levels are two cycles of eight ticks. Each bit that a gate or flip-flop loses drops ½CV².
    cells, tau = 2 * (1130 + 550 + 7), 1 / (1e6 * 8)
    ramp = 2 * ramp_energy(1e4, 1e-15, 1.0, tau)
    lost = 0.5e-15 * (1130 * lost_bits("AND") + 7)
    logic = modelled(priced.of("logic"))
    assert logic.nominal == approx(2 * counts.cycles * (550 * ramp + lost))
    assert logic.lo == approx(counts.cycles * cells * ramp)
    assert priced.of("leakage") == approx(exactly(counts.cycles * cells * 1e-15 / 1e6))


def test_a_figure_that_the_model_has_not() -> None:
    with pytest.raises(InputError) as wrong:
        technology("adiabatic_rc").with_figures({"resistence": exactly(1)})
    assert (wrong.value.code, wrong.value.diagnostics[0].hint) == ("RG1109", "did you mean `resistance`?")


def test_a_figure_that_is_given_is_in_si_units_whatever_the_file_has() -> None:
    toll = technology("landauer").with_figures({"energy": exactly(3e-21)})
    found = price(erasing(1), toll)
    assert found.program == exactly(64 * 3e-21)
    assert {(f.unit.name, f.evidence) for i in found.items for f in i.figures} == {("J", "given")}
    slow = technology("aqfp").with_figures({"at": exactly(2.5e9)})
    assert slow.charges[0].figures["at"].si == exactly(2.5e9)


@pytest.mark.parametrize("value", [Range(-1, 1, 2), Range(2, 1, 3), Range(0, 1, math.inf), Range(math.nan, 1, 2)])
def test_figures_that_are_no_range(value: Range) -> None:
    with pytest.raises(InputError, match="RG0507"):
        technology("adiabatic_rc").with_figures({"resistance": value})


def test_bits_of_memory_are_no_gates() -> None:
    """What `any` cell costs in each cycle, a bit of a ROM does not: it is told as not modelled."""
    units = {"logic unit": {"AND": 10}, "ROM": {"AND": 1, "memory bits": 4096}}
    counts = ran(".format 32, 16\nstart\nadd r1, 3\nfinish")
    model = with_device(technology("adiabatic_rc"))
    with_rom, without = (
        price(counts, model, gates=Gates(SMALL, u, levels=1, in_levels={"AND": 11}))
        for u in (units, {"ROM": {"AND": 11}})
    )
    assert with_rom.of("logic") == without.of("logic")
    assert [(i.label, i.count) for i in with_rom.missing] == [
        ("ramps: memory bits", 4096 * counts.cycles), ("devices that leak: memory bits", 4096 * counts.cycles),
        ("generator of the ramps: memory bits", 4096 * counts.cycles),
    ]  # fmt: skip


def test_the_optimum() -> None:
    tau, least = optimum(4e-20, 1e-4)
    assert tau == approx(2e-8)
    assert least == approx(4e-20 / tau + 1e-4 * tau)
    assert least < 4e-20 / (tau * 1.1) + 1e-4 * tau * 1.1


# ------------------------------------------------------------------ temperatures, clocks


@pytest.mark.parametrize(
    ("model", "kelvins", "hertz"),
    [
        ("cmos45", 77.0, None),
        ("aqfp", 300.0, None),
        ("aqfp", None, 6e9),
        ("adiabatic_rc", None, 1e12),
        ("landauer", 0.0, None),
    ],
)
def test_for_which_there_are_no_figures(model: str, kelvins: float | None, hertz: float | None) -> None:
    with pytest.raises(InputError) as wrong:
        price(erasing(1), technology(model), temperature=kelvins, frequency=hertz)
    assert wrong.value.code == "RG1108"


def test_the_clock_changes_nothing_that_does_not_depend_on_it() -> None:
    counts = erasing(1)
    assert price(counts, technology("landauer"), frequency=1e9).frequency is None


# ------------------------------------------------------------------ numbers


@given(st.floats(1e-40, 1e40), st.integers(1, 9))
def test_a_number_with_a_prefix_is_the_number(value: float, digits: int) -> None:
    """Between 1 and 1000 with the prefixes that there are; smaller and larger ones keep the last of them."""
    text = with_prefix(value, "J", digits)
    number, prefix = text.removesuffix("J").split(" ")
    exponents = {
        "y": -24,
        "z": -21,
        "a": -18,
        "f": -15,
        "p": -12,
        "n": -9,
        "µ": -6,
        "m": -3,
        "": 0,
        "k": 3,
        "M": 6,
        "G": 9,
        "T": 12,
    }
    assert float(number) * 10.0 ** exponents[prefix] == approx(value, rel=0.51 * 10.0 ** (1 - digits))
    assert float(number) >= 1 or prefix == "y"
    assert float(number) < 1000 or prefix == "T"
    assert with_prefix(-value, "J", digits) == f"-{text}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(9.99995e14, "1000 TJ"), (1e16, "1e+04 TJ"), (1e300, "1e+288 TJ"), (5e-324, "4.941e-300 yJ"), (9.9999e-22, "1 zJ"),
     (9.9999e11, "1 TJ"), (1e-24, "1 yJ"), (999.94, "999.9 J"), (999.96, "1 kJ"), (math.inf, "inf J"), (math.nan, "nan J")],
)  # fmt: skip
def test_numbers_at_the_ends_of_the_prefixes(value: float, shown: str) -> None:
    assert with_prefix(value, "J") == shown


@pytest.mark.parametrize(
    ("joules", "shown"),
    [
        (0.0, "0 J"),
        (2.5e-11, "25 pJ"),
        (2.87098e-21, "2.871 zJ"),
        (1.0, "1 J"),
        (9.9999e-10, "1 nJ"),
        (1e-26, "0.01 yJ"),
    ],
)
def test_numbers_with_prefixes(joules: float, shown: str) -> None:
    assert with_prefix(joules, "J") == shown


def test_json_has_the_figures() -> None:
    told: Any = price(erasing(1), technology("landauer")).as_dict()
    erase = next(i for i in told["items"] if i["label"] == "erased bits: erase")
    assert erase["count"] == 64
    assert erase["figures"][0]["unit"] == "kT ln2"
    assert erase["figures"][0]["source"].startswith("R. Landauer")


def test_a_price_of_a_model_of_ones_own() -> None:
    text = """
schema = "retrograd.technology/1"
id = "toll"
version = "3"
title = "A toll"
doc = "For each instruction."
[temperature]
value = 300
unit = "K"
source = "a room"
evidence = "assumed"
[[charge]]
cause = "logic"
label = "toll"
law = "instruction"
[charge.energy]
value = 2
low = 1
high = 4
unit = "pJ"
source = "made up"
evidence = "assumed"
"""
    found: Price = price(erasing(3), from_text(text, "toll.toml"))
    assert found.program == approx(Range(4e-12, 8e-12, 16e-12))
    assert found.technology.version == "3"


def test_thirteen_cases_with_their_tests() -> None:
    """The cases of docs/energy.md that validate counts and prices name tests that exist."""
    root = Path(__file__).resolve().parents[3]
    text = (root / "docs" / "energy.md").read_text(encoding="utf-8").split("## Validation")[1]
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 14))
    for _, row in rows:
        named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (root / "tests" / file).read_text(encoding="utf-8"), (file, test)
