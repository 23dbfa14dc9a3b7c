"""Instruction selection: a tree over words becomes the instructions of the table that compute it.

    x ⊕= tree   →   within (operands computed) do (x ⊕= f(a, b))        f(a, b) the tree, by the table's own trees

A tree is covered from its root down by the trees of the functions. Nodes are interned, so a match is one walk. A choice that no
function computes becomes a branch; a quotient with fewer binary places becomes a quotient by twice the divisor.
Traps: of a choice only one side is computed, so a side without a value for the other side's operands cannot trap.
Source: tree pattern matching, A. V. Aho, M. Ganapathi, S. W. K. Tjiang, ACM TOPLAS 11 (1989), here without costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.opcode_facts import OPPOSITE
from retrograd.isa.diagnostics import Span
from retrograd.isa.effects import UPDATE_OPERATORS
from retrograd.isa.entries import Function
from retrograd.isa.expr import ZERO, Expr, div_round, inputs, place
from retrograd.isa.folds import match
from retrograd.isa.table import ENTRIES, TABLE
from retrograd.isa.words import Format


class MemoryWord(NamedTuple):
    """A word of memory: M[a + imm]."""

    a: ir.Operand
    imm: int
    region: ir.Region | None


Location = ir.Operand | MemoryWord


class NoInstruction(Exception):
    """No instruction computes a part of the tree."""


def updates(
    wanted: Sequence[tuple[Location, str, Expr]], places: Mapping[str, Location], w: Format, span: Span | None = None
) -> ir.Block:
    """The statements for `target ⊕= tree`, for each (target, ⊕, tree). No tree may read a target; `places` are the trees' inputs.

    Common subtrees are computed once. A sum that overflows traps, in memory too. Raises NoInstruction.
    """
    scope = _SelectionScope(places, w, span)
    body: list[ir.Node] = []
    for target, operator, tree in wanted:
        if isinstance(target, MemoryWord):
            t = ir.Var("t", ir.Kind.FIXED, span)
            exchange = ir.Op(TABLE["exch"], t, target.a, None, target.imm, span, target.region)
            body += [ir.Local(t, False, span), exchange]
            scope.update(body, t, operator, tree)
            body += [exchange, ir.Delocal(t, False, span)]
        else:
            assert isinstance(target, ir.Var)
            scope.update(body, target, operator, tree)
    return scope.wrap(body)


class _SelectionScope:
    """The operands computed for one block, or for one side of a choice in it."""

    def __init__(
        self, places: Mapping[str, Location], w: Format, span: Span | None, outer: _SelectionScope | None = None
    ) -> None:
        self.places = places
        self.w = w
        self.span = span
        self.outer = outer
        self.compute: list[ir.Node] = []
        self.known: dict[Expr, ir.Operand] = {}

    def wrap(self, body: list[ir.Node]) -> ir.Block:
        return (ir.Within(tuple(self.compute), tuple(body), None, self.span),) if self.compute else tuple(body)

    def update(self, out: list[ir.Node], d: ir.Var, operator: str, tree: Expr) -> None:
        """Append the statements for `d ⊕= tree`."""
        found = _cover(tree, operator, self.w)
        if found is not None:
            f, given = found
            a, b = (self.operand(given[p]) if p in given else None for p in ("a", "b"))
            imm = _constant(given["imm"]) if "imm" in given else 0
            out.append(ir.Op(TABLE[f"{f.name}.{operator}"], d, a, b, imm, self.span))
            return
        additive = operator in ("add", "sub")
        match tree.op, tree.param:
            case "sub", _ if additive and tree.args[0] is ZERO:
                self.update(out, d, OPPOSITE[operator], tree.args[1])
            case (("add" | "sub"), _) if additive:
                self.update(out, d, operator, tree.args[0])
                self.update(out, d, operator if tree.op == "add" else OPPOSITE[operator], tree.args[1])
            case "select", _:
                test = self.test(tree.args[0])
                blocks: list[ir.Block] = []
                for side in tree.args[1:]:
                    inner, body = _SelectionScope(self.places, self.w, self.span, self), list[ir.Node]()
                    if side is not ZERO:
                        inner.update(body, d, operator, side)
                    blocks.append(inner.wrap(body))
                out.append(ir.If(test, blocks[0], blocks[1], test, self.span))
            case (("input" | "const" | "xor"), _):
                moves = {"mul": "lmov", "div": "lmov", "xor": "mov"}
                name = f"{moves.get(operator, 'fmov')}.{operator}"
                out.append(ir.Op(TABLE[name], d, self.operand(tree), None, 0, self.span))
            case "divround", int(shift) if shift == self.w.frac - 1:
                # x·2^(F−1) / y = x·2^F / 2y: rounded once, as half of a rounded quotient would not be. 2y must be a word.
                top, bottom = tree.args
                self.update(out, d, operator, div_round(top, bottom + bottom, self.w.frac))
            case _ if operator in ("mul", "div") and (parts := _combination(tree, self.w)) is not None:
                first, second, value = parts
                self.update(out, d, operator, first)
                self.update(out, d, second if operator == "mul" else OPPOSITE[second], value)
            case _:
                raise NoInstruction(f"no instruction computes {tree.op}")

    def operand(self, tree: Expr) -> ir.Operand:
        """A variable or constant that holds the tree's word."""
        if tree.op == "const":
            return ir.Const(self.w.wrap(_constant(tree)))
        if tree.op == "input":
            where = self.places[str(tree.param)]
            if not isinstance(where, MemoryWord):
                return where
        scope: _SelectionScope | None = self
        while scope is not None:
            if tree in scope.known:
                return scope.known[tree]
            scope = scope.outer
        logarithmic = _is_logarithmic(tree, self.w)
        t = ir.Var("t", ir.Kind.LOGNUM if logarithmic else ir.Kind.FIXED, self.span)
        made: list[ir.Node] = [ir.Local(t, False, self.span)]
        if tree.op == "input":
            where = self.places[str(tree.param)]
            assert isinstance(where, MemoryWord)
            made.append(ir.Op(TABLE["ld.add"], t, where.a, None, where.imm, self.span, where.region))
        elif tree.op == "xor":
            self.update(made, t, "add", tree.args[0])
            self.update(made, t, "xor", tree.args[1])
        else:
            # Zero is 1 to a lognum: t ×= tree makes t the tree.
            self.update(made, t, "mul" if logarithmic else "add", tree)
        self.compute += made
        self.known[tree] = t
        return t

    def test(self, condition: Expr) -> ir.Test:
        """The test of a branch for: the condition's word is not zero."""
        match condition.op:
            case "lt" | "ltu" | "eq":
                x, y = condition.args
                if condition.op == "eq" and y is ZERO and x.op in ("lt", "ltu", "eq"):
                    return self.test(x).negated()
                return ir.Test(condition.op, self.operand(x), self.operand(y))
        return ir.Test("ne", self.operand(condition), ir.Const(0))


