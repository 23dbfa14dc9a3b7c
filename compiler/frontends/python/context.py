"""The context of one function that is lowered, and the tables of functions that lower its syntax.

A part of the front end is functions over the context, one for each kind of syntax:

    @lowers(ast.Assert)
    def lower_assert(cx: Context, node: ast.Assert) -> None: …         a statement: emits IR

    @evaluates(ast.BinOp)
    def binary(cx: Context, node: ast.BinOp) -> Value: …               an expression: its value

`cx.lower` and `cx.value` dispatch by these tables, so that a part that lowers blocks or operands imports no other
part for it. The context holds the state: the statements emitted so far, names, locals and their owners, captured
values, places for messages. Its methods are the steps that all parts take: the value of an expression as a number, a
condition or a constant, and blocks.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
from retrograd.compiler.frontends.builder import (
    Borrowed,
    IRBuilder,
    ModuleBuilder,
    OwnedLocal,
    OwnedLocals,
    Scope,
    Update,
    own_name,
)
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import Errors, SourceFunction, shortened
from retrograd.compiler.frontends.specialisation import Refuse, Specialisation
from retrograd.compiler.ir.expressions import Address, E, Length, below_half, const, loads, read
from retrograd.compiler.ir.statements import Block, Kind, Node, Region, Var
from retrograd.compiler.language.arithmetic import Arithmetic, element, first_axis, first_of, kind_of, number_kind
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.lognums import is_exponential
from retrograd.compiler.language.purity import Impure, need_iterable, need_operators, need_plain
from retrograd.compiler.language.types import (
    COMPLEX,
    ScalarType,
    Shape,
    is_empty,
    is_known,
    is_struct,
    keys_of,
    note_range,
    row_major,
    static,
)
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StructValue,
    Value,
    describe,
    struct_type,
)
from retrograd.isa.diagnostics import Span

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM
#: (function, shapes of its arguments, the function that raises errors at the call) → its specialisation
Specialise = Callable[[SourceFunction, tuple[Shape, ...], Refuse | None], Specialisation]

# -----------------------------------------------------------------------------
# The tables: a kind of syntax → the function that lowers it.

_STATEMENTS: dict[type[ast.AST], Callable[[Context, Any], None]] = {}
_VALUES: dict[type[ast.AST], Callable[[Context, Any], Value]] = {}
#: of syntax whose truth takes less to compute than its value
_TRUTHS: dict[type[ast.AST], Callable[[Context, Any], Value]] = {}
#: a function of the language that stands alone → (the name of it or of its inverse, call) → its statements
_PERFORMED: dict[Intrinsic, Callable[[Context, str, ast.Call], None]] = {}
F = TypeVar("F", bound=Callable[..., Any])


def lowers(*kinds: type[ast.stmt]) -> Callable[[F], F]:
    """A mark for the function that emits the IR of a kind of statement."""
    return _entered(_STATEMENTS, kinds)


def evaluates(*kinds: type[ast.expr]) -> Callable[[F], F]:
    """A mark for the function that gives the value of a kind of expression."""
    return _entered(_VALUES, kinds)


def decides(*kinds: type[ast.expr]) -> Callable[[F], F]:
    """A mark for the function that gives a bool which is true exactly if a kind of expression is."""
    return _entered(_TRUTHS, kinds)


def performs(*functions: Intrinsic) -> Callable[[F], F]:
    """A mark for the function that emits the IR of calls of functions of the language, by the name of each."""
    return _entered(_PERFORMED, functions)


def _entered(table: dict[Any, Any], kinds: Sequence[Any]) -> Callable[[F], F]:
    def mark(function: F) -> F:
        assert not table.keys() & set(kinds)
        table.update(dict.fromkeys(kinds, function))
        return function

    return mark


def _placed(value: Value, span: Span, places: dict[E, Span], equal: set[tuple[Span, Span]]) -> Value:
    """The value, whose expressions are noted at their place; `equal`: two places of one expression in a statement."""
    match value:
        case Scalar(e):
            if places.get(e, span) != span:
                equal.add((places[e], span))
            places[e] = span
        case Lazy(shape, element):
            return Lazy(shape, lambda index: _placed(element(index), span, places, equal))
    return value


@dataclass(eq=False)
class OpenRoutine:
    """A `with rg.routine()` that is computed and not yet uncomputed, and the state before it."""

    name: str
    compute: Block
    #: the locals that it allocated
    own: list[OwnedLocal]
    span: Span
    outer: list[Node]
    names: dict[str, Value]
    owned: list[OwnedLocal]
    versions: Counter[Var | Region]
    histories: dict[int, list[Update] | None]


class Context:
    """One function that is lowered. `recursive`: more than one activation of it may be live."""

    def __init__(
        self,
        function: SourceFunction,
        module: ModuleBuilder,
        captures: Captures,
        specialise: Specialise,
        recursive: bool,
    ) -> None:
        self.function, self.captures, self.specialise, self.recursive = function, captures, specialise, recursive
        errors = Errors(function.source, module.constants)
        #: see Errors
        self.fail, self.guarded, self.span = errors.fail, errors.guarded, errors.span
        self.builder = IRBuilder(module, errors.span(function.tree))
        module.functions[function] = None
        self.w = module.w
        self.scope = Scope()
        self.locals = OwnedLocals(self.builder, self.scope, errors.fail)
        given = module.constants
        self.arithmetic = Arithmetic(module.w, given.number, given.scales, given.factor)
        #: the statements that follow the current one in its block
        self.following: Sequence[ast.stmt] = ()
        #: of the current block
        self.routines: list[OpenRoutine] = []
        #: routines that were uncomputed and may be computed again: name → (compute block, its locals)
        self.finished: dict[str, tuple[Block, list[OwnedLocal]]] = {}

    @cached_property
    def changed(self) -> frozenset[str]:
        """The names of locals that the function may change, or frees."""
        return changed_names(self.function)

    def close(self) -> None:
        """Cut the circle of references: without it all parts are freed at once, and not by the garbage collector."""
        self.builder.on_write = None

    # ------------------------------------------------------------------ statements

    def body(self) -> Block:
        """The IR of the whole function. The context cannot be used again."""
        with self.block() as inner:
            self.lower(self.function.tree.body)
        self.close()
        return tuple(inner)

    def lower(self, statements: Sequence[ast.stmt]) -> None:
        """Emit the IR of statements in a row."""
        outer = self.following
        for k, node in enumerate(statements, start=1):
            self.following = statements[k:]
            self.builder.span = self.span(node)
            if self.builder.module.places is not None:
                self.builder.module.places.clear()
            lower = _STATEMENTS.get(type(node))
            if lower is None:
                self.refuse_statement(node)
            lower(self, node)
        self.following = outer

    def perform(self, f: Intrinsic, call: ast.Call) -> None:
        """Emit the IR of a call of a function of the language that stands alone."""
        _PERFORMED[f](self, f.__name__, call)

    def refuse_statement(self, node: ast.stmt) -> NoReturn:
        """Raise RG0701 for a statement without a lowering."""
        if isinstance(node, ast.Return):
            hint = "Remove it: every argument comes back, changed or not."
            self.fail("RG0701", "a reversible function returns its arguments, and nothing else", node, hint)
        text = ast.unparse(node).partition("\n")[0]
        self.fail(
            "RG0701", f"`{text[:50]}` is no statement of the language", node, INSTEAD_OF_STATEMENT.get(type(node))
        )

    # ------------------------------------------------------------------ blocks

    @contextmanager
    def block(self) -> Iterator[list[Node]]:
        """A block with a scope of its own. Yields the list that receives its statements."""
        builder, scope, ledger = self.builder, self.scope, self.locals
        names, freed, owned = scope.names, scope.freed, ledger.owned
        routines, finished = self.routines, self.finished
        scope.names, scope.freed, ledger.owned = dict(names), dict(freed), list(owned)
        self.routines, self.finished = [], dict(finished)
        builder.depth += 1
        with builder.collect() as inner:
            yield inner
            if self.routines:
                r = self.routines[-1]
                hint = f"Write `~{r.name}` at the end of the block, after the last use of what the routine computed."
                self.fail("RG0711", f"the routine `{r.name}` is not uncomputed in its block", r.span, hint)
            while len(ledger.owned) > len(owned):
                ledger.release(ledger.owned[-1])
        lost = next((m for m in owned if m not in ledger.owned), None)
        if lost is not None:
            message = f"`{lost.name}` is freed inside a branch or loop, but was made outside"
            hint = f"Free `{lost.name}` after the block, or make it inside."
            self.fail("RG0710", message, lost.freed or lost.span, hint)
        builder.depth -= 1
        scope.names, scope.freed, ledger.owned = names, freed, owned
        self.routines, self.finished = routines, finished

    @contextmanager
    def repeated(self) -> Iterator[list[Node]]:
        """The body of a loop: a block in which a number with a borrowed name is used again after all that the body changes."""
        self.scope.loops += 1
        with self.block() as inner:
            yield inner
            for name, held in self.scope.borrowed.items():
                if held.used >= self.scope.loops > held.loops and self.scope.names.get(name) is held.value:
                    self.require_unchanged(name, held, self.builder.span)
                    held.used = self.scope.loops - 1
        self.scope.loops -= 1

    def over_elements(
        self,
        shape: Sequence[Length],
        body: Callable[[tuple[E, ...]], None],
        value: Value | None = None,
        terms: E | None = None,
    ) -> None:
        """body(indices) in loops over all indices of a shape, the last index moving fastest.

        Terms that are equal in all elements of `value` are computed once, in front of the loops.
        The loops over the terms of a sum stand around the one over the last index.
        """
        if is_empty(shape):
            return
        builder = self.builder
        span = builder.span
        indices = tuple(Var(f"i{n}" if len(shape) > 1 else "i", Kind.INT, span) for n in range(len(shape)))
        for var, length in zip(indices, shape, strict=True):
            note_range(builder.ranges, var, length, builder.w)
        index = tuple(const(0, Kind.INT) if length == 1 else read(v) for v, length in zip(indices, shape, strict=True))
        builder.settled.update(indices)
        variables, lengths = list(indices), list(shape)
        if terms is not None:
            builder.settled.update(terms.param[0])
            variables[-1:-1], lengths[-1:-1] = terms.param
        around, previous = builder.temporaries(), builder.enclosing
        if isinstance(value, Lazy) and is_known(shape):
            sample = element(value, index)
            if isinstance(sample, Scalar):
                around.hoist(sample.e, frozenset(indices))
        builder.enclosing = around
        with self.block() as inner:
            body(index)
        builder.enclosing = previous
        axes = [n for n, length in enumerate(lengths) if length != 1 or terms is not None]
        loops = around.loops([variables[n] for n in axes], [lengths[n] for n in axes], tuple(inner))
        builder.emit(around.wrap(loops), made_of_blocks=True)

    def require_unchanged(self, name: str, held: Borrowed, where: ast.AST | Span) -> None:
        """Refuse a name of a number that lies in an array or a variable which has changed since."""
        read = [found for part in held.parts for found in loads(part.e)]
        changed = next((p for p in held.versions if not self.builder.is_unchanged(p, held.versions, read)), None)
        if changed is not None:
            source = own_name(changed) if isinstance(changed, Region) else changed.name
            message = f"`{name}` was taken from `{source}`, which has changed since"
            hint = f"Copy the number before that, `t = {name}`, and use t; or use its index."
            self.fail("RG0731", message, where, hint)

    # ------------------------------------------------------------------ values

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        lower = _VALUES.get(type(node))
        if lower is None:
            text = f"`{shortened(node)}` is no expression of the language"
            self.fail("RG0701", text, node, INSTEAD_OF_EXPRESSION.get(type(node)))
        value = lower(self, node)
        places = self.builder.module.places
        if places is None or isinstance(node, ast.Name):
            return value
        return _placed(value, self.span(node), places, self.builder.module.equal_places)

    def tested(self, node: ast.expr) -> Value:
        """The value of an expression, or a bool that is true exactly if the value is."""
        decide = _TRUTHS.get(type(node))
        return self.value(node) if decide is None else decide(self, node)

    def scalar(self, node: ast.expr, kind: Kind | None = None) -> E:
        """The expression of a scalar, converted to `kind` if one is given."""
        return self.number(self.value(node), node, kind)

    def integer(self, node: ast.expr) -> E:
        """The expression of an int or a uint whose word is an index or a count: both are tested or read as unsigned words."""
        value = self.value(node)
        return self.number(value, node, UINT if isinstance(value, Scalar) and value.kind is UINT else INT)

    def whole(self, value: Value, node: ast.AST) -> E:
        """The expression of an int; a uint is tested to be one, too, when the program runs."""
        if isinstance(value, Scalar) and value.kind is UINT:
            return below_half(value.e, f"`{shortened(node)}` is {{a}}, beyond the lengths of arrays", "RG0801")
        return self.number(value, node, INT)

    def number(self, value: Value, node: ast.AST, kind: Kind | None = None) -> E:
        """The expression of a value that must be one number, converted to `kind` if one is given."""
        return self.guarded(node, self.arithmetic.operand, value, kind)

    def condition(self, node: ast.expr) -> E:
        """The expression of a condition."""
        return self.guarded(node, self.arithmetic.truth, self.tested(node))

    def decided(self, c: Constant, node: ast.expr) -> bool:
        """The truth of a constant."""
        try:
            need_operators(c.value)
            return bool(c.value)
        except Impure as error:
            self.fail("RG0721", str(error), node)
        except (TypeError, ValueError):
            self.fail("RG0703", f"{describe(c)} is neither true nor false", node)

    def static(self, node: ast.expr, what: str) -> Any:
        """The Python value of an expression. Raises RG0717 if it is not known when the program is compiled."""
        value = self.value(node)
        known = self.locals.constant(value, self.span(node))
        if known is not None:
            return known
        if not isinstance(value, Constant):
            message = f"{what} must be known when the program is compiled; `{shortened(node)}` is {describe(value)}"
            self.fail("RG0717", message, node)
        self.guarded(node, need_operators, value.value)
        return value.value

    def static_int(self, node: ast.expr, what: str) -> int:
        found = self.static(node, what)
        if number_kind(found) is not INT:
            self.fail("RG0703", f"{what} is an integer, not {found!r}", node)
        return int(found)

    def wrap(self, found: Any) -> Value:
        """The value of a Python object that the function captures."""
        if isinstance(found, SourceFunction):
            return FunctionValue(self.function.stand_in(found))
        if isinstance(found, FunctionValue):
            return found  # of a list of functions
        # The class has the attribute: reading it from an object of a user's class may run code.
        if getattr(type(found), "__retrograd_inverse__", False):
            return FunctionValue(self.function.stand_in(found.__retrograd_inverse_of__), backward=True)
        if is_struct(type(found)):
            fields = {name: self.wrap(getattr(found, name)) for name in type(found).__retrograd_fields__}
            return StructValue(struct_type(type(found), fields), fields)
        return Constant(found)

    def items(self, value: Value, node: ast.AST) -> list[Value]:
        """The items of a tuple, or the elements of an array along its first axis. Raises RG0703 for any other value."""
        match value:
            case StructValue(t, fields) if t.is_tuple:
                return [*fields.values()]
            case StructValue(t) if keys_of(t.cls):
                return [*map(self.wrap, keys_of(t.cls))]
            case Constant(tuple() | list() as found):
                self.guarded(node, need_iterable, found)
                return [self.wrap(v) for v in found]
            case ArrayView(shape=(int() as length, *_)) | Lazy(shape=(int() as length, *_)):
                return [first_axis(value, const(i, INT)) for i in range(length)]
        shown = shortened(node)
        message = f"`*{shown}` takes a tuple or an array apart, and `{shown}` is {describe(value)}"
        self.fail("RG0703", message, node, f"Pass it by itself: `{shown}`.")

    def listed(self, nodes: Sequence[ast.expr]) -> list[tuple[Value, ast.expr]]:
        """The values of arguments, each with its place; `*xs` stands for the items of xs."""
        out: list[tuple[Value, ast.expr]] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                out += [(v, node.value) for v in self.items(self.value(node.value), node.value)]
            else:
                out.append((self.value(node), node))
        return out

    def numbers(self, array: Any, node: ast.AST) -> np.ndarray[Any, Any]:
        """A constant as an array of numbers."""
        self.guarded(node, need_plain, array)
        try:
            values = np.asarray(array)
            if values.dtype.kind in "fO" and all(type(v) is int for v in np.asarray(array, dtype=object).flat):
                # Integers of 64 bits beside smaller ones, of which NumPy makes floats.
                values = np.asarray(array, dtype=np.uint64)
        except OverflowError:
            message = f"{describe(Constant(array))} holds an integer that no word holds"
            self.fail("RG0714", message, node, "Words are of 64 bits at most.")
        except ValueError:
            hint = "Make the rows equally long."
            self.fail("RG0703", f"the rows of {describe(Constant(array))} have different lengths", node, hint)
        if values.dtype.kind not in "iufbc":
            message = f"a constant array holds numbers, and {describe(Constant(array))} does not"
            self.fail("RG0703", message, node)
        return values

    def stored(self, value: Value, node: ast.AST) -> Value:
        """The value; a constant array lies in memory."""
        match value:
            case Constant(tuple() | list()):
                return self.constant_array(value.value, node)
            case Constant(np.ndarray(ndim=dimensions)) if dimensions:
                return self.constant_array(value.value, node)
        return value

    def together(self, values: Sequence[Value], nodes: Sequence[ast.AST], alike: bool = True) -> list[Value]:
        """The operands of one operation; beside a value of the run, constant arrays lie in memory.

        `alike`: of one kind.
        """
        if all(isinstance(v, Constant) for v in values):
            return [*values]
        found = [self.stored(v, n) for v, n in zip(values, nodes, strict=True)]
        kinds = [kind_of(v) for v in found]
        if alike and LOGNUM in kinds:
            for kind, v, n in zip(kinds, found, nodes, strict=True):
                if kind is not None and (kind is INT or kind.is_fixed) and not is_exponential(first_of(v)):
                    message = f"`{shortened(n)}` is {'an' if kind is INT else 'a'} {kind.value} beside a lognum"
                    self.fail("RG0703", message, n, f"lognum({shortened(n)}) makes a lognum of it")
        return found

    def constant_array(self, array: Any, node: ast.AST, passed: bool = False, factors: bool = True) -> ArrayView:
        """A constant array as read-only memory.

        `passed`: to a function, whose parameter may be at the point F alone. `factors`: see `Constants.array`.
        """
        values = self.numbers(array, node)
        if values.dtype.kind == "c":
            parts = np.stack([values.real, values.imag], axis=-1)
            region = self.guarded(node, self.builder.module.constants.array, parts, FIXED)
            return ArrayView(
                COMPLEX, values.shape, row_major(values.shape, 2), Address(region, None), "it is a constant"
            )
        kind = {"i": INT, "u": INT, "f": FIXED, "b": BOOL}[values.dtype.kind]
        if values.dtype.kind == "u" and values.size and int(values.max()) >= self.builder.w.sign:
            kind = UINT  # as int, such a number would be a negative one
        if kind is FIXED and not passed:
            kind = self.builder.module.constants.kind_of(values)
        region = self.guarded(node, self.builder.module.constants.array, values, kind, factors)
        shape = values.shape
        return ArrayView(ScalarType(kind), shape, row_major(shape, 1), Address(region, None), "it is a constant")


# -----------------------------------------------------------------------------
# Hints for syntax that the language does not have, with the syntax to write in its place.

#: hints for expressions that the language does not have
INSTEAD_OF_EXPRESSION: dict[type[ast.AST], str] = {
    ast.NamedExpr: "make the variable in a statement of its own, `t = …`",
    ast.JoinedStr: "text is for the host: `with rg.external():`",
    ast.Yield: "every argument comes back, changed or not: change an argument",
    ast.Dict: "name the values, or make a class of them with @rg.struct",
    ast.Set: "name the values, or make an array of them",
}
#: hints for statements that the language does not have
INSTEAD_OF_STATEMENT: dict[type[ast.AST], str] = {
    ast.Import: "Import at the top of the file.",
    ast.ImportFrom: "Import at the top of the file.",
    ast.Try: "Test with an `if` before; what goes wrong nevertheless stops the machine, which can run back from there.",
    ast.Raise: "write `assert condition`, which is checked in both directions",
    ast.Break: "A loop ends by its condition: `while (before, after):`.",
    ast.Continue: "Put the rest of the body into an `if`.",
    ast.Global: "Pass the variable as an argument.",
    ast.Nonlocal: "Pass the variable as an argument.",
    ast.Assign: "Make one variable in a statement.",
    ast.AnnAssign: "Give it a value: `name: fixed = 0.0`.",
    ast.ClassDef: "Define the class outside, with @rg.struct.",
    ast.Match: "write `if` and `elif`",
    ast.Yield: "Every argument comes back, changed or not: change an argument.",
    ast.YieldFrom: "Every argument comes back, changed or not: change an argument.",
    ast.Await: "A reversible function waits for nothing.",
}

# -----------------------------------------------------------------------------
# The names of locals that a function may change.


def changed_names(function: SourceFunction) -> frozenset[str]:
    """The names of locals that the function may change, or frees."""
    found: set[str] = set()
    for node in ast.walk(function.tree):
        match node:
            case ast.AugAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.With(items=[ast.withitem(ast.Call(args=args), ast.Name())]):
                found |= {x.id for a in args for x in ast.walk(a) if isinstance(x, ast.Name)}
            case ast.Delete(targets=targets):
                found |= {x.id for x in targets if isinstance(x, ast.Name)}
            case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.UnaryOp(operand=ast.Call() as call)):
                found |= {x.id for x in _passed(call, function) if isinstance(x, ast.Name)}
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                if sorted(map(ast.unparse, targets)) == sorted(map(ast.unparse, values)):
                    found |= {x.id for x in targets if isinstance(x, ast.Name)}
    return frozenset(found)


def _items(node: ast.expr) -> list[ast.expr]:
    """The items of a tuple that is written out, and of `*` of one; the operand of a view; any other expression by itself."""
    if isinstance(node, ast.Starred):
        return _items(node.value)
    match node:
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            return [y for x in elts for y in _items(x)]
        case (
            ast.UnaryOp(operand=operand)
            | ast.BinOp(left=operand, right=ast.Constant())
            | ast.BinOp(left=ast.Constant(), right=operand)
        ):
            return _items(operand)  # a view
    return [node]


def _passed(call: ast.Call, function: SourceFunction) -> list[ast.expr]:
    """The arguments of a call that the callee may change: all but the arguments for static parameters."""
    called = function.found(call.func)
    parameters = called.parameters if isinstance(called, SourceFunction) else ()
    static_names = {p.name for p in parameters if p.annotation is static}
    last = next((p.name for p in parameters if p.variadic), "")
    names = [p.name for p in parameters] + [last] * len(call.args)
    return [
        *(y for x, name in zip(call.args, names, strict=False) if name not in static_names for y in _items(x)),
        *(k.value for k in call.keywords if k.arg not in static_names),
    ]
