"""Expressions of the debugger: conditions of breakpoints, values to print.

    r3 > 10 and total[2] == r1        registers, names of registers, data labels, M[ADDRESS], pc, br, dir; signed integers
    real(x) > 1.5                     real(place) is the word as a fixed-point number

The syntax is that of Python, of which `ast.parse` reads it. Only the nodes below have a meaning, so an expression calls nothing.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from retrograd.debugger.places import Place, place_named
from retrograd.isa.diagnostics import Diagnostic, InputError
from retrograd.simulator.machine import Machine

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
#: an expression that is longer is refused: no condition that a person writes is
_LONGEST = 1000

_Value = Callable[[Machine], Any]


class Expression:
    """An expression over the state of a machine. Raises InputError RG1301, RG1302."""

    def __init__(self, text: str, machine: Machine) -> None:
        self.text = text
        self._machine = machine
        try:
            if len(text) > _LONGEST:
                raise ValueError
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._fault(f"`{text[:60]}` is no expression") from None
        self._value = self._compiled(tree)

    def __call__(self, machine: Machine) -> Any:
        """The value in the state of a machine: an int, a bool, or a Fraction. Raises InputError RG1301."""
        try:
            return self._value(machine)
        except (ArithmeticError, TypeError) as error:
            raise self._fault(f"`{self.text[:60]}`: {error}") from None

    @staticmethod
    def _fault(message: str) -> InputError:
        return InputError(Diagnostic("RG1301", message))

    def _place(self, text: str) -> Place:
        return place_named(text, self._machine.program, len(self._machine._memory))

    def _compiled(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | int() as value):
                return lambda _: value
            case ast.Constant(value=float() as value):
                number = Fraction(value)
                return lambda _: number
            case ast.Name(id="pc" | "br" | "direction" as name):
                return lambda machine: getattr(machine, name)
            case ast.Name() | ast.Subscript(value=ast.Name(), slice=ast.Constant(value=int())) | ast.Attribute():
                place, signed = self._place(ast.unparse(node)), self._machine.format.signed
                return lambda machine: signed(place.word(machine))
            case ast.Call(func=ast.Name(id="real"), args=[inner], keywords=[]):
                real, exact = self._machine.format.to_real, self._place(ast.unparse(inner))
                return lambda machine: real(exact.word(machine))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return _both(_ARITHMETIC[type(op)], self._compiled(left), self._compiled(right))
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                negated = self._compiled(inner)
                return lambda machine: -negated(machine)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                opposite = self._compiled(inner)
                return lambda machine: not opposite(machine)
            case ast.Compare(left=left, ops=ops, comparators=right) if all(type(op) in _COMPARISONS for op in ops):
                terms = [self._compiled(x) for x in (left, *right)]
                pairs = [_both(_COMPARISONS[type(op)], a, b) for op, a, b in zip(ops, terms, terms[1:], strict=False)]
                return lambda machine: all(holds(machine) for holds in pairs)
            case ast.BoolOp(op=op, values=values):
                parts, every = [self._compiled(x) for x in values], isinstance(op, ast.And)
                return lambda machine: (all if every else any)(bool(part(machine)) for part in parts)
            case _:
                raise self._fault(f"`{self.text[:60]}`: `{ast.unparse(node)[:40]}` has no meaning here")


def _both(apply: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    return lambda machine: apply(left(machine), right(machine))
