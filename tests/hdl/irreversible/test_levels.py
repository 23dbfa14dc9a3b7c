"""Levels, splitters and buffers: by hand, by invariants, and of Yosys's netlists."""

from __future__ import annotations

import random
from typing import Any

import pytest
from retrograd.hdl.reversible.builder import takahashi_adder
from retrograd.hdl.reversible.irreversible import Levelling, Levels, levels_of, network_of, synthesised_levels
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def test_a_chain_and_a_late_sink() -> None:
    """c = (a AND b) AND a: a is split in level 1, reaches the first gate in level 2, and is delayed once to the second gate."""
    net = Levelling()
    net.cell("AND", "ab", ("a", "b"))
    net.cell("AND", "c", ("ab", "a"))
    assert net.levels(["c"]) == Levels({"AND": 2, "splitter": 1, "BUF": 2}, 3)


@pytest.mark.parametrize(("sinks", "levels"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (8, 4)])
def test_fan_out_takes_levels(sinks: int, levels: int) -> None:
    net = Levelling()
    for k in range(sinks):
        net.cell("AND", k, ("x",))
    found = net.levels(range(sinks))
    assert found.levels == levels
    assert found.cells.get("splitter", 0) == sinks - 1


def test_xor_and_mux_are_cells_of_the_library() -> None:
    net = Levelling()
    net.gate("XOR", "x", ("a", "b"))
    net.gate("MUX", "m", ("x", "c", "s"))
    found = net.levels(["m"])
    assert {kind: found.cells[kind] for kind in ("AND", "OR", "splitter")} == {"AND": 4, "OR": 2, "splitter": 3}
    # Split, AND, OR of the XOR; AND, OR of the MUX.
    assert found.levels == 5


def test_every_input_reaches_every_output_at_once() -> None:
    """Of n sinks and ends of a signal, n − 1 are added by splitters; and buffers fill every level of a path."""
    rng = random.Random(3)
    for _ in range(50):
        net = Levelling()
        signals: list[Any] = ["a", "b", "c"]
        uses: dict[Any, int] = {}
        for k in range(rng.randint(1, 25)):
            pair = rng.sample(signals, 2)
            for signal in pair:
                uses[signal] = uses.get(signal, 0) + 1
            net.cell("AND", k, pair)
            signals.append(k)
        ends = [signal for signal in signals if signal not in uses]
        found = net.levels(ends)
        for signal in ends:
            uses[signal] = uses.get(signal, 0) + 1
        assert found.cells.get("splitter", 0) == sum(n - 1 for n in uses.values())


def test_a_line_of_buffers() -> None:
    """A signal that is used in the last level only is delayed in all others."""
    net = Levelling()
    net.cell("AND", 0, ("a", "b"))
    for k in range(1, 10):
        net.cell("AND", k, (k - 1, f"x{k}"))
    found = net.levels([9])
    assert found == Levels({"AND": 10, "BUF": sum(range(1, 10))}, 10)


def test_levels_of_an_adder() -> None:
    """Each stage of a ripple-carry adder takes a splitter and a majority gate, so levels grow by two or three a bit."""
    eight, sixteen = (levels_of(network_of(takahashi_adder(n))).levels for n in (8, 16))
    assert 2 * 8 <= sixteen - eight <= 3 * 8


def test_synthesised() -> None:
    """a AND NOT b, kept in a flip-flop, XOR c; a memory takes and gives a bit."""

    def cell(kind: str, **pins: list[Any]) -> dict[str, Any]:
        ways = {pin: "output" if pin in "YQR" else "input" for pin in pins}
        return {"type": kind, "connections": pins, "port_directions": ways}

    module = {
        "ports": {"a": {"direction": "input", "bits": [1]}, "y": {"direction": "output", "bits": [7, "0"]}},
        "cells": {
            "xor": cell("$_XOR_", A=[5], B=[6], Y=[7]),
            "and": cell("$_AND_", A=[1], B=[3], Y=[4]),
            "not": cell("$_NOT_", A=[2], Y=[3]),
            "ff": cell("$_DFF_P_", C=[9], D=[4], Q=[5]),
            "mem": cell("$memrd_v2", ADDR=[4], R=[6]),
        },
    }
    found = synthesised_levels(module)
    # The XOR splits its inputs first, and is the last of three levels. The AND is delayed once, and split for flip-flop and memory.
    assert found == Levels({"AND": 3, "OR": 1, "splitter": 3, "BUF": 1}, 3)


def test_whole_instructions_have_levels() -> None:
    found = levels_of(network_of(lower(TABLE["fmul.add"], Format(8, 4))))
    assert found.levels > 30
    assert found.cells["BUF"] > found.cells["AND"]


def test_junctions_of_an_adder_in_aqfp() -> None:
    """52 gates of 6 junctions, and 336 cells of 2: the figures of docs/energy.md."""
    found = levels_of(network_of(lower(TABLE["mov.add"], Format(8, 4))))
    gates = sum(found.cells[kind] for kind in ("AND", "OR", "MAJ3"))
    wires = found.cells["BUF"] + found.cells["splitter"]
    assert (gates, wires, 6 * gates + 2 * wires, found.levels) == (52, 336, 984, 24)
