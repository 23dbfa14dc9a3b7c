"""Alpha-equivalence: renaming of variables, and keys that are equal for statements that differ only in names of locals.

Renaming({t: s}).block((t += x,))  =  (s += x,)
StructuralKeys().block((Local t, t += x))  ==  StructuralKeys().block((Local u, u += x))
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import NOTHING, AccessAnalysis, AccessSets, locals_left, union
from retrograd.compiler.ir.instruction_selection import can_trap, facts, operand
from retrograd.compiler.ir.traversal import map_operands, walk
from retrograd.isa.entries import Function


class Renaming:
    """Substitution of operands for variables, and of regions for regions; `fresh` gives each local a new variable, too.

    Trap: a constant may take the place of a variable only where the variable is read.
    """

    def __init__(
        self,
        operands: Mapping[ir.Var, ir.Operand],
        regions: Mapping[ir.Region, ir.Region | None] | None = None,
        fresh: bool = False,
    ) -> None:
        self.operands: dict[ir.Var, ir.Operand] = dict(operands)
        self.regions: Mapping[ir.Region, ir.Region | None] = regions or {}
        self.fresh = fresh

    def block(self, block: ir.Block) -> ir.Block:
        if self.fresh:
            for node in walk(block):
                if isinstance(node, ir.Local | ir.For) and node.var not in self.operands:
                    self.operands[node.var] = ir.Var(node.var.name, node.var.kind, node.var.span)
        return self._block(block)

    def _block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        get, var, op = self.operands.get, ir.Var, ir.Op
        for node in block:
            if isinstance(node, op):
                # `map_operands` for the two most frequent statements, without its calls.
                opcode, d, a, b, imm, span, region = node
                d = get(d, d) if isinstance(d, var) else d
                a = get(a, a) if isinstance(a, var) else a
                b = get(b, b) if isinstance(b, var) else b
                named = region if region is None else self.regions.get(region, region)
                out.append(op(opcode, d, a, b, imm, span, named))
            elif isinstance(node, ir.Within):
                out.append(ir.Within(self._block(node.compute), self._block(node.body), node.name, node.span))
            else:
                renamed = map_operands(node, self._operand, self.regions)
                inside = ir.children(node)
                out.append(ir.with_children(renamed, [self._block(b) for b in inside]) if inside else renamed)
        return tuple(out)

    def _operand(self, x: ir.Operand) -> ir.Operand:
        return self.operands.get(x, x) if isinstance(x, ir.Var) else x


class StructuralKeys:
    """Keys of statements, equal exactly where the statements are equal up to the names of their locals and to spans.

    `known`: variables with a key of their own, for locals that were numbered before. A variable that is not local is its
    own key, because two variables are the same only if they are one object.
    """

    def __init__(self, known: Mapping[ir.Var, Hashable] | None = None) -> None:
        self.known: dict[ir.Var, Hashable] = dict(known or {})
        self._count = 0

    def restart(self) -> None:
        """Number the locals from zero again; locals numbered so far keep their keys."""
        self._count = 0

    def operand(self, x: ir.Operand | None) -> Hashable:
        return self.known.get(x, x) if isinstance(x, ir.Var) else x

    def _test(self, test: ir.Test) -> Hashable:
        return test.cc, self.operand(test.a), self.operand(test.b)

    def _local(self, var: ir.Var) -> Hashable:
        self.known[var] = number = ("local", self._count, var.kind)
        self._count += 1
        return number

    def block(self, block: ir.Block) -> Hashable:
        return tuple([self.node(node) for node in block])

    def node(self, node: ir.Node) -> Hashable:
        match node:
            case ir.Op(opcode, d, a, b, imm, _, region):
                get = self.known.get
                return (
                    opcode.code,
                    get(d, d) if d.__class__ is ir.Var else d,
                    get(a, a) if a.__class__ is ir.Var else a,
                    get(b, b) if b.__class__ is ir.Var else b,
                    imm,
                    region,
                )
            case ir.Local(var, checked):
                return "local", self._local(var), checked
            case ir.Delocal(var, checked):
                return "delocal", self.operand(var), checked
            case ir.Within(compute, body, name):
                return "within", self.block(compute), self.block(body), name
            case ir.If(test, then, orelse, post):
                return "if", self._test(test), self.block(then), self.block(orelse), self._test(post)
            case ir.While(test, body, post):
                return "while", self._test(test), self.block(body), self._test(post)
            case ir.For(var, start, stop, step, body, backward):
                bounds = self.operand(start), self.operand(stop), step, backward
                return "for", bounds, self._local(var), self.block(body)
            case ir.Call(procedure, args, regions, backward):
                return "call", procedure, tuple(self.operand(x) for x in args), regions, backward
            case ir.Check(test, code, message, _, of):
                return "check", self._test(test), code, message, tuple(self.operand(x) for x in of)
            case ir.External(number, _, args):
                return "external", number, tuple(self.operand(x) for x in args)


# -----------------------------------------------------------------------------
# Value numbering: a compute block is cut into the parts that compute one value each; equal parts have equal numbers.
#
#     (Local t, ld t x, Local u, fmul u t z)  =  value t: (Local t, ld t x);  value u: (Local u, fmul u t z), after t
#
# Each part sets locals of its own, from other parts and from outside, and changes nothing else. So the parts may stand in any
# order in which each comes after its operands. Statements that change more, and statements that do not commute with them,
# form one part, the tail. Numbers do not depend on the names of locals.
# Correct because equal parts compute equal words while their operands from outside are unchanged.
# Source: J. Cocke and J. T. Schwartz, Programming Languages and Their Compilers, 1970.


@dataclass(eq=False, slots=True)
class NumberedValue:
    """A part of a compute block that computes one value: its locals, its statements in order, its operands."""

    locals: list[ir.Var] = field(default_factory=list)
    nodes: list[tuple[int, ir.Node]] = field(default_factory=list)
    #: the access sets of its statements; their union, as far as it lies outside the compute block
    parts: list[AccessSets] = field(default_factory=list)
    access: AccessSets = NOTHING
    #: the numbers of all values that come before it
    needs: set[int] = field(default_factory=set)
    number: int = -1

    @property
    def statements(self) -> ir.Block:
        return tuple([node for _, node in self.nodes])

    @property
    def weight(self) -> int:
        """How many statements it saves to compute it once less; 0 for bare locals."""
        return len(self.nodes) - len(self.locals)

    @property
    def opaque(self) -> bool:
        """It changes more than its own locals, and so is no value: only its inverse right behind it undoes it."""
        return bool(self.access.writes or self.access.stores)


class ValueNumbering:
    """Compute blocks cut into values, with one numbering for a whole module."""

    def __init__(self, module: ir.Module, accesses: AccessAnalysis) -> None:
        self._module = module
        self._accesses = accesses
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[int, tuple[ir.Block, list[NumberedValue]]] = {}

    def of(self, compute: ir.Block) -> list[NumberedValue]:
        """The values in an order that computes them; one opaque value if it cannot be cut; none if it holds an External."""
        found = self._known.get(id(compute))
        if found is None:
            cut = _Partition(self._accesses)
            if cut.cut(compute):
                self._number(cut)
                values = cut.order
            else:
                values = self._whole(compute)
            found = self._known[id(compute)] = (compute, values)
        return found[1]

    def safe(self, value: NumberedValue) -> bool:
        """Whether no words make the value trap."""
        return is_safe(value.statements, self._module, self._accesses)

    def _number(self, cut: _Partition) -> None:
        numbering = StructuralKeys()
        feeds: dict[NumberedValue, set[ir.Var]] = {}
        for value in cut.order:
            value.access = union(value.parts, cut.values)
            feeds[value] = feed = set(cut.reads[value])
            for var in cut.reads[value]:
                source = cut.values.get(var)
                if source is not None and source is not value:
                    value.needs |= source.needs | {source.number}
                    feed |= feeds[source]
            if value.access.loads:
                # An index is checked before it is used.
                for check in cut.checks:
                    if check.nodes[0][0] < value.nodes[-1][0] and not feed.isdisjoint(cut.reads[check]):
                        value.needs |= check.needs | {check.number}
            numbering.restart()
            # Bare locals are zero, all of them, and stay apart: each is there to be changed.
            value.number = self._intern(numbering.block(value.statements) if value.weight else value)
            numbering.known.update({var: (value.number, i) for i, var in enumerate(value.locals)})

    def _whole(self, compute: ir.Block) -> list[NumberedValue]:
        access = self._accesses.block(compute)
        own = frozenset(locals_left(compute))
        access = access._replace(reads=access.reads - own, writes=access.writes - own)
        if access.barrier:
            return []
        value = NumberedValue(list(locals_left(compute)), list(enumerate(compute)), access=access)
        value.number = self._intern(("whole", StructuralKeys().block(compute)))
        return [value]

    def _intern(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


class _Partition:
    """The partition of one compute block into values."""

    def __init__(self, accesses: AccessAnalysis) -> None:
        self.accesses = accesses
        #: local -> the value that gives it its value
        self.values: dict[ir.Var, NumberedValue] = {}
        self.order: list[NumberedValue] = []
        self.reads: dict[NumberedValue, set[ir.Var]] = {}
        self.checks: list[NumberedValue] = []
        #: values that another value has read, and that must not change any more
        self.closed: set[NumberedValue] = set()
        #: the statements that change more than locals of their own, and statements that do not commute with them
        self.tail: NumberedValue | None = None
        self.tail_access = NOTHING

    def cut(self, compute: ir.Block) -> bool:
        """Fill `order`; False if a value would change after another has read it, if it is not computed before its readers, or at an External."""
        for position, node in enumerate(compute):
            if isinstance(node, ir.Local):
                self.values[node.var] = self.new(position, node, node.var)
                continue
            access = self.accesses.of(node)
            if access.barrier or isinstance(node, ir.Delocal):
                return False
            if self.belongs_to_tail(node, access):
                self.tail_access |= access
                if self.tail is None:
                    self.tail = self.new(position, node)
                else:
                    self.tail.nodes.append((position, node))
                value = self.tail
            elif isinstance(node, ir.Check):
                value = self.new(position, node)
                self.checks.append(value)
            else:
                value = min((self.values[var] for var in access.writes), key=lambda found: found.nodes[0][0])
                if value in self.closed:
                    return False
                value.nodes.append((position, node))
            for var in access.writes:
                other = self.values.get(var, value)
                if other is not value:
                    if other in self.closed:
                        return False
                    self.merge(value, other)
            self.reads[value] |= access.reads
            for var in access.reads:
                source = self.values.get(var, value)
                if source is not value:
                    self.closed.add(source)
            value.parts.append(access)
        self.order.sort(key=lambda value: value.nodes[-1][0])
        return self._is_ordered()

    def _is_ordered(self) -> bool:
        """Whether each value reads values before it only. The tail may go on after another value has read a local of it."""
        before: set[NumberedValue] = set()
        for value in self.order:
            sources = {self.values[var] for var in self.reads[value] if var in self.values}
            if not sources <= before | {value}:
                return False
            before.add(value)
        return True

    def belongs_to_tail(self, node: ir.Node, access: AccessSets) -> bool:
        """Whether it changes more than values, or does not commute with the tail."""
        if access.stores or not access.writes <= self.values.keys():
            return True
        if not access.writes and not isinstance(node, ir.Check):
            return True
        return self.tail is not None and not self.tail_access.commutes(access)

    def new(self, position: int, node: ir.Node, *born: ir.Var) -> NumberedValue:
        value = NumberedValue([*born], [(position, node)])
        self.order.append(value)
        self.reads[value] = set()
        return value

    def merge(self, value: NumberedValue, other: NumberedValue) -> None:
        """A statement writes locals of both: they are one value."""
        value.nodes = sorted([*value.nodes, *other.nodes], key=lambda item: item[0])
        # In the order of the block, so that equal values have their locals in the same order.
        value.locals = [node.var for _, node in value.nodes if isinstance(node, ir.Local)]
        value.parts += other.parts
        self.reads[value] |= self.reads.pop(other)
        self.values.update(dict.fromkeys(other.locals, value))
        self.order.remove(other)


def is_safe(block: Iterable[ir.Node], module: ir.Module, accesses: AccessAnalysis, zero: Iterable[ir.Var] = ()) -> bool:
    """Whether no words make the block trap or run on for ever. `zero`: variables that are zero where it begins."""
    w = module.format
    fresh = set(zero)
    for node in block:
        match node:
            case ir.Op(opcode, d, a, _, imm):
                if can_trap(opcode, w):
                    return False
                f = facts(opcode)
                if f.memory:
                    base = a.word if isinstance(a, ir.Const) else None
                    if base is None or not 0 <= w.signed(base) + imm < module.memory:
                        return False
                entry = opcode.entry
                sums = isinstance(entry, Function) and entry.checked and opcode.update != "xor"
                # Zero plus anything fits.
                if sums and not (d in fresh and opcode.update == "add"):
                    return False
                fresh.difference_update(x for x in (operand(node, p) for p in f.written) if isinstance(x, ir.Var))
            case ir.Local(var, checked):
                if checked:
                    return False
                fresh.add(var)
            case ir.Delocal(var, checked):
                if checked:
                    return False
                fresh.discard(var)
            case ir.Within(compute, body):
                # The sums of compute⁻¹ lead back to the words before compute, and so fit.
                if not is_safe(compute, module, accesses, fresh) or not is_safe(body, module, accesses):
                    return False
                fresh.clear()
            case ir.If(test, then, orelse, post):
                if test != post or not {test.a, test.b}.isdisjoint(accesses.of(node).writes):
                    return False
                if not all(is_safe(branch, module, accesses, fresh) for branch in (then, orelse)):
                    return False
                fresh.clear()
            case ir.For(body=body):
                if not is_safe(body, module, accesses):
                    return False
                fresh.clear()
            case ir.While() | ir.Call() | ir.Check() | ir.External():
                return False
    return True
