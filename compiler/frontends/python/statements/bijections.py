"""Bijections: exchanges, rotations, negations, stacks.

swap, cswap, neg, flip: their own inverses      rot ↔ irot, rol ↔ ror, push ↔ pop
x *= −1; n *= c of an odd c; n ^= n << k; u ^= u >> k of a uint
erase: x := 0, which has no inverse
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrograd.compiler.frontends.builder import IRBuilder
from retrograd.compiler.frontends.owned_locals import OwnedLocals, words_at
from retrograd.compiler.frontends.python.diagnostics import Errors
from retrograd.compiler.frontends.python.expressions.lowering import ExpressionLowering
from retrograd.compiler.frontends.python.statements.blocks import Blocks
from retrograd.compiler.frontends.python.statements.locations import Locations, sides
from retrograd.compiler.frontends.python.text import shortened
from retrograd.compiler.ir.expressions import Address, const, difference_of, interval, read
from retrograd.compiler.ir.flatten import Temporaries
from retrograd.compiler.ir.statements import (
    ZERO,
    Block,
    Check,
    Const,
    Delocal,
    If,
    Kind,
    Local,
    Op,
    Operand,
    Test,
    Var,
    invert,
)
from retrograd.compiler.language.arithmetic import element, number_kind
from retrograd.compiler.language.values import (
    ArrayView,
    Constant,
    Lazy,
    Scalar,
    StackValue,
    StructValue,
    Value,
    describe,
    scalars,
)
from retrograd.isa.table import TABLE

INT, UINT, FIXED, BOOL = Kind.INT, Kind.UINT, Kind.FIXED, Kind.BOOL


@dataclass(eq=False)
class Bijections:
    """Lowers calls of intrinsics that map words to words one to one. Methods take the name of the intrinsic and its call."""

    errors: Errors
    expressions: ExpressionLowering
    builder: IRBuilder
    locals: OwnedLocals
    locations: Locations
    blocks: Blocks

    def update(self, node: ast.AugAssign) -> bool:
        """An augmented assignment that maps words one to one though it reads its target; False for any other.

        x *= −1, x /= −1       the negative
        n *= c, c odd          the product mod 2^W, undone by the inverse of c mod 2^W
        n ^= n << k, k ≥ 1     undone by n ^= n << k ^ n << 2k ^ …
        u ^= u >> k, k ≥ 1     undone by u ^= u >> k ^ u >> 2k ^ …, of a uint: `>>` of an int copies the sign
        """
        match node.op, node.value:
            case ast.Mult() | ast.Div(), _:
                found = self.expressions.value(node.value)
                if not isinstance(found, Constant) or number_kind(found.value) not in (INT, FIXED):
                    return False
                place = self.locations.location(node.target)
                kinds = {x.kind for x in _numbers(place)}
                if (
                    found.value == -1
                    and kinds
                    and kinds <= {INT, UINT, FIXED}
                    and (kinds not in ({INT}, {UINT}) or isinstance(node.op, ast.Mult))
                ):
                    self._elementwise("neg", place, node, node.target)
                    return True
                if isinstance(node.op, ast.Div) or kinds not in ({INT}, {UINT}) or number_kind(found.value) is not INT:
                    return False
                factor = int(found.value)
                if factor % 2 == 0:
                    hint = f"make a new variable, `t = {shortened(node.target)} * {factor}`"
                    message = f"`{shortened(node)}` forgets a bit of `{shortened(node.target)}`: only odd factors have an inverse mod 2^W"
                    self.errors.fail("RG0703", message, node, hint)
                self._words(place, node, lambda t, d: self._multiplied(t, d, factor))
                return True
            case ast.BitXor(), ast.BinOp(
                left=ast.expr() as left, op=ast.LShift() | ast.RShift() as shift, right=right
            ) if ast.unparse(left) == ast.unparse(node.target):
                places = self.expressions.value(right)
                if not isinstance(places, Constant) or number_kind(places.value) is not INT or places.value < 1:
                    return False
                place = self.locations.location(node.target)
                kinds = {x.kind for x in _numbers(place)}
                if kinds not in ({INT}, {UINT}):
                    return False
                count, name = int(places.value), "shl" if isinstance(shift, ast.LShift) else "shr"
                if name == "shr" and kinds == {INT}:
                    s = shortened(node.target)
                    message = f"`{shortened(node)}` forgets bits of `{s}`: `>>` of an int copies its sign, and the copies cancel"
                    hint = f"declare `{s}` a `uint`, whose `>>` fills with zeros: then this statement has an inverse"
                    self.errors.fail("RG0704", message, node, hint)
                self._words(place, node, lambda t, d: self._xored_with_shifted(t, d, name, count))
                return True
        return False

    def _words(self, place: Value, node: ast.AugAssign, change: Callable[[Temporaries, Var], Block]) -> None:
        """Emit the statements that change a number, or each element of an array, in a register."""
        if isinstance(place, ArrayView):
            self.blocks.over_elements(place.shape, lambda index: self._words(element(place, index), node, change))
            return
        assert isinstance(place, Scalar)
        assert place.place is not None
        t = self.builder.temporaries()
        self.locations.independent(t, [(place.place, node.target)], [], node)
        nodes = change(t, self.locations.register(t, place.place, place.kind))
        self.builder.emit(t.wrap(nodes), stores=words_at(place.place))

    def _multiplied(self, t: Temporaries, d: Var, factor: int) -> Block:
        """p += d·c; d −= p·c⁻¹, which is zero; d, p = p, d"""
        w, product = self.builder.w, t.fresh("product", d.kind)
        back = pow(factor, -1, 1 << w.width)
        return (
            t.op("mul", "add", product, d, Const(w.wrap(factor))),
            t.op("mul", "sub", d, product, Const(back)),
            Op(TABLE["swap"], d, product, None, 0, t.span),
        )

    def _xored_with_shifted(self, t: Temporaries, d: Var, name: str, count: int) -> Block:
        """s ^= d << k; d ^= s; s ^= d << k ^ d << 2k ^ …, which is zero; `shr` in place of `shl` alike"""
        shifted = t.fresh("shifted", d.kind)
        first = t.op(name, "xor", shifted, d, Const(count))
        later = (t.op(name, "xor", shifted, d, Const(k)) for k in range(2 * count, self.builder.w.width, count))
        return (first, t.op("mov", "xor", d, shifted), first, *later) if count < self.builder.w.width else ()

    def permute(self, targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> None:
        """`x, y, z = y, z, x`, as exchanges."""
        wanted = [ast.unparse(v) for v in values]
        nodes = {ast.unparse(x): x for x in targets}
        if len(nodes) != len(targets):
            self.errors.fail("RG0704", "the same variable is written twice", targets[0])
        self.locations.refuse_other_names(targets, [self.locations.location(x) for x in targets])
        names = list(nodes)
        #: the variable whose former value is at each target
        holds = list(names)
        for i, name in enumerate(names):
            j = holds.index(wanted[i])
            if i != j:
                self._swap(nodes[name], nodes[names[j]])
                holds[i], holds[j] = holds[j], holds[i]

    def swap(self, name: str, call: ast.Call) -> None:
        """`rg.swap(x, y)`."""
        self._swap(*call.args)

    def _swap(self, x: ast.expr, y: ast.expr) -> None:
        self._exchange(self.locations.location(x), self.locations.location(y), x)

    def _exchange(self, x: Value, y: Value, node: ast.AST) -> None:
        """x, y = y, x."""
        match x, y:
            case Scalar(_, Var() as a), Scalar(_, Var() as b) if x.kind is y.kind:
                if a is not b:
                    self.builder.emit((Op(TABLE["swap"], a, b, None, 0, self.errors.span(node)),))
            case Scalar(_, place_a), Scalar(_, place_b) if x.kind is y.kind:
                t = self.builder.temporaries()
                assert place_a is not None
                assert place_b is not None
                self.locations.independent(t, [(place_a, node), (place_b, node)], [], node)
                if isinstance(place_b, Var):
                    place_a, place_b = place_b, place_a
                assert isinstance(place_b, Address)
                if isinstance(place_a, Var):
                    self.builder.emit(t.wrap((t.memory("exch", place_a, place_b),)), stores=words_at(place_b))
                    return
                held = t.fresh("held", x.kind)
                first, second = t.memory("exch", held, place_a), t.memory("exch", held, place_b)
                self._exchange_words(t, place_a, place_b, (first, second, first), node)
            case StructValue(t1, fields), StructValue(t2, others) if t1 == t2:
                for name in fields:
                    self._exchange(fields[name], others[name], node)
            case ArrayView(), ArrayView() if x.shape == y.shape and x.element == y.element:
                self.blocks.over_elements(
                    x.shape, lambda index: self._exchange(element(x, index), element(y, index), node)
                )
            case _:
                code = "RG0712" if isinstance(x, ArrayView) and isinstance(y, ArrayView) else "RG0703"
                message = f"{describe(x)} and {describe(y)} are exchanged"
                self.errors.fail(code, message, node, "Exchange two places of one type and shape.")

    def _exchange_words(self, t: Temporaries, x: Address, y: Address, nodes: Block, node: ast.AST) -> None:
        """Exchange two words of memory by three exchanges, which would lose the word where both are the same."""
        if x.region is y.region:
            distance = x.minus(y)
            if distance == 0:
                return
            difference = difference_of(x, y, self.builder.w)
            bounds = interval(difference, self.builder.ranges)
            if distance is None and (bounds is None or bounds[0] <= 0 <= bounds[1]):
                a, b = sides(difference)
                test = Test("ne", t.operand(a), t.operand(b))
                nodes = (If(test, nodes, (), test, self.errors.span(node)),)
        self.builder.emit(t.wrap(nodes), stores=words_at(x, y))

    def change(self, name: str, call: ast.Call) -> None:
        """`rg.neg(x)`, `rg.flip(x)`, `rg.erase(x)`."""
        self._elementwise(name, self.locations.location(call.args[0]), call, call.args[0])

    def _elementwise(self, name: str, x: Value, call: ast.AST, target: ast.expr) -> None:
        if isinstance(x, ArrayView):
            self.blocks.over_elements(x.shape, lambda index: self._elementwise(name, element(x, index), call, target))
            return
        if isinstance(x, StructValue):
            for inner in x.fields.values():
                self._elementwise(name, inner, call, target)
            return
        if not isinstance(x, Scalar) or x.place is None:
            self.errors.fail("RG0703", f"rg.{name} of {describe(x)}", call)
        t = self.builder.temporaries()
        self.locations.independent(t, [(x.place, target)], [], call)
        d = self.locations.register(t, x.place, x.kind)
        span = self.errors.span(call)
        match name, x.kind:
            case "neg", (Kind.INT | Kind.UINT | Kind.FIXED):
                op = Op(TABLE["neg"], d, None, None, 0, span)
            case "neg", Kind.LOGNUM:
                op = t.op("lmov", "mul", d, Const(self.builder.w.sign))
            case "flip", Kind.BOOL:
                op = t.op("mov", "xor", d, Const(1))
            case "flip", (Kind.INT | Kind.UINT):
                op = Op(TABLE["not"], d, None, None, 0, span)
            case "erase", _:
                op = Op(TABLE["erase"], d, None, None, 0, span)
            case _:
                other = {BOOL: f"write `rg.flip({shortened(target)})`"}.get(x.kind) if name == "neg" else None
                self.errors.fail("RG0703", f"rg.{name} is not defined for {x.kind.value}", call, other)
        self.builder.emit(t.wrap((op,)), stores=words_at(x.place))
        if name == "erase" and isinstance(x.place, Var):
            self.locals.erased(x.place)

    def rotate(self, name: str, call: ast.Call) -> None:
        """`rg.rot(x, y, t)`, `rg.irot(x, y, t)`."""
        x, y = self.locations.location(call.args[0]), self.locations.location(call.args[1])
        self._rotate(name, x, y, self.expressions.value(call.args[2]), call)

    def _rotate(self, name: str, x: Value, y: Value, angle: Value, call: ast.Call) -> None:
        if any(isinstance(v, ArrayView | Lazy) for v in (x, y, angle)):
            shapes = [v.shape for v in (x, y) if isinstance(v, ArrayView)]
            if len(shapes) != 2 or shapes[0] != shapes[1]:
                self.errors.fail("RG0712", f"rg.{name} of {describe(x)} and {describe(y)}", call)
            self.blocks.over_elements(
                shapes[0], lambda i: self._rotate(name, element(x, i), element(y, i), element(angle, i), call)
            )
            return
        if not (isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind is FIXED):
            message = f"rg.{name} of {describe(x)} and {describe(y)}: it turns two fixed numbers"
            self.errors.fail("RG0703", message, call)
        e = self.expressions.number(angle, call, FIXED)
        t = self.builder.temporaries()
        assert x.place is not None
        assert y.place is not None
        self.locations.independent(t, [(x.place, call.args[0]), (y.place, call.args[1])], [e], call)
        self.locations.distinct(t, x, y, call)
        turn = t.operand(e)
        d, a = (self.locations.register(t, p, FIXED) for p in (x.place, y.place) if p is not None)
        op = Op(TABLE[name], d, a, turn, 0, self.errors.span(call))
        self.builder.emit(t.wrap((op,)), stores=words_at(x.place, y.place))

    def swap_if(self, name: str, call: ast.Call) -> None:
        """`rg.cswap(c, x, y)`: x, y = y, x if c."""
        args = call.args
        c = self.expressions.condition(args[0])
        x, y = self.locations.location(args[1]), self.locations.location(args[2])
        if isinstance(x, Scalar) and isinstance(y, Scalar) and x.kind is y.kind:
            t = self.builder.temporaries()
            assert x.place is not None
            assert y.place is not None
            self.locations.independent(t, [(x.place, args[1]), (y.place, args[2])], [c], call)
            bit = t.operand(c)
            if isinstance(x.place, Var) and isinstance(y.place, Var) and x.place is not y.place:
                self.builder.emit(t.wrap((self._cswap_op(x.place, y.place, bit),)))
                return
        test_t = self.builder.temporaries()
        test = test_t.test(c)
        with self.blocks.block() as inner:
            self._exchange(x, y, call)
        swapped = If(test, tuple(inner), (), test, self.errors.span(call))
        self.builder.emit(test_t.wrap((swapped,)), made_of_blocks=True)

    def _cswap_op(self, x: Var, y: Var, bit: Operand) -> Op:
        opcode = TABLE["cswap"]
        # The control is the operand that the instruction only reads.
        written = [p for p in ("d", "a", "b") if p in opcode.writes]
        control = next(p for p in ("d", "a", "b") if p not in written)
        places: dict[str, Operand] = {written[0]: x, written[1]: y, control: bit}
        return Op(opcode, places["d"], places["a"], places["b"], 0, self.builder.span)

    def roll(self, name: str, call: ast.Call) -> None:
        """`rg.rol(x, k)`, `rg.ror(x, k)`."""
        args = call.args
        x = self.locations.location(args[0])
        if not isinstance(x, Scalar) or x.kind not in (INT, UINT) or x.place is None:
            hint = "Multiply a fixed by a power of two in a new variable, `t = x * 8`."
            message = f"rg.{name} of {describe(x)}: it rotates the bits of an int or a uint"
            self.errors.fail("RG0703", message, call, hint if isinstance(x, Scalar) and x.kind is FIXED else None)
        k = self.expressions.integer(args[1])
        t = self.builder.temporaries()
        self.locations.independent(t, [(x.place, args[0])], [k], call)
        amount = t.operand(k)
        d = self.locations.register(t, x.place, x.kind)
        op = Op(TABLE[name], d, amount, None, 0, self.errors.span(call))
        self.builder.emit(t.wrap((op,)), stores=words_at(x.place))

    def push(self, name: str, call: ast.Call) -> None:
        """`rg.push(S, x)`: S[count], x = x, S[count]; count += 1, where S is zero from count on. `rg.pop` is the inverse."""
        args = call.args
        s, x = self.locations.location(args[0]), self.locations.location(args[1])
        if not isinstance(s, StackValue):
            kind = x.kind.value if isinstance(x, Scalar) else "fixed"
            hint = f"make one: `s = rg.stack({kind}, 100)`"
            if isinstance(x, StackValue):
                hint = f"The stack comes first: write `rg.{name}({shortened(args[1])}, {shortened(args[0])})`."
            self.errors.fail("RG0703", f"rg.{name} on {describe(s)}, which is no stack", call, hint)
        if not isinstance(x, Scalar) or x.place is None or x.kind is not s.type.element.kind:
            way = None
            if isinstance(x, StructValue):
                field = f"{shortened(args[1])}.{next(iter(x.fields))}"
                way = f"{name} its fields one after the other, `rg.{name}({shortened(args[0])}, {field})`; a pop has the opposite order"
            self.errors.fail("RG0703", f"rg.{name} of {describe(x)} on a stack of {s.type.element}", call, way)
        span = self.errors.span(call)
        t = self.builder.temporaries()
        self.locations.independent(t, [(x.place, args[1])], [e for e, _ in s.address.terms], call)
        if isinstance(x.place, Address) and x.place.region is s.address.region:
            self.errors.fail("RG0705", f"`{shortened(args[1])}` lies in the stack itself", call)
        held = self.locations.register(t, x.place, x.kind)
        count = Var("count", INT, span)
        inner, outer = self.builder.temporaries(), self.builder.temporaries()
        top = s.address.moved(1).shifted(read(count), 1)
        move = inner.wrap((inner.memory("exch", held, top),))
        full = f"the stack `{shortened(args[0])}` is {{full}}"
        room = Check(Test("ltu", count, Const(s.type.capacity)), "RG0806", full, span)
        take = outer.memory("exch", count, s.address)
        # The word above the top is zero. So x is zero after a push, and must be zero before a pop.
        message = (
            f"`{shortened(args[1])}` is {{a}}, and must be zero to take the top of the stack `{shortened(args[0])}`"
        )
        empty = Check(Test("eq", held, ZERO), "RG0802", message, span)
        sequence: Block = (take, room, *move, empty, outer.op("mov", "add", count, Const(1)), take)
        nodes = outer.wrap((Local(count, False, span), *sequence, Delocal(count, False, span)))
        self.builder.emit(t.wrap(nodes if name == "push" else invert(nodes)), stores=words_at(x.place))


def _numbers(place: Value) -> list[Scalar]:
    """The numbers of a location: of an array one element."""
    if isinstance(place, ArrayView):
        return [*scalars(element(place, tuple(const(0, INT) for _ in place.shape)))]
    return [*scalars(place)]
