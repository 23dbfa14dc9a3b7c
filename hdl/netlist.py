"""The netlist of a component, as Amaranth's back ends print it. The only module that imports Amaranth's private modules.

A release of Amaranth may change them; `tests/hdl/test_netlist.py` then fails.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Fragment, ValueCastable
from amaranth.hdl import _ir as ir
from amaranth.hdl import _nir as nir
from amaranth.lib import wiring

__all__ = ["netlist_of", "nir"]


def netlist_of(component: wiring.Component) -> Any:
    """The netlist with the component's ports."""
    ports = []
    for path, member, value in component.signature.flatten(component):
        direction = ir.PortDirection.Input if member.flow == wiring.In else ir.PortDirection.Output
        found = value.as_value() if isinstance(value, ValueCastable) else value
        ports.append(("__".join(map(str, path)), found, direction))
    return ir.build_netlist(Fragment.get(component, None), ports=ports)
