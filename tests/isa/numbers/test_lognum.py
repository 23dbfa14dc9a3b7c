"""Lognumbers: sums and differences where they cancel, signs, zero, and the exact operations."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import mpmath as mp
import pytest
from retrograd.isa import laws
from retrograd.isa.folds import emit
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format

import retrograd as rg

FORMATS = [Format(64, 32), Format(32, 16)]
formats = pytest.mark.parametrize("w", FORMATS, ids=str)


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    with mp.workprec(200):
        yield


def lognum(w: Format, sign: int, log: int) -> int:
    return (w.sign if sign else 0) | (log & (w.sign - 1))


def parts(w: Format, word: int) -> tuple[int, int]:
    """(sign bit, log2 in units of the last place)."""
    low = word & (w.sign - 1)
    return word >> (w.width - 1), low - w.sign if low & (w.sign >> 1) else low


def compiled(name: str, w: Format) -> Callable[[int, int, int], int | str]:
    """(d, a, b) -> d afterwards, or the code of the trap."""
    run = laws.compile_execute(TABLE[name], w, ("a", "b", "br", "d"))

    def execute(d: int, a: int, b: int = 0) -> int | str:
        after = run(a, b, 0, d)
        return after if isinstance(after, str) else after[3]

    return execute


# ------------------------------------------------------------------ cancellation


def exact_log(w: Format, d: int, differ: bool) -> Any:
    """log2(1 ± 2^-d) in units of the last place."""
    one = 1 << w.frac
    q = mp.expm1(-mp.mpf(d) / one * mp.log(2))  # 2^-d − 1
    return mp.log(-q if differ else 2 + q, 2) * one


@formats
@pytest.mark.parametrize("differ", [True, False], ids=["cancelling", "adding"])
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.long)])
def test_every_small_difference(w: Format, differ: bool, step: int) -> None:
    """d = 1 … 4096 words: the result loses up to F leading bits, and must not lose the last one. Beyond 256, one in `step`."""
    add = compiled("ladd.mul", w)
    rng = random.Random(1)
    largest = mp.mpf(0)
    for d in (*range(1, 257), *range(257, 4097, step)):
        top = rng.randrange(-w.sign // 4, w.sign // 4)
        x, y = lognum(w, 0, top), lognum(w, differ, top - d)
        word = add(0, *((x, y) if d % 2 else (y, x)))
        assert isinstance(word, int)
        sign, log = parts(w, word)
        assert sign == 0
        largest = max(largest, abs(log - top - exact_log(w, d, differ)))
    assert 0.4 < largest <= 1


@formats
def test_where_the_method_changes(w: Format) -> None:
    """Differences below 2^-K go by a series in d, those above by 1 − 2^-d: both sides of the border, every power of two."""
    add = compiled("ladd.mul", w)
    border = 1 << (w.frac - 6)
    near = [border + i for i in range(-300, 300)] + [(1 << n) + i for n in range(2, w.width - 3) for i in (-1, 0, 1)]
    for d in near:
        top = min(w.sign // 2 - 1, d // 2)
        word = add(0, lognum(w, 0, top), lognum(w, 1, top - d))
        assert isinstance(word, int)
        assert abs(parts(w, word)[1] - top - exact_log(w, d, True)) <= 1, d


# ------------------------------------------------------------------ algebra


def pairs(w: Format, count: int) -> Iterator[tuple[int, int]]:
    rng = random.Random(9)
    for _ in range(count):
        x = rng.randrange(-w.sign // 4, w.sign // 4) >> rng.randrange(w.width - 4)
        y = x + (rng.randrange(-(64 << w.frac), 64 << w.frac) >> rng.randrange(w.frac + 6))
        yield lognum(w, rng.randrange(2), x), lognum(w, rng.randrange(2), max(-w.sign // 2, min(w.sign // 2 - 1, y)))


@formats
def test_addition_commutes_and_subtraction_changes_sign(w: Format) -> None:
    add, sub = compiled("ladd.mul", w), compiled("lsub.mul", w)
    for x, y in pairs(w, 2000):
        total, difference, other = add(0, x, y), sub(0, x, y), sub(0, y, x)
        assert total == add(0, y, x)
        assert sub(0, x, y ^ w.sign) == total
        assert difference == other == "RG0411" or (
            isinstance(difference, int) and isinstance(other, int) and difference ^ other == w.sign
        )
        # −(x + y) = (−x) + (−y)
        negated = add(0, x ^ w.sign, y ^ w.sign)
        assert negated == total or (isinstance(total, int) and negated == total ^ w.sign)


@formats
def test_signs(w: Format) -> None:
    add = compiled("ladd.mul", w)
    for (sx, sy), d in product(product((0, 1), repeat=2), (1, 5, 1 << w.frac, 3 << w.frac)):
        for x, y, larger in ((d, 0, sx), (0, d, sy)):
            word = add(0, lognum(w, sx, x), lognum(w, sy, y))
            assert isinstance(word, int)
            assert parts(w, word)[0] == larger


@formats
def test_doubling(w: Format) -> None:
    """x + x = 2x exactly: one is added to the logarithm."""
    add = compiled("ladd.mul", w)
    for x, _ in pairs(w, 200):
        sign, log = parts(w, x)
        assert add(0, x, x) == lognum(w, sign, log + (1 << w.frac))


@formats
def test_the_smaller_vanishes(w: Format) -> None:
    """Below half a unit's worth nothing is added, and down to there something may be."""
    add = compiled("ladd.mul", w)
    x = lognum(w, 0, 12345)
    far = (w.frac + 8) << w.frac
    for sign in (0, 1):
        assert add(0, x, lognum(w, sign, 12345 - far)) == x
        assert add(0, x, lognum(w, sign, -w.sign // 2)) == x
        assert add(0, x, lognum(w, sign, 12345 - ((w.frac - 2) << w.frac))) != x


# ------------------------------------------------------------------ zero


def machine(line: str, w: Format, *words: int, **options: Any) -> rg.Machine:
    out = rg.Machine(rg.assemble(f"start\n{line}\nfinish", format=w), **options)
    out.registers[1 : 1 + len(words)] = words
    out.step()
    return out


@formats
@pytest.mark.parametrize("update", ["mul", "div"])
def test_a_sum_that_is_zero_traps_with_its_operand(w: Format, update: str) -> None:
    for log in (0, 77, -5 << w.frac, w.sign // 2 - 1, -w.sign // 2):
        x = lognum(w, 0, log)
        for line, first, second in (
            (f"ladd.{update} r1, r2, r3", x, x ^ w.sign),
            (f"ladd.{update} r1, r2, r3", x ^ w.sign, x),
            (f"lsub.{update} r1, r2, r3", x, x),
            (f"lsub.{update} r1, r2, r2", x, 0),
        ):
            m = machine(line, w, 99, first, second)
            before = m.state()
            with pytest.raises(rg.Trap) as caught:
                m.step()
            assert caught.value.diagnostics[0].code == "RG0411"
            assert caught.value.value == first
            assert m.state() == before
            # One unit away it runs, but for results below the smallest lognum.
            if line.endswith("r3") and abs(log) < w.sign // 4:
                m.registers[3] ^= 1
                assert m.step()


@formats
def test_a_sum_too_large_traps(w: Format) -> None:
    top = lognum(w, 0, w.sign // 2 - 1)
    m = machine("ladd.mul r1, r2, r3", w, 0, top, top)
    with pytest.raises(rg.Trap) as caught:
        m.step()
    assert caught.value.diagnostics[0].code == "RG0404"
    assert caught.value.value == top
    wrapping = machine("ladd.mul r1, r2, r3", w, 0, top, top, overflow=False)
    assert wrapping.step()
    least = -w.sign // 2
    m = machine("lsub.mul r1, r2, r3", w, 0, lognum(w, 0, least + 1), lognum(w, 0, least))
    with pytest.raises(rg.Trap) as caught:
        m.step()
    assert caught.value.diagnostics[0].code == "RG0404"


# ------------------------------------------------------------------ exact operations


@formats
def test_multiplication_is_exact(w: Format) -> None:
    mul, div = compiled("lmov.mul", w), compiled("lmov.div", w)
    for x, y in pairs(w, 2000):
        (sx, lx), (sy, ly) = parts(w, x), parts(w, y)
        assert mul(x, y) == lognum(w, sx ^ sy, lx + ly)
        assert div(x, y) == lognum(w, sx ^ sy, lx - ly)
        product_ = mul(x, y)
        assert isinstance(product_, int)
        assert div(product_, y) == x
    # The carry of the logarithm never reaches the sign.
    assert mul(w.sign - 1, 1) == 0
    assert div(0, 1) == w.sign - 1


@formats
@pytest.mark.parametrize("name", ["ladd", "lsub", "ftol"])
def test_updates_multiply_and_divide(w: Format, name: str) -> None:
    mul, div = compiled(f"{name}.mul", w), compiled(f"{name}.div", w)
    rng = random.Random(8)
    for x, y in pairs(w, 300):
        value, d = mul(0, x, y), rng.getrandbits(w.width)
        if isinstance(value, str):
            assert div(0, x, y) == value
            continue
        (sd, ld), (sv, lv) = parts(w, d), parts(w, value)
        assert mul(d, x, y) == lognum(w, sd ^ sv, ld + lv)
        assert div(d, x, y) == lognum(w, sd ^ sv, ld - lv)


# ------------------------------------------------------------------ logarithms, exponentials, powers

#: formats at the ends of the available range
WIDE = [*FORMATS, Format(8, 4), Format(16, 2), Format(16, 14), Format(64, 48)]


def fitting(name: str, w: Format) -> Callable[[int, int], bool]:
    """(a, b) -> whether the overflow guards of the value hold, with 1 in the target."""
    opcode = TABLE[name]
    guards = [opcode.guard_predicate(g, w) for g in opcode.guards(w) if g.mode == "overflow"]
    statements, out = emit(guards, w, {"a": "a", "b": "b", "d": "0"})
    scope: dict[str, Any] = {}
    exec("def f(a, b):\n" + "".join(f"    {s}\n" for s in [*statements, f"return bool({' and '.join(out)})"]), scope)
    found: Callable[[int, int], bool] = scope["f"]
    return found


def words(w: Format, half: int, count: int = 1500) -> Iterator[int]:
    """Signed words below `half` in size, of every length, and both ends."""
    rng = random.Random(half)
    yield from (0, 1, -1, half - 1, -half, half // 2, -half // 2)
    for _ in range(count):
        yield rng.randrange(-half, half) >> rng.randrange(half.bit_length())


@pytest.mark.parametrize("w", WIDE, ids=str)
def test_the_logarithm_of_a_lognum(w: Format) -> None:
    """ln x = ln 2 · log2 x of each positive lognum, within 0.63 units; of a negative one it traps."""
    log = compiled("llog.add", w)
    worst = mp.mpf(0)
    for log2 in words(w, w.sign >> 1):
        found = log(0, lognum(w, 0, log2))
        assert isinstance(found, int)
        worst = max(worst, abs(w.signed(found) - log2 * mp.log(2)))
        assert log(0, lognum(w, 1, log2)) == "RG0403"
    assert 0.4 < worst <= 0.626


@pytest.mark.parametrize("w", WIDE, ids=str)
def test_the_exponential_as_a_lognum(w: Format) -> None:
    """log2 e^t = t · log2 e within 0.59 units, wherever it fits; elsewhere it traps."""
    exp, fits = compiled("lexp.mul", w), fitting("lexp.mul", w)
    half, worst = w.sign >> 1, mp.mpf(0)
    for t in words(w, w.sign):
        found, truth = exp(0, t & w.mask), t / mp.log(2)
        if not fits(t & w.mask, 0):
            assert abs(truth) > half - 2
            continue
        assert isinstance(found, int)
        assert parts(w, found)[0] == 0
        assert abs(truth) < half + 1
        worst = max(worst, abs(parts(w, found)[1] - truth))
    assert 0.4 < worst <= 0.588


@pytest.mark.parametrize("w", WIDE, ids=str)
def test_powers_of_a_lognum(w: Format) -> None:
    """log2 x^y = y · log2 x to nearest, ties up, wherever it fits; a root is a halving. Of a negative number it traps."""
    power, fits = compiled("lpow.mul", w), fitting("lpow.mul", w)
    rng, half, count = random.Random(3), w.sign >> 1, 0
    for log2 in words(w, half):
        y = rng.randrange(-w.sign, w.sign) >> rng.randrange(w.width)
        truth = (2 * y * log2 + (1 << w.frac)) >> (w.frac + 1)
        assert fits(lognum(w, 0, log2), y & w.mask) == (-half <= truth < half)
        if -half <= truth < half:
            count += 1
            assert power(0, lognum(w, 0, log2), y & w.mask) == lognum(w, 0, truth)
        assert power(0, lognum(w, 1, log2), y & w.mask) == "RG0403"
        assert power(0, lognum(w, 0, log2), 1 << (w.frac - 1)) == lognum(w, 0, (log2 + 1) >> 1)
    assert count > 100


@formats
@pytest.mark.parametrize("name", ["lexp", "lpow"])
def test_exponentials_and_powers_are_undone(w: Format, name: str) -> None:
    """d ×= v, then d ÷= v, with the v of a fresh target."""
    mul, div = compiled(f"{name}.mul", w), compiled(f"{name}.div", w)
    rng = random.Random(8)
    for x, y in pairs(w, 300):
        a, b, d = x & (w.sign - 1), y >> 8, rng.getrandbits(w.width)
        value, after = mul(0, a, b), mul(d, a, b)
        if isinstance(value, str):
            assert after == div(d, a, b) == value
            continue
        (sd, ld), (sv, lv) = parts(w, d), parts(w, value)
        assert after == lognum(w, sd ^ sv, ld + lv)
        assert isinstance(after, int)
        assert div(after, a, b) == d


# ------------------------------------------------------------------ to fixed point and back


@formats
def test_fixed_to_lognum_and_back(w: Format) -> None:
    """Half a unit of the logarithm, and the last rounding: |x|·ln2·2^-F·0.51 + 1 units."""
    to_lognum, to_fixed = compiled("ftol.mul", w), compiled("ltof.add", w)
    rng = random.Random(3)
    for _ in range(2000):
        x = rng.randrange(1, w.sign) >> rng.randrange(w.width - 1) or 1
        for signed in (x, -x):
            word = to_lognum(0, signed & w.mask)
            assert isinstance(word, int)
            back = to_fixed(0, word)
            assert isinstance(back, int)
            assert abs(w.signed(back) - signed) <= x * math.log(2) * 0.51 * 2.0**-w.frac + 1
    for x in range(1, 300):
        word = to_lognum(0, x)
        assert isinstance(word, int)
        assert to_fixed(0, word) == x


@formats
def test_lognum_to_fixed_and_back(w: Format) -> None:
    """From 1 on, a fixed-point number tells neighbouring logarithms apart to within its own rounding."""
    to_lognum, to_fixed = compiled("ftol.mul", w), compiled("ltof.add", w)
    rng = random.Random(4)
    bits = w.width - 1 - w.frac
    for _ in range(2000):
        sign, log = rng.randrange(2), rng.randrange(bits << w.frac)
        fixed = to_fixed(0, lognum(w, sign, log))
        assert isinstance(fixed, int)
        back = to_lognum(0, fixed)
        assert isinstance(back, int)
        s, found = parts(w, back)
        assert s == sign
        # 0.76 units of the fixed-point number, 1/ln2 of the logarithm's each, shrinking as the number grows.
        assert abs(found - log) <= 0.76 / math.log(2) * 2.0 ** -(log / (1 << w.frac)) + 0.55 + 1e-9


@formats
def test_what_fits_is_not_refused(w: Format) -> None:
    """The overflow guards of the conversions: the last word that fits, and the first that does not."""
    bits = w.width - 1 - w.frac
    opcode = TABLE["ltof.add"]
    guards = [opcode.guard_predicate(g, w) for g in opcode.guards(w) if g.mode == "overflow"]
    statements, out = emit(guards, w, {"a": "a", "d": "0"})
    scope: dict[str, Any] = {}
    exec("def f(a):\n" + "".join(f"    {s}\n" for s in [*statements, f"return {' and '.join(out)}"]), scope)
    end = bits << w.frac
    for sign in (0, 1):
        assert scope["f"](lognum(w, sign, end - 2))
        assert not scope["f"](lognum(w, sign, end))
        assert not scope["f"](lognum(w, sign, w.sign // 2 - 1))
        assert scope["f"](lognum(w, sign, -w.sign // 2))
