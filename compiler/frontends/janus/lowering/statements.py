"""Lowering of the statements of one procedure of Janus to the reversible IR.

    if p … fi q                    If(p, …, q); another condition than a test of cheap operands is kept in a bit
    x += e                         Op, within the temporaries of e; an element is exchanged into a variable where e needs some
    push(x, s)                     S[count], x = x, S[count]; count += 1

Errors of statements are kept in `Code.findings`, and the next statement is lowered, so a run reports several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.code import Code
from retrograd.compiler.frontends.janus.lowering.locals import Locals
from retrograd.compiler.frontends.janus.lowering.loops import Loops
from retrograd.compiler.frontends.janus.lowering.printing import Printing
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    ArrayPlace,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
)
from retrograd.compiler.ir.expressions import Address, read
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Op,
    Test,
    Var,
    invert,
)
from retrograd.compiler.language.values import branch_on, has_cheap_operands
from retrograd.isa.diagnostics import CompileError
from retrograd.isa.table import TABLE

_UPDATES = {"+=": "add", "-=": "sub", "^=": "xor"}

Statements = Sequence[syntax.Statement]


class StatementLowering:
    """Lowers the body of one version of a procedure.

    `written`: the names that statements change. `call`: lowers a call.
    """

    def __init__(
        self,
        code: Code,
        locals: Locals,
        written: Callable[[Statements], set[str]],
        call: Callable[[Code, syntax.Call], None],
    ) -> None:
        self.code, self.locals = code, locals
        self._call = call
        self._printing = Printing(code)
        self._loops = Loops(code, self.block, written)

    def block(self, statements: Statements) -> Block:
        """The IR of statements, which are not emitted."""
        outer = self.code.span
        with self.code.collect() as inner:
            self.lower(statements)
        self.code.span = outer
        return tuple(inner)

    def lower(self, statements: Statements) -> None:
        """Emit the IR of statements in a row."""
        for node in statements:
            self.code.span = node.span
            try:
                self._statement(node)
            except CompileError as error:
                self.code.findings += error.diagnostics

    def _statement(self, node: syntax.Statement) -> None:
        match node:
            case syntax.Update():
                self._update(node)
            case syntax.Swap():
                self._swap(node)
            case syntax.If():
                self._if(node)
            case syntax.Loop():
                self._loops.lower_loop(node)
            case syntax.Iterate():
                self._loops.lower_iterate(node)
            case syntax.Local():
                self._local(node)
            case syntax.Push():
                self.code.emit(*self._push(node))
            case syntax.Pop():
                self.code.emit(*invert(self._push(node)))
            case syntax.Call():
                self._call(self.code, node)
            case syntax.Assert():
                self._assert(node)
            case syntax.Error():
                self.code.emit(Check(Test("ne", ZERO, ZERO), "RG0804", f"error: {node.message}", node.span))
            case syntax.Skip():
                pass
            case syntax.Print() | syntax.Printf() | syntax.Show():
                self._printing.lower(node)

    # ------------------------------------------------------------------ updates

    def _update(self, node: syntax.Update) -> None:
        place = self.code.expressions.place(node.target)
        if not isinstance(place, ScalarPlace):
            self.code.fail(
                "RG0703", f"`{self.code.text(node.target.span)}` is no number, and has no {node.operator}", node.span
            )
        if isinstance(place.where, Address):
            self.code.expressions.changed = place.where
        try:
            value = self.code.expressions.of_type(node.value, place.type)
        finally:
            self.code.expressions.changed = None
        if place.type is None and node.operator != "^=":
            self.code.fail("RG0703", f"`{place.name}` is a bool, which has no {node.operator}", node.span)
        self._require_apart(node.target, place, (node.value,))
        self.code.update(place, _UPDATES[node.operator], value)

    def _require_apart(self, target: syntax.Reference, place: Place, others: Sequence[syntax.Expression]) -> None:
        """Refuse expressions that read a variable which a statement changes, and indices that read an array which it changes."""
        self.code.require_variable(place, target.span)
        for index in target.indices:
            for r in syntax.references(index):
                read_there = self.code.expressions.named(r.name, r.span)
                if _overlap(place, read_there):
                    message = (
                        f"an index of `{self.code.text(target.span)}` reads `{r.name}`, which the statement changes"
                    )
                    self.code.fail("RG0704", message, r.span)
        if isinstance(place, ScalarPlace) and isinstance(place.where, Var):
            for r in (r for e in others for r in syntax.references(e)):
                if _overlap(place, self.code.expressions.named(r.name, r.span)):
                    other = f"`{r.name}`" if r.name == place.name else f"`{r.name}`, another name of `{place.name}`"
                    self.code.fail(
                        "RG0704", f"`{self.code.text(self.code.span)}` reads {other}, which it changes", r.span
                    )

    def _swap(self, node: syntax.Swap) -> None:
        x, y = self.code.expressions.place(node.left), self.code.expressions.place(node.right)
        if type(x) is not type(y) or (
            not isinstance(x, StackPlace) and not isinstance(y, StackPlace) and x.type != y.type
        ):
            self.code.fail("RG0703", f"`{self.code.text(node.span)}` exchanges values of two types", node.span)
        for one, reference in ((x, node.left), (y, node.left), (x, node.right), (y, node.right)):
            self._require_apart(reference, one, ())
        match x, y:
            case ScalarPlace(where=Var() as a), ScalarPlace(where=Var() as b):
                if a is b:
                    self._fail_same()
                self.code.emit(Op(TABLE["swap"], a, b, None, 0, self.code.span))
            case ScalarPlace(where=a), ScalarPlace(where=b):
                if isinstance(b, Var):
                    a, b = b, a
                assert isinstance(b, Address)
                self._exchange(a, b, x.kind)
            case ArrayPlace(), ArrayPlace():
                self._require_lengths(x, y)
                self._exchange_all(x, y)
            case StackPlace(), StackPlace():
                self._exchange_all(x, y)

    def _fail_same(self) -> NoReturn:
        message = f"`{self.code.text(self.code.span)}` exchanges a variable with itself"
        self.code.fail("RG0705", message, self.code.span, "Leave the statement out.")

    def _require_distinct(self, a: Address, b: Address, t: Temporaries) -> Block:
        """Refuse places that are one place, and test those of one region that may be."""
        distance = a.minus(b) if a.region is b.region else 1
        if distance == 0:
            self._fail_same()
        if distance is not None:
            return ()
        test = Test("ne", t.operand(self.code.expressions.offset(a)), t.operand(self.code.expressions.offset(b)))
        message = f"`{self.code.text(self.code.span)}` exchanges an element with itself"
        return (Check(test, "RG0805", message, self.code.span),)

    def _exchange(self, a: Var | Address, b: Address, kind: Kind) -> None:
        t = self.code.temporaries()
        if isinstance(a, Var):
            self.code.emit(*t.wrap((t.memory("exch", a, b),)))
            return
        # Three exchanges would lose the word where both are the same.
        distinct = self._require_distinct(a, b, t)
        held = t.fresh("held", kind)
        first, second = t.memory("exch", held, a), t.memory("exch", held, b)
        self.code.emit(*t.wrap((*distinct, first, second, first)))

    def _require_lengths(self, x: ArrayPlace, y: ArrayPlace) -> None:
        """Refuse to exchange arrays of two shapes; lengths that are unknown yet are tested."""
        text = f"`{self.code.text(self.code.span)}` exchanges arrays of two shapes"
        if len(x.lengths) != len(y.lengths):
            self.code.fail("RG0712", text, self.code.span)
        for a, b in zip(x.lengths, y.lengths, strict=True):
            if isinstance(a, Var) or isinstance(b, Var):
                if a is not b:
                    first, second = (n if isinstance(n, Var) else Const(n) for n in (a, b))
                    self.code.emit(
                        Check(Test("eq", first, second), "RG0801", f"{text}: {{a}} and {{b}}", self.code.span)
                    )
            elif a != b:
                self.code.fail("RG0712", f"{text}: {a} and {b}", self.code.span)

    def _exchange_all(self, x: Place, y: Place) -> None:
        """Exchange arrays or stacks, word by word."""
        assert not isinstance(x, ScalarPlace)
        assert not isinstance(y, ScalarPlace)
        outer = self.code.temporaries()
        # Parts of one array that have one shape are the same part, or apart.
        distinct = self._require_distinct(x.address, y.address, outer)
        i, held = Var("i", INT), Var("held", INT, self.code.span)
        words = outer.operand(self.code.words(x))
        t = self.code.temporaries()
        t.compute.append(Local(held, False, self.code.span))
        a, b = (t.memory("exch", held, p.address.shifted(read(i), 1)) for p in (x, y))
        loop = For(i, ZERO, words, 1, t.wrap((a, b, a)), False, True, self.code.span)
        self.code.emit(*outer.wrap((*distinct, loop)))

    # ------------------------------------------------------------------ stacks

    def _push(self, node: syntax.Push | syntax.Pop) -> Block:
        """S[count], x = x, S[count]; count += 1, where S is zero from count on. The inverse is `pop`."""
        stack, place = self.code.expressions.stack(node.stack, node.span), self.code.expressions.place(node.value)
        if not isinstance(place, ScalarPlace) or place.type != Integer(self.code.w.width):
            self.code.fail(
                "RG0703", f"`{self.code.text(node.value.span)}` is no int, and a stack holds ints", node.value.span
            )
        self._require_apart(node.value, stack, ())
        self._require_apart(node.value, place, ())
        span, t = self.code.span, self.code.temporaries()
        if isinstance(place.where, Var):
            held = place.where
        else:
            held = t.fresh(place.name, INT)
            t.compute.append(t.memory("exch", held, place.where))
        count = Var("count", INT, span)
        inner, outer = self.code.temporaries(), self.code.temporaries()
        move = inner.wrap((inner.memory("exch", held, stack.address.moved(1).shifted(read(count), 1)),))
        room = Check(Test("ltu", count, Const(stack.capacity)), "RG0806", f"the stack `{stack.name}` is {{full}}", span)
        take = outer.memory("exch", count, stack.address)
        # The word above the top is zero. So x is zero after a push, and must be zero before a pop.
        name = self.code.text(node.value.span)
        message = f"`{name}` must be zero to take the top of the stack `{stack.name}`, and is not"
        empty = Check(Test("eq", held, ZERO), "RG0802", message, span)
        sequence: Block = (take, room, *move, empty, outer.op("mov", "add", count, Const(1)), take)
        return t.wrap(outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span))))

    # ------------------------------------------------------------------ conditions

    def _if(self, node: syntax.If) -> None:
        before, after = node.condition, node.exit
        self.code.pair(before, after)
        span = before.span
        pre, post = self.code.expressions.condition(before), self.code.expressions.condition(after)
        then, orelse = self.block(node.then), self.block(node.orelse)
        if has_cheap_operands(pre) and has_cheap_operands(post):
            t_pre, t_post = self.code.temporaries(), self.code.temporaries()
            self.code.emit(*branch_on((t_pre, t_pre.test(pre)), then, orelse, (t_post, t_post.test(post)), span))
            return
        # A bit holds which branch was taken: it is set by one condition and cleared by the other.
        bit = Var("branch", BOOL, span)
        first, second = self.code.text(before.span), self.code.text(after.span)
        message = f"`{second}` is {{truth}} after the `if`, and `{first}` is {{other}} before it"
        still = Check(Test("eq", bit, ZERO), "RG0803", message, after.span)
        taken = Test("ne", bit, ZERO)
        branch = If(taken, then, orelse, taken, span)
        self.code.emit(Local(bit, False, span), still, *self.code.toggle(bit, pre), branch)
        self.code.emit(*self.code.toggle(bit, post), still, Delocal(bit, False, span))

    def _assert(self, node: syntax.Assert) -> None:
        t = self.code.temporaries()
        claim = t.test(self.code.expressions.condition(node.condition))
        text = self.code.text(node.condition.span)
        self.code.emit(*t.wrap((Check(claim, "RG0804", f"`{text}` is false", node.condition.span),)))

    def _local(self, node: syntax.Local) -> None:
        self.locals.require_match(node)
        before = dict(self.code.names)
        try:
            for declaration in node.declarations:
                self.code.span = declaration.span
                self.code.emit(*self.locals.born(declaration))
            self.lower(node.body)
            for declaration in reversed(node.releases):
                self.code.span = declaration.span
                self.code.emit(*self.locals.freed(declaration))
        finally:
            self.code.names.clear()
            self.code.names.update(before)


def _overlap(x: Place, y: Place) -> bool:
    """Whether two names stand for one variable, or for elements of one array or stack."""
    if isinstance(x, ScalarPlace) and isinstance(x.where, Var):
        return isinstance(y, ScalarPlace) and y.where is x.where
    if isinstance(y, ScalarPlace) and isinstance(y.where, Var):
        return False
    a, b = (p.where if isinstance(p, ScalarPlace) else p.address for p in (x, y))
    return isinstance(a, Address) and isinstance(b, Address) and a.region is b.region
