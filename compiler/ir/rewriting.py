"""What the passes share: walking, renaming, comparing and measuring statements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from retrograd.compiler.ir.effects import facts, walk
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
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
from retrograd.isa.entries import NOT_JUMPING, Function, Opcode
from retrograd.isa.expr import evaluate, inputs
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format


def map_bodies(module: Module, rewrite: Callable[[Block], Block]) -> Module:
    """The module with every body, that of `entry` and those of the procedures, rewritten."""
    procedures = {name: replace(p, body=rewrite(p.body)) for name, p in module.procedures.items()}
    return replace(module, entry=rewrite(module.entry), procedures=procedures)


def bodies(module: Module) -> Iterable[Block]:
    """Every body there is."""
    return (module.entry, *(p.body for p in module.procedures.values()))


def own_regions(module: Module) -> frozenset[Region]:
    """The arrays of the program's own, which are zero outside of their lives. None where the arguments are not told."""
    given = module.arguments
    if given is None:
        return frozenset()
    return frozenset(r for r in module.regions if r.address is not None and r.data is None and r not in given)


def map_blocks(block: Block, rewrite: Callable[[Block], Block]) -> Block:
    """Every block rewritten, inner ones first. Statements whose blocks stay as they are stay the same objects."""
    nodes: list[Node] = []
    for node in block:
        # Most statements are instructions, and have no blocks.
        if node.__class__ is Op or not (inside := children(node)):
            nodes.append(node)
            continue
        new = tuple([map_blocks(b, rewrite) for b in inside])
        same = all(x is y for x, y in zip(inside, new, strict=True))
        nodes.append(node if same else with_children(node, new))
    unchanged = len(nodes) == len(block) and all(x is y for x, y in zip(nodes, block, strict=True))
    return rewrite(block if unchanged else tuple(nodes))


def splice(block: Iterable[Node]) -> Block:
    """Withins that compute nothing give way to their bodies."""
    out: list[Node] = []
    for node in block:
        if isinstance(node, Within) and not node.compute:
            out.extend(node.body)
        else:
            out.append(node)
    return tuple(out)


# --- renaming


class Renaming:
    """Operands in place of variables, regions in place of regions; `fresh` also renames what lives only inside.

    Trap to avoid: a constant may take the place of a variable only where that is not written.
    """

    def __init__(
        self,
        operands: Mapping[Var, Operand],
        regions: Mapping[Region, Region] | None = None,
        fresh: bool = False,
    ) -> None:
        self.operands: dict[Var, Operand] = dict(operands)
        self.regions: Mapping[Region, Region] = regions or {}
        self.fresh = fresh

    def block(self, block: Block) -> Block:
        if self.fresh:
            self._refresh(block)
        return tuple([self._node(node) for node in block])

    def _refresh(self, block: Block) -> None:
        for node in walk(block):
            if isinstance(node, Local | For) and node.var not in self.operands:
                self.operands[node.var] = Var(node.var.name, node.var.kind, node.var.span)

    def _operand(self, x: Operand) -> Operand:
        return self.operands.get(x, x) if isinstance(x, Var) else x

    def _variable(self, x: Var) -> Var:
        new = self.operands.get(x, x)
        if not isinstance(new, Var):
            raise TypeError(f"{x} lives or dies here, and cannot be the constant {new.word}")
        return new

    def _test(self, test: Test) -> Test:
        return Test(test.cc, self._operand(test.a), self._operand(test.b))

    def _node(self, node: Node) -> Node:
        match node:
            case Op(opcode, d, a, b, imm, span, region):
                new = self.operands
                d = new.get(d, d) if isinstance(d, Var) else d
                a = new.get(a, a) if isinstance(a, Var) else a
                b = new.get(b, b) if isinstance(b, Var) else b
                return Op(opcode, d, a, b, imm, span, region if region is None else self.regions.get(region, region))
            case Local(var, checked, span):
                return Local(self._variable(var), checked, span)
            case Delocal(var, checked, span):
                return Delocal(self._variable(var), checked, span)
            case Within(compute, body, name, span):
                return Within(self._blocks(compute), self._blocks(body), name, span)
            case If(test, then, orelse, post, span):
                return If(self._test(test), self._blocks(then), self._blocks(orelse), self._test(post), span)
            case While(test, body, post, span):
                return While(self._test(test), self._blocks(body), self._test(post), span)
            case For():
                return node._replace(
                    var=self._variable(node.var),
                    start=self._operand(node.start),
                    stop=self._operand(node.stop),
                    body=self._blocks(node.body),
                )
            case Call():
                return node._replace(
                    args=tuple(self._operand(arg) for arg in node.args),
                    regions=tuple(self.regions.get(r, r) for r in node.regions),
                )
            case Check():
                return node._replace(test=self._test(node.test))
            case External():
                return node._replace(args=tuple(self._operand(arg) for arg in node.args))

    def _blocks(self, block: Block) -> Block:
        return tuple([self._node(node) for node in block])


# --- comparing


