"""Arithmetic for which LLVM has no instruction: floored quotients of two-word numbers, rounded roots, two-word products in lanes.

`near_quotient`, `near_root` and, in lanes, `root_in_lanes` and `two_words` emit them in line; the others are functions of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from typing import Any, NamedTuple, TypeVar

from retrograd.isa.expr import ZERO, Expr, half, nodes
from retrograd.isa.folds import is_truth, product_tested_by, quotient_tested_by, sum_tested_by
from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import (
    DOUBLE,
    I1,
    I64,
    I128,
    POINTER,
    PURE,
    Callee,
    FunctionBuilder,
    ModuleBuilder,
    Value,
    bits_of,
    integer,
    pointer,
    structure,
)

INLINE = f"alwaysinline {PURE}"
#: shifts up to which the root of a double is within one of the root
ROOT_SHIFT = 37
_DIGIT = 0xFFFFFFFF


# ---------------------------------------------------------------------- quotients


def near_quotient(x: Value, y: Value, s: int) -> tuple[Value, Value]:
    """(⌊x·2^s / y⌋ in 64 bits, whether that is right), by the quotient of doubles; in lanes, too.

    Where the quotient of the doubles is less than 2^50, it is wrong by less than 1/2 (three roundings of 2^−53 each, and half a unit of
    2^−3), and the integer next to it by less than 1. That integer is the quotient or one more. The remainder, which has fewer than 64
    bits, decides which. A quotient of doubles takes a third of the time of a host's division of two words by one.
    """
    ratio = _ratio(x, y, s)
    small = x.code.intrinsic("fabs", ratio).lt(2.0**50)
    _, nearest = _nearest(ratio)
    a, b = x.to(I64, "sext"), y.to(I64, "sext")
    rest = (a << s if s < 64 else x.code.constant(a.type, 0)) - nearest * b
    above = (rest ^ b).lt(0) & rest.ne(0)
    return nearest + above.to(I64, "sext"), small


class WideQuotient(NamedTuple):
    """A quotient of 2W bits: its words, and whether the lower word is all of it."""

    low: Value
    high: Value
    fits: Value


def rounded_quotient(x: Value, y: Value, w: Format, places: int) -> WideQuotient:
    """⌊x·2^places / y + ½⌋ in line, 0 if y = 0; places < W.

    z = x·2^places / y, and the quotient of doubles has a relative error below 2^−50. The integer n next to it is right if
    |z̃ − n| + 2^−50 |z̃| < ½. That is false where n has more than 49 bits, and where y is 0.
    """
    code, t = x.code, integer(w.width)
    key = f"rounded quotient {x} {y} {places}"
    found = code.known.get(key)
    if found is None:
        ratio = _ratio(x, y, places)
        whole, nearest = _nearest(ratio)

        def unsure() -> Sequence[Value]:
            words = code.call(_unsure_quotient(code.module, w, places), x, y)
            low = words.part(0)
            return low, words.part(1), words.part(2), low.convert("sitofp", DOUBLE)

        word = nearest.to(t)
        if w.width == 64:
            high, fits = word.sar(63), code.constant(I1, 1)
        else:
            high, fits = nearest.sar(w.width).to(t), word.to(I64, "sext").eq(nearest)
        low, high, fits, double = code.likely(_is_sure(ratio, whole), (word, high, fits, whole), unsure)
        if w.width == 64:
            code.doubles[low] = double
        found = code.known[key] = WideQuotient(low, high, fits)
    return found


def long_quotient(x: Value, y: Value, w: Format, places: int) -> WideQuotient:
    """The same for words of 64 bits, by the host's division of two words by one: faster where quotients fill a word.

    |x|·2^p = q·|y| + r. The magnitude q is rounded up where 2r ≥ |y|, or, of a negative quotient, where 2r > |y|.
    q is a word where the upper word of |x|·2^p is below |y|. q = 2^64 − 1 is never rounded up: 2^p would be |y| / 2
    or less, and |x| more than a word.
    """
    code = x.code
    key = f"long quotient {x} {y} {places}"
    found = code.known.get(key)
    if found is None:
        x_sign, y_sign = x.sar(63), y.sar(63)
        size, divisor, sign = (x ^ x_sign) - x_sign, (y ^ y_sign) - y_sign, x_sign ^ y_sign
        upper = size.shr(64 - places) if places else code.constant(I64, 0)
        short = upper.ltu(divisor)
        # The instruction must have a quotient where none is used, too.
        upper, divisor = short.select(upper, 0), short.select(divisor, 1)
        both = code.call(_two_by_one(code.module), upper, size << places, divisor)
        q, r = both.part(0), both.part(1)
        q = q + (divisor - r - sign).leu(r).to(I64)
        word, high = (q ^ sign) - sign, sign & q.ne(0).to(I64, "sext")

        def unsure() -> Sequence[Value]:
            words = code.call(_unsure_quotient(code.module, w, places), x, y)
            return words.part(0), words.part(1), words.part(2)

        found = WideQuotient(*code.likely(short, (word, high, high.eq(word.sar(63))), unsure))
        code.known[key] = found
    return found


def rounded_quotient_in_lanes(x: Value, y: Value, places: int) -> tuple[Value, Value]:
    """(the same in lanes of 64 bits, whether it is right): right where |z| < 2^61, and |y| < 2^49 if |z| ≥ 2^49.

    Where a rounding is not sure, ⌊2z⌋ decides, in two digits: the first is a multiple of 2^14 where 2z has more than 50 bits,
    and its remainder, below 2^14·|y|, a word; the second is the quotient of this remainder, less than 1 too large or right.
    """
    code, far = x.code, 1 << 14
    ratio = _ratio(x, y, places)
    whole, nearest = _nearest(ratio)
    size = code.intrinsic("fabs", ratio)
    sound = size.lt(2.0**61)
    # |y| < 2^(64 + places) / 2^50
    if places > 34:
        sound = sound & (size.lt(2.0**49) | code.intrinsic("fabs", _double(y)).lt(2.0**49))
    all_sure = _is_sure(ratio, whole).convert("bitcast", integer(x.type.lanes)).eq(-1)

    def unsure() -> Sequence[Value]:
        a, b, twice = x.to(I64, "sext"), y.to(I64, "sext"), ratio * 2.0
        digit = size.lt(2.0**49).select(_nearest(twice)[1], _nearest(twice * (1 / far))[1] * far)
        rest = (a << places + 1 if places < 63 else code.constant(a.type, 0)) - digit * b
        digit_after = _nearest(rest.convert("sitofp", DOUBLE) * (_scaled_inverse(y, places) * 2.0**-places))[1]
        rest = rest - digit_after * b
        above = (rest ^ b).lt(0) & rest.ne(0)
        # 0 stays 0: a divisor of 0 gives ⌊2z⌋ = 0.
        return ((digit + digit_after + above.to(I64, "sext") + 1).sar(1),)

    (quotient,) = code.likely(all_sure, (nearest,), unsure)
    return quotient, sound


def _is_sure(real: Value, whole: Value) -> Value:
    """Whether a double with a relative error below 2^−50 is certainly closer than ½ to the integer."""
    code = real.code
    part, small = code.constant(real.type, 2.0**-50), code.intrinsic("fabs", real - whole)
    return code.intrinsic("fmuladd", code.intrinsic("fabs", real), part, small).lt(0.5)


def _double(x: Value) -> Value:
    """The double next to the word. Of 0 + y it is that of y: LLVM finds out whether the word to which y is added is zero."""
    code = x.code
    found = code.doubles.get(x)
    if found is None:
        found = x.convert("sitofp", DOUBLE)
        how, before, added, _ = code.facts.get(x, ("", x, x, False))
        if how == "add" and added in code.doubles:
            found = before.eq(0).select(code.doubles[added], found)
        code.doubles[x] = found
    return found


def _ratio(x: Value, y: Value, s: int) -> Value:
    """x·2^s / y in doubles, as a product with 2^s / y: quotients by the same divisor, or by that of a loop, share the division."""
    return _double(x) * _scaled_inverse(y, s)


def _scaled_inverse(y: Value, s: int) -> Value:
    """2^s / y in doubles."""
    divisor = _double(y)
    return y.code.constant(divisor.type, 2.0**s) / divisor


def _nearest(ratio: Value) -> tuple[Value, Value]:
    """The integer next to a double below 2^51, as a double and in 64 bits."""
    # The lower bits of a double between 2^52 and 2^53 are an integer.
    shifted = ratio + 1.5 * 2.0**52
    bits = shifted.convert("bitcast", I64.vector(ratio.type.lanes))
    return shifted - 1.5 * 2.0**52, bits - bits_of(1.5 * 2.0**52)


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


def _unsure_quotient(module: ModuleBuilder, w: Format, places: int) -> Callee:
    """{lower word, upper word, whether the lower one is all} of a rounded quotient: ⌊z + ½⌋ = ⌊(⌊2z⌋ + 1) / 2⌋."""
    t = integer(w.width)

    def build(f: FunctionBuilder, x: Value, y: Value) -> Value:
        twice, small = near_quotient(x, y, places + 1)
        with f.when(small, "near", likely=True):
            near = (twice + 1).sar(1)
            word = near.to(t)
            f.ret(
                f.pack(word, near.sar(w.width).to(t) if w.width < 64 else word.sar(63), word.to(I64, "sext").eq(near))
            )
        # 0 stays 0: a divisor of 0 gives ⌊2z⌋ = 0.
        rounded = (f.call(_far_quotient(module, w, places + 1), x, y) + 1).sar(1)
        if places + 1 == w.width:
            # The one quotient of which twice as much is too many for 2W bits: −2^(W−1)·2^p / −1.
            too_large = x.eq(w.sign) & y.eq(-1)
            rounded = too_large.select(1 << 2 * w.width - 2, rounded)
        low, high = rounded.to(t), rounded.sar(w.width).to(t)
        return f.pack(low, high, high.eq(low.sar(w.width - 1)))

    name, attributes = f"unsure_quotient{w.width}_{places}", f"{PURE} noinline cold"
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
    """The same for words of 64 bits, s ≤ ROOT_SHIFT."""
    code, key = x.code, f"root {x} {s}"
    if key in code.known:
        root: Value = code.known[key]
        return root
    safe, real = _root_of_double(x, s)

    def unsure() -> Sequence[Value]:
        r = _corrected_root(safe, real, s)
        return r, r.convert("sitofp", DOUBLE)

    whole, nearest = _nearest(real)
    root, double = code.likely(_is_sure(real, whole), (nearest, whole), unsure)
    code.doubles[root], code.known[key] = double, root
    return root


def long_root(x: Value, s: int) -> Value:
    """The same by the host's division of two words by one, ROOT_SHIFT < s < 64.

    The double's root r₀ is off by e < 2^11, so Newton's step ⌊(r₀ + ⌊n / r₀⌋) / 2⌋ is ⌊√n⌋, or one more where √n lies
    less than e² / 2r₀ below that. The remainder n − r², in 64 bits, is 0 … 2r in the one case, below 2^64 − 2^24, and
    −e² … −1 in the other.
    """
    code = x.code
    key = f"long root {x} {s}"
    found = code.known.get(key)
    if found is None:
        some = x.gt(0)
        n = some.select(x, 1)
        upper, lower = n.shr(64 - s), n << s
        guess = code.intrinsic("sqrt", n.convert("sitofp", DOUBLE) * 2.0**s).convert("fptosi", I64)
        r = (guess + code.call(_two_by_one(code.module), upper, lower, guess).part(0)).shr(1)
        rest = lower - r * r
        above = rest.gtu(r) & rest.ltu(-(1 << 24))
        found = code.known[key] = some.select(r + above.to(I64), 0)
    return found


def root_in_lanes(x: Value, s: int) -> tuple[Value, Value]:
    """(the same in lanes of 64 bits, whether it is right); always right for s ≤ ROOT_SHIFT."""
    safe, real = _root_of_double(x, s)
    sound = real.lt(2.0**50)
    if s > ROOT_SHIFT:
        # A double of 2^63 and more is no integer of 64 bits.
        real = sound.select(real, 0.0)
    return _corrected_root(safe, real, s), sound


def _root_of_double(x: Value, s: int) -> tuple[Value, Value]:
    """(n, √(n·2^s) in doubles), n = max(x, 0). The root has a relative error below 2^−50."""
    safe = x.gt(0).select(x, 0)
    return safe, x.code.intrinsic("sqrt", safe.convert("sitofp", DOUBLE) * 2.0**s)


def _corrected_root(n: Value, real: Value, s: int) -> Value:
    """The integer nearest to √(n·2^s), where its double is below 2^50.

    The integer part of the double is less than one below the right one, and less than ½ above, so the remainder fits a word even
    where intermediate results wrap.
    """
    r = real.convert("fptosi", I64)
    return r + ((n << s) - r * r).gt(r).to(I64)


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


def product_of_pairs(a: Value, b: Value, added: int, s: int) -> Value:
    """⌊(a·b + added) / 2^s⌋ in lanes of 32 bits, 0 ≤ s ≤ 32, of the words at even places and of those at odd places.

    Two neighbours are a word of 64 bits, so no word is extended or shortened.
    """
    pair = I64.vector(a.type.lanes // 2)
    x, y = a.convert("bitcast", pair), b.convert("bitcast", pair)
    even = (x << 32).sar(32) * (y << 32).sar(32) + added
    odd = x.sar(32) * y.sar(32) + added
    low, high = even if s == 0 else even.shr(s), odd if s == 32 else odd << 32 - s
    return (low & _DIGIT | high & ~_DIGIT).convert("bitcast", a.type)


def undivided(x: Value) -> Value:
    """A word that is negative if and only if x has no signed halves: if x ≥ 2^63 − 2^31, the sum x + 2^31 wraps."""
    return (x + (1 << 31)) & ~x


# -----------------------------------------------------------------------------
# Fold: the expression tree as LLVM IR, for the machines that compile: host code, host code in lanes, and PTX.
#
# Words are `iW`, or vectors of them with one word for each lane; every node is one value of that type, as `isa.expr.OPERATIONS`
# defines it. Arithmetic for which LLVM has no instruction is in `functions.py`.
#
# Overrides, each of which computes the value that the nodes define (tests compare with `evaluate`):
#     a sum and whether it fits       sadd.with.overflow, ssub.with.overflow
#     words of one product            one product of 2W bits, to which half a unit is added where it is rounded
#     quotients of the same operands  one quotient of 2W bits: ⌊⌊z⌋ / 2^k⌋ = ⌊z / 2^k⌋
#     whether a product fits          a comparison of its upper word alone
#     a rounded quotient, a root      the integer next to that of doubles, if that is certain
#
# In lanes, there are no products and quotients of 128 bits. Products of long words are made of four products of 32
# bits, right only for operands below 2^63 − 2^31; quotients and long roots are right only below 2^50.
# `unsound` gives the lanes whose values must not be used.

T = TypeVar("T")
#: the width of words for whose products there is no integer of twice as many bits in lanes
LANE_WIDTH = 64


class _Sharing(NamedTuple):
    """Nodes of several trees that are computed together."""

    #: sums that need an overflow bit
    checked: set[Expr]
    #: operands -> the largest shift of their floored quotients; whether all are without a shift
    shifts: dict[tuple[Expr, Expr], int]
    flat: dict[tuple[Expr, Expr], bool]


@cache
def _sharing_of(roots: tuple[Expr, ...], w: Format) -> _Sharing:
    out = _Sharing(set(), {}, {})
    for node in nodes(*roots):
        sum_ = sum_tested_by(node)
        if sum_ is not None:
            out.checked.add(sum_)
        if node.op == "divshift":
            operands, shift = (node.args[0], node.args[1]), _parameter(node)
            if shift < w.width:
                out.shifts[operands] = max(shift, out.shifts.get(operands, 0))
            out.flat[operands] = out.flat.get(operands, True) and shift == 0
    return out


class Trees:
    """Trees as code, over words that have values: `words[name]` is the value of the place `name`.

    Values are kept, so that a second tree shares the nodes of the first. All roots must be given beforehand, because
    they determine which sums need an overflow bit, and which quotients belong together. `deferred`: roots that are checked
    later, so that no other value depends on them. `long`: quotients and roots probably have more bits than a double.
    """

    def __init__(
        self,
        code: FunctionBuilder,
        w: Format,
        words: Mapping[str, Value],
        roots: tuple[Expr, ...],
        deferred: tuple[Expr, ...] = (),
        lanes: int = 1,
        long: bool = False,
    ) -> None:
        self._code, self._w, self._words, self._lanes = code, w, words, lanes
        #: quotients and roots go through the host's division of two words by one
        self._long = long and lanes == 1 and w.width == LANE_WIDTH and code.module.divide is not None
        self._word = integer(w.width).vector(lanes)
        self._values: dict[Expr, Value] = {}
        self._truths: dict[Expr, Value] = {}
        #: products and quotients of which several nodes take words
        self._wide: dict[tuple[object, ...], Any] = {}
        self._wrapped: dict[Expr, Value] = {}
        #: in lanes: words that are negative where a sum does not fit
        self._signs: dict[Expr, Value] = {}
        #: where a truth holds, or a word is negative, values must not be used
        self.unsound_truths: list[Value] = []
        self.unsound_words: list[Value] = []
        self._sharing = _sharing_of(roots, w)
        #: sums whose overflow is a deferred check
        self._deferred = _checked_sums(deferred)

    def value(self, root: Expr) -> Value:
        """The word of the tree."""
        found = self._values.get(root)
        if found is None:
            values = self._values
            for node in nodes(root):
                if node not in values and not is_truth(node):
                    values[node] = self._emit(node)
            found = values.get(root)
        if found is None:
            found = self._values[root] = self.truth(root).to(self._word)
        return found

    def truth(self, root: Expr) -> Value:
        """The tree as i1: whether its word is not zero."""
        found = self._truths.get(root)
        if found is None:
            for node in nodes(root):
                if node not in self._truths and is_truth(node):
                    self._truths[node] = self._emit_truth(node)
            found = self._truths.get(root)
            if found is None:
                found = self._truths[root] = self.value(root).ne(0)
        return found

    def unsound(self) -> list[Value]:
        """Truths: where one holds, values must not be used."""
        negative = [reduce(or_, self.unsound_words).lt(0)] if self.unsound_words else []
        return [*self.unsound_truths, *negative]

    def below(self, guard: Expr) -> tuple[Value, int] | None:
        """(word, k), where the guard holds if and only if the unsigned word is below 2^k: the words of several guards can be gathered by `or`.

        In lanes, for a sum or a product that must fit; else None.
        """
        if self._lanes == 1:
            return None
        sum_ = sum_tested_by(guard)
        if sum_ is not None:
            self.value(sum_)
            sign = self._signs.get(sum_)
            return None if sign is None else (sign, self._w.width - 1)
        product = product_tested_by(guard, self._w)
        return None if product is None else (self._above(product), _parameter(product))

    # ------------------------------------------------------------------ one node

    def _emit_truth(self, node: Expr) -> Value:
        sum_ = sum_tested_by(node)
        if sum_ is not None:
            self.value(sum_)
            return ~self._wrapped[sum_]
        x, y = node.args[0], node.args[1]
        match node.op:
            case "eq" if y is ZERO and is_truth(x):
                return ~self.truth(x)
            case "eq" if (product := product_tested_by(node, self._w)) is not None:
                return self._product_fits(product)
            case "eq" if self._lanes == 1 and (quotient := quotient_tested_by(node, self._w)) is not None:
                return self._both_words(quotient.args[0], quotient.args[1], _parameter(quotient)).fits
            case "eq":
                return self.value(x).eq(self.value(y))
            case "lt":
                return self.value(x).lt(self.value(y))
            case "ltu":
                return self.value(x).ltu(self.value(y))
            case "and" | "or":
                return self._code.binary(node.op, self.truth(x), self.truth(y))
            case "select":
                return self.truth(x).select(self.truth(y), self.truth(node.args[2]))
        raise ValueError(f"{node.op!r} is no truth")

    def _emit(self, node: Expr) -> Value:
        if node in self._sharing.checked:
            return self._sum_with_overflow(node)
        op, s = node.op, _parameter(node)
        match op:
            case "input":
                return self._words[str(node.param)]
            case "const":
                return self._code.constant(self._word, s)
            case "select":
                x, y = self.value(node.args[1]), self.value(node.args[2])
                return self.truth(node.args[0]).select(x, y)
            case "table" if isinstance(node.param, tuple):
                return self._look_up(self.value(node.args[0]), node.param)
        values = self._values
        v = [values[arg] if arg in values else self.value(arg) for arg in node.args]
        match op:
            case "add" | "sub":
                cancelled = _cancelled(op, v[0], v[1])
                if cancelled is not None:
                    return cancelled[0]
                return self._remember(self._code.binary(op, v[0], v[1]), op, v[0], v[1], False)
            case "and" | "or" | "xor":
                return self._code.binary(op, v[0], v[1])
            case "shl" | "shr" | "sar":
                return self._code.binary(_SHIFTS[op], v[0], v[1] & self._w.width - 1)
            case "mulshift" | "mulround" if s == 0:
                return v[0] * v[1]
            case "mulshift" | "mulround":
                return self._product(node.args[0], node.args[1], s, _added(node, self._w))
            case "divshift":
                return self._quotient(node.args[0], node.args[1], s)
            case "divround":
                return self._rounded_quotient(node.args[0], node.args[1], s)
            case "sqrtround":
                return self._root(v[0], s)
        raise ValueError(f"no LLVM for operation {op!r}")

    # ------------------------------------------------------------------ sums

    def _sum_with_overflow(self, node: Expr) -> Value:
        x, y = self.value(node.args[0]), self.value(node.args[1])
        cancelled = _cancelled(node.op, x, y)
        if cancelled is not None and cancelled[1] and node in self._deferred:
            # Where this sum does not fit, neither did the other, and that is checked already.
            self._wrapped[node] = self._code.constant(self._word.truth, 0)
            return cancelled[0]
        if self._lanes > 1:
            return self._sum_in_lanes(node, x, y, cancelled)
        result = structure(self._word, self._word.truth)
        both = self._code.intrinsic(f"s{node.op}.with.overflow", x, y, result=result)
        self._wrapped[node] = both.part(1)
        if cancelled is not None:
            return cancelled[0]
        return self._remember(both.part(0), node.op, x, y, node in self._deferred)

    def _sum_in_lanes(self, node: Expr, x: Value, y: Value, cancelled: tuple[Value, bool] | None) -> Value:
        """A sum overflows where its sign differs from those of its operands; a difference, where the operands' differ and its own from x's.

        Logic on words takes less than the comparisons that LLVM makes of `with.overflow`.
        """
        found = self._code.binary(node.op, x, y)
        other = y ^ found if node.op == "add" else x ^ y
        sign = self._signs[node] = (x ^ found) & other
        self._wrapped[node] = sign.lt(0)
        if cancelled is not None:
            return cancelled[0]
        return self._remember(found, node.op, x, y, node in self._deferred)

    def _remember(self, found: Value, op: str, x: Value, y: Value, deferred: bool) -> Value:
        self._code.facts[found] = op, x, y, deferred
        return found

    # ------------------------------------------------------------------ products

    def _once(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        if key not in self._wide:
            self._wide[key] = make()
        return self._wide[key]  # type: ignore[no-any-return]

    def _product(self, x: Expr, y: Expr, s: int, added: int) -> Value:
        """⌊(x·y + added) / 2^s⌋, s > 0, added ≤ 2^(W−1)."""
        known = self._known_factor(x, y)
        if known is not None and s < LANE_WIDTH and -1 << s < known[0] <= 1 << s and added in (0, 1 << s - 1):
            return self._product_with_fraction(*known, s, added)
        if self._lanes > 1 and self._w.width == LANE_WIDTH:
            low, high = self._once(("words", x, y, added), lambda: self._two_words(x, y, added))
            if s < LANE_WIDTH:
                return self._code.intrinsic("fshr", high, low, self._code.constant(self._word, s))
            return high.sar(min(s - LANE_WIDTH, LANE_WIDTH - 1))
        if self._lanes > 1 and self._w.width == 32 and s <= 32:
            return self._once(
                ("pairs", x, y, added, s), lambda: product_of_pairs(self.value(x), self.value(y), added, s)
            )
        return self._wide_product(x, y, added).sar(min(s, 2 * self._w.width - 1)).to(self._word)

    def _known_factor(self, x: Expr, y: Expr) -> tuple[int, Value] | None:
        """(a factor that is a constant, the other one) of words of 64 bits, for a host."""
        if self._lanes > 1 or self._w.width != LANE_WIDTH or self._code.module.tables:
            return None
        for one, other in ((x, y), (y, x)):
            number = self._code.number(self.value(one))
            if number is not None:
                return number, self.value(other)
        return None

    def _product_with_fraction(self, c: int, x: Value, s: int, added: int) -> Value:
        """⌊(c·x + added) / 2^s⌋, −2^s < c ≤ 2^s, added = 0 or 2^(s−1), which is always a word.

        c·2^(64−s) = q·2^64 + r, |q| ≤ 1, so it is q·x, and the upper word of r·x, and, if rounded, the bit below that.
        LLVM must not see r: it would take its zeros off, and shift the product of two words again.
        """
        scaled, t = c << LANE_WIDTH - s, self._word.twice
        r = (scaled + (1 << LANE_WIDTH - 1)) % (1 << LANE_WIDTH) - (1 << LANE_WIDTH - 1)
        wide = self._code.binary("mul nsw", x.to(t, "sext"), self._code.hidden(self._word, r).to(t, "sext"))
        found = wide.sar(LANE_WIDTH).to(self._word)
        if scaled != r:
            found = found + x if scaled > r else found - x
        return found + wide.to(self._word).shr(LANE_WIDTH - 1) if added else found

    def _two_words(self, x: Expr, y: Expr, added: int) -> tuple[Value, Value]:
        factors = self.value(x), self.value(y)
        self.unsound_words += map(undivided, dict.fromkeys(factors))
        return two_words(*factors, added)

    def _wide_product(self, x: Expr, y: Expr, added: int) -> Value:
        """x·y + added, added ≤ 2^(W−1), as a word of 2W bits."""
        if added:
            plain = self._wide_product(x, y, 0)
            return self._once(("product", x, y, added), lambda: self._code.binary("add nsw", plain, added))

        def make() -> Value:
            a, b = (self.value(v).to(self._word.twice, "sext") for v in (x, y))
            return self._code.binary("mul nsw", a, b)

        return self._once(("product", x, y, 0), make)

    def _product_fits(self, low: Expr) -> Value:
        """Whether ⌊p / 2^s⌋ is a word: whether the upper word of p is in [−2^(s−1), 2^(s−1))."""
        known = self._known_factor(low.args[0], low.args[1])
        if known is not None and -1 << _parameter(low) < known[0] <= 1 << _parameter(low):
            return self._code.constant(self._word.truth, 1)
        return self._above(low).ltu(1 << _parameter(low))

    def _above(self, low: Expr) -> Value:
        """A word that is below 2^s, unsigned, if and only if ⌊p / 2^s⌋ is a word."""
        s = _parameter(low)
        upper = self._product(low.args[0], low.args[1], self._w.width, _added(low, self._w))
        return upper + (1 << s - 1)

    # ------------------------------------------------------------------ quotients, roots, tables

    def _quotient(self, x: Expr, y: Expr, s: int) -> Value:
        if self._lanes == 1 and self._sharing.flat[x, y]:
            return self._code.call(integer_quotient(self._code.module, self._w), self.value(x), self.value(y))
        quotient, top = self._wide_quotient(x, y, s)
        return self._shifted(quotient, top - s)

    def _shifted(self, quotient: Value, by: int) -> Value:
        """A word of a quotient that may be longer."""
        return quotient.sar(min(by, quotient.type.bits - 1)).to(self._word)

    def _wide_quotient(self, x: Expr, y: Expr, s: int) -> tuple[Value, int]:
        """(⌊x·2^t / y⌋, t), t ≥ s; in lanes in one word, which it fits where it is sound."""
        # −2^(W−1)·2^W / −1 is one too many for 2W bits: shifted by W, a quotient gives its own low word and no other's.
        top = s if s == self._w.width else self._sharing.shifts[x, y]
        operands = self.value(x), self.value(y)

        def make() -> Value:
            if self._lanes == 1:
                return self._code.call(wide_quotient(self._code.module, self._w, top), *operands)
            quotient, sound = near_quotient(*operands, top)
            self.unsound_truths.append(~sound)
            return quotient

        return self._once(("quotient", x, y, top), make), top

    def _rounded_quotient(self, x: Expr, y: Expr, s: int) -> Value:
        """A word of ⌊x·2^p / y + ½⌋, p = s mod W: the one below 2^(p − s)."""
        places = s % self._w.width
        if self._lanes == 1:
            words = self._both_words(x, y, places)
            word = words.high if s < 0 else words.low
            return word.sar(self._w.width - 1 if s < -self._w.width else 0)

        def make() -> Value:
            quotient, sound = rounded_quotient_in_lanes(self.value(x), self.value(y), places)
            self.unsound_truths.append(~sound)
            return quotient

        return self._shifted(self._once(("rounded", x, y, places), make), places - s)

    def _both_words(self, x: Expr, y: Expr, places: int) -> WideQuotient:
        """Of ⌊x·2^places / y + ½⌋."""
        quotient = long_quotient if self._long else rounded_quotient
        return self._once(("rounded", x, y, places), lambda: quotient(self.value(x), self.value(y), self._w, places))

    def _root(self, x: Value, s: int) -> Value:
        module = self._code.module
        # In line a root takes registers, of which a thread of a device has few.
        if self._lanes > 1:
            root, sound = root_in_lanes(x.to(I64, "sext"), s)
            if s > ROOT_SHIFT:
                self.unsound_truths.append(~sound)
            return root.to(self._word)
        if ROOT_SHIFT < s < LANE_WIDTH and self._long:
            return long_root(x, s)
        if s <= ROOT_SHIFT and self._w.width == LANE_WIDTH and not module.tables:
            return near_root(x, s)
        return self._code.call(integer_root(module, self._w, s), x)

    def _look_up(self, index: Value, values: tuple[int, ...]) -> Value:
        code, module, t = self._code, self._code.module, self._word.element
        space = pointer(module.tables) if module.tables else POINTER
        table = Value(code, space, module.table(values, t)).of(t)
        entry = table[(index & len(values) - 1).to(integer(64))]
        if self._lanes == 1:
            return entry.load()
        return entry.gather(code.constant(self._word.truth, 1), t.bits // 8)


_SHIFTS = {"shl": "shl", "shr": "lshr", "sar": "ashr"}


def _cancelled(op: str, x: Value, y: Value) -> tuple[Value, bool] | None:
    """(the value of a sum that cancels another, whether the check of the other is deferred): (x + y) − y = x, and its like.

    Programs that run backward are full of them: a value is computed, used, and computed again to be cleared. LLVM does not
    find them where sums are checked.
    """
    facts = x.code.facts
    before, a, b, deferred = facts.get(x, ("", None, None, False))
    if op == "sub" and before == "add" and y in (a, b):
        return (a if y is b else b), deferred
    if op == "add" and before == "sub" and y is b:
        return a, deferred
    before, a, b, deferred = facts.get(y, ("", None, None, False))
    if before == "sub" and x is (a if op == "sub" else b):
        return (b if op == "sub" else a), deferred
    return None


def _parameter(node: Expr) -> int:
    return node.param if isinstance(node.param, int) else 0


def _added(product: Expr, w: Format) -> int:
    """The half unit that is added to a product before it is shifted."""
    return half(_parameter(product), w) if product.op == "mulround" else 0


def _conjuncts(node: Expr) -> Iterator[Expr]:
    """The truths that all hold where the truth holds."""
    if node.op == "and" and is_truth(node):
        yield from _conjuncts(node.args[0])
        yield from _conjuncts(node.args[1])
    else:
        yield node


@cache
def _checked_sums(truths: tuple[Expr, ...]) -> set[Expr | None]:
    return {sum_tested_by(part) for truth in truths for part in _conjuncts(truth)}
