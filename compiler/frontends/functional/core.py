"""Core of the functional language: call-by-value expressions with bindings instead of names.

    e ::= n | x | λx.e | e(e …) | let x = e in e | letrec f = λ … in e | if e then e else e | op(e …)
        | (e, …) | e.k | C(e …) | e.x | match x { C(x …) → e … } | a[e …] | Σ e over x

Both readers, of Python and of VLAD, produce it. A binding is an object, so two variables of one name are different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NoReturn, Protocol, get_args

from retrograd.compiler.frontends.constants import Constants
from retrograd.compiler.frontends.constants import Place as SourcePlace
from retrograd.compiler.ir.expressions import Vanishing
from retrograd.compiler.ir.statements import Kind
from retrograd.compiler.language.arithmetic import Arithmetic, on_constants
from retrograd.compiler.language.intrinsics import FUNCTIONS, Host
from retrograd.compiler.language.values import Constant, Scalar, Value
from retrograd.isa.diagnostics import CompileError, Diagnostic, hint_of
from retrograd.isa.words import Q32_32, Format

Place = SourcePlace


@dataclass(eq=False)
class Binding:
    """A variable that an expression binds."""

    name: str
    at: Place | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(eq=False, frozen=True)
class Number:
    """A constant: an int, a float or a bool."""

    value: Any
    at: Place


@dataclass(eq=False, frozen=True)
class Ref:
    binding: Binding
    at: Place


@dataclass(eq=False)
class Lambda:
    """A function. `group`: bindings of the letrec that it belongs to, itself among them. `versions`: functions that were made from it."""

    name: str
    params: tuple[Binding, ...]
    body: Core
    at: Place
    group: tuple[tuple[Binding, Lambda], ...] = ()
    #: the types that annotations give the parameters, where they name one
    declared: tuple[Any, ...] = ()
    versions: dict[str, Lambda] = field(default_factory=dict, repr=False)
    #: the function of the library that it defines, which takes arrays element by element
    hosted: Any = field(default=None, repr=False)

    @cached_property
    def free(self) -> tuple[Binding, ...]:
        """The variables that it captures; functions of one letrec capture the same."""
        first = self.group[0][1] if self.group else self
        if first is not self:
            # Each member would go through the text of all: the cost of a letrec would be the square of its size.
            return first.free
        own = {b for b, _ in self.group}
        found: dict[Binding, None] = {}
        for member in [f for _, f in self.group] or [self]:
            bound = own | set(member.params)
            found |= {b: None for b in free_bindings(member.body) if b not in bound}
        return tuple(found)

    @cached_property
    def size(self) -> int:
        """The number of nodes of the body."""
        return sum(1 for _ in walk(self.body))


@dataclass(eq=False, frozen=True)
class Global:
    """A functional function that is defined elsewhere; `function.lambda_` is its definition, read when it is needed."""

    function: Any
    at: Place


@dataclass(eq=False, frozen=True)
class Operator:
    """A function of functions: "grad", "vjp", "jvp", "hessian"."""

    name: str
    at: Place


@dataclass(eq=False, frozen=True)
class Apply:
    function: Core
    args: tuple[Core, ...]
    at: Place


@dataclass(eq=False, frozen=True)
class Let:
    binding: Binding
    value: Core
    body: Core
    at: Place


@dataclass(eq=False, frozen=True)
class LetRec:
    functions: tuple[tuple[Binding, Lambda], ...]
    body: Core
    at: Place


@dataclass(eq=False, frozen=True)
class Conditional:
    """`elementwise`: an array as its test chooses among elements."""

    test: Core
    then: Core
    orelse: Core
    at: Place
    elementwise: bool = False


@dataclass(eq=False, frozen=True)
class Operation:
    """A function of scalars, or of arrays element by element: an operator such as "+", or the name of a function."""

    op: str
    args: tuple[Core, ...]
    at: Place


@dataclass(eq=False, frozen=True)
class Record:
    """A tuple. `form`: see types.Tuple; `cls`: the class of Python of which it is an object."""

    items: tuple[Core, ...]
    at: Place
    form: str = ""
    cls: type | None = None


@dataclass(eq=False, frozen=True)
class Item:
    """The item of a tuple, or the items from `index` on (`rest`)."""

    value: Core
    index: int
    at: Place


@dataclass(eq=False, frozen=True)
class Build:
    """A value of a data class, by its constructor; `cls` None: a list of the items, the last of which is its tail, or the empty list."""

    cls: type | None
    args: tuple[Core, ...]
    at: Place


@dataclass(eq=False, frozen=True)
class Cast:
    """The value as one of a wider type."""

    value: Core
    type: Any
    at: Place


@dataclass(eq=False, frozen=True)
class Case:
    """`cls`: a data class; `list` for a list that is not empty. `fields`: bindings of its fields, of a list's head and tail."""

    cls: type
    fields: tuple[Binding, ...]
    body: Core


