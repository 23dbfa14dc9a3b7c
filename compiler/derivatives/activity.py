"""Activity analysis: the variables and regions that derivatives pass through.

    active = {x : an input influences x, and x an output}, differentiably

Shadows of all others are zero or never read, and are left out.
Correct because the set may be larger than needed, never smaller: the order of statements is ignored, and a variable is active
everywhere or nowhere.
Source: L. Hascoët, U. Naumann, V. Pascual, "To be recorded" analysis in reverse-mode automatic differentiation, Future
Generation Computer Systems 21 (2005), §2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from retrograd.compiler.derivatives.shadows import LinearUpdate, cotangents
from retrograd.compiler.ir.opcode_facts import operand
from retrograd.compiler.ir.statements import SP, Call, For, Module, Op, Region, Var
from retrograd.compiler.ir.traversal import bodies, walk
from retrograd.isa.entries import Opcode
from retrograd.isa.words import Format

#: a variable, a region, or None: memory accessed without a region, which may be any
Storage = Var | Region | None

_Flows = dict[Storage, set[Storage]]


def active_storage(module: Module, inputs: Iterable[Storage], outputs: Iterable[Storage]) -> frozenset[Storage]:
    """The variables and regions between these inputs and outputs. None among them stands for all memory.

    The variable of a loop is not active, because only the loop sets it.
    """
    back = _dependences(module)
    forth: _Flows = {}
    for target, sources in back.items():
        for source in sources:
            forth.setdefault(source, set()).add(target)
    given: set[Storage] = {SP}
    given.update(node.var for body in bodies(module) for node in walk(body) if isinstance(node, For))
    return frozenset((_reached(back, set(outputs)) & _reached(forth, set(inputs))) - given)


def useful_variables(module: Module, outputs: Iterable[Storage]) -> frozenset[Var]:
    """The variables that influence these outputs, so that their cotangents need not be zero."""
    return frozenset(x for x in _reached(_dependences(module), set(outputs)) if isinstance(x, Var))


def _dependences(module: Module) -> _Flows:
    """variable or region -> the variables and regions that it depends on"""
    back: _Flows = {}
    for p in module.procedures.values():
        if p.adjoint is not None:
            # Each cotangent of the user's adjoint may depend on each other one.
            own: list[Storage] = [p.region_of(p.params[i]) or p.params[i] for i in p.adjoint.of]
            for x, y in zip(own, [*own[1:], *own[:1]], strict=True):
                back.setdefault(y, set()).add(x)
    for body in bodies(module):
        for node in walk(body):
            if isinstance(node, Op):
                for source, target in _flows(node, module.format):
                    back.setdefault(target, set()).add(source)
            elif isinstance(node, Call):
                _join_arguments(back, node, module)
    if None in back or any(None in sources for sources in back.values()):
        for region in {r for r in _storage(back) if isinstance(r, Region)}:
            back.setdefault(region, set()).add(None)
            back.setdefault(None, set()).add(region)
    return back


def _flows(op: Op, w: Format) -> list[tuple[Storage, Storage]]:
    """(x, y) where the op's y' depends on x."""
    out: list[tuple[Storage, Storage]] = []
    for source, target in _pairs(op.opcode, w):
        storage = [op.region if p == "m" else operand(op, p) for p in (source, target)]
        if all(p == "m" or isinstance(c, Var) for p, c in zip((source, target), storage, strict=True)):
            out.append((storage[0], storage[1]))  # type: ignore[arg-type]
    return out


def _pairs(opcode: Opcode, w: Format) -> list[tuple[str, str]]:
    # The cotangent of x gains from that of y where y' depends on x.
    out: list[tuple[str, str]] = []
    for step in cotangents(opcode, w).steps:
        if isinstance(step, LinearUpdate):
            out += [(step.place, source) for source in step.sources]
        else:
            written = [p for p in step.opcode.writes if p != "br"]
            out += [(x, y) for x in written for y in written if x != y]
    return out


def _join_arguments(back: _Flows, call: Call, module: Module) -> None:
    callee = module.procedures[call.procedure]
    pairs: list[tuple[Storage, Storage]] = []
    for arg, param in zip(call.args, callee.params, strict=True):
        if isinstance(arg, Var):
            pairs.append((arg, param))
    pairs += zip(call.regions, callee.regions, strict=True)
    for x, y in pairs:
        back.setdefault(x, set()).add(y)
        back.setdefault(y, set()).add(x)


def _storage(back: _Flows) -> set[Storage]:
    return set(back).union(*back.values())


def _reached(flows: _Flows, start: Collection[Storage]) -> set[Storage]:
    reached: set[Storage] = set(start)
    todo = list(reached)
    while todo:
        for place in flows.get(todo.pop(), ()):
            if place not in reached:
                reached.add(place)
                todo.append(place)
    return reached
