"""The one module that imports Amaranth's private modules, and the parts of them that it relies on."""

from __future__ import annotations

import ast
from pathlib import Path

import amaranth
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from retrograd.hdl.netlist import netlist_of, nir

from retrograd import hdl


class Counter(wiring.Component):
    def __init__(self) -> None:
        super().__init__({"step": In(3), "count": Out(3)})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        kept = Signal(3, init=5)
        m.d.sync += kept.eq(kept + self.step)
        m.d.comb += self.count.eq(kept)
        return m


def test_cells_have_the_fields_that_are_read() -> None:
    """A release of Amaranth that changes its netlists fails here first."""
    component = Counter()
    netlist = netlist_of(component)
    flip_flop, operator = (
        next(c for c in netlist.cells if isinstance(c, kind)) for kind in (nir.FlipFlop, nir.Operator)
    )
    assert (flip_flop.init, len(flip_flop.data)) == (5, 3), amaranth.__version__
    assert (operator.operator, len(operator.inputs)) == ("+", 2)
    nets = netlist.signals[component.count]
    assert [(netlist.cells[net.cell] is flip_flop, net.bit, net.is_const) for net in nets] == [
        (True, k, False) for k in range(3)
    ]
    start, width = netlist.cells[0].ports_i["step"]
    assert width == 3
    assert {net.bit for net in netlist.signals[component.step]} == {*range(start, start + 3)}
    assert netlist.modules[flip_flop.module_idx].name == ("top",)


def test_no_other_module_imports_private_modules_of_amaranth() -> None:
    found = set()
    root = Path(hdl.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            whole = [f"{module}.{name}" for name in names]
            if any(name.lstrip(".").startswith("amaranth.") and "._" in name for name in whole):
                found.add(path.relative_to(root).as_posix())
    assert found == {"netlist.py"}
