"""Drawings of netlists: well-formed SVG with a name and a role for each wire, and no two gates in one place."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import pytest
from retrograd.hdl.reversible.circuit import Gate
from retrograd.hdl.reversible.formats import MOST_GATES, Netlist, draw_svg, netlist
from retrograd.hdl.reversible.lowering import lower
from retrograd.isa.diagnostics import InputError
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

SVG = "{http://www.w3.org/2000/svg}"


def parts(text: str, tag: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(text).iter(SVG + tag)]


def test_wires_and_gates() -> None:
    net = Netlist(("a", "b", "z"), (Gate((0, 1), (2,)), Gate((), (0,)), Gate((2,), (0, 1))), {2: 0}, frozenset({2}))
    text = draw_svg(net, "a < b & c")
    words = [element.text for element in ElementTree.fromstring(text).iter(SVG + "text")]
    assert words == ["a < b & c", "a in", "out", "b in", "out", "z |0⟩", "garbage"]
    wires = [line for line in parts(text, "line") if line["y1"] == line["y2"]]
    assert len(wires) == 3
    # Two controls, one control; two circles of targets; two crosses of an exchange.
    circles = parts(text, "circle")
    assert [circle["r"] for circle in circles] == ["4", "4", "7", "7", "4"]
    assert sum("l10 10" in path["d"] for path in parts(text, "path")) == 2


def test_a_negative_control_is_an_open_circle() -> None:
    net = Netlist(("a", "b", "c"), (Gate((0, 1), (2,), (1,)),), {})
    assert [(circle["cy"], circle["fill"]) for circle in parts(draw_svg(net, "n"), "circle") if circle["r"] == "4"] == [
        ("35", "#1a4f8a"), ("57", "white"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["mov.add", "swap", "seq.add", "erase"])
def test_no_two_gates_overlap(name: str) -> None:
    net = netlist(lower(TABLE[name], Format(4, 2)))
    text = draw_svg(net, name)
    spans: dict[str, list[tuple[int, int]]] = {}
    for line in parts(text, "line"):
        if line["x1"] == line["x2"]:
            spans.setdefault(line["x1"], []).append((int(line["y1"]), int(line["y2"])))
    for column in spans.values():
        column.sort()
        assert all(first[1] < second[0] for first, second in itertools.pairwise(column))
    # Everything lies within the picture.
    width = int(parts(text, "svg")[0]["width"])
    assert all(0 < int(circle["cx"]) < width - 60 for circle in parts(text, "circle"))


def test_a_file_has_no_known_ends() -> None:
    text = draw_svg(Netlist(("a", "z"), (), {1: 1}), "file")
    assert "garbage" not in text
    assert "|1⟩" in text
    assert ">out<" not in text


def test_long_netlists_are_refused() -> None:
    draw_svg(Netlist(("a",), (Gate((), (0,)),) * MOST_GATES, {}), "long")
    with pytest.raises(InputError, match="RG1407"):
        draw_svg(Netlist(("a",), (Gate((), (0,)),) * (MOST_GATES + 1), {}), "longer")
