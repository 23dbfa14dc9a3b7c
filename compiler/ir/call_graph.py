"""The call graph: which procedures call which, and its strongly connected components."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from retrograd.compiler.ir.statements import Block, Call, Module, Procedure
from retrograd.compiler.ir.traversal import walk


class Component(NamedTuple):
    """A strongly connected component: procedures that call each other, or one procedure alone."""

    names: tuple[str, ...]
    recursive: bool


def calls(block: Block) -> list[Call]:
    """The calls in a block, at any depth."""
    return [node for node in walk(block) if isinstance(node, Call)]


def call_graph(module: Module) -> dict[str, list[str]]:
    """procedure -> the procedures that it calls."""
    return {name: [call.procedure for call in calls(p.body)] for name, p in module.procedures.items()}


def needed(procedure: Procedure) -> list[str]:
    """The procedures that a procedure calls, and its adjoint."""
    own = [] if procedure.adjoint is None else [procedure.adjoint.name]
    return [*(call.procedure for call in calls(procedure.body)), *own]


def drop_uncalled(module: Module) -> Module:
    """The module without the procedures that cannot be reached from its entry, by calls or as adjoints."""
    reached: set[str] = set()
    todo = [call.procedure for call in calls(module.entry)]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(needed(module.procedures[name]))
    return replace(module, procedures={n: p for n, p in module.procedures.items() if n in reached})


def callees_first(graph: Mapping[str, Collection[str]]) -> list[Component]:
    """The strongly connected components of a call graph, each after the components that it calls.

    (R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1, 1972; without recursion.)
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    open_names: set[str] = set()
    components: list[Component] = []
    for root in graph:
        if root in number:
            continue
        work = [(root, iter(graph[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        open_names.add(root)
        while work:
            name, rest = work[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append(other)
                    open_names.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in open_names:
                    low[name] = min(low[name], number[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == number[name]:
                    component = path[path.index(name) :]
                    del path[len(path) - len(component) :]
                    open_names.difference_update(component)
                    components.append(Component(tuple(component), len(component) > 1 or name in graph[name]))
    return components
