"""Statements that are calls or blocks: `f(x)`, `~f(x)`, `rg.rot(x, y, t)`; `with` of routines, views, the host."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from types import CodeType
from typing import Any, Literal, NoReturn

from retrograd.compiler.frontends.builder import HostBlock, OwnedLocal
from retrograd.compiler.frontends.python.allocation import hold_view
from retrograd.compiler.frontends.python.calls import (
    Bound,
    Leaf,
    bind_arguments,
    captured_shapes,
    extent,
    fitted_argument,
    shape_of_argument,
)
from retrograd.compiler.frontends.python.checkpoints import Checkpoints, lower_checkpoints
from retrograd.compiler.frontends.python.context import (
    INSTEAD_OF_EXPRESSION,
    INSTEAD_OF_STATEMENT,
    Context,
    OpenRoutine,
    lowers,
)
from retrograd.compiler.frontends.python.control_flow import loads_clobbered
from retrograd.compiler.frontends.python.expressions import OPERATORS
from retrograd.compiler.frontends.python.indexing import VIEWS, View, chosen_function, lend, roots, view_of
from retrograd.compiler.frontends.python.source import SourceFunction, free_names, shortened
from retrograd.compiler.frontends.python.updates import apart, differ, location, refuse_overlap, register
from retrograd.compiler.frontends.specialisation import Specialisation
from retrograd.compiler.ir.expressions import Address, E, Length, RunLength, loads, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    Block,
    Call,
    Const,
    External,
    If,
    Local,
    Operand,
    Region,
    Test,
    Var,
    Within,
    invert,
)
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import first_axis
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import Shape, bound, merged, row_major, value_of, words_of
from retrograd.compiler.language.values import (
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
    tuple_value,
)


class PythonBlock:
    """Python statements of a function, to be executed with other values for some of their names."""

    def __init__(self, function: SourceFunction, body: list[ast.stmt]) -> None:
        self._function, self._body = function, body

    @cached_property
    def _code(self) -> CodeType:
        source = self._function.source
        # Line numbers are moved on a copy: the function's own tree keeps its own.
        module = ast.Module([ast.increment_lineno(s, source.line) for s in deepcopy(self._body)], [])
        return compile(module, source.file, "exec")

    def __call__(self, names: dict[str, Any]) -> None:
        """Execute the statements. Raises their exceptions."""
        exec(self._code, self._function.globals(), names)


def lower_external(cx: Context, node: ast.With) -> None:
    for statement in node.body:
        _require_inside(cx, statement, False)
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and n.id in cx.scope.names:
            message = f"`{n.id}` cannot be changed by the host, which does not run backward"
            hint = f"The host sees a copy of `{n.id}`: choose another name, or move the statement out."
            cx.fail("RG0709", message, n, hint)
    t = cx.builder.temporaries()
    operands: list[Operand] = []

    def watch(value: Value) -> None:
        """Add the operands from which the host computes the value."""
        match value:
            case ArrayView(shape=shape, address=at):
                operands.append(t.location(at))
                for n in shape:
                    if isinstance(n, RunLength):
                        t.require(n.checks)
                        operands.append(t.operand(n.e))
            case Scalar(_, Address() as at) | StackValue(address=at):
                operands.append(t.location(at))
            case Scalar(e):
                operands.append(t.operand(e))
            case StructValue(_, fields):
                for inner in fields.values():
                    watch(inner)
            case _:
                pass

    visible = Constant | Scalar | ArrayView | StructValue
    watched = {n: v for n, v in cx.scope.names.items() if n in used and isinstance(v, visible)}
    for value in watched.values():
        watch(value)
    span = cx.span(node)
    number = cx.builder.module.host_block(HostBlock(PythonBlock(cx.function, node.body), watched, span.file))
    cx.builder.emit(t.wrap((External(number, span, tuple(operands)),)))


def _require_inside(cx: Context, node: ast.AST, loop: bool) -> None:
    """Refuse a statement that would leave the block. `loop`: a loop within the block is around the statement."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
            return  # its `return` leaves the function, and not the block
        case (
            ast.Return()
            | ast.Yield()
            | ast.YieldFrom()
            | ast.Await()
            | ast.AsyncFor()
            | ast.AsyncWith()
            | ast.Nonlocal()
        ):
            leaves = True
        case ast.Break() | ast.Continue():
            leaves = not loop
        case _:
            leaves = False
    if leaves:
        hint = "The block is run from its beginning to its end, and the reversible function goes on behind it."
        cx.fail("RG0701", f"`{shortened(node)}` would leave a block for the host", node, hint)
    own = node.body if isinstance(node, ast.For | ast.While) else []
    for inner in ast.iter_child_nodes(node):
        _require_inside(cx, inner, loop or inner in own)


