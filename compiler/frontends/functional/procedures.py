"""The heap of a program: cells that are written once, and never freed before the whole run is uncomputed.

    allocate k words:  p += hp;  hp += k        uncomputed:  hp −= k;  p −= hp

Address 0 is the empty list. A cell of a data class begins with the number of its class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import Contexts
from retrograd.compiler.frontends.functional.core import guarded
from retrograd.compiler.frontends.functional.inference import Inference, is_hosted
from retrograd.compiler.frontends.functional.loops import TailCalls
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    Array,
    Closure,
    Data,
    Derivative,
    Env,
    Exact,
    Function,
    Key,
    Known,
    List,
    Nothing,
    StructureLowering,
    Targets,
    Tuple,
    Type,
    Value,
    Word,
    arrays,
    arrays_in,
    combined,
    extent_of,
    has_cells,
    kinds,
)
from retrograd.compiler.frontends.python.source import SourceFunction
from retrograd.compiler.ir.expressions import Address, E, choose, const, load, read
from retrograd.compiler.ir.flatten import Temporaries, allocate
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Check,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Node,
    Op,
    Operand,
    Region,
    Test,
    Var,
    Within,
    invert,
)
from retrograd.compiler.ir.traversal import walk
from retrograd.compiler.language.types import ScalarType, known, row_major
from retrograd.compiler.language.values import ArrayView, Constant, Scalar
from retrograd.compiler.language.values import Value as ScalarOperand
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE


class Heap:
    """The region of the heap, made when it is first used, and the numbers of the data classes."""

    def __init__(self, module: ModuleBuilder, size: int, span: Span) -> None:
        self._module, self.size, self._span = module, size, span
        self._region: Region | None = None
        self._numbers: dict[type, int] = {}

    @property
    def region(self) -> Region:
        if self._region is None:
            if self._module.memory == 0:
                self._module.static_region("nothing", 1, None)
            self._region = self._module.static_region("heap", self.size, self._span)
            self._module.outliving.append(self._region)
        return self._region

    @property
    def base(self) -> int:
        assert self.region.address is not None
        return self.region.address

    def number(self, cls: type) -> int:
        """The number of a data class in this program."""
        return self._numbers.setdefault(cls, len(self._numbers))

    def room(self, hp: Var, words: int, span: Span) -> Node:
        """The check that this number of words is free."""
        # More words than there are addresses below the end: an address below the heap, where no cell begins.
        last = Const(self._module.w.wrap(max(self.base + self.size - words, 0)))
        return Check(Test("geu", last, hp), "RG0811", f"the heap of {self.size} words is full", span)


# -----------------------------------------------------------------------------
# Bodies: statements that compute values in new variables, and clear these at the end.
#
#     pure (computed from variables and cells alone)     computed backward
#     results of calls, addresses of new cells           exchanged into the heap, an instruction a word
#
# So no call is executed twice, and the heap holds the history of the run. Cells are written once: a value that is loaded from a cell, and a
# test on it, are the same at the end of a body.


#: statements to which a call is equal: it saves the variables that are live
_CALL = 16
#: compute blocks inside each other
_LEVELS = 24


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
    """The statements of one procedure or entry.

    `hp`: the address of the first free cell; `span`: of the current expression; `recursive`: it may be active more than
    once.
    """

    def __init__(self, module: ModuleBuilder, heap: Heap, hp: Var, span: Span, recursive: bool = False) -> None:
        self.w = module.w
        self.recursive = recursive
        #: the arrays of the body, set by its lowering
        self.arrays: Any = None
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

    def counter(self) -> Callable[[], int]:
        """A function that counts the statements that are emitted from here on, as deep as they are nested."""
        out = self._now.out
        begin = len(out)
        return lambda: sum(_CALL if isinstance(n, Call) else 1 for n in walk(out[begin:]))

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
        """Clear the variables of the body: many of them by compute blocks around all that follows."""
        block = self._now
        left = [v for made in block.made if not made.pure for v in made.variables]
        # These variables outlive the compute blocks in which they get their values.
        outliving = set(left)
        born = [node for node in block.out if isinstance(node, Local) and node.var in outliving]
        pure = {id(node) for made in block.made if made.pure for node in made.nodes}
        skipped = set(map(id, born))
        #: (statements, the compute block behind them), each pair inside the one before
        levels: list[tuple[list[Node], list[Node]]] = [([], [])]
        for node in block.out:
            if id(node) in pure:
                levels[-1][1].append(node)
            elif id(node) not in skipped:
                if levels[-1][1]:
                    levels.append(([], []))
                levels[-1][0].append(node)
        rest: list[Node] = []
        for depth, (before, compute) in reversed(list(enumerate(levels))):
            if rest and compute and depth >= len(levels) - _LEVELS:
                rest = [*before, Within(tuple(compute), tuple(rest), None, self.span)]
            else:
                rest = [*before, *compute, *rest, *invert(compute)]
        # The last one that was born is cleared first, so a body and its inverse have the same registers.
        clear = (*self.pushed(left), *map(Delocal, reversed(left))) if left else ()
        block.out[:] = [*born, *rest, *clear]
        block.made = []

    def pushed(self, variables: Sequence[Var]) -> Block:
        """Exchange variables into the heap, which leaves zeros in them."""
        self.uses_heap = True
        exchange, heap, span = TABLE["exch"], self.heap, self.span
        return (
            heap.room(self.hp, len(variables), span),
            *(Op(exchange, var, self.hp, None, i, span, heap.region) for i, var in enumerate(variables)),
            Op(TABLE["mov.add"], self.hp, Const(len(variables)), None, 0, span),
        )

    def keep(self, variables: Sequence[Var]) -> None:
        """These variables are live to the end of the block, and their words then go into the heap."""
        self._now.made.append(_Made([], tuple(variables), False))

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

    def new(self, t: Type, fill: Callable[[Targets], None], name: str = "t") -> Value:
        """A value in new variables, which `fill` computes."""
        targets = Targets(Var(name, kind, self.span) for kind in kinds(t))
        targets.arrays = tuple(self.array(a, name) for a in arrays_in(t))
        begin, earlier = len(self._now.out), len(self._now.made)
        self.emit(*(Local(v, False, self.span) for v in targets))
        fill(targets)
        nodes = self._now.out[begin:]
        pure = not self._has_effects(nodes)
        if pure:
            # To undo the statements clears the variables that they made, too.
            del self._now.made[earlier:]
        self._now.made.append(_Made(nodes, tuple(targets), pure))
        return Value(t, tuple(map(read, targets)), tuple(a.address for a in targets.arrays))

    def array(self, t: Array, name: str) -> ArrayView:
        """An array of zeros in the heap, where it stays until the run is undone."""
        size = extent_of(t)
        self.room(size)
        first = sum((1 - n) * s for n, s in zip(t.shape, t.strides, strict=True) if s < 0)
        # Its words are reached by no other name, so they are a region of their own.
        place = Address(Region(name, size, span=self.span), self.reserved(const(size, Kind.INT)), (), first)
        return ArrayView(t.element, t.shape, t.strides, place)

    def put(self, targets: Targets, value: Value, at: core.Place) -> None:
        """targets += value. The targets are zero."""
        self.add(targets, value.words)
        for view, t, place in zip(targets.arrays, arrays_in(value.type), value.views, strict=True):
            self.arrays.add(view, ArrayView(t.element, t.shape, t.strides, place), at)

    def ancillas(self, nodes: Sequence[Node]) -> None:
        """Statements that compute arrays of ancillas, from what does not change. Backward, they undo themselves."""
        self.emit(*nodes)
        self._now.made.append(_Made(list(nodes), (), True))

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


# -----------------------------------------------------------------------------
# Statements that add a list of the heap to an array of results.
#
#     compute:  table[0] := first;  table[k] := tail of table[k − 1]          in the heap, n words
#     copy:     out[k] += head of table[k]
#
# The table is uncomputed with everything else. Trap RG0813: the list has another length than the array.


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


# -----------------------------------------------------------------------------
# Calls of function values: inlined, as calls of procedures, or as a branch on the function that a value is.
#
# Functions that are small and do not call themselves are inlined. Others become procedures, one for each combination of types. A derivative is a
# call of the gradient of a procedure, which restores the heap.
#
# Once a program has many statements of functions that are inlined again, a function with a large inlined body is a
# procedure from its second call
# on. So the code of fₙ₊₁ = λt. fₙ(fₙ(t)) grows with n, and not with 2ⁿ.

#: nodes of a function that is inlined, the same where it is the first time, and functions that are inlined within each
#: other
_SMALL, _LARGE, _DEEPEST = 60, 240, 16
#: statements of an inlined body that is never shared, fewer in derivatives of derivatives, and of all bodies of a
#: program that are inlined again
_FEW_STATEMENTS, _MOST_REPEATED = 64, 768
#: statements of a derivative for each statement of its function
_DERIVATIVE = 3

ValueOf = Callable[[core.Core, Env], Value]
Into = Callable[[core.Core, Env, Targets, Type], None]
Converted = Callable[[Value, Type, core.Place], Value]


class Procedures(Protocol):
    """The procedures of a program (program.py)."""

    inference: Inference
    contexts: Contexts
    #: the function of the program
    function: SourceFunction
    #: function -> the statements of its body where it was inlined
    inlined: dict[Key, int]
    #: statements of functions that were inlined before
    repeated: int
    #: derivatives inside each other, of a function that is being lowered
    order: int

    def version(self, key: Key) -> str:
        """The procedure of a function. Parameters: words of the captured values, of its arguments, of its result, and `hp`."""

    def gradient(self, mode: str, f: Type, args: tuple[Type, ...], at: core.Place) -> str:
        """The procedure of a derivative. Parameters: words of f and its arguments, a zero, `hp`, and the gradients."""

    def tangent(self, f: Type, x: Type, at: core.Place) -> str:
        """The procedure of jvp(f)(x, v). Parameters: words of f and x, zeros, `hp`, numbers of v, and the tangents."""


def differentiated(mode: str, args: tuple[Type, ...]) -> tuple[Type, ...]:
    """The arguments by which a derivative is taken: `vjp(f)(x, direction)`."""
    return args if mode == "grad" else args[:-1]


class Calls:
    """Lowers the calls in one body."""

    def __init__(
        self,
        procedures: Procedures,
        body: Body,
        value: ValueOf,
        into: Into,
        converted: Converted,
        structures: StructureLowering,
        hosted: Callable[[Any, Sequence[Value], core.Place], Value],
    ) -> None:
        self._procedures, self._body, self._hosted = procedures, body, hosted
        self._inference = procedures.inference
        self._value, self._into, self._converted, self._structures = value, into, converted, structures
        self._inlined = 0
        #: of a function that may be a loop
        self.tails: TailCalls | None = None
        #: whether a function is being lowered that was inlined before
        self._repeated = False

    def apply(self, f: Value, args: list[Value], at: core.Place) -> Value:
        """f(args)"""
        assert isinstance(f.type, Function)
        if len(f.type.alternatives) == 1:
            return self.call(f.type.alternatives[0], f.captured()[0], args, at)
        t = self._inference.apply(f.type, tuple(a.type for a in args), at)
        return self._body.new(t, lambda targets: self._dispatch(f, args, targets, t, at))

    def apply_into(self, f: Value, args: list[Value], at: core.Place, targets: Targets, t: Type) -> None:
        """targets += f(args), as a value of type t. The targets are zero."""
        assert isinstance(f.type, Function)
        if len(f.type.alternatives) > 1:
            self._dispatch(f, args, targets, t, at)
            return
        closure, captured = f.type.alternatives[0], f.captured()[0]
        if not isinstance(closure.code, core.Lambda) or is_hosted(closure.code, tuple(a.type for a in args)):
            self._body.put(targets, self._converted(self.call(closure, captured, args, at), t, at), at)
            return
        key, closure, captured, args = self._settled(closure, captured, args, at)
        tails = self.tails if self.tails is not None and self.tails.is_tail(targets, t) else None
        marker = None if tails is None else tails.marker(key, (*captured, *args), at.span)
        if marker is not None:
            self._body.emit(marker)
        elif self._inference.results[key] != t:
            self._body.put(targets, self._converted(self.call(closure, captured, args, at), t, at), at)
        elif self._inlines(key):
            with self._inlining(key):
                self._into(closure.code.body, self._inside(closure, captured, args), targets, t)
        elif tails is not None and tails.enters(key, self._inference.reaches, _SMALL):
            tails.entered.append(key)
            self._into(closure.code.body, self._inside(closure, captured, args), targets, t)
            tails.entered.pop()
        else:
            self._call_procedure(key, captured, args, targets, at)

    def call(self, closure: Closure, captured: Sequence[Value], args: list[Value], at: core.Place) -> Value:
        """The value of one function."""
        code, types = closure.code, tuple(a.type for a in args)
        if isinstance(code, core.Operator):
            return Value(Function((Closure(Derivative(code.name), types),)), args[0].words, args[0].views)
        if isinstance(code, Derivative):
            return self._derivative(code, captured[0], args, at)
        if is_hosted(code, types):
            return self._hosted(code.hosted, args, at)
        key, closure, captured, args = self._settled(closure, captured, args, at)
        result = self._inference.results[key]
        if not self._inlines(key):
            return self._body.new(
                result, lambda targets: self._call_procedure(key, captured, args, targets, at), code.name
            )
        with self._inlining(key):
            found = self._value(code.body, self._inside(closure, captured, args))
        return self._converted(found, result, at)

    def _settled(
        self, closure: Closure, captured: Sequence[Value], args: list[Value], at: core.Place
    ) -> tuple[Key, Closure, list[Value], list[Value]]:
        """The version of the function that is called, and the values as its types have them."""
        key: Key = (closure.code, closure.captured, tuple(a.type for a in args))
        found = self._inference.settled(key)
        if found != key:
            captured = [self._converted(v, t, at) for v, t in zip(captured, found[1], strict=True)]
            args = [self._converted(v, t, at) for v, t in zip(args, found[2], strict=True)]
        return found, Closure(found[0], found[1]), list(captured), args

    def _inlines(self, key: Key) -> bool:
        again = self._procedures.inlined.get(key, 0)
        if (
            key[0].size > (_SMALL if again else _LARGE)
            or self._inlined >= _DEEPEST
            or self._inference.is_recursive(key)
        ):
            return False
        few = _FEW_STATEMENTS // _DERIVATIVE ** max(self._procedures.order - 1, 0)
        return again <= few or self._procedures.repeated + self._differentiated(again) <= _MOST_REPEATED

    def _differentiated(self, statements: int) -> int:
        """The statements of the program that some statements of this body become."""
        return statements * int(_DERIVATIVE**self._procedures.order)

    @contextmanager
    def _inlining(self, key: Key) -> Iterator[None]:
        """The body of a function is lowered here. Its statements are counted."""
        count, around = self._body.counter(), self._repeated
        self._repeated = around or key in self._procedures.inlined
        self._inlined += 1
        yield
        self._inlined -= 1
        statements = count()
        if self._repeated and not around:
            self._procedures.repeated += self._differentiated(statements)
        self._repeated = around
        self._procedures.inlined[key] = statements

    def _inside(self, closure: Closure, captured: Sequence[Value], args: Sequence[Value]) -> Env:
        """The variables in the body of a function that is inlined."""
        named = [self._body.named(a, b.name) for a, b in zip(args, closure.code.params, strict=True)]
        return environment(closure.code, captured, named)

    def _dispatch(self, f: Value, args: list[Value], targets: Targets, t: Type, at: core.Place) -> None:
        """A branch on the function that the value is."""
        assert isinstance(f.type, Function)
        alternatives, captured = f.type.alternatives, f.captured()
        args = [self._body.named(a, "x") for a in args]
        tag = self._body.operand(f.words[0])
        span = at.span

        def from_(k: int) -> Block:
            with self._body.nested() as inner:
                found = self.call(alternatives[k], captured[k], args, at)
                self._body.put(targets, self._converted(found, t, at), at)
            if k == len(alternatives) - 1:
                return tuple(inner)
            test = Test("eq", tag, Const(k))
            return (If(test, tuple(inner), from_(k + 1), test, span),)

        self._body.emit(*from_(0))

    def _call_procedure(
        self, key: Key, captured: Sequence[Value], args: Sequence[Value], targets: Targets, at: core.Place
    ) -> None:
        operands, regions = self._passed((*captured, *args))
        places = [view.address for view in targets.arrays]
        name = self._procedures.version(key)
        self._body.uses_heap = True
        given = (*operands, *targets, *map(self._address, places), self._body.hp)
        self._body.emit(Call(name, given, (*regions, *(p.region for p in places)), False, at.span))

    def _derivative(self, code: Derivative, f: Value, args: list[Value], at: core.Place) -> Value:
        types = tuple(a.type for a in args)
        if code.mode == "jvp":
            value = self._inference.apply(f.type, types[:-1], at)
            if not has_cells((value, *types)) and not any(map(arrays, (value, *types))):
                return self._tangent(f, args[0], args[1], value, at)
            key = self._inference.derivatives.forward_key(f.type, value, types)
            return self.call(Closure(key[0]), (), [f, *args], at)
        if code.mode == "hessian":
            return self.call(Closure(self._inference.derivatives.second_key(f.type, types)[0]), (), [f, *args], at)
        name = self._procedures.gradient(code.mode, f.type, types, at)
        given = differentiated(code.mode, types)
        forms = [self._inference.derivatives.cotangent(t, at) for t in given]
        xs, others = [self._apart(x, at) for x in args[: len(given)]], args[len(given) :]
        zeros: list[Value] = []
        places: list[Operand] = []
        if has_cells(given):
            # Cells of the argument become those of a copy; the cotangents are added to a second copy, which begins as zeros.
            begin = self._body.mark()
            xs = [self._structures.copy(x, Value(INT, (const(1, Kind.INT),)), at) for x in xs]
            end = self._body.mark()
            zeros = [self._structures.copy(x, Value(INT, (const(0, Kind.INT),)), at) for x in xs]
            a = self._inference.arithmetic
            count = a.expression(a.binary("-", Scalar(end), Scalar(begin)))
            places = [self._body.operand(begin), self._body.operand(count)]
        operands, regions = self._passed((f, *xs, *others))
        sources = [k for t in given for k in kinds(t)]
        numbers = sources.count(Kind.FIXED)
        of_arrays = [gained(view) for x in xs for view in array_views(x)]

        def fill(targets: Targets) -> None:
            loss = Var("loss", Kind.FIXED, at.span)
            self._body.uses_heap = True
            into = [view.address for view in targets.arrays]
            passed = (*operands, loss, self._body.hp, *targets, *map(self._address, into), *places)
            call = Call(name, passed, (*regions, *(p.region for p in into)), False, at.span)
            self._body.emit(Local(loss), call, Delocal(loss))

        gain = self._body.new(Tuple((*(FIXED,) * numbers, *(a for a in of_arrays if a is not None))), fill, "d")
        gains, found_arrays = iter(gain.words), iter(gain.views)
        wanted = [a for t in forms for a in arrays_in(t)]
        views = tuple(
            self._body.array(form, "d").address if a is None else next(found_arrays)
            for a, form in zip(of_arrays, wanted, strict=True)
        )
        words: list[E] = [e for z in zeros for e in z.words] or [const(0, k) for k in sources]
        made = tuple(
            next(gains) if k is Kind.FIXED else cell if k is Kind.ADDRESS else const(0, found)
            for k, found, cell in zip(sources, (k for t in forms for k in kinds(t)), words, strict=True)
        )
        return Value(forms[0] if len(forms) == 1 else Tuple(tuple(forms)), made, views)

    def _apart(self, x: Value, at: core.Place) -> Value:
        """The value with copies of its arrays: a copy has no other name, so its cotangents are this argument's alone."""
        if not x.views:
            return x
        views: list[Address] = []
        for view in array_views(x):
            copied = self._body.array(arrays_in(x.type)[len(views)], "x")
            self._body.arrays.add(copied, view, at)
            views.append(copied.address)
        return Value(x.type, x.words, tuple(views))

    def _tangent(self, f: Value, x: Value, direction: Value, value: Type, at: core.Place) -> Value:
        """jvp(f)(x, direction), a value of type `value` without cells."""
        name = self._procedures.tangent(f.type, x.type, at)
        operands, regions = self._passed((f, x))
        form = self._inference.derivatives.cotangent(x.type, at)
        words = self._converted(direction, form, at).words
        given = [self._body.operand(e) for e, k in zip(words, kinds(x.type), strict=True) if k is Kind.FIXED]
        numbers = kinds(value).count(Kind.FIXED)

        def fill(targets: Targets) -> None:
            results = [Var("result", Kind.FIXED, at.span) for _ in targets]
            self._body.uses_heap = True
            call = Call(name, (*operands, *results, self._body.hp, *given, *targets), regions, False, at.span)
            self._body.emit(*map(Local, results), call, *map(Delocal, reversed(results)))

        gains = iter(self._body.new(Tuple((FIXED,) * numbers), fill, "d").words)
        form = self._inference.derivatives.cotangent(value, at)
        of = zip(kinds(value), kinds(form), strict=True)
        return Value(form, tuple(next(gains) if k is Kind.FIXED else const(0, found) for k, found in of))

    # ------------------------------------------------------------------ operands

    def _passed(self, values: Sequence[Value]) -> tuple[tuple[Operand, ...], tuple[Region, ...]]:
        """The operands and regions of a call for these values, in the order of the parameters."""
        operands: list[Operand] = []
        regions: list[Region] = []

        def add(value: Value) -> None:
            match value.type:
                case Array():
                    operands.append(self._address(value.views[0]))
                    regions.append(value.views[0].region)
                case Tuple(items):
                    for part in value.split(items):
                        add(part)
                case Function(alternatives):
                    if len(alternatives) > 1:
                        operands.append(self._body.operand(value.words[0]))
                    for parts in value.captured():
                        for part in parts:
                            add(part)
                case _:
                    operands.extend(self._body.operand(e) for e in value.words)

        for value in values:
            add(value)
        return tuple(operands), tuple(regions)

    def _address(self, at: Address) -> Operand:
        """The address of an array, whose elements are tested where they are read."""
        a = self._inference.arithmetic
        total: E = const(at.offset + (at.region.address or 0 if at.base is None else 0), Kind.INT)
        if at.base is not None:
            total = a.expression(a.binary("+", Scalar(E("read", Kind.INT, (), at.base)), Scalar(total)))
        for term, factor in at.terms:
            product = a.binary("*", Scalar(term), Constant(factor))
            total = a.expression(a.binary("+", product, Scalar(total)))
        return self._body.operand(total)