@dataclass(eq=False, frozen=True)
class Match:
    """`orelse`: for values of other classes; for lists: of the empty list."""

    subject: Core
    cases: tuple[Case, ...]
    orelse: Core | None
    at: Place


@dataclass(eq=False, frozen=True)
class Field:
    """The field of a value of a data class, which each of its classes has; an item of a dict; an array's attribute."""

    value: Core
    name: str
    at: Place


@dataclass(eq=False, frozen=True)
class Element:
    """a[i, …] of an array argument.

    `reached`: False where a branch may read beyond the array, and is never taken then.
    """

    array: Core
    indices: tuple[Core, ...]
    at: Place
    reached: bool = True


@dataclass(eq=False, frozen=True)
class Length:
    """The number of rows of an array, or of items of a tuple."""

    array: Core
    at: Place


@dataclass(eq=False, frozen=True)
class Total:
    """Σ body for index = start … stop − 1."""

    index: Binding
    start: Core
    stop: Core
    body: Core
    at: Place


class Rules(Protocol):
    """The meaning of a Primitive: the type of its value, and the value, found by inference and by the lowering."""

    def type(self, inference: Any, types: tuple[Any, ...], at: Place) -> Any: ...

    def value(self, lowering: Any, values: Sequence[Any], at: Place) -> Any: ...


@dataclass(eq=False, frozen=True)
class Primitive:
    """An operation of a source language, which brings its own rules. It has no value where an argument has none."""

    rules: Rules
    args: tuple[Core, ...]
    at: Place


@dataclass(eq=False, frozen=True)
class Structural:
    """A function of values of any form (`types.Structures`): "copy", "zero", "dot"."""

    op: str
    args: tuple[Core, ...]
    at: Place


@dataclass(eq=False, frozen=True)
class Forget:
    """The value, behind which all cells and history of its computation are taken back: compute, copy, uncompute."""

    value: Core
    at: Place


@dataclass(eq=False, frozen=True)
class Refusal:
    """An expression that cannot be evaluated: the end of a function without `return`. An error where it is reached."""

    code: str
    message: str
    hint: str | None
    at: Place


Core = (
    Number | Ref | Lambda | Global | Operator | Apply | Let | LetRec | Conditional | Operation | Record | Item | Build | Cast
    | Match | Field | Element | Length | Total | Structural | Forget | Primitive | Refusal
)  # fmt: skip


_HELD = {"Core": False, "tuple[Core, ...]": True}
#: class → its fields that hold expressions, each with whether it holds several, in the order of the text
_PARTS: dict[type, tuple[tuple[str, bool], ...]] = {
    cls: tuple((f.name, _HELD[str(f.type)]) for f in fields(cls) if f.type in _HELD) for cls in get_args(Core)
}


def children(e: Core) -> tuple[Core, ...]:
    """The expressions directly inside an expression."""
    match e:
        case LetRec(functions, body):
            return (*(f for _, f in functions), body)
        case Match(subject, cases, orelse):
            return (subject, *(c.body for c in cases), *(() if orelse is None else (orelse,)))
    found: list[Core] = []
    for name, several in _PARTS[type(e)]:
        found += getattr(e, name) if several else (getattr(e, name),)
    return tuple(found)


def rebuilt(e: Core, parts: Sequence[Core]) -> Core:
    """The expression with other expressions in place of its `children`, in their order."""
    given = iter(parts)
    match e:
        case Lambda(name, params):
            return Lambda(name, params, next(given), e.at, declared=e.declared, hosted=e.hosted)
        case LetRec(functions):
            made: list[tuple[Binding, Lambda]] = []
            for b, _ in functions:
                f = next(given)
                assert isinstance(f, Lambda)
                made.append((b, f))
            for _, f in made:
                f.group = tuple(made)
            return replace(e, functions=tuple(made), body=next(given))
        case Match(_, cases, orelse):
            subject = next(given)
            bodies = tuple(replace(c, body=next(given)) for c in cases)
            return replace(e, subject=subject, cases=bodies, orelse=None if orelse is None else next(given))
    held: dict[str, Any] = {
        name: tuple(next(given) for _ in getattr(e, name)) if several else next(given)
        for name, several in _PARTS[type(e)]
    }
    return replace(e, **held) if held else e


def walk(e: Core) -> Iterator[Core]:
    """The expression and all inside it, in the order of the text."""
    todo = [e]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(children(node)))


