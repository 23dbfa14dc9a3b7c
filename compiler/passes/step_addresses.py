"""step_addresses: an address that grows with a loop is stepped from pass to pass, not computed in each.

    for i = p … q: Within((Local t; t += b; t += k·i), … [t + m] …)
        →  Within((Local s; s += b; s += k·p), (for i = p … q: (… [s + m] …; s += k), s −= k·(q − p)))

for what the loop does not change of b, a sum of variables; constants go to the addresses that read t. All such t of a loop
that differ by constants share one s. Where a loop within another has stepped s by d in all, the outer one takes s over, if that is
cheaper: s += k′ − d in each of its passes, or nothing, where rows lie one behind the other. In a loop that runs backward s −= k
comes first in each pass, as the inverse has it.

Taken are temporaries that a Within computes, as sums of multiples, and that nothing but addresses read. Traps are unchanged.
Addresses carry no derivatives.
Trap to avoid: each s takes a register for the time of the loop; at most `most_held` are alive at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from retrograd.compiler.footprint import Footprints, facts, operand, union, walk
from retrograd.compiler.ir import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    External,
    For,
    If,
    Kind,
    Local,
    Module,
    Node,
    Op,
    Operand,
    Var,
    While,
    Within,
    children,
    fits_immediate,
    with_children,
)
from retrograd.compiler.passes.rewriting import map_bodies, passes, splice
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

#: a loop whose passes are not known is taken to make so many
_PASSES = 8
_ADD, _SUB, _MUL = TABLE["mov.add"], TABLE["mov.sub"], TABLE["mul.add"]

#: Σ coefficient · variable, by variable
Terms = dict[Var, int]


def step_addresses(module: Module, *, most_held: int = 16) -> Module:
    """Step addresses through loops."""
    footprints = Footprints(module)
    return map_bodies(module, lambda body: _Stepper(module.format, footprints, most_held).body(body))


@dataclass(slots=True)
class _Sum:
    """A temporary that is a sum: its terms, a constant, and what it takes to compute it."""

    terms: Terms = field(default_factory=dict)
    constant: int = 0
    updates: int = 0
    #: the immediates of the addresses that read it
    least: int = 0
    most: int = 0


class _Stepped(NamedTuple):
    """A Within that steps an address: its variable and terms, and by how much the loop in it has moved it in the end."""

    var: Var
    terms: Terms
    constant: int
    moved: int


class _Place(NamedTuple):
    """Where an address is computed in a loop: in every pass or only in some, and there once or within loops."""

    sure: bool
    weight: int


class _Stepper:
    def __init__(self, w: Format, footprints: Footprints, most_held: int) -> None:
        self.w = w
        self.footprints = footprints
        self.most_held = most_held
        #: temporaries that are sums, and nothing else
        self.sums: dict[Var, _Sum] = {}
        #: those of them that only addresses read
        self.addresses: set[Var] = set()
        #: a temporary -> what it is read as, and what is added to the immediate there
        self.taken: dict[Var, tuple[Var, int]] = {}
        #: Withins that step an address, by identity
        self.stepped: dict[int, tuple[Within, _Stepped]] = {}

    def body(self, body: Block) -> Block:
        self.survey(body)
        if not self.addresses:
            return body
        block = self.block(body, 0)
        return self.rewrite(block) if self.taken else body

    # ------------------------------------------------------------------ which temporaries are sums

    def survey(self, body: Block) -> None:
        homes: dict[Var, int] = {}
        closed: set[Operand | None] = set()
        other: set[Operand | None] = set()
        uses: dict[Var, list[int]] = {}
        computes = {id(node.compute) for node in walk(body) if isinstance(node, Within)}

        def visit(block: Block) -> None:
            home = id(block) if id(block) in computes else 0
            for node in block:
                match node:
                    case Local(var, checked):
                        if home and var not in homes and not checked:
                            homes[var] = home
                            self.sums[var] = _Sum()
                        else:
                            closed.add(var)
                            self.sums.pop(var, None)
                            homes[var] = -1
                    case Delocal(var):
                        self.sums.pop(var, None)
                    case Op():
                        self.survey_op(node, home, homes, closed, other, uses)
                    case If(test, then, orelse, post):
                        other.update((test.a, test.b, post.a, post.b))
                        closed.update((test.a, test.b, post.a, post.b))
                        visit(then)
                        visit(orelse)
                    case While(test, inner, post):
                        other.update((test.a, test.b, post.a, post.b))
                        closed.update((test.a, test.b, post.a, post.b))
                        visit(inner)
                    case For(_, start, stop, _, inner):
                        other.update((start, stop))
                        closed.update((start, stop))
                        visit(inner)
                    case Within(compute, inner):
                        visit(compute)
                        visit(inner)
                    case Check(test):
                        other.update((test.a, test.b))
                        closed.update((test.a, test.b))
                    case Call(args=args) | External(args=args):
                        other.update(args)
                        for x in args:
                            if isinstance(x, Var):
                                self.sums.pop(x, None)

        visit(body)
        for var, immediates in uses.items():
            found = self.sums.get(var)
            if found is not None and var not in other:
                found.least, found.most = min(immediates), max(immediates)
                self.addresses.add(var)

    def survey_op(
        self,
        op: Op,
        home: int,
        homes: dict[Var, int],
        closed: set[Operand | None],
        other: set[Operand | None],
        uses: dict[Var, list[int]],
    ) -> None:
        f = facts(op.opcode)
        for place in f.read:
            x = operand(op, place)
            closed.add(x)
            if isinstance(x, Var) and f.memory and place == "a":
                uses.setdefault(x, []).append(op.imm)
            elif not (isinstance(op.d, Var) and op.d in self.sums and f.updates and not f.memory):
                other.add(x)
        for place in f.written:
            x = operand(op, place)
            found = self.sums.get(x) if isinstance(x, Var) else None
            if found is None or not isinstance(x, Var):
                continue
            by = self.by(op) if homes[x] == home and x not in closed and f.updates else None
            if by is None:
                del self.sums[x]
                # What it was thought to be a part of reads it as a register.
                other.update((op.a, op.b))
                continue
            terms, constant = by
            for var, k in terms.items():
                found.terms[var] = found.terms.get(var, 0) + k
            found.constant += constant
            found.updates += 1
            # A sum that is read by another sum is a temporary still.
            other.update(terms)

    def by(self, op: Op) -> tuple[Terms, int] | None:
        """What the update adds: terms and a constant."""
        if op.opcode.update not in ("add", "sub"):
            return None
        sign, w = 1 if op.opcode.update == "add" else -1, self.w
        a, b = op.a, op.b
        match op.opcode.entry.name:
            case "mov":
                pass
            case "imm":
                return {}, sign * op.imm
            case "mul" if isinstance(b, Const):
                sign *= w.signed(b.word)
            case "mul" if isinstance(a, Const):
                sign, a = sign * w.signed(a.word), b
            case "muli":
                sign *= op.imm
            case "shl" if isinstance(b, Const):
                sign <<= (b.word & w.mask) % w.width
            case "shli":
                sign <<= (op.imm & w.mask) % w.width
            case _:
                return None
        return ({a: sign}, 0) if isinstance(a, Var) else ({}, sign * w.signed(a.word)) if a is not None else None

    # ------------------------------------------------------------------ loops, inner ones first

    def block(self, block: Block, held: int) -> Block:
        out: list[Node] = []
        for node in block:
            if isinstance(node, For):
                out.extend(self.loop(node._replace(body=self.block(node.body, held + 1)), held))
            elif inside := children(node):
                new = [self.block(b, held) for b in inside]
                same = all(x is y for x, y in zip(new, inside, strict=True))
                out.append(node if same else with_children(node, new))
            else:
                out.append(node)
        return block if len(out) == len(block) and all(x is y for x, y in zip(out, block, strict=True)) else tuple(out)

    def loop(self, loop: For, held: int) -> Block:
        """The loop, within the addresses that it steps."""
        found = self.found(loop)
        if not found:
            return (loop,)
        changed = union(map(self.footprints.of, loop.body)).writes
        born = {node.var for node in walk(loop.body) if isinstance(node, Local | For)}
        fixed = changed | born | {loop.var}
        groups: dict[frozenset[tuple[Var, int]], list[tuple[Var, _Place]]] = {}
        for var, place in found:
            terms = self.sums[var].terms
            if terms.get(loop.var) and all(x is loop.var or x not in fixed for x in terms):
                groups.setdefault(frozenset(terms.items()), []).append((var, place))
        known = passes(loop, self.w)
        count = _PASSES if known is None else len(known)
        room = self.most_held - held
        out: Block = (loop,)
        for key, members in groups.items():
            terms = dict(key)
            saved = sum(2 * self.cost(self.sums[v].terms) * p.weight for v, p in members if p.sure)
            rest = {x: k for x, k in terms.items() if x is not loop.var}
            ends = [x for x in (loop.start, loop.stop) if isinstance(x, Var)]
            if count * (saved - 1) <= 2 * self.cost(rest) + 1 + 2 * len(ends) or room <= 0:
                continue
            wrapped = self.step(out, loop, terms, [v for v, _ in members])
            if wrapped is not None:
                out = wrapped
                room -= 1
        return out

    def cost(self, terms: Terms) -> int:
        return len(terms)

    def found(self, loop: For) -> list[tuple[Var, _Place]]:
        """The addresses that are computed in the loop."""
        out: list[tuple[Var, _Place]] = []

        def visit(block: Iterable[Node], place: _Place) -> None:
            for node in block:
                match node:
                    case Local(var):
                        if var in self.addresses and var not in self.taken:
                            out.append((var, place))
                    case Within(compute, body):
                        visit(compute, place)
                        visit(body, place)
                    case If(_, then, orelse):
                        visit(then, place._replace(sure=False))
                        visit(orelse, place._replace(sure=False))
                    case While(_, body):
                        visit(body, place._replace(sure=False))
                    case For(body=body):
                        known = passes(node, self.w)
                        weight = (len(known) if known is not None else _PASSES) * place.weight
                        visit(body, _Place(place.sure and (node.some or bool(known)), weight))
                    case _:
                        pass

        visit(loop.body, _Place(True, 1))
        return out

    def step(self, block: Block, loop: For, terms: Terms, members: list[Var]) -> Block | None:
        """The loop, at the heart of the block, with one address stepped for all members."""
        w = self.w
        k = w.signed(terms[loop.var])
        base = {x: c for x, c in terms.items() if x is not loop.var}
        first, last = (loop.stop, loop.start) if loop.backward else (loop.start, loop.stop)
        offset = k * w.signed(first.word) if isinstance(first, Const) else 0
        for var in members:
            found = self.sums[var]
            total = w.signed(found.constant + offset)
            if not fits_immediate(found.least + total) or not fits_immediate(found.most + total):
                return None
        s = Var("at", Kind.ADDRESS, loop.span)
        for var in members:
            self.taken[var] = s, w.signed(self.sums[var].constant + offset)
        span = loop.span
        setup: list[Node] = [Local(s, False, span)]
        for x, c in base.items():
            setup.append(self.add(s, x, c, loop))
        if isinstance(first, Var):
            setup.append(self.add(s, first, k, loop))
        # Back from the last pass to where it began, as far as that is not undone with the setup.
        back: list[Node] = []
        moved = k * w.signed(last.word) if isinstance(last, Const) else 0
        if isinstance(last, Var):
            back.append(self.add(s, last, -k, loop))
        if isinstance(first, Var):
            back.append(self.add(s, first, k, loop))
        if w.signed(moved - offset):
            back.append(Op(_SUB, s, Const((moved - offset) & w.mask), span=span))
        step = Op(_SUB if loop.backward else _ADD, s, Const(k * loop.step & w.mask), span=span)
        new = _replaced(block, loop, step)
        return (Within(tuple(setup), (*new, *back), None, span),)

    def add(self, s: Var, x: Var, k: int, loop: For) -> Op:
        k = self.w.signed(k)
        if k in (1, -1):
            return Op(_ADD if k == 1 else _SUB, s, x, span=loop.span)
        return Op(_MUL, s, x, Const(k & self.w.mask), span=loop.span)

    # ------------------------------------------------------------------ rewriting

    def rewrite(self, block: Block) -> Block:
        out: list[Node] = []
        for node in block:
            match node:
                case Op(d=d, a=a):
                    if isinstance(d, Var) and d in self.taken:
                        continue
                    if isinstance(a, Var) and a in self.taken:
                        s, constant = self.taken[a]
                        node = node._replace(a=s, imm=node.imm + constant)
                case Local(var):
                    if var in self.taken:
                        continue
                case _:
                    inside = children(node)
                    new = [self.rewrite(b) for b in inside]
                    if any(x is not y for x, y in zip(new, inside, strict=True)):
                        node = with_children(node, new)
            out.append(node)
        same = len(out) == len(block) and all(x is y for x, y in zip(out, block, strict=True))
        return block if same else splice(out)


def _replaced(block: Block, loop: For, step: Op) -> Block:
    """The block with the step in the loop's body. Around it there are the Withins of other addresses only."""
    out: list[Node] = []
    for node in block:
        if isinstance(node, For) and node.var is loop.var:
            body = (step, *node.body) if loop.backward else (*node.body, step)
            out.append(node._replace(body=body))
        elif isinstance(node, Within):
            out.append(node._replace(body=_replaced(node.body, loop, step)))
        else:
            out.append(node)
    return tuple(out)
