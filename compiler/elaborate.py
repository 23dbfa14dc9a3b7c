"""Statements → reversible IR: one function, for given types and shapes.

Every statement becomes IR whose inverse is known; what cannot be undone is refused here, with the place in the user's source.
What the compiler cannot decide (whether two indices are equal, whether an ancilla has come back to zero) becomes a test in the
program, which says the same when it runs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NoReturn

from retrograd.compiler import intrinsics
from retrograd.compiler.arithmetic import element, number_kind
from retrograd.compiler.comparisons import blanks
from retrograd.compiler.evaluate import _INSTEAD as EXPRESSIONS_INSTEAD
from retrograd.compiler.evaluate import _OPERATORS as BINARY
from retrograd.compiler.evaluate import BOOL, FIXED, INT, Evaluator, _short
from retrograd.compiler.expressions import (
    Address,
    E,
    add,
    apply,
    const,
    interval,
    load,
    loads,
    read,
    sub,
    variables,
    walk,
)
from retrograd.compiler.flatten import ZERO, Temporaries, allocate, release
from retrograd.compiler.footprint import Footprint, locals_left, union
from retrograd.compiler.intrinsics import Intrinsic
from retrograd.compiler.ir import (
    SP,
    Block,
    Check,
    Const,
    Delocal,
    External,
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
    While,
    Within,
    invert,
)
from retrograd.compiler.source import NOTHING, InnerFunction, SourceFunction
from retrograd.compiler.types import ScalarType, StackType, StructType, element_of, scalar_of
from retrograd.compiler.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    RoutineValue,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    row_major,
    variable,
)
from retrograd.isa.diagnostics import nearest
from retrograd.isa.table import TABLE

if TYPE_CHECKING:
    from retrograd.compiler.specialise import Specialiser

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.BitXor: "xor", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip
_SIGNS = {"add": "+=", "sub": "-=", "xor": "^=", "mul": "*=", "div": "/="}
#: (update, kind) that exist
_DEFINED = {("add", INT), ("sub", INT), ("xor", INT), ("add", FIXED), ("sub", FIXED), ("xor", BOOL)} | {
    ("mul", Kind.LOGNUM),
    ("div", Kind.LOGNUM),
}
_OPPOSITE = {"add": "sub", "sub": "add", "xor": "xor", "mul": "div", "div": "mul"}


#: constants that a loop may go through, with a copy of its body for each
_MOST_COPIES = 10_000


@dataclass(eq=False)
class Made:
    """A variable or array that the function made itself, and has to free."""

    name: str
    value: Value
    #: the variables and regions that it consists of
    parts: tuple[Var | Region, ...]
    #: undo the initial value and free it; `checked` says that the machine must test for zero
    release: Callable[[bool], Block]
    #: what its initial value was computed from, with versions
    operands: dict[Var | Region, int]
    depth: int
    node: ast.AST
    #: updates since, newest last, where all are known: (update, expression, versions of what it reads)
    history: list[tuple[str, E, dict[Var | Region, int]]] | None = field(default_factory=list)
    #: the initial value, where it is a scalar; `gone`: it was taken away, and nothing came instead
    initial: E | None = None
    gone: bool = False
    #: the list that its making was emitted to, and where in it a test that its memory is zero would stand
    emitted: tuple[list[Node], int] | None = None


@dataclass(eq=False)
class Routine:
    """A `with rg.routine()` that is open: computed and not yet uncomputed."""

    name: str
    compute: Block
    outer: list[Node]
    names: dict[str, Value]
    made: list[Made]
    own: list[Made]
    versions: Counter[Var | Region]
    histories: dict[int, Any]
    depth: int
    node: ast.AST


class Elaborator(Evaluator):
    """Compiles the body of one function; `out` receives the IR."""

    def __init__(self, function: SourceFunction, module: Specialiser, recursive: bool) -> None:
        super().__init__(function, module.w, module.constant_region)
        self.module = module
        self.recursive = recursive
        self.out: list[Node] = []
        self.made: list[Made] = []
        self.versions: Counter[Var | Region] = Counter()
        self.depth = 0
        self.routines: list[Routine] = []
        #: routines that were uncomputed and may be computed again: name -> (compute, names that it makes)
        self.finished: dict[str, tuple[Block, dict[str, Value], list[Made]]] = {}
        self.written: set[Var | Region] = set()
        #: variables that were made with a constant integer; those whose value was relied on may not change any more
        self.constants: dict[Var, int] = {}
        self.relied_on: dict[Var, ast.AST] = {}
        self.changed = _changed_names(function.tree)
        self.node: ast.AST = function.tree
        self.freeing = False
        #: updates that may be undone in the same block: (block, place) -> (update, expression, what it read, versions around it)
        self.undone: dict[tuple[int, Var | Address], list[tuple[str, E, dict[Var | Region, int], int, int]]] = {}
        #: variables whose value does not change while they are in scope: the indices of loops
        self.settled: set[Var] = set()
        #: temporaries around the loop over an array's elements that is being made
        self.enclosing: Temporaries | None = None

    # ------------------------------------------------------------------ emission

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.source.span(self.node), self.enclosing)

    def emit(self, nodes: Sequence[Node], known: Var | None = None) -> None:
        """Append IR; note what it writes. `known`: a variable whose change is noted in its history by the caller."""
        for given in nodes:
            node = self._watched(given) if isinstance(given, Within) and given.name is None else given
            self.out.append(node)
            footprint = self.module.footprints.of(node)
            self._note(footprint, known)

    def _watched(self, node: Within) -> Within:
        """The statement, its temporaries tested for zero if its body may change what they are computed from.

        What is known to be wrong is refused where it is compiled; this is for what can only be seen when the program runs.
        """
        compute, body = self._changes_with_locals(node.compute), self._changes(node.body)
        own = frozenset(locals_left(node.compute))
        clobbered = (body.writes - own) & compute.reads or (
            body.stores and compute.loads and (None in body.stores | compute.loads or body.stores & compute.loads)
        )
        if not clobbered:
            return node
        return node._replace(
            compute=tuple(n._replace(checked=True) if isinstance(n, Local) else n for n in node.compute)
        )

    def _note(self, footprint: Footprint, known: Var | None) -> None:
        touched: set[Any] = {*footprint.writes, *footprint.stores}
        if None in touched:
            touched |= {p for p in self.versions if isinstance(p, Region)}
        for place in touched:
            if place in self.relied_on and not self.freeing:
                line = self.source.span(self.relied_on[place]).line
                message = f"`{place.name}` was used in line {line} as a constant, and changes here"
                self.fail("RG0709", message, self.node, f"Use another variable than `{place.name}` for one of the two.")
            self.versions[place] += 1
            self.written.add(place)
        for made in self.made:
            if made.history is not None and any(p in touched and p is not known for p in made.parts):
                made.history = None

    @contextmanager
    def block(self) -> Iterator[list[Node]]:
        """A scope of its own: what is made in it is freed at its end. Yields the list that receives its IR."""
        outer, names, made, freed, depth = self.out, self.names, self.made, self.freed, self.depth
        routines, finished = self.routines, self.finished
        inner: list[Node] = []
        self.out, self.names, self.made, self.freed = inner, dict(names), list(made), dict(freed)
        self.depth, self.routines, self.finished = depth + 1, [], dict(finished)
        try:
            yield inner
            self._close_scope(len(made))
        finally:
            gone = [m for m in made if m not in self.made]
            where = next((n for m in gone for n in ast.walk(self.function.tree) if _deletes(n, m.name)), None)
            self.out, self.names, self.freed, self.depth = outer, names, freed, depth
            self.made = made
            self.routines, self.finished = routines, finished
        if gone:
            lost = gone[0].name
            hint = f"Free `{lost}` after the block, or make it inside."
            self.fail(
                "RG0710",
                f"`{lost}` is freed inside a branch or loop, but was made outside",
                where or gone[0].node,
                hint,
            )

    def _close_scope(self, keep: int) -> None:
        if self.routines:
            r = self.routines[-1]
            hint = f"Write `~{r.name}` at the end of the block, after the last use of what the routine computed."
            self.fail("RG0711", f"the routine `{r.name}` is not uncomputed in its block", r.node, hint)
        while len(self.made) > keep:
            self._release(self.made[-1], None)

    def statements(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def body(self) -> Block:
        """The IR of the whole function."""
        tree = self.function.tree
        with self.block() as inner:
            self.statements(tree.body)
        return tuple(inner)

    # ------------------------------------------------------------------ statements

    def statement(self, node: ast.stmt) -> None:
        self.node = node
        match node:
            case ast.Pass():
                pass
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Expr(value=value):
                self._expression_statement(value)
            case ast.AugAssign(target=target, op=op, value=value):
                self._update(target, op, value, node)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value, None)
            case ast.AnnAssign(target=ast.Name() as target, annotation=annotation, value=value) if value is not None:
                self._assign(target, value, annotation)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._delete(target)
            case ast.If():
                self._if(node)
            case ast.While():
                self._while(node)
            case ast.For():
                self._for(node)
            case ast.With():
                self._with(node)
            case ast.Assert(test=test):
                self._assert(test)
            case ast.FunctionDef():
                self._inner_function(node)
            case ast.Return():
                hint = "Remove it: every argument comes back, changed or not."
                self.fail("RG0701", "a reversible function returns its arguments, and nothing else", node, hint)
            case _:
                text = ast.unparse(node).partition("\n")[0]
                self.fail("RG0701", f"`{text[:50]}` is no statement of the language", node, _INSTEAD.get(type(node)))

    def _inner_function(self, node: ast.FunctionDef) -> None:
        if node.name in self.names:
            self.fail("RG0706", f"`{node.name}` is a variable already", node)
        constants: dict[str, Any] = {}
        for name, value in self.names.items():
            if isinstance(value, Constant):
                constants[name] = value.value
            elif isinstance(value, FunctionValue):
                constants[name] = value.function
        inner = InnerFunction(node, self.function, constants)
        constants[node.name] = inner
        self.names[node.name] = FunctionValue(inner)

    def static(self, node: ast.expr, what: str) -> Any:
        value = self.value(node)
        if isinstance(value, Scalar) and isinstance(value.place, Var) and value.place in self.constants:
            var = value.place
            made = next((m for m in self.made if var in m.parts), None)
            if made is not None and made.history == []:
                self.relied_on[var] = node
                return self.constants[var]
        return super().static(node, what)

    # ------------------------------------------------------------------ places

    def place(self, node: ast.expr) -> Value:
        """What an update or a bijection changes."""
        value = self.value(node)
        self._writable(value, node)
        return value

    def _writable(self, value: Value, node: ast.AST) -> None:
        match value:
            case Constant():
                self.fail("RG0709", f"`{_short(node)}` is {describe(value)}, and cannot be changed", node)
            case Scalar(_, place, why_not) if place is None or why_not is not None:
                self.fail("RG0709", f"`{_short(node)}` cannot be changed: {why_not or 'it is an expression'}", node)
            case ArrayView(why_not=why_not) | StackValue(why_not=why_not) if why_not is not None:
                self.fail("RG0709", f"`{_short(node)}` cannot be changed: {why_not}", node)
            case StructValue(_, fields):
                for inner in fields.values():
                    self._writable(inner, node)
            case Lazy() | FunctionValue() | RoutineValue():
                self.fail("RG0709", f"`{_short(node)}` is {describe(value)}, and cannot be changed", node)
            case _:
                pass

    def register(self, t: Temporaries, place: Var | Address, kind: Kind, name: str = "") -> Var:
        """A variable that stands for the place: itself, or one that a memory word is exchanged into meanwhile."""
        if isinstance(place, Var):
            return place
        held = t.fresh(name or place.region.name, kind)
        t.compute.append(t.memory("exch", held, place))
        return held

    # ------------------------------------------------------------------ updates

    def _update(self, target: ast.expr, op: ast.operator, value: ast.expr, node: ast.AST) -> None:
        update = _UPDATES.get(type(op))
        if isinstance(op, ast.MatMult):
            self.fail(
                "RG0701",
                f"`{_short(node)}` cannot be undone",
                node,
                "make a new array with rg.zeros, and add the product to it",
            )
        if update is None:
            sign = BINARY.get(type(op), "@")
            hint = f"make a new variable, `t = {ast.unparse(target)} {sign} {ast.unparse(value)}`"
            if isinstance(op, ast.LShift | ast.RShift):
                hint += f"; or turn the bits around with rg.{'rol' if isinstance(op, ast.LShift) else 'ror'}"
            self.fail(
                "RG0701", f"`{_short(node)}` cannot be undone: it forgets a part of `{_short(target)}`", node, hint
            )
        place, e = self.place(target), self.value(value)
        if isinstance(place, ArrayView):
            self._update_array(place, update, e, node)
            return
        if not isinstance(place, Scalar):
            way: str | None = None
            if isinstance(place, StructValue):
                first = next(iter(place.fields))
                way = f"update its fields, `{_short(target)}.{first} {_SIGNS[update]} …`, or call a function that does"
            self.fail("RG0703", f"`{_short(target)}` is {describe(place)}, which has no {_SIGNS[update]}", node, way)
        self.update(place, update, e, node, target)

    def _operand(self, place: Scalar, update: str, value: Value, node: ast.AST) -> E:
        kind = place.kind
        if (update, kind) not in _DEFINED:
            message = f"{_SIGNS[update]} is not defined for {'an' if kind is INT else 'a'} {kind.value}"
            self.fail("RG0703", message, node, _instead(update, kind, node))
        at = node.value if isinstance(node, ast.AugAssign) else node
        if isinstance(value, ArrayView | Lazy):
            hint = f"rg.sum({_short(at)}) is the sum of its elements" if at is not node else None
            self.fail("RG0712", f"{describe(value)} is added to one number", at, hint)
        if kind is BOOL:
            e: E = self.guarded(at, self.arithmetic.truth, value)
            return e
        e = self.guarded(at, self.arithmetic.expression, value, kind)
        return e

    def update(self, place: Scalar, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        """`place update= value`."""
        e = self._operand(place, update, value, node)
        t = self.temporaries()
        where = place.place
        assert where is not None
        self.independent(t, [(where, target)], [e], node)
        body: list[Node] = []
        if isinstance(where, Address) and place.kind in (INT, BOOL) and _plain(e):
            x = t.operand(e)
            body.append(t.memory(f"st.{update}", x, where))
        else:
            # Temporaries come first, so that they are read before the word is taken out of memory.
            probe: list[Node] = []
            stand_in = Var("probe", place.kind)
            t.into(probe, stand_in, update, e)
            d = self.register(t, where, place.kind)
            body = [_substituted(n, stand_in, d) for n in probe] if d is not stand_in else probe
        made = next((m for m in self.made if isinstance(where, Var) and where in m.parts), None)
        known = None
        known_so_far = made is not None and made.history is not None and made.depth == self.depth
        if made is not None and known_so_far and isinstance(where, Var) and isinstance(made.value, Scalar):
            self._remember(made, update, e)
            known = where
        before, snapshot = dict(self.versions), self.snapshot(e)
        self.emit(t.wrap(tuple(body)), known)
        self._settle(where, update, e, snapshot, before)

    def _settle(
        self,
        where: Var | Address,
        update: str,
        e: E,
        snapshot: dict[Var | Region, int],
        before: dict[Var | Region, int],
    ) -> None:
        """`x += e` and then `x -= e`, e being the same: x is what it was, and what was made from it is known again."""
        place = where if isinstance(where, Var) else where.region
        updates = self.undone.setdefault((id(self.out), where), [])
        now = self.versions[place]
        if updates:
            last, previous, versions, old, new = updates[-1]
            if last == _OPPOSITE[update] and previous == e and versions == snapshot and before.get(place, 0) == new:
                updates.pop()
                self.versions[place] = old
                return
        updates.append((update, e, snapshot, before.get(place, 0), now))

    def _remember(self, made: Made, update: str, e: E) -> None:
        assert made.history is not None
        snapshot = self.snapshot(e)
        if made.history:
            last, previous, versions = made.history[-1]
            if last == _OPPOSITE[update] and previous == e and versions == snapshot:
                made.history.pop()
                return
        elif made.initial == e and made.operands == snapshot:
            # The initial value is taken away, so that zero is left, or given back.
            way = ("add", "xor", "mul") if made.gone else ("sub", "xor", "div")
            if update in way:
                made.gone = not made.gone
                return
        made.history.append((update, e, snapshot))

    def snapshot(self, *expressions: E) -> dict[Var | Region, int]:
        """The versions of what expressions read."""
        places: set[Var | Region] = set()
        for e in expressions:
            places |= variables(e)
            places |= {a.region for a in loads(e)}
        return {p: self.versions[p] for p in places}

    def refuse_overlap(self, t: Temporaries, e: E, where: Var | Address, node: ast.AST, target: ast.AST) -> None:
        """An update may not read what it writes: refused where it does, tested when the program runs where it might."""
        if isinstance(where, Var):
            if where in variables(e):
                name = _short(target)
                message = f"`{_short(node)}` reads `{name}`, which it changes"
                self.fail("RG0704", message, _reading(node, target), _new_variable(node))
            return
        seen: set[Address] = set()
        for other in loads(e):
            if other.region is not where.region or other in seen:
                continue
            seen.add(other)
            self.differ(
                t, where, other, 1, 1, "RG0704", f"`{_short(node)}` reads `{_short(target)}`, which it changes", node, e
            )

    def independent(
        self, t: Temporaries, places: Sequence[tuple[Var | Address, ast.AST]], expressions: Sequence[E], node: ast.AST
    ) -> None:
        """Neither the expressions nor the indices of any of the places may read one of the places, all of which are changed."""
        indices = [term for place, _ in places if isinstance(place, Address) for term, _ in place.terms]
        for place, target in places:
            for e in (*expressions, *indices):
                self.refuse_overlap(t, e, place, node, target)

    def differ(
        self,
        t: Temporaries,
        x: Address,
        y: Address,
        size_x: int,
        size_y: int,
        code: str,
        message: str,
        node: ast.AST,
        within: E | None = None,
    ) -> None:
        """The words [x, x + size_x) and [y, y + size_y) are disjoint: decided now, or tested when the program runs."""
        distance = x.minus(y)
        if distance is not None:
            if -size_x < distance < size_y:
                if code == "RG0704":
                    where = _reading(node, node.target) if isinstance(node, ast.AugAssign) else node
                    self.fail(code, message, where, _new_variable(node))
                self.fail(code, message, node)
            return
        difference = self._difference(x, y)
        bounds = interval(difference, self.ranges)
        if bounds is not None and (bounds[0] >= size_y or bounds[1] <= -size_x):
            return
        free = variables(difference)
        summed = {v for n in (walk(within) if within is not None else ()) if n.op == "total" for v in n.param[0]}
        if free & summed:
            # An index that runs over the array: the sum reads the word itself at some point, unless ranges say no.
            self.fail(code, message, node, "sum into a variable of its own first")
        span = self.source.span(node)
        if size_x == size_y == 1:
            a, b = self._sides(difference)
            test = Test("ne", t.operand(a), t.operand(b))
            named = [f"`{x.param.name}`" for x in (a, b) if x.op == "read"]
            if len(named) == sum(x.op != "const" for x in (a, b)):
                message += f": {' and '.join(named)} {'is' if len(named) == 1 else 'are both'} {{a}}"
        else:
            # d ≥ size_y or d ≤ −size_x, as one unsigned comparison of d + size_x − 1 with size_x + size_y − 1
            shifted = add(difference, const(size_x - 1, INT), self.w)
            test = Test("geu", t.operand(shifted), Const(size_x + size_y - 1))
        t.compute.append(Check(test, "RG0805", message, span))

    def _difference(self, x: Address, y: Address) -> E:
        e = const(self.w.signed(x.offset - y.offset), INT)
        total: dict[E, int] = dict(x.terms)
        for term, k in y.terms:
            total[term] = total.get(term, 0) - k
        for base, sign in ((x.base, 1), (y.base, -1)):
            if base is not None and x.base is not y.base:
                key = read(base)
                total[key] = total.get(key, 0) + sign
        for term, k in total.items():
            if k == 1:
                e = add(e, term, self.w)
            elif k == -1:
                e = sub(e, term, self.w)
            elif k:
                e = add(e, apply("mul", INT, term, const(self.w.signed(k), INT)), self.w)
        return e

    def _sides(self, difference: E) -> tuple[E, E]:
        """(a, b) with a − b the difference, so that a test for equality needs no temporary where both are at hand."""
        if difference.op == "sub":
            return difference.args[0], difference.args[1]
        return difference, const(0, INT)

    def _update_array(self, place: ArrayView, update: str, value: Value, node: ast.AST) -> None:
        """Element by element, the last index moving fastest."""
        if isinstance(value, ArrayView | Lazy):
            shape = self.broadcast(node, [place.shape, value.shape])
            if shape != place.shape:
                self.fail("RG0712", f"{describe(value)} does not broadcast to the shape {place.shape}", node)
        if isinstance(place.element, StructType):
            self.fail(
                "RG0703",
                f"{_SIGNS[update]} is not defined for {place.element}; update its fields, x.{place.element.fields[0][0]}",
                node,
            )

        self._refuse_shifted(place, value, node)

        def one(index: tuple[E, ...]) -> None:
            target = element(place, index)
            assert isinstance(target, Scalar)
            self.update(target, update, element(value, index), node, getattr(node, "target", node))

        self._over(place.shape, one, value)

    def _refuse_shifted(self, place: ArrayView, value: Value, node: ast.AST) -> None:
        """`a[1:] += a[:-1]`: what an element reads another may have changed before, so that the order would matter."""
        if not isinstance(value, ArrayView | Lazy) or 0 in place.shape:
            return
        ones = [Var(f"i{n}", INT) for n in range(len(place.shape))]
        for var, length in zip(ones, place.shape, strict=True):
            self.ranges[var] = (0, length - 1)
        sample = element(value, tuple(read(v) for v in ones))
        if not isinstance(sample, Scalar):
            return
        extent = sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True) if s > 0) + place.element.size
        below = sum((n - 1) * s for n, s in zip(place.shape, place.strides, strict=True) if s < 0)
        for at in loads(sample.e):
            if at.region is not place.address.region:
                continue
            difference = self._difference(at, place.address)
            bounds = interval(difference, self.ranges)
            if bounds is not None and (bounds[0] >= extent or bounds[1] < below):
                continue
            if variables(difference) - set(ones):
                # Indices of the program's own decide: each element is tested when the program runs.
                continue
            if bounds is not None and not _disjoint_by_stride(at, place):
                hint = "write a loop over the elements, in the order that you mean"
                self.fail("RG0704", f"`{_short(node)}` reads elements of the array that it changes", node, hint)

    def _over(self, shape: Sequence[int], body: Callable[[tuple[E, ...]], None], value: Value | None = None) -> None:
        """body(indices) in loops over all indices of a shape. What is the same in all elements of `value` is computed once."""
        if prod(shape) == 0:
            return
        span = self.source.span(self.node)
        indices = tuple(Var(f"i{n}" if len(shape) > 1 else "i", INT, span) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            self.ranges[var] = (0, length - 1)
        index = tuple(const(0, INT) if length == 1 else read(v) for v, length in zip(indices, shape, strict=True))
        self.settled.update(indices)
        around, previous = self.temporaries(), self.enclosing
        if isinstance(value, Lazy):
            sample = element(value, index)
            if isinstance(sample, Scalar):
                around.hoist(sample.e, frozenset(indices))
        self.enclosing = around
        with self.block() as inner:
            body(index)
        self.enclosing = previous
        nodes: Block = tuple(inner)
        for var, length in zip(reversed(indices), reversed(shape), strict=True):
            if length != 1:
                nodes = (For(var, ZERO, Const(length), 1, nodes, False, True, span),)
        self.emit(around.wrap(nodes))

    # ------------------------------------------------------------------ making and freeing

    def _assign(self, target: ast.expr, value: ast.expr, annotation: ast.expr | None) -> None:
        match target, value:
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
                if len(targets) != len(values):
                    self.fail("RG0703", f"{len(targets)} names for {len(values)} values", target)
                left, right = [ast.unparse(x) for x in targets], [ast.unparse(x) for x in values]
                if sorted(left) == sorted(right):
                    self._permute(targets, values)
                    return
                for x, v in zip(targets, values, strict=True):
                    self._assign(x, v, None)
                return
            case ast.Name(id=name), _:
                pass
            case ast.Tuple(), _:
                found = self.value(value)
                if not isinstance(found, Constant):
                    self.fail("RG0703", f"`{_short(value)}` is {describe(found)}, not several values", value)
                self._bind(target, found, target)
                return
            case _:
                hint = "update it with += or -=; to exchange, write `x, y = y, x`"
                self.fail("RG0706", f"`{_short(target)}` holds a value already", target, hint)
        if name in self.names:
            self.fail("RG0706", f"`{name}` holds a value already", target, _as_update(name, value))
        if isinstance(value, ast.Call):
            made = self._constructed(name, value)
            if made is not None:
                self.names[name] = made
                return
        found = self.value(value)
        kind: Kind | None = None
        if annotation is not None:
            wanted = scalar_of(self.static(annotation, "a type"))
            if wanted is None:
                self.fail("RG0703", "a local variable is annotated as int, bool, fixed or lognum", annotation)
            kind = wanted.kind
        self.names[name] = self.make(name, found, kind, value, fixed_name=name not in self.changed)

    def make(self, name: str, value: Value, kind: Kind | None, node: ast.expr, fixed_name: bool = False) -> Value:
        """`name = value`: a new variable, a copy of an array expression, or another name for a view."""
        match value:
            case Constant(v):
                own = number_kind(v)
                if own is None or (fixed_name and kind is None):
                    return value  # a name for a constant
                e: E = self.guarded(node, self.arithmetic.expression, value, kind)
                return self._make_scalar(name, e, node)
            case Scalar():
                e = self.guarded(node, self.arithmetic.expression, value, kind)
                return self._make_scalar(name, e, node)
            case StructValue(t, fields) if isinstance(node, ast.Call):
                made = {}
                for field_name, inner in fields.items():
                    wanted = dict(t.fields)[field_name]
                    inner_kind = wanted.kind if isinstance(wanted, ScalarType) else None
                    made[field_name] = self.make(f"{name}.{field_name}", inner, inner_kind, node)
                return StructValue(t, made)
            case Lazy():
                return self._make_array(name, value, node)
            case ArrayView() | StructValue() | StackValue():
                return self._view(name, value, node)
            case _:
                return value  # a function: another name for it

    def _view(self, name: str, value: Value, node: ast.AST) -> Value:
        """`row = a[i]`: another name for what lies there now; where i may change, the address is kept in a variable."""
        addresses = {a for a in _addresses(value) if any(not self._settled(e) for e, _ in a.terms)}
        moved: dict[tuple[Any, ...], Address] = {}
        for a in addresses:
            key = (a.region, a.base, a.terms)
            if key not in moved:
                moved[key] = self._located(name, a._replace(offset=0), node)
        if not moved:
            return value
        return _relocated(value, moved)

    def _settled(self, e: E) -> bool:
        """Whether the value of an index is the same as long as it is in scope: made of constants and loops' indices."""
        return not loads(e) and variables(e) <= self.settled

    def _located(self, name: str, at: Address, node: ast.AST) -> Address:
        """An address kept in a variable."""
        base = Var(f"{name}.base", Kind.ADDRESS, self.source.span(node))

        def nodes() -> Block:
            t = self.temporaries()
            a, imm = t.address(at)
            body = [Op(TABLE["mov.add"], base, a, None, 0, t.span)]
            if imm:
                body.append(Op(TABLE["mov.add"], base, Const(self.w.wrap(imm)), None, 0, t.span))
            return (Local(base, False, t.span), *t.wrap(tuple(body)))

        self.emit(nodes())
        made_node = self.node

        def undo(checked: bool) -> Block:
            self.node = made_node
            return tuple(n._replace(checked=checked) if isinstance(n, Delocal) else n for n in invert(nodes()))

        operands = self.snapshot(*(e for e, _ in at.terms))
        self.made.append(Made(name, variable(base), (base,), undo, operands, self.depth, node))
        return Address(at.region, base)

    def _make_scalar(self, name: str, e: E, node: ast.AST) -> Value:
        var = Var(name, e.kind, self.source.span(node))
        t = self.temporaries()
        self.emit(allocate(t, var, e), var)
        result = variable(var)
        span_node = self.node

        def undo(checked: bool) -> Block:
            if self.node is node:
                self.node = span_node
            return release(self.temporaries(), var, e, checked)

        made = Made(name, result, (var,), undo, self.snapshot(e), self.depth, node, initial=e)
        self.made.append(made)
        if e.op == "const" and e.kind is INT:
            self.constants[var] = self.w.signed(e.param)
        return result

    def _new_array(
        self, name: str, t: ScalarType | StructType | StackType, shape: tuple[int, ...], node: ast.AST
    ) -> tuple[Value, Region, Block, Block]:
        """A stretch of zeroed memory: (the array in it, its region, what makes it, what frees it)."""
        size = prod(shape) * t.size
        span = self.source.span(node)
        if not self.recursive:
            region = self.module.static_region(f"{self.function.__name__}.{name}", size, span)
            address, before, after = Address(region, None), (), ()
            first: Block = before
            last: Block = after
        else:
            # A recursive function is active more than once: its arrays lie on the stack.
            region = Region(name, size, span=span)
            base = Var(f"{name}.base", Kind.ADDRESS, span)
            address = Address(region, base)
            first = (
                Local(base, False, span),
                Op(TABLE["mov.add"], base, SP, None, 0, span),
                Op(TABLE["mov.add"], SP, Const(size), None, 0, span),
            )
            last = invert(first)
        if isinstance(t, StackType):
            return StackValue(t, address), region, first, last
        return ArrayView(t, shape, row_major(shape, t.size), address), region, first, last

    def _make_array(self, name: str, value: Lazy, node: ast.AST) -> Value:
        """`name = array expression`: a copy of its values."""
        sample = value.element(tuple(const(0, INT) for _ in value.shape))
        if not isinstance(sample, Scalar | Constant):
            self.fail("RG0703", f"an array of {describe(sample)} cannot be copied", node)
        kind = self.guarded(node, self.arithmetic.expression, sample).kind
        view, region, first, last = self._new_array(name, ScalarType(kind), value.shape, node)
        assert isinstance(view, ArrayView)
        reads = self._element_reads(value)
        operands = self.snapshot(*reads)
        update = {FIXED: "add", INT: "add", BOOL: "xor", Kind.LOGNUM: "mul"}[kind]
        self.emit(first)
        place = (self.out, len(self.out))
        self._update_array(view, update, value, node)
        start = self.versions[region]
        made_node = self.node

        def undo(checked: bool) -> Block:
            self.node = made_node
            outer, self.out = self.out, []
            written, versions = set(self.written), Counter(self.versions)
            self._update_array(view, _OPPOSITE[update], value, node)
            nodes = tuple(self.out)
            self.out, self.written, self.versions = outer, written, versions
            return (*nodes, *(self._all_zero(view) if checked else ()), *last)

        parts: tuple[Var | Region, ...] = (region, *_base(view))
        self.made.append(Made(name, view, parts, undo, operands | {region: start}, self.depth, node, emitted=place))
        return view

    def _element_reads(self, value: Lazy) -> list[E]:
        found = value.element(tuple(const(0, INT) for _ in value.shape))
        return [found.e] if isinstance(found, Scalar) else []

    def _all_zero(self, view: ArrayView | StackValue) -> Block:
        """Tests that every word of an array is zero."""
        size = view.type.size
        if size == 0:
            return ()
        region = view.address.region
        kind = view.element.kind if isinstance(view, ArrayView) and isinstance(view.element, ScalarType) else INT
        name = _own_name(region)
        i, word, span = Var("i", INT), Var(name, kind, region.span), self.source.span(self.node)
        t = self.temporaries()
        at = view.address.shifted(read(i), 1)
        t.compute.append(Local(word, True, span))
        t.compute.append(t.memory("exch", word, at))
        # Exchanged out, found zero, and so as good as never touched.
        match view:
            case StackValue():
                message = f"the stack `{name}` holds values when it is freed, and must be empty"
            case ArrayView(element=ScalarType(), shape=(_,)):
                message = f"`{name}[{{k}}]` is left with {{a}} when `{name}` is freed, and must be zero"
            case _:
                message = f"`{name}` is freed with an element that is not zero: number {{k}} is {{a}}"
        check = Check(Test("eq", word, ZERO), "RG0802", message, span)
        body = t.wrap((check,))
        return (For(i, ZERO, Const(size), 1, body, False, True, span),)

    def _constructed(self, name: str, node: ast.Call) -> Value | None:
        """`rg.zeros(…)` and the like; None for any other call."""
        f = self.value(node.func)
        if not (isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.CONSTRUCTOR):
            return None
        which = f.value.__name__
        t: ScalarType | StructType | StackType | None
        if which == "stack":
            if len(node.args) != 2 or node.keywords:
                self.fail("RG0715", "rg.stack takes a type and a capacity", node)
            inner = scalar_of(self.static(node.args[0], "the type of a stack's values"))
            if inner is None:
                self.fail("RG0703", "a stack holds int, bool, fixed or lognum", node.args[0])
            t = StackType(inner, self.static_int(node.args[1], "a stack's capacity"))
            shape: tuple[int, ...] = (1,)
        elif which == "copy":
            if len(node.args) != 1 or node.keywords:
                self.fail("RG0715", "rg.copy takes an array, a struct or a number", node)
            return self._copy(name, self.value(node.args[0]), node)
        elif which == "zeros_like":
            if len(node.args) != 1:
                self.fail("RG0715", "rg.zeros_like takes an array", node)
            model = self.value(node.args[0])
            if isinstance(model, Lazy):
                sample = model.element(tuple(const(0, INT) for _ in model.shape))
                t, shape = ScalarType(self.guarded(node, self.arithmetic.expression, sample).kind), model.shape
            elif isinstance(model, ArrayView):
                t, shape = model.element, model.shape
            else:
                self.fail("RG0703", f"{describe(model)} is no array", node)
        else:
            dtype = next((k.value for k in node.keywords if k.arg == "dtype"), None)
            if any(k.arg != "dtype" for k in node.keywords):
                self.fail("RG0715", "rg.zeros takes lengths, and dtype=", node)
            t = ScalarType(FIXED) if dtype is None else element_of(self.static(dtype, "a type"))
            if t is None:
                self.fail("RG0703", "an array holds int, bool, fixed, lognum or structs", node)
            lengths = [self.static(a, "an array's length") for a in node.args]
            if len(lengths) == 1 and isinstance(lengths[0], tuple | list):
                lengths = list(lengths[0])
            if not all(number_kind(n) is INT and n >= 0 for n in lengths):
                self.fail("RG0703", f"lengths are integers from 0 on, not {lengths}", node)
            shape = tuple(int(n) for n in lengths)
        view, region, first, last = self._new_array(name, t, shape, node)
        self.emit(first)
        place = (self.out, len(self.out))

        def undo(checked: bool) -> Block:
            assert isinstance(view, ArrayView | StackValue)
            return (*(self._all_zero(view) if checked else ()), *last)

        operands: dict[Var | Region, int] = {region: self.versions[region]}
        parts: tuple[Var | Region, ...] = (region, *_base(view))
        self.made.append(Made(name, view, parts, undo, operands, self.depth, node, emitted=place))
        return view

    def _copy(self, name: str, value: Value, node: ast.Call) -> Value:
        """`t = rg.copy(x)`: a variable, array or struct of its own, with the values of x."""
        if isinstance(value, ArrayView) and isinstance(value.element, ScalarType):
            view = value
            return self._make_array(name, Lazy(view.shape, lambda index: element(view, index)), node)
        if isinstance(value, StructValue):
            return StructValue(value.type, {f: self._copy(f"{name}.{f}", v, node) for f, v in value.fields.items()})
        if isinstance(value, ArrayView | StackValue):
            self.fail("RG0703", f"{describe(value)} cannot be copied whole", node, "Copy its fields or elements.")
        return self.make(name, value, None, node)

    def _delete(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            self.fail("RG0701", "`del` frees a variable by its name", target)
        name = target.id
        if name not in self.names:
            found = self.value(target)  # says that it is unknown, or freed
            message = f"`{name}` is {describe(found)} from outside this function, and cannot be freed"
            self.fail("RG0709", message, target, "Remove the `del`.")
        own = [m for m in self.made if m.name == name or m.name.startswith(f"{name}.")]
        value = self.names[name]
        own = [m for m in own if _belongs(m, value)]
        if not own:
            if isinstance(value, Constant):
                del self.names[name]
                return
            self.fail(
                "RG0709", f"`{name}` was not made in this function, and cannot be freed", target, "Remove the `del`."
            )
        for made in reversed(own):
            self._release(made, target)
        self.names.pop(name, None)
        self.freed[name] = self.source.span(target)

    def _release(self, made: Made, where: ast.AST | None) -> None:
        """Free what was made: its initial value is undone; whether zero is left is known, or tested."""
        node = where or made.node
        stale = [p for p, version in made.operands.items() if self.versions[p] != version and p not in made.parts]
        arrays = [p for p in made.parts if isinstance(p, Region)]
        if arrays:
            touched = any(self.versions[p] != made.operands[p] for p in arrays)
        else:
            touched = made.history is None or bool(made.history)
        if stale:
            self._stale(made, stale, node)
        if made.history and made.initial is not None and not made.gone:
            left = self._certain_rest(made)
            if left is not None:
                self.fail("RG0710", f"`{made.name}` holds {left} when it is freed", node)
        previous, self.node = self.node, node
        if made.gone:
            (var,) = made.parts
            assert isinstance(var, Var)
            block: Block = (Delocal(var, touched, self.source.span(made.node)),)
        else:
            block = made.release(touched)
        if touched:
            self._test_at_birth(made)
        self.node = previous
        self.made.remove(made)
        self.freeing = True
        self.emit(block)
        self.freeing = False
        for name, value in list(self.names.items()):
            if value is made.value:
                del self.names[name]
                self.freed[name] = self.source.span(node)

    def _test_at_birth(self, made: Made) -> None:
        """What is tested when it is freed is tested when it is made, too: running backward that is where it is freed."""
        for index in range(len(self.out) - 1, -1, -1):
            node = self.out[index]
            if isinstance(node, Local) and node.var in made.parts:
                self.out[index] = node._replace(checked=True)
                break
        if isinstance(made.value, ArrayView | StackValue) and made.emitted is not None and made.emitted[0] is self.out:
            tests = self._all_zero(made.value)
            at = made.emitted[1]
            self.out[at:at] = tests
            for other in self.made:
                if other.emitted is not None and other.emitted[0] is self.out and other.emitted[1] > at:
                    other.emitted = (self.out, other.emitted[1] + len(tests))

    def _stale(self, made: Made, stale: Sequence[Var | Region], node: ast.AST) -> None:
        p = stale[0]
        what = _own_name(p) if isinstance(p, Region) else p.name
        gone = self.freed.get(what)
        since = "has changed since" if gone is None else f"was freed in line {gone.line}"
        hint = f"Free `{made.name}` before, with `del {made.name}`, or undo the change of `{what}` first."
        self.fail("RG0718", f"`{made.name}` was made from `{what}`, which {since}", node, hint)

    def _certain_rest(self, made: Made) -> str | None:
        """The constant that a variable certainly holds beyond its initial value, or None."""
        assert made.history is not None
        total = 0
        for update, e, _ in made.history:
            if e.op != "const" or update not in ("add", "sub") or made.initial is None:
                return None
            total += self.w.signed(e.param) * (1 if update == "add" else -1)
        initial = made.initial
        if total == 0 or initial is None:
            return None

        def number(word: int) -> str:
            return f"{float(self.w.to_real(self.w.wrap(word)))}" if initial.kind is FIXED else str(word)

        if initial.op != "const":
            return f"{number(total)} more than it was made with"
        start = self.w.signed(initial.param)
        return None if total + start == 0 else f"{number(total + start)} and not {number(start)}"

    # ------------------------------------------------------------------ control flow

    def condition_pair(self, test: ast.expr) -> tuple[ast.expr, ast.expr | None]:
        """(before, after): `(pre, post)` as written, or one condition for both."""
        if isinstance(test, ast.Tuple):
            if len(test.elts) != 2:
                self.fail(
                    "RG0701", "a pair of conditions is (before, after)", test, "write `and` or `or` between conditions"
                )
            return test.elts[0], test.elts[1]
        return test, None

    def _if(self, node: ast.If) -> None:
        before, after = self.condition_pair(node.test)
        found = self.value(before)
        if isinstance(found, Constant):
            # Known now: only one branch is compiled, as part of this block.
            with self.block() as inner:
                self.statements(node.body if self.decided(found, before) else node.orelse)
            self.emit(inner)
            return
        pre = self.condition(before)
        span = self.source.span(before)
        if after is None:
            t = self.temporaries()
            test = t.test(pre)
            then, orelse = self._branch(node.body), self._branch(node.orelse)
            changes = self._changes((*then, *orelse))
            clobbered = variables(pre) & changes.writes
            if clobbered:
                name = min(v.name for v in clobbered)
                where = self._where_changed([*node.body, *node.orelse], name)
                hint = f"write `if ({_short(before)}, …):`, the second condition being true exactly if the body was run"
                self.fail("RG0707", f"the body changes `{name}`{where}, on which the condition depends", before, hint)
            checked = self._loads_clobbered(pre, changes)
            self.emit(t.wrap((If(test, then, orelse, test, span),), checked))
            return
        post_node = after
        t_pre = self.temporaries()
        test = t_pre.test(pre)
        then, orelse = self._branch(node.body), self._branch(node.orelse)
        post = self.condition(post_node)
        t_post = self.temporaries()
        post_test = t_post.test(post)
        if not t_pre.compute and not t_post.compute:
            self.emit((If(test, then, orelse, post_test, span),))
            return
        # The branch taken is kept in a bit, set by one condition and cleared by the other.
        bit = Var("branch", BOOL, span)
        message = f"`{_short(post_node)}` is {{truth}} after the `if`, and `{_short(before)}` is {{other}} before it"
        still = Check(Test("eq", bit, ZERO), "RG0803", message, self.source.span(post_node))
        taken = Test("ne", bit, ZERO)
        self.emit(
            (
                Local(bit, False, span),
                still,
                *self._set_bit(bit, pre),
                If(taken, then, orelse, taken, span),
                *self._set_bit(bit, post),
                still,
                Delocal(bit, False, span),
            )
        )

    def _where_changed(self, body: Sequence[ast.stmt], name: str) -> str:
        """` in line 7`, where a statement of a body that may change a variable can be found."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.AugAssign | ast.Call | ast.Assign):
                    changed = node.target if isinstance(node, ast.AugAssign) else node
                    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(changed)):
                        return f" in line {self.source.span(node).line}"
        return ""

    def _set_bit(self, bit: Var, condition: E) -> Block:
        t = self.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def _branch(self, body: Sequence[ast.stmt]) -> Block:
        previous = self.node
        with self.block() as inner:
            self.statements(body)
        self.node = previous
        return tuple(inner)

    def _changes(self, block: Block) -> Footprint:
        return self.module.footprints.block(block)

    def _loads_clobbered(self, e: E, changes: Footprint) -> bool:
        regions = {a.region for a in loads(e)}
        return bool(regions) and (None in changes.stores or not regions.isdisjoint(changes.stores))

    def _while(self, node: ast.While) -> None:
        if node.orelse:
            hint = "Put these statements after the loop: it has no other way out."
            self.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)
        before, after = self.condition_pair(node.test)
        if after is None:
            hint = f"write `while ({_short(node.test)}, …):`, the second condition being false before the loop and true after each pass"
            self.fail(
                "RG0707",
                "a `while` needs a second condition, to know when running backward where it began",
                node.test,
                hint,
            )
        span = self.source.span(before)
        body = self._branch(node.body)
        pre, post = self.condition(before), self.condition(after)
        t_pre, t_post = self.temporaries(), self.temporaries()
        pre_test, post_test = t_pre.test(pre), t_post.test(post)
        first: list[Node] = []
        head: list[Node] = []
        tail: list[Node] = []
        last: list[Node] = []
        if t_post.compute:
            bit = Var("passed", BOOL, span)
            message = f"`{_short(after)}` is true before the first pass of the loop, and must be false there"
            fresh = Check(Test("eq", bit, ZERO), "RG0803", message, self.source.span(after))
            change = self._set_bit(bit, post)
            first += [Local(bit, False, span), *change, fresh]
            head += change
            tail += change
            last += [*change, Delocal(bit, False, span)]
            post_test = Test("ne", bit, ZERO)
        if t_pre.compute:
            bit = Var("again", BOOL, span)
            message = f"`{_short(before)}` is true after the last pass of the loop, where the loop would go on"
            over = Check(Test("eq", bit, ZERO), "RG0803", message, span)
            change = self._set_bit(bit, pre)
            first += [Local(bit, False, span), *change]
            head = [*change, *head]
            tail += change
            last = [over, *change, Delocal(bit, False, span), *last]
            pre_test = Test("ne", bit, ZERO)
        loop = While(pre_test, (*head, *body, *tail), post_test, span)
        self.emit((*first, loop, *last))

    def _for(self, node: ast.For) -> None:
        if node.orelse:
            hint = "Put these statements after the loop: it has no other way out."
            self.fail("RG0701", "`else` of a loop is not in the language", node.orelse[0], hint)
        iterated = node.iter
        if isinstance(iterated, ast.Call):
            f = self.value(iterated.func)
            callee = f.value if isinstance(f, Constant) else None
            if callee is range:
                self._for_range(node, iterated)
                return
            if callee is enumerate or callee is zip or callee is reversed:
                given = [self.value(a) for a in iterated.args]
                if not iterated.keywords and all(isinstance(v, Constant) for v in given):
                    items = [v.value for v in given if isinstance(v, Constant)]
                    self._for_constants(node, Constant(self.guarded(iterated, lambda: list(callee(*items)))))
                    return
                self._for_arrays(node, callee, iterated.args)
                return
        found = self.value(iterated)
        if isinstance(found, Constant):
            self._for_constants(node, found)
            return
        self._for_arrays(node, None, [iterated])

    def _for_constants(self, node: ast.For, found: Constant) -> None:
        """Over constants: a copy of the body for each."""
        try:
            items = list(islice(found.value, _MOST_COPIES + 1))
        except TypeError:
            self.fail("RG0703", f"{describe(found)} cannot be iterated over", node.iter)
        if len(items) > _MOST_COPIES:
            hint = "Go through a range with `range(…)`, or make an array of the values: an argument, or a NumPy array at an index."
            message = f"the body of this loop would be compiled more than {_MOST_COPIES} times, for each constant once"
            self.fail("RG0720", message, node.iter, hint)
        for item in items:
            with self.block() as inner:
                self._bind(node.target, self.wrap(item), node)
                self.statements(node.body)
            self.emit(inner)

    def _bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                if name in self.names:
                    self.fail("RG0706", f"`{name}` holds a value already", target)
                self.names[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, Constant) and isinstance(value.value, tuple | list):
                if len(targets) != len(value.value):
                    self.fail("RG0703", f"{len(targets)} names for {len(value.value)} values", target)
                for x, v in zip(targets, value.value, strict=True):
                    self._bind(x, self.wrap(v), node)
            case _:
                self.fail("RG0701", f"`{_short(target)}` is no name for the values of a loop", target)

    def _for_range(self, node: ast.For, call: ast.Call) -> None:
        if not 1 <= len(call.args) <= 3 or call.keywords:
            self.fail("RG0715", "range takes one to three integers", call)
        bounds = [self.scalar(a, INT) for a in call.args]
        step = self.static_int(call.args[2], "the step of a range") if len(bounds) == 3 else 1
        if step == 0:
            self.fail("RG0714", "the step of a range is zero", call)
        start = bounds[0] if len(bounds) > 1 else const(0, INT)
        stop = bounds[1] if len(bounds) > 1 else bounds[0]
        target = node.target
        if not isinstance(target, ast.Name):
            self.fail("RG0701", f"`{_short(target)}` is no name for an integer", target)
        self._loop(target.id, start, stop, step, node, call, lambda: self.statements(node.body))

    def _loop(
        self, name: str, start: E, stop: E, step: int, node: ast.For, call: ast.AST, body: Callable[[], None]
    ) -> None:
        if name in self.names:
            self.fail("RG0706", f"`{name}` holds a value already", node.target)
        w = self.w
        span = self.source.span(node)
        var = Var(name, INT, self.source.span(node.target))
        if not loads(start) and not loads(stop):
            one = const(1, INT)
            between = (start, sub(stop, one, w)) if step > 0 else (add(stop, one, w), start)
            self.ranges.between[var] = between
        self.settled.add(var)
        start_bounds, stop_bounds = interval(start, self.ranges), interval(stop, self.ranges)
        some = False
        if start.op == "const" and stop.op == "const":
            count = len(range(w.signed(start.param), w.signed(stop.param), step))
            if count == 0:
                return
            first, some = w.signed(start.param), True
            stop = const(w.signed(first + count * step), INT)
            last = first + (count - 1) * step
            self.ranges[var] = (min(first, last), max(first, last))
        else:
            if start_bounds is not None and stop_bounds is not None:
                if stop_bounds[1] <= start_bounds[0] if step > 0 else stop_bounds[0] >= start_bounds[1]:
                    return  # there is nothing to go through
                if step > 0:
                    self.ranges[var] = (start_bounds[0], max(start_bounds[0], stop_bounds[1] - 1))
                    some = start_bounds[1] < stop_bounds[0]
                else:
                    self.ranges[var] = (min(start_bounds[1], stop_bounds[0] + 1), start_bounds[1])
                    some = start_bounds[0] > stop_bounds[1]
            elif start_bounds is not None and step > 0:
                self.ranges[var] = (start_bounds[0], w.sign - 1)
            ordered = some
            if start_bounds is not None and stop_bounds is not None:
                ordered = start_bounds[1] <= stop_bounds[0] if step > 0 else start_bounds[0] >= stop_bounds[1]
            stop = self._reached(start, stop, step, ordered)
        t = self.temporaries()
        a, b = t.operand(start), t.operand(stop)
        with self.block() as inner:
            self.names[name] = variable(var, "it is the index of a loop")
            body()
        changes = self._changes(tuple(inner))
        clobbered = (variables(start) | variables(stop)) & changes.writes
        if clobbered:
            changed = min(v.name for v in clobbered)
            where = self._where_changed(node.body, changed)
            self.fail("RG0708", f"the body changes `{changed}`{where}, on which the loop's bounds depend", call)
        checked = self._loads_clobbered(start, changes) or self._loads_clobbered(stop, changes)
        self.emit(t.wrap((For(var, a, b, step, tuple(inner), False, some, span),), checked))

    def _reached(self, start: E, stop: E, step: int, ordered: bool) -> E:
        """The value that the index has after the last pass: start + step · ⌈max(0, stop − start) / step⌉.

        `ordered`: stop is known not to lie before start.
        """
        w = self.w
        if step in (1, -1):
            return stop if ordered else apply("max" if step > 0 else "min", INT, start, stop)
        distance = sub(stop, start, w) if step > 0 else sub(start, stop, w)
        size = abs(step)
        rounded = apply("div", INT, add(distance, const(size - 1, INT), w), const(size, INT))
        count = rounded if ordered else apply("max", INT, rounded, const(0, INT))
        travelled = apply("mul", INT, count, const(w.signed(step), INT))
        return add(start, travelled, w)

    def _for_arrays(self, node: ast.For, how: Any, args: Sequence[ast.expr]) -> None:
        """`for x in xs`, enumerate(xs), zip(xs, ys), reversed(xs): views of the elements."""
        arrays = [self.value(a) for a in args]
        for a, v in zip(args, arrays, strict=True):
            if not isinstance(v, ArrayView | Lazy) or not v.shape:
                self.fail("RG0703", f"`{_short(a)}` is {describe(v)}, which cannot be iterated over", a)
        lengths = {v.shape[0] for v in arrays if isinstance(v, ArrayView | Lazy)}
        if len(lengths) != 1 or (how in (enumerate, reversed) and len(arrays) != 1):
            self.fail("RG0712", f"arrays of the lengths {sorted(lengths)} are gone through together", node.iter)
        (length,) = lengths
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        wanted = len(arrays) + (how is enumerate)
        if len(targets) != wanted or not all(isinstance(x, ast.Name) for x in targets):
            self.fail("RG0703", f"`{_short(node.target)}` names {len(targets)} values of {wanted}", node.target)
        names = [x.id for x in targets if isinstance(x, ast.Name)]
        index_name = names[0] if how is enumerate else f"{names[0]}.index"
        own = names[1:] if how is enumerate else names

        def body() -> None:
            index = self.names[index_name]
            assert isinstance(index, Scalar)
            if how is not enumerate:
                del self.names[index_name]
            for x, v in zip(own, arrays, strict=True):
                if x in self.names:
                    self.fail("RG0706", f"`{x}` holds a value already", node.target)
                self.names[x] = self.first_axis(v, index.e)
            self.statements(node.body)

        start, stop, step = (length - 1, -1, -1) if how is reversed else (0, length, 1)
        w = self.w
        self._loop(index_name, const(w.signed(start), INT), const(w.signed(stop), INT), step, node, node.iter, body)

    def first_axis(self, v: Value, index: E) -> Value:
        """v[index], the index being in range."""
        if isinstance(v, ArrayView):
            inner = v.without(0, v.at(index))
            return inner if inner.shape else inner.item()
        if isinstance(v, Lazy):
            rest = v.shape[1:]
            return Lazy(rest, lambda more: v.element((index, *more))) if rest else v.element((index,))
        return v

    def _assert(self, test: ast.expr) -> None:
        found = self.value(test)
        if isinstance(found, Constant):
            if not self.decided(found, test):
                self.fail("RG0804", f"`{_short(test)}` is false", test)
            return
        e = self.condition(test)
        t = self.temporaries()
        claim = t.test(e)
        plain = e.args[0] if e.op == "not" else e
        values = blanks(test, claim.a, claim.b) if plain.op == "apply" and plain.param in ("slt", "seq") else ""
        check = Check(claim, "RG0804", f"`{_short(test)}` is false{values}", self.source.span(test))
        self.emit(t.wrap((check,)))

    # ------------------------------------------------------------------ routines

    def _with(self, node: ast.With) -> None:
        if len(node.items) != 1:
            self.fail("RG0701", "a `with` opens one routine", node, "write one `with` inside the other, or after it")
        item = node.items[0]
        called = item.context_expr
        f = self.value(called.func) if isinstance(called, ast.Call) else self.value(called)
        which = f.value if isinstance(f, Constant) else None
        if which is intrinsics.external:
            self._external(node)
            return
        if which is not intrinsics.routine:
            hint = "The blocks are `with rg.routine() as r:` and `with rg.external():`, where Python's own functions may be called."
            self.fail("RG0701", f"`with {_short(called)}` is no block of the language", called, hint)
        if not isinstance(item.optional_vars, ast.Name):
            self.fail("RG0711", "a routine needs a name, to be uncomputed by", node, "write `with rg.routine() as r:`")
        name = item.optional_vars.id
        if name in self.names:
            self.fail("RG0706", f"`{name}` holds a value already", item.optional_vars)
        outer, before = self.out, len(self.made)
        versions, histories = Counter(self.versions), self._histories()
        names = dict(self.names)
        compute: list[Node] = []
        self.out = compute
        routines, self.routines = self.routines, []
        self.statements(node.body)
        if self.routines:
            r = self.routines[-1]
            hint = f"Write `~{r.name}` at the end of the routine `{name}`."
            self.fail("RG0711", f"the routine `{r.name}` is not uncomputed within `{name}`", r.node, hint)
        self.routines = routines
        self._open(name, tuple(compute), outer, names, self.made[before:], versions, histories, node)

    def _histories(self) -> dict[int, Any]:
        return {id(m): None if m.history is None else list(m.history) for m in self.made}

    def _open(
        self,
        name: str,
        compute: Block,
        outer: list[Node],
        names: dict[str, Value],
        own: list[Made],
        versions: Counter[Var | Region],
        histories: dict[int, Any],
        node: ast.AST,
    ) -> None:
        self.routines.append(
            Routine(name, compute, outer, names, list(self.made), own, versions, histories, self.depth, node)
        )
        self.names[name] = RoutineValue(name)
        self.out = []

    def _uncompute(self, name: str, node: ast.AST) -> None:
        """`~r`: what the routine computed is undone, its variables are gone."""
        if not self.routines or self.routines[-1].name != name:
            open_names = [r.name for r in self.routines]
            if name in open_names:
                last = self.routines[-1].name
                message = f"the routine `{last}` was computed after `{name}`, and must be uncomputed before it"
                self.fail("RG0711", message, node, f"Write `~{last}` before `~{name}`.")
            if isinstance(self.names.get(name), RoutineValue):
                message = f"the routine `{name}` was computed in another block than this"
                self.fail("RG0711", message, node, f"Write `~{name}` in the block of its `with`.")
            line = f" in line {self.freed[name].line}" if name in self.freed else ""
            self.fail(
                "RG0711",
                f"the routine `{name}` was uncomputed{line} already",
                node,
                f"Remove one of the two, or compute it again: `{name}()`.",
            )
        r = self.routines[-1]
        # What was made since is freed first: it may have been computed from what goes now.
        while len(self.made) > len(r.made):
            self._release(self.made[-1], None)
        lost = [m for m in r.made if m not in self.made]
        if lost:
            message = f"`{lost[0].name}` was freed before the routine `{name}`, which made it, was uncomputed"
            self.fail("RG0711", message, node, f"Leave `{lost[0].name}` alone: `~{name}` frees it.")
        self.routines.pop()
        body = tuple(self.out)
        compute_footprint = self._changes_with_locals(r.compute)
        body_footprint = self._changes(body)
        compute = r.compute
        if body_footprint.disturbs(compute_footprint):
            # The body changes what the routine reads, or made: whether all returns to zero is known when it runs.
            compute = self._tested(compute, r.own)
        self.out = r.outer
        span = self.source.span(r.node)
        local = {p for m in r.own for p in m.parts}
        self.made = [m for m in self.made if m not in r.own]
        for n, value in list(self.names.items()):
            if n not in r.names or (isinstance(value, RoutineValue) and value.name == name):
                del self.names[n]
                self.freed[n] = self.source.span(node)
        for n, value in r.names.items():
            self.names.setdefault(n, value)
        self.emit((Within(compute, body, name, span),))
        # What only the computing half changed is as it was before.
        for place in (
            (compute_footprint.writes | compute_footprint.stores) - body_footprint.writes - body_footprint.stores
        ):
            if place is not None and place not in local:
                self.versions[place] = r.versions[place]
        for m in self.made:
            if id(m) in r.histories and not any(
                p in body_footprint.writes or p in body_footprint.stores for p in m.parts
            ):
                m.history = r.histories[id(m)]
        self.finished[name] = (r.compute, {m.name: m.value for m in r.own}, r.own)

    def _tested(self, compute: Block, own: Sequence[Made]) -> Block:
        """What a routine computes, with tests that all it makes is zero when it is freed."""
        out = [n._replace(checked=True) if isinstance(n, Local) else n for n in compute]
        for made in reversed(own):
            if isinstance(made.value, ArrayView | StackValue) and made.emitted is not None:
                # The routine's own list has been copied since; what was inserted stands where it was.
                out[made.emitted[1] : made.emitted[1]] = self._all_zero(made.value)
        return tuple(out)

    def _changes_with_locals(self, compute: Block) -> Footprint:
        return union(self.module.footprints.of(n) for n in compute)

    def _recompute(self, name: str, node: ast.AST) -> None:
        """`r()`: a routine that was uncomputed is computed again."""
        compute, names, own = self.finished[name]
        versions, histories = Counter(self.versions), self._histories()
        before = dict(self.names)
        for n in names:
            if n in self.names:
                self.fail("RG0706", f"`{n}`, which the routine makes, holds a value already", node)
        fresh = [replace(m, history=None if m.history is None else list(m.history)) for m in own]
        self.made += fresh
        self.names.update(names)
        outer, self.out = self.out, []
        for inner in compute:
            self._note(self.module.footprints.of(inner), None)
        self._open(name, compute, outer, before, fresh, versions, histories, node)

    def _external(self, node: ast.With) -> None:
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and n.id in self.names:
                hint = f"The host sees a copy of `{n.id}`: choose another name, or move the statement out."
                self.fail("RG0709", f"`{n.id}` cannot be changed by the host, which does not run backward", n, hint)
        t = self.temporaries()
        args: list[Operand] = []

        def view(value: Value) -> Value:
            """The value as the host finds it: what is in registers by its place among the operands."""
            match value:
                case Scalar(_, Address() as at) | ArrayView(address=at) | StackValue(address=at):
                    args.append(t.location(at))
                case Scalar(e):
                    args.append(t.operand(e))
                case StructValue(_, fields):
                    for inner in fields.values():
                        view(inner)
                case _:
                    pass
            return value

        seen = {n: view(v) for n, v in self.names.items() if n in used and _visible(v)}
        number = self.module.external(self.function, node, seen)
        self.emit(t.wrap((External(number, self.source.span(node), tuple(args)),)))

    # ------------------------------------------------------------------ expression statements

    def _expression_statement(self, node: ast.expr) -> None:
        backward = False
        call = node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            if isinstance(node.operand, ast.Name):
                name = node.operand.id
                found = self.names.get(name)
                if isinstance(found, RoutineValue) or name in self.finished:
                    self._uncompute(name, node)
                    return
            call, backward = node.operand, True
        if not isinstance(call, ast.Call):
            self._useless(node)
        if isinstance(call.func, ast.Name) and call.func.id in self.finished and call.func.id not in self.names:
            self._recompute(call.func.id, node)
            return
        if isinstance(call.func, ast.Attribute) and call.func.attr == "each":
            f = self.value(call.func.value)
            if isinstance(f, FunctionValue):
                self._each(f, backward, call)
                return
        f = self.value(call.func)
        if isinstance(f, FunctionValue):
            self.module.call(self, f.function, f.backward != backward, self._call_arguments(f, call), call)
            return
        if isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.STATEMENT:
            self._bijection(f.value.__name__, call, backward)
            return
        if isinstance(f, Constant) and f.value is print:
            hint = f"with rg.external():\n           {_short(node)}"
            self.fail("RG0701", "`print` is for the host, and stands in a block that machines skip", node, hint)
        self.value(call)  # says what is wrong with it, if anything
        self.fail("RG0701", f"nothing takes the value of `{_short(node)}`", node, f"write `y += {_short(node)}`")

    def _useless(self, node: ast.expr) -> NoReturn:
        """Refuse an expression that stands alone."""
        hint: str | None
        match node:
            case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name) as operand):
                if name in self.freed:
                    line = self.freed[name].line
                    self.fail(
                        "RG0711", f"`{name}` was uncomputed in line {line} already", node, "Remove one of the two."
                    )
                found = self.value(operand)
                hint = "`~r` uncomputes the routine r, and `~f(x)` calls the inverse of f"
                self.fail("RG0701", f"`{name}` is {describe(found)}, and cannot be uncomputed", node, hint)
            case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]):
                hint = f"write `assert {_short(node)}` to claim it, or `{_short(left)} += {_short(right)}` to change {_short(left)}"
            case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
                hint = f"write `{_short(left)} {BINARY[type(op)]}= {_short(right)}`"
            case _:
                hint = _INSTEAD.get(type(node)) or EXPRESSIONS_INSTEAD.get(type(node))
        self.fail("RG0701", f"nothing takes the value of `{_short(node)}`", node, hint)

    def _call_arguments(self, f: FunctionValue, call: ast.Call) -> dict[str, tuple[Value, ast.AST]]:
        """Parameter name -> argument."""
        function = f.function
        names = [p.name for p in function.parameters]
        found: dict[str, tuple[Value, ast.AST]] = {}
        positional: list[tuple[Value, ast.AST]] = (
            [] if f.receiver is None else [(f.receiver, getattr(call.func, "value", call.func))]
        )
        for a in call.args:
            if isinstance(a, ast.Starred):
                self.fail(
                    "RG0701", "`*` in a call is not in the language", a, "Pass each argument, or the array as one."
                )
            positional.append((self.value(a), a))
        of = f"It is declared as {function.signature}."
        called = f"`{function.__name__}`"
        if len(positional) > len(names):
            count = f"{len(names)} argument{'s' * (len(names) != 1)}"
            self.fail(
                "RG0715", f"{called} takes {count}, and is given {len(positional)}", positional[len(names)][1], of
            )
        for name, given in zip(names, positional, strict=False):
            found[name] = given
        for k in call.keywords:
            if k.arg not in names:
                if k.arg is None:
                    self.fail("RG0701", "`**` in a call is not in the language", k.value, "Name each argument.")
                self.fail("RG0715", f"{called} has no parameter `{k.arg}`", k, nearest(k.arg, names) or of)
            if k.arg in found:
                self.fail("RG0715", f"`{k.arg}` of {called} is given twice, by position and by name", k)
            found[k.arg] = (self.value(k.value), k.value)
        for p in function.parameters:
            if p.name not in found:
                if p.default is NOTHING:
                    self.fail("RG0715", f"{called} is called without `{p.name}`", call, of)
                found[p.name] = (self.wrap(p.default), call)
        return {name: found[name] for name in names}

    def _each(self, f: FunctionValue, backward: bool, call: ast.Call) -> None:
        """`f.each(xs, ys, c)`: f on the elements of the first axis; scalars are passed to every call."""
        arguments = self._call_arguments(f, call)
        lengths = {v.shape[0] for v, _ in arguments.values() if isinstance(v, ArrayView | Lazy) and v.shape}
        if len(lengths) != 1:
            self.fail("RG0712", f"`{_short(call)}` goes through arrays of the lengths {sorted(lengths)}", call)
        (length,) = lengths
        flip = f.backward != backward

        def one(index: tuple[E, ...]) -> None:
            inner = {
                name: (self.first_axis(v, index[0]) if isinstance(v, ArrayView | Lazy) and v.shape else v, where)
                for name, (v, where) in arguments.items()
            }
            self.module.call(self, f.function, flip, inner, call)

        self._over((length,), one)

    # ------------------------------------------------------------------ bijections

    def _permute(self, targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> None:
        """`x, y, z = y, z, x`, as exchanges."""
        wanted = [ast.unparse(v) for v in values]
        now = [ast.unparse(x) for x in targets]
        if len(set(now)) != len(now):
            self.fail("RG0704", "the same variable is written twice", targets[0])
        nodes = {ast.unparse(x): x for x in targets}
        # now[i]: whose old value lies at target i
        holds = list(now)
        for i in range(len(now)):
            j = holds.index(wanted[i])
            if i != j:
                self._swap(nodes[now[i]], nodes[now[j]])
                holds[i], holds[j] = holds[j], holds[i]

    def _swap(self, x: ast.expr, y: ast.expr) -> None:
        self.exchange(self.place(x), self.place(y), x)

    def exchange(self, x: Value, y: Value, node: ast.AST) -> None:
        """x, y = y, x."""
        match x, y:
            case Scalar(_, Var() as a), Scalar(_, Var() as b):
                if x.kind is not y.kind:
                    self.fail("RG0703", f"{describe(x)} and {describe(y)} are exchanged", node)
                if a is not b:
                    self.emit((Op(TABLE["swap"], a, b, None, 0, self.source.span(node)),))
            case Scalar(_, place_a), Scalar(_, place_b):
                if x.kind is not y.kind:
                    self.fail("RG0703", f"{describe(x)} and {describe(y)} are exchanged", node)
                t = self.temporaries()
                assert place_a is not None
                assert place_b is not None
                self.independent(t, [(place_a, node), (place_b, node)], [], node)
                if isinstance(place_b, Var):
                    place_a, place_b = place_b, place_a
                assert isinstance(place_b, Address)
                if isinstance(place_a, Var):
                    op = t.memory("exch", place_a, place_b)
                    self.emit(t.wrap((op,)))
                    return
                assert isinstance(place_a, Address)
                held = t.fresh("held", x.kind)
                first, second = t.memory("exch", held, place_a), t.memory("exch", held, place_b)
                self._exchange_words(t, place_a, place_b, (first, second, first), node)
            case StructValue(t1, fields), StructValue(t2, others) if t1 == t2:
                for name in fields:
                    self.exchange(fields[name], others[name], node)
            case ArrayView(), ArrayView():
                if x.shape != y.shape or x.element != y.element:
                    self.fail("RG0712", f"{describe(x)} and {describe(y)} are exchanged", node)
                self._over(x.shape, lambda index: self.exchange(element(x, index), element(y, index), node))
            case _:
                self.fail("RG0703", f"{describe(x)} and {describe(y)} are exchanged", node)

    def _exchange_words(self, t: Temporaries, x: Address, y: Address, nodes: Block, node: ast.AST) -> None:
        """Exchange two words of memory, which are left alone where they are one: three exchanges would lose it."""
        if x.region is y.region:
            distance = x.minus(y)
            if distance == 0:
                return
            difference = self._difference(x, y)
            bounds = interval(difference, self.ranges)
            if distance is None and (bounds is None or bounds[0] <= 0 <= bounds[1]):
                a, b = self._sides(difference)
                test = Test("ne", t.operand(a), t.operand(b))
                nodes = (If(test, nodes, (), test, self.source.span(node)),)
        self.emit(t.wrap(nodes))

    def _bijection(self, name: str, call: ast.Call, backward: bool) -> None:
        if call.keywords:
            self.fail("RG0715", f"rg.{name} takes no keywords", call)
        counts = {
            "rot": 3,
            "irot": 3,
            "neg": 1,
            "flip": 1,
            "swap": 2,
            "cswap": 3,
            "rol": 2,
            "ror": 2,
            "push": 2,
            "pop": 2,
            "free": 2,
            "erase": 1,
        }
        if len(call.args) != counts[name]:
            self.fail(
                "RG0715",
                f"rg.{name} takes {counts[name]} argument{'s' * (counts[name] != 1)}, not {len(call.args)}",
                call,
            )
        if backward:
            inverses = {"rot": "irot", "irot": "rot", "rol": "ror", "ror": "rol", "push": "pop", "pop": "push"}
            if name in ("free", "erase"):
                self.fail("RG0701", f"~rg.{name} is no statement", call)
            name = inverses.get(name, name)
        args = call.args
        match name:
            case "swap":
                self._swap(args[0], args[1])
            case "push" | "pop":
                self._push(name, args, call)
            case "free":
                self._free(args, call)
            case "neg" | "flip":
                self._elementwise(name, self.place(args[0]), call)
            case "erase":
                self._elementwise(name, self.place(args[0]), call)
            case "rot" | "irot":
                x, y = self.place(args[0]), self.place(args[1])
                angle = self.value(args[2])
                self._rotate(name, x, y, angle, call)
            case "cswap":
                self._cswap(args, call)
            case "rol" | "ror":
                self._roll(name, args, call)

    def _elementwise(self, name: str, x: Value, call: ast.Call) -> None:
        if isinstance(x, ArrayView):
            self._over(x.shape, lambda index: self._elementwise(name, element(x, index), call))
            return
        if isinstance(x, StructValue):
            for inner in x.fields.values():
                self._elementwise(name, inner, call)
            return
        if not isinstance(x, Scalar) or x.place is None:
            self.fail("RG0703", f"rg.{name} of {describe(x)}", call)
        t = self.temporaries()
        self.independent(t, [(x.place, call.args[0])], [], call)
        d = self.register(t, x.place, x.kind)
        span = self.source.span(call)
        match name, x.kind:
            case "neg", (Kind.INT | Kind.FIXED):
                op = Op(TABLE["neg"], d, None, None, 0, span)
            case "neg", Kind.LOGNUM:
                op = t.op("lmov", "mul", d, Const(self.w.sign))
            case "flip", Kind.BOOL:
                op = t.op("mov", "xor", d, Const(1))
            case "flip", Kind.INT:
                op = Op(TABLE["not"], d, None, None, 0, span)
            case "erase", _:
                op = Op(TABLE["erase"], d, None, None, 0, span)
            case _:
                self.fail("RG0703", f"rg.{name} is not defined for {x.kind.value}", call)
        self.emit(t.wrap((op,)))

    def _rotate(self, name: str, x: Value, y: Value, angle: Value, call: ast.Call) -> None:
        if any(isinstance(v, ArrayView | Lazy) for v in (x, y, angle)):
            shapes = [v.shape for v in (x, y) if isinstance(v, ArrayView)]
            if len(shapes) != 2 or shapes[0] != shapes[1]:
                self.fail("RG0712", f"rg.{name} of {describe(x)} and {describe(y)}", call)
            self._over(shapes[0], lambda i: self._rotate(name, element(x, i), element(y, i), element(angle, i), call))
            return
        if not (isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind is FIXED):
            self.fail("RG0703", f"rg.{name} of {describe(x)} and {describe(y)}: it turns two fixed numbers", call)
        e: E = self.guarded(call, self.arithmetic.expression, angle, FIXED)
        t = self.temporaries()
        assert x.place is not None
        assert y.place is not None
        self.independent(t, [(x.place, call.args[0]), (y.place, call.args[1])], [e], call)
        self._distinct(t, x, y, call)
        turn = t.operand(e)
        d, a = (self.register(t, p, FIXED) for p in (x.place, y.place) if p is not None)
        self.emit(t.wrap((Op(TABLE[name], d, a, turn, 0, self.source.span(call)),)))

    def _distinct(self, t: Temporaries, x: Scalar, y: Scalar, call: ast.Call) -> None:
        """Two places that an instruction changes must not be one."""
        message = f"`{_short(call.args[0])}` and `{_short(call.args[1])}` are the same word"
        if isinstance(x.place, Var) or isinstance(y.place, Var):
            if x.place is y.place:
                self.fail("RG0705", message, call)
            return
        assert x.place is not None
        assert y.place is not None
        if x.place.region is y.place.region:
            self.differ(t, x.place, y.place, 1, 1, "RG0705", message, call)

    def _cswap(self, args: Sequence[ast.expr], call: ast.Call) -> None:
        c = self.condition(args[0])
        x, y = self.place(args[1]), self.place(args[2])
        if isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind:
            t = self.temporaries()
            assert x.place is not None
            assert y.place is not None
            self.independent(t, [(x.place, args[1]), (y.place, args[2])], [c], call)
            bit = t.operand(c)
            if isinstance(x.place, Var) and isinstance(y.place, Var) and x.place is not y.place:
                self.emit(t.wrap((self._cswap_op(x.place, y.place, bit),)))
                return
        test_t = self.temporaries()
        test = test_t.test(c)
        with self.block() as inner:
            self.exchange(x, y, call)
        self.emit(test_t.wrap((If(test, tuple(inner), (), test, self.source.span(call)),)))

    def _cswap_op(self, x: Var, y: Var, bit: Operand) -> Op:
        opcode = TABLE["cswap"]
        # Which operand is the control follows from what the instruction only reads.
        written = [p for p in ("d", "a", "b") if p in opcode.writes]
        control = next(p for p in ("d", "a", "b") if p not in written)
        places: dict[str, Operand] = {written[0]: x, written[1]: y, control: bit}
        return Op(opcode, places["d"], places["a"], places["b"], 0, self.source.span(self.node))

    def _roll(self, name: str, args: Sequence[ast.expr], call: ast.Call) -> None:
        x = self.place(args[0])
        if not isinstance(x, Scalar) or x.kind is not INT or x.place is None:
            self.fail("RG0703", f"rg.{name} of {describe(x)}: it rotates the bits of an int", call)
        k = self.scalar(args[1], INT)
        t = self.temporaries()
        self.independent(t, [(x.place, args[0])], [k], call)
        amount = t.operand(k)
        d = self.register(t, x.place, INT)
        self.emit(t.wrap((Op(TABLE[name], d, amount, None, 0, self.source.span(call)),)))

    def _free(self, args: Sequence[ast.expr], call: ast.Call) -> None:
        """`rg.free(x, e)`: e is taken from x, which must then be zero."""
        target = args[0]
        if not isinstance(target, ast.Name):
            self.fail("RG0701", "rg.free takes a variable by its name", target)
        value = self.place(target)
        made = next((m for m in self.made if m.name == target.id and m.value is value), None)
        if made is None or not isinstance(value, Scalar):
            self.fail("RG0709", f"`{target.id}` is no variable that was made in this function", target)
        assert isinstance(value.place, Var)
        e: E = self.guarded(call, self.arithmetic.expression, self.value(args[1]), value.kind)
        if value.place in variables(e):
            self.fail("RG0704", f"the value that `{target.id}` is said to have depends on it", call)
        known = made.history == [] and made.initial == e and made.operands == self.snapshot(e) and not made.gone
        if not known:
            self._test_at_birth(made)
        block = release(self.temporaries(), value.place, e, not known)
        self.made.remove(made)
        self.emit(block)
        del self.names[target.id]
        self.freed[target.id] = self.source.span(call)

    def _push(self, name: str, args: Sequence[ast.expr], call: ast.Call) -> None:
        """push: S[count], x = x, S[count]; count += 1, where S is zero from count on."""
        s, x = self.place(args[0]), self.place(args[1])
        if not isinstance(s, StackValue):
            self.fail(
                "RG0703", f"rg.{name} on {describe(s)}, which is no stack", call, "make one with rg.stack(fixed, 100)"
            )
        if not isinstance(x, Scalar) or x.place is None or x.kind is not s.type.element.kind:
            self.fail("RG0703", f"rg.{name} of {describe(x)} on a stack of {s.type.element}", call)
        span = self.source.span(call)
        t = self.temporaries()
        self.independent(t, [(x.place, args[1])], [e for e, _ in s.address.terms], call)
        if isinstance(x.place, Address) and x.place.region is s.address.region:
            self.fail("RG0705", f"`{_short(args[1])}` lies in the stack itself", call)
        held = self.register(t, x.place, x.kind)
        count = Var("count", INT, span)
        inner = Temporaries(self.w, span)
        top = s.address.moved(1).shifted(read(count), 1)
        move = inner.wrap((inner.memory("exch", held, top),))
        room = Check(
            Test("ltu", count, Const(s.type.capacity)), "RG0806", f"the stack `{_short(args[0])}` is {{full}}", span
        )
        outer = Temporaries(self.w, span)
        take = outer.memory("exch", count, s.address)
        # The word above the top is zero, and so x is when it was pushed, and must be before it is popped.
        empty = Check(
            Test("eq", held, ZERO),
            "RG0802",
            f"`{_short(args[1])}` is {{a}}, and must be zero to take the top of the stack `{_short(args[0])}`",
            span,
        )
        sequence: Block = (take, room, *move, empty, outer.op("mov", "add", count, Const(1)), take)
        nodes = outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span)))
        self.emit(t.wrap(nodes if name == "push" else invert(nodes)))


# ---------------------------------------------------------------------- small facts


#: what to write in place of a statement that the language has not
_INSTEAD: dict[type[ast.AST], str] = {
    ast.Import: "Import at the top of the file.",
    ast.ImportFrom: "Import at the top of the file.",
    ast.Try: "Test with an `if` before; what goes wrong nevertheless stops the machine, which can run back from there.",
    ast.Raise: "write `assert condition`, which is checked in both directions",
    ast.Break: "A loop ends by its condition: `while (before, after):`.",
    ast.Continue: "Put the rest of the body into an `if`.",
    ast.Global: "Pass the variable as an argument.",
    ast.Nonlocal: "Pass the variable as an argument.",
    ast.Assign: "Make one variable in a statement.",
    ast.AnnAssign: "Give it a value: `name: fixed = 0.0`.",
    ast.ClassDef: "Define the class outside, with @rg.struct.",
    ast.Match: "write `if` and `elif`",
    ast.Yield: "Every argument comes back, changed or not: change an argument.",
    ast.YieldFrom: "Every argument comes back, changed or not: change an argument.",
    ast.Await: "A reversible function waits for nothing.",
}


def _instead(update: str, kind: Kind, node: ast.AST) -> str | None:
    """What to write in place of an update that a kind has not."""
    if update in ("mul", "div") and kind in (FIXED, INT):
        new = (
            f", `t = {_short(node.target)} {BINARY[type(node.op)]} {_short(node.value)}`"
            if isinstance(node, ast.AugAssign)
            else ""
        )
        return f"Rounding and zero factors forget the old value: make a new variable{new}; or use a lognum, whose *= and /= are exact."
    if kind is Kind.LOGNUM:
        return "lognums have *= and /=; a sum of lognums is a factor, `z *= x + y`"
    if kind is BOOL:
        return "bools have ^="
    if kind is FIXED and update == "xor":
        return "fixed numbers have += and -="
    return None


def _reading(node: ast.AST, target: ast.AST) -> ast.AST:
    """Where an update reads what it writes, if that is to be seen; else the whole statement."""
    if not isinstance(node, ast.AugAssign):
        return node
    text = ast.unparse(target)
    return next((n for n in ast.walk(node.value) if isinstance(n, ast.expr) and ast.unparse(n) == text), node)


def _new_variable(node: ast.AST) -> str | None:
    """What to write in place of an update that reads what it writes."""
    if not isinstance(node, ast.AugAssign):
        return None
    target, value, sign = ast.unparse(node.target), ast.unparse(node.value), BINARY[type(node.op)]
    if value == target and sign in "-^":
        return f"to make `{target}` zero is to erase it: `rg.erase({target})`"
    if isinstance(node.value, ast.BinOp) and not isinstance(node.value.op, ast.Mult | ast.Div | ast.Pow):
        value = f"({value})"
    return f"make a new variable, `t = {target} {sign} {value}`, and use it from here on"


def _as_update(name: str, value: ast.expr) -> str | None:
    """`x = x + e` and `x = e` as what was meant, perhaps."""
    match value:
        case ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as op, right=right) if left == name:
            return f"write `{name} {BINARY[type(op)]}= {ast.unparse(right)}`"
        case ast.Call():
            return None
    return f"write `{name} += {_short(value)}` to add to what it holds, or choose another name"


def _deletes(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Delete(targets=targets):
            return any(isinstance(x, ast.Name) and x.id == name for x in targets)
        case ast.Call(func=ast.Attribute(attr="free"), args=[ast.Name(id=freed), *_]):
            return freed == name
    return False


def _plain(e: E) -> bool:
    """Whether an expression is a sum of one term: nothing is gained by taking the word out of memory."""
    return e.op in ("const", "read", "load")


def _disjoint_by_stride(at: Address, place: ArrayView) -> bool:
    """Whether an address that moves in steps of the view's strides passes it by: another column, another field."""
    steps = [abs(k) for _, k in at.terms] + [abs(s) for s in place.strides]
    common = gcd(*steps) if steps else 0
    distance = at.offset - place.address.offset
    same_base = at.base is place.address.base
    return (
        same_base and common > 1 and not place.address.terms and place.element.size <= distance % common <= common - 1
    )


def _own_name(region: Region) -> str:
    """What the user calls an array: its region is named after the function too, and numbered."""
    parts = region.name.split(".")
    return next(p for p in (*reversed(parts), region.name) if not p.isdigit())


def _base(view: Value) -> tuple[Var, ...]:
    base = view.address.base if isinstance(view, ArrayView | StackValue) else None
    return () if base is None else (base,)


def _addresses(value: Value) -> Iterator[Address]:
    """The addresses that a view consists of."""
    match value:
        case Scalar(_, Address() as a):
            yield a
        case ArrayView(address=a) | StackValue(address=a):
            yield a
        case StructValue(_, fields):
            for inner in fields.values():
                yield from _addresses(inner)
        case _:
            pass


def _relocated(value: Value, moved: dict[tuple[Any, ...], Address]) -> Value:
    """The view with its addresses replaced, offsets kept."""

    def address(a: Address) -> Address:
        found = moved.get((a.region, a.base, a.terms))
        return a if found is None else found.moved(a.offset)

    match value:
        case Scalar(e, Address() as a, why_not):
            return Scalar(load(address(a), e.kind), address(a), why_not)
        case ArrayView() | StackValue():
            return replace(value, address=address(value.address))
        case StructValue(t, fields):
            return StructValue(t, {name: _relocated(inner, moved) for name, inner in fields.items()})
        case _:
            return value


def _belongs(made: Made, value: Value) -> bool:
    if made.value is value:
        return True
    return isinstance(value, StructValue) and any(_belongs(made, inner) for inner in value.fields.values())


def _visible(value: Value) -> bool:
    return isinstance(value, Constant | Scalar | ArrayView | StructValue)


def _substituted(node: Node, old: Var, new: Var) -> Node:
    """The statement with one variable for another."""
    from retrograd.compiler.ir import children, with_children

    def operand(x: Operand | None) -> Any:
        return new if x is old else x

    if isinstance(node, Op):
        return node._replace(d=operand(node.d), a=operand(node.a), b=operand(node.b))
    blocks = children(node)
    return with_children(node, [tuple(_substituted(n, old, new) for n in b) for b in blocks]) if blocks else node


def _changed_names(tree: ast.FunctionDef) -> set[str]:
    """The names that the function may change or frees: what is none of these and holds a constant is one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Delete(targets=targets):
                found |= {x.id for x in targets if isinstance(x, ast.Name)}
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.UnaryOp(operand=ast.Call() as call)):
                arguments = [*call.args, *(k.value for k in call.keywords)]
                found |= {x.id for x in arguments if isinstance(x, ast.Name)}
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if sorted(map(ast.unparse, targets)) == sorted(map(ast.unparse, values)):
                    found |= {x.id for x in targets if isinstance(x, ast.Name)}
    return found
