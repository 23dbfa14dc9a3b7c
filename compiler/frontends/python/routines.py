"""`with rg.external()`: statements for the host, which machines skip."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType
from typing import Any, Literal

from retrograd.compiler.frontends.builder import HostBlock, IRBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocal, OwnedLocals
from retrograd.compiler.frontends.python.allocation import Allocation
from retrograd.compiler.frontends.python.branches import Blocks, OpenRoutine
from retrograd.compiler.frontends.python.expressions import ExpressionLowering
from retrograd.compiler.frontends.python.indexing import VIEWS, View, Views, roots
from retrograd.compiler.frontends.python.source import Errors, SourceFunction, free_names, shortened
from retrograd.compiler.frontends.python.updates import Locations
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


@dataclass(eq=False)
class HostBlocks:
    """Lowers blocks for the host to marks in the program."""

    errors: Errors
    function: SourceFunction
    builder: IRBuilder
    scope: Scope

    def lower(self, node: ast.With) -> None:
        for statement in node.body:
            self._require_inside(statement, False)
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load) and n.id in self.scope.names:
                message = f"`{n.id}` cannot be changed by the host, which does not run backward"
                hint = f"The host sees a copy of `{n.id}`: choose another name, or move the statement out."
                self.errors.fail("RG0709", message, n, hint)
        t = self.builder.temporaries()
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
        watched = {n: v for n, v in self.scope.names.items() if n in used and isinstance(v, visible)}
        for value in watched.values():
            watch(value)
        span = self.errors.span(node)
        number = self.builder.module.host_block(HostBlock(PythonBlock(self.function, node.body), watched, span.file))
        self.builder.emit(t.wrap((External(number, span, tuple(operands)),)))

    def _require_inside(self, node: ast.AST, loop: bool) -> None:
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
            self.errors.fail("RG0701", f"`{shortened(node)}` would leave a block for the host", node, hint)
        own = node.body if isinstance(node, ast.For | ast.While) else []
        for inner in ast.iter_child_nodes(node):
            self._require_inside(inner, loop or inner in own)


# -----------------------------------------------------------------------------
# Compute–use–uncompute: `with rg.routine() as r`, `~r`, and `r()` to compute it again.
#
# compute; use; compute⁻¹ leaves only the effect of the use (C. H. Bennett, Logical reversibility of computation, 1973).


@dataclass(eq=False)
class Routines:
    """Lowers `with`, and statements that uncompute a routine or compute it again."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    scope: Scope
    locals: OwnedLocals
    blocks: Blocks
    host_blocks: HostBlocks
    views: Views
    locations: Locations
    allocation: Allocation
    statements: Callable[[Sequence[ast.stmt]], None]

    def lower_with(self, node: ast.With) -> None:
        if len(node.items) != 1:
            hint = "write one `with` inside the other, or after it"
            self.errors.fail("RG0701", "a `with` opens one routine", node, hint)
        item = node.items[0]
        called = item.context_expr
        f = self.expressions.value(called.func if isinstance(called, ast.Call) else called)
        which = f.value if isinstance(f, Constant) else None
        if which is intrinsics.external:
            self.host_blocks.lower(node)
            return
        if which is intrinsics.unchecked:
            self._lower_unchecked(node)
            return
        if which is intrinsics.view:
            self._lower_view(node, item)
            return
        if which is intrinsics.routine and (not isinstance(called, ast.Call) or called.args or called.keywords):
            self.errors.fail(
                "RG0711", "rg.routine is called, without arguments", called, "write `with rg.routine() as r:`"
            )
        if which is not intrinsics.routine:
            hint = "The blocks are `with rg.routine() as r:`, `with rg.view(-x) as m:`, `with rg.unchecked():`, and `with rg.external():`, where Python's own functions may be called."
            if which is intrinsics.repeat:
                hint = "rg.repeat is a loop: `for _ in rg.repeat(n == 0, until=x > limit):`."
            self.errors.fail("RG0701", f"`with {shortened(called)}` is no block of the language", called, hint)
        if not isinstance(item.optional_vars, ast.Name):
            hint = "write `with rg.routine() as r:`"
            self.errors.fail("RG0711", "a routine needs a name, to be uncomputed by", node, hint)
        name = item.optional_vars.id
        if name in self.scope.names:
            self.errors.fail("RG0706", f"`{name}` holds a value already", item.optional_vars)
        routine = self._opened(name, node)
        before = len(self.locals.owned)
        routines, self.blocks.routines = self.blocks.routines, []
        with self.builder.collect() as compute:
            self.statements(node.body)
        if self.blocks.routines:
            r = self.blocks.routines[-1]
            hint = f"Write `~{r.name}` at the end of the routine `{name}`."
            self.errors.fail("RG0711", f"the routine `{r.name}` is not uncomputed within `{name}`", r.span, hint)
        self.blocks.routines = routines
        routine.compute, routine.own = tuple(compute), self.locals.owned[before:]
        self._open(routine)

    def _lower_unchecked(self, node: ast.With) -> None:
        (item,) = node.items
        called = item.context_expr
        if not isinstance(called, ast.Call) or called.args or called.keywords or item.optional_vars is not None:
            hint = "write `with rg.unchecked():`"
            self.errors.fail("RG0701", "rg.unchecked takes no arguments and gives no value", node, hint)
        outer, self.builder.unchecked = self.builder.unchecked, True
        try:
            self.statements(node.body)
        finally:
            self.builder.unchecked = outer

    def _lower_view(self, node: ast.With, item: ast.withitem) -> None:
        """`with rg.view(-x) as m:`: x becomes −x, the block runs with m in place of x, and x is turned back."""
        called, target = item.context_expr, item.optional_vars
        if (
            not isinstance(called, ast.Call)
            or len(called.args) != 1
            or called.keywords
            or not isinstance(target, ast.Name)
        ):
            self.errors.fail(
                "RG0701", "rg.view takes one variable, and gives it a name", node, "write `with rg.view(-x) as m:`"
            )
        name, seen = target.id, called.args[0]
        if name in self.scope.names:
            self.errors.fail("RG0706", f"`{name}` holds a value already", target)
        view = self.views.of(seen)
        if view is None:
            value = self.expressions.value(seen)
            if isinstance(value, Scalar) and value.place is None:
                message = f"`{shortened(seen)}` is no view of a variable, through which it could be changed"
                self.errors.fail("RG0709", message, seen, VIEWS)
            view = View(self.locations.location(seen))
        with self.blocks.block() as outer:
            view = replace(view, place=self.allocation.held(name, view.place, seen))
            turned, value = self.views.lend(view, seen, name)
            self.builder.emit(turned)
            lent, names = self.scope.lent, self.scope.names
            own = roots(view.place)
            hidden = {n for n, v in names.items() if roots(v) & own}
            self.scope.lent = lent | {
                n: f"{'uses a variable that ' * isinstance(names[n], FunctionValue)}is seen as `{name}`" for n in hidden
            }
            self.scope.names = {n: v for n, v in names.items() if n not in hidden}
            if view.steps:
                # The first line turns the variable, and turns it back behind the last one.
                first, more = self.errors.span(node), (node.end_lineno or node.lineno) - node.lineno
                for n in hidden:
                    self.builder.module.viewed[n] |= {(first.file, first.line + k) for k in range(more + 1)}
            with self.blocks.block() as inner:
                self.scope.names[name] = value
                self.statements(node.body)
            self.scope.lent, self.scope.names = lent, names
            self.builder.emit((*inner, *invert(turned)))
        self.builder.emit(outer)

    def _opened(self, name: str, node: ast.AST) -> OpenRoutine:
        """A routine that begins here, without its contents."""
        self.builder.log.begin()
        return OpenRoutine(
            name,
            (),
            [],
            self.errors.span(node),
            self.builder.out,
            dict(self.scope.names),
            [],
            Counter(self.builder.versions),
            self.locals.histories(),
        )

    def _open(self, routine: OpenRoutine) -> None:
        """From here on statements belong to the use of the routine."""
        routine.owned = list(self.locals.owned)
        self.blocks.routines.append(routine)
        self.scope.names[routine.name] = RoutineValue(routine.name)
        self.builder.out = []

    def is_finished(self, name: str) -> bool:
        """Whether a routine of this name was uncomputed in this block or around it."""
        return name in self.blocks.finished

    def uncompute(self, name: str, node: ast.AST) -> None:
        """`~r`: undo the computation of the routine; its locals are freed.

        Locals of the use, between the `with` and `~r`, are freed before it, since their values may depend on locals of the routine.
        A local that a later statement uses stays: it is allocated in front of the whole, and the use only changes it.
        """
        if not self.blocks.routines or self.blocks.routines[-1].name != name:
            self._refuse_uncompute(name, node)
        r = self.blocks.routines[-1]
        used_later = {
            n
            for n, value in self.scope.names.items()
            if n not in r.names
            and not isinstance(value, RoutineValue)
            and first_use(n, self.blocks.following) == "used"
        }
        kept = self._kept(r, used_later, node)
        before = {id(m) for m in r.owned}
        for local in reversed(self.locals.owned):
            if id(local) not in before and local not in kept:
                self.locals.release(local)
        lost = [m for m in r.owned if m not in self.locals.owned]
        if lost:
            message = f"`{lost[0].name}` was freed before the routine `{name}`, which made it, was uncomputed"
            self.errors.fail("RG0711", message, node, f"Leave `{lost[0].name}` alone: `~{name}` frees it.")
        self.blocks.routines.pop()
        use = self._without_allocations(r, kept)
        computed, used = self.builder.effects_with_locals(r.compute), self.builder.effects(use)
        # Where the use interferes with the computation, the machine tests that all locals return to zero.
        compute = self.locals.tested(r.compute, r.own) if used.clobbers(computed) else r.compute
        self.builder.out = r.outer
        own_parts = {p for m in r.own for p in m.parts}
        self.locals.owned = [m for m in self.locals.owned if m not in r.own]
        for n, value in list(self.scope.names.items()):
            if n not in r.names and (n not in used_later or not roots(value).isdisjoint(own_parts)):
                self.scope.free(n, self.errors.span(node))
        for n, value in r.names.items():
            self.scope.names.setdefault(n, value)
        self.builder.log.end()
        with self.locals.recorded(kept):
            self.builder.emit((Within(compute, use, name, r.span),), made_of_blocks=True)
        self.builder.end(own_parts)
        # Places that only the computation changed have their former value again.
        for place in (computed.writes | computed.stores) - used.writes - used.stores:
            if place is not None and place not in own_parts:
                self.builder.versions[place] = r.versions[place]
        for m in self.locals.owned:
            if id(m) in r.histories and not any(p in used.writes or p in used.stores for p in m.parts):
                m.history = r.histories[id(m)]
        self.blocks.finished[name] = r.compute, r.own

    def _kept(self, r: OpenRoutine, names: Collection[str], node: ast.AST) -> list[OwnedLocal]:
        """The locals of the use of a routine that stay after it: those of these names, and locals from which they were made."""
        before = {id(m) for m in (*r.owned, *r.own)}
        needed = {p for n in names for p in roots(self.scope.names[n])}
        kept: list[OwnedLocal] = []
        for local in reversed(self.locals.owned):
            if id(local) in before or needed.isdisjoint(local.parts):
                continue
            if local.frame:
                hint = f"Make `{local.name}` before `with rg.routine() as {r.name}:`."
                message = f"`{local.name}` lies on the stack above what `{r.name}` computed, and cannot stay after `~{r.name}`"
                self.errors.fail("RG0711", message, node, hint)
            kept.insert(0, local)
            needed |= local.operands.keys()
        return kept

    def _without_allocations(self, r: OpenRoutine, kept: Sequence[OwnedLocal]) -> Block:
        """The use of a routine, without the allocations of locals that stay, which move in front of the routine."""
        parts = {p for local in kept for p in local.parts}
        moved = [n for n in self.builder.out if isinstance(n, Local) and n.var in parts]
        use = tuple(n for n in self.builder.out if not (isinstance(n, Local) and n.var in parts))
        r.outer += moved
        for local in kept:
            if local.emitted is not None:
                local.emitted = (r.outer, len(r.outer))
        return use

    def _refuse_uncompute(self, name: str, node: ast.AST) -> None:
        """Raise RG0711 for a routine that is not the last open one of this block."""
        if name in [r.name for r in self.blocks.routines]:
            last = self.blocks.routines[-1].name
            message = f"the routine `{last}` was computed after `{name}`, and must be uncomputed before it"
            self.errors.fail("RG0711", message, node, f"Write `~{last}` before `~{name}`.")
        if isinstance(self.scope.names.get(name), RoutineValue):
            message = f"the routine `{name}` was computed in another block than this"
            self.errors.fail("RG0711", message, node, f"Write `~{name}` in the block of its `with`.")
        line = f" in line {self.scope.freed[name].line}" if name in self.scope.freed else ""
        hint = f"Remove one of the two, or compute it again: `{name}()`."
        self.errors.fail("RG0711", f"the routine `{name}` was uncomputed{line} already", node, hint)

    def recompute(self, name: str, node: ast.AST) -> None:
        """`r()`: compute a routine again that was uncomputed."""
        compute, own = self.blocks.finished[name]
        for local in own:
            if local.name in self.scope.names:
                message = f"`{local.name}`, which the routine makes, holds a value already"
                self.errors.fail("RG0706", message, node)
        routine = self._opened(name, node)
        fresh = [replace(m, history=None if m.history is None else list(m.history)) for m in own]
        self.locals.owned += fresh
        self.scope.names |= {m.name: m.value for m in own}
        for inner in compute:
            self.builder.note(self.builder.module.accesses.of(inner))
        routine.compute, routine.own = compute, fresh
        self._open(routine)


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