# -----------------------------------------------------------------------------
# Compute–use–uncompute: `with rg.routine() as r`, `~r`, and `r()` to compute it again.
#
# compute; use; compute⁻¹ leaves only the effect of the use (C. H. Bennett, Logical reversibility of computation, 1973).


@lowers(ast.With)
def lower_with(cx: Context, node: ast.With) -> None:
    if len(node.items) != 1:
        hint = "write one `with` inside the other, or after it"
        cx.fail("RG0701", "a `with` opens one routine", node, hint)
    item = node.items[0]
    called = item.context_expr
    f = cx.value(called.func if isinstance(called, ast.Call) else called)
    which = f.value if isinstance(f, Constant) else None
    if which is intrinsics.external:
        lower_external(cx, node)
        return
    if which is intrinsics.unchecked:
        _lower_unchecked(cx, node)
        return
    if which is intrinsics.view:
        _lower_view(cx, node, item)
        return
    if isinstance(which, Checkpoints):
        lower_checkpoints(cx, node, called, which)
        return
    if which is intrinsics.routine and (not isinstance(called, ast.Call) or called.args or called.keywords):
        cx.fail("RG0711", "rg.routine is called, without arguments", called, "write `with rg.routine() as r:`")
    if which is not intrinsics.routine:
        hint = "The blocks are `with rg.routine() as r:`, `with rg.view(-x) as m:`, `with rg.unchecked():`, and `with rg.external():`, where Python's own functions may be called."
        if which is intrinsics.repeat:
            hint = "rg.repeat is a loop: `for _ in rg.repeat(n == 0, until=x > limit):`."
        cx.fail("RG0701", f"`with {shortened(called)}` is no block of the language", called, hint)
    if not isinstance(item.optional_vars, ast.Name):
        hint = "write `with rg.routine() as r:`"
        cx.fail("RG0711", "a routine needs a name, to be uncomputed by", node, hint)
    name = item.optional_vars.id
    if name in cx.scope.names:
        cx.fail("RG0706", f"`{name}` holds a value already", item.optional_vars)
    routine = _opened(cx, name, node)
    before = len(cx.locals.owned)
    routines, cx.routines = cx.routines, []
    cx.builder.computing += 1
    with cx.builder.collect() as compute:
        cx.lower(node.body)
    cx.builder.computing -= 1
    if cx.routines:
        r = cx.routines[-1]
        hint = f"Write `~{r.name}` at the end of the routine `{name}`."
        cx.fail("RG0711", f"the routine `{r.name}` is not uncomputed within `{name}`", r.span, hint)
    cx.routines = routines
    routine.compute, routine.own = tuple(compute), cx.locals.owned[before:]
    _open_names(cx, routine)


def _lower_unchecked(cx: Context, node: ast.With) -> None:
    (item,) = node.items
    called = item.context_expr
    if not isinstance(called, ast.Call) or called.args or called.keywords or item.optional_vars is not None:
        hint = "write `with rg.unchecked():`"
        cx.fail("RG0701", "rg.unchecked takes no arguments and gives no value", node, hint)
    outer, cx.builder.unchecked = cx.builder.unchecked, True
    try:
        cx.lower(node.body)
    finally:
        cx.builder.unchecked = outer


