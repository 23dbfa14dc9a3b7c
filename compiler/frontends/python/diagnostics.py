"""Diagnostics at a place of the source: exceptions of operators and of pure functions become a CompileError with span and caret."""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from retrograd.compiler.frontends.constants import Constants, Place
from retrograd.compiler.frontends.python.source import Source
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Vanishing
from retrograd.compiler.language.arithmetic import NegativePower, ShapeMismatch
from retrograd.compiler.language.purity import Impure
from retrograd.compiler.language.types import TooLarge
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span

T = TypeVar("T")


class Errors:
    """Raises the errors of one source file. `constants`: those of the program, which have their places by `guarded`."""

    def __init__(self, source: Source, constants: Constants | None = None) -> None:
        self._source, self._constants = source, constants
        self.span = source.span

    def fail(self, code: str, message: str, where: ast.AST | Span, hint: str | None = None) -> NoReturn:
        """Raise a CompileError that points at a piece of syntax."""
        span = where if isinstance(where, Span) else self.span(where)
        raise CompileError(Diagnostic(code, message, span, hint, self._source.text(span.line)))

    def guarded(self, node: ast.AST, function: Callable[..., T], *args: Any) -> T:
        """function(*args); an exception that the operands cause is reported at `node`."""
        try:
            if self._constants is None:
                return function(*args)
            return self._constants.at(
                lambda value: Place(self.span(_literal(node, value)), self._source.library), function, *args
            )
        except ShapeMismatch as error:
            self.fail("RG0712", f"the shapes {error} do not broadcast", node)
        except TypeError as error:
            message, _, hint = str(error).partition("; ")
            own = shortened(node) if isinstance(node, ast.expr) else "x"
            self.fail("RG0703", message, node, hint.replace("(x)", f"({own})") or None)
        except Impure as error:
            self.fail("RG0721", str(error), node)
        except ZeroDivisionError:
            self.fail("RG0714", f"`{shortened(node)}` divides by zero", node, "Divide by another number.")
        except TooLarge as error:
            self.fail("RG0723", f"{error}", node)
        except NegativePower as error:
            self.fail("RG0810", f"{error}", node)
        except Vanishing as error:
            self.fail("RG0730", f"{error}", _literal(node, error.value), error.hint)
        except (OverflowError, ValueError) as error:
            message, _, hint = str(error).partition("; ")
            self.fail("RG0714", message, node, hint.replace("(x)", f"({shortened(node)})") or None)


def _literal(node: ast.AST, value: Fraction | None) -> ast.AST:
    """The number in a piece of syntax, where it is written there; else the whole piece."""
    size = None if value is None else abs(value)
    return next((n for n in ast.walk(node) if isinstance(n, ast.Constant) and n.value == size), node)
