"""Arithmetic for which LLVM has no instruction: floored quotients of two-word numbers, rounded roots, two-word products in lanes.

`near_quotient`, `near_root` and, in lanes, `two_words` emit them in line; the others are functions of the module.
"""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import PURE, Callee, FunctionBuilder, ModuleBuilder, Value
from retrograd.simulator.engines.llvm.types import DOUBLE, I1, I64, I128, bits_of, integer, structure

INLINE = f"alwaysinline {PURE}"
#: shifts up to which the root of a double is within one of the root
ROOT_SHIFT = 37
_DIGIT = 0xFFFFFFFF


# ---------------------------------------------------------------------- quotients


def near_quotient(x: Value, y: Value, s: int) -> tuple[Value, Value]:
    """(⌊x·2^s / y⌋ in 64 bits, whether that is right), by the quotient of doubles; in lanes, too.

    Where the quotient of the doubles is less than 2^50, it is wrong by less than 3/8 (three roundings of 2^−53 each), and the
    integer next to it by less than 7/8. That integer is the quotient or one more. The remainder, which has fewer than 64
    bits, decides which. A quotient of doubles takes a third of the time of a host's division of two words by one.
    """
    ratio = x.convert("sitofp", DOUBLE) * 2.0**s / y.convert("sitofp", DOUBLE)
    small = x.code.intrinsic("fabs", ratio).lt(2.0**50)
    # The lower bits of a double between 2^52 and 2^53 are an integer.
    nearest = (ratio + 1.5 * 2.0**52).convert("bitcast", I64.vector(x.type.lanes)) - bits_of(1.5 * 2.0**52)
    a, b = x.to(I64, "sext"), y.to(I64, "sext")
    rest = (a << s if s < 64 else x.code.constant(a.type, 0)) - nearest * b
    above = (rest ^ b).lt(0) & rest.ne(0)
    return nearest + above.to(I64, "sext"), small


def integer_quotient(module: ModuleBuilder, w: Format) -> Callee:
    """⌊x / y⌋ mod 2^W, 0 if y = 0."""
    t = integer(w.width)

    def build(_: FunctionBuilder, x: Value, y: Value) -> Value:
        zero, minus = y.eq(0), y.eq(-1)
        divisor = (zero | minus).select(1, y)
        q = x.sdiv(divisor)
        rest = x - q * divisor
        down = rest.ne(0) & (rest ^ divisor).lt(0)
        return zero.select(0, minus.select(-x, q - down.to(t)))

    return module.shared(f"quotient{w.width}", t, {"x": t, "y": t}, INLINE, build)


def wide_quotient(module: ModuleBuilder, w: Format, s: int) -> Callee:
    """⌊x·2^s / y⌋ as a word of 2W bits, 0 if y = 0; 0 <= s <= W."""
    t, wide = integer(w.width), integer(2 * w.width)

    def build(f: FunctionBuilder, x: Value, y: Value) -> Value:
        quotient, small = near_quotient(x, y, s)
        with f.when(small, "near", likely=True):
            f.ret(quotient.to(wide, "sext"))
        return f.call(_far_quotient(module, w, s), x, y)

    return module.shared(f"quotient{w.width}_{s}", wide, {"x": t, "y": t}, INLINE, build)


def rounded_quotient(module: ModuleBuilder, w: Format, places: int) -> Callee:
    """{lower word, upper word, whether the lower one is all} of ⌊x·2^places / y + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋, 0 if y = 0; places < W.

    A quotient of doubles is below 2^49, so with words of 64 bits no check is made where it is right.
    """
    t = integer(w.width)

    def build(f: FunctionBuilder, x: Value, y: Value) -> Value:
        twice, small = near_quotient(x, y, places + 1)
        with f.when(small, "near", likely=True):
            rounded = (twice + 1).sar(1)
            word = rounded.to(t)
            if w.width == 64:
                f.ret(f.pack(word, word.sar(63), f.constant(I1, 1)))
            else:
                f.ret(f.pack(word, rounded.sar(w.width).to(t), word.to(I64, "sext").eq(rounded)))
        return f.call(_far_rounded_quotient(module, w, places), x, y)

    return module.shared(f"rounded_quotient{w.width}_{places}", structure(t, t, I1), {"x": t, "y": t}, INLINE, build)