def _lower_view(cx: Context, node: ast.With, item: ast.withitem) -> None:
    """`with rg.view(-x) as m:`: x becomes −x, the block runs with m in place of x, and x is turned back."""
    called, target = item.context_expr, item.optional_vars
    if not isinstance(called, ast.Call) or len(called.args) != 1 or called.keywords or not isinstance(target, ast.Name):
        cx.fail("RG0701", "rg.view takes one variable, and gives it a name", node, "write `with rg.view(-x) as m:`")
    name, seen = target.id, called.args[0]
    if name in cx.scope.names:
        cx.fail("RG0706", f"`{name}` holds a value already", target)
    view = view_of(cx, seen)
    if view is None:
        value = cx.value(seen)
        if isinstance(value, Scalar) and value.place is None:
            message = f"`{shortened(seen)}` is no view of a variable, through which it could be changed"
            cx.fail("RG0709", message, seen, VIEWS)
        view = View(location(cx, seen))
    with cx.block() as outer:
        view = replace(view, place=hold_view(cx, name, view.place, seen))
        turned, value = lend(cx, view, seen, name)
        cx.builder.emit(turned)
        lent, names = cx.scope.lent, cx.scope.names
        own = roots(view.place)
        hidden = {n for n, v in names.items() if roots(v) & own}
        cx.scope.lent = lent | {
            n: f"{'uses a variable that ' * isinstance(names[n], FunctionValue)}is seen as `{name}`" for n in hidden
        }
        cx.scope.names = {n: v for n, v in names.items() if n not in hidden}
        if view.steps:
            # The first line turns the variable, and turns it back behind the last one.
            first, more = cx.span(node), (node.end_lineno or node.lineno) - node.lineno
            for n in hidden:
                cx.builder.module.viewed[n] |= {(first.file, first.line + k) for k in range(more + 1)}
        with cx.block() as inner:
            cx.scope.names[name] = value
            cx.lower(node.body)
        cx.scope.lent, cx.scope.names = lent, names
        cx.builder.emit((*inner, *invert(turned)))
    cx.builder.emit(outer)


def _opened(cx: Context, name: str, node: ast.AST) -> OpenRoutine:
    """A routine that begins here, without its contents."""
    cx.builder.log.begin()
    return OpenRoutine(
        name,
        (),
        [],
        cx.span(node),
        cx.builder.out,
        dict(cx.scope.names),
        [],
        Counter(cx.builder.versions),
        cx.locals.histories(),
    )


def _open_names(cx: Context, routine: OpenRoutine) -> None:
    """From here on statements belong to the use of the routine."""
    routine.owned = list(cx.locals.owned)
    cx.routines.append(routine)
    cx.scope.names[routine.name] = RoutineValue(routine.name)
    cx.builder.out = []


def is_finished(cx: Context, name: str) -> bool:
    """Whether a routine of this name was uncomputed in this block or around it."""
    return name in cx.finished


def uncompute(cx: Context, name: str, node: ast.AST) -> None:
    """`~r`: undo the computation of the routine; its locals are freed.

    Locals of the use, between the `with` and `~r`, are freed before it, since their values may depend on locals of the routine.
    A local that a later statement uses stays: it is allocated in front of the whole, and the use only changes it.
    """
    if not cx.routines or cx.routines[-1].name != name:
        _refuse_uncompute(cx, name, node)
    r = cx.routines[-1]
    used_later = {
        n
        for n, value in cx.scope.names.items()
        if n not in r.names and not isinstance(value, RoutineValue) and first_use(n, cx.following) == "used"
    }
    kept = _kept(cx, r, used_later, node)
    before = {id(m) for m in r.owned}
    for local in reversed(cx.locals.owned):
        if id(local) not in before and local not in kept:
            cx.locals.release(local)
    lost = [m for m in r.owned if m not in cx.locals.owned]
    if lost:
        message = f"`{lost[0].name}` was freed before the routine `{name}`, which made it, was uncomputed"
        cx.fail("RG0711", message, node, f"Leave `{lost[0].name}` alone: `~{name}` frees it.")
    cx.routines.pop()
    use = _without_allocations(cx, r, kept)
    computed, used = cx.builder.effects_with_locals(r.compute), cx.builder.effects(use)
    # Where the use interferes with the computation, the machine tests that all locals return to zero.
    compute = cx.locals.tested(r.compute, r.own) if used.clobbers(computed) else r.compute
    cx.builder.out = r.outer
    own_parts = {p for m in r.own for p in m.parts}
    cx.locals.owned = [m for m in cx.locals.owned if m not in r.own]
    for n, value in list(cx.scope.names.items()):
        if n not in r.names and (n not in used_later or not roots(value).isdisjoint(own_parts)):
            cx.scope.free(n, cx.span(node))
    for n, value in r.names.items():
        cx.scope.names.setdefault(n, value)
    cx.builder.log.end()
    with cx.locals.recorded(kept):
        cx.builder.emit((Within(compute, use, name, r.span),), made_of_blocks=True)
    cx.builder.end(own_parts)
    # Places that only the computation changed have their former value again.
    for place in (computed.writes | computed.stores) - used.writes - used.stores:
        if place is not None and place not in own_parts:
            cx.builder.versions[place] = r.versions[place]
    for m in cx.locals.owned:
        if id(m) in r.histories and not any(p in used.writes or p in used.stores for p in m.parts):
            m.history = r.histories[id(m)]
    cx.finished[name] = r.compute, r.own


