"""Variables, arrays and stacks of `local … delocal …`: the statements that make them and free them.

    local t = e … delocal t = e'   Local; t += e; …; t −= e'; Delocal, tested for zero in both directions

Traps: RG0802 where a variable is freed with another value, or an array with an element that is not zero; RG0801 for a length below 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NoReturn

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.expressions import (
    BOOL,
    INT,
    ArrayPlace,
    Code,
    Integer,
    Place,
    ScalarPlace,
    StackPlace,
    Value,
    array_layouts,
    capacities_of,
    depth_of,
    described_place,
    exact,
    length_of,
    lengths_of,
    to_stored,
    word_in,
    word_type,
    words_of,
)
from retrograd.compiler.frontends.janus.printing import Printing
from retrograd.compiler.ir.expressions import Address, E, add, apply, const, load, negated, read, sub
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
from retrograd.compiler.language.values import branch_on, has_cheap_operands
from retrograd.isa.diagnostics import CompileError, Span
from retrograd.isa.program import ArrayLayout
from retrograd.isa.table import TABLE

#: elements of an array
LARGEST = 1 << 24
#: words that a stack of a recursive procedure may hold
_LOCAL_STACK = 1024


class Locals:
    """Makes and frees the locals of one version of a procedure.

    `owner`: the name of the version. `recursive`: more than one activation may be live. `capacity`: words of a stack.
    """

    def __init__(self, code: Code, owner: str, recursive: bool, capacity: int) -> None:
        self._code, self._owner, self._recursive, self._capacity = code, owner, recursive, capacity

    def require_match(self, node: syntax.Local) -> None:
        """Refuse a `delocal` of other names or types than its `local`."""
        for a, b in zip_longest(node.declarations, node.releases):
            if a is None or b is None or a.name != b.name:
                at = b or a
                local, delocal = (f"`{d.name}`" if d is not None else "nothing" for d in (a, b))
                message = f"`local` declares {local}, and `delocal` frees {delocal}"
                self._code.fail(
                    "RG0711", message, at.span, "Free the variables of each `local` together, the last `local` first."
                )
            if a.type != b.type or len(a.lengths) != len(b.lengths):
                self._code.fail("RG0703", f"`{a.name}` is freed with another type than it was declared with", b.span)

    def born(self, node: syntax.Declaration) -> Block:
        """The statements that make a local, whose name is in scope from here on."""
        if node.name in self._code.names:
            self._code.fail("RG0706", f"`{node.name}` is declared already", node.span)
        with self._code.collect() as out:
            if depth_of(node.type) and not node.lengths:
                self._new_stack(node)
            elif node.lengths:
                self._new_array(node)
            else:
                t = word_type(node.type, self._code.w, self._code.fail, node.span)
                place = ScalarPlace(node.name, t, Var(node.name, INT if t is not None else BOOL, node.place))
                assert isinstance(place.where, Var)
                self._code.emit(Local(place.where, True, node.span))
                if node.initial is not None:
                    self._code.update(place, "add", self._code.expressions.of_type(node.initial, t))
                self._code.names[node.name] = replace(place, constant=node.role == "constant")
        return tuple(out)

    def freed(self, node: syntax.Declaration) -> Block:
        """The statements that free a local with the value of the declaration."""
        place = self._code.names.pop(node.name)
        with self._code.collect() as out:
            match place:
                case ScalarPlace(where=Var() as var):
                    if node.initial is not None:
                        self._code.update(place, "sub", self._code.expressions.of_type(node.initial, place.type))
                    self._code.emit(Delocal(var, True, node.span))
                case ArrayPlace():
                    self._code.names[node.name] = place
                    self.fill(place, node, "sub")
                    del self._code.names[node.name]
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
                self._code.fail("RG0704", f"the values of `{node.name}` read `{node.name}` itself", r.span)
        for address, e in self._row_major(node.initial, place.lengths, place.address):
            if isinstance(e, syntax.Number) and e.value == 0:
                continue
            element = ScalarPlace(place.name, place.type, address)
            self._code.update(element, update, self._code.expressions.of_type(e, place.type))

    def _row_major(
        self, node: syntax.Expression, lengths: Sequence[int | Var], address: Address
    ) -> Iterator[tuple[Address, syntax.Expression]]:
        """(address, value) of the initial values of an array; missing values are zeros.

        The number of values is tested at run time where the length is known only then. A length is 1 at least.
        """
        if not lengths:
            yield address, node
            return
        first, rest = lengths[0], lengths[1:]
        message = f"`{self._code.text(node.span)}` does not fit the shape of the array"
        if not isinstance(node, syntax.Items) or (isinstance(first, int) and len(node.items) > first):
            self._code.fail("RG0712", message, node.span)
        if isinstance(first, Var) and len(node.items) > 1:
            enough = Test("ltu", Const(len(node.items) - 1), first)
            self._code.emit(Check(enough, "RG0801", f"{message}: its length is {{b}}", node.span))
        stride: E = const(1, INT)
        for length in rest:
            stride = self._code.expressions.product(stride, length_of(length))
        for k, item in enumerate(node.items):
            at = address.moved(k * stride.param) if stride.op == "const" else address.shifted(stride, k)
            yield from self._row_major(item, rest, at if k else address)

    def _new_stack(self, node: syntax.Declaration) -> None:
        capacities = self._capacities(node)
        inside = array_layouts(node.name, None, (), self._code.w, capacities)
        address = self._words_for(node, const(words_of(capacities), INT), inside)
        place = StackPlace(node.name, capacities, address)
        self._code.emit(*self._zero_tests(place, node))
        self._code.names[node.name] = place

    def _capacities(self, node: syntax.Declaration) -> tuple[int, ...]:
        words = min(self._capacity, _LOCAL_STACK) if self._recursive else self._capacity
        return capacities_of(depth_of(node.type), words)

    def _new_array(self, node: syntax.Declaration) -> None:
        lengths: list[int | Var] = []
        plain = Integer(self._code.w.width)
        for dimension in node.lengths:
            if dimension is None:
                self._code.fail("RG0703", f"`{node.name}` has no length", node.span)
            e = self._code.expressions.number(dimension)
            if e.op == "const":
                length = dimension.value if isinstance(dimension, syntax.Number) else e.param
                if not 1 <= length <= LARGEST:
                    hint = f"A length lies between 1 and {LARGEST}."
                    self._code.fail("RG0703", f"`{node.name}` has a length of {length}", dimension.span, hint)
                lengths.append(length)
                continue
            var = Var(f"{node.name}.length", INT, node.span)
            most = int(LARGEST ** (1 / len(node.lengths)))
            inner = self._code.temporaries()
            self._code.emit(Local(var, True, node.span))
            self._code.update(ScalarPlace(node.name, plain, var), "add", Value(e, plain))
            one_less = inner.operand(sub(read(var), const(1, INT), self._code.w))
            message = f"a length of `{node.name}` is not between 1 and {most}"
            self._code.emit(
                *inner.wrap((Check(Test("ltu", one_less, Const(most)), "RG0801", message, dimension.span),))
            )
            lengths.append(var)
        capacities = self._capacities(node)
        words: E = const(words_of(capacities), INT)
        for length in lengths:
            words = self._code.expressions.product(words, length_of(length))
        t = word_type(node.type, self._code.w, self._code.fail, node.span)
        address = self._words_for(node, words, array_layouts(node.name, t, lengths, self._code.w, capacities))
        place = ArrayPlace(node.name, t, tuple(lengths), address, capacities)
        self._code.emit(*self._zero_tests(place, node))
        self._code.names[node.name] = place
        self.fill(place, node, "add")

    def _words_for(self, node: syntax.Declaration, words: E, inside: tuple[ArrayLayout, ...]) -> Address:
        """The address of new words: static where there is one activation, and their number is known."""
        if words.op == "const" and not self._recursive:
            name = f"{self._owner}.{node.name}"
            return Address(self._code.module.static_region(name, words.param, node.span, layouts=inside), None)
        base = Var(f"{node.name}.base", Kind.ADDRESS, node.span)
        region = Region(node.name, words.param if words.op == "const" else 1, span=node.span, layouts=inside)
        self._code.emit(Local(base, False, node.span), Op(TABLE["mov.add"], base, SP, None, 0, node.span))
        self._code.emit(*self._grown(words, node.span))
        return Address(region, base)

    def _grown(self, words: E, span: Span) -> Block:
        t = self._code.temporaries()
        count = t.operand(words)
        return t.wrap((Op(TABLE["mov.add"], SP, count, None, 0, span),))

    def _free_words(self, place: ArrayPlace | StackPlace, node: syntax.Declaration) -> None:
        """Test for zeros, and free the words and the lengths."""
        self._code.emit(*self._zero_tests(place, node))
        base = place.address.base
        if base is not None:
            self._code.emit(*invert(self._grown(self._code.words(place), node.span)))
            self._code.emit(Op(TABLE["mov.sub"], base, SP, None, 0, node.span), Delocal(base, False, node.span))
        if isinstance(place, StackPlace):
            return
        for length, dimension in zip(reversed(place.lengths), reversed(node.lengths), strict=True):
            if isinstance(length, Var) and dimension is not None:
                value = self._code.expressions.number(dimension)
                t = self._code.temporaries()
                body: list[Node] = []
                t.into(body, length, "sub", value)
                self._code.emit(*t.wrap(tuple(body)), Delocal(length, True, dimension.span))

    def _zero_tests(self, place: ArrayPlace | StackPlace, node: syntax.Declaration) -> Block:
        """Tests that each word is zero, made at both ends of the life of an array or a stack."""
        span = node.span
        i, word = Var("i", INT), Var(place.name, INT, place.address.region.span)
        # Words above a count are zero, so the counts of stacks decide.
        words: E = const(1, INT)
        for length in lengths_of(place):
            words = self._code.expressions.product(words, length_of(length))
        if place.capacities:
            message = f"the stack `{place.name}` holds values when it is freed, and must be empty"
        else:
            message = f"`{place.name}[{{k}}]` is left with {{a}} when `{place.name}` is freed, and must be zero"
            if len(lengths_of(place)) > 1:
                message = f"`{place.name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        t = self._code.temporaries()
        t.compute += [
            Local(word, True, span),
            t.memory("exch", word, place.address.shifted(read(i), words_of(place.capacities))),
        ]
        body = t.wrap((Check(Test("eq", word, ZERO), "RG0802", message, span),))
        outer = self._code.temporaries()
        return outer.wrap((For(i, ZERO, outer.operand(words), 1, body, False, True, span),))


# -----------------------------------------------------------------------------
# Loops of Janus: `from … do … loop … until …` and `iterate`.
#
#     from p loop s until q          While(¬q, s, ¬p)
#     from p do s loop t until q     f, g := 0, 1;  While(g, [If(f, t, f);  f ^= p, which must be 1;  s;  g ^= q], f);  f ^= 1
#     iterate int i = a to b         For, where the body changes neither bound; else the loop that it stands for
#
# Backward, f is 1 at the beginning of each pass, so its test never fails, and the loop tests g.

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
        t = word_type(node.type, self._code.w, self._code.fail, node.span) if not depth_of(node.type) else None
        if t is None:
            self._code.fail("RG0703", "the index of `iterate` is an integer", node.span)
        if node.name in self._code.names:
            self._code.fail("RG0706", f"`{node.name}` is declared already", node.span)
        start, last = self._code.expressions.of_type(node.start, t), self._code.expressions.of_type(node.stop, t)
        step = self._code.expressions.of_type(node.step, t) if node.step is not None else None
        by = 1 if step is None else step.e.param if step.e.op == "const" else 0
        stop = add(last.e, const(by, INT) if step is None or by else step.e, self._code.w)
        changed = self._written(node.body)
        bounds = {r.name for e in (node.start, node.stop) for r in self._code.expressions.reads(e)}
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


# -----------------------------------------------------------------------------
# Lowering of the statements of one procedure of Janus to the reversible IR.
#
#     if p … fi q                    If(p, …, q); another condition than a test of cheap operands is kept in a bit
#     x *= e, x /= e                 see `_multiplied`
#     x += e                         Op, within the temporaries of e; an element is exchanged into a variable where e needs some
#     push(x, s)                     S[count], x = x, S[count]; count += 1
#
# Errors of statements are kept in `Code.findings`, and the next statement is lowered, so a run reports several.

_UPDATES = {"+=": "add", "-=": "sub", "^=": "xor"}


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
        if node.operator in _UPDATES:
            self.code.update(place, _UPDATES[node.operator], value)
        else:
            nodes = self._multiplied(node, place, value)
            self.code.emit(*(nodes if node.operator == "*=" else invert(nodes)))

    def _multiplied(self, node: syntax.Update, place: ScalarPlace, factor: Value) -> Block:
        """x *= e: q, x = x, q; x += q · e; q −= x / e, which is zero where q · e is in the range of the type.

        Backward, q is the quotient and x the remainder, which must be zero. Traps: RG0816, and RG0402 for e = 0.
        """
        code, span, text = self.code, node.span, self.code.text(node.span)
        former = Var("former", INT, span)
        q = replace(place, name="former", where=former)
        message = f"`{text}` has no inverse: the product is outside of the range of `{code.text(node.target.span)}`"
        if node.operator == "/=":
            message = f"`{text}` has no inverse backward: the product is outside of the range of `{place.name}`"
        remainder = f"`{text}` leaves the remainder {{a}}, and must leave none"
        with code.collect() as out:
            code.emit(Local(former, False, span), Check(Test("eq", former, ZERO), "RG0816", remainder, span))
            if isinstance(place.where, Var):
                code.emit(Op(TABLE["swap"], place.where, former, None, 0, span))
            else:
                t = code.temporaries()
                code.emit(*t.wrap((t.memory("exch", former, place.where),)))
            code.update(place, "add", code.expressions.binary("*", code.expressions.read(q), factor))
            e, x = exact(factor, code.w).e, code.expressions.read(place)
            if place.type is not None and place.type.signed and (e.op != "const" or e.param == -1):
                # The least number times −1 is itself as a word, and so is the quotient.
                t = code.temporaries()
                signs = [apply("slt", BOOL, v, const(0, INT)) for v in (code.expressions.read(q).e, e, x.e)]
                wrapped = apply("and", BOOL, apply("and", BOOL, signs[0], signs[1]), signs[2])
                code.emit(*t.wrap((Check(t.test(negated(wrapped)), "RG0816", message, span),)))
            code.update(q, "sub", code.expressions.binary("/", x, factor))
            code.emit(Check(Test("eq", former, ZERO), "RG0816", message, span), Delocal(former, False, span))
        return tuple(out)

    def _require_apart(self, target: syntax.Reference, place: Place, others: Sequence[syntax.Expression]) -> None:
        """Refuse expressions that read a variable which a statement changes, and indices that read an array which it changes."""
        self.code.require_variable(place, target.span)
        for index in target.indices:
            for r in self.code.expressions.reads(index):
                read_there = self.code.expressions.named(r.name, r.span)
                if _overlap(place, read_there):
                    message = (
                        f"an index of `{self.code.text(target.span)}` reads `{r.name}`, which the statement changes"
                    )
                    self.code.fail("RG0704", message, r.span)
        if isinstance(place, ScalarPlace) and isinstance(place.where, Var):
            for r in (r for e in others for r in self.code.expressions.reads(e)):
                if _overlap(place, self.code.expressions.named(r.name, r.span)):
                    other = f"`{r.name}`" if r.name == place.name else f"`{r.name}`, another name of `{place.name}`"
                    self.code.fail(
                        "RG0704", f"`{self.code.text(self.code.span)}` reads {other}, which it changes", r.span
                    )

    def _swap(self, node: syntax.Swap) -> None:
        x, y = self.code.expressions.place(node.left), self.code.expressions.place(node.right)
        if type(x) is not type(y) or described_place(x, self.code.w) != described_place(y, self.code.w):
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
                self._require_capacities(x, y)
                self._exchange_all(x, y)
            case StackPlace(), StackPlace():
                self._require_capacities(x, y)
                self._exchange_all(*sorted((x, y), key=lambda p: p.capacity))

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

    def _require_capacities(self, x: ArrayPlace | StackPlace, y: ArrayPlace | StackPlace) -> None:
        """Test that the values of the larger of two stacks fit the smaller; refuse other places of two capacities."""
        if x.capacities == y.capacities:
            return
        if len(x.capacities) > 1 or not isinstance(x, StackPlace) or not isinstance(y, StackPlace):
            hint = "Exchange stacks that are locals of one procedure, or pop one into the other."
            message = f"`{self.code.text(self.code.span)}` exchanges stacks that have room for other numbers of values"
            self.code.fail("RG0712", message, self.code.span, hint)
        small, large = sorted((x, y), key=lambda p: p.capacity)
        t = self.code.temporaries()
        fits = Test("ltu", t.operand(load(large.address, INT)), Const(small.capacity + 1))
        message = f"the stack `{large.name}` holds {{a}} values, and `{small.name}` has room for {small.capacity}"
        self.code.emit(*t.wrap((Check(fits, "RG0806", message, self.code.span),)))

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
        stack, place = self.code.expressions.stack(node.stack), self.code.expressions.place(node.value)
        depth = len(stack.capacities) - 1
        fits = isinstance(place, StackPlace) if depth else isinstance(place, ScalarPlace)
        if (
            not fits
            or described_place(place, self.code.w) != ("an int", "a stack" + " of stacks" * (depth - 1))[depth > 0]
        ):
            wanted = "stacks" + " of stacks" * (depth - 1) if depth else "ints"
            text, stacks = self.code.text(node.value.span), "stack " * (len(stack.capacities) + 1)
            way = f"Declare a stack of stacks: `{stacks}{stack.name}`." if isinstance(place, StackPlace) else None
            self.code.fail(
                "RG0703", f"`{text}` is no {wanted[:-1]}, and `{stack.name}` holds {wanted}", node.value.span, way
            )
        for one, reference in ((stack, node.stack), (stack, node.value), (place, node.stack), (place, node.value)):
            self._require_apart(reference, one, ())
        span, t = self.code.span, self.code.temporaries()
        count = Var("count", INT, span)
        top = stack.address.moved(1).shifted(read(count), stack.element)
        outer = self.code.temporaries()
        if isinstance(place, StackPlace):
            move = self._moved(place, stack, top, self.code.text(node.value.span))
        else:
            assert isinstance(place, ScalarPlace)
            if isinstance(place.where, Var):
                held = place.where
            else:
                held = t.fresh(place.name, INT)
                t.compute.append(t.memory("exch", held, place.where))
            inner = self.code.temporaries()
            # The word above the top is zero. So x is zero after a push, and must be zero before a pop.
            name = self.code.text(node.value.span)
            message = f"`{name}` must be zero to take the top of the stack `{stack.name}`, and is not"
            move = (
                *inner.wrap((inner.memory("exch", held, top),)),
                Check(Test("eq", held, ZERO), "RG0802", message, span),
            )
        room = Check(Test("ltu", count, Const(stack.capacity)), "RG0806", f"the stack `{stack.name}` is {{full}}", span)
        take = outer.memory("exch", count, stack.address)
        sequence: Block = (take, room, *move, outer.op("mov", "add", count, Const(1)), take)
        return t.wrap(outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span))))

    def _moved(self, own: StackPlace, stack: StackPlace, top: Address, name: str) -> Block:
        """n, count = count, n; own[i] <=> top[i] for i < n; n, count of the top = count of the top, n.

        The words above both counts are zero, so only those below n are exchanged. Before a pop, `own` must be empty.
        """
        code, span = self.code, self.code.span
        if own.capacities[1:] != stack.capacities[2:]:
            hint = "Make both in one procedure."
            code.fail(
                "RG0712", f"the stacks in `{name}` have other capacities than those in `{stack.name}`", span, hint
            )
        n, i, held = Var("values", INT, span), Var("i", INT), Var("held", INT, span)
        first, loop, body, last, end = (code.temporaries() for _ in range(5))
        body.compute.append(Local(held, False, span))
        a = body.memory("exch", held, own.address.moved(1).shifted(read(i), 1))
        b = body.memory("exch", held, top.moved(1).shifted(read(i), 1))
        words = loop.operand(code.expressions.product(read(n), const(own.element, INT)))
        room = stack.capacities[1]
        message = f"`{name}` holds {{a}} values, and a stack on `{stack.name}` has room for {room}"
        fits = Check(Test("ltu", n, Const(room + 1)), "RG0806", message, span)
        message = f"`{name}` must be empty to take the top of the stack `{stack.name}`, and holds {{a}} values"
        empty = Check(Test("eq", end.operand(load(own.address, INT)), ZERO), "RG0802", message, span)
        return (
            Local(n, False, span),
            *first.wrap((first.memory("exch", n, own.address),)),
            fits,
            *loop.wrap((For(i, ZERO, words, 1, body.wrap((a, b, a)), False, False, span),)),
            *last.wrap((last.memory("exch", n, top),)),
            Delocal(n, False, span),
            *end.wrap((empty,)),
        )

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
