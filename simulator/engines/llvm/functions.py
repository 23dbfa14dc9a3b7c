"""What LLVM has no instruction for, as functions of a module: floored quotients of two-word numbers, rounded integer roots.

Written here once, for all targets.
"""

from __future__ import annotations

from retrograd.isa.words import Format
from retrograd.simulator.engines.llvm.builder import ModuleBuilder, bits, double


def integer_quotient(module: ModuleBuilder, w: Format) -> str:
    """⌊x / y⌋ mod 2^W, 0 if y = 0."""
    t, name = f"i{w.width}", f"@quotient{w.width}"
    return module.define(
        name,
        f"""define internal {t} {name}({t} %x, {t} %y) alwaysinline nounwind willreturn memory(none) {{
  %zero = icmp eq {t} %y, 0
  %minus = icmp eq {t} %y, -1
  %special = or i1 %zero, %minus
  %d = select i1 %special, {t} 1, {t} %y
  %q = sdiv {t} %x, %d
  %p = mul {t} %q, %d
  %r = sub {t} %x, %p
  %some = icmp ne {t} %r, 0
  %signs = xor {t} %r, %d
  %apart = icmp slt {t} %signs, 0
  %down = and i1 %some, %apart
  %one = zext i1 %down to {t}
  %floor = sub {t} %q, %one
  %negated = sub {t} 0, %x
  %some.other = select i1 %minus, {t} %negated, {t} %floor
  %out = select i1 %zero, {t} 0, {t} %some.other
  ret {t} %out
}}""",
    )


def wide_quotient(module: ModuleBuilder, w: Format, s: int) -> str:
    """⌊x·2^s / y⌋ as a word of 2W bits, 0 if y = 0; 0 <= s <= W.

    Where the quotient of the doubles is less than 2^50, it is wrong by less than 3/8 (three roundings of 2^−53 each), and the
    integer next to it by less than 7/8: that integer is the quotient or one more, and what remains, which has fewer than W
    bits, tells which. A quotient of doubles takes a third of the time of a host's division of two words by one.
    """
    t, wide, name = f"i{w.width}", f"i{2 * w.width}", f"@quotient{w.width}_{s}"
    module.define("@llvm.fabs.f64", "declare double @llvm.fabs.f64(double)")
    far = _far_quotient(module, w, s)

    def resized(value: str, bits: int, to: int) -> str:
        if bits == to:
            return f"add i{to} {value}, 0"
        return f"{'sext' if bits < to else 'trunc'} i{bits} {value} to i{to}"

    return module.define(
        name,
        f"""define internal {wide} {name}({t} %x, {t} %y) alwaysinline nounwind willreturn memory(none) {{
  %x.real = sitofp {t} %x to double
  %y.real = sitofp {t} %y to double
  %x.scaled = fmul double %x.real, {double(2.0**s)}
  %ratio = fdiv double %x.scaled, %y.real
  %size = call double @llvm.fabs.f64(double %ratio)
  %small = fcmp olt double %size, {double(2.0**50)}
  br i1 %small, label %near, label %far, !prof !2
near:
  %rounded = fadd double %ratio, {double(1.5 * 2.0**52)}
  %bits = bitcast double %rounded to i64
  %nearest = sub i64 %bits, {bits(1.5 * 2.0**52)}
  %x.word = {resized("%x", w.width, 64)}
  %y.word = {resized("%y", w.width, 64)}
  %n = {f"shl i64 %x.word, {s}" if s < 64 else "add i64 0, 0"}
  %p = mul i64 %nearest, %y.word
  %r = sub i64 %n, %p
  %y.negative = icmp slt i64 %y.word, 0
  %r.minus = sub i64 0, %r
  %r.side = select i1 %y.negative, i64 %r.minus, i64 %r
  %above = icmp slt i64 %r.side, 0
  %one = sext i1 %above to i64
  %q = add i64 %nearest, %one
  %q.near = {resized("%q", 64, 2 * w.width)}
  ret {wide} %q.near
far:
  %q.far = call {wide} {far}({t} %x, {t} %y)
  ret {wide} %q.far
}}""",
    )


