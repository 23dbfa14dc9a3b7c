"""Bodies: statements that compute values in new variables, and clear these at the end.

    pure (computed from variables and cells alone)     computed backward
    results of calls, addresses of new cells           exchanged into the heap, an instruction a word

So no call is executed twice, and the heap holds the history of the run. Cells are written once: a value that is loaded from a cell, and a
test on it, are the same at the end of a body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.functional.lowering.heap import Heap
from retrograd.compiler.frontends.functional.lowering.values import Value
from retrograd.compiler.frontends.functional.types import Type, kinds
from retrograd.compiler.ir.expressions import E, read
from retrograd.compiler.ir.flatten import Temporaries, allocate
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Const,
    Delocal,
    If,
    Kind,
    Local,
    Node,
    Op,
    Operand,
    Var,
    Within,
    invert,
)
from retrograd.compiler.ir.traversal import walk
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE


@dataclass
class _Made:
    """Variables, and the statements that made them. `pure`: these can be undone by themselves."""

    nodes: list[Node]
    variables: tuple[Var, ...]
    pure: bool


@dataclass
class _Block:
    out: list[Node] = field(default_factory=list)
    made: list[_Made] = field(default_factory=list)


class Body:
    """The statements of one procedure or entry. `hp`: the address of the first free cell; `span`: of the current expression."""

    def __init__(self, module: ModuleBuilder, heap: Heap, hp: Var, span: Span) -> None:
        self.w = module.w
        self.heap, self.hp, self.span = heap, hp, span
        #: whether `hp` is used
        self.uses_heap = False
        self._module = module
        self._now = _Block()

    def taken(self) -> Block:
        """The statements so far, which the body holds no longer."""
        out, self._now.out = tuple(self._now.out), []
        return out

    def emit(self, *nodes: Node) -> None:
        self._now.out.extend(nodes)

    @contextmanager
    def nested(self) -> Iterator[list[Node]]:
        """A body inside, such as a branch: the list of its statements, complete at the end."""
        outer, self._now = self._now, _Block()
        inner = self._now
        try:
            yield inner.out
            self.close()
        finally:
            self._now = outer

    def close(self) -> None:
        """Clear the variables of the body."""
        block = self._now
        for made in reversed(block.made):
            if made.pure:
                block.out += invert(made.nodes)
        left = [v for made in block.made if not made.pure for v in made.variables]
        if left:
            self.room(len(left))
            for i, var in enumerate(left):
                self.emit(Op(TABLE["exch"], var, self.hp, None, i, self.span, self.heap.region), Delocal(var))
            self.grow(len(left))
        block.made = []

    # ------------------------------------------------------------------ the heap

    def room(self, words: int) -> None:
        """Test that this number of words of the heap is free."""
        self.uses_heap = True
        self.emit(self.heap.room(self.hp, words, self.span))

    def grow(self, words: int) -> None:
        self.emit(Op(TABLE["mov.add"], self.hp, Const(words), None, 0, self.span))

    def mark(self) -> E:
        """The address of the first free cell at this place, as an int."""
        self.uses_heap = True
        var = Var("mark", Kind.INT, self.span)
        self.emit(Local(var), Op(TABLE["mov.add"], var, self.hp, None, 0, self.span))
        self._now.made.append(_Made([], (var,), False))
        return read(var)

    def cell(self, words: Sequence[E], target: Var) -> None:
        """target += the address of a new cell of these words."""
        operands = [self.operand(e) for e in words]
        self.room(len(words))
        self.emit(Op(TABLE["mov.add"], target, self.hp, None, 0, self.span))
        for k, word in enumerate(operands):
            if word != Const(0):
                self.emit(Op(TABLE["st.add"], None, self.hp, word, k, self.span, self.heap.region))
        self.grow(len(words))

    # ------------------------------------------------------------------ words

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.span, self._module.powers)

    def atom(self, e: E, name: str = "t") -> E:
        """The expression as a variable or a constant."""
        if e.op in ("const", "read"):
            return e
        var = Var(name, e.kind, self.span)
        nodes = list(allocate(self.temporaries(), var, e))
        self.emit(*nodes)
        self._now.made.append(_Made(nodes, (var,), True))
        return read(var)

    def operand(self, e: E) -> Operand:
        found = self.atom(e)
        if found.op == "const":
            return Const(self.w.wrap(found.param))
        var: Var = found.param
        return var

    def named(self, value: Value, name: str) -> Value:
        """The value with each word in a variable, or constant."""
        return Value(value.type, tuple(self.atom(e, name) for e in value.words), value.views)

    def new(self, t: Type, fill: Callable[[list[Var]], None], name: str = "t") -> Value:
        """A value in new variables, which `fill` computes."""
        targets = [Var(name, kind, self.span) for kind in kinds(t)]
        begin, earlier = len(self._now.out), len(self._now.made)
        self.emit(*(Local(v, False, self.span) for v in targets))
        fill(targets)
        nodes = self._now.out[begin:]
        pure = not self._has_effects(nodes)
        if pure:
            # To undo the statements clears the variables that they made, too.
            del self._now.made[earlier:]
        self._now.made.append(_Made(nodes, tuple(targets), pure))
        return Value(t, tuple(map(read, targets)))

    def uncomputed(self, compute: Callable[[], Value], copy: Callable[[Value], None]) -> None:
        """Compute a value, copy it, and take back all that the computation has left, the heap included."""
        outer, self._now = self._now, _Block()
        value = compute()
        made = self.taken()
        self._now = _Block()
        copy(value)
        copied = self.taken()
        self._now = outer
        self.emit(Within(made, copied, None, self.span))

    def reserved(self, words: E) -> Var:
        """The address of this number of new words, which are free. It is kept as long as they are."""
        start = Var("start", Kind.ADDRESS, self.span)
        self.emit(Local(start), Op(TABLE["mov.add"], start, self.hp, None, 0, self.span))
        self.emit(Op(TABLE["mov.add"], self.hp, self.operand(words), None, 0, self.span))
        self._now.made.append(_Made([], (start,), False))
        return start

    @contextmanager
    def cells_from(self, start: Var, words: E) -> Iterator[None]:
        """Cells are made from this address on, and take this number of words."""
        outer, self.hp = self.hp, Var("hp", Kind.ADDRESS)
        add = Op(TABLE["mov.add"], self.hp, start, None, 0, self.span)
        self.emit(Local(self.hp), add)
        yield
        self.emit(
            Op(TABLE["mov.sub"], self.hp, self.operand(words), None, 0, self.span), *invert((add,)), Delocal(self.hp)
        )
        self.hp = outer

    def variables(self, of: Sequence[Kind]) -> list[Var]:
        """New variables, which the block around them clears."""
        made = [Var("t", kind, self.span) for kind in of]
        self.emit(*(Local(v, False, self.span) for v in made))
        return made

    def add(self, targets: Sequence[Var], words: Sequence[E], fresh: bool = True) -> None:
        """targets += words. `fresh`: the targets are zero."""
        out: list[Node] = []
        t = self.temporaries()
        for var, e in zip(targets, words, strict=True):
            t.into(out, var, "xor" if var.kind is Kind.BOOL else "add", e, fresh=fresh)
        self.emit(*t.wrap(tuple(out)))

    def branch(self, condition: E, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """if condition: then else: orelse, each a body of its own. The condition is the same after them."""
        if condition.op == "const":
            (then if condition.param else orelse)()
            return
        blocks: list[Block] = []
        span = self.span
        for side in (then, orelse):
            with self.nested() as inner:
                side()
            blocks.append(tuple(inner))
        self.span = span
        t = self.temporaries()
        test = t.test(condition)
        self.emit(*t.wrap((If(test, blocks[0], blocks[1], test, span),)))

    def _has_effects(self, nodes: Sequence[Node]) -> bool:
        """Whether statements change the heap, or call a procedure, which may."""
        return any(isinstance(n, Call) or (isinstance(n, Op) and n.d is self.hp) for n in walk(nodes))
