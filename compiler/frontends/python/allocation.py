"""Allocation of locals: `t = e`, `rg.zeros(n)`, `rg.stack(fixed, n)`, `rg.copy(x)`.

t = e      local t = 0; t += e        freed by the inverse: t −= e; delocal t = 0
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from retrograd.compiler.frontends.builder import IRBuilder, Versions
from retrograd.compiler.frontends.owned_locals import OwnedLocal, OwnedLocals
from retrograd.compiler.frontends.python.arguments import items_of
from retrograd.compiler.frontends.python.expressions import ExpressionLowering
from retrograd.compiler.frontends.python.indexing import MADE_BY
from retrograd.compiler.frontends.python.source import Errors, shortened
from retrograd.compiler.frontends.python.updates import Updates
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    Length,
    RunLength,
    load,
    loads,
    read,
    variables,
)
from retrograd.compiler.ir.flatten import allocate, release
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import SP, Block, Const, Delocal, Kind, Local, Node, Op, Region, Var, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import (
    COMPLEX,
    LARGEST,
    ScalarType,
    StackType,
    StructType,
    bound,
    element_of,
    is_complex,
    is_known,
    layouts,
    note_range,
    part_name,
    row_major,
    scalar_of,
    value_of,
    words_of,
)
from retrograd.compiler.language.types import operands as lengths_read
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    is_number,
    variable,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE

INT, FIXED, BOOL = Kind.INT, Kind.FIXED, Kind.BOOL


@dataclass(eq=False)
class Allocation:
    """Allocates the locals of a function."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    locals: OwnedLocals
    updates: Updates
    #: see Assignments
    changed: frozenset[str]
    #: the name of the function, for its regions
    owner: str
    #: whether more than one activation of the function may be live
    recursive: bool

    def allocate(self, name: str, value: Value, kind: Kind | None, node: ast.expr, fixed_name: bool = False) -> Value:
        """`name = value`: a new variable, a copy of an array expression, or another name for a view.

        `fixed_name`: the function does not change the name, so that it may stand for a constant.
        """
        match value:
            case Constant(complex()) if not fixed_name:
                return self.allocate(name, self.expressions.arithmetic.complex.of_type(COMPLEX, value), kind, node)
            case Constant(v) if number_kind(v) is None or (fixed_name and kind is None):
                return value  # a name for a constant
            case Constant() | Scalar():
                e = self.expressions.number(value, node, kind)
                return self._scalar(name, e, node)
            case StructValue(t, fields) if t.is_tuple and isinstance(node, ast.Tuple | ast.List):
                # Values of expressions become variables; variables that the function does not change get another name.
                made: dict[str, Value] = {}
                for at, (f, v) in zip(items_of(node, len(fields)), fields.items(), strict=True):
                    named = isinstance(at, ast.Name) and at.id not in self.changed and is_number(v)
                    made[f] = v if named else self.allocate(part_name(name, t, f), v, None, node)
                return StructValue(t, made)
            case StructValue(t, fields) if (
                t == COMPLEX
                or isinstance(node, ast.Call | ast.BinOp | ast.UnaryOp)
                or any(isinstance(v, Scalar) and v.place is None for v in fields.values())
            ):
                made = {}
                for field_name, inner in fields.items():
                    wanted = dict(t.fields)[field_name]
                    inner_kind = wanted.kind if isinstance(wanted, ScalarType) else None
                    made[field_name] = self.allocate(f"{name}.{field_name}", inner, inner_kind, node)
                return StructValue(t, made)
            case Lazy() if isinstance(node, ast.IfExp) and not _are_new(node.body, node.orelse):
                message = f"`{name}` would be a new array; in Python it is another name for one of two"
                hint = f"Write `rg.select({shortened(node.test)}, {shortened(node.body)}, {shortened(node.orelse)})` for a new array."
                self.errors.fail("RG0731", message, node, hint)
            case Lazy():
                return self._array(name, value, node)
            case ArrayView() | StructValue() | StackValue():
                return self.held(name, value, node)
            case _:
                return value  # a function: another name for it

    def held(self, name: str, value: Value, node: ast.AST) -> Value:
        """`row = a[i]`: another name for the elements. Where i may change, a variable holds their address."""
        moved: dict[tuple[Any, ...], Address] = {}
        for a in _addresses(value):
            key = (a.region, a.base, a.terms)
            # An index made of constants and indices of loops does not change while it is in scope.
            settled = all(not loads(e) and variables(e) <= self.builder.settled for e, _ in a.terms)
            if not settled and key not in moved:
                moved[key] = self._located(name, a._replace(offset=0), node)
        return _relocated(value, moved) if moved else value

    def _located(self, name: str, at: Address, node: ast.AST) -> Address:
        """The address, held in a variable."""
        base = Var(f"{name}.base", Kind.ADDRESS, self.errors.span(node))

        def nodes() -> Block:
            t = self.builder.temporaries()
            a, imm = t.address(at)
            body = [Op(TABLE["mov.add"], base, a, None, 0, t.span)]
            if imm:
                body.append(Op(TABLE["mov.add"], base, Const(self.builder.w.wrap(imm)), None, 0, t.span))
            return (Local(base, False, t.span), *t.wrap(tuple(body)))

        self.builder.emit(nodes())
        statement = self.builder.span

        def undo(checked: bool, _: Span | None) -> Block:
            self.builder.span = statement
            return tuple(n._replace(checked=checked) if isinstance(n, Delocal) else n for n in invert(nodes()))

        operands = self.builder.snapshot(*(e for e, _ in at.terms))
        self.locals.add(OwnedLocal(name, variable(base), (base,), undo, operands, self.errors.span(node)))
        return Address(at.region, base)

    def _scalar(self, name: str, e: E, node: ast.AST) -> Value:
        var = Var(name, e.kind, self.errors.span(node))
        t = self.builder.temporaries()
        self.builder.emit(allocate(t, var, e), var)
        result = variable(var)
        statement = self.builder.span

        def undo(checked: bool, where: Span | None) -> Block:
            if where is None:
                self.builder.span = statement
            return release(self.builder.temporaries(), var, e, checked)

        operands = self.builder.snapshot(e)
        made = OwnedLocal(name, result, (var,), undo, operands, self.errors.span(node), read=loads(e), initial=e)
        self.locals.add(made)
        return result

    def _new_array(
        self, name: str, t: ScalarType | StructType | StackType, shape: Sequence[Length], node: ast.AST
    ) -> tuple[ArrayView | StackValue, Block]:
        """Zeroed memory: the array or stack in it, and the statements that put its words on the stack."""
        span = self.errors.span(node)
        kept: Block = ()
        if shape and isinstance(shape[0], RunLength):
            kept, length = self._kept_length(name, shape[0], span)
            shape = (length, *shape[1:])
        unknown = next((n for n in shape[1:] if isinstance(n, RunLength)), None)
        if unknown is not None:
            message = f"`{name}` has an axis after the first whose length is known only when the program runs"
            hint = "Let that axis be the first, or give it its greatest length and use a part of it: `t[i, :n]`."
            self.errors.fail("RG0717", message, node, hint)
        strides = row_major(tuple(map(bound, shape)), t.size)
        size = words_of((*shape, t.size))
        if is_known(shape) and not self.recursive:
            inside = tuple(layouts(t, name, shape=tuple(shape), strides=strides))
            region = self.builder.module.static_region(f"{self.owner}.{name}", bound(size), span, layouts=inside)
            address = Address(region, None)
            first: Block = ()
        else:
            # Each activation of a recursive function has its own arrays, on the stack.
            inside = tuple(layouts(t, name, shape=tuple(shape), strides=strides)) if is_known(shape) else ()
            region = Region(name, size if isinstance(size, int) else 1, span=span, layouts=inside)
            base = Var(f"{name}.base", Kind.ADDRESS, span)
            address = Address(region, base)
            words = self.builder.temporaries()
            grown = Op(TABLE["mov.add"], SP, words.operand(value_of(size)), None, 0, span)
            first = (
                *kept,
                Local(base, False, span),
                Op(TABLE["mov.add"], base, SP, None, 0, span),
                *words.wrap((grown,)),
            )
        if isinstance(t, StackType):
            return StackValue(t, address), first
        return ArrayView(t, tuple(shape), strides, address), first

    def _kept_length(self, name: str, length: RunLength, span: Span) -> tuple[Block, RunLength]:
        """The length in a variable of its own, which does not change while the array lives, and the statements that make it."""
        t = self.builder.temporaries()
        t.require(length.checks)
        var = Var(f"{name}.length", INT, span)
        return allocate(t, var, length.e), replace(length, e=read(var), checks=())

    def _array(self, name: str, value: Lazy, node: ast.AST) -> Value:
        """`name = array expression`: a copy of its values."""
        sample = self._any_element(value)
        if isinstance(sample, StructValue) and is_complex(sample.type):
            view, first = self._new_array(name, sample.type, value.shape, node)
            kind, reads = FIXED, [v.e for v in sample.fields.values() if isinstance(v, Scalar)]
        elif isinstance(sample, Scalar | Constant):
            kind = self.expressions.number(sample, node).kind
            view, first = self._new_array(name, ScalarType(kind), value.shape, node)
            reads = [sample.e] if isinstance(sample, Scalar) else []
        else:
            self.errors.fail("RG0703", f"an array of {describe(sample)} cannot be copied", node)
        assert isinstance(view, ArrayView)
        operands = self.builder.snapshot(*reads)
        update = MADE_BY[kind]
        self.builder.emit(first)
        place = (self.builder.out, len(self.builder.out))
        self.updates.update_array(view, update, value, node)
        region = view.address.region
        start = self.builder.versions[region]
        statement = self.builder.span

        def undo(checked: bool, _: Span | None) -> Block:
            builder = self.builder
            builder.span = statement
            written, versions = set(builder.written), Counter(builder.versions)
            with builder.collect() as nodes:
                self.updates.update_array(view, OPPOSITE[update], value, node)
            builder.written, builder.versions = written, versions
            return (*nodes, *(self.locals.zero_tests(view) if checked else ()))

        operands |= {region: start, **self.builder.snapshot(*lengths_read(value.shape))}
        read = [found for e in reads for found in loads(e)]
        self._own(name, view, undo, operands, node, place, first, read)
        return view

    def _any_element(self, array: Lazy) -> Value:
        """An element at indices that stand for all."""
        indices = [Var(f"i{axis}", INT) for axis in range(len(array.shape))]
        for var, length in zip(indices, array.shape, strict=True):
            note_range(self.builder.ranges, var, length, self.builder.w)
        return array.element(tuple(read(v) for v in indices))

    def _own(
        self,
        name: str,
        view: ArrayView | StackValue,
        undo: Callable[[bool, Span | None], Block],
        operands: Versions,
        node: ast.AST,
        emitted: tuple[list[Node], int],
        first: Block,
        read: Sequence[tuple[Address, int]] | None = None,
    ) -> None:
        span = self.errors.span(node)
        made = OwnedLocal(
            name, view, _parts(view), undo, operands, span, read=read, emitted=emitted, frame=invert(first)
        )
        self.locals.add(made)

    def constructed(self, name: str, node: ast.Call) -> Value | None:
        """`name = rg.zeros(…)` and other calls of constructors; None for any other call."""
        f = self.expressions.value(node.func)
        if not (isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.CONSTRUCTOR):
            return None
        t: ScalarType | StructType | StackType
        shape: tuple[Length, ...]
        match f.value.__name__:
            case "copy":
                if len(node.args) != 1 or node.keywords:
                    self.errors.fail("RG0715", "rg.copy takes an array, a struct or a number", node)
                return self._copy(name, self.expressions.value(node.args[0]), node)
            case "stack":
                t, shape = self._stack(node), (1,)
            case "zeros_like":
                t, shape = self._like(node)
            case _:
                t, shape = self._zeros(node)
        view, first = self._new_array(name, t, shape, node)
        self.builder.emit(first)
        place = (self.builder.out, len(self.builder.out))

        def undo(checked: bool, _: Span | None) -> Block:
            return self.locals.zero_tests(view) if checked else ()

        region = view.address.region
        operands: Versions = {region: self.builder.versions[region], **self.builder.snapshot(*lengths_read(shape))}
        self._own(name, view, undo, operands, node, place, first)
        return view

    def _stack(self, node: ast.Call) -> StackType:
        if len(node.args) != 2 or node.keywords:
            self.errors.fail("RG0715", "rg.stack takes a type and a capacity", node, "write `s = rg.stack(int, 100)`")
        element = scalar_of(self.expressions.static(node.args[0], "the type of a stack's values"))
        if element is None:
            hint = "Push the fields or elements one after the other, and pop them in the opposite order."
            self.errors.fail("RG0703", "a stack holds int, bool, fixed or lognum", node.args[0], hint)
        capacity = self.expressions.static_int(node.args[1], "a stack's capacity")
        if capacity < 0:
            self.errors.fail("RG0703", f"a stack's capacity is an integer from 0 on, not {capacity}", node.args[1])
        return StackType(element, capacity)

    def _like(self, node: ast.Call) -> tuple[ScalarType | StructType, tuple[Length, ...]]:
        if len(node.args) != 1:
            self.errors.fail("RG0715", "rg.zeros_like takes an array", node)
        model = self.expressions.value(node.args[0])
        if isinstance(model, Lazy):
            e = self.expressions.number(self._any_element(model), node)
            return ScalarType(e.kind), model.shape
        if not isinstance(model, ArrayView):
            self.errors.fail("RG0703", f"{describe(model)} is no array", node)
        return model.element, model.shape

    def _zeros(self, node: ast.Call) -> tuple[ScalarType | StructType, tuple[Length, ...]]:
        dtype = next((k.value for k in node.keywords if k.arg == "dtype"), None)
        if any(k.arg != "dtype" for k in node.keywords):
            self.errors.fail("RG0715", "rg.zeros takes lengths, and dtype=", node)
        t = ScalarType(FIXED) if dtype is None else element_of(self.expressions.static(dtype, "a type"))
        if t is None and dtype is not None:
            hint = "Write `dtype=fixed`, int, bool, lognum, or a struct whose lengths are all known."
            self.errors.fail("RG0703", f"an array cannot hold `{shortened(dtype)}`", dtype, hint)
        assert t is not None
        given = node.args
        if len(given) == 1 and isinstance(given[0], ast.Tuple | ast.List):
            given = given[0].elts
        lengths: list[Length] = []
        for a in given:
            n = self.expressions.value(a)
            if isinstance(n, Scalar) and (known := self.locals.constant(n, self.errors.span(a))) is not None:
                n = Constant(known)
            if isinstance(n, Constant) and isinstance(n.value, tuple | list) and len(given) == 1:
                lengths += n.value
            elif isinstance(n, Constant):
                lengths.append(n.value)
            else:
                lengths.append(self._run_length(n, a))
        wrong = [n for n in lengths if not isinstance(n, RunLength) and (number_kind(n) is not INT or n < 0)]
        if wrong:
            self.errors.fail("RG0703", f"lengths are integers from 0 on, not {wrong[0]!r}", node)
        return t, tuple(n if isinstance(n, RunLength) else int(n) for n in lengths)

    def _run_length(self, value: Value, node: ast.expr) -> RunLength:
        e = self.expressions.whole(value, node)
        most = min(LARGEST, self.builder.w.sign - 1)
        message = f"the length `{shortened(node)}` is {{a}}, and must lie between 0 and {most}"
        checks = (InRange(e, most + 1, message, self.errors.span(node)),)
        return RunLength(e, most, checks, shortened(node), self.builder.meaning(e))

    def _copy(self, name: str, value: Value, node: ast.Call) -> Value:
        """`name = rg.copy(x)`: a new variable, array or struct with the values of x."""
        if isinstance(value, ArrayView) and (isinstance(value.element, ScalarType) or is_complex(value.element)):
            view = value
            return self._array(name, Lazy(view.shape, lambda index: element(view, index)), node)
        if isinstance(value, StructValue):
            return StructValue(value.type, {f: self._copy(f"{name}.{f}", v, node) for f, v in value.fields.items()})
        if isinstance(value, ArrayView | StackValue):
            hint = "Copy its fields or elements."
            self.errors.fail("RG0703", f"{describe(value)} cannot be copied whole", node, hint)
        return self.allocate(name, value, None, node)