def _far_quotient(module: ModuleBuilder, w: Format, s: int) -> str:
    """⌊x·2^s / y⌋ as a word of 2W bits, 0 if y = 0; 0 <= s <= W.

    By magnitudes: |x|·2^s and |y| are unsigned numbers of 2W and W bits for every x, y.
    """
    t, wide, name = f"i{w.width}", f"i{2 * w.width}", f"@far_quotient{w.width}_{s}"
    divided = _unsigned_quotient(module, w)
    module.define("!2", '!2 = !{!"branch_weights", i32 1000, i32 1}')
    return module.define(
        name,
        f"""define internal {wide} {name}({t} %x, {t} %y) nounwind willreturn memory(none) noinline cold {{
  %zero = icmp eq {t} %y, 0
  %x.negative = icmp slt {t} %x, 0
  %y.negative = icmp slt {t} %y, 0
  %x.minus = sub {t} 0, %x
  %y.minus = sub {t} 0, %y
  %x.size = select i1 %x.negative, {t} %x.minus, {t} %x
  %y.some = select i1 %y.negative, {t} %y.minus, {t} %y
  %y.size = select i1 %zero, {t} 1, {t} %y.some
  %x.wide = zext {t} %x.size to {wide}
  %top = shl {wide} %x.wide, {s}
  %both = call {{ {wide}, i1 }} {divided}({wide} %top, {t} %y.size)
  %q = extractvalue {{ {wide}, i1 }} %both, 0
  %inexact = extractvalue {{ {wide}, i1 }} %both, 1
  %negative = xor i1 %x.negative, %y.negative
  %one = zext i1 %inexact to {wide}
  %up = add {wide} %q, %one
  %down = sub {wide} 0, %up
  %floor = select i1 %negative, {wide} %down, {wide} %q
  %out = select i1 %zero, {wide} 0, {wide} %floor
  ret {wide} %out
}}""",
    )


def _unsigned_quotient(module: ModuleBuilder, w: Format) -> str:
    """{⌊n / d⌋, whether there is a remainder}, n of 2W bits, d of W bits and not zero."""
    t, wide, name = f"i{w.width}", f"i{2 * w.width}", f"@divide{w.width}"
    if w.width < 64:
        return module.define(
            name,
            f"""define internal {{ {wide}, i1 }} {name}({wide} %n, {t} %d) alwaysinline nounwind {{
  %wide = zext {t} %d to {wide}
  %q = udiv {wide} %n, %wide
  %p = mul {wide} %q, %wide
  %inexact = icmp ne {wide} %p, %n
  %some = insertvalue {{ {wide}, i1 }} poison, {wide} %q, 0
  %out = insertvalue {{ {wide}, i1 }} %some, i1 %inexact, 1
  ret {{ {wide}, i1 }} %out
}}""",
        )
    two = _two_by_one(module)
    return module.define(
        name,
        f"""define internal {{ i128, i1 }} {name}(i128 %n, i64 %d) alwaysinline nounwind willreturn memory(none) {{
  %n.high = lshr i128 %n, 64
  %high = trunc i128 %n.high to i64
  %low = trunc i128 %n to i64
  %fits = icmp ult i64 %high, %d
  br i1 %fits, label %divide, label %upper
upper:
  %q.upper = udiv i64 %high, %d
  %p = mul i64 %q.upper, %d
  %rest = sub i64 %high, %p
  br label %divide
divide:
  %q.high = phi i64 [ 0, %0 ], [ %q.upper, %upper ]
  %carry = phi i64 [ %high, %0 ], [ %rest, %upper ]
  %both = call {{ i64, i64 }} {two}(i64 %carry, i64 %low, i64 %d)
  %q.low = extractvalue {{ i64, i64 }} %both, 0
  %r = extractvalue {{ i64, i64 }} %both, 1
  %inexact = icmp ne i64 %r, 0
  %qa = zext i64 %q.high to i128
  %qb = shl i128 %qa, 64
  %qc = zext i64 %q.low to i128
  %q = or i128 %qb, %qc
  %some = insertvalue {{ i128, i1 }} poison, i128 %q, 0
  %result = insertvalue {{ i128, i1 }} %some, i1 %inexact, 1
  ret {{ i128, i1 }} %result
}}""",
    )


