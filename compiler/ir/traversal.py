"""Traversal of statements: walking, mapping over blocks, mapping over operands.

Passes use these functions in place of a `match` of their own wherever all kinds of statement are treated alike. A
mapping returns the very object that it was given where nothing has changed, because analyses know statements by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Delocal,
    External,
    For,
    If,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Region,
    Test,
    Var,
    While,
    Within,
    children,
    with_children,
)


def walk(block: Iterable[Node]) -> Iterator[Node]:
    """Every statement at any depth, outer statements first."""
    stack = list(block)[::-1]
    while stack:
        node = stack.pop()
        yield node
        for inside in children(node):
            stack.extend(reversed(inside))


def bodies(module: Module) -> tuple[Block, ...]:
    """The body of the entry, and that of each procedure."""
    return (module.entry, *(p.body for p in module.procedures.values()))


def map_bodies(module: Module, rewrite: Callable[[Block], Block]) -> Module:
    """The module with the entry and the body of each procedure rewritten."""
    procedures = {name: replace(p, body=rewrite(p.body)) for name, p in module.procedures.items()}
    return replace(module, entry=rewrite(module.entry), procedures=procedures)


def rebuilt(block: Block, nodes: list[Node]) -> Block:
    """The nodes as a block: `block` itself where they are its own statements."""
    same = len(nodes) == len(block) and all(x is y for x, y in zip(nodes, block, strict=True))
    return block if same else tuple(nodes)


def map_children(node: Node, rewrite: Callable[[Block], Block]) -> Node:
    """The statement with each block inside it rewritten; the same object where none changes."""
    # Most statements are instructions, which hold no blocks.
    if node.__class__ is Op or not (inside := children(node)):
        return node
    new = [rewrite(b) for b in inside]
    return node if all(x is y for x, y in zip(inside, new, strict=True)) else with_children(node, new)


def map_blocks(block: Block, rewrite: Callable[[Block], Block]) -> Block:
    """Every block at any depth rewritten, inner blocks first."""
    return rewrite(rebuilt(block, [map_children(node, lambda b: map_blocks(b, rewrite)) for node in block]))


def splice(block: Iterable[Node]) -> Block:
    """The block with each `Within` that computes nothing replaced by its body."""
    out: list[Node] = []
    for node in block:
        if isinstance(node, Within) and not node.compute:
            out.extend(node.body)
        else:
            out.append(node)
    return tuple(out)


def operands_of(node: Node) -> tuple[Operand | None, ...]:
    """The variables and constants that a statement names itself, outside the blocks in it."""
    match node:
        case Op(_, d, a, b):
            return d, a, b
        case Local(var) | Delocal(var):
            return (var,)
        case If(test, _, _, post) | While(test, _, post):
            return test.a, test.b, post.a, post.b
        case For(var, start, stop):
            return var, start, stop
        case Check(test):
            return test.a, test.b
        case Call(args=args) | External(args=args):
            return args
        case Within():
            return ()


def map_operands(
    node: Node, operand: Callable[[Operand], Operand], regions: Mapping[Region, Region] | None = None
) -> Node:
    """The statement with others for the operands and regions that it names itself; the blocks in it stay as they are.

    Raises TypeError where a constant would take the place of a variable that lives or dies there.
    """
    match node:
        case Op(opcode, d, a, b, imm, span, region):
            d, a, b = (None if x is None else operand(x) for x in (d, a, b))
            named = region if region is None or not regions else regions.get(region, region)
            return Op(opcode, d, a, b, imm, span, named)
        case Local(var, checked, span):
            return Local(_variable(operand, var), checked, span)
        case Delocal(var, checked, span):
            return Delocal(_variable(operand, var), checked, span)
        case Within():
            return node
        case If(test, _, _, post) | While(test, _, post):
            return node._replace(test=_test(operand, test), post=_test(operand, post))
        case For(var, start, stop):
            return node._replace(var=_variable(operand, var), start=operand(start), stop=operand(stop))
        case Call(args=args):
            given = tuple((regions or {}).get(r, r) for r in node.regions)
            return node._replace(args=tuple(map(operand, args)), regions=given)
        case Check(test):
            return node._replace(test=_test(operand, test))
        case External(args=args):
            return node._replace(args=tuple(map(operand, args)))


def _test(operand: Callable[[Operand], Operand], test: Test) -> Test:
    return Test(test.cc, operand(test.a), operand(test.b))


def _variable(operand: Callable[[Operand], Operand], var: Var) -> Var:
    new = operand(var)
    if not isinstance(new, Var):
        raise TypeError(f"{var} lives or dies here, and cannot be the constant {new.word}")
    return new
