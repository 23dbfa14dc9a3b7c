"""`t = e` and `del t`: variables, arrays, stacks and structs made and freed.

What is made with the value of e is freed by taking the value of e away: the inverse of making it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from retrograd.compiler.frontends.python.bijections import Bijections
from retrograd.compiler.frontends.python.evaluate import OPERATORS
from retrograd.compiler.frontends.python.operands import BOOL, FIXED, INT
from retrograd.compiler.frontends.python.scope import Made
from retrograd.compiler.frontends.python.sources.pure import need_iterable
from retrograd.compiler.ir.expressions import Address, E, const, load, loads, variables
from retrograd.compiler.ir.flatten import allocate, release
from retrograd.compiler.ir.opcode_facts import OPPOSITE
from retrograd.compiler.ir.statements import SP, Block, Const, Delocal, Kind, Local, Op, Region, Var, invert
from retrograd.compiler.language import intrinsics
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.comparisons import shortened
from retrograd.compiler.language.intrinsics import Intrinsic
from retrograd.compiler.language.types import ScalarType, StackType, StructType, element_of, scalar_of
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    row_major,
    variable,
)
from retrograd.isa.table import TABLE


class Making(Bijections):
    """Statements that make and free."""

    def _assign(self, target: ast.expr, value: ast.expr, annotation: ast.expr | None) -> None:
        match target, value:
            case ((ast.Tuple(elts=targets) | ast.List(elts=targets)), (ast.Tuple(elts=values) | ast.List(elts=values))):
                if len(targets) != len(values):
                    self.fail("RG0703", f"{len(targets)} names for {len(values)} values", target)
                left, right = [ast.unparse(x) for x in targets], [ast.unparse(x) for x in values]
                if sorted(left) == sorted(right):
                    self._permute(targets, values)
                    return
                for x, v in zip(targets, values, strict=True):
                    self._assign(x, v, None)
                return
            case ast.Name(id=name), _:
                pass
            case ast.Tuple(), _:
                found = self.value(value)
                if not isinstance(found, Constant):
                    self.fail("RG0703", f"`{shortened(value)}` is {describe(found)}, not several values", value)
                self._bind(target, found, target)
                return
            case _:
                hint = "update it with += or -=; to exchange, write `x, y = y, x`"
                self.fail("RG0706", f"`{shortened(target)}` holds a value already", target, hint)
        if name in self.names:
            self.fail("RG0706", f"`{name}` holds a value already", target, _as_update(name, value))
        if isinstance(value, ast.Call):
            made = self._constructed(name, value)
            if made is not None:
                self.names[name] = made
                return
        found = self.value(value)
        kind: Kind | None = None
        if annotation is not None:
            wanted = scalar_of(self.static(annotation, "a type"))
            if wanted is None:
                self.fail("RG0703", "a local variable is annotated as int, bool, fixed or lognum", annotation)
            kind = wanted.kind
        self.names[name] = self.make(name, found, kind, value, fixed_name=name not in self.changed)

    def _bind(self, target: ast.expr, value: Value, node: ast.AST) -> None:
        match target:
            case ast.Name(id=name):
                if name in self.names:
                    self.fail("RG0706", f"`{name}` holds a value already", target)
                self.names[name] = value
            case ast.Tuple(elts=targets) if isinstance(value, Constant) and isinstance(value.value, tuple | list):
                self.guarded(node, need_iterable, value.value)
                if len(targets) != len(value.value):
                    self.fail("RG0703", f"{len(targets)} names for {len(value.value)} values", target)
                for x, v in zip(targets, value.value, strict=True):
                    self._bind(x, self.wrap(v), node)
            case _:
                self.fail("RG0701", f"`{shortened(target)}` is no name for the values of a loop", target)

    def make(self, name: str, value: Value, kind: Kind | None, node: ast.expr, fixed_name: bool = False) -> Value:
        """`name = value`: a new variable, a copy of an array expression, or another name for a view."""
        match value:
            case Constant(v):
                own = number_kind(v)
                if own is None or (fixed_name and kind is None):
                    return value  # a name for a constant
                e: E = self.guarded(node, self.arithmetic.expression, value, kind)
                return self._make_scalar(name, e, node)
            case Scalar():
                e = self.guarded(node, self.arithmetic.expression, value, kind)
                return self._make_scalar(name, e, node)
            case StructValue(t, fields) if isinstance(node, ast.Call):
                made = {}
                for field_name, inner in fields.items():
                    wanted = dict(t.fields)[field_name]
                    inner_kind = wanted.kind if isinstance(wanted, ScalarType) else None
                    made[field_name] = self.make(f"{name}.{field_name}", inner, inner_kind, node)
                return StructValue(t, made)
            case Lazy():
                return self._make_array(name, value, node)
            case ArrayView() | StructValue() | StackValue():
                return self._view(name, value, node)
            case _:
                return value  # a function: another name for it

    def _view(self, name: str, value: Value, node: ast.AST) -> Value:
        """`row = a[i]`: another name for what lies there now; where i may change, the address is kept in a variable."""
        addresses = {a for a in _addresses(value) if any(not self._settled(e) for e, _ in a.terms)}
        moved: dict[tuple[Any, ...], Address] = {}
        for a in addresses:
            key = (a.region, a.base, a.terms)
            if key not in moved:
                moved[key] = self._located(name, a._replace(offset=0), node)
        if not moved:
            return value
        return _relocated(value, moved)

    def _settled(self, e: E) -> bool:
        """Whether the value of an index is the same as long as it is in scope: made of constants and loops' indices."""
        return not loads(e) and variables(e) <= self.settled

    def _located(self, name: str, at: Address, node: ast.AST) -> Address:
        """An address kept in a variable."""
        base = Var(f"{name}.base", Kind.ADDRESS, self.source.span(node))

        def nodes() -> Block:
            t = self.temporaries()
            a, imm = t.address(at)
            body = [Op(TABLE["mov.add"], base, a, None, 0, t.span)]
            if imm:
                body.append(Op(TABLE["mov.add"], base, Const(self.w.wrap(imm)), None, 0, t.span))
            return (Local(base, False, t.span), *t.wrap(tuple(body)))

        self.emit(nodes())
        made_node = self.node

        def undo(checked: bool) -> Block:
            self.node = made_node
            return tuple(n._replace(checked=checked) if isinstance(n, Delocal) else n for n in invert(nodes()))

        operands = self.snapshot(*(e for e, _ in at.terms))
        self.made.append(Made(name, variable(base), (base,), undo, operands, self.depth, node))
        return Address(at.region, base)

    def _make_scalar(self, name: str, e: E, node: ast.AST) -> Value:
        var = Var(name, e.kind, self.source.span(node))
        t = self.temporaries()
        self.emit(allocate(t, var, e), var)
        result = variable(var)
        span_node = self.node

        def undo(checked: bool) -> Block:
            if self.node is node:
                self.node = span_node
            return release(self.temporaries(), var, e, checked)

        made = Made(name, result, (var,), undo, self.snapshot(e), self.depth, node, initial=e)
        self.made.append(made)
        if e.op == "const" and e.kind is INT:
            self.constants[var] = self.w.signed(e.param)
        return result

    def _new_array(
        self, name: str, t: ScalarType | StructType | StackType, shape: tuple[int, ...], node: ast.AST
    ) -> tuple[Value, Region, Block, Block]:
        """A stretch of zeroed memory: (the array in it, its region, what makes it, what frees it)."""
        size = prod(shape) * t.size
        span = self.source.span(node)
        if not self.recursive:
            region = self.module.static_region(f"{self.function.__name__}.{name}", size, span)
            address, before, after = Address(region, None), (), ()
            first: Block = before
            last: Block = after
        else:
            # A recursive function is active more than once: its arrays lie on the stack.
            region = Region(name, size, span=span)
            base = Var(f"{name}.base", Kind.ADDRESS, span)
            address = Address(region, base)
            first = (
                Local(base, False, span),
                Op(TABLE["mov.add"], base, SP, None, 0, span),
                Op(TABLE["mov.add"], SP, Const(size), None, 0, span),
            )
            last = invert(first)
        if isinstance(t, StackType):
            return StackValue(t, address), region, first, last
        return ArrayView(t, shape, row_major(shape, t.size), address), region, first, last

    def _make_array(self, name: str, value: Lazy, node: ast.AST) -> Value:
        """`name = array expression`: a copy of its values."""
        sample = value.element(tuple(const(0, INT) for _ in value.shape))
        if not isinstance(sample, Scalar | Constant):
            self.fail("RG0703", f"an array of {describe(sample)} cannot be copied", node)
        kind = self.guarded(node, self.arithmetic.expression, sample).kind
        view, region, first, last = self._new_array(name, ScalarType(kind), value.shape, node)
        assert isinstance(view, ArrayView)
        reads = self._element_reads(value)
        operands = self.snapshot(*reads)
        update = {FIXED: "add", INT: "add", BOOL: "xor", Kind.LOGNUM: "mul"}[kind]
        self.emit(first)
        place = (self.out, len(self.out))
        self._update_array(view, update, value, node)
        start = self.versions[region]
        made_node = self.node

        def undo(checked: bool) -> Block:
            self.node = made_node
            outer, self.out = self.out, []
            written, versions = set(self.written), Counter(self.versions)
            self._update_array(view, OPPOSITE[update], value, node)
            nodes = tuple(self.out)
            self.out, self.written, self.versions = outer, written, versions
            return (*nodes, *(self._all_zero(view) if checked else ()), *last)

        parts: tuple[Var | Region, ...] = (region, *_base(view))
        self.made.append(Made(name, view, parts, undo, operands | {region: start}, self.depth, node, emitted=place))
        return view

    def _element_reads(self, value: Lazy) -> list[E]:
        found = value.element(tuple(const(0, INT) for _ in value.shape))
        return [found.e] if isinstance(found, Scalar) else []

    def _constructed(self, name: str, node: ast.Call) -> Value | None:
        """`rg.zeros(…)` and the like; None for any other call."""
        f = self.value(node.func)
        if not (isinstance(f, Constant) and isinstance(f.value, Intrinsic) and f.value.role == intrinsics.CONSTRUCTOR):
            return None
        which = f.value.__name__
        t: ScalarType | StructType | StackType | None
        if which == "stack":
            if len(node.args) != 2 or node.keywords:
                self.fail("RG0715", "rg.stack takes a type and a capacity", node)
            inner = scalar_of(self.static(node.args[0], "the type of a stack's values"))
            if inner is None:
                self.fail("RG0703", "a stack holds int, bool, fixed or lognum", node.args[0])
            capacity = self.static_int(node.args[1], "a stack's capacity")
            if capacity < 0:
                self.fail("RG0703", f"a stack's capacity is an integer from 0 on, not {capacity}", node.args[1])
            t = StackType(inner, capacity)
            shape: tuple[int, ...] = (1,)
        elif which == "copy":
            if len(node.args) != 1 or node.keywords:
                self.fail("RG0715", "rg.copy takes an array, a struct or a number", node)
            return self._copy(name, self.value(node.args[0]), node)
        elif which == "zeros_like":
            if len(node.args) != 1:
                self.fail("RG0715", "rg.zeros_like takes an array", node)
            model = self.value(node.args[0])
            if isinstance(model, Lazy):
                sample = model.element(tuple(const(0, INT) for _ in model.shape))
                t, shape = ScalarType(self.guarded(node, self.arithmetic.expression, sample).kind), model.shape
            elif isinstance(model, ArrayView):
                t, shape = model.element, model.shape
            else:
                self.fail("RG0703", f"{describe(model)} is no array", node)
        else:
            dtype = next((k.value for k in node.keywords if k.arg == "dtype"), None)
            if any(k.arg != "dtype" for k in node.keywords):
                self.fail("RG0715", "rg.zeros takes lengths, and dtype=", node)
            t = ScalarType(FIXED) if dtype is None else element_of(self.static(dtype, "a type"))
            if t is None:
                self.fail("RG0703", "an array holds int, bool, fixed, lognum or structs", node)
            lengths = [self.static(a, "an array's length") for a in node.args]
            if len(lengths) == 1 and isinstance(lengths[0], tuple | list):
                lengths = list(lengths[0])
            if not all(number_kind(n) is INT and n >= 0 for n in lengths):
                self.fail("RG0703", f"lengths are integers from 0 on, not {lengths}", node)
            shape = tuple(int(n) for n in lengths)
        view, region, first, last = self._new_array(name, t, shape, node)
        self.emit(first)
        place = (self.out, len(self.out))

        def undo(checked: bool) -> Block:
            assert isinstance(view, ArrayView | StackValue)
            return (*(self._all_zero(view) if checked else ()), *last)

        operands: dict[Var | Region, int] = {region: self.versions[region]}
        parts: tuple[Var | Region, ...] = (region, *_base(view))
        self.made.append(Made(name, view, parts, undo, operands, self.depth, node, emitted=place))
        return view

    def _copy(self, name: str, value: Value, node: ast.Call) -> Value:
        """`t = rg.copy(x)`: a variable, array or struct of its own, with the values of x."""
        if isinstance(value, ArrayView) and isinstance(value.element, ScalarType):
            view = value
            return self._make_array(name, Lazy(view.shape, lambda index: element(view, index)), node)
        if isinstance(value, StructValue):
            return StructValue(value.type, {f: self._copy(f"{name}.{f}", v, node) for f, v in value.fields.items()})
        if isinstance(value, ArrayView | StackValue):
            self.fail("RG0703", f"{describe(value)} cannot be copied whole", node, "Copy its fields or elements.")
        return self.make(name, value, None, node)

    def _delete(self, target: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            self.fail("RG0701", "`del` frees a variable by its name", target)
        name = target.id
        if name not in self.names:
            found = self.value(target)  # says that it is unknown, or freed
            message = f"`{name}` is {describe(found)} from outside this function, and cannot be freed"
            self.fail("RG0709", message, target, "Remove the `del`.")
        own = [m for m in self.made if m.name == name or m.name.startswith(f"{name}.")]
        value = self.names[name]
        own = [m for m in own if _belongs(m, value)]
        if not own:
            if isinstance(value, Constant):
                del self.names[name]
                return
            self.fail(
                "RG0709", f"`{name}` was not made in this function, and cannot be freed", target, "Remove the `del`."
            )
        for made in reversed(own):
            self._release(made, target)
        self.names.pop(name, None)
        self.freed[name] = self.source.span(target)

    def _free(self, args: Sequence[ast.expr], call: ast.Call) -> None:
        """`rg.free(x, e)`: e is taken from x, which must then be zero."""
        target = args[0]
        if not isinstance(target, ast.Name):
            self.fail("RG0701", "rg.free takes a variable by its name", target)
        value = self.place(target)
        made = next((m for m in self.made if m.name == target.id and m.value is value), None)
        if made is None or not isinstance(value, Scalar):
            self.fail("RG0709", f"`{target.id}` is no variable that was made in this function", target)
        assert isinstance(value.place, Var)
        e: E = self.guarded(call, self.arithmetic.expression, self.value(args[1]), value.kind)
        if value.place in variables(e):
            self.fail("RG0704", f"the value that `{target.id}` is said to have depends on it", call)
        known = made.history == [] and made.initial == e and made.operands == self.snapshot(e) and not made.gone
        if not known:
            self._test_at_birth(made)
        block = release(self.temporaries(), value.place, e, not known)
        self.made.remove(made)
        self.emit(block)
        del self.names[target.id]
        self.freed[target.id] = self.source.span(call)


def _base(view: Value) -> tuple[Var, ...]:
    base = view.address.base if isinstance(view, ArrayView | StackValue) else None
    return () if base is None else (base,)


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
    """The view with its addresses replaced, offsets kept."""

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


def _belongs(made: Made, value: Value) -> bool:
    if made.value is value:
        return True
    return isinstance(value, StructValue) and any(_belongs(made, inner) for inner in value.fields.values())


def _as_update(name: str, value: ast.expr) -> str | None:
    """`x = x + e` and `x = e` as what was meant, perhaps."""
    match value:
        case ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as op, right=right) if left == name:
            return f"write `{name} {OPERATORS[type(op)]}= {ast.unparse(right)}`"
        case ast.Call():
            return None
    return f"write `{name} += {shortened(value)}` to add to what it holds, or choose another name"
