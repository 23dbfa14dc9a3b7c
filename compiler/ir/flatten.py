"""Expression lowering to three-address code: temporaries are computed, used, uncomputed; sums need no temporary.

    y += e  →  within (temporaries of e) do (y ⊕= f(…))

All temporaries of a statement are computed once, in one flat block, and uncomputed after its last use.
Cost: twice the number of temporaries, not twice to the power of their depth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.expressions import (
    Address,
    E,
    InRange,
    Invocation,
    Length,
    RunLength,
    add,
    apply,
    choose,
    const,
    less,
    load,
    number_of,
    read,
    sub,
    variables,
    word_of,
)
from retrograd.compiler.ir.instruction_selection import OPPOSITE
from retrograd.compiler.ir.statements import fixed_at
from retrograd.isa.diagnostics import CompileError, Diagnostic, Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format, nearest_point

#: the procedure for `y += x ** n` of a kind, for an expression at this place
PowerOf = Callable[[ir.Kind, Span | None], str]
#: a number of the source at the point of another kind, where its error there is recorded: see `Module.recorded`
Realigned = Callable[[E, ir.Kind], E | None]


class Temporaries:
    """The temporaries of one statement, or of one branch in it, which also uses the temporaries around it.

    `wrap(body)` is the body within the computation of its temporaries. `realigned`: of a program whose roundings are recorded; each has
    an instruction then, also where nothing is left of the number.
    """

    def __init__(
        self,
        w: Format,
        span: Span | None,
        power: PowerOf,
        outer: Temporaries | None = None,
        realigned: Realigned | None = None,
        places: Mapping[E, Span] | None = None,
    ) -> None:
        """`places`: of the expressions in the source, for the temporaries that hold their values; None without them."""
        self.w = w
        self.span = span
        self.power = power
        self.outer = outer
        self.realigned = realigned
        self.places = places
        self.compute: list[ir.Node] = []
        self._known: dict[E, ir.Operand] = {}
        self._checked: set[tuple[E, int | ir.Var]] = set()

    def inner(self) -> Temporaries:
        """Temporaries for a block that is not executed exactly once, such as a branch."""
        return Temporaries(self.w, self.span, self.power, self, self.realigned, self.places)

    def wrap(self, body: ir.Block, checked: bool = False) -> ir.Block:
        """(body,) within the temporaries; checked: the machine tests that they are zero when freed."""
        if not self.compute:
            return body
        compute = tuple(self.compute)
        if checked:
            compute = tuple(n._replace(checked=True) if isinstance(n, ir.Local) else n for n in compute)
        return (ir.Within(compute, body, None, self.span),)

    # ------------------------------------------------------------------ operands

    def _find(self, e: E) -> ir.Operand | None:
        scope: Temporaries | None = self
        while scope is not None:
            found = scope._known.get(e)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def operand(self, e: E) -> ir.Operand:
        """A variable or constant with the value of e, computed before if need be."""
        if e.op == "const":
            return ir.Const(self.w.wrap(e.param))
        if e.op == "read":
            var: ir.Var = e.param
            return var
        found = self._find(e)
        if found is None and e.op == "call":
            found = self._results(e)
        elif found is None and e.op == "below_half":
            found = self._known[e] = self.operand(e.args[0])
            message, code = e.param
            self.compute.append(ir.Check(ir.Test("ge", found, ir.ZERO), code, message, self.span))
        elif found is None and e.op == "running":
            found = self._known[e] = self.operand(self._running(e))
        if found is None:
            t = self.fresh(_name(e), e.kind)
            if self.places is not None:
                t.span = self.places.get(e, self.span)
            self.into(self.compute, t, _set(e.kind), e, fresh=True)
            self._known[e] = found = t
        return found

    def fresh(self, name: str, kind: ir.Kind) -> ir.Var:
        """A new temporary, zero. Its name is no name of the source, where a variable may have the same."""
        t = ir.Var(f"%{name}", kind, self.span)
        self.compute.append(ir.Local(t, False, self.span))
        return t

    def address(self, at: Address) -> tuple[ir.Operand, int]:
        """(register, immediate) of a memory operand, its checks made."""
        self.require(at.checks)
        offset = at.offset + (at.region.address or 0 if at.base is None else 0)
        parts = [(e, k) for e, k in at.terms]
        if at.base is not None:
            parts.append((E("read", ir.Kind.ADDRESS, (), at.base), 1))
        if parts and not ir.fits_immediate(offset):
            # An index such as n + 2⁶², which is tested to lie in the array before the word is read.
            parts.append((E("const", ir.Kind.INT, (), self.w.signed(offset)), 1))
            offset = 0
        if not parts:
            return ir.ZERO, offset
        if len(parts) == 1 and parts[0][1] == 1:
            return self.operand(parts[0][0]), offset
        key = E("address", ir.Kind.ADDRESS, tuple(e for e, _ in parts), tuple(k for _, k in parts))
        found = self._find(key)
        if found is None:
            t = self.fresh("at", ir.Kind.ADDRESS)
            for e, k in parts:
                x = self.operand(e)
                if k in (1, -1):
                    self.compute.append(self.op("mov", "add" if k == 1 else "sub", t, x))
                else:
                    self.compute.append(self.op("mul", "add", t, x, ir.Const(self.w.wrap(k))))
            self._known[key] = found = t
        return found, offset

    def location(self, at: Address) -> ir.Operand:
        """The address itself as an operand."""
        a, imm = self.address(at)
        if imm == 0:
            return a
        if isinstance(a, ir.Const):
            return ir.Const(self.w.wrap(a.word + imm))
        key = E("location", ir.Kind.ADDRESS, (E("read", ir.Kind.ADDRESS, (), a),), imm)
        found = self._find(key)
        if found is None:
            t = self.fresh("at", ir.Kind.ADDRESS)
            self.compute.append(self.op("mov", "add", t, a))
            self.compute.append(self.op("mov", "add", t, ir.Const(self.w.wrap(imm))))
            self._known[key] = found = t
        return found

    def require(self, checks: Sequence[InRange]) -> None:
        """Test each condition, unless it was tested before."""
        for check in checks:
            key = (check.value, check.length)
            if self._is_checked(key):
                continue
            x = self.operand(check.value)
            self._checked.add(key)
            length = check.length if isinstance(check.length, ir.Var) else ir.Const(check.length)
            self.compute.append(ir.Check(ir.Test("ltu", x, length), check.code, check.message, check.span))

    def _is_checked(self, key: tuple[E, int | ir.Var]) -> bool:
        scope: Temporaries | None = self
        while scope is not None:
            if key in scope._checked:
                return True
            scope = scope.outer
        return False

    def test(self, e: E) -> ir.Test:
        """A condition as the test of a branch."""
        match e.op:
            case "const":
                return ir.Test("ne" if e.param else "eq", ir.Const(1), ir.ZERO)
            case "not":
                return self.test(e.args[0]).negated()
            case "apply" if e.param in ("slt", "sltu", "seq"):
                cc = {"slt": "lt", "sltu": "ltu", "seq": "eq"}[e.param]
                return ir.Test(cc, self.operand(e.args[0]), self.operand(e.args[1]))
        return ir.Test("ne", self.operand(e), ir.ZERO)

    # ------------------------------------------------------------------ updates

    def op(
        self,
        name: str,
        update: str,
        d: ir.Var,
        a: ir.Operand | None = None,
        b: ir.Operand | None = None,
        *,
        imm: int = 0,
    ) -> ir.Op:
        """`d update= name(a, b, imm)`."""
        return ir.Op(TABLE[f"{name}.{update}"], d, a, b, imm, self.span)

    def memory(self, opcode: str, register: ir.Operand, at: Address) -> ir.Op:
        """ld, st or exch at an address."""
        a, imm = self.address(at)
        if opcode.startswith("st"):
            return ir.Op(TABLE[opcode], None, a, register, imm, self.span, at.region)
        return ir.Op(TABLE[opcode], register, a, None, imm, self.span, at.region)

    def into(self, out: list[ir.Node], d: ir.Var, update: str, e: E, fresh: bool = False) -> None:
        """Append to `out` the statements for `d update= e`. fresh: d is zero, so that nothing can overflow.

        Temporaries go to `self.compute`: `out` is that list, or becomes the body of `wrap`.
        """
        if d.kind is ir.Kind.LOGNUM:
            self._logarithmic(out, d, update, e, fresh)
            return
        # A sum with something that is not zero may overflow, in fixed point: a move that is checked.
        move = "fmov" if d.kind.is_fixed and not (fresh and update == "add") else "mov"
        shift = d.kind.point(self.w) - e.kind.point(self.w) if d.kind.is_fixed and e.kind.is_fixed else 0
        if shift and self.realigned is not None and (there := self.realigned(e, d.kind)) is not None:
            e, shift = there, 0
        known = None if fresh else self._find(e)
        if known is not None:
            self._move(out, d, update, known, shift, move)
            return
        match e.op:
            case "const" if shift:
                word = self.w.wrap(self._aligned(e, d.kind))
                if word:
                    out.append(self.op(move, update, d, ir.Const(word)))
            case "const" | "read":
                if e.op == "const" and e.param == 0:
                    return
                self._move(out, d, update, self.operand(e), shift, move)
            case "load":
                if move == "fmov" or shift:
                    self._move(out, d, update, self.operand(e), shift, move)
                else:
                    out.append(self.memory(f"ld.{update}", d, e.param))
            case "add" | "sub" | "neg" if (
                shift > 0 and (finest := self._finest(e)) is not None and finest < d.kind.point(self.w)
            ):
                # Terms that are all coarser than d may be too large for it where their sum is not.
                total = self.operand(E(e.op, fixed_at(finest), e.args))
                self._move(out, d, update, total, d.kind.point(self.w) - finest, move)
            case "add" | "sub" | "neg" if update in ("add", "sub"):
                second = update if e.op == "add" else OPPOSITE[update]
                if len(e.args) == 2:
                    self.into(out, d, update, e.args[0], fresh)
                    fresh = fresh and _is_zero(e.args[0])
                self.into(out, d, second, e.args[-1], fresh)
            case "not" if d.kind is ir.Kind.BOOL:
                self.into(out, d, "xor", e.args[0], fresh)
                out.append(self.op("mov", "xor", d, ir.Const(1)))
            case "apply" if e.param in ("fmov", "fmul", "fdiv", "fsqrt") and d.kind.is_fixed:
                self._shifted(out, d, update, e)
            case "apply" if not shift:
                operands = [self.operand(x) for x in e.args]
                if d.kind.is_fixed and e.param == "mul":
                    out += self._without_derivative(operands)
                out.append(self.op(e.param, update, d, *operands))
            case "power" if update in ("add", "sub") and not shift:
                self._power(out, d, update, e)
            case "call" if not shift and self._in_place(e, update, fresh):
                self._call(out, (d,), e, update == "sub")
            case "choose":
                self._choose(out, d, update, e, fresh)
            case "total":
                self._total(out, d, update, e)
            case _:
                self._move(out, d, update, self.operand(e), shift, move)

    # ------------------------------------------------------------------ binary points

    def _finest(self, e: E) -> int | None:
        """The finest point of the terms of a sum; None where one of them is computed at any point."""
        if e.op in ("add", "sub", "neg"):
            points = [self._finest(x) for x in e.args if x.op != "const" and not _is_recorded(x)]
            return None if not points or None in points else max(p for p in points if p is not None)
        if e.op in ("choose", "total") or (e.op == "apply" and e.param in ("fmul", "fdiv", "fsqrt")):
            return None
        return e.kind.point(self.w)

    def _aligned(self, e: E, kind: ir.Kind) -> int:
        """The word of a constant at another point."""
        number = number_of(e, self.w)
        try:
            word = word_of(number, kind, self.w)
        except OverflowError:
            message = (
                f"{float(number):.6g} is outside the range of the numbers that it is added to, {kind.numbers(self.w)}"
            )
            raise CompileError(Diagnostic("RG0714", message, self.span)) from None
        if number and not word:
            message = f"{float(number):.6g} would be 0 beside the numbers that it is added to, {kind.numbers(self.w)}"
            raise CompileError(Diagnostic("RG0730", message, self.span))
        return word

    def _move(self, out: list[ir.Node], d: ir.Var, update: str, x: ir.Operand, shift: int, move: str) -> None:
        """`d update= x·2^shift`, rounded to nearest, ties up.

        Of a shift by W or more to the right nothing is left: |x·2^−W| ≤ ½.
        """
        if not shift:
            out.append(self.op(move, update, d, x))
            return
        if shift <= -self.w.width:
            if not _is_temporary(x):
                self._nothing(out, d, update)
                return
            most = self.w.width - 1
            x, shift = self._right(x, d.kind.point(self.w) - shift, -shift - most), -most
        x, by = self._left(x, d.kind.point(self.w) - shift, shift, self.w.width - 1)
        out.append(self.op("fmovp", update, d, x, imm=by))

    def _nothing(self, out: list[ir.Node], d: ir.Var, update: str) -> None:
        """`d update= 0` for a number that is always rounded to 0: a product with 0, where roundings are recorded."""
        if self.realigned is not None:
            out.append(self.op("fmulp", update, d, ir.ZERO, ir.ZERO, imm=1))

    def _right(self, x: ir.Operand, point: int, by: int) -> ir.Operand:
        """x·2^−by, or 0 where nothing of it is left, as a temporary: a number that is always rounded to 0 is computed, since it may not fit.

        `point`: that of x.
        """
        by = min(max(by, 2), self.w.width - 1)  # by 1, a number of W − 1 ones is rounded up and leaves one half
        t = self._temporary(point - by)
        self.compute.append(self.op("fmovp", "add", t, x, imm=-by))
        return t

    def _left(self, x: ir.Operand, point: int, shift: int, most: int) -> tuple[ir.Operand, int]:
        """x·2^(shift − most) as a temporary and `most`, or x and the shift where that is not greater than `most`.

        `point`: that of x.
        """
        while shift > most:
            by = min(shift - most, self.w.width - 1)
            point, shift = point + by, shift - by
            t = self._temporary(point)
            self.compute.append(self.op("fmovp", "add", t, x, imm=by))
            x = t
        return x, shift

    def _temporary(self, point: int) -> ir.Var:
        """A temporary of a point, or of the nearest one that a type can have, which is what messages show."""
        return self.fresh("t", fixed_at(nearest_point(point, self.w.width)))

    def _shifted(self, out: list[ir.Node], d: ir.Var, update: str, e: E) -> None:
        """`d update=` a move, product, quotient or root of numbers with points of their own, rounded once.

        The constant of the instruction is a difference of points (`retrograd.isa.points`). Where it is out of the
        instruction's range, the numerator or the radicand is moved before, or the result after it: a move to the
        right rounds a second time.
        """
        w, name = self.w, e.param
        at, to = [x.kind.point(w) for x in e.args], d.kind.point(w)
        a, *more = (self.operand(x) for x in e.args)
        b = more[0] if more else None
        match name:
            case "fmov":
                self._move(out, d, update, a, to - at[0], name)
                return
            case "fmul":
                shift, least, plain = at[0] + at[1] - to, 0, w.frac
                if shift >= 2 * w.width:  # |a·b| ≤ 2^(2W − 2), of which nothing is left
                    if not (_is_temporary(a) or _is_temporary(b)):
                        self._nothing(out, d, update)
                        return
                    assert b is not None
                    if not _is_temporary(a):
                        a, b, at = b, a, at[::-1]
                    a, shift = self._right(a, at[0], shift - (2 * w.width - 1)), 2 * w.width - 1
            case "fdiv":
                shift, least, plain = to - at[0] + at[1], 0, w.frac
                if shift != plain and shift > w.width - 2:
                    a, shift = self._left(a, at[0], shift, w.width - 2)
            case _:
                twice = 2 * to - at[0]
                if twice % 2 and twice != w.frac:
                    t = self._temporary(at[0] - 1)
                    self._move(self.compute, t, "add", a, -1, "mov")
                    a, twice = t, twice + 1
                if twice != w.frac and twice > w.width - 2:
                    a, twice = self._left(a, at[0], twice, w.width - 2)
                shift, least, plain = twice, 0, w.frac
        if shift == plain:
            out.append(self.op(name, update, d, a, b))
            return
        if shift >= least:
            out.append(self.op(f"{name}p", update, d, a, b, imm=shift if more else shift // 2))
            return
        # The product, quotient or root of the words, and a move: of a product to the left, of others to the right.
        further = -shift if name == "fmul" else shift if more else shift // 2
        t = self._temporary(to - further)
        self.compute.append(self.op(f"{name}p", "add", t, a, b, imm=0))
        self._move(out, d, update, t, further, "fmov")

    def _without_derivative(self, operands: Sequence[ir.Operand]) -> ir.Block:
        """The condition for q·z, z fixed and the integer q too large for that: its derivative by z is q, and does not fit."""
        of = tuple(x for x in operands if isinstance(x, ir.Var) and x.kind.is_fixed)
        message = "the derivative by the divisor of `%`, which is the quotient, does not fit"
        return (ir.Check(ir.Test("ne", ir.ZERO, ir.ZERO), "RG0404", message, self.span, of),) if of else ()

    def _power(self, out: list[ir.Node], d: ir.Var, update: str, e: E) -> None:
        base, exponent = (self.operand(x) for x in e.args)
        if e.kind is not ir.Kind.FIXED and e.args[1].kind is not ir.Kind.UINT:
            message = f"the exponent of {'an int' if e.kind is ir.Kind.INT else 'a uint'} is {{a}}"
            self.compute.append(ir.Check(ir.Test("ge", exponent, ir.ZERO), "RG0810", message, self.span))
        procedure = self.power(e.kind, self.span)
        out.append(ir.Call(procedure, (d, base, exponent), (), update == "sub", self.span))

    @staticmethod
    def _in_place(e: E, update: str, fresh: bool) -> bool:
        """Whether the procedure can work on the variable itself: it is the zero that a result begins with, or a sum."""
        invocation: Invocation = e.param[0]
        if len(invocation.results) != 1:
            return False
        return (fresh and update != "sub") or (invocation.accumulates and update in ("add", "sub"))

    def _results(self, e: E) -> ir.Var:
        """The results of a call, as temporaries; that of e itself."""
        invocation: Invocation = e.param[0]
        out = tuple(self.fresh("t", kind) for kind in invocation.results)
        self._call(self.compute, out, e, False)
        self._known.update(zip(invocation.values(e.args), out, strict=True))
        result: int = e.param[1]
        return out[result]

    def _call(self, out: list[ir.Node], results: tuple[ir.Var, ...], e: E, backward: bool) -> None:
        invocation: Invocation = e.param[0]
        given = [self.location(x.param[0]) if x.op == "view" else self.operand(x) for x in e.args]
        regions = [e.args[i].param[0].region for i in invocation.parameters if i >= 0 and e.args[i].op == "view"]
        operands = tuple(given[i] if i >= 0 else results[~i] for i in invocation.parameters)
        out.append(ir.Call(invocation.procedure, operands, tuple(regions), backward, self.span))

    def _choose(self, out: list[ir.Node], d: ir.Var, update: str, e: E, fresh: bool) -> None:
        test = self.test(e.args[0])
        blocks: list[ir.Block] = []
        for x in e.args[1:]:
            branch = self.inner()
            body: list[ir.Node] = []
            branch.into(body, d, update, x, fresh)
            blocks.append(branch.wrap(tuple(body)))
        out.append(ir.If(test, blocks[0], blocks[1], test, self.span))

    def _total(self, out: list[ir.Node], d: ir.Var, update: str, e: E) -> None:
        if update == "xor":
            out.append(self.op("mov", update, d, self.operand(e)))
            return
        indices, shape = e.param
        if all(isinstance(n, int) for n in shape):
            # A loop that may make no pass computes nothing in front of it, which might trap.
            self.hoist(e.args[0], frozenset(indices))
        within = self.inner()
        body: list[ir.Node] = []
        within.into(body, d, update, e.args[0])
        out.extend(self.loops(indices, shape, within.wrap(tuple(body))))

    def loops(self, indices: Sequence[ir.Var], shape: Sequence[Length], block: ir.Block) -> ir.Block:
        """The block in loops over the axes of an array, the last index moving fastest."""
        stops = [self._stop(length) for length in shape]
        for var, stop in zip(reversed(indices), reversed(stops), strict=True):
            block = (ir.For(var, ir.ZERO, stop, 1, block, False, isinstance(stop, ir.Const), self.span),)
        return block

    def _stop(self, length: Length) -> ir.Operand:
        if isinstance(length, int):
            return ir.Const(length)
        self.require(length.checks)
        return self.operand(length.e)

    def _running(self, e: E) -> E:
        """The smallest or largest value of the body, or the sum of lognums, as a word in memory.

            min, max   m[0] = ±∞;  for k: m[k + 1] = min(m[k], body(k))                              the value is the last m
            sum        for k: m[k + 1] = body(0) if k = 0 else m[k] + body(k), since 0 is no lognum

        The words m[k] are computed before the statement and uncomputed after it, as any temporary is.
        """
        which, indices, shape, region = e.param
        body = e.args[0]
        if all(isinstance(n, int) for n in shape):
            self.hoist(body, frozenset(indices))
        start = Address(region, None)
        run = next((n for n in shape if isinstance(n, RunLength)), None)
        count = const(prod(n for n in shape if isinstance(n, int)), ir.Kind.INT)
        if run is not None:
            self.require(run.checks)
            count = run.e if count.param == 1 else apply("mul", ir.Kind.INT, run.e, count)
            message = f"`{which}` of no elements has no value"
            self.require([InRange(sub(count, const(1, ir.Kind.INT), self.w), self.w.sign, message, self.span)])
        if region.address is None:
            # They lie on the stack: another activation of the function may be live, or the number of words is unknown.
            base = self.fresh("at", ir.Kind.ADDRESS)
            self.compute.append(self.op("mov", "add", base, ir.SP))
            words = self.operand(add(count, const(1, ir.Kind.INT), self.w))
            self.compute.append(self.op("mov", "add", ir.SP, words))
            start = Address(region, base)
        place = start
        for axis, var in enumerate(indices):
            place = place.shifted(read(var), prod(n for n in shape[axis + 1 :] if isinstance(n, int)))
        if which != "sum":
            self.compute.append(self.memory("st.add", ir.Const(_farthest(which, e.kind, self.w)), start))
        within = self.inner()
        before = load(place, e.kind)
        if which == "sum":
            term = E("read", e.kind, (), within.operand(body))
            at_first = (apply("seq", ir.Kind.BOOL, read(var), const(0, ir.Kind.INT)) for var in indices)
            first = reduce(lambda x, y: apply("and", ir.Kind.BOOL, x, y), at_first)
            chosen = choose(first, term, apply("ladd", e.kind, before, term))
        else:
            # Of two equal values the later one is chosen, which receives the derivative.
            pair = (before, body) if which == "min" else (body, before)
            chosen = choose(less(*pair, self.w), before, body)
        d = ir.Var(which, e.kind, self.span)
        exchange = within.memory("exch", d, place.moved(1))
        found: list[ir.Node] = []
        within.into(found, d, _set(e.kind), chosen, fresh=True)
        block = within.wrap(
            (ir.Local(d, False, self.span), exchange, *found, exchange, ir.Delocal(d, False, self.span))
        )
        self.compute.extend(self.loops(indices, shape, block))
        return load(start.shifted(count, 1), e.kind)

    def hoist(self, e: E, indices: frozenset[ir.Var]) -> None:
        """Compute the parts of e that do not depend on the indices, before a loop over these."""
        if self._hoist(e, indices):
            self.operand(e)

    def _hoist(self, e: E, indices: frozenset[ir.Var]) -> bool:
        """Whether e is independent of the indices; if it is not, its independent parts are computed."""
        if e.op in ("const", "read"):
            return e.param not in indices
        if e.op in ("total", "running"):
            return variables(e).isdisjoint(indices)
        if e.op == "choose":
            # Only one side of a choice is computed; the condition always is.
            self._hoist(e.args[0], indices)
            return False
        invariant = [self._hoist(x, indices) for x in e.args]
        if all(invariant):
            # The index of an array with one element has no part in its address, and is tested nevertheless.
            return e.op != "load" or not e.param.checks or variables(e).isdisjoint(indices)
        for x, fixed in zip(e.args, invariant, strict=True):
            if fixed and x.op not in ("const", "read", "add", "sub", "neg", "not", "view"):
                self.operand(x)
        return False

    def _logarithmic(self, out: list[ir.Node], d: ir.Var, update: str, e: E, fresh: bool) -> None:
        known = None if fresh else self._find(e)
        if known is not None:
            out.append(self.op("lmov", update, d, known))
            return
        match e.op:
            case "const" if e.param == 0:
                pass  # d *= 1
            case "load" if fresh and update == "mul":
                out.append(self.memory("ld.add", d, e.param))
            case "product" | "quotient":
                self.into(out, d, update, e.args[0], fresh)
                self.into(out, d, update if e.op == "product" else OPPOSITE[update], e.args[1])
            case "apply":
                out.append(self.op(e.param, update, d, *(self.operand(x) for x in e.args)))
            case "call" if self._in_place(e, update, fresh and update == "mul"):
                self._call(out, (d,), e, False)
            case "choose":
                self._choose(out, d, update, e, fresh)
            case _:
                out.append(self.op("lmov", update, d, self.operand(e)))


def _is_temporary(x: ir.Operand | None) -> bool:
    """Whether the number was computed for this statement, so that it may not fit."""
    return isinstance(x, ir.Var) and x.name.startswith("%")


def _farthest(which: str, kind: ir.Kind, w: Format) -> int:
    """The word that no number is less far from: the greatest for `min`, the least for `max`."""
    if kind is ir.Kind.UINT:
        return w.mask if which == "min" else 0
    if kind is not ir.Kind.LOGNUM:
        return w.sign - 1 if which == "min" else w.sign
    largest = (w.sign >> 1) - 1
    return largest if which == "min" else largest | w.sign


def _set(kind: ir.Kind) -> str:
    return "mul" if kind is ir.Kind.LOGNUM else "xor" if kind is ir.Kind.BOOL else "add"


def _is_recorded(e: E) -> bool:
    """Whether it is a number of the source that lies in memory, so that its error is known."""
    return e.op == "load" and e.param.region.exact is not None


def _is_zero(e: E) -> bool:
    return e.op == "const" and e.param == 0


def _name(e: E) -> str:
    """The name of a temporary in listings."""
    if e.op == "load":
        return e.param.region.name.rpartition(".")[2] or "m"
    return "t"


def allocate(t: Temporaries, var: ir.Var, e: E) -> ir.Block:
    """`var = e`: the statements that make a fresh variable and set it."""
    body: list[ir.Node] = []
    t.into(body, var, _set(var.kind), e, fresh=True)
    return (ir.Local(var, False, t.span), *t.wrap(tuple(body)))


def release(t: Temporaries, var: ir.Var, e: E | None, checked: bool) -> ir.Block:
    """`free(var, e)`: the statements that clear a variable, and free it."""
    body: list[ir.Node] = []
    if e is not None:
        # The inverse of `allocate`.
        t.into(body, var, _set(var.kind), e, fresh=True)
        body = list(ir.invert(body))
    return (*t.wrap(tuple(body)), ir.Delocal(var, checked, t.span))