def _two_by_one(module: ModuleBuilder) -> str:
    """{quotient, remainder} of high·2^64 + low by d, where high < d: by the host's instruction, or in 32-bit digits.

    (D. Knuth, The Art of Computer Programming 2, section 4.3.1, algorithm D, for two digits.)
    """
    name = "@two_by_one"
    if module.divide is not None:
        return module.define(
            name,
            f"""define internal {{ i64, i64 }} {name}(i64 %high, i64 %low, i64 %d) alwaysinline nounwind {{
  %both = call {{ i64, i64 }} asm "{module.divide[0]}", "{module.divide[1]}"(i64 %d, i64 %low, i64 %high)
  ret {{ i64, i64 }} %both
}}""",
        )
    module.define("@llvm.ctlz.i64", "declare i64 @llvm.ctlz.i64(i64, i1)")
    digit = module.define(
        "@digit",
        """define internal i64 @digit(i64 %r, i64 %next, i64 %d) alwaysinline nounwind {
  %d1 = lshr i64 %d, 32
  %d0 = and i64 %d, 4294967295
  %guess = udiv i64 %r, %d1
  %p1 = mul i64 %guess, %d1
  %rest = sub i64 %r, %p1
  br label %check
check:
  %q = phi i64 [ %guess, %0 ], [ %q.less, %smaller ]
  %h = phi i64 [ %rest, %0 ], [ %h.more, %smaller ]
  %wide = icmp ugt i64 %q, 4294967295
  %p0 = mul i64 %q, %d0
  %h.up = shl i64 %h, 32
  %seen = or i64 %h.up, %next
  %over = icmp ugt i64 %p0, %seen
  %large = or i1 %wide, %over
  br i1 %large, label %smaller, label %done
smaller:
  %q.less = sub i64 %q, 1
  %h.more = add i64 %h, %d1
  %ended = icmp ugt i64 %h.more, 4294967295
  br i1 %ended, label %done, label %check
done:
  %out = phi i64 [ %q, %check ], [ %q.less, %smaller ]
  ret i64 %out
}""",
    )
    return module.define(
        name,
        f"""define internal {{ i64, i64 }} {name}(i64 %high, i64 %low, i64 %d) nounwind willreturn memory(none) {{
  %shift = call i64 @llvm.ctlz.i64(i64 %d, i1 true)
  %divisor = shl i64 %d, %shift
  %h1 = shl i64 %high, %shift
  %l1 = lshr i64 %low, 1
  %back = sub i64 63, %shift
  %l2 = lshr i64 %l1, %back
  %u = or i64 %h1, %l2
  %v = shl i64 %low, %shift
  %n1 = lshr i64 %v, 32
  %n0 = and i64 %v, 4294967295
  %q1 = call i64 {digit}(i64 %u, i64 %n1, i64 %divisor)
  %u1 = shl i64 %u, 32
  %u2 = or i64 %u1, %n1
  %p1 = mul i64 %q1, %divisor
  %r1 = sub i64 %u2, %p1
  %q0 = call i64 {digit}(i64 %r1, i64 %n0, i64 %divisor)
  %r2 = shl i64 %r1, 32
  %r3 = or i64 %r2, %n0
  %p0 = mul i64 %q0, %divisor
  %r4 = sub i64 %r3, %p0
  %r = lshr i64 %r4, %shift
  %q2 = shl i64 %q1, 32
  %q = or i64 %q2, %q0
  %some = insertvalue {{ i64, i64 }} poison, i64 %q, 0
  %out = insertvalue {{ i64, i64 }} %some, i64 %r, 1
  ret {{ i64, i64 }} %out
}}""",
    )


