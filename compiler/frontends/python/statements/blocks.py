"""Blocks of statements, and loops over the elements of arrays. A local that a block allocates is freed at its end."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from retrograd.compiler.frontends.builder import IRBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocal, OwnedLocals, Update
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.names import require_unchanged
from retrograd.compiler.ir.expressions import E, Length, const, read
from retrograd.compiler.ir.statements import Block, Kind, Node, Region, Var
from retrograd.compiler.language.arithmetic import element
from retrograd.compiler.language.types import is_empty, is_known, note_range
from retrograd.compiler.language.values import Lazy, Scalar, Value
from retrograd.isa.diagnostics import Span


@dataclass(eq=False)
class OpenRoutine:
    """A `with rg.routine()` that is computed and not yet uncomputed, and the state before it."""

    name: str
    compute: Block
    #: the locals that it allocated
    own: list[OwnedLocal]
    span: Span
    outer: list[Node]
    names: dict[str, Value]
    owned: list[OwnedLocal]
    versions: Counter[Var | Region]
    histories: dict[int, list[Update] | None]


@dataclass(eq=False)
class Blocks:
    """Opens and closes the blocks of one function."""

    errors: Errors
    builder: IRBuilder
    scope: Scope
    locals: OwnedLocals
    #: the statements that follow the current one in its block
    following: Sequence[ast.stmt] = ()
    #: of the current block
    routines: list[OpenRoutine] = field(default_factory=list)
    #: routines that were uncomputed and may be computed again: name → (compute block, its locals)
    finished: dict[str, tuple[Block, list[OwnedLocal]]] = field(default_factory=dict)

    @contextmanager
    def block(self) -> Iterator[list[Node]]:
        """A block with a scope of its own. Yields the list that receives its statements."""
        builder, scope, ledger = self.builder, self.scope, self.locals
        names, freed, owned = scope.names, scope.freed, ledger.owned
        routines, finished = self.routines, self.finished
        scope.names, scope.freed, ledger.owned = dict(names), dict(freed), list(owned)
        self.routines, self.finished = [], dict(finished)
        builder.depth += 1
        with builder.collect() as inner:
            yield inner
            if self.routines:
                r = self.routines[-1]
                hint = f"Write `~{r.name}` at the end of the block, after the last use of what the routine computed."
                self.errors.fail("RG0711", f"the routine `{r.name}` is not uncomputed in its block", r.span, hint)
            while len(ledger.owned) > len(owned):
                ledger.release(ledger.owned[-1])
        lost = next((m for m in owned if m not in ledger.owned), None)
        if lost is not None:
            message = f"`{lost.name}` is freed inside a branch or loop, but was made outside"
            hint = f"Free `{lost.name}` after the block, or make it inside."
            self.errors.fail("RG0710", message, lost.freed or lost.span, hint)
        builder.depth -= 1
        scope.names, scope.freed, ledger.owned = names, freed, owned
        self.routines, self.finished = routines, finished

    @contextmanager
    def repeated(self) -> Iterator[list[Node]]:
        """The body of a loop: a block in which a number with a borrowed name is used again after all that the body changes."""
        self.scope.loops += 1
        with self.block() as inner:
            yield inner
            for name, held in self.scope.borrowed.items():
                if held.used >= self.scope.loops > held.loops and self.scope.names.get(name) is held.value:
                    require_unchanged(self.errors, self.builder, name, held, self.builder.span)
                    held.used = self.scope.loops - 1
        self.scope.loops -= 1

    def over_elements(
        self, shape: Sequence[Length], body: Callable[[tuple[E, ...]], None], value: Value | None = None
    ) -> None:
        """body(indices) in loops over all indices of a shape, the last index moving fastest.

        Terms that are equal in all elements of `value` are computed once, in front of the loops.
        """
        if is_empty(shape):
            return
        builder = self.builder
        span = builder.span
        indices = tuple(Var(f"i{n}" if len(shape) > 1 else "i", Kind.INT, span) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            note_range(builder.ranges, var, length, builder.w)
        index = tuple(const(0, Kind.INT) if length == 1 else read(v) for v, length in zip(indices, shape, strict=True))
        builder.settled.update(indices)
        around, previous = builder.temporaries(), builder.enclosing
        if isinstance(value, Lazy) and is_known(shape):
            sample = element(value, index)
            if isinstance(sample, Scalar):
                around.hoist(sample.e, frozenset(indices))
        builder.enclosing = around
        with self.block() as inner:
            body(index)
        builder.enclosing = previous
        axes = [n for n, length in enumerate(shape) if length != 1]
        loops = around.loops([indices[n] for n in axes], [shape[n] for n in axes], tuple(inner))
        builder.emit(around.wrap(loops), made_of_blocks=True)
