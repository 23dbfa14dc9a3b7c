"""Types of derivatives: those of `grad(f)(x)`, `vjp`, `jvp`, `hessian`, and the functions in core that the last two are.

jvp(f)(x, v)  =  the transpose of the transpose, v ↦ ∂⟨vjp(f)(x, u), v⟩/∂u        hessian(f)(x)  =  vjp(grad(f))(x, e) for each unit vector e
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol

from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.structures import (
    NoCotangent,
    Structures,
    both,
    cotangent,
    has_cells,
    parts,
)
from retrograd.compiler.frontends.functional.types import (
    FIXED,
    INT,
    NOTHING,
    Closure,
    Data,
    Derivative,
    Function,
    Key,
    List,
    Mismatch,
    Nothing,
    Tuple,
    Type,
    join,
    named,
)


class Analysis(Protocol):
    """The inference of a program (inference.py)."""

    structures: Structures
    #: the place of the call that is being analysed
    at: core.Place

    def fail(self, code: str, message: str, at: core.Place, hint: str | None = None) -> NoReturn: ...

    def result(self, key: Key) -> Type: ...

    def apply(self, f: Type, args: tuple[Type, ...], at: core.Place) -> Type: ...


class DerivativeTypes:
    """The types of derivatives in one program."""

    def __init__(self, inference: Analysis) -> None:
        self._inference = inference
        #: form of a value -> the function for forward mode, and for second derivatives
        self._forward: dict[Type, core.Lambda] = {}
        self._second: dict[Type, core.Lambda] = {}

    def operator(self, code: core.Operator, args: tuple[Type, ...], at: core.Place) -> Type:
        if len(args) != 1 or not isinstance(args[0], Function):
            self._inference.fail(
                "RG0715", f"`{code.name}` takes one function", at, f"`{code.name}(f)(x)` is its derivative at x."
            )
        return Function((Closure(Derivative(code.name), args),))

    def derivative(self, code: Derivative, f: Type, args: tuple[Type, ...]) -> Type:
        at = self._inference.at
        if code.mode == "hessian":
            return self._inference.result(self.second_key(f, args))
        given = args[:-1] if code.mode != "grad" else args
        if code.mode != "grad" and len(args) != 2:
            hint = f"f has one argument, which may be a tuple: `{code.mode}(f)((x, y), direction)`."
            self._inference.fail("RG0715", f"`{code.mode}(f)` takes a value and a direction", at, hint)
        if not given:
            self._inference.fail(
                "RG0715", f"`{code.mode}(f)` of a function without arguments", at, "Differentiate by an argument."
            )
        value = self._inference.apply(f, given, at)
        if isinstance(value, Nothing):
            return NOTHING
        if code.mode == "jvp" and has_cells((value, *args)):
            return self._inference.result(self.forward_key(f, value, args))
        if code.mode == "grad":
            if value not in (FIXED, INT):
                message = f"`grad` needs a function whose value is one number, and this one gives {named(value)}"
                hint = "`vjp(f)(x, direction)` takes any value."
                if isinstance(value, Function):
                    hint = "The derivative as a function is `lambda y: grad(lambda x: f(x)(y))(x)`."
                self._inference.fail("RG0715", message, at, hint)
            found = tuple(self.cotangent(t, at) for t in given)
            self._copies(given, at)
            return found[0] if len(found) == 1 else Tuple(found)
        forms = self.cotangent(given[0], at), self.cotangent(value, at)
        direction = self.direction(args[1], forms[code.mode == "vjp"])
        if direction is None:
            of = f"gives {named(value)}" if code.mode == "vjp" else f"is given {named(given[0])}"
            message = f"`{code.mode}` of a function that {of} takes a direction of that form, not {named(args[1])}"
            self._inference.fail("RG0703", message, at)
        if code.mode == "jvp":
            return forms[1]
        self.structural("dot", (value, direction), at)
        self._copies(given, at)
        return forms[0]

    def direction(self, given: Type, form: Type) -> Type | None:
        """The type to which a direction is converted, for a value whose cotangents have this form; None where it does not fit."""
        try:
            found = join(form, given)
        except Mismatch:
            return None
        return found if found == form or "nothing" in str(form) else None

    def _copies(self, given: Sequence[Type], at: core.Place) -> None:
        """A derivative by lists is taken at a copy of them."""
        if has_cells(given):
            for t in given:
                self.structural("copy", (t, INT), at)

    def structural(self, op: str, types: tuple[Type, ...], at: core.Place) -> Type:
        """The type of a function of values of any form."""
        t = types[0]
        if op == "zero":
            self.structural("copy", (t, INT), at)
            return self.cotangent(t, at)
        self._inference.at = at
        if isinstance(t, Data) or (isinstance(t, List) and not isinstance(t.item, Nothing)):
            self._inference.result((self._inference.structures.code(op, t, at), (), types))
        if op == "dot":
            for _, inside, other in both(t, types[1]):
                self.structural(op, (inside, other), at)
            return FIXED
        for _, inside in parts(t):
            self.structural(op, (inside, INT), at)
        return t

    def forward_key(self, f: Type, value: Type, args: tuple[Type, ...]) -> Key:
        """jvp(f)(x, v) as a function of (f, x, v): the transpose of the transpose, v ↦ ∂⟨vjp(f)(x, u), v⟩/∂u."""
        shape = self.cotangent(value, self._inference.at)
        code = self._forward.get(shape)
        if code is None:
            function, x, v, u = (core.Binding(name, self._inference.at) for name in ("f", "x", "v", "u"))
            at = self._inference.at
            back = core.Operator("vjp", at)
            of_u = core.Apply(core.Apply(back, (core.Ref(function, at),), at), (core.Ref(x, at), core.Ref(u, at)), at)
            transposed = core.Apply(back, (core.Lambda("vjp", (u,), of_u, at),), at)
            zero = core.Structural("zero", (core.Apply(core.Ref(function, at), (core.Ref(x, at),), at),), at)
            start = zero if has_cells((shape,)) else _zero(shape, at)
            body = core.Apply(transposed, (start, core.Ref(v, at)), at)
            code = self._forward[shape] = core.Lambda("jvp", (function, x, v), body, at)
        return code, (), (f, *args)

    def second_key(self, f: Type, args: tuple[Type, ...]) -> Key:
        """hessian(f)(x) as a function of (f, x): the tuple of vjp(grad(f))(x, e) for each unit vector e, and grad(grad(f))(x) of a number x."""
        at = self._inference.at
        shape = self.cotangent(args[0], at) if len(args) == 1 else NOTHING
        items = shape.items if isinstance(shape, Tuple) else (shape,)
        if any(t != FIXED for t in items):
            hint = "`grad` of `grad` gives second derivatives by other values."
            self._inference.fail("RG0715", "`hessian(f)` is taken at one number, or at one tuple of numbers", at, hint)
        code = self._second.get(shape)
        if code is None:
            function, x = (core.Binding(name, at) for name in ("f", "x"))
            slope = core.Apply(core.Operator("grad", at), (core.Ref(function, at),), at)
            back = core.Apply(core.Operator("vjp", at), (slope,), at)

            def row(k: int) -> core.Core:
                unit = tuple(core.Number(float(i == k), at) for i in range(len(items)))
                given = core.Record(unit, at) if isinstance(shape, Tuple) else unit[0]
                return core.Apply(back, (core.Ref(x, at), given), at)

            rows = tuple(row(k) for k in range(len(items)))
            body = core.Record(rows, at) if isinstance(shape, Tuple) else rows[0]
            code = self._second[shape] = core.Lambda("hessian", (function, x), body, at)
        return code, (), (f, *args)

    def cotangent(self, t: Type, at: core.Place) -> Type:
        """The type of the derivative by a value of a type."""
        try:
            return cotangent(t)
        except NoCotangent as error:
            hint = "Differentiate by numbers, and by tuples, lists, data classes and functions that hold numbers."
            self._inference.fail("RG0715", f"a derivative by {named(error.type)}", at, hint)


def _zero(t: Type, at: core.Place) -> core.Core:
    """Zeros of the form of a type."""
    return core.Record(tuple(_zero(i, at) for i in t.items), at) if isinstance(t, Tuple) else core.Number(0.0, at)