def array_views(x: Value) -> list[ArrayView]:
    """The arrays in a value."""
    types = zip(arrays_in(x.type), x.views, strict=True)
    return [ArrayView(t.element, t.shape, t.strides, place) for t, place in types]


def gained(x: ArrayView) -> Array | None:
    """The type of the cotangents of an array; None if its elements have none."""
    shape = known(x.shape)
    return Array(x.element, shape, row_major(shape, 1)) if x.element == ScalarType(Kind.FIXED) else None


def environment(code: core.Lambda, captured: Sequence[Value], args: Sequence[Value]) -> Env:
    """The variables in the body of a function: the captured values, its letrec, its arguments."""
    env: Env = dict(zip(code.free, captured, strict=True))
    own = tuple(v.type for v in captured)
    env |= {b: combined(Function((Closure(f, own),)), captured) for b, f in code.group}
    return env | dict(zip(code.params, args, strict=True))


# -----------------------------------------------------------------------------
# Values as values of wider types: numbers, lists, and functions, whose tag and place depend on the type.


def scalar(value: Value) -> ScalarOperand:
    """A word as an operand. A constant int stays one, so that it becomes fixed without an instruction."""
    e = value.words[0]
    return Constant(e.param) if e.op == "const" and e.kind is Kind.INT else Scalar(e)


