"""`with rg.external()`: statements for the host, which machines skip."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from types import CodeType
from typing import Any, Literal

from retrograd.compiler.frontends.builder import HostBlock
from retrograd.compiler.frontends.owned_locals import OwnedLocal
from retrograd.compiler.frontends.python.allocation import hold_view
from retrograd.compiler.frontends.python.context import Context, OpenRoutine, lowers
from retrograd.compiler.frontends.python.indexing import VIEWS, View, lend, roots, view_of
from retrograd.compiler.frontends.python.source import SourceFunction, free_names, shortened
from retrograd.compiler.frontends.python.updates import location
from retrograd.compiler.ir.expressions import Address, RunLength
from retrograd.compiler.ir.statements import Block, External, Local, Operand, Within, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    RoutineValue,
    Scalar,
    StackValue,
    StructValue,
    Value,
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
    with cx.builder.collect() as compute:
        cx.lower(node.body)
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
