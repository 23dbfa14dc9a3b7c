"""inline: a call of a small procedure, or the only call of one, gives way to the procedure's body.

    f(x, y)  →  body of f with x, y in place of its parameters and fresh locals;  ~f(x, y)  →  its inverse

Not inlined: procedures that may be active more than once, and where a constant would stand for a parameter that the
body changes and restores. Procedures that nothing calls any more
are dropped. Traps are unchanged, except that the stack is used less.
Trap to avoid: what a Within computes is laid out twice, so a call in there counts as two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retrograd.compiler.ir.effects import facts, operand, walk
from retrograd.compiler.ir.rewriting import Renaming, size
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Const,
    Module,
    Node,
    Op,
    Operand,
    Procedure,
    Within,
    children,
    invert,
    with_children,
)


def inline_calls(module: Module, *, most: int = 40, largest: int = 4000, largest_twice: int = 1000) -> Module:
    """Inline procedures of at most `most` instructions, and those called once of at most `largest`, callees first.

    `largest_twice`: the same where the one call is in what a Within computes.
    """
    sites, laid_out = _count_sites(module, 1), _count_sites(module, 2)
    done: dict[str, Procedure] = {}
    sizes: dict[str, int] = {}

    def fits(call: Call, recursive: bool) -> bool:
        # A procedure that is not done yet calls this one, round a cycle.
        callee = done.get(call.procedure)
        if callee is None or callee.recursive:
            return False
        # In a recursive caller every local costs stack each time round, so there only small bodies come in.
        if recursive or sites[callee.name] != 1:
            return sizes[callee.name] <= most
        return sizes[callee.name] <= (largest if laid_out[callee.name] == 1 else largest_twice)

    def expand(block: Block, recursive: bool) -> Block:
        out: list[Node] = []
        for node in block:
            body = _expansion(node, done) if isinstance(node, Call) and fits(node, recursive) else None
            if body is not None:
                out.extend(body)
            elif inside := children(node):
                out.append(with_children(node, [expand(b, recursive) for b in inside]))
            else:
                out.append(node)
        return tuple(out)

    for name in callees_first(module):
        procedure = module.procedures[name]
        body = expand(procedure.body, procedure.recursive)
        done[name] = replace(procedure, body=body)
        sizes[name] = size(body)
    entry = expand(module.entry, False)
    return drop_uncalled(replace(module, entry=entry, procedures={n: done[n] for n in module.procedures}))


def calls(block: Block) -> list[Call]:
    """The calls in a block, at any depth."""
    return [node for node in walk(block) if isinstance(node, Call)]


def drop_uncalled(module: Module) -> Module:
    """The module without the procedures that cannot be reached from its entry."""
    reached: set[str] = set()
    todo = [call.procedure for call in calls(module.entry)]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo.extend(call.procedure for call in calls(module.procedures[name].body))
    return replace(module, procedures={n: p for n, p in module.procedures.items() if n in reached})


def callees_first(module: Module) -> list[str]:
    """The procedures, each after those that it calls, cycles aside."""
    order: list[str] = []
    state: dict[str, int] = {}
    for root in module.procedures:
        stack = [(root, False)]
        while stack:
            name, finished = stack.pop()
            if finished:
                order.append(name)
            elif name not in state:
                state[name] = 1
                stack.append((name, True))
                stack.extend((call.procedure, False) for call in calls(module.procedures[name].body))
    return order


def _count_sites(module: Module, computed: int) -> dict[str, int]:
    """How many calls of each procedure there are, one that a Within computes counted so many times."""
    sites = dict.fromkeys(module.procedures, 0)

    def count(block: Block, times: int) -> None:
        for node in block:
            match node:
                case Call(procedure):
                    sites[procedure] += times
                case Within(compute, body):
                    count(compute, computed)
                    count(body, times)
                case _:
                    for inside in children(node):
                        count(inside, times)

    for block in (module.entry, *(p.body for p in module.procedures.values())):
        count(block, 1)
    return sites


def _expansion(call: Call, procedures: Mapping[str, Procedure]) -> Block | None:
    callee = procedures[call.procedure]
    arguments = dict(zip(callee.params, call.args, strict=True))
    constants = {param for param, arg in arguments.items() if isinstance(arg, Const)}
    if not constants.isdisjoint(_never_constant(callee, procedures)):
        return None
    regions = dict(zip(callee.regions, call.regions, strict=True))
    body = Renaming(arguments, regions, fresh=True).block(callee.body)
    return invert(body) if call.backward else body


def _never_constant(procedure: Procedure, procedures: Mapping[str, Procedure]) -> set[Operand | None]:
    """Variables in places of the body where no constant can stand."""
    out: set[Operand | None] = set()
    for node in walk(procedure.body):
        if isinstance(node, Op):
            out.add(node.d)
            out.update(operand(node, place) for place in facts(node.opcode).written)
        elif isinstance(node, Call):
            out.update(node.args[i] for i in procedures[node.procedure].written)
    return out
