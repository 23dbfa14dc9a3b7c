"""What is live in a function that is being compiled, what has changed, and how it is freed.

The IR that is emitted, with versions of every variable and array: a variable can be freed by computing its first value
again only if what that was computed from has not changed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from retrograd.compiler.frontends.python.evaluate import Evaluator
from retrograd.compiler.frontends.python.operands import FIXED, INT
from retrograd.compiler.frontends.python.sources.source import SourceFunction
from retrograd.compiler.ir.effects import AccessSets, locals_left, union
from retrograd.compiler.ir.expressions import Address, E, loads, read, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    For,
    Local,
    Node,
    Region,
    Test,
    Var,
    Within,
)
from retrograd.compiler.language.types import ScalarType, static
from retrograd.compiler.language.values import ArrayView, Scalar, StackValue, Value

if TYPE_CHECKING:
    from retrograd.compiler.frontends.python.specialise import Specialiser


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


class Scope(Evaluator):
    """A function under compilation: `out` receives the IR, `made` is what it has to free."""

    def __init__(self, function: SourceFunction, module: Specialiser, recursive: bool) -> None:
        super().__init__(function, module.w, module.captures, module.constant_region)
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
        self.changed = _changed_names(function)
        self.node: ast.AST = function.tree
        self.freeing = False
        #: updates that may be undone in the same block: (block, place) -> (update, expression, what it read, versions around it)
        self.undone: dict[tuple[int, Var | Address], list[tuple[str, E, dict[Var | Region, int], int, int]]] = {}
        #: variables whose value does not change while they are in scope: the indices of loops
        self.settled: set[Var] = set()
        #: temporaries around the loop over an array's elements that is being made
        self.enclosing: Temporaries | None = None

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.source.span(self.node), self.module.powers, self.enclosing)

    def emit(self, nodes: Sequence[Node], known: Var | None = None) -> None:
        """Append IR; note what it writes. `known`: a variable whose change is noted in its history by the caller."""
        for given in nodes:
            node = self._watched(given) if isinstance(given, Within) and given.name is None else given
            self.out.append(node)
            access = self.module.accesses.of(node)
            self._note(access, known)

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

    def _note(self, access: AccessSets, known: Var | None) -> None:
        touched: set[Any] = {*access.writes, *access.stores}
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

    def static(self, node: ast.expr, what: str) -> Any:
        value = self.value(node)
        if isinstance(value, Scalar) and isinstance(value.place, Var) and value.place in self.constants:
            var = value.place
            made = next((m for m in self.made if var in m.parts), None)
            if made is not None and made.history == []:
                self.relied_on[var] = node
                return self.constants[var]
        return super().static(node, what)

    def snapshot(self, *expressions: E) -> dict[Var | Region, int]:
        """The versions of what expressions read."""
        places: set[Var | Region] = set()
        for e in expressions:
            places |= variables(e)
            places |= {a.region for a in loads(e)}
        return {p: self.versions[p] for p in places}

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
        for part in made.parts:
            if isinstance(part, Var):
                # The block may be emitted again, as a part of the one around it.
                self.relied_on.pop(part, None)
        for name, value in list(self.names.items()):
            if value is made.value:
                del self.names[name]
                self.freed[name] = self.source.span(node)

    def _stale(self, made: Made, stale: Sequence[Var | Region], node: ast.AST) -> None:
        p = stale[0]
        what = own_name(p) if isinstance(p, Region) else p.name
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

    def _where_changed(self, body: Sequence[ast.stmt], name: str) -> str:
        """` in line 7`, where a statement of a body that may change a variable can be found."""
        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.AugAssign | ast.Call | ast.Assign):
                    changed = node.target if isinstance(node, ast.AugAssign) else node
                    if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(changed)):
                        return f" in line {self.source.span(node).line}"
        return ""

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

    def _changes(self, block: Block) -> AccessSets:
        return self.module.accesses.block(block)

    def _changes_with_locals(self, compute: Block) -> AccessSets:
        return union(self.module.accesses.of(n) for n in compute)

    def _histories(self) -> dict[int, Any]:
        return {id(m): None if m.history is None else list(m.history) for m in self.made}

    def _all_zero(self, view: ArrayView | StackValue) -> Block:
        """Tests that every word of an array is zero."""
        size = view.type.size
        if size == 0:
            return ()
        region = view.address.region
        kind = view.element.kind if isinstance(view, ArrayView) and isinstance(view.element, ScalarType) else INT
        name = own_name(region)
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

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements in a row."""
        raise NotImplementedError


def _changed_names(function: SourceFunction) -> set[str]:
    """The names that the function may change or frees: what is none of these and holds a constant is one."""
    found: set[str] = set()
    for node in ast.walk(function.tree):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Delete(targets=targets):
                found |= {x.id for x in targets if isinstance(x, ast.Name)}
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.UnaryOp(operand=ast.Call() as call)):
                found |= {x.id for x in _passed(call, function) if isinstance(x, ast.Name)}
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if sorted(map(ast.unparse, targets)) == sorted(map(ast.unparse, values)):
                    found |= {x.id for x in targets if isinstance(x, ast.Name)}
    return found


def _passed(call: ast.Call, function: SourceFunction) -> list[ast.expr]:
    """The arguments of a call that the function called may change: not those for static parameters."""
    called = function.found(call.func)
    parameters = called.parameters if isinstance(called, SourceFunction) else ()
    static_names = {p.name for p in parameters if p.annotation is static}
    names = [p.name for p in parameters] + [""] * len(call.args)
    return [
        *(x for x, name in zip(call.args, names, strict=False) if name not in static_names),
        *(k.value for k in call.keywords if k.arg not in static_names),
    ]


def _deletes(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Delete(targets=targets):
            return any(isinstance(x, ast.Name) and x.id == name for x in targets)
        case ast.Call(func=ast.Attribute(attr="free"), args=[ast.Name(id=freed), *_]):
            return freed == name
    return False


def own_name(region: Region) -> str:
    """What the user calls an array: its region is named after the function too, and numbered."""
    parts = region.name.split(".")
    return next(p for p in (*reversed(parts), region.name) if not p.isdigit())
