"""Lowering of the statements of one procedure of Janus to the reversible IR.

    if p … fi q                    If(p, …, q); a condition that needs temporaries is kept in a bit
    from p loop s until q          While(¬q, s, ¬p)
    from p do s loop t until q     f, g := 0, 1;  While(g, [If(f, t, f);  f ^= p, which must be 1;  s;  g ^= q], f);  f ^= 1
    iterate int i = a to b         For, where the body changes neither bound; else the loop that it stands for
    local t = e … delocal t = e'   Local; t += e; …; t −= e'; Delocal, tested for zero in both directions

Backward, f is 1 at the beginning of each pass, so its test never fails, and the loop tests g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from math import prod
from typing import NoReturn

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.expressions import Expressions, integer
from retrograd.compiler.frontends.janus.lowering.printing import Printing
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    ArrayPlace,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    Value,
    length_of,
    to_stored,
    word_in,
)
from retrograd.compiler.frontends.module_builder import ModuleBuilder
from retrograd.compiler.ir.expressions import Address, E, add, apply, const, read, sub
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    SP,
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Node,
    Op,
    Region,
    Test,
    Var,
    While,
    invert,
)
from retrograd.compiler.language.conditions import Condition
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.table import TABLE

_UPDATES = {"+=": "add", "-=": "sub", "^=": "xor"}
#: words that one array may have whose size is known when the program runs
_LARGEST = 1 << 24
#: words that a stack of a recursive procedure may hold
_LOCAL_STACK = 1024

Statements = Sequence[syntax.Statement]


class StatementLowering:
    """Lowers the body of one version of a procedure.

    `owner`: the name of the version. `recursive`: more than one activation may be live. `written`: the names that statements change.
    `call`: lowers a call. `capacity`: words of a stack.
    """

    def __init__(
        self,
        module: ModuleBuilder,
        source: syntax.Source,
        owner: str,
        recursive: bool,
        written: Callable[[Statements], set[str]],
        call: Callable[[StatementLowering, syntax.Call], None],
        capacity: int,
    ) -> None:
        self.module, self.w, self.source = module, module.w, source
        self.owner, self.recursive, self.capacity = owner, recursive, capacity
        self.names: dict[str, Place] = {}
        self.out: list[Node] = []
        self.span = Span(source.name, 1, 1, 2)
        self.expressions = Expressions(self.w, self.names, self.text, self.fail)
        self._written, self._call = written, call
        self._printing = Printing(self)

    # ------------------------------------------------------------------ the source

    def text(self, span: Span) -> str:
        """The piece of the source at a place."""
        line = self.source.lines[span.line - 1] if 0 < span.line <= len(self.source.lines) else ""
        found = line[span.column - 1 : span.end - 1].strip()
        return found if len(found) <= 50 else found[:47] + "…"

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        line = self.source.lines[span.line - 1] if 0 < span.line <= len(self.source.lines) else None
        raise CompileError(Diagnostic(code, message, span, hint, line))

    # ------------------------------------------------------------------ emission

    def emit(self, *nodes: Node) -> None:
        self.out.extend(nodes)

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.span, self.module.powers)

    @contextmanager
    def collect(self) -> Iterator[list[Node]]:
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def block(self, statements: Statements) -> Block:
        """The IR of statements, which are not emitted."""
        outer = self.span
        with self.collect() as inner:
            self.lower(statements)
        self.span = outer
        return tuple(inner)

    def lower(self, statements: Statements) -> None:
        """Emit the IR of statements in a row."""
        for node in statements:
            self.span = node.span
            self._statement(node)

    def _statement(self, node: syntax.Statement) -> None:
        match node:
            case syntax.Update():
                self._update(node)
            case syntax.Swap():
                self._swap(node)
            case syntax.If():
                self._if(node)
            case syntax.Loop():
                self._loop_statement(node)
            case syntax.Iterate():
                self._iterate(node)
            case syntax.Local():
                self._local(node)
            case syntax.Push():
                self.emit(*self._push(node))
            case syntax.Pop():
                self.emit(*invert(self._push(node)))
            case syntax.Call():
                self._call(self, node)
            case syntax.Assert():
                self._assert(node)
            case syntax.Error():
                self.emit(Check(Test("ne", ZERO, ZERO), "RG0804", f"error: {node.message}", node.span))
            case syntax.Skip():
                pass
            case syntax.Print() | syntax.Printf() | syntax.Show():
                self._printing.lower(node)

    # ------------------------------------------------------------------ updates

    def update(self, place: ScalarPlace, update: str, value: Value) -> None:
        """place update= value."""
        e = to_stored(value, place.type, self.w)
        if place.kind is BOOL:
            update = "xor"
        t = self.temporaries()
        where = place.where
        body: list[Node] = []
        if isinstance(where, Var):
            t.into(body, where, update, e)
            self.emit(*t.wrap(tuple(body)))
            return
        if e.op in ("const", "read", "load"):
            body.append(t.memory(f"st.{update}", t.operand(e), where))
        else:
            d = Var(where.region.name, place.kind, self.span)
            t.into(body, d, update, e)
            # The word is exchanged into d after the temporaries are computed, since they may read the array.
            t.compute += [Local(d, False, self.span), t.memory("exch", d, where)]
        self.emit(*t.wrap(tuple(body)))

    def _update(self, node: syntax.Update) -> None:
        place = self.expressions.place(node.target)
        if not isinstance(place, ScalarPlace):
            self.fail("RG0703", f"`{self.text(node.target.span)}` is no number, and has no {node.operator}", node.span)
        if isinstance(place.where, Address):
            self.expressions.changed = place.where
        try:
            value = self.expressions.of_type(node.value, place.type)
        finally:
            self.expressions.changed = None
        if place.type is None and node.operator != "^=":
            self.fail("RG0703", f"`{place.name}` is a bool, which has no {node.operator}", node.span)
        self._require_apart(node.target, place, (node.value,))
        self.update(place, _UPDATES[node.operator], value)

    def require_variable(self, place: Place, span: Span) -> None:
        """Refuse to change a constant."""
        if isinstance(place, ScalarPlace) and place.constant:
            self.fail("RG0709", f"`{place.name}` is a constant, and cannot be changed", span)

    def _require_apart(self, target: syntax.Reference, place: Place, others: Sequence[syntax.Expression]) -> None:
        """Refuse expressions that read a variable which a statement changes, and indices that read an array which it changes."""
        self.require_variable(place, target.span)
        for index in target.indices:
            for r in syntax.references(index):
                read_there = self.expressions.named(r.name, r.span)
                if _overlap(place, read_there):
                    message = f"an index of `{self.text(target.span)}` reads `{r.name}`, which the statement changes"
                    self.fail("RG0704", message, r.span)
        if isinstance(place, ScalarPlace) and isinstance(place.where, Var):
            for r in (r for e in others for r in syntax.references(e)):
                if _overlap(place, self.expressions.named(r.name, r.span)):
                    other = f"`{r.name}`" if r.name == place.name else f"`{r.name}`, another name of `{place.name}`"
                    self.fail("RG0704", f"`{self.text(self.span)}` reads {other}, which it changes", r.span)

    def _swap(self, node: syntax.Swap) -> None:
        x, y = self.expressions.place(node.left), self.expressions.place(node.right)
        if type(x) is not type(y) or (
            not isinstance(x, StackPlace) and not isinstance(y, StackPlace) and x.type != y.type
        ):
            self.fail("RG0703", f"`{self.text(node.span)}` exchanges values of two types", node.span)
        for one, reference in ((x, node.left), (y, node.left), (x, node.right), (y, node.right)):
            self._require_apart(reference, one, ())
        match x, y:
            case ScalarPlace(where=Var() as a), ScalarPlace(where=Var() as b):
                if a is not b:
                    self.emit(Op(TABLE["swap"], a, b, None, 0, self.span))
            case ScalarPlace(where=a), ScalarPlace(where=b):
                if isinstance(b, Var):
                    a, b = b, a
                assert isinstance(b, Address)
                self._exchange(a, b, x.kind)
            case (ArrayPlace(), ArrayPlace()) | (StackPlace(), StackPlace()):
                self._exchange_all(x, y)

    def _exchange(self, a: Var | Address, b: Address, kind: Kind) -> None:
        t = self.temporaries()
        if isinstance(a, Var):
            self.emit(*t.wrap((t.memory("exch", a, b),)))
            return
        distance = a.minus(b) if a.region is b.region else None
        if distance == 0:
            return
        held = t.fresh("held", kind)
        first, second = t.memory("exch", held, a), t.memory("exch", held, b)
        nodes: Block = (first, second, first)
        if a.region is b.region and distance is None:
            # Three exchanges would lose the word where both are the same.
            test = Test("ne", t.operand(self.expressions.offset(a)), t.operand(self.expressions.offset(b)))
            nodes = (If(test, nodes, (), test, self.span),)
        self.emit(*t.wrap(nodes))

    def _exchange_all(self, x: Place, y: Place) -> None:
        """Exchange arrays or stacks, word by word."""
        assert not isinstance(x, ScalarPlace)
        assert not isinstance(y, ScalarPlace)
        if x.address.region is y.address.region:
            return
        outer = self.temporaries()
        i, held = Var("i", INT), Var("held", INT, self.span)
        words = outer.operand(self._words(x))
        t = self.temporaries()
        t.compute.append(Local(held, False, self.span))
        a, b = (t.memory("exch", held, p.address.shifted(read(i), 1)) for p in (x, y))
        self.emit(*outer.wrap((For(i, ZERO, words, 1, t.wrap((a, b, a)), False, True, self.span),)))

    def _words(self, place: ArrayPlace | StackPlace) -> E:
        """The number of words that an array or stack has."""
        if isinstance(place, StackPlace):
            return const(place.capacity + 1, INT)
        out: E = const(1, INT)
        for length in place.lengths:
            out = self.expressions.product(out, length_of(length))
        return out

    # ------------------------------------------------------------------ stacks

    def _push(self, node: syntax.Push | syntax.Pop) -> Block:
        """S[count], x = x, S[count]; count += 1, where S is zero from count on. The inverse is `pop`."""
        stack, place = self.expressions.stack(node.stack, node.span), self.expressions.place(node.value)
        if not isinstance(place, ScalarPlace) or place.type != Integer(self.w.width):
            self.fail("RG0703", f"`{self.text(node.value.span)}` is no int, and a stack holds ints", node.value.span)
        self._require_apart(node.value, stack, ())
        self._require_apart(node.value, place, ())
        span, t = self.span, self.temporaries()
        if isinstance(place.where, Var):
            held = place.where
        else:
            held = t.fresh(place.name, INT)
            t.compute.append(t.memory("exch", held, place.where))
        count = Var("count", INT, span)
        inner, outer = self.temporaries(), self.temporaries()
        move = inner.wrap((inner.memory("exch", held, stack.address.moved(1).shifted(read(count), 1)),))
        room = Check(Test("ltu", count, Const(stack.capacity)), "RG0806", f"the stack `{stack.name}` is {{full}}", span)
        take = outer.memory("exch", count, stack.address)
        # The word above the top is zero. So x is zero after a push, and must be zero before a pop.
        name = self.text(node.value.span)
        message = f"`{name}` must be zero to take the top of the stack `{stack.name}`, and is not"
        empty = Check(Test("eq", held, ZERO), "RG0802", message, span)
        sequence: Block = (take, room, *move, empty, outer.op("mov", "add", count, Const(1)), take)
        return t.wrap(outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span))))

    # ------------------------------------------------------------------ conditions

    def _pair(self, before: syntax.Expression, after: syntax.Expression, negated: bool = False) -> None:
        """Keep the texts of two conditions for the messages of traps."""
        self.module.conditions[before.span] = self._described(before, negated), self._described(after, negated)

    def _described(self, node: syntax.Expression, negated: bool) -> Condition:
        sides: tuple[str | None, str | None] = (None, None)
        if isinstance(node, syntax.Binary) and node.operator in ("<", ">=", "=", "!=", ">", "<="):
            pair = [node.left, node.right]
            if node.operator in (">", "<="):
                pair.reverse()
            texts = [None if isinstance(x, syntax.Number) else self.text(x.span) for x in pair]
            sides = texts[0], texts[1]
        return Condition(self.text(node.span), node.span, sides, negated)

    def _toggle(self, bit: Var, condition: E) -> Block:
        """bit ^= condition."""
        t = self.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def _if(self, node: syntax.If) -> None:
        before, after = node.condition, node.exit
        self._pair(before, after)
        span = before.span
        pre, post = self.expressions.condition(before), self.expressions.condition(after)
        t_pre, t_post = self.temporaries(), self.temporaries()
        test, post_test = t_pre.test(pre), t_post.test(post)
        then, orelse = self.block(node.then), self.block(node.orelse)
        if not t_pre.compute and not t_post.compute:
            self.emit(If(test, then, orelse, post_test, span))
            return
        # A bit holds which branch was taken: it is set by one condition and cleared by the other.
        bit = Var("branch", BOOL, span)
        first, second = self.text(before.span), self.text(after.span)
        message = f"`{second}` is {{truth}} after the `if`, and `{first}` is {{other}} before it"
        still = Check(Test("eq", bit, ZERO), "RG0803", message, after.span)
        taken = Test("ne", bit, ZERO)
        branch = If(taken, then, orelse, taken, span)
        self.emit(Local(bit, False, span), still, *self._toggle(bit, pre), branch)
        self.emit(*self._toggle(bit, post), still, Delocal(bit, False, span))

    def _assert(self, node: syntax.Assert) -> None:
        t = self.temporaries()
        claim = t.test(self.expressions.condition(node.condition))
        text = self.text(node.condition.span)
        self.emit(*t.wrap((Check(claim, "RG0804", f"`{text}` is false", node.condition.span),)))

    # ------------------------------------------------------------------ loops

    def _loop_statement(self, node: syntax.Loop) -> None:
        self._pair(node.exit, node.entry, negated=True)
        entry, until = self.expressions.condition(node.entry), self.expressions.condition(node.exit)
        do, loop = self.block(node.do), self.block(node.loop)
        self._loop(entry, do, loop, until, node.entry.span, node.exit.span)

    def _loop(self, entry: E, do: Block, loop: Block, until: E, at: Span, end: Span) -> None:
        t_entry, t_until = self.temporaries(), self.temporaries()
        begun, ended = t_entry.test(entry), t_until.test(until)
        if not do and not t_entry.compute and not t_until.compute:
            self.emit(While(ended.negated(), loop, begun.negated(), end))
            return
        f, g = Var("passed", BOOL, end), Var("again", BOOL, end)
        passed, again = Test("ne", f, ZERO), Test("ne", g, ZERO)
        one = Const(1)
        text = self.text(at)
        message = f"`{text}` is {{truth}}, and must be true before the loop and false after each pass"
        entered = Check(passed, "RG0803", message, at)
        body: list[Node] = [If(passed, loop, (), passed, end)] if loop else []
        body += [*self._toggle(f, entry), entered, *do, *self._toggle(g, until)]
        self.emit(Local(f, False, end), Local(g, False, end), Op(TABLE["mov.xor"], g, one, None, 0, end))
        self.emit(While(again, tuple(body), passed, end))
        self.emit(Op(TABLE["mov.xor"], f, one, None, 0, end), Delocal(g, False, end), Delocal(f, False, end))

    def _iterate(self, node: syntax.Iterate) -> None:
        t = integer(node.type, self.w) if node.type != "stack" else None
        if t is None:
            self.fail("RG0703", "the index of `iterate` is an integer", node.span)
        if node.name in self.names:
            self.fail("RG0706", f"`{node.name}` is declared already", node.span)
        start, last = self.expressions.of_type(node.start, t), self.expressions.of_type(node.stop, t)
        step = self.expressions.of_type(node.step, t) if node.step is not None else None
        by = 1 if step is None else step.e.param if step.e.op == "const" else 0
        stop = add(last.e, const(by, INT) if step is None or by else step.e, self.w)
        changed = self._written(node.body)
        bounds = {r.name for e in (node.start, node.stop) for r in syntax.references(e)}
        if not by or node.name in changed or bounds & changed or t.width != self.w.width:
            self._iterate_by_loop(node, start.e, stop, last, step)
            return
        index = Var(node.name, INT, node.span)
        span = node.span
        temporaries = self.temporaries()
        first, end = temporaries.operand(start.e), temporaries.operand(stop)
        distance = sub(stop, start.e, self.w)
        checks: list[Node] = []
        message = f"`{self.text(node.span)}` never ends: its index does not meet the last value"
        if distance.op == "const":
            ends = distance.param * by >= 0 and distance.param % by == 0
            if not ends:
                checks.append(Check(Test("ne", ZERO, ZERO), "RG0804", message, span))
                first = end
        else:
            low, high = (first, end) if by > 0 else (end, first)
            checks.append(Check(Test("ge", high, low), "RG0804", message, span))
            if abs(by) > 1:
                inner = self.temporaries()
                rest = inner.operand(apply("mod", INT, distance, const(by, INT)))
                checks += inner.wrap((Check(Test("eq", rest, ZERO), "RG0804", message, span),))
        self.names[node.name] = ScalarPlace(node.name, t, index)
        body = self.block(node.body)
        del self.names[node.name]
        some = distance.op == "const" and distance.param != 0
        self.emit(*temporaries.wrap((*checks, For(index, first, end, by, body, False, some, span))))

    def _iterate_by_loop(self, node: syntax.Iterate, start: E, stop: E, last: Value, step: Value | None) -> None:
        """`local v = a; from v = a loop body; v += step until v = b + step; delocal v = b + step`."""
        t = integer(node.type, self.w)
        var = Var(node.name, INT, node.span)
        place = ScalarPlace(node.name, t, var)
        self.emit(Local(var, True, node.span))
        self.update(place, "add", Value(start, t))
        self.names[node.name] = place
        one = Value(const(1, INT), t)
        with self.collect() as body:
            self.lower(node.body)
            self.update(place, "add", step or one)
        value = Value(word_in(place), t)
        begin = apply("seq", BOOL, value.e, to_stored(Value(start, t), t, self.w))
        stored = to_stored(Value(stop, t), t, self.w)
        self._loop(begin, (), tuple(body), apply("seq", BOOL, value.e, stored), node.start.span, node.stop.span)
        del self.names[node.name]
        self.update(place, "sub", Value(stop, t))
        self.emit(Delocal(var, True, node.stop.span))

    # ------------------------------------------------------------------ locals

    def _require_match(self, node: syntax.Local) -> None:
        """Refuse a `delocal` of other names or types than its `local`."""
        for a, b in zip_longest(node.declarations, node.releases):
            if a is None or b is None or a.name != b.name:
                at = b or a
                local, delocal = (f"`{d.name}`" if d is not None else "nothing" for d in (a, b))
                message = f"`local` declares {local}, and `delocal` frees {delocal}"
                self.fail(
                    "RG0711", message, at.span, "Free the variables of each `local` together, the last `local` first."
                )
            if a.type != b.type or len(a.lengths) != len(b.lengths):
                self.fail("RG0703", f"`{a.name}` is freed with another type than it was declared with", b.span)

    def _local(self, node: syntax.Local) -> None:
        self._require_match(node)
        before = dict(self.names)
        for declaration in node.declarations:
            self.span = declaration.span
            self.emit(*self.born(declaration))
        self.lower(node.body)
        for declaration in reversed(node.releases):
            self.span = declaration.span
            self.emit(*self.freed(declaration))
        self.names.clear()
        self.names.update(before)

    def born(self, node: syntax.Declaration) -> Block:
        """The statements that make a local, whose name is in scope from here on."""
        if node.name in self.names:
            self.fail("RG0706", f"`{node.name}` is declared already", node.span)
        with self.collect() as out:
            if node.type == "stack":
                self._new_stack(node)
            elif node.lengths:
                self._new_array(node)
            else:
                t = integer(node.type, self.w)
                place = ScalarPlace(node.name, t, Var(node.name, INT if t is not None else BOOL, node.span))
                assert isinstance(place.where, Var)
                self.emit(Local(place.where, True, node.span))
                if node.initial is not None:
                    self.update(place, "add", self.expressions.of_type(node.initial, t))
                self.names[node.name] = replace(place, constant=node.role == "constant")
        return tuple(out)

    def freed(self, node: syntax.Declaration) -> Block:
        """The statements that free a local with the value of the declaration."""
        place = self.names.pop(node.name)
        with self.collect() as out:
            match place:
                case ScalarPlace(where=Var() as var):
                    if node.initial is not None:
                        self.update(place, "sub", self.expressions.of_type(node.initial, place.type))
                    self.emit(Delocal(var, True, node.span))
                case ArrayPlace():
                    self.names[node.name] = place
                    self.fill(place, node, "sub")
                    del self.names[node.name]
                    self._free_words(place, node)
                case StackPlace():
                    self._free_words(place, node)
        return tuple(out)

    def fill(self, place: ArrayPlace, node: syntax.Declaration, update: str) -> None:
        """array update= the values of its declaration, in row-major order."""
        if node.initial is None:
            return
        for r in syntax.references(node.initial):
            if r.name == node.name:
                self.fail("RG0704", f"the values of `{node.name}` read `{node.name}` itself", r.span)
        for at, e in self._row_major(node.initial, place.lengths, 0):
            if isinstance(e, syntax.Number) and e.value == 0:
                continue
            element = ScalarPlace(place.name, place.type, place.address.moved(at))
            self.update(element, update, self.expressions.of_type(e, place.type))

    def _row_major(
        self, node: syntax.Expression, lengths: Sequence[int | Var], at: int
    ) -> Iterator[tuple[int, syntax.Expression]]:
        """(position, value) of the initial values of an array; missing values are zeros."""
        if not lengths:
            yield at, node
            return
        rest = lengths[1:]
        known = [n for n in lengths if isinstance(n, int)]
        if not isinstance(node, syntax.Items) or len(known) < len(lengths) or len(node.items) > known[0]:
            self.fail("RG0712", f"`{self.text(node.span)}` does not fit the shape of the array", node.span)
        for k, item in enumerate(node.items):
            yield from self._row_major(item, rest, at + k * prod(known[1:]))

    def _new_stack(self, node: syntax.Declaration) -> None:
        capacity = min(self.capacity, _LOCAL_STACK) if self.recursive else self.capacity
        address = self._words_for(node, const(capacity + 1, INT))
        place = StackPlace(node.name, capacity, address)
        self.emit(*self._zero_tests(place, node))
        self.names[node.name] = place

    def _new_array(self, node: syntax.Declaration) -> None:
        lengths: list[int | Var] = []
        plain = Integer(self.w.width)
        for dimension in node.lengths:
            if dimension is None:
                self.fail("RG0703", f"`{node.name}` has no length", node.span)
            e = self.expressions.number(dimension)
            if e.op == "const":
                if e.param < 1:
                    self.fail("RG0703", f"`{node.name}` has a length of {e.param}", dimension.span)
                lengths.append(e.param)
                continue
            var = Var(f"{node.name}.length", INT, node.span)
            most = int(_LARGEST ** (1 / len(node.lengths)))
            inner = self.temporaries()
            self.emit(Local(var, True, node.span))
            self.update(ScalarPlace(node.name, plain, var), "add", Value(e, plain))
            one_less = inner.operand(sub(read(var), const(1, INT), self.w))
            message = f"a length of `{node.name}` is not between 1 and {most}"
            self.emit(*inner.wrap((Check(Test("ltu", one_less, Const(most)), "RG0801", message, dimension.span),)))
            lengths.append(var)
        words: E = const(1, INT)
        for length in lengths:
            words = self.expressions.product(words, length_of(length))
        place = ArrayPlace(node.name, integer(node.type, self.w), tuple(lengths), self._words_for(node, words))
        self.emit(*self._zero_tests(place, node))
        self.names[node.name] = place
        self.fill(place, node, "add")

    def _words_for(self, node: syntax.Declaration, words: E) -> Address:
        """The address of new words: static where there is one activation, and their number is known."""
        if words.op == "const" and not self.recursive:
            return Address(self.module.static_region(f"{self.owner}.{node.name}", words.param, node.span), None)
        base = Var(f"{node.name}.base", Kind.ADDRESS, node.span)
        region = Region(node.name, words.param if words.op == "const" else 1, span=node.span)
        self.emit(Local(base, False, node.span), Op(TABLE["mov.add"], base, SP, None, 0, node.span))
        self.emit(*self._grown(words, node.span))
        return Address(region, base)

    def _grown(self, words: E, span: Span) -> Block:
        t = self.temporaries()
        count = t.operand(words)
        return t.wrap((Op(TABLE["mov.add"], SP, count, None, 0, span),))

    def _free_words(self, place: ArrayPlace | StackPlace, node: syntax.Declaration) -> None:
        """Test for zeros, and free the words and the lengths."""
        self.emit(*self._zero_tests(place, node))
        base = place.address.base
        if base is not None:
            self.emit(*invert(self._grown(self._words(place), node.span)))
            self.emit(Op(TABLE["mov.sub"], base, SP, None, 0, node.span), Delocal(base, False, node.span))
        if isinstance(place, StackPlace):
            return
        for length, dimension in zip(reversed(place.lengths), reversed(node.lengths), strict=True):
            if isinstance(length, Var) and dimension is not None:
                value = self.expressions.number(dimension)
                t = self.temporaries()
                body: list[Node] = []
                t.into(body, length, "sub", value)
                self.emit(*t.wrap(tuple(body)), Delocal(length, True, dimension.span))

    def _zero_tests(self, place: ArrayPlace | StackPlace, node: syntax.Declaration) -> Block:
        """Tests that each word is zero, made at both ends of the life of an array or a stack."""
        span = node.span
        i, word = Var("i", INT), Var(place.name, INT, place.address.region.span)
        if isinstance(place, StackPlace):
            # Words above the count are zero, so the count decides.
            words: E = const(1, INT)
            message = f"the stack `{place.name}` holds values when it is freed, and must be empty"
        else:
            words = self._words(place)
            message = f"`{place.name}[{{k}}]` is left with {{a}} when `{place.name}` is freed, and must be zero"
            if len(place.lengths) > 1:
                message = f"`{place.name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        t = self.temporaries()
        t.compute += [Local(word, True, span), t.memory("exch", word, place.address.shifted(read(i), 1))]
        body = t.wrap((Check(Test("eq", word, ZERO), "RG0802", message, span),))
        outer = self.temporaries()
        return outer.wrap((For(i, ZERO, outer.operand(words), 1, body, False, True, span),))


def _overlap(x: Place, y: Place) -> bool:
    """Whether two names stand for one variable, or for elements of one array or stack."""
    if isinstance(x, ScalarPlace) and isinstance(x.where, Var):
        return isinstance(y, ScalarPlace) and y.where is x.where
    if isinstance(y, ScalarPlace) and isinstance(y.where, Var):
        return False
    a, b = (p.where if isinstance(p, ScalarPlace) else p.address for p in (x, y))
    return isinstance(a, Address) and isinstance(b, Address) and a.region is b.region
