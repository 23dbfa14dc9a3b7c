"""What every step of reading an expression needs: names, errors, constants, conversions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
from retrograd.compiler.frontends.python.sources.captures import Captures
from retrograd.compiler.frontends.python.sources.pure import Impure, need_operators, need_plain
from retrograd.compiler.frontends.python.sources.source import SourceFunction, fail
from retrograd.compiler.ir.expressions import E, Ranges
from retrograd.compiler.ir.statements import Kind, Region
from retrograd.compiler.language.arithmetic import Arithmetic, NegativePower, ShapeMismatch, broadcast, number_kind
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.sizes import TooLarge
from retrograd.compiler.language.types import struct_of
from retrograd.compiler.language.values import Constant, FunctionValue, StructValue, Value, describe
from retrograd.isa.diagnostics import Span
from retrograd.isa.words import Format

INT, FIXED, BOOL = Kind.INT, Kind.FIXED, Kind.BOOL


class Operands:
    """Values of expressions in one function; `names` are its local ones.

    `captures` records what they mean in Python; `constant_region(words, name)` gives the memory where a constant array lies.
    """

    def __init__(
        self,
        function: SourceFunction,
        w: Format,
        captures: Captures,
        constant_region: Callable[[tuple[int, ...], str], Region],
    ) -> None:
        self.function = function
        self.captures = captures
        self.source = function.source
        self.w = w
        self.arithmetic = Arithmetic(w)
        self.names: dict[str, Value] = {}
        #: names that were freed, and where: for messages
        self.freed: dict[str, Span] = {}
        self.ranges = Ranges()
        self._constant_region = constant_region

    def fail(self, code: str, message: str, node: ast.AST, hint: str | None = None) -> NoReturn:
        fail(code, message, self.source, node, hint)

    def guarded(self, node: ast.AST, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args), what is wrong with the operands reported at `node`."""
        try:
            return function(*args)
        except ShapeMismatch as error:
            self.fail("RG0712", f"the shapes {error} do not broadcast", node)
        except TypeError as error:
            message, _, hint = str(error).partition("; ")
            own = shortened(node) if isinstance(node, ast.expr) else "x"
            self.fail("RG0703", message, node, hint.replace("(x)", f"({own})") or None)
        except Impure as error:
            self.refuse_impure(error, node)
        except ZeroDivisionError:
            self.fail("RG0714", f"`{shortened(node)}` divides by zero", node, "Divide by another number.")
        except TooLarge as error:
            self.fail("RG0723", f"{error}", node)
        except NegativePower as error:
            self.fail("RG0810", f"{error}", node)
        except (OverflowError, ValueError) as error:
            self.fail("RG0714", f"{error}", node)

    def refuse_impure(self, error: Impure, node: ast.AST) -> NoReturn:
        """Raise RG0721: Python code would run while the function is compiled, and its result be part of the program."""
        self.fail("RG0721", str(error), node)

    def _value(self, node: ast.AST, function: Callable[..., Value], *args: Any) -> Value:
        result: Value = self.guarded(node, function, *args)
        return result

    def scalar(self, node: ast.expr, kind: Kind | None = None) -> E:
        """The expression of a scalar, converted to `kind` if one is given."""
        value = self.value(node)
        e: E = self.guarded(node, self.arithmetic.expression, value, kind)
        return e

    def condition(self, node: ast.expr) -> E:
        """The expression of a condition."""
        e: E = self.guarded(node, self.arithmetic.truth, self.value(node))
        return e

    def decided(self, c: Constant, node: ast.expr) -> bool:
        """Whether a constant counts as true."""
        try:
            need_operators(c.value)
            return bool(c.value)
        except Impure as error:
            self.refuse_impure(error, node)
        except (TypeError, ValueError):
            self.fail("RG0703", f"{describe(c)} is neither true nor false", node)

    def static(self, node: ast.expr, what: str) -> Any:
        """The Python value of an expression that must be known now."""
        value = self.value(node)
        if not isinstance(value, Constant):
            self.fail(
                "RG0717",
                f"{what} must be known when the program is compiled; `{shortened(node)}` is {describe(value)}",
                node,
            )
        self.guarded(node, need_operators, value.value)
        return value.value

    def static_int(self, node: ast.expr, what: str) -> int:
        found = self.static(node, what)
        if number_kind(found) is not INT:
            self.fail("RG0703", f"{what} is an integer, not {found!r}", node)
        return int(found)

    def wrap(self, found: Any) -> Value:
        """A Python object from around the function."""
        if isinstance(found, SourceFunction):
            return FunctionValue(found)
        # Asked of the class: an object of a user's class may run code to answer.
        if getattr(type(found), "__retrograd_inverse__", False):
            return FunctionValue(found.__retrograd_inverse_of__, backward=True)
        if struct_of(type(found)) is not None:
            t = struct_of(type(found))
            assert t is not None
            return StructValue(t, {name: self.wrap(getattr(found, name)) for name, _ in t.fields})
        return Constant(found)

    def _numbers(self, array: Any, node: ast.AST) -> np.ndarray[Any, Any]:
        """A constant as an array of numbers."""
        self.guarded(node, need_plain, array)
        try:
            values = np.asarray(array)
        except ValueError:
            self.fail(
                "RG0703",
                f"the rows of {describe(Constant(array))} have different lengths",
                node,
                "Make the rows equally long.",
            )
        if values.dtype.kind not in "iufb":
            self.fail("RG0703", f"a constant array holds numbers, and {describe(Constant(array))} does not", node)
        return values

    def broadcast(self, node: ast.AST, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        found: tuple[int, ...] = self.guarded(node, broadcast, shapes)
        return found

    def value(self, node: ast.expr) -> Value:
        """What an expression stands for."""
        raise NotImplementedError
