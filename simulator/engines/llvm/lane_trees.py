"""Fold: the expression tree as LLVM IR on several words side by side, for processors with vector units.

What a vector unit has no instruction for is made of what it has, where that is quick; a lane in which it is not is doubted, and
whoever runs the code runs that instance once more, alone.

    words of one product            four products of 32 bits, to a part of which half a unit is added where it is rounded
    quotients                       those of doubles below 2^50, put right by integers; beyond, and by zero, a doubt
    a root                          that of a double, put right by integers
    tables                          gathered
"""

from __future__ import annotations

from retrograd.isa.expr import Expr
from retrograd.simulator.engines.llvm.builder import Code, bits
from retrograd.simulator.engines.llvm.trees import Trees

#: the only width of words so far
WIDTH = 64
#: shifts up to which the root of a double is within one of the root
ROOT_SHIFT = 37


class LaneTrees(Trees):
    """Trees as code on words side by side; see Trees. `doubts` are truths that hold in lanes whose values are not to be relied on."""

    def _product(self, x: Expr, y: Expr, s: int, added: int) -> str:
        let, t, number = self._code.let, self._t, self._code.number
        low, high = self._two_words(x, y, added)
        if s >= WIDTH:
            return let(f"ashr {t} {high}, {number(min(s - WIDTH, WIDTH - 1))}") if s > WIDTH else high
        name = f"@llvm.fshr.{self._code.suffix('i64')}"
        self._code.module.define(name, f"declare {t} {name}({t}, {t}, {t})")
        return let(f"call {t} {name}({t} {high}, {t} {low}, {t} {number(s)})")

    def _two_words(self, x: Expr, y: Expr, added: int) -> tuple[str, str]:
        """(lower, upper word) of the signed product: the unsigned one by halves, less y where x < 0 and x where y < 0.

        Both sums of a product of 32 bits have room for what is `added`, 2^k: the lower for k ≤ 32, the other for 2^(k − 32).
        """
        keys = f"low + {added}", f"high + {added}"
        found = self._pairs.get((keys[0], x, y)), self._pairs.get((keys[1], x, y))
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
        let, t, number = self._code.let, self._t, self._code.number
        a, b = self.value(x), self.value(y)
        half, mask = number(32), number(0xFFFFFFFF)

        def lower(v: str) -> str:
            return let(f"and {t} {v}, {mask}")

        def upper(v: str) -> str:
            return let(f"lshr {t} {v}, {half}")

        low = let(f"mul {t} {lower(a)}, {lower(b)}")
        if 0 < added <= 1 << 32:
            low = let(f"add {t} {low}, {number(added)}")
        one = let(f"add {t} {let(f'mul {t} {upper(a)}, {lower(b)}')}, {upper(low)}")
        if added > 1 << 32:
            one = let(f"add {t} {one}, {number(added >> 32)}")
        two = let(f"add {t} {let(f'mul {t} {lower(a)}, {upper(b)}')}, {lower(one)}")
        top = let(f"add {t} {let(f'mul {t} {upper(a)}, {upper(b)}')}, {let(f'add {t} {upper(one)}, {upper(two)}')}")
        for v, other in ((a, b), (b, a)):
            sign = let(f"ashr {t} {v}, {number(WIDTH - 1)}")
            top = let(f"sub {t} {top}, {let(f'and {t} {sign}, {other}')}")
        word = let(f"or {t} {let(f'shl {t} {two}, {half}')}, {lower(low)}")
        self._pairs[keys[0], x, y], self._pairs[keys[1], x, y] = word, top
        return word, top

    def _quotient(self, x: Expr, y: Expr, s: int) -> str:
        let, t, number = self._code.let, self._t, self._code.number
        top = s if s == WIDTH else self._shift[x, y]
        key = "whole" if s == WIDTH else "quotient"
        found = self._pairs.get((key, x, y))
        if found is None:
            found = self._pairs[key, x, y] = self._near(self.value(x), self.value(y), top)
        return let(f"ashr {t} {found}, {number(min(top - s, WIDTH - 1))}") if top != s else found

    def _rounded_quotient(self, x: Expr, y: Expr, s: int) -> str:
        # A quotient that is no doubt is below 2^50, so that its high word is all sign.
        let, t, number = self._code.let, self._t, self._code.number
        places = s % WIDTH
        key = f"rounded in {places}"
        rounded = self._pairs.get((key, x, y))
        if rounded is None:
            up = let(f"add {t} {self._quotient(x, y, places + 1)}, {number(1)}")
            rounded = self._pairs[key, x, y] = let(f"ashr {t} {up}, {number(1)}")
        return rounded if s == places else let(f"ashr {t} {rounded}, {number(WIDTH - 1)}")

    def _near(self, x: str, y: str, s: int) -> str:
        """⌊x·2^s / y⌋; see `wide_quotient`, which says why the double's quotient is near enough."""
        code, let, t, number = self._code, self._code.let, self._t, self._code.number
        real = code.side_by_side("double")
        scaled = let(f"fmul {real} {let(f'sitofp {t} {x} to {real}')}, {code.real(2.0**s)}")
        ratio = let(f"fdiv {real} {scaled}, {let(f'sitofp {t} {y} to {real}')}")
        fabs = f"@llvm.fabs.{code.suffix('f64')}"
        code.module.define(fabs, f"declare {real} {fabs}({real})")
        size = let(f"call {real} {fabs}({real} {ratio})")
        small = let(f"fcmp olt {real} {size}, {code.real(2.0**50)}")
        self.doubts.append(let(f"xor {code.truth} {small}, {code.true}"))
        rounded = let(f"fadd {real} {ratio}, {code.real(1.5 * 2.0**52)}")
        nearest = let(f"sub {t} {let(f'bitcast {real} {rounded} to {t}')}, {number(bits(1.5 * 2.0**52))}")
        n = let(f"shl {t} {x}, {number(s)}") if s < WIDTH else number(0)
        rest = let(f"sub {t} {n}, {let(f'mul {t} {nearest}, {y}')}")
        # −1 where what remains is on the other side of zero than y.
        other = let(f"icmp slt {t} {let(f'xor {t} {rest}, {y}')}, {number(0)}")
        some = let(f"icmp ne {t} {rest}, {number(0)}")
        above = let(f"and {code.truth} {other}, {some}")
        return let(f"add {t} {nearest}, {let(f'sext {code.truth} {above} to {t}')}")

    def _root(self, x: str, s: int) -> str:
        if s > ROOT_SHIFT:
            raise NotImplementedError(f"roots of words shifted by {s}")
        code, let, t, number = self._code, self._code.let, self._t, self._code.number
        real = code.side_by_side("double")
        some = let(f"icmp sgt {t} {x}, {number(0)}")
        safe = let(f"select {code.truth} {some}, {t} {x}, {t} {number(0)}")
        root = f"@llvm.sqrt.{code.suffix('f64')}"
        code.module.define(root, f"declare {real} {root}({real})")
        scaled = let(f"fmul {real} {let(f'sitofp {t} {safe} to {real}')}, {code.real(2.0**s)}")
        r = let(f"fptosi {real} {let(f'call {real} {root}({real} {scaled})')} to {t}")
        # Less than one below the root, and less than ½ above, so that what remains fits a word whatever wraps on the way.
        rest = let(f"sub {t} {let(f'shl {t} {safe}, {number(s)}')}, {let(f'mul {t} {r}, {r}')}")
        small = let(f"zext {code.truth} {let(f'icmp sgt {t} {rest}, {r}')} to {t}")
        return let(f"add {t} {r}, {small}")

    def _look_up(self, index: str, values: tuple[int, ...]) -> str:
        code, let, t = self._code, self._code.let, self._t
        name = code.module.table(values, self._w)
        entry = let(f"and {t} {index}, {code.number(len(values) - 1)}")
        at = let(f"getelementptr inbounds i{WIDTH}, ptr {name}, {t} {entry}")
        return let(
            f"call {t} {gather(code)}({code.side_by_side('ptr')} {at}, i32 8, {code.truth} {code.true}, {t} {code.number(0)})"
        )


def gather(code: Code) -> str:
    """The function that reads a word for every lane: (places, alignment, lanes that read, words of the others)."""
    places, suffix = code.side_by_side("ptr"), code.suffix("i64")
    name = f"@llvm.masked.gather.{suffix}.v{code.lanes}p0"
    return code.module.define(name, f"declare {code.word} {name}({places}, i32 immarg, {code.truth}, {code.word})")