def integer_root(module: ModuleBuilder, w: Format, s: int) -> str:
    """The integer r nearest to √(x·2^s), 0 if x < 0: that with r² − r < n ≤ r² + r, n = x·2^s.

    The root of a double is within one of the root where that has fewer than 51 bits; else one step of Newton's method
    brings it there, from above: the mean of r and n/r is no less than √n.
    """
    t, name = f"i{w.width}", f"@root{w.width}_{s}"
    module.define("@llvm.sqrt.f64", "declare double @llvm.sqrt.f64(double)")
    bits = w.width - 1 + s
    square = "i64" if bits < 62 else "i128"

    def widen(value: str, to: str) -> list[str]:
        return [f"  {to} = zext i64 {value} to i128"] if square == "i128" else [f"  {to} = add i64 {value}, 0"]

    lines = [
        f"define internal {t} {name}({t} %x) nounwind willreturn memory(none) noinline {{",
        f"  %negative = icmp slt {t} %x, 0",
    ]
    lines += [f"  %some = icmp sgt {t} %x, 0"]
    extend = "add" if t == square else None
    lines += [f"  %n0 = {extend} {t} %x, 0" if extend else f"  %n0 = zext {t} %x to {square}"]
    lines += [f"  %n = shl {square} %n0, {s}"]
    if square == "i128":
        lines += [
            "  %n.high = lshr i128 %n, 64",
            "  %high = trunc i128 %n.high to i64",
            "  %low = trunc i128 %n to i64",
            "  %f.high = uitofp i64 %high to double",
            "  %f.low = uitofp i64 %low to double",
            "  %f.scaled = fmul double %f.high, 0x43F0000000000000",
            "  %f = fadd double %f.scaled, %f.low",
        ]
    else:
        lines += ["  %f = uitofp i64 %n to double"]
    # A negative number's root is thrown away in the end; until then it must only be a number.
    lines += [
        "  %f.safe = select i1 %some, double %f, double 1.0",
        "  %f.root = call double @llvm.sqrt.f64(double %f.safe)",
        "  %r0 = fptoui double %f.root to i64",
    ]
    root = "%r0"
    if bits > 100:
        two = _two_by_one(module)
        lines += [
            "  %safe.high = select i1 %some, i64 %high, i64 0",
            f"  %both = call {{ i64, i64 }} {two}(i64 %safe.high, i64 %low, i64 %r0)",
            "  %q = extractvalue { i64, i64 } %both, 0",
            "  %r0.half = lshr i64 %r0, 1",
            "  %q.half = lshr i64 %q, 1",
            "  %odd = and i64 %r0, %q",
            "  %odd.bit = and i64 %odd, 1",
            "  %r1 = add i64 %r0.half, %q.half",
            "  %r2 = add i64 %r1, %odd.bit",
        ]
        root = "%r2"
    lines += widen(root, "%w0")
    lines += [
        f"  %s0 = mul {square} %w0, %w0",
        f"  %p0 = sub {square} %s0, %w0",
        f"  %large = icmp uge {square} %p0, %n",
        "  %less = zext i1 %large to i64",
        f"  %r3 = sub i64 {root}, %less",
        "  %up = add i64 %r3, 1",
    ]
    lines += widen("%r3", "%w1")
    lines += [
        f"  %s1 = mul {square} %w1, %w1",
        f"  %p1 = add {square} %s1, %w1",
        f"  %small = icmp ult {square} %p1, %n",
        "  %r4 = select i1 %small, i64 %up, i64 %r3",
        f"  %r5 = {'trunc i64 %r4 to ' + t if w.width < 64 else 'add i64 %r4, 0'}",
        f"  %out = select i1 %some, {t} %r5, {t} 0",
        f"  ret {t} %out",
        "}",
    ]
    return module.define(name, "\n".join(lines))
