"""Values of expressions: dispatch by syntax; conversion to scalars, conditions, static values and constant arrays."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from retrograd.compiler.frontends.builder import Borrowed, IRBuilder, Scope
from retrograd.compiler.frontends.owned_locals import OwnedLocals, own_name
from retrograd.compiler.frontends.python.captures import Captures
from retrograd.compiler.frontends.python.source import Errors, InnerFunction, SourceFunction, shortened
from retrograd.compiler.ir.expressions import Address, E, below_half, const, loads
from retrograd.compiler.ir.statements import Kind, Region
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import Arithmetic, element, first_axis, first_of, kind_of, number_kind
from retrograd.compiler.language.lognums import is_exponential
from retrograd.compiler.language.purity import Impure, attribute, need_iterable, need_operators, need_plain
from retrograd.compiler.language.types import COMPLEX, ScalarType, bound, is_complex, is_known, is_struct, row_major
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    FunctionValue,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    struct_type,
)
from retrograd.isa.diagnostics import Span, nearest

INT, UINT, FIXED, BOOL, LOGNUM = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL, Kind.LOGNUM
#: hints for expressions that the language does not have
INSTEAD_OF_EXPRESSION: dict[type[ast.AST], str] = {
    ast.NamedExpr: "make the variable in a statement of its own, `t = …`",
    ast.JoinedStr: "text is for the host: `with rg.external():`",
    ast.Yield: "every argument comes back, changed or not: change an argument",
    ast.Dict: "name the values, or make a class of them with @rg.struct",
    ast.Set: "name the values, or make an array of them",
}


class ExpressionLowering:
    """Values of the expressions of one function. `lowerings` has a function for each kind of syntax."""

    def __init__(self, captures: Captures, builder: IRBuilder, locals: OwnedLocals, errors: Errors) -> None:
        self.captures = captures
        self.builder, self.locals, self.errors = builder, locals, errors
        self.w = builder.w
        self.arithmetic = Arithmetic(builder.w, builder.module.constants.number)
        #: filled in by `FunctionLowering`: the functions themselves need the values of operands
        self.lowerings: dict[type[ast.AST], Callable[[Any], Value]] = {}
        #: those of syntax whose truth takes less to compute than its value
        self.tests: dict[type[ast.AST], Callable[[Any], Value]] = {}

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        lower = self.lowerings.get(type(node))
        if lower is None:
            text = f"`{shortened(node)}` is no expression of the language"
            self.errors.fail("RG0701", text, node, INSTEAD_OF_EXPRESSION.get(type(node)))
        return lower(node)

    def tested(self, node: ast.expr) -> Value:
        """The value of an expression, or a bool that is true exactly if the value is."""
        test = self.tests.get(type(node))
        return self.value(node) if test is None else test(node)

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
        return self.errors.guarded(node, self.arithmetic.expression, value, kind)

    def condition(self, node: ast.expr) -> E:
        """The expression of a condition."""
        return self.errors.guarded(node, self.arithmetic.truth, self.tested(node))

    def decided(self, c: Constant, node: ast.expr) -> bool:
        """The truth of a constant."""
        try:
            need_operators(c.value)
            return bool(c.value)
        except Impure as error:
            self.errors.fail("RG0721", str(error), node)
        except (TypeError, ValueError):
            self.errors.fail("RG0703", f"{describe(c)} is neither true nor false", node)

    def static(self, node: ast.expr, what: str) -> Any:
        """The Python value of an expression. Raises RG0717 if it is not known when the program is compiled."""
        value = self.value(node)
        known = self.locals.constant(value, self.errors.span(node))
        if known is not None:
            return known
        if not isinstance(value, Constant):
            message = f"{what} must be known when the program is compiled; `{shortened(node)}` is {describe(value)}"
            self.errors.fail("RG0717", message, node)
        self.errors.guarded(node, need_operators, value.value)
        return value.value

    def static_int(self, node: ast.expr, what: str) -> int:
        found = self.static(node, what)
        if number_kind(found) is not INT:
            self.errors.fail("RG0703", f"{what} is an integer, not {found!r}", node)
        return int(found)

    def wrap(self, found: Any) -> Value:
        """The value of a Python object that the function captures."""
        if isinstance(found, SourceFunction):
            return FunctionValue(found)
        if isinstance(found, FunctionValue):
            return found  # of a list of functions
        # The class has the attribute: reading it from an object of a user's class may run code.
        if getattr(type(found), "__retrograd_inverse__", False):
            return FunctionValue(found.__retrograd_inverse_of__, backward=True)
        if is_struct(type(found)):
            fields = {name: self.wrap(getattr(found, name)) for name in type(found).__retrograd_fields__}
            return StructValue(struct_type(type(found), fields), fields)
        return Constant(found)

    def items(self, value: Value, node: ast.AST) -> list[Value]:
        """The items of a tuple, or the elements of an array along its first axis. Raises RG0703 for any other value."""
        match value:
            case StructValue(t, fields) if t.is_tuple:
                return [*fields.values()]
            case Constant(tuple() | list() as found):
                self.errors.guarded(node, need_iterable, found)
                return [self.wrap(v) for v in found]
            case ArrayView(shape=(int() as length, *_)) | Lazy(shape=(int() as length, *_)):
                return [first_axis(value, const(i, INT)) for i in range(length)]
        shown = shortened(node)
        message = f"`*{shown}` takes a tuple or an array apart, and `{shown}` is {describe(value)}"
        self.errors.fail("RG0703", message, node, f"Pass it by itself: `{shown}`.")

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
        self.errors.guarded(node, need_plain, array)
        try:
            values = np.asarray(array)
            if values.dtype.kind in "fO" and all(type(v) is int for v in np.asarray(array, dtype=object).flat):
                # Integers of 64 bits beside smaller ones, of which NumPy makes floats.
                values = np.asarray(array, dtype=np.uint64)
        except OverflowError:
            message = f"{describe(Constant(array))} holds an integer that no word holds"
            self.errors.fail("RG0714", message, node, "Words are of 64 bits at most.")
        except ValueError:
            hint = "Make the rows equally long."
            self.errors.fail("RG0703", f"the rows of {describe(Constant(array))} have different lengths", node, hint)
        if values.dtype.kind not in "iufbc":
            message = f"a constant array holds numbers, and {describe(Constant(array))} does not"
            self.errors.fail("RG0703", message, node)
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
        """The operands of one operation; beside a value of the run, constant arrays lie in memory. `alike`: of one kind."""
        if all(isinstance(v, Constant) for v in values):
            return [*values]
        found = [self.stored(v, n) for v, n in zip(values, nodes, strict=True)]
        kinds = [kind_of(v) for v in found]
        if alike and LOGNUM in kinds:
            for kind, v, n in zip(kinds, found, nodes, strict=True):
                if kind in (INT, FIXED) and not is_exponential(first_of(v)):
                    message = f"`{shortened(n)}` is {'an' if kind is INT else 'a'} {kind.value} beside a lognum"
                    self.errors.fail("RG0703", message, n, f"lognum({shortened(n)}) makes a lognum of it")
        return found

    def constant_array(self, array: Any, node: ast.AST) -> ArrayView:
        """A constant array as read-only memory."""
        values = self.numbers(array, node)
        if values.dtype.kind == "c":
            parts = np.stack([values.real, values.imag], axis=-1)
            region = self.errors.guarded(node, self.builder.module.constants.array, parts, FIXED)
            return ArrayView(
                COMPLEX, values.shape, row_major(values.shape, 2), Address(region, None), "it is a constant"
            )
        kind = {"i": INT, "u": INT, "f": FIXED, "b": BOOL}[values.dtype.kind]
        if values.dtype.kind == "u" and values.size and int(values.max()) >= self.builder.w.sign:
            kind = UINT  # as int, such a number would be a negative one
        region = self.errors.guarded(node, self.builder.module.constants.array, values, kind)
        shape = values.shape
        return ArrayView(ScalarType(kind), shape, row_major(shape, 1), Address(region, None), "it is a constant")


# -----------------------------------------------------------------------------
# Names and attributes inside expressions.
#
# A name is a local, a variable of the function around, a global or a built-in, in this order, as in Python.


@dataclass(eq=False)
class Names:
    """Values of names and attributes."""

    errors: Errors
    expressions: ExpressionLowering
    scope: Scope
    function: SourceFunction

    def name(self, node: ast.Name) -> Value:
        name = node.id
        if name in self.scope.names:
            found = self.scope.names[name]
            self._require_live(found, node)
            self._use(name, found, node)
            return found
        if name in self.scope.lent:
            self.errors.fail(
                "RG0705", f"`{name}` {self.scope.lent[name]} in this block", node, f"Use `{name}` after the block."
            )
        if name in self.scope.freed:
            hint = f"Free `{name}` later, or compute it again."
            self.errors.fail("RG0702", f"`{name}` was freed in line {self.scope.freed[name].line}", node, hint)
        try:
            return self.expressions.wrap(self.function.lookup(name, self.expressions.captures))
        except KeyError:
            pass
        made = next((n for n in ast.walk(self.function.tree) if _makes(n, name)), None)
        if made is not None:
            line = self.errors.span(made).line
            if line >= self.errors.span(node).line:
                hint = f"Make `{name}` before this line."
                self.errors.fail("RG0702", f"`{name}` has no value yet: it is made in line {line}", node, hint)
            message = f"`{name}` is made in line {line}, and freed at the end of the block there"
            way = f"Make `{name}` before that block."
            if isinstance(made, ast.For):
                way = f"Use `{name}` within the loop; after it, write the last value as an expression, such as `n - 1`."
            self.errors.fail("RG0702", message, node, way)
        if isinstance(self.function, InnerFunction) and name in self.function.around:
            message = f"`{name}` is a variable of the function around `{self.function.__name__}`"
            hint = f"write `nonlocal {name}` at the head of `{self.function.__name__}` to change it"
            self.errors.fail("RG0702", message, node, hint)
        known = [n for n in (*self.scope.names, *self.function.names()) if n != name and n not in _UNLIKELY]
        self.errors.fail("RG0702", f"nothing is named `{name}` here", node, nearest(name, known))

    def _require_live(self, f: Value, node: ast.Name) -> None:
        """Refuse an inner function, or a tuple with one, that uses a variable which was freed."""
        if isinstance(f, StructValue) and f.type.is_tuple:
            for item in f.fields.values():
                self._require_live(item, node)
        for name, value in f.captured if isinstance(f, FunctionValue) else ():
            self._use(name, value, node)
            where = next((at for lost, at in self.scope.lost if lost is value), None)
            if where is not None:
                message = f"`{name}`, which `{node.id}` uses, was freed in line {where.line}"
                self.errors.fail("RG0702", message, node, f"Free `{name}` later, or define `{node.id}` again.")

    def _use(self, name: str, value: Value, node: ast.Name) -> None:
        """Note the use of a borrowed name. Raises RG0731 where its number has changed."""
        held = self.scope.borrowed.get(name)
        if held is not None and held.value is value:
            require_unchanged(self.errors, self.expressions.builder, name, held, node)
            held.used = max(held.used, self.scope.loops)

    def attribute(self, node: ast.Attribute) -> Value:
        x = self.expressions.value(node.value)
        name = node.attr
        match x:
            case StructValue(t, fields) if not t.is_tuple:
                if name in fields:
                    return fields[name]
                if is_complex(t) and name in ("real", "imag"):
                    return fields["re" if name == "real" else "im"]
                if hasattr(type(t.cls), name) or any(name in vars(c) for c in t.cls.__mro__):
                    wrapped = self._read(t.cls, name, node)
                    if isinstance(wrapped, FunctionValue):
                        return FunctionValue(wrapped.function, wrapped.backward, x)
                    if isinstance(wrapped, Constant) and isinstance(wrapped.value, FunctionType):
                        message = f"`{name}` of {t} is a method of Python, which cannot run on a machine"
                        hint = (
                            f"Decorate it with @reversible, and let it change a result: `def {name}(self, y): y += …`."
                        )
                        self.errors.fail("RG0701", message, node, hint)
                    return wrapped
                known = [*fields, *(n for n in dir(t.cls) if not n.startswith("_"))]
                near = nearest(name, known) or f"its fields are {', '.join(fields)}"
                self.errors.fail("RG0702", f"a {t} has no field `{name}`", node, near)
            case StackValue():
                s = shortened(node.value)
                ways = {"append": f"rg.push({s}, x)", "push": f"rg.push({s}, x)", "pop": f"x = rg.pop({s})"}
                way = ways.get(
                    name, f"rg.top({s})` for the last word, `{s}[i]` for another, `len({s})` for their number"
                )
                self.errors.fail(
                    "RG0702",
                    f"a stack has no attribute `{name}`",
                    node,
                    f"write `{way}{'' if way.endswith('number') else '`'}",
                )
            case ArrayView() | Lazy():
                return self._array_attribute(x, name, node)
            case Constant(v) if isinstance(v, np.ndarray) and name in ("shape", "size", "ndim", "T"):
                return Constant(getattr(v, name))
            case Constant(v):
                try:
                    return self._read(v, name, node)
                except AttributeError:
                    close = nearest(name, dir(v))
                    if isinstance(v, ModuleType) and v.__name__ == "retrograd":
                        close = intrinsics.NOT_HERE.get(name, close)
                    self.errors.fail("RG0702", f"`{shortened(node.value)}` has no attribute `{name}`", node, close)
            case FunctionValue(backward=backward) if name == "inverse":
                return replace(x, backward=not backward)
        own = shortened(node.value)
        how = f"write `{own}(…)`, and `~{own}(…)` for the inverse" if isinstance(x, FunctionValue) else None
        self.errors.fail("RG0702", f"{describe(x)} has no attribute `{name}`", node, how)

    def _read(self, owner: Any, name: str, node: ast.AST) -> Value:
        """The attribute of a Python object. Raises AttributeError."""
        found = self.errors.guarded(node, attribute, owner, name)
        self.expressions.captures.attribute(owner, name, found)
        return self.expressions.wrap(found)

    def _array_attribute(self, x: ArrayView | Lazy, name: str, node: ast.Attribute) -> Value:
        match name:
            case "shape" | "size" if not is_known(x.shape):
                message = f"`{shortened(node)}` is known only when the program runs"
                self.errors.fail(
                    "RG0717", message, node, f"`len({shortened(node.value)})` is the first length, as an int."
                )
            case "shape":
                return Constant(x.shape)
            case "size":
                return Constant(prod(map(bound, x.shape)))
            case "ndim":
                return Constant(len(x.shape))
            case "T" if isinstance(x, ArrayView):
                return ArrayView(x.element, x.shape[::-1], x.strides[::-1], x.address, x.why_not)
            case "T":
                return Lazy(x.shape[::-1], lambda index: element(x, index[::-1]))
        if isinstance(x, ArrayView) and not isinstance(x.element, ScalarType):
            fields = dict(x.element.fields)
            if is_complex(x.element) and name in ("real", "imag"):
                name = "re" if name == "real" else "im"
            inner = fields.get(name)
            if isinstance(inner, ScalarType):
                # The same field of each element: the same strides, from another word on.
                return ArrayView(inner, x.shape, x.strides, x.address.moved(x.element.offset(name)), x.why_not)
        self.errors.fail(
            "RG0702",
            f"{describe(x)} has no attribute `{name}`",
            node,
            f"write `rg.{name}({shortened(node.value)})`, with `axis=` where there is one"
            if name in intrinsics.INTRINSICS
            else "arrays have .shape, .size, .ndim and .T; len(x) is the length",
        )


def require_unchanged(errors: Errors, builder: IRBuilder, name: str, held: Borrowed, where: ast.AST | Span) -> None:
    """Refuse a name of a number that lies in an array or a variable which has changed since."""
    read = [found for part in held.parts for found in loads(part.e)]
    changed = next((p for p in held.versions if not builder.is_unchanged(p, held.versions, read)), None)
    if changed is not None:
        source = own_name(changed) if isinstance(changed, Region) else changed.name
        message = f"`{name}` was taken from `{source}`, which has changed since"
        hint = f"Copy the number before that, `t = {name}`, and use t; or use its index."
        errors.fail("RG0731", message, where, hint)


def _makes(node: ast.AST, name: str) -> bool:
    """Whether a statement makes a variable of this name."""
    match node:
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.For(target=target):
            targets = [target]
        case _:
            return False
    return any(
        isinstance(n, ast.Name) and n.id == name
        for t in targets
        for n in ([t, *t.elts] if isinstance(t, ast.Tuple) else [t])
    )


#: built-in names that are not suggested for a misspelt name
_UNLIKELY = set(vars(builtins)) - {
    "abs", "bool", "enumerate", "float", "int", "len", "max", "min", "print", "range", "reversed", "sum", "zip",
}  # fmt: skip