def _far_rounded_quotient(module: ModuleBuilder, w: Format, places: int) -> Callee:
    """`rounded_quotient` of any operands."""
    t = integer(w.width)

    def build(f: FunctionBuilder, x: Value, y: Value) -> Value:
        # 0 stays 0: a divisor of 0 gives ⌊2z⌋ = 0.
        rounded = (f.call(_far_quotient(module, w, places + 1), x, y) + 1).sar(1)
        if places + 1 == w.width:
            # The one quotient of which twice as much is too many for 2W bits: −2^(W−1)·2^p / −1.
            too_large = x.eq(w.sign) & y.eq(-1)
            rounded = too_large.select(1 << 2 * w.width - 2, rounded)
        low, high = rounded.to(t), rounded.sar(w.width).to(t)
        return f.pack(low, high, high.eq(low.sar(w.width - 1)))

    name, attributes = f"far_rounded_quotient{w.width}_{places}", f"{PURE} noinline cold"
    return module.shared(name, structure(t, t, I1), {"x": t, "y": t}, attributes, build)


def _far_quotient(module: ModuleBuilder, w: Format, s: int) -> Callee:
    """⌊x·2^s / y⌋ as a word of 2W bits, 0 if y = 0; 0 <= s <= W.

    By magnitudes: |x|·2^s and |y| are unsigned numbers of 2W and W bits for every x, y.
    """
    t, wide = integer(w.width), integer(2 * w.width)

    def build(f: FunctionBuilder, x: Value, y: Value) -> Value:
        zero, x_negative, y_negative = y.eq(0), x.lt(0), y.lt(0)
        x_size, y_size = x_negative.select(-x, x), zero.select(1, y_negative.select(-y, y))
        both = f.call(_unsigned_quotient(module, w), x_size.to(wide) << s, y_size)
        q, inexact = both.part(0), both.part(1)
        down = -(q + inexact.to(wide))
        return zero.select(0, (x_negative ^ y_negative).select(down, q))

    return module.shared(f"far_quotient{w.width}_{s}", wide, {"x": t, "y": t}, f"{PURE} noinline cold", build)


def _unsigned_quotient(module: ModuleBuilder, w: Format) -> Callee:
    """{⌊n / d⌋, whether there is a remainder}, n of 2W bits, d of W bits and not zero."""
    t, wide = integer(w.width), integer(2 * w.width)

    def build(f: FunctionBuilder, n: Value, d: Value) -> Value:
        if w.width < 64:
            q = n.udiv(d.to(wide))
            return f.pack(q, (q * d.to(wide)).ne(n))
        high, low, entry = n.shr(64).to(t), n.to(t), f.block_now
        upper, divide = f.block("upper"), f.block("divide")
        f.branch(high.ltu(d), divide, upper)
        f.start(upper)
        q_upper = high.udiv(d)
        rest = high - q_upper * d
        f.start(divide)
        q_high = f.phi((0, entry), (q_upper, upper), type_=t)
        carry = f.phi((high, entry), (rest, upper), type_=t)
        both = f.call(_two_by_one(module), carry, low, d)
        return f.pack(q_high.to(wide) << 64 | both.part(0).to(wide), both.part(1).ne(0))

    return module.shared(f"divide{w.width}", structure(wide, I1), {"n": wide, "d": t}, INLINE, build)


def _two_by_one(module: ModuleBuilder) -> Callee:
    """{quotient, remainder} of high·2^64 + low by d, where high < d: by the host's instruction, or in 32-bit digits.

    (D. Knuth, The Art of Computer Programming 2, section 4.3.1, algorithm D, for two digits.)
    """

    def build(f: FunctionBuilder, high: Value, low: Value, d: Value) -> Value:
        if module.divide is not None:
            return f.assembly(*module.divide, f.callee.result, d, low, high)
        shift = f.intrinsic("ctlz", d, f.constant(I1, 1))
        divisor = d << shift
        # In two steps, since a shift by 64 is undefined.
        upper, lower = high << shift | low.shr(1).shr(f.constant(I64, 63) - shift), low << shift
        q1 = f.call(_digit(module), upper, lower.shr(32), divisor)
        rest = (upper << 32 | lower.shr(32)) - q1 * divisor
        q0 = f.call(_digit(module), rest, lower & _DIGIT, divisor)
        remainder = (rest << 32 | lower & _DIGIT) - q0 * divisor
        return f.pack(q1 << 32 | q0, remainder.shr(shift))

    attributes = PURE if module.divide is None else INLINE
    words = {"high": I64, "low": I64, "d": I64}
    return module.shared("two_by_one", structure(I64, I64), words, attributes, build)


