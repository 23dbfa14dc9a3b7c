"""Induction-variable strength reduction: an address that grows with a loop is stepped from pass to pass.

    for i = p … q: Within((Local t; t += b; t += k·i), … [t + m] …)
        →  Within((Local s; s += b; s += k·p), (for i = p … q: (… [s + m] …; s += k), s −= k·(q − p)))

b is a sum of variables that the loop does not change; constants go to the immediates of the addresses that read t. All such
t of a loop that differ by constants share one s. Where an inner loop has stepped s by d in all, the outer loop takes s over
if that is cheaper: s += k′ − d in each pass, or nothing where rows are contiguous. In a loop that runs backward, s −= k comes
first in each pass, as in the inverse.

Candidates: temporaries that a `Within` computes as sums of multiples, and that only addresses read.
Correct because t = b + k·i holds at every pass in both directions. Traps: unchanged. Addresses carry no derivatives.
Cost: each s takes a register for the time of the loop; `max_live` bounds how many are live at once.
Remarks: why an address that grows with a loop is computed in each pass.
Source: J. Cocke and K. Kennedy, An algorithm for reduction of operator strength, CACM 20 (1977).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.effects import AccessAnalysis, union
from retrograd.compiler.ir.instruction_selection import expected_trips, facts, operand, trip_values
from retrograd.compiler.ir.traversal import map_bodies, map_children, operands_of, rebuilt, splice, walk
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_ADD, _SUB, _MUL = TABLE["mov.add"], TABLE["mov.sub"], TABLE["mul.add"]

#: Σ coefficient · variable, by variable
Coefficients = dict[ir.Var, int]


def reduce_induction_variables(module: ir.Module, *, max_live: int = 16) -> ir.Module:
    """Step addresses through loops."""
    accesses = AccessAnalysis(module)
    remarks: list[tuple[Span | None, str]] = []
    stepped = map_bodies(module, lambda body: _Stepper(module.format, accesses, max_live, remarks).body(body))
    return stepped.with_remarks("reduce_induction_variables", remarks)


@dataclass(slots=True)
class _Sum:
    """The value of a temporary: a sum of terms and a constant."""

    terms: Coefficients = field(default_factory=dict)
    constant: int = 0
    #: the immediates of the addresses that read it
    least: int = 0
    most: int = 0


class _Site(NamedTuple):
    """Where in a loop an address is computed: how often in each pass, 0 if not in all; whether in a compute block."""

    times: int
    computed: bool


class _Stepper:
    def __init__(
        self, w: Format, accesses: AccessAnalysis, max_live: int, remarks: list[tuple[Span | None, str]]
    ) -> None:
        self.w = w
        self.remarks = remarks
        self.accesses = accesses
        self.max_live = max_live
        #: temporaries that are sums, and nothing else
        self.sums: dict[ir.Var, _Sum] = {}
        #: those of them that only addresses read
        self.addresses: set[ir.Var] = set()
        self.births: dict[ir.Var, int] = {}
        #: variable -> the immediates of the addresses that read it; operands that are read in other places
        self.reads: dict[ir.Var, list[int]] = {}
        self.other: set[ir.Operand | None] = set()
        #: temporary -> the variable that is read in its place, and the addition to the immediate there
        self.taken: dict[ir.Var, tuple[ir.Var, int]] = {}
        #: stepped address -> the statements that set it in the Within around the loop
        self.setup: dict[ir.Var, tuple[ir.Node, ...]] = {}
        self.dropped: set[int] = set()

    def body(self, body: ir.Block) -> ir.Block:
        self.survey(body)
        if not self.addresses:
            return body
        block = self.block(body, 0)
        return self.rewrite(block) if self.taken else body

    # ------------------------------------------------------------------ temporaries that are sums

    def survey(self, body: ir.Block) -> None:
        self.survey_block(body, False)
        for var, immediates in self.reads.items():
            found = self.sums.get(var)
            if found is not None and var not in self.other:
                found.least, found.most = min(immediates), max(immediates)
                self.addresses.add(var)

    def survey_block(self, block: ir.Block, computing: bool) -> None:
        """`computing`: the block is the compute block of a Within."""
        birth = id(block)
        for node in block:
            match node:
                case ir.Op():
                    self.survey_op(node, birth)
                case ir.Local(var, checked):
                    if computing and not checked and var not in self.births:
                        self.sums[var] = _Sum()
                    else:
                        self.sums.pop(var, None)
                    self.births[var] = birth
                case ir.Delocal(var):
                    self.sums.pop(var, None)
                case ir.Within(compute, inner):
                    self.survey_block(compute, True)
                    self.survey_block(inner, False)
                case ir.If() | ir.While() | ir.For() | ir.Check():
                    self.other.update(operands_of(node))
                    for inside in ir.children(node):
                        self.survey_block(inside, False)
                case ir.Call(args=args) | ir.External(args=args):
                    self.other.update(args)
                    for x in args:
                        self.sums.pop(x, None)  # type: ignore[arg-type]

    def survey_op(self, op: ir.Op, birth: int) -> None:
        f = facts(op.opcode)
        for place in f.read:
            x = operand(op, place)
            if isinstance(x, ir.Var) and f.memory and place == "a":
                self.reads.setdefault(x, []).append(op.imm)
            else:
                self.other.add(x)
        for place in f.written:
            x = operand(op, place)
            found = self.sums.get(x) if isinstance(x, ir.Var) else None
            if found is None or not isinstance(x, ir.Var):
                continue
            by = self.by(op) if f.updates and not f.memory and self.births[x] == birth and x not in self.reads else None
            if by is None:
                del self.sums[x]
                continue
            for var, k in by[0].items():
                found.terms[var] = found.terms.get(var, 0) + k
            found.constant += by[1]

    def by(self, op: ir.Op) -> tuple[Coefficients, int] | None:
        """The terms and the constant that the update adds."""
        if op.opcode.update not in ("add", "sub"):
            return None
        sign, w = 1 if op.opcode.update == "add" else -1, self.w
        a, b = op.a, op.b
        match op.opcode.entry.name:
            case "mov":
                pass
            case "imm":
                return {}, sign * op.imm
            case "mul" if isinstance(b, ir.Const):
                sign *= w.signed(b.word)
            case "mul" if isinstance(a, ir.Const):
                sign, a = sign * w.signed(a.word), b
            case "muli":
                sign *= op.imm
            case "shl" if isinstance(b, ir.Const):
                sign <<= (b.word & w.mask) % w.width
            case "shli":
                sign <<= (op.imm & w.mask) % w.width
            case _:
                return None
        return ({a: sign}, 0) if isinstance(a, ir.Var) else ({}, sign * w.signed(a.word)) if a is not None else None

    # ------------------------------------------------------------------ loops, inner ones first

    def block(self, block: ir.Block, held: int) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            if isinstance(node, ir.For):
                out.extend(self.loop(node._replace(body=self.block(node.body, held + 1)), held))
            else:
                out.append(map_children(node, lambda inner: self.block(inner, held)))
        return rebuilt(block, out)

    def loop(self, loop: ir.For, held: int) -> ir.Block:
        """The loop, within the addresses that it steps."""
        found = self.found(loop)
        if not found:
            return (loop,)
        inner = list(walk(loop.body))
        fixed = union(map(self.accesses.of, loop.body)).writes.union(
            node.var for node in inner if isinstance(node, ir.Local | ir.For)
        )
        groups: dict[Hashable, list[tuple[ir.Var, int]]] = {}
        for var, site in found:
            terms = self.sums[var].terms
            if not self.w.signed(terms.get(loop.var, 0)):
                continue
            changed = [x for x in terms if x is not loop.var and x in fixed]
            if changed:
                self.remarks.append((loop.span, f"an address contains `{changed[0].name}`, which the loop changes"))
                continue
            # An address that another loop steps has a variable of its own.
            key = var if var in self.setup else frozenset(terms.items())
            groups.setdefault(key, []).append((var, site.times))
        count = expected_trips(loop, self.w)
        room = self.max_live - held
        out: ir.Block = (loop,)
        for members in groups.values():
            terms = self.sums[members[0][0]].terms
            saved = sum(2 * len(terms) * times for _, times in members)
            ends = sum(isinstance(x, ir.Var) for x in (loop.start, loop.stop))
            if count * (saved - 1) <= 2 * (len(terms) - 1 + ends) + 1:
                self.remarks.append((loop.span, f"a step in each of {count} passes would cost more than it saves"))
            elif room <= 0:
                self.remarks.append((loop.span, f"{self.max_live} stepped addresses are live"))
            elif (stepped := self.step(out, loop, terms, [var for var, _ in members])) is None:
                self.remarks.append((loop.span, "a constant of an address does not fit in an instruction"))
            else:
                out = stepped
                room -= 1
        return out

    def found(self, loop: ir.For) -> list[tuple[ir.Var, _Site]]:
        """The addresses that are computed in the loop."""
        out: list[tuple[ir.Var, _Site]] = []

        def visit(block: ir.Block, site: _Site) -> None:
            for node in block:
                match node:
                    case ir.Local(var):
                        # A compute block must not change variables that live outside.
                        if var in self.addresses and not (site.computed and var in self.setup):
                            out.append((var, site))
                    case ir.Within(compute, body):
                        # The address that a loop steps stands alone in the compute block of its Within.
                        stepped = (
                            isinstance(compute[0], ir.Local) and compute[0].var in self.setup if compute else False
                        )
                        visit(compute, site if stepped else site._replace(computed=True))
                        visit(body, site)
                    case ir.If() | ir.While():
                        for inner in ir.children(node):
                            visit(inner, site._replace(times=0))
                    case ir.For(body=body):
                        sure = node.some or bool(trip_values(node, self.w))
                        times = expected_trips(node, self.w) if sure else 0
                        visit(body, site._replace(times=times * site.times))
                    case ir.Op() | ir.Delocal() | ir.Call() | ir.Check() | ir.External():
                        pass

        visit(loop.body, _Site(1, False))
        return [(var, site) for var, site in out if var not in self.taken]

    def step(self, block: ir.Block, loop: ir.For, terms: Coefficients, members: list[ir.Var]) -> ir.Block | None:
        """The loop, at the heart of the block, with one address stepped for all members; None if a constant is too large."""
        w, span = self.w, loop.span
        k = w.signed(terms[loop.var])
        first, last = (loop.stop, loop.start) if loop.backward else (loop.start, loop.stop)
        # A constant beginning is left to the addresses.
        begin, end = (k * w.signed(x.word) if isinstance(x, ir.Const) else 0 for x in (first, last))
        added = {var: w.signed(self.sums[var].constant + begin) for var in members}
        least = min(self.sums[var].least + added[var] for var in members)
        most = max(self.sums[var].most + added[var] for var in members)
        if not ir.fits_immediate(least) or not ir.fits_immediate(most):
            return None
        s = ir.Var("at", ir.Kind.ADDRESS, span)
        parts = [(x, c) for x, c in terms.items() if x is not loop.var]
        parts += [(first, k)] if isinstance(first, ir.Var) else []
        setup = tuple([self.add(s, x, c, loop) for x, c in parts])
        # Back to where it began.
        back: list[ir.Node] = [self.add(s, x, c, loop) for x, c in ((last, -k), (first, k)) if isinstance(x, ir.Var)]
        if w.signed(end - begin):
            back.append(ir.Op(_SUB, s, ir.Const((end - begin) & w.mask), span=span))
        step = ir.Op(_SUB if loop.backward else _ADD, s, ir.Const(k * loop.step & w.mask), span=span)
        for var in members:
            self.taken[var] = s, added[var]
            self.dropped.update(map(id, self.setup.get(var, ())))
        together: Coefficients = {}
        for x, c in parts:
            together[x] = together.get(x, 0) + c
        self.sums[s] = _Sum(together, 0, least, most)
        self.addresses.add(s)
        self.setup[s] = setup
        return (ir.Within((ir.Local(s, False, span), *setup), (*_stepped(block, loop, step), *back), None, span),)

    def add(self, s: ir.Var, x: ir.Var, k: int, loop: ir.For) -> ir.Op:
        k = self.w.signed(k)
        if k in (1, -1):
            return ir.Op(_ADD if k == 1 else _SUB, s, x, span=loop.span)
        return ir.Op(_MUL, s, x, ir.Const(k & self.w.mask), span=loop.span)

    # ------------------------------------------------------------------ rewriting

    def rewrite(self, block: ir.Block) -> ir.Block:
        out: list[ir.Node] = []
        for node in block:
            if id(node) in self.dropped:
                continue
            if isinstance(node, ir.Op):
                # The sums themselves are gone; a stepped address goes on by another name.
                if node.d not in self.taken or node.d in self.setup:
                    out.append(self.renamed(node))
            elif not (isinstance(node, ir.Local) and node.var in self.taken):
                out.append(map_children(node, self.rewrite))
        return block if rebuilt(block, out) is block else splice(out)

    def renamed(self, op: ir.Op) -> ir.Op:
        d, a = op.d, op.a
        while isinstance(d, ir.Var) and d in self.taken:
            d = self.taken[d][0]
        imm = op.imm
        if facts(op.opcode).memory:
            while isinstance(a, ir.Var) and a in self.taken:
                a, more = self.taken[a]
                imm += more
        return op if a is op.a and d is op.d else op._replace(d=d, a=a, imm=imm)


def _stepped(block: ir.Block, loop: ir.For, step: ir.Op) -> ir.Block:
    """The block with the step in the loop's body. Around the loop there are only the Withins of other addresses."""
    out: list[ir.Node] = []
    for node in block:
        if isinstance(node, ir.For) and node.var is loop.var:
            out.append(node._replace(body=(step, *node.body) if loop.backward else (*node.body, step)))
        elif isinstance(node, ir.Within):
            out.append(node._replace(body=_stepped(node.body, loop, step)))
        else:
            out.append(node)
    return tuple(out)