def _kept(cx: Context, r: OpenRoutine, names: Collection[str], node: ast.AST) -> list[OwnedLocal]:
    """The locals of the use of a routine that stay after it: those of these names, and locals from which they were made."""
    before = {id(m) for m in (*r.owned, *r.own)}
    needed = {p for n in names for p in roots(cx.scope.names[n])}
    kept: list[OwnedLocal] = []
    for local in reversed(cx.locals.owned):
        if id(local) in before or needed.isdisjoint(local.parts):
            continue
        if local.frame:
            hint = f"Make `{local.name}` before `with rg.routine() as {r.name}:`."
            message = (
                f"`{local.name}` lies on the stack above what `{r.name}` computed, and cannot stay after `~{r.name}`"
            )
            cx.fail("RG0711", message, node, hint)
        kept.insert(0, local)
        needed |= local.operands.keys()
    return kept


def _without_allocations(cx: Context, r: OpenRoutine, kept: Sequence[OwnedLocal]) -> Block:
    """The use of a routine, without the allocations of locals that stay, which move in front of the routine."""
    parts = {p for local in kept for p in local.parts}
    moved = [n for n in cx.builder.out if isinstance(n, Local) and n.var in parts]
    use = tuple(n for n in cx.builder.out if not (isinstance(n, Local) and n.var in parts))
    r.outer += moved
    for local in kept:
        if local.emitted is not None:
            local.emitted = (r.outer, len(r.outer))
    return use


def _refuse_uncompute(cx: Context, name: str, node: ast.AST) -> None:
    """Raise RG0711 for a routine that is not the last open one of this block."""
    if name in [r.name for r in cx.routines]:
        last = cx.routines[-1].name
        message = f"the routine `{last}` was computed after `{name}`, and must be uncomputed before it"
        cx.fail("RG0711", message, node, f"Write `~{last}` before `~{name}`.")
    if isinstance(cx.scope.names.get(name), RoutineValue):
        message = f"the routine `{name}` was computed in another block than this"
        cx.fail("RG0711", message, node, f"Write `~{name}` in the block of its `with`.")
    line = f" in line {cx.scope.freed[name].line}" if name in cx.scope.freed else ""
    hint = f"Remove one of the two, or compute it again: `{name}()`."
    cx.fail("RG0711", f"the routine `{name}` was uncomputed{line} already", node, hint)


def recompute(cx: Context, name: str, node: ast.AST) -> None:
    """`r()`: compute a routine again that was uncomputed."""
    compute, own = cx.finished[name]
    for local in own:
        if local.name in cx.scope.names:
            message = f"`{local.name}`, which the routine makes, holds a value already"
            cx.fail("RG0706", message, node)
    routine = _opened(cx, name, node)
    fresh = [replace(m, history=None if m.history is None else list(m.history)) for m in own]
    cx.locals.owned += fresh
    cx.scope.names |= {m.name: m.value for m in own}
    for inner in compute:
        cx.builder.note(cx.builder.module.accesses.of(inner))
    routine.compute, routine.own = compute, fresh
    _open_names(cx, routine)


