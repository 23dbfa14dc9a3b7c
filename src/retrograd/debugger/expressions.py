"""Expressions of the debugger: conditions of breakpoints, values to print.

    n > 10 and total[2] == r1         variables of the source; registers, names of registers, data labels, M[ADDRESS], pc, br,
                                      direction: signed integers
    real(total) > 1.5                 real(place) is the word as a fixed-point number
    cotangent(x) != 0                 cotangent(variable or place), of a machine that differentiates

A name is first a variable that is live where the machine stands, then a place. Where a variable is not live, a condition with its
name does not hold.

The syntax is that of Python, of which `ast.parse` reads it. Only the nodes below have a meaning, so an expression calls nothing.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isfinite
from typing import Any

from retrograd.debugger.places import Place, cotangent_of, place_named
from retrograd.debugger.variables import Word, array_value, is_variable, named
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


class _NotLive(Exception):
    """A variable in the expression is not live where the machine stands."""


class Expression:
    """An expression over the state of a machine. `condition`: its names of variables stand for no other places.

    Raises InputError RG1301, RG1302.
    """

    def __init__(self, text: str, machine: Machine, *, condition: bool = False) -> None:
        self.text = text
        self._condition = condition
        self._machine = machine
        try:
            if len(text) > _LONGEST:
                raise ValueError
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._fault(f"`{text[:60]}` is no expression") from None
        self._value = self._compiled(tree)

    def __call__(self, machine: Machine) -> Any:
        """The value in the state of a machine: an int, a bool, a float, or a Fraction. Raises InputError RG1301, RG1302."""
        try:
            return self._value(machine)
        except _NotLive as error:
            hint = "`info` lists the variables that are"
            raise InputError(Diagnostic("RG1302", f"`{error}` is not live here", hint=hint)) from None
        except (ArithmeticError, TypeError) as error:
            raise self._fault(f"`{self.text[:60]}`: {error}") from None

    def holds(self, machine: Machine) -> bool:
        """Whether it is true in the state of a machine; false where one of its variables is not live. Raises InputError RG1301."""
        try:
            return bool(self._value(machine))
        except _NotLive:
            return False
        except (ArithmeticError, TypeError) as error:
            raise self._fault(f"`{self.text[:60]}`: {error}") from None

    @staticmethod
    def _fault(message: str) -> InputError:
        return InputError(Diagnostic("RG1301", message))

    def _place(self, text: str) -> Place:
        return place_named(text, self._machine.program, len(self._machine._memory))

    def _named(self, text: str) -> _Value:
        """The value of a name: of the variable, where one is live; else of the place."""
        signed = self._machine.format.signed
        if is_variable(text, self._machine.program):
            place = None if self._condition else self._place_or_none(text, known=True)

            def value(machine: Machine) -> Any:
                found = named(text, machine, condition=self._condition)
                if found is None:
                    if place is None:
                        raise _NotLive(text)
                    return signed(place.word(machine))
                return found.value(machine) if isinstance(found, Word) else array_value(found, machine)

            return value
        place = self._place(text)
        return lambda machine: signed(place.word(machine))

    def _cotangent(self, text: str) -> _Value:
        """The cotangent of a live variable, or else of a place."""
        if self._machine._cotangents is None:
            raise self._fault(
                f"cotangent({text[:40]}): this machine does not differentiate; `--loss NAME` debugs the way back"
            )
        known = is_variable(text, self._machine.program)
        fixed = None if known and self._condition else self._place_or_none(text, known)

        def value(machine: Machine) -> Any:
            found = named(text, machine, condition=self._condition)
            place = found.place if isinstance(found, Word) else fixed
            if place is None:
                raise _NotLive(text)
            return cotangent_of(place, machine)

        return value

    def _path(self, node: ast.expr) -> _Value:
        """A name with fields and indices, such as `ps[i].x[0]`; an index is an expression."""
        parts: list[str | _Value] = []
        rest = node
        while not isinstance(rest, ast.Name):
            if isinstance(rest, ast.Attribute):
                parts.append(f".{rest.attr}")
                rest = rest.value
            elif isinstance(rest, ast.Subscript):
                indices = rest.slice.elts if isinstance(rest.slice, ast.Tuple) else [rest.slice]
                inner: list[str | _Value] = ["["]
                for i in indices:
                    fixed = isinstance(i, ast.Constant) and isinstance(i.value, int)
                    inner += [", "] * (len(inner) > 1)
                    inner.append(ast.unparse(i) if fixed else self._compiled(i))
                parts += reversed([*inner, "]"])
                rest = rest.value
            else:
                raise self._fault(f"`{self.text[:60]}`: `{ast.unparse(node)[:40]}` has no meaning here")
        parts.append(rest.id)
        parts.reverse()
        if all(isinstance(part, str) for part in parts):
            return self._named("".join(map(str, parts)))

        def value(machine: Machine) -> Any:
            return self._named("".join(p if isinstance(p, str) else f"{p(machine)}" for p in parts))(machine)

        return value

    def _place_or_none(self, text: str, known: bool) -> Place | None:
        """The place with a name; of a variable that is no place as well, None. Raises InputError RG1302."""
        try:
            return self._place(text)
        except InputError:
            if known:
                return None
            raise

    def _compiled(self, node: ast.expr) -> _Value:
        match node:
            case ast.Constant(value=bool() | int() as value):
                return lambda _: value
            case ast.Constant(value=float() as value) if isfinite(value):
                number = Fraction(value)
                return lambda _: number
            case ast.Name(id="pc" | "br" | "direction" as name):
                return lambda machine: getattr(machine, name)
            case ast.Name() | ast.Subscript() | ast.Attribute():
                return self._path(node)
            case ast.Call(func=ast.Name(id="real"), args=[inner], keywords=[]):
                real, exact = self._machine.format.to_real, self._place(ast.unparse(inner))
                return lambda machine: real(exact.word(machine))
            case ast.Call(func=ast.Name(id="cotangent"), args=[inner], keywords=[]):
                return self._cotangent(ast.unparse(inner))
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
                return lambda machine: _operand(parts, every, machine)
            case _:
                raise self._fault(f"`{self.text[:60]}`: `{ast.unparse(node)[:40]}` has no meaning here")


def _operand(parts: Sequence[_Value], conjunction: bool, machine: Any) -> Any:
    """The value of the first operand that decides, else that of the last one, as Python gives it."""
    found: Any = conjunction
    for part in parts:
        found = part(machine)
        if bool(found) is not conjunction:
            break
    return found


def _both(apply: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    return lambda machine: apply(left(machine), right(machine))