def free_bindings(e: Core) -> dict[Binding, None]:
    """The bindings that the expression uses and does not bind, in the order of their first use."""
    used: dict[Binding, None] = {}
    bound: set[Binding] = set()
    for node in walk(e):
        match node:
            case Ref(binding):
                used.setdefault(binding)
            case Lambda():
                bound |= set(node.params)
            case Let(binding):
                bound.add(binding)
            case LetRec(functions):
                bound |= {b for b, _ in functions}
            case Match(_, cases):
                bound |= {b for c in cases for b in c.fields}
            case Total(index):
                bound.add(index)
            case _:
                pass
    return {b: None for b in used if b not in bound}


# -----------------------------------------------------------------------------
# Calls by name as compute–copy–uncompute: the memory of a run against its time.
#
#     f(x)  →  forget(f(x))         for each call of f that does not lie in f, nor in a function that f calls
#
# A call inside the recursion of f stays: to forget it would compute the rest of the recursion twice at each level. Source: C. H. Bennett, Time/Space
# Trade-offs for Reversible Computation, SIAM J. Comput. 18, 1989.

#: a function that has a name: its binding, or the functional function itself
Named = Any


class Calls:
    """The calls of functions by name in a program. `define`: a functional function -> its definition."""

    def __init__(self, define: Callable[[Any], Lambda]) -> None:
        self._define = define
        #: function -> its definition, and the functions that its body mentions
        self._lambdas: dict[Named, Lambda] = {}
        self._mentions: dict[Named, set[Named]] = {}

    def names(self, function: Any) -> list[str]:
        """The names of the functions with a call that can be forgotten, in the order of the text."""
        self._enter(function)
        found: dict[str, None] = {}
        for owner in list(self._lambdas):
            if not isinstance(owner, Binding):
                for call in self._calls(self._lambdas[owner], (owner,)):
                    found.setdefault(call)
        return list(found)

    def forgetting(self, function: Any, names: Collection[str]) -> Lambda:
        """The definition of a functional function, in which the calls of the functions with these names are forgotten."""
        if not names:
            return self._define(function)
        code = self._enter(function)
        made = self._rewritten(code, (function,), frozenset(names))
        assert isinstance(made, Lambda)
        return made

    def _enter(self, function: Any) -> Lambda:
        if function in self._lambdas:
            return self._lambdas[function]
        code = self._lambdas[function] = self._define(function)
        self._mentions[function] = self._mentioned(code)
        for node in walk(code):
            named: list[tuple[Binding, Core]] = []
            match node:
                case LetRec(functions):
                    named = [(b, f) for b, f in functions]
                case Let(binding, Lambda() as value):
                    named = [(binding, value)]
                case Global(other):
                    self._enter(other)
                case _:
                    pass
            for b, f in named:
                assert isinstance(f, Lambda)
                self._lambdas[b], self._mentions[b] = f, self._mentioned(f)
        return code

    def _mentioned(self, e: Core) -> set[Named]:
        out: set[Named] = set()
        for node in walk(e):
            if isinstance(node, Ref):
                out.add(node.binding)
            elif isinstance(node, Global):
                out.add(node.function)
        return out

    def _reaches(self, start: Named, others: Collection[Named]) -> bool:
        """Whether a call of a function may lead to a call of one of the others, or is one."""
        seen: set[Named] = set()
        todo = [start]
        while todo:
            f = todo.pop()
            if any(f is other for other in others):
                return True
            if f not in seen:
                seen.add(f)
                todo += self._mentions.get(f, ())
        return False

    def _callee(self, e: Apply, around: tuple[Named, ...]) -> str | None:
        """The name of the function that a call calls, if the call can be forgotten."""
        match e.function:
            case Ref(binding) if binding in self._lambdas:
                found: Named = binding
            case Global(function):
                found = function
            case _:
                return None
        name: str = found.name if isinstance(found, Binding) else found.__name__
        return None if self._reaches(found, around) else name

    def _calls(self, e: Core, around: tuple[Named, ...]) -> Iterator[str]:
        if isinstance(e, Apply):
            name = self._callee(e, around)
            if name is not None:
                yield name
        for child, inside in self._children(e, around):
            yield from self._calls(child, inside)

    def _children(self, e: Core, around: tuple[Named, ...]) -> list[tuple[Core, tuple[Named, ...]]]:
        match e:
            case LetRec(functions, body):
                return [*((f, (*around, b)) for b, f in functions), (body, around)]
            case Let(binding, Lambda() as value, body):
                return [(value, (*around, binding)), (body, around)]
            case _:
                return [(child, around) for child in children(e)]

    def _rewritten(self, e: Core, around: tuple[Named, ...], names: frozenset[str]) -> Core:
        parts = [self._rewritten(child, inside, names) for child, inside in self._children(e, around)]
        # The same object where nothing is forgotten in it: rules of primitives know functions by their code.
        same = all(a is b for a, b in zip(children(e), parts, strict=True))
        made = e if same else rebuilt(e, parts)
        if isinstance(e, Apply) and self._callee(e, around) in names:
            return Forget(made, e.at)
        return made