def _digit(module: ModuleBuilder) -> Callee:
    """The digit ⌊(r·2^32 + next) / d⌋, r < d, where the highest bit of d is set: guessed by the upper half of d, then corrected."""

    def build(f: FunctionBuilder, r: Value, following: Value, d: Value) -> Value:
        d1, d0 = d.shr(32), d & _DIGIT
        guess = r.udiv(d1)
        q, h = f.variable(I64, "q", guess), f.variable(I64, "h", r - guess * d1)
        check, smaller, done = map(f.block, ("check", "smaller", "done"))
        f.start(check)
        digit, rest = q.load(), h.load()
        large = digit.gtu(_DIGIT) | (digit * d0).gtu(rest << 32 | following)
        f.branch(large, smaller, done)
        f.start(smaller)
        q.store(digit - 1)
        h.store(rest + d1)
        f.branch((rest + d1).gtu(_DIGIT), done, check)
        f.start(done)
        return q.load()

    return module.shared("digit", I64, {"r": I64, "next": I64, "d": I64}, INLINE, build)


# ---------------------------------------------------------------------- roots


def integer_root(module: ModuleBuilder, w: Format, s: int) -> Callee:
    """The integer r nearest to √(x·2^s), 0 if x < 0: the one with r² − r < n ≤ r² + r, n = x·2^s.

    The root of a double is within one of the root where that has fewer than 51 bits. For larger ones, one step of Newton's
    method is made, from above: the mean of r and n/r is no less than √n.
    """
    t, bits = integer(w.width), w.width - 1 + s
    square = I64 if bits < 62 else I128

    def build(f: FunctionBuilder, x: Value) -> Value:
        some, n = x.gt(0), x.to(square) << s
        high, low = n.to(I128).shr(64).to(I64), n.to(I64)
        real = low.convert("uitofp", DOUBLE)
        if square is I128:
            real = high.convert("uitofp", DOUBLE) * 2.0**64 + real
        # The root of a negative number is discarded in the end; until then it must only be a number.
        root = f.intrinsic("sqrt", some.select(real, 1.0)).convert("fptoui", I64)
        if bits > 100:
            q = f.call(_two_by_one(module), some.select(high, 0), low, root).part(0)
            root = root.shr(1) + q.shr(1) + (root & q & 1)
        r = root.to(square)
        root = root - (r * r - r).geu(n).to(I64)
        r = root.to(square)
        root = (r * r + r).ltu(n).select(root + 1, root)
        return some.select(root.to(t), 0)

    return module.shared(f"root{w.width}_{s}", t, {"x": t}, f"{PURE} noinline", build)


def near_root(x: Value, s: int) -> Value:
    """The same for words of 64 bits, s ≤ ROOT_SHIFT; in lanes, too.

    The root of the double is less than one below the root, and less than ½ above, so the remainder fits a word even where
    intermediate results wrap.
    """
    safe = x.gt(0).select(x, 0)
    real = safe.convert("sitofp", DOUBLE) * 2.0**s
    r = x.code.intrinsic("sqrt", real).convert("fptosi", I64)
    return r + ((safe << s) - r * r).gt(r).to(I64)


# ---------------------------------------------------------------------- products


def two_words(a: Value, b: Value, added: int) -> tuple[Value, Value]:
    """(lower, upper word) of the signed product a·b + added in lanes of 64 bits; `added` is 0 or a power of two up to 2^63.

    With x = x₁·2^32 + x₀ in signed halves:   a·b = a₁b₁·2^64 + (a₁b₀ + a₀b₁)·2^32 + a₀b₀

    Signed products need no correction for negative words. The middle sum and the carry into it stay below 2^63 − 2^31, so the sum
    has room for the upper part of `added`. Trap: wrong where `undivided` of a or b is negative.
    """
    (a0, a1), (b0, b1) = _halves(a), _halves(b)
    low = a0 * b0
    if 0 < added <= 1 << 32:
        low = low + added
    middle = a1 * b0 + a0 * b1 + low.sar(32)
    if added > 1 << 32:
        middle = middle + (added >> 32)
    return middle << 32 | low & _DIGIT, a1 * b1 + middle.sar(32)


def _halves(x: Value) -> tuple[Value, Value]:
    """(x₀, x₁) of 32 signed bits each, x = x₁·2^32 + x₀."""
    return (x << 32).sar(32), (x + (1 << 31)).sar(32)


def undivided(x: Value) -> Value:
    """A word that is negative if and only if x has no signed halves: if x ≥ 2^63 − 2^31, the sum x + 2^31 wraps."""
    return (x + (1 << 31)) & ~x
