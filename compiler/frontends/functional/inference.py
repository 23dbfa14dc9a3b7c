"""Types of derivatives: those of `grad(f)(x)`, `vjp`, `jvp`, `hessian`, and the functions in core that the last two are.

jvp(f)(x, v)  =  the transpose of the transpose, v ↦ ∂⟨vjp(f)(x, u), v⟩/∂u        hessian(f)(x)  =  vjp(grad(f))(x, e) for each unit vector e
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol

from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.frontends.functional import core
from retrograd.compiler.frontends.functional.arrays import ArrayTypes, Zeros, attribute, type_in_memory
from retrograd.compiler.frontends.functional.control_flow import CURSOR, taken_apart
from retrograd.compiler.frontends.functional.core import fail, operated, scalar_operation, with_literals
from retrograd.compiler.frontends.functional.numpy_functions import index_of, indexed_type
from retrograd.compiler.frontends.functional.types import (
    BOOL,
    FIXED,
    INT,
    NOTHING,
    UINT,
    Array,
    Closure,
    Data,
    Derivative,
    Exact,
    Function,
    Key,
    Known,
    List,
    Mismatch,
    NoCotangent,
    Nothing,
    Structures,
    Tuple,
    Type,
    Word,
    arrays,
    at_numbers,
    both,
    constructed,
    cotangent,
    extent,
    field_types,
    fields_of,
    forgotten,
    has_cells,
    has_names,
    is_empty,
    is_unsigned,
    join,
    named,
    names_of,
    of_arrays,
    parts,
    record_fields,
    record_form,
)
from retrograd.compiler.ir.expressions import read
from retrograd.compiler.ir.statements import Kind, Var
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.intrinsics import NoForm
from retrograd.compiler.language.values import Constant, Scalar
from retrograd.compiler.language.values import Value as Operand
from retrograd.isa.diagnostics import Span, nearest
from retrograd.isa.words import Format


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
        held = next((t for t in (*args, value) if arrays(t)), None)
        if held is not None and has_cells((*args, value) if code.mode == "jvp" else args):
            hint = "Take the derivative by each of them: `grad(lambda x: f(x, items))(x)`."
            self._inference.fail("RG0715", f"a derivative by {named(held)} beside a list or a data class", at, hint)
        if code.mode == "jvp" and has_cells((value, *args)):
            return self._inference.result(self.forward_key(f, value, args))
        if code.mode == "grad":
            if value not in (FIXED, INT, UINT):
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
            return forms[1] if held is None else self._inference.result(self.forward_key(f, value, args))
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
            if arrays(shape):
                hint = "`vjp(grad(f))(x, v)` is its product with v, and from Python `rg.hessian(f)` takes arrays."
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
            hint = (
                "Differentiate by numbers, arrays, and by tuples, lists, data classes and functions that hold numbers."
            )
            self._inference.fail("RG0715", f"a derivative by {named(error.type)}", at, hint)


def _zero(t: Type, at: core.Place) -> core.Core:
    """Zeros of the form of a type."""
    if isinstance(t, Tuple):
        return core.Record(tuple(_zero(i, at) for i in t.items), at, t.form)
    return core.Primitive(Zeros(t), (), at) if isinstance(t, Array) else core.Number(0.0, at)


# -----------------------------------------------------------------------------
# Type inference by abstract interpretation: each function is analysed once for each combination of types that it is called with.
#
#     result(f, types of the captured values, types of its arguments)  =  the type of its body, by iteration to the least fixed point
#
# Recursive calls begin with the type of nothing, and all results are computed again until none changes. So functions are polymorphic in
# their arguments without declarations, and the functions that a value may be are known at each call.
# Trap: types that grow without end (a function that captures itself at each level of a recursion) are refused, RG0719.

Define = Callable[[Any], core.Lambda]
Types = Mapping[core.Binding, Type]

#: versions of functions that a program may have, how deep their types may be nested, and how many types are in one
_MOST, _DEEPEST, _LARGEST = 4000, 32, 1 << 14

#: numbers at one place in the arguments of a function, versions of it that differ by numbers, and the largest of these
#: numbers
_MOST_EXACT, _MOST_VERSIONS, _LARGEST_EXACT = 64, 1024, 1 << 20

#: why derivatives of every order are refused
ORDERS = "Each order of derivative is a program of its own, so the number of orders is bounded by the text."

#: how operations reach the numbers inside of values
_PARTS: dict[type[Any], str] = {
    Array: "`sum(f(v[i]) for i in range(len(v)))` goes over its elements; operators and `rg` functions take it whole.",
    List: "A function that calls itself takes the list apart: `match items:` with the cases `[]` and `[first, *rest]`.",
    Tuple: "Write the operation for the items: `a, b = pair` gives them names.",
    Data: "`match` gives the fields of a value their names.",
    Function: "Call the function: `f(x)` is its value.",
}

#: a place in types: numbers of parts, from outside to inside
Path = tuple[int, ...]


class Numbers(dict[Any, dict[Path, set[int] | None]]):
    """The known numbers of a program: function -> place in its arguments -> the numbers there, None if they are forgotten.

    A further analysis of the program that is given them has no number to forget anew.
    """


class _Widened(Exception):
    """The analysis begins again: numbers at one more place are forgotten."""


#: the place of the entry
NOWHERE = core.Place(Span("", 1, 1, 2), "")


class Inference:
    """The results of all functions of a program.

    `define`: a functional function -> its definition. `constants`: of the program.

    `exact`: if given, whole numbers have types of their own, so a condition on them is known when a program is
    compiled. A number at one place in the arguments of a function that has more than _MOST_EXACT values there is
    forgotten in all versions of the function (`_widen`): so a recursion over a number has one version for all numbers.
    """

    def __init__(
        self, w: Format, define: Define, constants: Constants | None = None, exact: Numbers | None = None
    ) -> None:
        self.w = w
        self.exact = exact is not None
        self._numbers = Numbers() if exact is None else exact
        #: version as called -> version that the call uses
        self._settled: dict[Key, Key] = {}
        #: whether functions may be active more than once, as far as it was asked
        self._recursive: dict[Key, bool] = {}
        #: function and the types of its arguments without numbers -> its versions
        self._exact_versions: dict[Key, set[Key]] = {}
        self._define = define
        self._definitions: dict[int, core.Lambda] = {}
        self.constants = constants
        own = () if constants is None else (constants.number, constants.scales, constants.factor)
        self.arithmetic = Arithmetic(w, *own)
        self.results: dict[Key, Type] = {}
        #: function -> the functions that it calls
        self.calls: dict[Key, set[Key]] = {}
        self._callers: list[Key] = []
        #: the calls that are being analysed, the innermost last
        self.sites: list[core.Place] = []
        self._visited: set[Key] = set()
        self._changed = False
        #: the place of the call that is being analysed
        self.at: core.Place = NOWHERE
        #: the derivatives, and where each is first taken
        self._derivatives: dict[Key, core.Place] = {}
        self._conversions: dict[Type, core.Lambda] = {}
        #: (operation, types of its operands) -> the type of its value
        self._operations: dict[Any, Word] = {}
        #: form of a record -> the class of which the program makes it
        self.classes: dict[str, type] = {}
        self.structures = Structures()
        self.derivatives = DerivativeTypes(self)
        self.arrays = ArrayTypes(self.arithmetic)

    def fail(self, code: str, message: str, at: core.Place, hint: str | None = None) -> NoReturn:
        """Raise a CompileError that points at a place."""
        fail(code, message, at, hint)

    def definition(self, function: Any, at: core.Place | None = None) -> core.Lambda:
        """The definition of a functional function in the format, read once. `at`: the place that names it. Raises CompileError."""
        found = self._definitions.get(id(function))
        if found is None:
            try:
                form = function.in_format(self.w) if hasattr(function, "in_format") else function
            except NoForm as error:
                self.fail("RG0714", str(error), at or self._define(function).at, error.hint)
            found = self._definitions[id(function)] = self._define(form)
            if getattr(function, "host", None) is not None:
                found.hosted = function
        return found

    def solve(self, key: Key) -> Type:
        """The type of a function's result. Raises CompileError."""
        while True:
            self._visited.clear()
            self._changed = False
            try:
                found = self.result(key)
            except _Widened:
                self._begin_again()
                continue
            if not self._changed:
                break
        for known, t in self.results.items():
            code, captured, args = known
            if t != NOTHING or known not in self._visited or any(map(is_empty, (*captured, *args))):
                continue
            if isinstance(code, core.Lambda) and self.is_recursive(known):
                hint = "One path gives a value without a call of the function itself."
                self.fail("RG0719", f"`{code.name}` calls itself on every path", code.at, hint)
        for derivative, at in self._derivatives.items():
            if self.is_recursive(derivative):
                self.fail(
                    "RG0719",
                    f"this `{derivative[0].name}` computes itself inside, at a higher order each time",
                    at,
                    ORDERS,
                )
        return found

    # ------------------------------------------------------------------ functions

    def settled(self, key: Key) -> Key:
        """The version of a function that a call uses."""
        if not self.exact or isinstance(key[0], Derivative):
            return key
        kept = self._settled.get(key)
        if kept is None:
            kept = self._settled[key] = self._version(key)
        return kept

    def _version(self, key: Key) -> Key:
        code, captured, args = key
        places = self._numbers.setdefault(code, {})
        known: dict[Path, int] = {}

        def kept(path: Path, t: Exact) -> Type:
            if places.setdefault(path, set()) is None:
                return forgotten(t)
            known[path] = t.value
            return t

        types = tuple(at_numbers(t, kept, (i,)) for i, t in enumerate((*captured, *args)))
        found = code, types[: len(captured)], types[len(captured) :]
        plain = code, tuple(map(forgotten, captured)), tuple(map(forgotten, args))
        versions = self._exact_versions.setdefault(plain, set())
        if known and found not in versions:
            versions.add(found)
            self._widen(code, known, len(versions))
        return found

    def _widen(self, code: Any, known: Mapping[Path, int], versions: int) -> None:
        """Enter the known numbers of a new version.

        Of too many, those at one place are forgotten, and the analysis begins again.
        """
        places = self._numbers[code]
        for path, value in known.items():
            values = places[path]
            assert values is not None
            values.add(value)
        most = max(known, key=lambda path: len(places[path] or ()))
        if versions > _MOST_VERSIONS or len(places[most] or ()) > _MOST_EXACT:
            places[most] = None
            raise _Widened

    def _begin_again(self) -> None:
        """Forget all results, which hold versions for numbers that are forgotten now."""
        for table in (
            self.results,
            self.calls,
            self._derivatives,
            self._exact_versions,
            self._settled,
            self._recursive,
        ):
            table.clear()
        self._callers.clear()
        self.sites.clear()
        for places in self._numbers.values():
            for path in [path for path, values in places.items() if values is not None]:
                del places[path]

    def number(self, value: float) -> Type:
        """The type of a real number that is written, or computed from written ones."""
        whole = self.exact and abs(value) <= _LARGEST_EXACT and value == int(value)
        return Exact(int(value)) if whole else FIXED

    def result(self, key: Key) -> Type:
        """The result as far as it is known; the function is analysed if this round has not done so."""
        key = self.settled(key)
        if self._callers:
            called = self.calls[self._callers[-1]]
            if key not in called:
                called.add(key)
                self._recursive.clear()
        if key in self._visited:
            return self.results[key]
        code, captured, args = key
        extents = [extent(t) for t in (*captured, *args)]
        if len(self.results) > _MOST or any(deep > _DEEPEST or n > _LARGEST for deep, n in extents):
            hint = "A function value may not hold a version of itself; pass it as an argument."
            self.fail("RG0719", f"the types of `{code.name}` grow without end", self.at, hint)
        self._visited.add(key)
        self.results.setdefault(key, NOTHING)
        self.calls.setdefault(key, set())
        self._callers.append(key)
        self.sites.append(self.at)
        if isinstance(code, Derivative):
            self._derivatives.setdefault(key, self.at)
            found = self.derivatives.derivative(code, captured[0], args)
        else:
            env = dict(zip(code.free, captured, strict=True)) | dict(zip(code.params, args, strict=True))
            env |= {b: Function((Closure(f, captured),)) for b, f in code.group}
            if code.declared:
                self._declared(code, args, self.at)
            found = self.type_of(code.body, env)
            if code.declared:
                self._declared(code, (*(NOTHING,) * len(args), found), code.at)
        self._callers.pop()
        self.sites.pop()
        joined = self._join(self.results[key], found, self.at)
        if joined != self.results[key]:
            self.results[key] = joined
            self._changed = True
        return joined

    def _declared(self, code: core.Lambda, types: Sequence[Type], at: core.Place) -> None:
        """Refuse a uint where another number is declared, and another number where a uint is: their order differs."""
        for k, (t, wanted) in enumerate(zip(types, code.declared, strict=False)):
            other = None if wanted is None or t == wanted else _other_order(t, wanted)
            if other is not None:
                name = f"`{code.params[k].name}`" if k < len(code.params) else "the result"
                message = f"{name} of `{code.name}` is declared as {named(other[1])}, and is {named(other[0])}"
                self.fail("RG0703", message, at, _CONVERSIONS[other])

    def is_recursive(self, key: Key) -> bool:
        """Whether the function may be active more than once."""
        found = self._recursive.get(key)
        if found is None:
            found = self._recursive[key] = self.reaches(key, key)
        return found

    def reaches(self, key: Key, wanted: Key) -> bool:
        """Whether a call of a function may lead to a call of another one."""
        reached: set[Key] = set()
        todo = list(self.calls.get(key, ()))
        while todo:
            other = todo.pop()
            if other == wanted:
                return True
            if other not in reached:
                reached.add(other)
                todo += self.calls.get(other, ())
        return False

    def apply(self, f: Type, args: tuple[Type, ...], at: core.Place) -> Type:
        """The type of a call."""
        if isinstance(f, Nothing) or any(isinstance(t, Nothing) for t in args):
            return NOTHING
        if not isinstance(f, Function):
            self.fail("RG0703", f"{named(f)} is called like a function", at, "Only functions are called.")
        out: Type = NOTHING
        for closure in f.alternatives:
            self.at = at
            code = closure.code
            if isinstance(code, core.Operator):
                found: Type = self.derivatives.operator(code, args, at)
            elif is_hosted(code, args):
                found = self.arrays.hosted(args, at)
            else:
                count = len(code.params) if isinstance(code, core.Lambda) else len(args)
                if count != len(args):
                    message = f"`{code.name}` takes {count} argument{'s' * (count != 1)}, and is given {len(args)}"
                    self.fail("RG0715", message, at)
                found = self.result((code, closure.captured, args))
            out = self._join(out, found, at)
        return out

    # ------------------------------------------------------------------ expressions

    def type_of(self, e: core.Core, env: Types) -> Type:
        """The type of an expression. Raises CompileError."""
        match e:
            case core.Number(value):
                return BOOL if isinstance(value, bool) else INT if isinstance(value, int) else self.number(value)
            case core.Ref(binding):
                return env[binding]
            case core.Lambda():
                return self.closure(e, env)
            case core.Global(function, at):
                return Function((Closure(self.definition(function, at)),))
            case core.Operator():
                return Function((Closure(e),))
            case core.Apply(f, args, at):
                return self.apply(self.type_of(f, env), tuple(self.type_of(a, env) for a in args), at)
            case core.Let(binding, value, body):
                return self.type_of(body, {**env, binding: self.type_of(value, env)})
            case core.LetRec(functions, body):
                return self.type_of(body, {**env, **{b: self.closure(f, env) for b, f in functions}})
            case core.Conditional(test, then, orelse, at):
                condition = self.type_of(test, env)
                if e.elementwise and isinstance(condition, Array):
                    return self._elementwise(
                        "select", [condition, self.type_of(then, env), self.type_of(orelse, env)], e
                    )
                if isinstance(condition, Known):
                    return self.type_of(then if condition.value else orelse, env)
                self.condition(condition, test.at)
                return self._join(self.type_of(then, env), self.type_of(orelse, env), at)
            case core.Operation():
                return self._operation(e, env)
            case core.Record(items):
                if e.cls is not None and self.classes.setdefault(e.form, e.cls) is not e.cls:
                    hint = "Give one of them another name."
                    self.fail("RG0703", f"two classes are called {e.form}, and have these fields", e.at, hint)
                return constructed(tuple(self.type_of(i, env) for i in items), e.form)
            case core.Primitive(rules, args, at):
                types = tuple(self.type_of(a, env) for a in args)
                made: Type = NOTHING if NOTHING in types else rules.type(self, types, at)
                return made
            case core.Item(value, index, at):
                return self._item(self.type_of(value, env), index, at)
            case core.Build():
                return self._build(e, env)
            case core.Cast(value, t, at):
                wanted: Type = t
                own = self.type_of(value, env)
                if is_unsigned(wanted) and not fits(own, wanted):
                    self.fail(
                        "RG0703",
                        f"this is {named(own)}, and {named(wanted)} is declared",
                        at,
                        _CONVERSIONS.get((own, wanted)),
                    )
                return wanted
            case core.Match():
                return self._match(e, env)
            case core.Field(value):
                t = self.type_of(value, env)
                return t if isinstance(t, Nothing) else self._field(e, t, env)
            case core.Element(array, indices, at):
                return self._element(self.type_of(array, env), indices, env, at)
            case core.Length(array, at):
                t = self.type_of(array, env)
                if not isinstance(t, Array | Tuple | Nothing):
                    self.fail("RG0703", f"{named(t)} has no length that is known", at)
                return INT
            case core.Total(index, start, stop, body, at):
                for bound in (start, stop):
                    if (own := self.type_of(bound, env)) not in (INT, NOTHING):
                        way = f"Write int(u) of a uint u below 2^{self.w.width - 1}." if own == UINT else None
                        self.fail("RG0703", "the bounds of a sum are ints", bound.at, way)
                t = self.type_of(body, {**env, index: INT})
                if not isinstance(t, Word | Nothing):
                    way = "Add arrays up in a loop, `y = y + …`." if isinstance(t, Array) else None
                    self.fail("RG0703", f"a sum of {t}s", at, way)
                return INT if t == BOOL else t
            case core.Forget(value, at):
                t = self.type_of(value, env)
                if arrays(t) and has_cells((t,)):
                    hint = "Give them from two blocks."
                    self.fail("RG0703", "a block that forgets gives an array beside a list or a data class", at, hint)
                return self.derivatives.structural("copy", (t, INT), at) if has_cells((t,)) else t
            case core.Structural(op, args, at):
                types = tuple(self.type_of(a, env) for a in args)
                return (
                    NOTHING
                    if any(isinstance(t, Nothing) for t in types)
                    else self.derivatives.structural(op, types, at)
                )
            case core.Refusal(code, message, hint, at):
                self.fail(code, message, at, hint)

    def closure(self, f: core.Lambda, env: Types) -> Function:
        return Function((Closure(f, tuple(env[b] for b in f.free)),))

    def condition(self, t: Type, at: core.Place) -> None:
        if not isinstance(t, Word | Nothing) or t == Word(Kind.LOGNUM):
            hint = "`rg.select(c, x, y)` chooses for each element." if isinstance(t, Array) else None
            self.fail("RG0703", f"{named(t)} is no condition", at, hint)

    def _join(self, x: Type, y: Type, at: core.Place, where: str = "by the branch that is taken") -> Type:
        try:
            return join(x, y)
        except Mismatch as error:
            hint = None
            if isinstance(x, List | Tuple) and isinstance(y, List | Tuple) and arrays(x) != arrays(y):
                hint = "A list of arrays has a known length: it is made of a tuple or a list of arrays."
            self.fail("RG0703", f"this is {error}, {where}", at, hint)

    def _operation(self, e: core.Operation, env: Types) -> Type:
        types = [self.type_of(a, env) for a in e.args]
        if any(isinstance(t, Nothing) for t in types):
            return NOTHING
        if e.op == "unpack":
            count = e.args[1].value if isinstance(e.args[1], core.Number) else 0
            t = types[0]
            held = len(t.items) if isinstance(t, Tuple) else t.shape[0] if isinstance(t, Array) else -1
            if held != count:
                self.fail("RG0715", f"{count} names for a {types[0]}", e.at)
            return INT
        if any(isinstance(t, Array) for t in types):
            return self._elementwise(e.op, types, e)
        for t in types:
            if not isinstance(t, Word):
                self.fail("RG0703", f"`{e.op}` is not defined for {named(t)}", e.at, _PARTS.get(type(t)))
        found = self._operations.get((e, *types))
        if found is None:
            operands = [Scalar(read(Var("x", t.kind))) for t in types if isinstance(t, Word)]
            made = scalar_operation(self.arithmetic, e, with_literals(e, operands, self.w))
            found = self._operations[(e, *types)] = Word(made.kind)
        return found

    def _elementwise(self, op: str, types: Sequence[Type], e: core.Operation | core.Conditional) -> Type:
        """The type of an operation some of whose operands are arrays."""
        if NOTHING in types:
            return NOTHING
        operands = e.args if isinstance(e, core.Operation) else ()
        numbers = {k: Constant(x.value) for k, x in enumerate(operands) if isinstance(x, core.Number)}

        def made(values: Sequence[Operand]) -> Operand:
            return operated(self.arithmetic, op, [numbers.get(k, v) for k, v in enumerate(values)])

        return self.arrays.operation(made, types, e.at)

    # ------------------------------------------------------------------ structures

    def _item(self, t: Type, index: int, at: core.Place) -> Type:
        if isinstance(t, Nothing):
            return t
        if isinstance(t, Array) and index < t.shape[0]:
            return self._element(t, (core.Number(index, at),), {}, at)
        if not isinstance(t, Tuple) or index >= len(t.items):
            self.fail("RG0715", f"{named(t)} has no item {index}", at)
        return t.items[index]

    def _build(self, e: core.Build, env: Types) -> Type:
        types = [self.type_of(a, env) for a in e.args]
        if e.cls is None and NOTHING in types[-1:]:
            return NOTHING
        if e.cls is None and (whole := of_arrays(types)) is not None:
            return whole
        held = next((t for t in types if arrays(t)), None)
        if held is not None:
            hint = "Arrays stand in tuples, in lists made of tuples, in dicts, and in classes that declare them."
            self.fail("RG0703", f"{named(held)} in a list or a data class", e.at, hint)
        if e.cls is not None:
            for t, wanted in zip(types, field_types(e.cls), strict=True):
                if not fits(t, wanted):
                    self.fail("RG0703", f"{named(t)} where `{e.cls.__name__}` has {named(wanted)}", e.at)
            return Data(frozenset((e.cls,)))
        if not types:
            return List(NOTHING)
        *items, tail = types
        if not isinstance(tail, List):
            self.fail("RG0703", f"a list goes on with {named(tail)}", e.at, "In `[first, *rest]`, `rest` is a list.")
        found = tail.item
        for t in items:
            found = self._join(found, t, e.at, "in one list")
        return List(found)

    def list_conversion(self, given: List, wanted: List) -> Key:
        """The function that copies a list as one of a wider type."""
        code = self._conversions.get(wanted)
        if code is None:
            at = self.at
            own, whole, head, tail = (core.Binding(name, at) for name in ("convert", "items", "item", "rest"))
            others = core.Apply(core.Ref(own, at), (core.Ref(tail, at),), at)
            longer = core.Build(None, (core.Cast(core.Ref(head, at), wanted.item, at), others), at)
            cases = core.Case(type(None), (), core.Build(None, (), at)), core.Case(list, (head, tail), longer)
            code = core.Lambda("convert", (whole,), core.Match(core.Ref(whole, at), cases, None, at), at)
            code.group = ((own, code),)
            self._conversions[wanted] = code
        key = code, (), (given,)
        if key not in self.results:
            self.solve(key)
        return key

    def _match(self, e: core.Match, env: Types) -> Type:
        t = self.type_of(e.subject, env)
        if isinstance(t, Nothing):
            return t
        if isinstance(t, Tuple) and (t.form in ("", CURSOR) or has_names(t)):
            return self.type_of(self.sequence(e, t), env)
        out: Type = NOTHING
        left: set[type] = set(t.classes) if isinstance(t, Data) else {list, type(None)}
        if not isinstance(t, Data | List):
            self.fail(
                "RG0703",
                f"`match` takes apart a data class or a list, not {named(t)}",
                e.at,
                _PARTS[Array] if isinstance(t, Array) else "`if` compares numbers.",
            )
        for case in e.cases:
            if isinstance(t, List) != (case.cls in (list, type(None))):
                self.fail("RG0703", f"a pattern of another type than {t}", e.at)
            left.discard(case.cls)
            fields: tuple[Type, ...]
            if case.cls is list:
                if isinstance(t, List) and isinstance(t.item, Nothing):
                    continue
                fields = t.item if isinstance(t, List) else NOTHING, t
            elif case.cls is type(None):
                fields = ()
            else:
                fields = field_types(case.cls)
            if isinstance(t, Data) and case.cls not in t.classes:
                continue
            out = self._join(out, self.type_of(case.body, {**env, **dict(zip(case.fields, fields, strict=True))}), e.at)
        if e.orelse is not None and left:
            out = self._join(out, self.type_of(e.orelse, env), e.at)
        elif left:
            names = ", ".join(sorted({list: "[x, *rest]", type(None): "[]"}.get(c, c.__name__) for c in left))
            self.fail("RG0703", f"no case for {names}", e.at, "Add the case, or `case _:`.")
        return out

    def sequence(self, e: core.Match, t: Tuple) -> core.Core:
        """`match` of a tuple by its first item and the rest. Raises CompileError."""
        if has_names(t):
            return self._object(e, t)
        if any(case.cls not in (list, type(None)) for case in e.cases):
            self.fail("RG0703", f"a pattern of another type than {named(t)}", e.at)
        found = taken_apart(e, t)
        if found is None:
            self.fail("RG0703", f"no case for {named(t)}", e.at, "Add the case, or `case _:`.")
        return found

    def _object(self, e: core.Match, t: Tuple) -> core.Core:
        """`match` of an object with arrays, whose class is known. Raises CompileError."""
        for case in e.cases:
            if record_form(case.cls.__name__, record_fields(case.cls) or ()) == t.form:
                whole, made = core.Binding("object", e.at), case.body
                for k, binding in reversed(list(enumerate(case.fields))):
                    made = core.Let(binding, core.Item(core.Ref(whole, e.at), k, e.at), made, e.at)
                return core.Let(whole, e.subject, made, e.at)
        if e.orelse is None:
            self.fail("RG0703", f"no case for {named(t)}", e.at, "Add the case, or `case _:`.")
        return e.orelse

    def _field(self, e: core.Field, t: Type, env: Types) -> Type:
        if isinstance(t, Array):
            return attribute(t, e.name, e.at)
        if isinstance(t, Tuple) and has_names(t):
            return t.items[self.place_of(e.name, t, e.at)]
        return self.type_of(self.selection(e, t), env)

    def place_of(self, name: str, t: Tuple, at: core.Place) -> int:
        """The position of an item that has a name. Raises CompileError."""
        names = names_of(t)
        if name not in names:
            hint = nearest(name, names) or f"Its items are {', '.join(names)}."
            self.fail("RG0702", f"{named(t)} has no item `{name}`", at, hint)
        return names.index(name)

    def selection(self, e: core.Field, t: Type) -> core.Match:
        """A field by the cases of the classes that its value may be of. Raises CompileError."""
        if not isinstance(t, Data):
            self.fail("RG0703", f"`{e.name}` of {named(t)}, which has no fields", e.at, _PARTS.get(type(t)))
        cases: list[core.Case] = []
        for cls in sorted(t.classes, key=lambda c: c.__name__):
            declared = list(fields_of(cls) or ())
            if e.name not in declared:
                hint = nearest(e.name, declared) if len(t.classes) == 1 else None
                self.fail(
                    "RG0715",
                    f"`{cls.__name__}` has no field `{e.name}`",
                    e.at,
                    hint or f"`match` tells apart what is {t}.",
                )
            fields = tuple(core.Binding(name, e.at) for name in declared)
            cases.append(core.Case(cls, fields, core.Ref(fields[declared.index(e.name)], e.at)))
        return core.Match(e.value, tuple(cases), None, e.at)

    def _element(self, t: Type, indices: Sequence[core.Core], env: Types, at: core.Place) -> Type:
        types = [self.type_of(i, env) for i in indices]
        if isinstance(t, Nothing) or any(isinstance(i, Nothing) for i in types):
            return NOTHING
        if isinstance(t, Tuple) and has_names(t) and isinstance(types[0], Known) and len(types) == 1:
            return t.items[self.place_of(str(types[0].value), t, at)]
        if isinstance(t, Tuple):
            number = indices[0].value if len(indices) == 1 and isinstance(indices[0], core.Number) else None
            if number is None and len(set(t.items)) == 1 and isinstance(t.items[0], Word) and len(indices) == 1:
                return t.items[0]
            if not isinstance(number, int) or not -len(t.items) <= number < len(t.items):
                self.fail("RG0713", f"{named(t)} has {len(t.items)} items, chosen by a constant", at)
            return t.items[number]
        if not isinstance(t, Array):
            self.fail("RG0703", f"{named(t)} has no elements", at, _PARTS.get(type(t)))
        if any(isinstance(i, Array) for i in types):
            return indexed_type(t, [index_of(e, i) for e, i in zip(indices, types, strict=True)], at)
        if len(indices) > len(t.shape) or any(i not in (INT, UINT) for i in types):
            count = len(t.shape)
            wrong = next((named(i) for i in types if i not in (INT, UINT)), "")
            hint = f"An index is an int or an array of ints, not {wrong}: round a number by `rg.floor(x)`."
            self.fail(
                "RG0703",
                f"an element of {named(t)} has {count} int{'s' * (count != 1)} as ind{'ices' if count != 1 else 'ex'}",
                at,
                hint if wrong else None,
            )
        k = len(indices)
        if k < len(t.shape):
            return Array(t.element, t.shape[k:], t.strides[k:])
        return type_in_memory(t.element, at)


