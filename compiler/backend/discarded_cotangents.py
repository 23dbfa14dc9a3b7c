"""Discarded cotangents: a program in differentiation mode discards the cotangent of each variable that dies on the way back.

    Local v   →  Local v; assertz v          in code that runs backward while derivatives are carried

On the way back a variable dies where it was made. Without the `assertz` its cotangent would stay in the register, and would be
the initial cotangent of the next variable there. Procedures that run in both directions discard at both ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from retrograd.compiler.backend.linear_code import Step
from retrograd.compiler.ir.statements import Call, Delocal, Local, Op, Var
from retrograd.isa.table import TABLE


def directions(entry: Sequence[Step], bodies: Mapping[str, Sequence[Step]]) -> dict[str, set[int]]:
    """procedure -> the directions in which it runs, +1 and −1, while the entry runs forward."""
    found: dict[str, set[int]] = {name: set() for name in bodies}
    todo: list[tuple[Sequence[Step], int]] = [(entry, 1)]
    while todo:
        steps, direction = todo.pop()
        for step in steps:
            if isinstance(step.item, Call):
                name, way = step.item.procedure, -direction if step.item.backward else direction
                if way not in found[name]:
                    found[name].add(way)
                    todo.append((bodies[name], way))
    return found


def with_discards(steps: Sequence[Step], ways: Collection[int], discarded: Collection[Var]) -> list[Step]:
    """The steps with an `assertz` of these variables where they are made, freed, or both."""
    out: list[Step] = []
    for step in steps:
        item = step.item
        if isinstance(item, Delocal) and -1 in ways and item.var in discarded:
            out.append(step._replace(item=Op(TABLE["assertz"], item.var)))
        out.append(step)
        if isinstance(item, Local) and 1 in ways and item.var in discarded:
            out.append(step._replace(item=Op(TABLE["assertz"], item.var)))
    return out
