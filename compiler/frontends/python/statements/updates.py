"""Updates `x op= e` of one word, of each element of an array, or of each field of a struct.

x ⊕= e, where e does not read x        inverse: the opposite operator, with the same e
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from math import gcd

from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.owned_locals import OwnedLocals
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.expressions.operators import OPERATORS
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.locations import Locations
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Address, E, difference_of, interval, loads, read, variables
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import Kind, Local, Node, Var
from retrograd.compiler.language.arithmetic import broadcast, element
from retrograd.compiler.language.types import bound, is_complex, is_empty, note_range
from retrograd.compiler.language.values import (
    ArrayView,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    is_number,
    scalars,
)

INT, UINT, FIXED, BOOL = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL

_UPDATES: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.BitXor: "xor", ast.Mult: "mul", ast.Div: "div",
}  # fmt: skip

SIGNS = {"add": "+=", "sub": "-=", "xor": "^=", "mul": "*=", "div": "/="}

#: kind → its updates
_DEFINED = {
    INT: ("add", "sub", "xor"), UINT: ("add", "sub", "xor"), FIXED: ("add", "sub"), BOOL: ("xor",), Kind.LOGNUM: ("mul", "div"),
}  # fmt: skip


def is_update(op: ast.operator, kind: Kind | None) -> bool:
    """Whether a kind has the augmented assignment of an operator."""
    return kind is not None and _UPDATES.get(type(op)) in _DEFINED[kind]


@dataclass(eq=False)
class Updates:
    """Lowers augmented assignments."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    locals: OwnedLocals
    locations: Locations
    blocks: Blocks

    def lower(self, node: ast.AugAssign) -> None:
        target, op, value = node.target, node.op, node.value
        update = _UPDATES.get(type(op))
        if isinstance(op, ast.MatMult):
            hint = "make a new array with rg.zeros, and add the product to it"
            self.errors.fail("RG0701", f"`{shortened(node)}` cannot be undone", node, hint)
        if update is None:
            sign = OPERATORS.get(type(op), "@")
            hint = f"make a new variable, `t = {ast.unparse(target)} {sign} {ast.unparse(value)}`"
            if isinstance(op, ast.LShift | ast.RShift):
                hint += f"; or turn the bits around with rg.{'rol' if isinstance(op, ast.LShift) else 'ror'}"
            message = f"`{shortened(node)}` cannot be undone: it forgets a part of `{shortened(target)}`"
            self.errors.fail("RG0701", message, node, hint)
        place, found = self.locations.location(target), self.expressions.value(value)
        if isinstance(place, StructValue) and not is_number(place):
            self.locations.refuse_other_names([target], [place])
        self._update_value(place, update, self.expressions.stored(found, value), node, target)

    def _update_value(self, place: Value, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        match place:
            case Scalar():
                self.update(place, update, value, node, target)
            case ArrayView():
                self.update_array(place, update, value, node)
            case StructValue(t) if is_complex(t) and update in _DEFINED[FIXED]:
                self.update_complex(place, update, value, node, target)
            case StructValue():
                self._update_struct(place, update, value, node, target)
            case _:
                message = f"`{shortened(target)}` is {describe(place)}, which has no {SIGNS[update]}"
                s = shortened(target)
                hint = f"Push a value, `rg.push({s}, x)`, or change a word: `{s}[-1] {SIGNS[update]} …`."
                self.errors.fail("RG0703", message, node, hint if isinstance(place, StackValue) else None)

    def _update_struct(self, place: StructValue, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        """`place update= value` for each field, of two structs of one type."""
        if update not in ("add", "sub"):
            message = f"{SIGNS[update]} is not defined for a {place.type}"
            way = "structs have += and −=; update its fields, or make a new variable, `t = …`"
            if is_complex(place.type) and isinstance(node, ast.AugAssign):
                made = f"t = {shortened(target)} {OPERATORS[type(node.op)]} {shortened(node.value)}"
                way = f"a product may lose digits: make a new variable, `{made}`"
            self.errors.fail("RG0703", message, node, way)
        if not isinstance(value, StructValue) or value.type != place.type:
            field = f"{shortened(target)}.{next(iter(place.fields))}"
            way = f"add a {place.type}, or update its fields, `{field} {SIGNS[update]} …`"
            message = f"`{shortened(target)}` is {describe(place)}, and {describe(value)} is no {place.type}"
            self.errors.fail("RG0703", message, getattr(node, "value", node), way)
        t = self.builder.temporaries()
        earlier: list[Scalar] = []
        for name, inner in place.fields.items():
            for changed in earlier:
                for x in scalars(value.fields[name]):
                    self._refuse_crossed(t, changed, x.e, node, target)
            earlier += scalars(inner)
        self.builder.emit(t.wrap(()))
        for name, inner in place.fields.items():
            self._update_value(inner, update, value.fields[name], node, target)

    def _refuse_crossed(self, t: Temporaries, changed: Scalar, e: E, node: ast.AST, target: ast.AST) -> None:
        """Refuse, or test, that the value of a field reads a field that is changed before it: `a += V(b.x, a.x)`."""
        where = changed.place
        assert where is not None
        self.locations.refuse_overlap(t, e, where, node, target)

    def _operand(self, place: Scalar, update: str, value: Value, node: ast.AST) -> E:
        """The expression of the right-hand side, of the kind of the place."""
        kind = place.kind
        if update not in _DEFINED[kind]:
            message = f"{SIGNS[update]} is not defined for {'an' if kind is INT else 'a'} {kind.value}"
            self.errors.fail("RG0703", message, node, _instead(update, kind, node))
        at = node.value if isinstance(node, ast.AugAssign) else node
        if isinstance(value, ArrayView | Lazy):
            hint = f"rg.sum({shortened(at)}) is the sum of its elements" if at is not node else None
            self.errors.fail("RG0712", f"{describe(value)} is added to one number", at, hint)
        if kind in (INT, UINT):
            # `u += n` and `n += u` of an int n and a uint u are sums mod 2^W, as `u + n` is.
            return self.errors.guarded(at, self.expressions.arithmetic.modulo, value, kind)
        return self.expressions.number(value, at, kind)

    def update(self, place: Scalar, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        """`place update= value`."""
        e = self._operand(place, update, value, node)
        t = self.builder.temporaries()
        where = place.place
        assert where is not None
        self.locations.independent(t, [(where, target)], [e], node)
        body: list[Node] = []
        if isinstance(where, Address) and place.kind in (INT, UINT, BOOL) and e.op in ("const", "read", "load"):
            # One instruction updates the word in memory.
            body.append(t.memory(f"st.{update}", t.operand(e), where))
        else:
            d = where if isinstance(where, Var) else Var(f"%{where.region.name}", place.kind, t.span)
            t.into(body, d, update, e)
            if isinstance(where, Address):
                # The word is exchanged into d after the temporaries were computed, since they may read the array.
                t.compute.append(Local(d, False, t.span))
                t.compute.append(t.memory("exch", d, where))
        self.locals.emit_update(where, update, e, t.wrap(tuple(body)))

    def update_complex(self, place: StructValue, update: str, value: Value, node: ast.AST, target: ast.AST) -> None:
        """`place update= value` of a complex number: its parts, neither of which the value may read."""
        at = node.value if isinstance(node, ast.AugAssign) else node
        if isinstance(value, ArrayView | Lazy):
            self.errors.fail("RG0712", f"{describe(value)} is added to one number", at)
        whole = self.errors.guarded(at, self.expressions.arithmetic.complex.of_type, place.type, value)
        places: list[tuple[Var | Address, ast.AST]] = []
        for part in place.fields.values():
            assert isinstance(part, Scalar)
            assert part.place is not None
            places.append((part.place, target))
        t = self.builder.temporaries()
        read = [self.expressions.number(v, at, FIXED) for v in whole.fields.values()]
        self.locations.independent(t, places, read, node)
        self.builder.emit(t.wrap(()))
        for name, part in place.fields.items():
            assert isinstance(part, Scalar)
            self.update(part, update, whole.fields[name], node, target)

    def update_array(self, place: ArrayView, update: str, value: Value, node: ast.AST) -> None:
        """`place update= value` for each element."""
        if isinstance(value, ArrayView | Lazy):
            shape = self.errors.guarded(node, broadcast, [place.shape, value.shape])
            if shape != place.shape:
                self.errors.fail("RG0712", f"{describe(value)} does not broadcast to the shape {place.shape}", node)
            place = replace(place, shape=shape)
        self._refuse_shifted(place, value, node)

        def one(index: tuple[E, ...]) -> None:
            self._update_value(
                element(place, index), update, element(value, index), node, getattr(node, "target", node)
            )

        self.blocks.over_elements(place.shape, one, value)

    def _refuse_shifted(self, place: ArrayView, value: Value, node: ast.AST) -> None:
        """Refuse `a[1:] += a[:-1]`: an element would read an element that was changed before it."""
        if not isinstance(value, ArrayView | Lazy) or is_empty(place.shape):
            return
        ones = [Var(f"i{n}", INT) for n in range(len(place.shape))]
        for var, length in zip(ones, place.shape, strict=True):
            note_range(self.builder.ranges, var, length, self.builder.w)
        words = [*scalars(element(value, tuple(read(v) for v in ones)))]
        steps = [(bound(n) - 1) * s for n, s in zip(place.shape, place.strides, strict=True)]
        extent = sum(s for s in steps if s > 0) + place.element.size
        below = sum(s for s in steps if s < 0)
        for at, size in (found for x in words for found in loads(x.e)):
            if at.region is not place.address.region:
                continue
            difference = difference_of(at, place.address, self.builder.w)
            bounds = interval(difference, self.builder.ranges)
            if bounds is not None and (bounds[0] >= extent or bounds[1] + size - 1 < below):
                continue
            if variables(difference) - set(ones):
                # Other indices decide: each element is tested when the program runs.
                continue
            if bounds is not None and not (size == 1 and _disjoint_by_stride(at, place)):
                hint = "write a loop over the elements, in the order that you mean"
                message = f"`{shortened(node)}` reads elements of the array that it changes"
                self.errors.fail("RG0704", message, node, hint)


def _instead(update: str, kind: Kind, node: ast.AST) -> str | None:
    """A hint for an update that is not defined for a kind."""
    if update in ("mul", "div") and kind in (FIXED, INT, UINT):
        new = ""
        if isinstance(node, ast.AugAssign):
            new = f", `t = {shortened(node.target)} {OPERATORS[type(node.op)]} {shortened(node.value)}`"
        if kind is not FIXED:
            return f"An even factor and a quotient forget a part of the old value: make a new variable{new}."
        return f"Rounding and zero factors forget the old value: make a new variable{new}; or use a lognum, whose *= and /= are exact."
    if kind is Kind.LOGNUM:
        return "lognums have *= and /=; a sum of lognums is a factor, `z *= x + y`"
    if kind is BOOL:
        return "bools have ^="
    if kind is FIXED and update == "xor":
        return "fixed numbers have += and -="
    return None


def _disjoint_by_stride(at: Address, place: ArrayView) -> bool:
    """Whether an address that moves in steps of the strides of a view misses it: another column, another field."""
    steps = [abs(k) for _, k in at.terms] + [abs(s) for s in place.strides]
    common = gcd(*steps) if steps else 0
    distance = at.offset - place.address.offset
    same_base = at.base is place.address.base
    return (
        same_base and common > 1 and not place.address.terms and place.element.size <= distance % common <= common - 1
    )
