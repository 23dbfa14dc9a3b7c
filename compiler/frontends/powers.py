"""Powers with an integer exponent that is known only when the program runs, by repeated squaring.

    y += x ** n,  n ≥ 0:    q[k] = 1,  q[j] = q[j + 1]² · x^(bit j of m),  y += q[0]² · x^(bit 0 of n)

where m = n >> 1 has k bits. Each q[j] is x^(m >> j), so a constant exponent makes the same products: both give the
same words. The inverse of the procedure is y −= x ** n.

The array q lies in memory and is zero between calls. Powers of one kind share it, since no call of a power is made by another.
Ints wrap. A product of fixed numbers that overflows traps; each of them is a power of x that is no larger than the result
where |x| ≥ 1.
Trap to avoid: shift amounts count modulo the width, so m and not n is shifted: m has at most W − 1 bits. The exponent is read
as unsigned, hence |−2^(W−1)| is right too.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from retrograd.compiler.ir.statements import (
    Block,
    Const,
    Delocal,
    For,
    If,
    Kind,
    Local,
    Node,
    Op,
    Operand,
    Procedure,
    Region,
    Test,
    Var,
    While,
    Within,
)
from retrograd.isa.diagnostics import Span
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

_ZERO, _ONE = Const(0), Const(1)


class Powers:
    """The procedures that compute powers in one program: one for each kind and each place in the source.

    `define(span, kind)` adds a procedure to the program and returns its name; `reserve(kind)` a region of W words.
    """

    def __init__(self, w: Format, reserve: Callable[[Kind], Region], define: Callable[[Procedure], str]) -> None:
        self._w = w
        self._reserve = reserve
        self._define = define
        self._names: dict[tuple[Kind, Span | None], str] = {}
        self._regions: dict[Kind, Region] = {}

    def __call__(self, kind: Kind, span: Span | None) -> str:
        """The name of the procedure for `y += x ** n` of a kind, whose instructions belong to this place."""
        key = kind, span
        if key not in self._names:
            if kind not in self._regions:
                self._regions[kind] = self._reserve(kind)
            self._names[key] = self._define(power(self._w, kind, self._regions[kind], span))
        return self._names[key]

    def keep(self, procedures: Container[str], regions: Container[Region]) -> None:
        """Forget procedures and regions that were removed from the program."""
        self._names = {key: name for key, name in self._names.items() if name in procedures}
        self._regions = {kind: region for kind, region in self._regions.items() if region in regions}


def power(w: Format, kind: Kind, q: Region, span: Span | None) -> Procedure:
    """The procedure (y, x, n): y += x ** n, for n ≥ 0 as an unsigned word. `q` has W words."""
    y, x, n = Var("y", kind), Var("x", kind), Var("n", Kind.INT)
    m, k, rest, i = (Var(name, Kind.INT, span) for name in ("half", "bits", "rest", "i"))
    fixed = kind is Kind.FIXED
    base = q.address or 0
    multiply = "fmul" if fixed else "mul"

    def op(name: str, d: Operand | None, a: Operand, b: Operand | None = None) -> Op:
        return Op(TABLE[name], d, a, b, 0, span)

    def memory(name: str, d: Operand | None, a: Operand, b: Operand | None = None) -> Op:
        return Op(TABLE[name], d, a, b, base, span, q)

    def local(name: str, of: Kind, *steps: Callable[[Var], Node]) -> tuple[Var, Block]:
        var = Var(name, of, span)
        return var, (Local(var, False, span), *(step(var) for step in steps))

    def step(d: Var, a: Var, odd: Var) -> Block:
        """d += a² · x^odd."""
        square, squared = local("square", kind, lambda s: op(f"{multiply}.add", s, a, a))
        times, plain = op(f"{multiply}.add", d, square, x), op("fmov.add" if fixed else "mov.add", d, square)
        test = Test("ne", odd, _ZERO)
        return (Within(squared, (If(test, (times,), (plain,), test, span),), None, span),)

    # One pass for each bit of q's exponents, from the first.
    j, before = local("j", Kind.INT, lambda j: op("mov.add", j, i), lambda j: op("mov.sub", j, _ONE))
    shifted, shift = local("shifted", Kind.INT, lambda s: op("shr.add", s, m, j))
    odd, lowest = local("odd", Kind.INT, lambda o: op("and.add", o, shifted, _ONE))
    a, loaded = local("a", kind, lambda a: memory("ld.add", a, i))
    d = Var("next", kind, span)
    exchange = memory("exch", d, j)
    made: Block = (Local(d, False, span), exchange, *step(d, a, odd), exchange, Delocal(d, False, span))
    passed = Within((*before, *shift, *lowest, *loaded), made, None, span)

    compute: Block = (
        Local(m, False, span),
        op("shr.add", m, n, _ONE),
        Local(k, False, span),
        Local(rest, False, span),
        op("mov.add", rest, m),
        While(
            Test("ne", rest, _ZERO),
            (op("shr.sub", rest, m, k), op("mov.add", k, _ONE), op("shr.add", rest, m, k)),
            Test("ne", k, _ZERO),
            span,
        ),
        Delocal(rest, False, span),
        memory("st.add", None, k, Const(1 << w.frac if fixed else 1)),
        For(i, k, _ZERO, -1, (passed,), False, False, span),
    )
    odd, lowest = local("odd", Kind.INT, lambda o: op("and.add", o, n, _ONE))
    a, loaded = local("a", kind, lambda a: memory("ld.add", a, _ZERO))
    last = Within((*lowest, *loaded), step(y, a, odd), None, span)
    body = (Within(compute, (last,), None, span),)
    return Procedure("power", (y, x, n), (), body, frozenset({0}), False, span)
