"""Statements that add a list of the heap to an array of results.

    compute:  table[0] := first;  table[k] := tail of table[k − 1]          in the heap, n words
    copy:     out[k] += head of table[k]

The table is uncomputed with everything else. Trap RG0813: the list has another length than the array.
"""

from __future__ import annotations

from collections.abc import Callable

from retrograd.compiler.frontends.functional.lowering.body import Body
from retrograd.compiler.ir.expressions import Address, E, load, read
from retrograd.compiler.ir.statements import Block, Check, Const, Delocal, For, Kind, Local, Node, Op, Test, Var
from retrograd.compiler.language.types import known
from retrograd.compiler.language.values import ArrayView
from retrograd.isa.table import TABLE


class ArrayResult:
    """The copy of one list, whose items are one word long, into an array."""

    def __init__(self, body: Body, out: ArrayView) -> None:
        self._body, self._out = body, out
        (self._count,) = known(out.shape)
        self._table = Var("table", Kind.ADDRESS, body.span)

    def compute(self, first: E) -> None:
        """Fill the table."""
        body, span, heap = self._body, self._body.span, self._body.heap
        start = body.operand(first)
        message = f"there is room for {self._count} words of the result, which has more or fewer"
        if not self._count:
            body.emit(Check(Test("eq", start, Const(0)), "RG0813", message, span))
            return
        body.room(self._count)
        body.emit(
            Check(Test("ne", start, Const(0)), "RG0813", message, span),
            Local(self._table),
            Op(TABLE["mov.add"], self._table, body.hp, None, 0, span),
            Op(TABLE["st.add"], None, body.hp, start, 0, span, heap.region),
        )
        k = Var("k", Kind.INT, span)

        def step() -> None:
            before = body.atom(load(Address(heap.region, self._table, ((read(k), 1),), -1), Kind.ADDRESS), "cell")
            tail = body.atom(load(Address(heap.region, before.param, (), 1), Kind.ADDRESS), "tail")
            body.emit(Check(Test("ne", tail.param, Const(0)), "RG0813", message, span))
            self._store(tail.param, k)

        if self._count > 1:
            body.emit(self._loop(k, 1, step))
        last = body.atom(load(Address(heap.region, self._table, (), self._count - 1), Kind.ADDRESS), "cell")
        tail = body.atom(load(Address(heap.region, last.param, (), 1), Kind.ADDRESS), "tail")
        body.emit(Check(Test("eq", tail.param, Const(0)), "RG0813", message, span))
        body.grow(self._count)

    def _store(self, word: Var, k: Var) -> None:
        """table[k] += word"""
        body, span = self._body, self._body.span
        at = Var("at", Kind.ADDRESS, span)
        made: tuple[Node, ...] = (
            Op(TABLE["mov.add"], at, self._table, None, 0, span),
            Op(TABLE["mov.add"], at, k, None, 0, span),
        )
        back = (
            Op(TABLE["mov.sub"], at, k, None, 0, span),
            Op(TABLE["mov.sub"], at, self._table, None, 0, span),
        )
        store = Op(TABLE["st.add"], None, at, word, 0, span, body.heap.region)
        body.emit(Local(at), *made, store, *back, Delocal(at))

    def copy(self) -> None:
        """out += the list"""
        if not self._count:
            return
        body, span, heap = self._body, self._body.span, self._body.heap
        k = Var("k", Kind.INT, span)
        kind = self._out.element.kind  # type: ignore[union-attr]

        def step() -> None:
            cell = body.atom(load(Address(heap.region, self._table, ((read(k), 1),), 0), Kind.ADDRESS), "cell")
            word = body.atom(load(Address(heap.region, cell.param, (), 0), kind), "word")
            t = body.temporaries()
            at, offset = t.address(self._out.address.shifted(read(k), 1))
            # Only a sum of fixed numbers is checked for overflow.
            added = TABLE["fst.add" if kind is Kind.FIXED else "st.add"]
            store = Op(added, None, at, word.param, offset, span, self._out.address.region)
            body.emit(*t.wrap((store,)))

        body.emit(self._loop(k, 0, step))

    def _loop(self, k: Var, start: int, step: Callable[[], None]) -> For:
        with self._body.nested() as inner:
            step()
        block: Block = tuple(inner)
        return For(k, Const(start), Const(self._count), 1, block, False, True, self._body.span)
