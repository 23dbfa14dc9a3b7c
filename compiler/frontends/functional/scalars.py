"""Operations on numbers, by the arithmetic of the language: inference has their types from it, and the lowering their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from retrograd.compiler.frontends.constants import Constants, Place
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.ir.expressions import Vanishing
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import Arithmetic, on_constants
from retrograd.compiler.language.intrinsics import HOSTS, Host
from retrograd.compiler.language.values import Constant, Scalar, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic
from retrograd.isa.words import Q32_32

_CONVERSIONS = ("int", "fixed", "bool")
#: operations on constants need no format
_EXACT = Arithmetic(Q32_32)


def fail(code: str, message: str, at: core.Place, hint: str | None = None) -> NoReturn:
    """Raise a CompileError that points at a place."""
    raise CompileError(Diagnostic(code, message, at.span, hint, at.text))


def scalar_operation(
    a: Arithmetic, e: core.Operation, values: Sequence[Value], constants: Constants | None = None
) -> Scalar:
    """The operation on scalars. `constants`: those of the program, if it is lowered. Raises CompileError."""
    found = guarded(e.at, lambda: Scalar(a.expression(_operation(a, e.op, values))), constants)
    assert isinstance(found, Scalar)
    return found


def on_numbers(op: str, args: Sequence[core.Core]) -> int | float | None:
    """The value of the operation on constants, as Python computes it; None for other operands, and where it has no value."""
    defined = not op[0].isalpha() or op in (*HOSTS, *_CONVERSIONS, "not")
    return _known(lambda values: _operation(_EXACT, op, values), args) if defined else None


def computed(host: Host, args: Sequence[core.Core]) -> int | float | None:
    """The value of a function with a host for constants; None for other operands, and where it has no value."""
    return _known(lambda values: on_constants(host, values), args)


def _known(made: Callable[[list[Constant]], Value], args: Sequence[core.Core]) -> int | float | None:
    known = [Constant(x.value) for x in args if isinstance(x, core.Number)]
    if len(known) < len(args):
        return None
    try:
        found = made(known)
    except (ArithmeticError, TypeError, ValueError):
        return None  # an error where the expression is reached
    value = found.value if isinstance(found, Constant) else None
    return value if isinstance(value, int | float) else None


def _operation(a: Arithmetic, op: str, values: Sequence[Value]) -> Value:
    if op in _CONVERSIONS:
        return a.conversion(Kind(op), values[0])
    if op == "not":
        return a.unary(op, values[0])
    if not op[0].isalpha():
        return a.unary(op, values[0]) if len(values) == 1 else a.binary(op, values[0], values[1])
    return a.function(op, values)


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