# -----------------------------------------------------------------------------
# Operations on numbers, by the arithmetic of the language: inference has their types from it, and the lowering their values.

_CONVERSIONS = ("int", "uint", "fixed", "bool")
#: operations on constants need no format
_EXACT = Arithmetic(Q32_32)


def fail(code: str, message: str, at: Place, hint: str | None = None) -> NoReturn:
    """Raise a CompileError that points at a place."""
    raise CompileError(Diagnostic(code, message, at.span, hint, at.text))


def scalar_operation(
    a: Arithmetic, e: Operation, values: Sequence[Value], constants: Constants | None = None
) -> Scalar:
    """The operation on scalars. `constants`: those of the program, if it is lowered. Raises CompileError."""
    # What is refused about a number that no int holds is the number.
    large = (x.at for x in e.args if isinstance(x, Number) and isinstance(x.value, int) and abs(x.value) >= a.w.sign)
    at = next(large, e.at)
    found = guarded(at, lambda: Scalar(a.expression(operated(a, e.op, values))), constants)
    assert isinstance(found, Scalar)
    return found


def with_literals(e: Operation, operands: Sequence[Value], w: Format) -> list[Value]:
    """The operands; whole numbers that are written are constants beside a uint, in uint(…), as exponents, and if large.

    Large: from 2^(W−1) on, where the word of an int has another number.
    """
    unsigned = e.op == "uint" or any(isinstance(v, Scalar) and v.kind is Kind.UINT for v in operands)
    found = [*operands]
    for k, a in enumerate(e.args):
        whole = a.value if isinstance(a, Number) and isinstance(a.value, int) else None
        if whole is not None and (unsigned or whole >= w.sign or (e.op == "**" and k == 1)):
            found[k] = Constant(whole)
    return found


def on_numbers(op: str, args: Sequence[Core]) -> int | float | None:
    """The value of the operation on constants, as Python computes it; None for other operands, and where it has no value."""
    defined = not op[0].isalpha() or op in (*FUNCTIONS, *_CONVERSIONS, "not")
    return _known(lambda values: operated(_EXACT, op, values), args) if defined else None


def computed(host: Host, args: Sequence[Core]) -> int | float | None:
    """The value of a function with a host for constants; None for other operands, and where it has no value."""
    return _known(lambda values: on_constants(host, values), args)


def _known(made: Callable[[list[Constant]], Value], args: Sequence[Core]) -> int | float | None:
    known = [Constant(x.value) for x in args if isinstance(x, Number)]
    if len(known) < len(args):
        return None
    try:
        found = made(known)
    except (ArithmeticError, TypeError, ValueError):
        return None  # an error where the expression is reached
    value = found.value if isinstance(found, Constant) else None
    return value if isinstance(value, int | float) else None


def operated(a: Arithmetic, op: str, values: Sequence[Value]) -> Value:
    """The operation on numbers, or on arrays element by element."""
    if op in _CONVERSIONS:
        return a.conversion(Kind(op), values[0])
    if op == "not":
        return a.unary(op, values[0])
    if op == "**" and isinstance(values[0], Scalar) and isinstance(values[1], Constant) and values[1].value < 0:
        # 1 / xⁿ, which is no int
        values = Scalar(a.expression(values[0], Kind.FIXED)), values[1]
    if not op[0].isalpha():
        return a.unary(op, values[0]) if len(values) == 1 else a.binary(op, values[0], values[1])
    return a.function(op, values)


def guarded(at: Place, made: Callable[[], Value], constants: Constants | None = None) -> Value:
    """The result; an operation that the operands make impossible is reported at the expression."""
    try:
        return made() if constants is None else constants.at(lambda _: at, made)
    except Vanishing as error:
        # Lognums are no values of functional programs.
        hint = error.hint.replace("No format holds it, but a lognum does. Or scale", "No format holds it. Scale")
        fail("RG0730", f"{error}", at, hint.replace(", but a lognum does", ""))
    except TypeError as error:
        fail("RG0703", str(error), at, hint_of(error))
    except ZeroDivisionError:
        fail("RG0714", "a division by zero", at)
    except (OverflowError, ValueError) as error:
        fail("RG0714", f"{error}", at, hint_of(error))
