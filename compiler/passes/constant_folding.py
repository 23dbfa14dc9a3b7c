"""fold_constants: what is known at compile time is computed at compile time, by the table's own trees.

    Local t; t += c; … t … ; (t −= c; Delocal t)   →  … c …           also for a copy, t += x, while x is not written
    y += f(c₁, c₂)                                  →  y += c          where no guard fails; a checked sum stays checked
    Local t; t += i; t += k; … [t + imm] …          →  … [i + (k + imm)] …
    Local t; t += f; t += k; … [t + imm] …          →  Local t; t += f; … [t + (k + imm)] …    if only addresses read t
    If, Check with a known test                     →  the branch; nothing. What the other end asserts stays a Check
    For of no pass, of one                          →  nothing; the body

A local gives way only if it is updated by whole statements of its own block, each with a known result, and every
place that reads it can take what it stands for. Traps are unchanged. So are cotangents: a constant has none, and that
of a copy is added to its original's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from retrograd.compiler.ir.cost_model import trip_values
from retrograd.compiler.ir.opcode_facts import constant_value, facts, move_for, operand
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
    Test,
    Var,
    While,
    Within,
    fits_immediate,
)
from retrograd.compiler.ir.traversal import map_bodies
from retrograd.isa.diagnostics import Span
from retrograd.isa.entries import NOT_JUMPING, Function, Opcode
from retrograd.isa.expr import evaluate
from retrograd.isa.table import CONDITIONS
from retrograd.isa.words import Format


class Value(NamedTuple):
    """base + offset, both words; a constant where there is no base."""

    base: Var | None
    offset: int


ZERO = Value(None, 0)


def fold_constants(module: Module) -> Module:
    """Compute at compile time what can be."""
    return map_bodies(module, lambda body: _Folder(module).fold(body))


class _Folder:
    """Three walks of one body, in the same order: what lives where, what can give way, and the rewriting.

    `clock` counts statements, so that it says the same place in each walk.
    Trap to avoid: the last two must find the same values, so what they find depends on nothing that the second decides.
    """

    def __init__(self, module: Module) -> None:
        self.w = module.format
        self.procedures = module.procedures
        self.clock = 0
        #: local -> the block that it lives in
        self.homes: dict[Var, int] = {}
        #: local -> where it ends
        self.ends: dict[Var, int] = {}
        #: variable -> where it is written
        self.writes: dict[Var, list[int]] = {}
        #: locals whose value is not followed: what changes them is not one update in their own block
        self.untracked: set[Var] = set()
        #: locals whose value is not known somewhere
        self.unknown: set[Var] = set()
        #: locals that are read where their value cannot stand
        self.needed: set[Var] = set()
        #: what the locals hold at the clock
        self.values: dict[Var, Value] = {}
        #: how much of what they hold came from constants that were added
        self.offsets: dict[Var, int] = {}
        #: locals whose offset cannot be left to the addresses that read them
        self.stuck: set[Var] = set()

    def fold(self, body: Block) -> Block:
        self.survey(body)
        self.untracked |= self.homes.keys() - self.ends.keys()
        self.unknown |= self.untracked
        self.clock = 0
        self.judge(body)
        self.clock = 0
        self.values.clear()
        self.offsets.clear()
        return self.rewrite(body)

    # ------------------------------------------------------------------ first walk: lives and writes

    def survey(self, block: Block) -> None:
        home = self.clock
        for node in block:
            self.clock += 1
            match node:
                case Op(opcode):
                    written = facts(opcode).written
                    for place in written:
                        x = operand(node, place)
                        if isinstance(x, Var):
                            self.note_write(x)
                            if self.homes.get(x) != home or len(written) > 1:
                                self.untracked.add(x)
                case Local(var):
                    if var in self.homes:
                        self.untracked.add(var)
                    self.homes[var] = home
                    self.note_write(var)
                case Delocal(var):
                    if self.homes.get(var) != home:
                        self.untracked.add(var)
                    self.ends[var] = self.clock
                    self.note_write(var)
                case Within(compute, body):
                    self.survey_within(compute, body)
                case For(var, body=body):
                    if var in self.homes or len(trip_values(node, self.w) or ()) != 1:
                        self.untracked.add(var)
                    self.note_write(var)
                    self.homes[var] = -1
                    self.survey(body)
                    self.ends[var] = self.clock
                case If(_, then, orelse):
                    self.survey(then)
                    self.survey(orelse)
                case While(_, body):
                    self.survey(body)
                case Call(name, args):
                    for i in self.procedures[name].written:
                        x = args[i]
                        if isinstance(x, Var):
                            self.note_write(x)
                            self.untracked.add(x)
                case Check() | External():
                    pass

    def survey_within(self, compute: Block, body: Block) -> None:
        self.survey(compute)
        self.survey(body)
        # compute⁻¹ writes again what compute wrote, but nothing that is alive there has been copied in between.
        self.clock += 1
        for node in compute:
            if isinstance(node, Local):
                self.ends.setdefault(node.var, self.clock)

    def note_write(self, var: Var) -> None:
        self.writes.setdefault(var, []).append(self.clock)

    # ------------------------------------------------------------------ second walk: who can give way

    def judge(self, block: Block) -> None:
        for node in block:
            self.clock += 1
            match node:
                case Op(opcode):
                    f = facts(opcode)
                    for place in f.read:
                        self.judge_read(operand(node, place), node, place)
                    self.follow(node)
                case Local():
                    self.begin(node)
                case Delocal(var):
                    if self.values.pop(var, None) != ZERO:
                        self.unknown.add(var)
                    if self.offsets.pop(var, 0):
                        self.stuck.add(var)
                case Within(compute, body):
                    self.judge(compute)
                    self.judge(body)
                    self.clock += 1
                case For(var, start, stop, _, body):
                    self.judge_reads(start, stop)
                    self.enter(node)
                    self.judge(body)
                case If(test, then, orelse, post):
                    self.judge_reads(test.a, test.b, post.a, post.b)
                    self.judge(then)
                    self.judge(orelse)
                case While(test, body, post):
                    self.judge_reads(test.a, test.b, post.a, post.b)
                    self.judge(body)
                case Check(test):
                    self.judge_reads(test.a, test.b)
                case Call(args=args) | External(args=args):
                    self.judge_reads(*args)

    def judge_reads(self, *operands: Operand) -> None:
        for x in operands:
            self.judge_read(x)

    def judge_read(self, x: Operand | None, op: Op | None = None, place: str = "") -> None:
        """Note if x is a local whose value cannot stand here in its place."""
        if not isinstance(x, Var) or x not in self.homes:
            return
        value = self.values.get(x)
        if value is None:
            self.unknown.add(x)
        elif value.base is None:
            # An instruction names a register there, though it only reads it.
            if place == "d":
                self.needed.add(x)
        elif not self.takes_offset(value.offset, op, place):
            self.needed.add(x)
        if not self.takes_offset(self.offsets.get(x, 0), op, place):
            self.stuck.add(x)

    def takes_offset(self, offset: int, op: Op | None, place: str) -> bool:
        """Whether the operand can be offset where it stands: always by zero, else only in an address."""
        if not offset:
            return True
        address = op is not None and place == "a" and facts(op.opcode).memory
        return address and op is not None and fits_immediate(op.imm + self.w.signed(offset))

    def begin(self, node: Local) -> None:
        if node.var not in self.untracked:
            self.values[node.var] = ZERO
            self.offsets[node.var] = 0

    def enter(self, loop: For) -> None:
        """A loop of one pass: its variable is a constant."""
        if loop.var not in self.untracked:
            self.values[loop.var] = Value(None, (trip_values(loop, self.w) or range(1))[0] & self.w.mask)

    def follow(self, op: Op) -> None:
        """Bring `values` up to date with the instruction."""
        for place in facts(op.opcode).written:
            x = operand(op, place)
            if isinstance(x, Var) and x in self.homes:
                new = None if x in self.untracked else self.value_after(op, x)
                if new is None:
                    self.unknown.add(x)
                    self.values.pop(x, None)
                else:
                    self.values[x] = new
                if x in self.offsets and not self.shift(op, x):
                    self.stuck.add(x)

    def shift(self, op: Op, d: Var) -> bool:
        """Add what the instruction adds of constants. False if it is no plain sum."""
        entry = op.opcode.entry
        if not isinstance(entry, Function) or entry.checked or op.opcode.update not in ("add", "sub"):
            return False
        if self.adds_constant(op):
            value = self.value_of(op.a)
            assert value is not None
            sign = 1 if op.opcode.update == "add" else -1
            self.offsets[d] = (self.offsets[d] + sign * value.offset) & self.w.mask
        return True

    def adds_constant(self, op: Op) -> bool:
        value = self.value_of(op.a)
        return op.opcode.entry.name == "mov" and value is not None and value.base is None

    def value_after(self, op: Op, d: Var) -> Value | None:
        """What d holds after an update of it, or None if that is no constant and no copy."""
        old = self.values.get(d)
        f = facts(op.opcode)
        if old is None or op.d is not d or f.memory:
            return None
        a, b = self.value_of(op.a), self.value_of(op.b)
        if old.base is None and (a is None or a.base is None) and (b is None or b.base is None):
            words = tuple(None if x is None else x.offset for x in (a, b))
            word = _word_after(op.opcode, old.offset, words[0], words[1], op.imm, self.w)
            return None if word is None else Value(None, word)
        if a is None or b is not None:
            return None
        return self.sum_after(op, d, old, a)

    def sum_after(self, op: Op, d: Var, old: Value, a: Value) -> Value | None:
        """d ± a, where that is a variable and a constant, and nothing tests the sum."""
        match op.opcode.name:
            case "mov.add" if old.base is None or a.base is None:
                new = Value(old.base or a.base, (old.offset + a.offset) & self.w.mask)
            case "fmov.add" | "lmov.mul" if old == ZERO and not a.offset:
                new = a
            case "mov.sub" if a.base is None or a.base is old.base:
                base = old.base if a.base is None else None
                new = Value(base, (old.offset - a.offset) & self.w.mask)
            case _:
                return None
        if new.base is not None and self.written_before(new.base, self.ends[d]):
            return None
        return new

    def value_of(self, x: Operand | None) -> Value | None:
        match x:
            case Const(word):
                return Value(None, word & self.w.mask)
            case Var():
                return self.values.get(x, Value(x, 0))
        return None

    def written_before(self, var: Var, end: int) -> bool:
        """Whether the variable is written between here and there."""
        writes = self.writes.get(var, [])
        i = bisect_left(writes, self.clock)
        return i < len(writes) and writes[i] < end

    # ------------------------------------------------------------------ third walk: the rewriting

    def gone(self, var: Var) -> bool:
        return var in self.homes and var not in self.unknown and var not in self.needed

    def shifted(self, var: Var) -> bool:
        """Whether the constants that are added to the variable go to the addresses that read it."""
        return var in self.offsets and var not in self.stuck and not self.gone(var)

    def rewrite(self, block: Block) -> Block:
        out: list[Node] = []
        for node in block:
            self.clock += 1
            match node:
                case Op():
                    new = self.substitute(node)
                    self.follow(node)
                    if not self.taken_over(node):
                        out.extend(_fold_op(new, self.w))
                case Local(var):
                    self.begin(node)
                    if not self.gone(var):
                        out.append(node)
                case Delocal(var):
                    self.values.pop(var, None)
                    if not self.gone(var):
                        out.append(node)
                    self.offsets.pop(var, None)
                case Within(compute, body):
                    compute, body = self.rewrite(compute), self.rewrite(body)
                    self.clock += 1
                    out.extend((node._replace(compute=compute, body=body),) if compute else body)
                case If(test, then, orelse, post):
                    test, post = self.test(test), self.test(post)
                    new_if = If(test, self.rewrite(then), self.rewrite(orelse), post, node.span)
                    out.extend(self.resolve_if(new_if))
                case While(test, body, post):
                    test, post = self.test(test), self.test(post)
                    out.extend(self.resolve_while(While(test, self.rewrite(body), post, node.span)))
                case For():
                    out.extend(self.rewrite_for(node))
                case Call(args=args):
                    out.append(node._replace(args=tuple(map(self.stand_in, args))))
                case Check(test):
                    if self.truth(self.test(test)) is not True:
                        out.append(node._replace(test=self.test(test)))
                case External(args=args):
                    out.append(node._replace(args=tuple(map(self.stand_in, args))))
        return tuple(out)

    def rewrite_for(self, loop: For) -> Block:
        new = loop._replace(start=self.stand_in(loop.start), stop=self.stand_in(loop.stop))
        self.enter(loop)
        new = new._replace(body=self.rewrite(loop.body))
        known = trip_values(new, self.w)
        if known is None:
            return (new,)
        if not known:
            return ()
        return new.body if self.gone(loop.var) else (new._replace(some=True),)

    def stand_in(self, x: Operand) -> Operand:
        """What takes the place of an operand that is only read."""
        if not isinstance(x, Var) or not self.gone(x):
            return x
        base, offset = self.values[x]
        return Const(offset) if base is None else base

    def substitute(self, op: Op) -> Op:
        for place in facts(op.opcode).read:
            x = operand(op, place)
            if isinstance(x, Var) and self.gone(x):
                base, offset = self.values[x]
                # Only an address can have both, and then takes the constant into its own.
                extra = self.w.signed(offset) if base is not None else 0
                new = self.stand_in(x)
                op = op._replace(a=new) if place == "a" else op._replace(b=new) if place == "b" else op._replace(d=new)
                op = op._replace(imm=op.imm + extra)
            elif isinstance(x, Var) and self.shifted(x) and self.offsets[x]:
                op = op._replace(imm=op.imm + self.w.signed(self.offsets[x]))
        return op

    def taken_over(self, op: Op) -> bool:
        """Whether what the instruction does to its target is in the operands that read it."""
        d = op.d
        if not isinstance(d, Var) or not facts(op.opcode).written:
            return False
        return self.gone(d) or (self.shifted(d) and self.adds_constant(op))

    def test(self, test: Test) -> Test:
        return Test(test.cc, self.stand_in(test.a), self.stand_in(test.b))

    def truth(self, test: Test) -> bool | None:
        """Whether the test holds, where that is known."""
        if isinstance(test.a, Const) and isinstance(test.b, Const):
            return _holds(test.cc, test.a.word, test.b.word, self.w)
        # Whatever the word is, it compares with itself as zero does.
        return _holds(test.cc, 0, 0, self.w) if test.a is test.b else None

    def resolve_if(self, node: If) -> Block:
        before, after = self.truth(node.test), self.truth(node.post)
        taken = after if before is None else before
        if taken is None or after is (not taken):
            return (node,)
        promise = node.test if before is None else node.post
        checks = () if None not in (before, after) else (_promise(promise, taken, node.span),)
        branch = node.then if taken else node.orelse
        return (*checks, *branch) if before is None else (*branch, *checks)

    def resolve_while(self, node: While) -> Block:
        after = self.truth(node.post)
        if self.truth(node.test) is not False or after is True:
            return (node,)
        return () if after is False else (_promise(node.post, False, node.span),)


def _promise(test: Test, holds: bool, span: Span | None) -> Check:
    message = "the condition at the other end of this statement says otherwise"
    return Check(test if holds else test.negated(), "RG0803", message, span)


def _fold_op(op: Op, w: Format) -> Iterable[Op]:
    word = constant_value(op, w)
    if word is None:
        return (op,)
    if word == 0:
        # Every update by the word zero changes nothing.
        return ()
    if op.opcode.entry.name in ("mov", "fmov", "lmov"):
        return (op,)
    return (op._replace(opcode=move_for(op.opcode), a=Const(word), b=None, imm=0),)


def _holds(cc: str, a: int, b: int, w: Format) -> bool:
    predicate, _ = CONDITIONS[f".{cc}"]
    assert predicate is not None
    return bool(evaluate(predicate, w, {"a": a, "b": b}))


@lru_cache(maxsize=1 << 14)
def _word_after(opcode: Opcode, d: int, a: int | None, b: int | None, imm: int, w: Format) -> int | None:
    """The word in d after the instruction, or None if a guard fails."""
    env = {"d": d, "imm": imm & w.mask}
    env |= {} if a is None else {"a": a}
    env |= {} if b is None else {"b": b}
    for guard in opcode.guards(w):
        if guard.predicate is not NOT_JUMPING.predicate and not evaluate(opcode.guard_predicate(guard, w), w, env):
            return None
    return evaluate(opcode.transition(w)["d"], w, env)