def _are_new(*nodes: ast.expr) -> bool:
    """Whether the values of expressions have no other name."""
    return not any(isinstance(node, ast.Name | ast.Attribute | ast.Subscript) for node in nodes)


def _parts(view: ArrayView | StackValue) -> tuple[Var | Region, ...]:
    region, base = view.address.region, view.address.base
    return (region,) if base is None else (region, base)


def _addresses(value: Value) -> Iterator[Address]:
    """The addresses that a view consists of."""
    match value:
        case Scalar(_, Address() as a):
            yield a
        case ArrayView(address=a) | StackValue(address=a):
            yield a
        case StructValue(_, fields):
            for inner in fields.values():
                yield from _addresses(inner)
        case _:
            pass


def _relocated(value: Value, moved: dict[tuple[Any, ...], Address]) -> Value:
    """The view with other addresses at the same offsets."""

    def address(a: Address) -> Address:
        found = moved.get((a.region, a.base, a.terms))
        return a if found is None else found.moved(a.offset)

    match value:
        case Scalar(e, Address() as a, why_not):
            return Scalar(load(address(a), e.kind), address(a), why_not)
        case ArrayView() | StackValue():
            return replace(value, address=address(value.address))
        case StructValue(t, fields):
            return StructValue(t, {name: _relocated(inner, moved) for name, inner in fields.items()})
        case _:
            return value
