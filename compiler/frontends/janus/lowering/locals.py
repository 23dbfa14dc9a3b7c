"""Variables, arrays and stacks of `local … delocal …`: the statements that make them and free them.

    local t = e … delocal t = e'   Local; t += e; …; t −= e'; Delocal, tested for zero in both directions

Traps: RG0802 where a variable is freed with another value, or an array with an element that is not zero; RG0801 for a length below 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.code import Code
from retrograd.compiler.frontends.janus.lowering.expressions import word_type
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    ArrayPlace,
    Integer,
    ScalarPlace,
    StackPlace,
    Value,
    array_layouts,
    length_of,
    stack_layouts,
)
from retrograd.compiler.ir.expressions import Address, E, const, read, sub
from retrograd.compiler.ir.statements import (
    SP,
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    Kind,
    Local,
    Node,
    Op,
    Region,
    Test,
    Var,
    invert,
)
from retrograd.isa.diagnostics import Span
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
            if node.type == "stack":
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
        capacity = min(self._capacity, _LOCAL_STACK) if self._recursive else self._capacity
        address = self._words_for(node, const(capacity + 1, INT), stack_layouts(node.name, capacity))
        place = StackPlace(node.name, capacity, address)
        self._code.emit(*self._zero_tests(place, node))
        self._code.names[node.name] = place

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
        words: E = const(1, INT)
        for length in lengths:
            words = self._code.expressions.product(words, length_of(length))
        t = word_type(node.type, self._code.w, self._code.fail, node.span)
        address = self._words_for(node, words, array_layouts(node.name, t, lengths, self._code.w))
        place = ArrayPlace(node.name, t, tuple(lengths), address)
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
        if isinstance(place, StackPlace):
            # Words above the count are zero, so the count decides.
            words: E = const(1, INT)
            message = f"the stack `{place.name}` holds values when it is freed, and must be empty"
        else:
            words = self._code.words(place)
            message = f"`{place.name}[{{k}}]` is left with {{a}} when `{place.name}` is freed, and must be zero"
            if len(place.lengths) > 1:
                message = f"`{place.name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        t = self._code.temporaries()
        t.compute += [Local(word, True, span), t.memory("exch", word, place.address.shifted(read(i), 1))]
        body = t.wrap((Check(Test("eq", word, ZERO), "RG0802", message, span),))
        outer = self._code.temporaries()
        return outer.wrap((For(i, ZERO, outer.operand(words), 1, body, False, True, span),))
