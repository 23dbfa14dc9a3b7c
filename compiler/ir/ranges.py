"""Range analysis: bounds of words, and words as sums of symbols.

    value = constant + Σ coefficientᵢ · symbolᵢ  mod 2^W,    low ≤ value ≤ high as a signed number

A symbol stands for an unknown number with bounds of its own. Two values made of the same symbols can be compared although
neither is known: for s ≥ 0, 5 (k + 1 + s) − 5 k is not zero.
Correct because the sum is exact mod 2^W, even if parts of it overflow. Bounds are kept only while no part overflows.
Source: interval arithmetic (R. E. Moore, Interval Analysis, 1966) on linear forms (K. L. Comba and J. Stolfi, Affine
arithmetic and its applications to computer graphics, 1993, without the errors).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from retrograd.compiler.ir import statements as ir
from retrograd.compiler.ir.instruction_selection import facts, is_rounded, length, operand, trip_values, word_after
from retrograd.compiler.ir.statements import Op
from retrograd.isa.words import Format

#: a sum of more symbols keeps its bounds alone
_MOST_TERMS = 8


class AffineValue(NamedTuple):
    """The bounds of a word, and the sum that it equals."""

    low: int
    high: int
    #: (symbol, coefficient), by symbol, no coefficient zero mod 2^W
    terms: tuple[tuple[int, int], ...]
    constant: int


class Symbols:
    """The symbols of one module, and arithmetic on sums of them."""

    def __init__(self, w: Format) -> None:
        self.w = w
        self.least, self.most = -w.sign, w.sign - 1
        self._bounds: list[tuple[int, int]] = []

    def unknown(self, low: int | None = None, high: int | None = None) -> AffineValue:
        """A new symbol: a number between the bounds."""
        low, high = self.least if low is None else low, self.most if high is None else high
        if low == high:
            return self.constant(low)
        self._bounds.append((low, high))
        return AffineValue(low, high, ((len(self._bounds) - 1, 1),), 0)

    def constant(self, word: int) -> AffineValue:
        number = self.w.signed(word)
        return AffineValue(number, number, (), number)

    def fits(self, low: int, high: int) -> bool:
        return self.least <= low and high <= self.most

    def _made(self, terms: dict[int, int], constant: int, low: int, high: int) -> AffineValue:
        """The value of the sum, whose bounds are low and high if nothing overflows."""
        w = self.w
        kept = tuple(sorted((symbol, w.signed(k)) for symbol, k in terms.items() if k & w.mask))
        constant = w.signed(constant)
        if not kept:
            return self.constant(constant)
        if len(kept) > _MOST_TERMS:
            return self.unknown(low, high) if self.fits(low, high) else self.unknown()
        if not self.fits(low, high):
            low, high = self.least, self.most
        least = most = constant
        for symbol, k in kept:
            ends = self._bounds[symbol]
            least += min(k * ends[0], k * ends[1])
            most += max(k * ends[0], k * ends[1])
        if self.fits(least, most):
            low, high = max(low, least), min(high, most)
        return AffineValue(low, high, kept, constant)

    def sum(self, x: AffineValue, y: AffineValue, sign: int = 1) -> AffineValue:
        """x + y, or x − y."""
        terms = dict(x.terms)
        for symbol, k in y.terms:
            terms[symbol] = terms.get(symbol, 0) + sign * k
        ends = (y.low, y.high) if sign > 0 else (-y.high, -y.low)
        return self._made(terms, x.constant + sign * y.constant, x.low + ends[0], x.high + ends[1])

    def times(self, x: AffineValue, factor: int) -> AffineValue:
        """x times a constant."""
        ends = (x.low * factor, x.high * factor)
        return self._made({s: k * factor for s, k in x.terms}, x.constant * factor, min(ends), max(ends))

    def product(self, x: AffineValue, y: AffineValue) -> AffineValue:
        for p, q in ((x, y), (y, x)):
            if not q.terms:
                return self.times(p, q.constant)
        ends = [p * q for p in (x.low, x.high) for q in (y.low, y.high)]
        return self.unknown(min(ends), max(ends)) if self.fits(min(ends), max(ends)) else self.unknown()

    # ------------------------------------------------------------------ instructions

    def function(self, op: Op, a: AffineValue, b: AffineValue) -> AffineValue | None:
        """f(a, b, imm) of an update of a register by a whole number; None where nothing is known."""
        name = op.opcode.entry.name
        if name in _WITH_CONSTANT:
            name, b = _WITH_CONSTANT[name], self.constant(op.imm)
        match name:
            case "mov":
                return a
            case "imm":
                return self.constant(op.imm)
            case "mul":
                return self.product(a, b)
            case "shl" if not b.terms:
                return self.times(a, 1 << (b.constant & self.w.mask) % self.w.width)
        bounds = _BOUNDS.get(name)
        ends = bounds(a, b, self.w) if bounds is not None else None
        if ends is None or ends[0] > ends[1] or not self.fits(*ends):
            return None
        return self.unknown(*ends)

    # ------------------------------------------------------------------ tests

    def holds(self, cc: str, x: AffineValue, y: AffineValue) -> bool | None:
        """Whether cc(x, y) is known to be true, or to be false."""
        difference = self.sum(x, y, -1)
        match cc:
            case "eq" | "ne":
                equal = _equal(difference) if _equal(difference) is not None else _apart(x, y)
                return equal if equal is None or cc == "eq" else not equal
            case "lt" | "ge":
                less = self._less(x, y, difference)
            case _:
                less = None
                if y.low >= 0:
                    # As an unsigned number, a negative word is above every other.
                    less = self._less(x, y, difference) if x.low >= 0 else False if x.high < 0 else None
        return less if less is None or cc in ("lt", "ltu") else not less

    def _less(self, x: AffineValue, y: AffineValue, difference: AffineValue) -> bool | None:
        if not self.fits(x.low - y.high, x.high - y.low):
            return True if x.high < y.low else False if x.low >= y.high else None
        return True if difference.high < 0 else False if difference.low >= 0 else None

    def narrowed(self, cc: str, x: AffineValue, y: AffineValue) -> AffineValue:
        """x, where cc(x, y) is known to hold: a condition of a branch, or one of MIRRORED."""
        low, high = x.low, x.high
        match cc:
            case "ltu" if y.low >= 0:
                low, high = max(low, 0), min(high, y.high - 1)
            case "lt":
                high = min(high, y.high - 1)
            case "ge":
                low = max(low, y.low)
            case "geu" if x.low >= 0 and y.low >= 0:
                low = max(low, y.low)
            case "gt":
                low = max(low, y.low + 1)
            case "le":
                high = min(high, y.high)
            case "gtu" if x.low >= 0 and y.low >= 0:
                low = max(low, y.low + 1)
            case "leu" if y.low >= 0:
                low, high = max(low, 0), min(high, y.high)
            case "eq":
                low, high = max(low, y.low), min(high, y.high)
            case "ne" if y.low == y.high:
                low, high = low + (low == y.low), high - (high == y.low)
        # A contradiction: this place is never reached, so any value is right.
        return x._replace(low=low, high=high) if low <= high else x


def _equal(difference: AffineValue) -> bool | None:
    if difference.low > 0 or difference.high < 0:
        return False
    return True if difference.low == difference.high == 0 else None


def _apart(x: AffineValue, y: AffineValue) -> bool | None:
    return False if x.high < y.low or y.high < x.low else None


#: cc(x, y) -> the equivalent cc'(y, x)
MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "ge": "le", "ltu": "gtu", "geu": "leu"}
_WITH_CONSTANT = {"muli": "mul", "andi": "and", "shli": "shl", "shri": "shr", "sari": "sar"}
_Bounds = Callable[[AffineValue, AffineValue, Format], tuple[int, int] | None]


def _and(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    tops = [x.high for x in (a, b) if x.low >= 0]
    return (0, min(tops)) if tops else None


def _quotient(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    return (min(a.low // b.low, a.low // b.high), max(a.high // b.low, a.high // b.high)) if b.low > 0 else None


def _remainder(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    if b.low <= 0:
        return None
    return (a.low, a.high) if a.low >= 0 and a.high < b.low else (0, b.high - 1)


def _shifted(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    k = (b.constant & w.mask) % w.width
    return (a.low >> k, a.high >> k) if not b.terms else None


def _shifted_in_zeros(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    k = (b.constant & w.mask) % w.width
    if b.terms or (a.low < 0 and k == 0):
        return None
    return (a.low >> k, a.high >> k) if a.low >= 0 else (0, w.mask >> k)


def _magnitude(a: AffineValue, b: AffineValue, w: Format) -> tuple[int, int] | None:
    return (max(a.low, -a.high, 0), max(-a.low, a.high)) if a.low > -w.sign else None


#: function -> the bounds of its result
_BOUNDS: dict[str, _Bounds] = {
    "and": _and,
    "div": _quotient,
    "mod": _remainder,
    "sar": _shifted,
    "shr": _shifted_in_zeros,
    "abs": _magnitude,
    "min": lambda a, b, w: (min(a.low, b.low), min(a.high, b.high)),
    "max": lambda a, b, w: (max(a.low, b.low), max(a.high, b.high)),
    "slt": lambda a, b, w: (0, 1),
    "sltu": lambda a, b, w: (0, 1),
    "seq": lambda a, b, w: (0, 1),
}


# -----------------------------------------------------------------------------
# Known values: which locals hold a constant, or a copy of another variable plus a constant, at each statement.
#
#     Local t; t += c               t = c
#     Local t; t += x; t += k       t = x + k      while x is not written
#     Local t; t += f; t += k       the offset of t is k, for any f
#
# A local is followed only if whole statements of its own block update it. Both the constant-propagation lattice (constant,
# or unknown) and the copy lattice are kept in one `KnownValue`. The clock counts statements, so that two walks of one body
# in the same order meet the same values.
# Source: G. A. Kildall, A unified approach to global program optimization, POPL 1973; here without joins, as a value that
# differs between two branches belongs to a local that is not followed.


class KnownValue(NamedTuple):
    """base + offset, both words; a constant where there is no base."""

    base: ir.Var | None
    offset: int


KNOWN_ZERO = KnownValue(None, 0)


class KnownValues:
    """The values of the locals of one body at the clock, after a survey of where each local lives and is written."""

    def __init__(self, module: ir.Module, body: ir.Block) -> None:
        self.w = module.format
        self.recorded = module.recorded
        self._procedures = module.procedures
        self.clock = 0
        #: local -> the clock at the start of the block that it lives in; that at its end
        self.births: dict[ir.Var, int] = {}
        self._ends: dict[ir.Var, int] = {}
        #: variable -> the clocks at which it is written
        self._writes: dict[ir.Var, list[int]] = {}
        #: locals that are not followed: a statement that changes them is not one update in their own block
        self._untracked: set[ir.Var] = set()
        #: the values of the locals at the clock
        self.values: dict[ir.Var, KnownValue] = {}
        #: which part of their word is a sum of constants
        self.offsets: dict[ir.Var, int] = {}
        #: locals whose value is unknown at some statement; locals whose offset is
        self.unknown: set[ir.Var] = set()
        self.unknown_offset: set[ir.Var] = set()
        self._survey(body)
        self._untracked |= self.births.keys() - self._ends.keys()
        self.unknown |= self._untracked
        self.restart()

    def restart(self) -> None:
        """Set the clock to the start of the body, for a walk in the order of the survey."""
        self.clock = 0
        self.values.clear()
        self.offsets.clear()

    # ------------------------------------------------------------------ the survey

    def _survey(self, block: ir.Block) -> None:
        birth = self.clock
        for node in block:
            self.clock += 1
            match node:
                case ir.Op(opcode):
                    written = facts(opcode).written
                    for place in written:
                        x = operand(node, place)
                        if isinstance(x, ir.Var):
                            self._note_write(x)
                            if self.births.get(x) != birth or len(written) > 1:
                                self._untracked.add(x)
                case ir.Local(var):
                    if var in self.births:
                        self._untracked.add(var)
                    self.births[var] = birth
                    self._note_write(var)
                case ir.Delocal(var):
                    if self.births.get(var) != birth:
                        self._untracked.add(var)
                    self._ends[var] = self.clock
                    self._note_write(var)
                case ir.Within(compute, body):
                    self._survey(compute)
                    self._survey(body)
                    # compute⁻¹ writes the same variables again, but no copy of them is alive there.
                    self.clock += 1
                    for inner in compute:
                        if isinstance(inner, ir.Local):
                            self._ends.setdefault(inner.var, self.clock)
                case ir.For(var, body=body):
                    if var in self.births or length(trip_values(node, self.w) or range(0)) != 1:
                        self._untracked.add(var)
                    self._note_write(var)
                    self.births[var] = -1
                    self._survey(body)
                    self._ends[var] = self.clock
                case ir.If(_, then, orelse):
                    self._survey(then)
                    self._survey(orelse)
                case ir.While(_, body):
                    self._survey(body)
                case ir.Call(name, args):
                    for i in self._procedures[name].written:
                        x = args[i]
                        if isinstance(x, ir.Var):
                            self._note_write(x)
                            self._untracked.add(x)
                case ir.Check() | ir.External():
                    pass

    def _note_write(self, var: ir.Var) -> None:
        self._writes.setdefault(var, []).append(self.clock)

    def _written_before(self, var: ir.Var, end: int) -> bool:
        """Whether the variable is written between the clock and the end."""
        writes = self._writes.get(var, [])
        i = bisect_left(writes, self.clock)
        return i < len(writes) and writes[i] < end

    # ------------------------------------------------------------------ the walk

    def begin(self, node: ir.Local) -> None:
        if node.var not in self._untracked:
            self.values[node.var] = KNOWN_ZERO
            self.offsets[node.var] = 0

    def end(self, node: ir.Delocal) -> None:
        if self.values.pop(node.var, None) != KNOWN_ZERO:
            self.unknown.add(node.var)
        if self.offsets.pop(node.var, 0):
            self.unknown_offset.add(node.var)

    def enter(self, loop: ir.For) -> None:
        """The variable of a loop of one pass is a constant."""
        if loop.var not in self._untracked:
            self.values[loop.var] = KnownValue(None, (trip_values(loop, self.w) or range(1))[0] & self.w.mask)

    def follow(self, op: ir.Op) -> None:
        """Bring values and offsets up to date with the instruction."""
        for place in facts(op.opcode).written:
            x = operand(op, place)
            if isinstance(x, ir.Var) and x in self.births:
                new = None if x in self._untracked else self._value_after(op, x)
                if new is None:
                    self.unknown.add(x)
                    self.values.pop(x, None)
                else:
                    self.values[x] = new
                if x in self.offsets and not self._shift(op, x):
                    self.unknown_offset.add(x)

    def of(self, x: ir.Operand | None) -> KnownValue | None:
        match x:
            case ir.Const(word):
                return KnownValue(None, word & self.w.mask)
            case ir.Var():
                return self.values.get(x, KnownValue(x, 0))
        return None

    def adds_constant(self, op: ir.Op) -> bool:
        """Whether the instruction moves a constant into its target."""
        value = self.of(op.a)
        return op.opcode.entry.name == "mov" and value is not None and value.base is None

    def _shift(self, op: ir.Op, d: ir.Var) -> bool:
        """Add the constant that the instruction adds to the offset of d. False if it is no plain sum."""
        f = facts(op.opcode)
        if f.function is None or f.checked or op.opcode.update not in ("add", "sub"):
            return False
        if self.adds_constant(op):
            value = self.of(op.a)
            assert value is not None
            sign = 1 if op.opcode.update == "add" else -1
            self.offsets[d] = (self.offsets[d] + sign * value.offset) & self.w.mask
        return True

    def _value_after(self, op: ir.Op, d: ir.Var) -> KnownValue | None:
        """The value of d after an update of it, or None if that is no constant and no copy."""
        old = self.values.get(d)
        if old is None or op.d is not d or facts(op.opcode).memory or (self.recorded and is_rounded(op.opcode)):
            return None
        a, b = self.of(op.a), self.of(op.b)
        if old.base is None and (a is None or a.base is None) and (b is None or b.base is None):
            words = tuple(None if x is None else x.offset for x in (a, b))
            word = word_after(op.opcode, old.offset, words[0], words[1], op.imm, self.w)
            return None if word is None else KnownValue(None, word)
        if a is None or b is not None:
            return None
        return self._sum_after(op, d, old, a)

    def _sum_after(self, op: ir.Op, d: ir.Var, old: KnownValue, a: KnownValue) -> KnownValue | None:
        """d ± a, where that is a variable and a constant, and nothing tests the sum."""
        match op.opcode.name:
            case "mov.add" if old.base is None or a.base is None:
                new = KnownValue(old.base or a.base, (old.offset + a.offset) & self.w.mask)
            case "fmov.add" | "lmov.mul" if old == KNOWN_ZERO and not a.offset:
                new = a
            case "mov.sub" if a.base is None or a.base is old.base:
                base = old.base if a.base is None else None
                new = KnownValue(base, (old.offset - a.offset) & self.w.mask)
            case _:
                return None
        if new.base is not None and self._written_before(new.base, self._ends[d]):
            return None
        return new