class Numbering:
    """Statements as keys that are equal exactly where the statements are, up to names of their locals and to spans.

    `known` are variables with a key of their own, for locals that were numbered before.
    """

    def __init__(self, known: Mapping[Var, Hashable] | None = None) -> None:
        self.known: dict[Var, Hashable] = dict(known or {})
        self._count = 0

    def restart(self) -> None:
        """Number the locals from zero again; those numbered so far keep their keys."""
        self._count = 0

    def operand(self, x: Operand | None) -> Hashable:
        # A variable that is not local is its own key: two are the same only if they are one object.
        return self.known.get(x, x) if isinstance(x, Var) else x

    def _test(self, test: Test) -> Hashable:
        return test.cc, self.operand(test.a), self.operand(test.b)

    def _local(self, var: Var) -> Hashable:
        self.known[var] = number = ("local", self._count, var.kind)
        self._count += 1
        return number

    def block(self, block: Block) -> Hashable:
        return tuple([self.node(node) for node in block])

    def node(self, node: Node) -> Hashable:
        match node:
            case Op(opcode, d, a, b, imm, _, region):
                # Variables are keys as they are where nothing is local.
                get = self.known.get
                return (
                    opcode.code,
                    get(d, d) if d.__class__ is Var else d,
                    get(a, a) if a.__class__ is Var else a,
                    get(b, b) if b.__class__ is Var else b,
                    imm,
                    region,
                )
            case Local(var, checked):
                return "local", self._local(var), checked
            case Delocal(var, checked):
                return "delocal", self.operand(var), checked
            case Within(compute, body, name):
                return "within", self.block(compute), self.block(body), name
            case If(test, then, orelse, post):
                return "if", self._test(test), self.block(then), self.block(orelse), self._test(post)
            case While(test, body, post):
                return "while", self._test(test), self.block(body), self._test(post)
            case For(var, start, stop, step, body, backward):
                bounds = self.operand(start), self.operand(stop), step, backward
                return "for", bounds, self._local(var), self.block(body)
            case Call(procedure, args, regions, backward):
                return "call", procedure, tuple(self.operand(x) for x in args), regions, backward
            case Check(test, code, message):
                return "check", self._test(test), code, message
            case External(number, _, args):
                return "external", number, tuple(self.operand(x) for x in args)


# --- measuring


def size(block: Block) -> int:
    """About how many instructions the block becomes. What a Within computes is laid out twice."""
    total = 0
    for node in block:
        match node:
            case Op() | Check():
                total += 1
            case Local(_, checked) | Delocal(_, checked):
                total += checked
            case Within(compute, body):
                total += 2 * size(compute) + size(body)
            case If(_, then, orelse):
                total += 4 + size(then) + size(orelse)
            case While(_, body):
                total += 2 + size(body)
            case For(_, _, _, _, body):
                total += 6 + size(body)
            case Call():
                total += 1
            case External():
                pass
    return total


def passes(loop: For, w: Format) -> range | None:
    """The values of the variable in the order of the loop, where they are known."""
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        values = range(w.signed(loop.start.word), w.signed(loop.stop.word), loop.step)
        return values[::-1] if loop.backward else values
    if loop.start is loop.stop:
        return range(0)
    return None


# --- constants


@lru_cache(maxsize=1 << 14)
def function_value(opcode: Opcode, a: int | None, b: int | None, imm: int, w: Format) -> int | None:
    """f(a, b, imm) of an update of a register where its operands are known and no guard on them fails, else None.

    Guards on the target itself, that the checked sum fits, are left to whatever instruction makes the sum.
    """
    entry = opcode.entry
    if not isinstance(entry, Function) or entry.target != "d":
        return None
    env = {"imm": imm & w.mask}
    env |= {} if a is None else {"a": a}
    env |= {} if b is None else {"b": b}
    value = entry.value(w)
    if not inputs(value) <= env.keys():
        return None
    for guard in opcode.guards(w):
        needs = inputs(guard.predicate)
        if guard.predicate is NOT_JUMPING.predicate or "d" in needs:
            continue
        if not needs <= env.keys() or not evaluate(guard.predicate, w, env):
            return None
    return evaluate(value, w, env)


def constant_value(op: Op, w: Format) -> int | None:
    """f of an update whose operands are all constants, where it has a value, else None."""
    if isinstance(op.a, Var) or isinstance(op.b, Var) or not facts(op.opcode).updates or facts(op.opcode).memory:
        return None
    return function_value(
        op.opcode, op.a.word if op.a is not None else None, op.b.word if op.b is not None else None, op.imm, w
    )


def with_update(opcode: Opcode, update: str) -> Opcode | None:
    """The same function with another update, if there is one."""
    return TABLE.by_name.get(f"{opcode.entry.name}.{update}")


def move_for(opcode: Opcode) -> Opcode:
    """The opcode that updates by a word as this one updates by its value: checked where this one is."""
    entry = opcode.entry
    if opcode.update in ("mul", "div"):
        return TABLE[f"lmov.{opcode.update}"]
    checked = isinstance(entry, Function) and entry.checked
    return TABLE[f"fmov.{opcode.update}" if checked else f"mov.{opcode.update}"]
