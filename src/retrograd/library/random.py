"""Generators of random numbers that run backward, and numbers, permutations and masks that are drawn from them.

    draw(result, rng):   result += a function of the next word,  rng := its next state
    ~draw(result, rng):  rng := its state before,  result −= the same function of the same word

A generator is a struct of unsigned words whose step is a bijection. A draw computes its word from the state, adds a
function of the word to the result, and steps. So a draw leaves no garbage, and its inverse finds the former state and
the same word. Every draw of a function takes the same number of words, whatever the words are.

A generator has three methods: `output(w)` adds the next word to w, `advance()` steps, `fill(block)` adds its state to
four words. A struct of your own with these methods serves as well. The streams are those of the published generators:
of NumPy's `PCG64`, and of the reference codes of PCG32, xoshiro256** and Philox.

    generator    bits of state   period      a word                 instructions for a word and the step
    PCG32                  128   2⁶⁴         two outputs of 32 bits   65
    PCG64                  256   2¹²⁸        an output of 64 bits     43
    Xoshiro256             256   2²⁵⁶ − 1    an output of 64 bits     20
    philox                                   a quarter of a block    463

Words of 64 bits are needed; formats of other widths are refused (RG0714). These generators are no ciphers: do not draw
secrets from them.

Sources: M. E. O'Neill, PCG, HMC-CS-2014-0905; D. Blackman and S. Vigna, ACM Transactions on Mathematical Software 47
(2021), 36; J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011; D. Lemire, ACM Transactions on
Modeling and Computer Simulation 29 (2019), 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd as rg
from retrograd import Array, fixed, reversible, uint
from retrograd.library.statistics import box_muller

__all__ = [
    "PCG32", "PCG64", "Xoshiro256", "bernoulli", "dropout", "integer", "normal", "permutation", "philox", "shuffle",
    "uniform", "word",
]  # fmt: skip

LOW, MASK = (
    0xFFFFFFFF,
    (1 << 64) - 1,
)  # `assert w <= MASK` is always true of 64 bits; a narrower word refuses the constant
#: the multipliers of PCG32 and PCG64
FACTOR_32 = 6364136223846793005
FACTOR_64 = 47026247687942121848144207491837523525
HIGH_64, LOW_64 = FACTOR_64 >> 64, FACTOR_64 & MASK
#: the multipliers of Philox, and what is added to its keys in each round
PHILOX = 0xD2E7470EE14C6C93, 0xCA5A826395121157
WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
#: a key of Philox for words that replace rejected ones
REPLACED = 0x7265747279


@reversible
def add_high(out: uint, a: uint, b: uint) -> None:
    """out += ⌊a·b / 2⁶⁴⌋. Inverse: out −= the same. By four products of halves."""
    assert a <= MASK
    with rg.routine() as r:
        right = (a & LOW) * (b & LOW)
        middle = (a >> 32) * (b & LOW) + (right >> 32)
        other = (a & LOW) * (b >> 32) + (middle & LOW)
    out += (a >> 32) * (b >> 32)
    out += middle >> 32
    out += other >> 32
    ~r


# -----------------------------------------------------------------------------
# Generators.


@rg.struct
class PCG32:
    """PCG-XSH-RR of 64 bits of state and 32 bits of output: s := 6364136223846793005 s + inc, inc odd.

    Inverse of the step: s := (s − inc)/6364136223846793005 modulo 2⁶⁴. A word is two outputs, the first one above.
    """

    state: uint
    increment: uint

    @classmethod
    def seeded(cls, seed: int, stream: int = 0) -> PCG32:
        """`pcg32_srandom(seed, stream)` of the reference code."""
        increment = (2 * stream + 1) & MASK
        return cls((((seed + increment) & MASK) * FACTOR_32 + increment) & MASK, increment)

    @reversible
    def step(self) -> None:
        """s := 6364136223846793005 s + inc. Inverse: the step back."""
        self.state *= FACTOR_32
        self.state += self.increment

    @reversible
    def half(self, out: uint) -> None:
        """out += the 32 bits of this state, bits 27 … 58 of s ^ (s >> 18), turned to the right by s >> 59.

        Inverse: −=.
        """
        assert self.state <= MASK
        with rg.routine() as r:
            turn = self.state >> 59
            bits = ((self.state ^ (self.state >> 18)) >> 27) & LOW
        out += ((bits | (bits << 32)) >> turn) & LOW
        ~r

    @reversible
    def output(self, out: uint) -> None:
        """out += 2³² · this output + the next one. Inverse: −=."""
        with rg.routine() as r:
            above = uint(0)
            self.half(above)
            self.step()
            below = uint(0)
            self.half(below)
        out += (above << 32) + below
        ~r

    @reversible
    def advance(self) -> None:
        """Two steps. Inverse: two steps back."""
        self.step()
        self.step()

    @reversible
    def fill(self, block: Array[uint, 4]) -> None:
        """block += (s, inc, 0, 0). Inverse: −=."""
        block[0] += self.state
        block[1] += self.increment


@rg.struct
class PCG64:
    """PCG-XSL-RR of 128 bits of state and 64 bits of output: s := `FACTOR_64` s + inc, inc odd.

    Inverse of the step: s := (s − inc)/the factor modulo 2¹²⁸. `high` and `low` are the halves of s.
    Trap: s is the state of which the next word is made, a step after the state that NumPy shows.
    """

    high: uint
    low: uint
    increment_high: uint
    increment_low: uint

    @classmethod
    def seeded(cls, seed: Any) -> PCG64:
        """The stream of `np.random.PCG64(seed)`; `seed` is a number, or such a generator, whose next words follow."""
        numpy_one = seed if isinstance(seed, np.random.PCG64) else np.random.PCG64(seed)
        found: Any = numpy_one.state["state"]
        s, increment = found["state"], found["inc"]
        s = (s * FACTOR_64 + increment) % (1 << 128)
        return cls(s >> 64, s & MASK, increment >> 64, increment & MASK)

    @reversible
    def output(self, out: uint) -> None:
        """out += (high ^ low), turned to the right by the upper six bits of high. Inverse: −=."""
        assert self.high <= MASK
        with rg.routine() as r:
            turn = self.high >> 58
            bits = self.high ^ self.low
            rg.ror(bits, turn)
        out += bits
        ~r

    @reversible
    def advance(self) -> None:
        """s := factor · s + inc modulo 2¹²⁸. Inverse: the step back."""
        self.high *= LOW_64
        self.high += self.low * HIGH_64
        add_high(self.high, self.low, LOW_64)
        self.low *= LOW_64
        self.low += self.increment_low
        self.high += self.increment_high
        self.high += int(self.low < self.increment_low)

    @reversible
    def fill(self, block: Array[uint, 4]) -> None:
        """block += (high, low, inc). Inverse: −=."""
        block[0] += self.high
        block[1] += self.low
        block[2] += self.increment_high
        block[3] += self.increment_low


@rg.struct
class Xoshiro256:
    """xoshiro256**: a linear bijection of 256 bits, not all zero.

    Inverse of the step: the same exclusive ors in the opposite order.
    """

    s0: uint
    s1: uint
    s2: uint
    s3: uint

    @classmethod
    def seeded(cls, seed: int) -> Xoshiro256:
        """The state of four words of SplitMix64, as its authors recommend."""
        words = []
        for k in range(1, 5):
            z = (seed + k * WEYL[0]) & MASK
            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
            z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
            words.append(z ^ (z >> 31))
        return cls(*words)

    @reversible
    def output(self, out: uint) -> None:
        """out += 9 · (5 s₁, turned to the left by 7). Inverse: −=."""
        assert self.s1 <= MASK
        with rg.routine() as r:
            bits = self.s1 * 5
            rg.rol(bits, 7)
        out += bits * 9
        ~r

    @reversible
    def advance(self) -> None:
        """The step. Inverse: the step back. s₂ ^= s₁ << 17 of the former s₁, which is s₁ ^ s₂ by then."""
        self.s2 ^= self.s0
        self.s3 ^= self.s1
        self.s1 ^= self.s2
        self.s0 ^= self.s3
        self.s2 ^= self.s2 << 17
        self.s2 ^= self.s1 << 17
        rg.rol(self.s3, 45)

    @reversible
    def fill(self, block: Array[uint, 4]) -> None:
        """block += (s₀, s₁, s₂, s₃). Inverse: −=."""
        block[0] += self.s0
        block[1] += self.s1
        block[2] += self.s2
        block[3] += self.s3


@reversible
def philox(block: Array[uint, 4], key: Array[uint, 2]) -> None:
    """block := Philox4x64-10 of the block, in place, under the key. Inverse: the block before, bit for bit.

    For each key a bijection of 256 bits. Blocks that count, (0, 0, 0, 0), (1, 0, 0, 0), …, become random words that
    need no state: an element of a batch or a layer of a network has the words of its own counter. np.random.Philox has
    the words of the counter plus 1.
    """
    with rg.routine() as r:
        k0, k1 = key[0], key[1]
    for _ in range(10):
        block[1] ^= k0
        block[3] ^= k1
        with rg.routine() as products:
            high0, high2 = uint(0), uint(0)
            add_high(high0, block[0], PHILOX[0])
            add_high(high2, block[2], PHILOX[1])
        block[1] ^= high2
        block[3] ^= high0
        ~products
        block[0] *= PHILOX[0]
        block[2] *= PHILOX[1]
        rg.swap(block[0], block[1])
        rg.swap(block[1], block[2])
        rg.swap(block[2], block[3])
        k0 += WEYL[0]
        k1 += WEYL[1]
    k0 -= 10 * WEYL[0] % (1 << 64)
    k1 -= 10 * WEYL[1] % (1 << 64)
    ~r


# -----------------------------------------------------------------------------
# Draws.


@reversible
def word(out: uint, rng: Any) -> None:
    """out += 64 random bits; rng steps. Inverse: rng steps back, out −= the same bits."""
    rng.output(out)
    rng.advance()


@rg.pure
def _pieces(bits: int) -> list[tuple[int, int, float]]:
    """(shift, mask, weight) of the parts of a word whose sum is its upper bits, as a number below 1.

    A part has 11 bits at most, so that it fits as an integer in formats of 12 bits before the point.
    """
    if not 1 <= bits <= 64:
        raise ValueError(f"{bits} bits are not taken from a word of 64")
    ends = [*range(11, bits, 11), bits]
    return [(64 - end, (1 << (end - start)) - 1, 2.0**-end) for start, end in zip([0, *ends], ends, strict=False)]


@reversible
def add_fraction(u: fixed, w: uint, bits: rg.static) -> None:
    """u += ⌊w / 2^(64 − bits)⌋ / 2^bits, exactly. Inverse: −=.

    Traps (RG0804) where the format has fewer places than `bits`.
    """
    with rg.routine() as r:
        unit = fixed(0)
        unit += 2.0**-bits
    assert unit > 0
    ~r
    for shift, mask, weight in _pieces(bits):
        u += fixed((w >> shift) & mask) * weight


@reversible
def uniform(u: fixed, rng: Any, bits: rg.static = 32) -> None:
    """u += a multiple of 2^−bits in [0, 1), all with equal probability; a word is taken. Inverse: −=; rng steps back.

    Traps (RG0804) where the format has fewer than `bits` places. `uniform.each(us, rng)` fills an array.
    """
    with rg.routine() as r:
        w = uint(0)
        rng.output(w)
    add_fraction(u, w, bits)
    ~r
    rng.advance()


@reversible
def normal(z1: fixed, z2: fixed, rng: Any, bits: rg.static = 32) -> None:
    """z1, z2 += two independent normal numbers, by Box and Muller; two words are taken. Inverse: −=; rng steps back.

    z = √(−2 ln(1 − u)) (cos, sin)(2πv) of u and v from `uniform`, so |z| ≤ √(2 ln 2^bits), which is 6.66 for 32 bits.
    Error in Q32.32: 10⁻⁸, and 10⁻¹⁰ on average.
    """
    with rg.routine() as r:
        u, v = fixed(0), fixed(0)
        uniform(u, rng, bits)
        uniform(v, rng, bits)
    box_muller(z1, z2, 1 - u, v)
    ~r
    rng.advance()
    rng.advance()


@reversible
def add_try(w: uint, tries: uint, rng: Any) -> None:
    """w += the word of the state if tries = 0, else a word of Philox. Inverse: −=.

    The state is the counter of Philox, tries and a constant are its key.
    """
    if tries == 0:
        rng.output(w)
    else:
        with rg.routine() as r:
            block, key = rg.zeros(4, dtype=uint), rg.zeros(2, dtype=uint)
            rng.fill(block)
            key[0] += tries
            key[1] += REPLACED
            philox(block, key)
        w += block[0]
        ~r


@reversible
def add_below(n: uint, bound: uint, rng: Any) -> None:
    """n += the number below `bound` that `integer` draws; rng does not step. Inverse: −=."""
    assert bound > 0
    with rg.routine() as r:
        least = (0 - bound) % bound
        tries, w = uint(0), uint(0)
        add_try(w, tries, rng)
        while (w * bound < least, tries > 0):
            ~add_try(w, tries, rng)
            tries += 1
            add_try(w, tries, rng)
    add_high(n, w, bound)
    ~r


@reversible
def integer(n: uint, bound: uint, rng: Any) -> None:
    """n += an integer of 0 … bound − 1, all with equal probability; a word is taken. Inverse: −=; rng steps back.

    ⌊w·bound / 2⁶⁴⌋ of the first word w with w·bound mod 2⁶⁴ ≥ 2⁶⁴ mod bound, which is Lemire's method without bias.
    Trap of a reversible program: how many words were rejected could not be found again from the stream. So a rejected
    word is replaced by words that Philox computes from the state, and the stream steps once. A word is rejected with a
    probability below bound/2⁶⁴. Traps where bound = 0.
    """
    add_below(n, bound, rng)
    rng.advance()


@reversible
def shuffle(x: Any, rng: Any) -> None:
    """x := x in an order drawn at random, in place, each with equal probability; len(x) − 1 words are taken.

    Inverse: the order before.

    Fisher and Yates: for i = n − 1 … 1, elements i and j are exchanged, j drawn from 0 … i. x holds numbers,
    structs or rows.
    """
    for i in range(len(x) - 1, 0, -1):
        with rg.routine() as r:
            j = uint(0)
            add_below(j, uint(i + 1), rng)
        if j != uint(i):
            rg.swap(x[i], x[j])
        ~r
        rng.advance()


@reversible
def permutation(p: Array[int, "n"], rng: Any) -> None:
    """p := the numbers 0 … n − 1 in an order drawn at random, from p = 0; n − 1 words are taken.

    Inverse: p := 0; rng steps back.
    """
    for i in range(len(p)):
        p[i] += i
    shuffle(p, rng)


@reversible
def bernoulli(b: bool, p: fixed, rng: Any, bits: rg.static = 32) -> None:
    """b ^= 1 with probability p, a multiple of 2^−bits; a word is taken. Inverse: b ^= the same; rng steps back.

    `bernoulli.each(bs, p, rng)`: a mask.
    """
    with rg.routine() as r:
        u = fixed(0)
        uniform(u, rng, bits)
    b ^= u < p
    ~r
    rng.advance()


@reversible
def dropout(y: Array[fixed, "n"], x: Array[fixed, "n"], rate: fixed, rng: Any, bits: rg.static = 32) -> None:
    """yᵢ += xᵢ/(1 − rate) with probability 1 − rate, else 0, for each i; n words are taken.

    Inverse: −=; rng steps back.

    No mask is stored: running backward, and for the gradient, rng gives the same words again. 0 ≤ rate < 1;
    traps where rate = 1, and (RG0804) where the format has fewer than `bits` places.
    """
    with rg.routine() as r:
        factor = 1 / (1 - rate)
    for i in range(len(x)):
        with rg.routine() as s:
            u = fixed(0)
            uniform(u, rng, bits)
        if u >= rate:
            y[i] += x[i] * factor
        ~s
        rng.advance()
    ~r