def first_use(name: str, statements: Sequence[ast.stmt]) -> Literal["used", "bound"] | None:
    """The first use of a name in statements: of its value, or as the name of a new variable. Variables that a nested block makes end with it."""
    for node in statements:
        match node:
            case ast.Assign(targets=targets, value=value):
                parts: list[ast.AST] = [value, *targets]
            case ast.AnnAssign(target=target, value=value):
                parts = [value, target] if value is not None else [target]
            case ast.For(target=target, iter=iterated, body=body):
                if _loads(name, iterated):
                    return "used"
                if not _binds(name, target) and (_loads(name, target) or first_use(name, body) == "used"):
                    return "used"
                continue
            case ast.If(test=test, body=body, orelse=orelse) | ast.While(test=test, body=body, orelse=orelse):
                if _loads(name, test) or "used" in (first_use(name, body), first_use(name, orelse)):
                    return "used"
                continue
            case ast.With(items=items, body=body):
                if any(_loads(name, item) for item in items):
                    return "used"
                if any(item.optional_vars is not None and _binds(name, item.optional_vars) for item in items):
                    return "bound"
                found = first_use(name, body)
                if found is not None:
                    return found
                continue
            case ast.FunctionDef(name=own):
                if own == name:
                    return "bound"
                if name in free_names(node):
                    return "used"
                continue
            case _:
                parts = [node]
        if any(_loads(name, part) for part in parts):
            return "used"
        if any(_binds(name, part) for part in parts):
            return "bound"
    return None


def _loads(name: str, node: ast.AST) -> bool:
    """Whether a name's value is used: read, updated or deleted."""
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=found, ctx=ast.Load() | ast.Del()) | ast.AugAssign(target=ast.Name(id=found)):
                if found == name:
                    return True
    return False


def _binds(name: str, node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))


# -----------------------------------------------------------------------------
# Calls of reversible functions: `f(x)`, `~f(x)`, `f.each(xs)`.
#
# A call passes variables, and never copies: a variable of the caller is the parameter of the callee while it runs. A word in memory is
# exchanged into a variable for the time of the call. The value of an expression is passed as a temporary, which the callee may
# not change.


def call_function(cx: Context, f: FunctionValue, backward: bool, call: ast.Call) -> None:
    """`f(x, y)`, or `~f(x, y)` where backward."""
    _call_on(cx, f, f.backward != backward, bind_arguments(cx, f, call, f.function.parameters), call)


def call_each(cx: Context, f: FunctionValue, backward: bool, call: ast.Call) -> None:
    """`f.each(xs, ys, c)`: f on the elements of the first axis; scalars are passed to every call."""
    arguments = bind_arguments(cx, f, call, f.function.parameters)
    further = {p.name for p in f.function.parameters if p.variadic}

    def picked(name: str, pick: Callable[[Value], Value]) -> Value:
        """The argument with `pick` of it; `*xs` with `pick` of each item."""
        v, _ = arguments[name]
        return (
            tuple_value([pick(x) for x in v.fields.values()])
            if name in further and isinstance(v, StructValue)
            else pick(v)
        )

    lengths: list[Length] = []

    def measured(v: Value) -> Value:
        if isinstance(v, ArrayView | Lazy) and v.shape:
            lengths.append(v.shape[0])
        return v

    for name in arguments:
        picked(name, measured)
    if len(set(lengths)) != 1:
        message = f"`{shortened(call)}` goes through arrays of the lengths {sorted({*lengths}, key=str)}"
        cx.fail("RG0712", message, call)

    def one(index: tuple[E, ...]) -> None:
        inner = {
            name: (picked(name, lambda v: first_axis(v, index[0])), where) for name, (_, where) in arguments.items()
        }
        _call_on(cx, f, f.backward != backward, inner, call)

    cx.over_elements((merged(lengths),), one)


def call_chosen(cx: Context, functions: Sequence[FunctionValue], index: E, backward: bool, call: ast.Call) -> None:
    """`fs[i](x)`: a branch for each function."""
    branches: list[Block] = []
    for f in functions:
        with cx.block() as inner:
            call_function(cx, f, backward, call)
        branches.append(tuple(inner))
    changes = cx.builder.effects(tuple(node for branch in branches for node in branch))
    changed = sorted(v.name for v in variables(index) & changes.writes)
    if changed:
        message = f"`{shortened(call)}` changes `{changed[0]}`, which chooses the function"
        cx.fail("RG0707", message, call.func, "Choose by a variable that no function of the list changes.")
    t = cx.builder.temporaries()
    number = t.operand(index)
    *others, chosen = branches
    for k, branch in reversed(list(enumerate(others))):
        test = Test("eq", number, Const(k))
        chosen = (If(test, branch, chosen, test, cx.span(call)),)
    cx.builder.emit(t.wrap(chosen, loads_clobbered(index, changes)), made_of_blocks=True)


