"""Who calls whom: the procedures that a program needs, and which of them are recursive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from retrograd.compiler.backend.linear_code import Step
from retrograd.compiler.ir.statements import Call, Procedure


class Component(NamedTuple):
    """Procedures that call each other in a component, or one alone."""

    names: tuple[str, ...]
    recursive: bool


def callees(steps: Iterable[Step]) -> dict[str, None]:
    """The procedures that the steps call, in order of first appearance."""
    return {step.item.procedure: None for step in steps if isinstance(step.item, Call)}


def reachable(
    entry: Sequence[Step], procedures: Mapping[str, Procedure], linearize: Callable[[Procedure], list[Step]]
) -> dict[str, list[Step]]:
    """procedure -> its steps, for those that the entry reaches."""
    bodies: dict[str, list[Step]] = {}
    work = list(callees(entry))
    while work:
        name = work.pop()
        if name not in bodies:
            if name not in procedures:
                raise AssertionError(f"a call of {name}, which the module does not define")
            bodies[name] = linearize(procedures[name])
            work += callees(bodies[name])
    return bodies


def callees_first(bodies: Mapping[str, Sequence[Step]]) -> list[Component]:
    """The strongly connected components of the call graph, each after all that it calls.

    (R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1, 1972; without recursion.)
    """
    called = {name: list(callees(steps)) for name, steps in bodies.items()}
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    open_names: set[str] = set()
    components: list[Component] = []
    for root in bodies:
        if root in number:
            continue
        work = [(root, iter(called[root]))]
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
                    work.append((other, iter(called[other])))
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
                    components.append(Component(tuple(component), len(component) > 1 or name in called[name]))
    return components
