"""Traversal of statements: walking, mapping over blocks, mapping over operands.

Passes use these functions in place of a `match` of their own wherever all kinds of statement are treated alike. A
mapping returns the very object that it was given where nothing has changed, because analyses know statements by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.statements import Block, Call, Module, Procedure


def walk(block: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Every statement at any depth, outer statements first."""
    stack = list(block)[::-1]
    while stack:
        node = stack.pop()
        yield node
        for inside in ir.children(node):
            stack.extend(reversed(inside))


def bodies(module: ir.Module) -> tuple[ir.Block, ...]:
    """The body of the entry, and that of each procedure."""
    return (module.entry, *(p.body for p in module.procedures.values()))


def map_bodies(module: ir.Module, rewrite: Callable[[ir.Block], ir.Block]) -> ir.Module:
    """The module with the entry and the body of each procedure rewritten."""
    procedures = {name: replace(p, body=rewrite(p.body)) for name, p in module.procedures.items()}
    return replace(module, entry=rewrite(module.entry), procedures=procedures)


def rebuilt(block: ir.Block, nodes: list[ir.Node]) -> ir.Block:
    """The nodes as a block: `block` itself where they are its own statements."""
    same = len(nodes) == len(block) and all(x is y for x, y in zip(nodes, block, strict=True))
    return block if same else tuple(nodes)


def map_children(node: ir.Node, rewrite: Callable[[ir.Block], ir.Block]) -> ir.Node:
    """The statement with each block inside it rewritten; the same object where none changes."""
    if node.__class__ is ir.Op or not (inside := ir.children(node)):
        return node
    new = [rewrite(b) for b in inside]
    return node if all(x is y for x, y in zip(inside, new, strict=True)) else ir.with_children(node, new)


def map_blocks(block: ir.Block, rewrite: Callable[[ir.Block], ir.Block]) -> ir.Block:
    """Every block at any depth rewritten, inner blocks first."""

    def inner(b: ir.Block) -> ir.Block:
        return map_blocks(b, rewrite)

    # Most statements are instructions, which need no call.
    return rewrite(rebuilt(block, [n if n.__class__ is ir.Op else map_children(n, inner) for n in block]))


def splice(block: Iterable[ir.Node]) -> ir.Block:
    """The block with each `Within` that computes nothing replaced by its body."""
    out: list[ir.Node] = []
    for node in block:
        if isinstance(node, ir.Within) and not node.compute:
            out.extend(node.body)
        else:
            out.append(node)
    return tuple(out)


def without_conditions(module: ir.Module) -> ir.Module:
    """The module without the conditions on its derivatives, and without the blocks that compute their operands."""
    return map_bodies(module, _unconditional)


def with_conditions(module: ir.Module, active: Container[ir.Operand]) -> ir.Module:
    """The module with its conditions on the derivatives of these variables as tests."""

    def tested(block: ir.Block) -> ir.Block:
        nodes = [n._replace(of=()) if isinstance(n, ir.Check) and any(x in active for x in n.of) else n for n in block]
        return rebuilt(block, nodes)

    return map_bodies(module, lambda body: map_blocks(body, tested))


def _unconditional(block: ir.Block) -> ir.Block:
    out: list[ir.Node] = []
    for node in block:
        new = map_children(node, _unconditional)
        emptied = isinstance(node, ir.Within) and isinstance(new, ir.Within) and bool(node.body) and not new.body
        if not emptied and not (isinstance(new, ir.Check) and new.of):
            out.append(new)
    return rebuilt(block, out)


def operands_of(node: ir.Node) -> tuple[ir.Operand | None, ...]:
    """The variables and constants that a statement names itself, outside the blocks in it."""
    match node:
        case ir.Op(_, d, a, b):
            return d, a, b
        case ir.Local(var) | ir.Delocal(var):
            return (var,)
        case ir.If(test, _, _, post) | ir.While(test, _, post):
            return test.a, test.b, post.a, post.b
        case ir.For(var, start, stop):
            return var, start, stop
        case ir.Check(test, of=of):
            return test.a, test.b, *of
        case ir.Call(args=args) | ir.External(args=args):
            return args
        case ir.Within():
            return ()


def map_operands(
    node: ir.Node,
    operand: Callable[[ir.Operand], ir.Operand],
    regions: Mapping[ir.Region, ir.Region | None] | None = None,
) -> ir.Node:
    """The statement with others for the operands and regions that it names itself; the blocks in it stay as they are.

    Raises TypeError where a constant would take the place of a variable that lives or dies there.
    """
    match node:
        case ir.Op(opcode, d, a, b, imm, span, region):
            d, a, b = (None if x is None else operand(x) for x in (d, a, b))
            named = region if region is None or not regions else regions.get(region, region)
            return ir.Op(opcode, d, a, b, imm, span, named)
        case ir.Local(var, checked, span):
            return ir.Local(_variable(operand, var), checked, span)
        case ir.Delocal(var, checked, span):
            return ir.Delocal(_variable(operand, var), checked, span)
        case ir.Within():
            return node
        case ir.If(test, _, _, post) | ir.While(test, _, post):
            return node._replace(test=_test(operand, test), post=_test(operand, post))
        case ir.For(var, start, stop):
            return node._replace(var=_variable(operand, var), start=operand(start), stop=operand(stop))
        case ir.Call(args=args):
            given = tuple(r if r is None or not regions else regions.get(r, r) for r in node.regions)
            return node._replace(args=tuple(map(operand, args)), regions=given)
        case ir.Check(test, of=of):
            return node._replace(test=_test(operand, test), of=tuple(map(operand, of)))
        case ir.External(args=args):
            return node._replace(args=tuple(map(operand, args)))


def _test(operand: Callable[[ir.Operand], ir.Operand], test: ir.Test) -> ir.Test:
    return ir.Test(test.cc, operand(test.a), operand(test.b))


def _variable(operand: Callable[[ir.Operand], ir.Operand], var: ir.Var) -> ir.Var:
    new = operand(var)
    if not isinstance(new, ir.Var):
        raise TypeError(f"{var} lives or dies here, and cannot be the constant {new.word}")
    return new


# -----------------------------------------------------------------------------
# The call graph: which procedures call which, and its strongly connected components.


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
    """The procedures that a procedure calls, its adjoint, and the one that is run beside its adjoint."""
    own = [] if procedure.adjoint is None else [procedure.adjoint.name, procedure.adjoint.made_by]
    return [*(call.procedure for call in calls(procedure.body)), *(name for name in own if name is not None)]


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