def _call_on(cx: Context, f: FunctionValue, backward: bool, arguments: Bound, node: ast.Call) -> None:
    """Emit the call of a function on the caller's values."""
    function: SourceFunction = f.function
    shapes: list[Shape] = []
    found: list[Leaf] = []
    sizes: dict[str, Length] = {}
    #: arguments that are changed through a view, by position
    seen: dict[int, View] = {}
    for p in function.parameters:
        value, where = arguments[p.name]
        view = view_of(cx, where) if isinstance(value, Lazy) and isinstance(where, ast.expr) else None
        if view is not None:
            seen[len(found)] = view
            value = view.value
        value = fitted_argument(cx, p, value, where, function, sizes)
        shapes.append(shape_of_argument(cx, p.name, value, where, found))
    shapes += [shape for _, shape in captured_shapes(cx, f, node, found)]

    def refuse(code: str, message: str, hint: str | None = None) -> NoReturn:
        cx.fail(code, message, node, hint)

    callee = cx.specialise(function, tuple(shapes), refuse)
    turned = _turned_arguments(cx, callee, found, seen)
    t = cx.builder.temporaries()
    _refuse_aliases(cx, t, callee, found, seen, node)
    found = [turned[i][1] if i in turned else leaf for i, leaf in enumerate(found)]
    args: list[Operand] = []
    regions: list[Region] = []
    #: words that are exchanged into temporaries, after all addresses are computed
    late: list[tuple[int, Scalar]] = []
    for i, leaf in enumerate(found):
        value, changes = leaf.value, i in callee.written
        why_not = value.why_not
        if isinstance(value, Scalar) and value.place is None:
            why_not = why_not or "it is the value of an expression"
        if changes and why_not is not None:
            called = f"`{function.__name__}` changes `{leaf.name}`"
            message = f"{called}, and `{shortened(leaf.where)}` cannot be changed: {why_not}"
            cx.fail("RG0709", message, leaf.where)
        match value:
            case Scalar(_, Address()) if changes:
                late.append((i, value))
                args.append(Var("later"))
            case Scalar(e):
                args.append(t.operand(e))
            case ArrayView() | StackValue():
                args.append(t.location(value.address))
                regions.append(value.address.region)
    for i, value in late:
        assert isinstance(value.place, Address)
        args[i] = register(cx, t, value.place, value.kind, found[i].name)
    call = Call(callee.name, tuple(args), tuple(regions), backward, cx.span(node))
    before = tuple(n for block, _ in turned.values() for n in block)
    stores = [_words(leaf.value) for i, leaf in enumerate(found) if i in callee.written and not turned]
    cx.builder.emit(
        (*before, *t.wrap((call,)), *invert(before)), stores=[words for words in stores if words is not None]
    )


def _turned_arguments(
    cx: Context, callee: Specialisation, found: list[Leaf], seen: dict[int, View]
) -> dict[int, tuple[Block, Leaf]]:
    """For each argument that is passed through a view: (statements that turn its variable into the view, the view).

    `found` has the variable in its place from here on.
    """
    out: dict[int, tuple[Block, Leaf]] = {}
    for i, leaf in enumerate(found):
        value, where = leaf.value, leaf.where
        if i in callee.written and isinstance(value, Scalar) and value.place is None and isinstance(where, ast.expr):
            view = view_of(cx, where)
            if view is not None and isinstance(view.place, StructValue):
                view = view.of_field(leaf.name.rpartition(".")[2])
            if view is not None and isinstance(view.place, Scalar) and view.kind is value.kind:
                seen[i] = view
        if i in seen:
            assert isinstance(where, ast.expr)
            block, lent = lend(cx, seen[i], where)
            place = seen[i].place
            assert isinstance(place, Scalar | ArrayView)
            assert isinstance(lent, Scalar | ArrayView)
            out[i] = block, Leaf(lent, where, leaf.name)
            found[i] = Leaf(place, where, leaf.name)
    return out


