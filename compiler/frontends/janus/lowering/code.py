"""The IR of one body while it is made: the nodes so far, the places in scope, and the errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from retrograd.compiler.frontends.builder import ModuleBuilder
from retrograd.compiler.frontends.janus import syntax
from retrograd.compiler.frontends.janus.lowering.expressions import Expressions
from retrograd.compiler.frontends.janus.lowering.values import (
    BOOL,
    INT,
    ArrayPlace,
    Place,
    ScalarPlace,
    StackPlace,
    Value,
    length_of,
    to_stored,
)
from retrograd.compiler.ir.expressions import E, const
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Block, Local, Node, Var
from retrograd.compiler.language.values import Condition
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

#: fixes of errors in the words of Janus, where those of the kinds of errors are in the words of Python
_FIXES = {
    "RG0702": "Declare it: among the variables of `main`, by `local … delocal`, as a parameter; in 1982 above the procedures.",
    "RG0703": "docs/janus.md lists the types, and the operators of each.",
    "RG0704": "Copy the value into a local variable, and free that with an expression of the values after the statement.",
    "RG0706": "Choose another name: a name stands for one variable in a procedure.",
    "RG0709": "Update another variable, or declare it without `constant`.",
    "RG0712": "Make the lengths equal; missing values of an array are zeros.",
    "RG0715": "Give one argument for each parameter, of its type.",
}


class Code:
    """The code of one version of a procedure.

    `names`: the places in scope; `span`: the place of the current statement; `findings`: the errors of all versions so far.
    """

    def __init__(self, module: ModuleBuilder, source: syntax.Source, findings: list[Diagnostic]) -> None:
        self.module, self.w, self.source, self.findings = module, module.w, source, findings
        self.names: dict[str, Place] = {}
        self.out: list[Node] = []
        self.span = Span(source.name, 1, 1, 2)
        self.expressions = Expressions(self.w, self.names, self.text, self.fail)

    # ------------------------------------------------------------------ the source

    def text(self, span: Span) -> str:
        """The piece of the source at a place."""
        line = self.source.lines[span.line - 1] if 0 < span.line <= len(self.source.lines) else ""
        found = line[span.column - 1 : span.end - 1].strip()
        return found if len(found) <= 50 else found[:47] + "…"

    def fail(self, code: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Raise CompileError. Without a hint, the fix of the kind of error for Janus is shown."""
        line = self.source.lines[span.line - 1] if 0 < span.line <= len(self.source.lines) else None
        raise CompileError(Diagnostic(code, message, span, hint or _FIXES.get(code), line))

    # ------------------------------------------------------------------ emission

    def emit(self, *nodes: Node) -> None:
        self.out.extend(nodes)

    def temporaries(self) -> Temporaries:
        return Temporaries(self.w, self.span, self.module.powers)

    @contextmanager
    def collect(self) -> Iterator[list[Node]]:
        outer, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = outer

    def update(self, place: ScalarPlace, update: str, value: Value) -> None:
        """place update= value."""
        e = to_stored(value, place.type, self.w)
        if place.kind is BOOL:
            update = "xor"
        t = self.temporaries()
        where = place.where
        body: list[Node] = []
        if isinstance(where, Var):
            t.into(body, where, update, e)
            self.emit(*t.wrap(tuple(body)))
            return
        if e.op in ("const", "read", "load"):
            body.append(t.memory(f"st.{update}", t.operand(e), where))
        else:
            d = Var(f"%{where.region.name}", place.kind, self.span)
            t.into(body, d, update, e)
            # The word is exchanged into d after the temporaries are computed, since they may read the array.
            t.compute += [Local(d, False, self.span), t.memory("exch", d, where)]
        self.emit(*t.wrap(tuple(body)))

    def toggle(self, bit: Var, condition: E) -> Block:
        """bit ^= condition."""
        t = self.temporaries()
        body: list[Node] = []
        t.into(body, bit, "xor", condition)
        return t.wrap(tuple(body))

    def require_variable(self, place: Place, span: Span) -> None:
        """Refuse to change a constant."""
        if isinstance(place, ScalarPlace) and place.constant:
            self.fail("RG0709", f"`{place.name}` is a constant, and cannot be changed", span)

    def words(self, place: ArrayPlace | StackPlace) -> E:
        """The number of words that an array or stack has."""
        if isinstance(place, StackPlace):
            return const(place.capacity + 1, INT)
        out: E = const(1, INT)
        for length in place.lengths:
            out = self.expressions.product(out, length_of(length))
        return out

    # ------------------------------------------------------------------ conditions

    def pair(self, before: syntax.Expression, after: syntax.Expression, negated: bool = False) -> None:
        """Keep the texts of two conditions for the messages of traps."""
        self.module.conditions[before.span] = self._described(before, negated), self._described(after, negated)

    def _described(self, node: syntax.Expression, negated: bool) -> Condition:
        sides: tuple[str | None, str | None] = (None, None)
        if isinstance(node, syntax.Binary) and node.operator in ("<", ">=", "=", "!=", ">", "<="):
            pair = [node.left, node.right]
            if node.operator in (">", "<="):
                pair.reverse()
            texts = [None if isinstance(x, syntax.Number) else self.text(x.span) for x in pair]
            sides = texts[0], texts[1]
        return Condition(self.text(node.span), node.span, sides, negated)
