"""Loops of Janus: `from … do … loop … until …` and `iterate`.

    from p loop s until q          While(¬q, s, ¬p)
    from p do s loop t until q     f, g := 0, 1;  While(g, [If(f, t, f);  f ^= p, which must be 1;  s;  g ^= q], f);  f ^= 1
    iterate int i = a to b         For, where the body changes neither bound; else the loop that it stands for

Backward, f is 1 at the beginning of each pass, so its test never fails, and the loop tests g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.code import Code
from retrograd.compiler.frontends.janus.lowering.expressions import word_type
from retrograd.compiler.frontends.janus.lowering.values import BOOL, INT, ScalarPlace, Value, to_stored, word_in
from retrograd.compiler.ir.expressions import E, add, apply, const, sub
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    If,
    Local,
    Node,
    Op,
    Test,
    Var,
    While,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE

Statements = Sequence[syntax.Statement]


class Loops:
    """Lowers loops. `block` lowers statements; `written`: the names that statements change."""

    def __init__(
        self, code: Code, block: Callable[[Statements], Block], written: Callable[[Statements], set[str]]
    ) -> None:
        self._code, self._block, self._written = code, block, written

    def lower_loop(self, node: syntax.Loop) -> None:
        self._code.pair(node.exit, node.entry, negated=True)
        entry, until = self._code.expressions.condition(node.entry), self._code.expressions.condition(node.exit)
        do, loop = self._block(node.do), self._block(node.loop)
        self._loop(entry, do, loop, until, node.entry.span, node.exit.span)

    def _loop(self, entry: E, do: Block, loop: Block, until: E, at: Span, end: Span) -> None:
        t_entry, t_until = self._code.temporaries(), self._code.temporaries()
        begun, ended = t_entry.test(entry), t_until.test(until)
        if not do and not t_entry.compute and not t_until.compute:
            self._code.emit(While(ended.negated(), loop, begun.negated(), end))
            return
        f, g = Var("passed", BOOL, end), Var("again", BOOL, end)
        passed, again = Test("ne", f, ZERO), Test("ne", g, ZERO)
        one = Const(1)
        text = self._code.text(at)
        message = f"`{text}` is {{truth}}, and must be true before the loop and false after each pass"
        entered = Check(passed, "RG0803", message, at)
        body: list[Node] = [If(passed, loop, (), passed, end)] if loop else []
        body += [*self._code.toggle(f, entry), entered, *do, *self._code.toggle(g, until)]
        self._code.emit(Local(f, False, end), Local(g, False, end), Op(TABLE["mov.xor"], g, one, None, 0, end))
        self._code.emit(While(again, tuple(body), passed, end))
        self._code.emit(Op(TABLE["mov.xor"], f, one, None, 0, end), Delocal(g, False, end), Delocal(f, False, end))

    def lower_iterate(self, node: syntax.Iterate) -> None:
        t = word_type(node.type, self._code.w, self._code.fail, node.span) if node.type != "stack" else None
        if t is None:
            self._code.fail("RG0703", "the index of `iterate` is an integer", node.span)
        if node.name in self._code.names:
            self._code.fail("RG0706", f"`{node.name}` is declared already", node.span)
        start, last = self._code.expressions.of_type(node.start, t), self._code.expressions.of_type(node.stop, t)
        step = self._code.expressions.of_type(node.step, t) if node.step is not None else None
        by = 1 if step is None else step.e.param if step.e.op == "const" else 0
        stop = add(last.e, const(by, INT) if step is None or by else step.e, self._code.w)
        changed = self._written(node.body)
        bounds = {r.name for e in (node.start, node.stop) for r in syntax.references(e)}
        if not by or node.name in changed or bounds & changed or t.width != self._code.w.width:
            self._iterate_by_loop(node, start.e, stop, last, step)
            return
        index = Var(node.name, INT, node.span)
        span = node.span
        temporaries = self._code.temporaries()
        first, end = temporaries.operand(start.e), temporaries.operand(stop)
        distance = sub(stop, start.e, self._code.w)
        checks: list[Node] = []
        message = f"`{self._code.text(node.span)}` never ends: its index does not meet the last value"
        if distance.op == "const":
            ends = distance.param * by >= 0 and distance.param % by == 0
            if not ends:
                checks.append(Check(Test("ne", ZERO, ZERO), "RG0804", message, span))
                first = end
        else:
            low, high = (first, end) if by > 0 else (end, first)
            checks.append(Check(Test("ge", high, low), "RG0804", message, span))
            if abs(by) > 1:
                inner = self._code.temporaries()
                rest = inner.operand(apply("mod", INT, distance, const(by, INT)))
                checks += inner.wrap((Check(Test("eq", rest, ZERO), "RG0804", message, span),))
        self._code.names[node.name] = ScalarPlace(node.name, t, index)
        body = self._block(node.body)
        del self._code.names[node.name]
        some = distance.op == "const" and distance.param != 0
        self._code.emit(*temporaries.wrap((*checks, For(index, first, end, by, body, False, some, span))))

    def _iterate_by_loop(self, node: syntax.Iterate, start: E, stop: E, last: Value, step: Value | None) -> None:
        """`local v = a; from v = a loop body; v += step until v = b + step; delocal v = b + step`."""
        t = word_type(node.type, self._code.w, self._code.fail, node.span)
        var = Var(node.name, INT, node.span)
        place = ScalarPlace(node.name, t, var)
        self._code.emit(Local(var, True, node.span))
        self._code.update(place, "add", Value(start, t))
        self._code.names[node.name] = place
        one = Value(const(1, INT), t)
        with self._code.collect() as body:
            self._code.emit(*self._block(node.body))
            self._code.update(place, "add", step or one)
        value = Value(word_in(place), t)
        begin = apply("seq", BOOL, value.e, to_stored(Value(start, t), t, self._code.w))
        stored = to_stored(Value(stop, t), t, self._code.w)
        self._loop(begin, (), tuple(body), apply("seq", BOOL, value.e, stored), node.start.span, node.stop.span)
        del self._code.names[node.name]
        self._code.update(place, "sub", Value(stop, t))
        self._code.emit(Delocal(var, True, node.stop.span))
