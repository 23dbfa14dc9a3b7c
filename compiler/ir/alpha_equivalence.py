"""Alpha-equivalence: renaming of variables, and keys that are equal for statements that differ only in names of locals.

Renaming({t: s}).block((t += x,))  =  (s += x,)
StructuralKeys().block((Local t, t += x))  ==  StructuralKeys().block((Local u, u += x))
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.traversal import map_operands, walk


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