class Conversions:
    """The conversions in one body. `called`: the value of a function without captured values."""

    def __init__(
        self, body: Body, inference: Inference, called: Callable[[Closure, list[Value], core.Place], Value]
    ) -> None:
        self._body, self._inference, self._called = body, inference, called
        self._arithmetic = inference.arithmetic

    def converted(self, value: Value, wanted: Type, at: core.Place) -> Value:
        """The value as one of a wider type."""
        t = value.type
        if t == wanted or isinstance(wanted, Nothing):
            return value
        if isinstance(t, Nothing):
            return Value(wanted, tuple(const(0, kind) for kind in kinds(wanted)))
        match t, wanted:
            case Exact(number), _:
                of = guarded(at, lambda: Scalar(self._arithmetic.expression(Constant(float(number)), Kind.FIXED)))
                return Value(wanted, (self._arithmetic.expression(of), *(const(0, k) for k in kinds(wanted)[1:])))
            case Known(truth), Tuple(_, "boolean"):
                return Value(wanted, (const(int(truth), Kind.BOOL),))
            case Tuple((), "nil"), List():
                return Value(wanted, (const(0, Kind.ADDRESS),))
            case Tuple((_, _) as items, "pair"), List(item):
                head, tail = value.split(items)
                cell = (*self.converted(head, item, at).words, *self.converted(tail, wanted, at).words)
                return self._body.new(wanted, lambda made: self._body.cell(cell, made[0]))
            case Word(), Word(kind):
                e = guarded(at, lambda: Scalar(self._arithmetic.expression(scalar(value), kind)))
                return Value(wanted, (self._arithmetic.expression(e),))
            case Tuple(items), Tuple(others):
                parts = [self.converted(p, o, at) for p, o in zip(value.split(items), others, strict=True)]
                return combined(wanted, parts)
            case Array(), Array():
                return self._body.new(wanted, lambda targets: self._body.put(targets, value, at))
            case Function(given), Function(alternatives):
                return self._retagged(value, given, alternatives, wanted, at)
            case (List(Nothing()), List()) | (Data(), Data()):
                return Value(wanted, value.words)
            case List(), List():
                key = self._inference.list_conversion(t, wanted)
                return Value(wanted, self._called(Closure(key[0]), [value], at).words)
        raise AssertionError((t, wanted))

    def _retagged(
        self, value: Value, given: Sequence[Closure], alternatives: Sequence[Closure], wanted: Type, at: core.Place
    ) -> Value:
        """A function value with the tag and the place of its words in a wider type."""
        places = [next(k for k, c in enumerate(alternatives) if c.code == g.code) for g in given]
        held = dict(zip(places, value.captured(), strict=True))
        parts: list[Value] = []
        for k, alternative in enumerate(alternatives):
            for n, t in enumerate(alternative.captured):
                if k in held:
                    parts.append(self.converted(held[k][n], t, at))
                else:
                    parts.append(Value(t, tuple(const(0, kind) for kind in kinds(t))))
        made = combined(wanted, parts)
        if len(alternatives) == 1:
            return made
        tag = const(places[0], Kind.INT)
        for k, place in list(enumerate(places))[1:]:
            tag = choose(
                self._arithmetic.expression(self._arithmetic.binary("==", Scalar(value.words[0]), Constant(k))),
                const(place, Kind.INT),
                tag,
            )
        return Value(wanted, (tag, *made.words), made.views)