def _refuse_aliases(
    cx: Context, t: Temporaries, callee: Specialisation, found: Sequence[Leaf], seen: Iterable[int], node: ast.Call
) -> None:
    """Refuse or test that two arguments overlap, one of which is changed, or `seen` through a view."""
    f, written = callee.function.__name__, callee.written.union(seen)
    for j, y in enumerate(found):
        for i, x in enumerate(found[:j]):
            if i in written or j in written:
                _refuse_overlap_of(cx, t, f, x, y)
    # Addresses and values of arguments are computed again after the call, so they may not read a place that it changes.
    sources: list[E] = []
    for leaf in found:
        match leaf.value:
            case Scalar(e, None):
                sources.append(e)
            case Scalar(_, Address() as a) | ArrayView(address=a) | StackValue(address=a):
                sources += [e for e, _ in a.terms]
            case _:
                pass
    for i in sorted(written):
        leaf = found[i]
        if isinstance(leaf.value, Scalar):
            if leaf.value.place is not None:
                for e in sources:
                    refuse_overlap(cx, t, e, leaf.value.place, node, leaf.where)
            continue
        view = leaf.value
        for e in sources:
            for at, words in loads(e):
                if at.region is view.address.region:
                    message = f"`{f}` changes `{shortened(leaf.where)}`, and an argument is computed from it"
                    differ(cx, t, at, view.address, words, extent(view), "RG0705", message, node, e)


def _refuse_overlap_of(cx: Context, t: Temporaries, f: str, x: Leaf, y: Leaf) -> None:
    """Refuse or test that two arguments of f overlap."""
    a, b = x.value, y.value
    # An expression that loads from the other argument is tested by the caller: it has no place.
    at_x, at_y = (v.place if isinstance(v, Scalar) else v.address for v in (a, b))
    in_memory = isinstance(at_x, Address) and isinstance(at_y, Address) and at_x.region is at_y.region
    if at_x is None or not (at_x is at_y or in_memory):
        return
    given = (f"`{shortened(leaf.where)}` as `{leaf.name}`" for leaf in (x, y))
    message = f"`{f}` is given {' and '.join(given)}, which overlap"
    if not (isinstance(at_x, Address) and isinstance(at_y, Address)):
        cx.fail("RG0705", message, y.where)
    if isinstance(a, Scalar) and isinstance(b, Scalar):
        differ(cx, t, at_x, at_y, 1, 1, "RG0705", message, y.where)
        return
    if isinstance(a, Scalar) or isinstance(b, Scalar):
        word, view = (at_x, b) if isinstance(a, Scalar) else (at_y, a)
        assert not isinstance(view, Scalar)
        distance = word.minus(view.address)
        if distance is None or 0 <= distance < extent(view):
            cx.fail("RG0705", message, y.where)
        return
    assert not isinstance(b, Scalar)
    if isinstance(a, ArrayView) and isinstance(b, ArrayView) and a.strides == b.strides and _interleave(a, b):
        # Two columns, for example, that are less than a stride apart: they overlap only if they are the same.
        differ(cx, t, a.address, b.address, 1, 1, "RG0705", message, y.where)
        return
    size_a, size_b = _run_extent(a), _run_extent(b)
    of_the_run = any(isinstance(n, RunLength) for v in (a, b) if isinstance(v, ArrayView) for n in v.shape)
    if of_the_run and size_a is not None and size_b is not None:
        apart(cx, t, a.address, b.address, size_a, size_b, message, y.where)
        return
    differ(cx, t, a.address, b.address, extent(a), extent(b), "RG0705", message, y.where)


def _words(value: Scalar | ArrayView | StackValue) -> tuple[Address, int | None] | None:
    """The words of memory in which an argument lies: the first of words in a row, and their number if it is known."""
    match value:
        case Scalar(_, Address() as at):
            return at, 1
        case Scalar():
            return None
        case ArrayView(strides=strides) if any(s < 0 for s in strides):
            return value.address, None
    return value.address, extent(value)


def _run_extent(view: ArrayView | StackValue) -> E | None:
    """The words from the first of an array to behind the last, where they are next to each other; None elsewhere."""
    if not isinstance(view, ArrayView) or view.strides != row_major(tuple(map(bound, view.shape)), view.element.size):
        return None
    return value_of(words_of((*view.shape, view.element.size)))


def _interleave(a: ArrayView, b: ArrayView) -> bool:
    """Whether two views of the same strides overlap only if they have the same address.

    They do if their indices move them by less than the smallest stride.
    """
    least = min(a.strides, default=0)
    spans = {abs(k) for _, k in (*a.address.terms, *b.address.terms)}
    return least > a.element.size and bool(spans) and all(k < least for k in spans)