def is_hosted(code: Any, args: Sequence[Type]) -> bool:
    """Whether a call is one of a function of the library for each element of an array."""
    return isinstance(code, core.Lambda) and code.hosted is not None and any(isinstance(t, Array) for t in args)


#: (own type, declared type) -> the way from one to the other, of which one is a uint
_CONVERSIONS: dict[tuple[Type, Type], str] = {
    (INT, UINT): "Write uint(n), the word of an int n as a uint.",
    (BOOL, UINT): "Write uint(b), which is 0 or 1.",
    (FIXED, UINT): "Write uint(rg.floor(x)).",
    (UINT, INT): "Write int(u), the word of a uint u as an int.",
    (UINT, FIXED): "Write fixed(u) of a uint u that is in the range of the format.",
    (UINT, BOOL): "Write bool(u), or compare the uint with a number.",
}


def _other_order(t: Type, wanted: Type) -> tuple[Type, Type] | None:
    """The first numbers in a value of a type and in its declaration of which exactly one is a uint."""
    match t, wanted:
        case Word(), Word():
            return (t, wanted) if (t, wanted) in _CONVERSIONS else None
        case Tuple(items), Tuple(others):
            pairs = [_other_order(i, o) for i, o in zip(items, others, strict=False)]
            return next((p for p in pairs if p is not None), None)
        case List(item), List(other):
            return _other_order(item, other)
    return None


def fits(t: Type, wanted: Type) -> bool:
    """Whether a value of a type can be converted to another."""
    try:
        return join(wanted, t) == wanted
    except Mismatch:
        return False
