"""Conditions as the user wrote them, for the messages of tests that fail when the program runs."""

from __future__ import annotations

from typing import NamedTuple

from retrograd.compiler.ir.statements import Const, Operand
from retrograd.isa.diagnostics import Span


class Condition(NamedTuple):
    """The text of a condition and its place. `sides`: of a comparison, the texts of the two operands of its test.

    A side is None where the condition is no comparison, or where the operand is a literal. `negated`: the test is the opposite of the
    condition, as in `from p … until q`.
    """

    text: str
    span: Span
    sides: tuple[str | None, str | None] = (None, None)
    negated: bool = False

    def values(self, a: Operand, b: Operand) -> str:
        """`: x is {a}, y is {b}` for the operands of the test, without constants."""
        known = [
            f"`{side}` is {blank}"
            for side, operand, blank in ((self.sides[0], a, "{a}"), (self.sides[1], b, "{b}"))
            if side is not None and not isinstance(operand, Const)
        ]
        return f": {', '.join(known)}" if known else ""
