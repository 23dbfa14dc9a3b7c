"""Inline expansion: a call of a small procedure, or the only call of a procedure, is replaced by the procedure's body.

    f(x, y)   →  body of f with x, y for its parameters and fresh locals
    ~f(x, y)  →  the inverse of that body

Conditions: the procedure is not recursive, has no adjoint of the user's, and no constant would stand for a parameter that the body changes and
restores. Correct because a call passes variables themselves, never copies. Procedures that are no longer called are removed.
Traps: unchanged, except that less of the stack is used. Statements keep the place of the call: a trap in the library names both.
Cost: code grows by the body at each call. Code for a compute block is emitted twice, so a call in it counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import code_size, facts, operand
from retrograd.compiler.ir.traversal import (
    bodies,
    call_graph,
    callees_first,
    drop_uncalled,
    map_bodies,
    map_children,
    map_operands,
    rebuilt,
    walk,
)
from retrograd.compiler.ir.value_numbering import Renaming
from retrograd.isa.diagnostics import CalledSpan, Span


def inline_calls(module: ir.Module, *, most: int = 40, largest: int = 4000, largest_twice: int = 1000) -> ir.Module:
    """Inline procedures of at most `most` instructions, and those called once of at most `largest`, callees first.

    `largest_twice`: the same where the one call is in a compute block.
    """
    sites, laid_out = _count_sites(module, 1), _count_sites(module, 2)
    done: dict[str, ir.Procedure] = {}
    sizes: dict[str, int] = {}

    def fits(call: ir.Call, recursive: bool) -> bool:
        # A procedure that is not done yet calls this one, round a cycle.
        callee = done.get(call.procedure)
        if callee is None or callee.recursive or callee.adjoint is not None:
            return False
        # In a recursive caller every local costs stack each time round, so there only small bodies come in.
        if recursive or sites[callee.name] != 1:
            return sizes[callee.name] <= most
        return sizes[callee.name] <= (largest if laid_out[callee.name] == 1 else largest_twice)

    def expand(block: ir.Block, recursive: bool) -> ir.Block:
        def expand_inner(inner: ir.Block) -> ir.Block:
            return expand(inner, recursive)

        out: list[ir.Node] = []
        for node in block:
            body = _expansion(node, done) if isinstance(node, ir.Call) and fits(node, recursive) else None
            if body is not None:
                out.extend(body)
            else:
                out.append(map_children(node, expand_inner))
        return rebuilt(block, out)

    order = [name for component in callees_first(call_graph(module)) for name in reversed(component.names)]
    for name in order:
        procedure = module.procedures[name]
        body = expand(procedure.body, procedure.recursive)
        done[name] = replace(procedure, body=body)
        sizes[name] = code_size(body)
    entry = expand(module.entry, False)
    return drop_uncalled(replace(module, entry=entry, procedures={n: done[n] for n in module.procedures}))


def _count_sites(module: ir.Module, computed: int) -> dict[str, int]:
    """How many calls of each procedure there are; a call in a compute block counts `computed` times."""
    sites = dict.fromkeys(module.procedures, 0)

    def count(block: ir.Block, times: int) -> None:
        for node in block:
            match node:
                case ir.Call(procedure):
                    sites[procedure] += times
                case ir.Within(compute, body):
                    count(compute, computed)
                    count(body, times)
                case ir.If() | ir.While() | ir.For():
                    for inside in ir.children(node):
                        count(inside, times)
                case ir.Op() | ir.Local() | ir.Delocal() | ir.Check() | ir.External():
                    pass

    for block in bodies(module):
        count(block, 1)
    return sites


def _expansion(call: ir.Call, procedures: Mapping[str, ir.Procedure]) -> ir.Block | None:
    callee = procedures[call.procedure]
    arguments = dict(zip(callee.params, call.args, strict=True))
    constants = {param for param, arg in arguments.items() if isinstance(arg, ir.Const)}
    if not constants.isdisjoint(_never_constant(callee, procedures)):
        return None
    regions = dict(zip(callee.regions, call.regions, strict=True))
    body = Renaming(arguments, regions, fresh=True).block(callee.body)
    if call.span is not None:
        body = _called_at(body, call.span)
    return ir.invert(body) if call.backward else body


def _called_at(block: ir.Block, call: Span) -> ir.Block:
    """The statements with the place of the call beside their own."""

    def marked(node: ir.Node) -> ir.Node:
        node = map_children(node, lambda inner: _called_at(inner, call))
        return node if node.span is None else node._replace(span=CalledSpan.at(node.span, call))

    return tuple(map(marked, block))


def _never_constant(procedure: ir.Procedure, procedures: Mapping[str, ir.Procedure]) -> set[ir.Operand | None]:
    """Variables in places of the body where no constant can stand."""
    out: set[ir.Operand | None] = set()
    for node in walk(procedure.body):
        if isinstance(node, ir.Op):
            out.add(node.d)
            out.update(operand(node, place) for place in facts(node.opcode).written)
        elif isinstance(node, ir.Call):
            out.update(node.args[i] for i in procedures[node.procedure].written)
    return out


# -----------------------------------------------------------------------------
# Alpha-renaming: every local variable gets one `Local`, or one `For`, in the whole program.
#
#     Local t … Delocal t; Local t … Delocal t  →  Local t … Delocal t; Local t′ … Delocal t′
#
# A routine that is replayed appears more than once with the same variables. Later passes look up where a variable is
# written, and need one answer. Correct because a name means nothing beyond the life of the variable.
# Traps and cost: unchanged.


def rename_locals(module: ir.Module) -> ir.Module:
    """The module with each local variable born in one place."""
    seen: set[ir.Var] = set()

    def rewrite(block: ir.Block) -> ir.Block:
        born = [node.var for node in walk(block) if isinstance(node, ir.Local | ir.For)]
        if len(set(born)) < len(born) or not seen.isdisjoint(born):
            return _renamed(block, {}, seen)
        seen.update(born)
        return block

    return map_bodies(module, rewrite)


def _renamed(block: ir.Block, names: dict[ir.Var, ir.Var], seen: set[ir.Var]) -> ir.Block:
    """The block renamed by `names`, to which the variables born at its top are added."""

    def operand(x: ir.Operand) -> ir.Operand:
        return names.get(x, x) if isinstance(x, ir.Var) else x

    out: list[ir.Node] = []
    for node in block:
        if isinstance(node, ir.Local | ir.For):
            var = node.var
            names[var] = ir.Var(var.name, var.kind, var.span) if var in seen else var
            seen.add(var)
        new, scope = map_operands(node, operand), dict(names)
        # Locals of a compute block live on in the body of its Within.
        inside = [_renamed(b, scope if isinstance(node, ir.Within) else dict(names), seen) for b in ir.children(node)]
        out.append(ir.with_children(new, inside))
    return tuple(out)