# -----------------------------------------------------------------------------
# Expressions as statements: calls of reversible functions and of intrinsics, and their inverses `~f(x)`; `~r` and `r()` of routines.


@lowers(ast.Expr)
def lower_expression(cx: Context, statement: ast.Expr) -> None:
    node = statement.value
    if isinstance(node, ast.Constant):
        return  # a docstring
    backward = False
    call = node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        if isinstance(node.operand, ast.Name):
            name = node.operand.id
            if isinstance(cx.scope.names.get(name), RoutineValue) or is_finished(cx, name):
                uncompute(cx, name, node)
                return
        call, backward = node.operand, True
    if not isinstance(call, ast.Call):
        _refuse_useless(cx, node)
    callee = call.func
    if isinstance(callee, ast.Name) and is_finished(cx, callee.id) and callee.id not in cx.scope.names:
        if call.args or call.keywords:
            message = f"the routine `{callee.id}` takes no arguments"
            cx.fail("RG0715", message, call, f"write `{callee.id}()`; the routine reads the variables around it")
        recompute(cx, callee.id, node)
        return
    if isinstance(callee, ast.Attribute) and callee.attr == "each":
        f = cx.value(callee.value)
        if isinstance(f, FunctionValue):
            call_each(cx, f, backward, call)
            return
    chosen = chosen_function(cx, callee)
    if chosen is not None:
        call_chosen(cx, *chosen, backward, call)
        return
    f = cx.value(callee)
    if isinstance(f, FunctionValue):
        call_function(cx, f, backward, call)
        return
    if isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.STATEMENT:
        _lower_intrinsic(cx, f.value, call, backward)
        return
    if isinstance(f, Constant) and f.value is print:
        hint = f"with rg.external():\n           {shortened(node)}"
        cx.fail("RG0701", "`print` is for the host, and stands in a block that machines skip", node, hint)
    cx.value(call)  # refuses a call that has no value either
    text = shortened(node)
    cx.fail("RG0701", f"nothing takes the value of `{text}`", node, f"write `y += {text}`")


def _lower_intrinsic(cx: Context, f: Intrinsic, call: ast.Call, backward: bool) -> None:
    name = f.__name__
    if call.keywords:
        cx.fail("RG0715", f"rg.{name} takes no keywords", call)
    count = f.arity
    if len(call.args) != count:
        message = f"rg.{name} takes {count} argument{'s' * (count != 1)}, not {len(call.args)}"
        if name == "pop" and len(call.args) == 1:
            cx.fail("RG0715", message, call, f"write `x = rg.pop({shortened(call.args[0])})`, with a new name")
        hint = None
        if name == "free" and len(call.args) == 1:
            x = ast.unparse(call.args[0])
            hint = f"Write `rg.free({x}, e)` with the value e that it holds, or `del {x}` where the compiler can compute it."
        cx.fail("RG0715", message, call, hint)
    done = f.inverse if backward else f
    if done is None:
        cx.fail("RG0701", f"~rg.{name} is no statement", call)
    cx.perform(done, call)


def _refuse_useless(cx: Context, node: ast.expr) -> NoReturn:
    """Raise RG0701 for an expression whose value nothing takes."""
    hint: str | None
    match node:
        case ast.UnaryOp(op=ast.Invert(), operand=ast.Name(id=name) as operand):
            if name in cx.scope.freed:
                message = f"`{name}` was uncomputed in line {cx.scope.freed[name].line} already"
                cx.fail("RG0711", message, node, "Remove one of the two.")
            found = cx.value(operand)
            hint = "`~r` uncomputes the routine r, and `~f(x)` calls the inverse of f"
            cx.fail("RG0701", f"`{name}` is {describe(found)}, and cannot be uncomputed", node, hint)
        case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]):
            hint = f"write `assert {shortened(node)}` to claim it, or `{shortened(left)} += {shortened(right)}` to change {shortened(left)}"
        case ast.BinOp(op=ast.Add() | ast.Sub() as op, left=left, right=right):
            hint = f"write `{shortened(left)} {OPERATORS[type(op)]}= {shortened(right)}`"
        case _:
            hint = INSTEAD_OF_STATEMENT.get(type(node)) or INSTEAD_OF_EXPRESSION.get(type(node))
    cx.fail("RG0701", f"nothing takes the value of `{shortened(node)}`", node, hint)