@cache
def _functions(w: Format) -> tuple[tuple[Function, Expr], ...]:
    """The functions of registers and constants with their trees; functions that check their sums first."""
    found = [
        (f, f.value(w))
        for f in ENTRIES
        if isinstance(f, Function) and f.target == "d" and inputs(f.value(w)) <= {"a", "b", "imm"}
    ]
    # A move would match everything; its operand is computed already.
    found = [(f, tree) for f, tree in found if tree.op not in ("input", "shl") or "imm" not in inputs(tree)]
    found = [(f, tree) for f, tree in found if tree.op != "input"]
    return tuple(sorted(found, key=lambda pair: (not pair[0].checked, "imm" not in inputs(pair[1]))))


@cache
def _cover(tree: Expr, operator: str, w: Format) -> tuple[Function, Mapping[str, Expr]] | None:
    """The function that computes the tree's root, and the trees of its operands."""
    for f, pattern in _functions(w):
        given = match(pattern, tree) if operator in f.updates else None
        if given is not None:
            imm = given.get("imm")
            if imm is None or (imm.op == "const" and isinstance(imm.param, int) and ir.fits_immediate(imm.param)):
                return f, given
    return None


@cache
def _combination(tree: Expr, w: Format) -> tuple[Expr, str, Expr] | None:
    """(x, ⊕, v) where the tree is x ⊕ v, of lognums."""
    for operator in ("mul", "div"):
        given = match(UPDATE_OPERATORS[operator].combine(w, place("x"), place("v")), tree)
        if given is not None:
            return given["x"], operator, given["v"]
    return None


def _is_logarithmic(tree: Expr, w: Format) -> bool:
    return _combination(tree, w) is not None or (_cover(tree, "add", w) is None and _cover(tree, "mul", w) is not None)


def _constant(node: Expr) -> int:
    assert isinstance(node.param, int)
    return node.param
