"""Snapshots of a machine: all that a run changes, copied so that the run can begin anew.

restore(machine, snapshot(machine)) changes nothing, on whichever engine the machine has run in between
"""

from __future__ import annotations

from typing import Any, NamedTuple

from retrograd.simulator.machine import Machine
from retrograd.simulator.stores import Store


class Snapshot(NamedTuple):
    pc: int
    br: int
    direction: int
    #: copies of registers, memory, counts and cotangents
    stores: list[Any]
    #: the account of dropped cotangents; None on a machine without cotangents
    dropped: tuple[Any, ...] | None


def snapshot(machine: Machine) -> Snapshot:
    c = machine._cotangents
    dropped = None if c is None else (c.way, c.dropped, dict(c.kept), c._crossed, c._lost)
    return Snapshot(machine._pc, machine._br, machine._direction, [s.copy() for s in _stores(machine)], dropped)


def restore(machine: Machine, before: Snapshot) -> None:
    machine._pc, machine._br, machine._direction = before[:3]
    for store, old in zip(_stores(machine), before.stores, strict=True):
        store[:] = old
    c = machine._cotangents
    if c is not None and before.dropped is not None:
        c.way, c.dropped, c.kept, c._crossed, c._lost = before.dropped


def _stores(machine: Machine) -> list[Any]:
    c = machine._cotangents
    cotangents: list[Store] = [] if c is None else [c.registers, c.memory]
    return [machine._registers, machine._memory, machine.executed[+1], machine.executed[-1], *cotangents]
