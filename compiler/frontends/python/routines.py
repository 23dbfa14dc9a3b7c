"""`with rg.routine()`: computed, used, uncomputed; and blocks for the host.

compute; use; compute⁻¹ leaves only what was used (C. H. Bennett, Logical reversibility of computation, 1973).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from retrograd.compiler.frontends.python.control import Control
from retrograd.compiler.frontends.python.scope import Made, Routine
from retrograd.compiler.ir.expressions import Address
from retrograd.compiler.ir.statements import Block, External, Local, Node, Operand, Region, Var, Within
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.values import ArrayView, Constant, RoutineValue, Scalar, StackValue, StructValue, Value


class Routines(Control):
    """Statements that open a block."""

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
            self.fail("RG0701", f"`with {shortened(called)}` is no block of the language", called, hint)
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

    def _tested(self, compute: Block, own: Sequence[Made]) -> Block:
        """What a routine computes, with tests that all it makes is zero when it is freed."""
        out = [n._replace(checked=True) if isinstance(n, Local) else n for n in compute]
        for made in reversed(own):
            if isinstance(made.value, ArrayView | StackValue) and made.emitted is not None:
                # The routine's own list has been copied since; what was inserted stands where it was.
                out[made.emitted[1] : made.emitted[1]] = self._all_zero(made.value)
        return tuple(out)

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
        compute_access = self._changes_with_locals(r.compute)
        body_access = self._changes(body)
        compute = r.compute
        if body_access.clobbers(compute_access):
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
        for place in (compute_access.writes | compute_access.stores) - body_access.writes - body_access.stores:
            if place is not None and place not in local:
                self.versions[place] = r.versions[place]
        for m in self.made:
            if id(m) in r.histories and not any(p in body_access.writes or p in body_access.stores for p in m.parts):
                m.history = r.histories[id(m)]
        self.finished[name] = (r.compute, {m.name: m.value for m in r.own}, r.own)

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
            self._note(self.module.accesses.of(inner), None)
        self._open(name, compute, outer, before, fresh, versions, histories, node)

    def _external(self, node: ast.With) -> None:
        for statement in node.body:
            self._stays(statement, False)
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

    def _stays(self, node: ast.AST, loop: bool) -> None:
        """Refuse what would leave a block for the host. `loop`: a loop of the block's own stands around."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                return  # what stands in these leaves them, and not the block
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
            self.fail("RG0701", f"`{shortened(node)}` would leave a block for the host", node, hint)
        own = node.body if isinstance(node, ast.For | ast.While) else []
        for inner in ast.iter_child_nodes(node):
            self._stays(inner, loop or inner in own)


def _visible(value: Value) -> bool:
    return isinstance(value, Constant | Scalar | ArrayView | StructValue)
