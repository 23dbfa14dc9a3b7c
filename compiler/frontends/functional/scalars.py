"""Operations on numbers, by the arithmetic of the language: inference has their types from it, and the lowering their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from retrograd.compiler.frontends.constants import Constants, Place
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.ir.expressions import Vanishing
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.values import Value
from retrograd.isa.diagnostics import CompileError, Diagnostic


def fail(code: str, message: str, at: core.Place, hint: str | None = None) -> NoReturn:
    """Raise a CompileError that points at a place."""
    raise CompileError(Diagnostic(code, message, at.span, hint, at.text))


def scalar_operation(
    a: Arithmetic, e: core.Operation, values: Sequence[Value], constants: Constants | None = None
) -> Value:
    """The operation on scalars. `constants`: those of the program, if it is lowered. Raises CompileError."""
    op = e.op

    def made() -> Value:
        if op in ("int", "fixed", "bool"):
            return a.conversion(Kind(op), values[0])
        if op == "not":
            return a.unary(op, values[0])
        if not op[0].isalpha():
            return a.unary(op, values[0]) if len(values) == 1 else a.binary(op, values[0], values[1])
        return a.function(op, values)

    return guarded(e.at, made, constants)


def guarded(at: core.Place, made: Callable[[], Value], constants: Constants | None = None) -> Value:
    """The result; an operation that the operands make impossible is reported at the expression."""
    try:
        return made() if constants is None else constants.at(lambda _: Place(at.span, at.library), made)
    except Vanishing as error:
        fail("RG0730", f"{error}", at, error.hint)
    except TypeError as error:
        message, _, hint = str(error).partition("; ")
        fail("RG0703", message, at, hint or None)
    except ZeroDivisionError:
        fail("RG0714", "a division by zero", at)
    except (OverflowError, ValueError) as error:
        fail("RG0714", f"{error}", at)
