"""`rg.error_bound` of random programs with random constants, against the same text executed by Python with 200 bits.

    |result − exact| ≤ bound · 1.01 + 4 · bound² + 2^(−F − 6)

The bound is of first order: the second term is for products of errors, and the third the roundings of cotangents. Constants are
chosen where words deceive: beside 0, ±1 and powers of two, very small and very large ones, in arrays, in variables, folded, in
branches and loops, and in functional functions.
"""

from __future__ import annotations

import linecache
import math
import random
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import pytest

import retrograd as rg
from retrograd import Format

#: programs in the default tier, and in the long tier
QUICK, SLOW, SHARD = 160, 10_000, 250
BITS = 200
_files = count()


class Text:
    """The text of one random program: y += … of the numbers x0, x1, x2 and an array a, with arrays of constants V and W.

    `t = c` is a constant, and `t: fixed = number(c)` a variable: Python computes c · c', and the program t · t'.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.format = self.rng.choice(["64,24", "64,32", "64,32", "64,40", "64,44"])
        self.frac = Format.named(self.format).frac
        self.names = ["x0", "x1", "x2", "a[0]", "a[1]", "a[2]"]
        self.arrays = {name: [self.number() for _ in range(3)] for name in ("V", "W")}
        self.arguments = [self.number(5, signed=True) for _ in range(3)], [self.number(4) for _ in range(3)]
        self.functional = self.rng.random() < 0.2
        self.lines = self.function() if self.functional else self.body()

    def number(self, digits: int = 2, signed: bool = True) -> float:
        """A number near a power of two, or of any size; never a number that would become 0."""
        rng, smallest = self.rng, self.frac * 0.301 - 0.4
        sign = rng.choice([1, -1]) if signed else 1
        match rng.randrange(6):
            case 0:
                return sign * rng.choice([0.25, 0.5, 1, 2, 4]) * (1 + rng.choice([1, -1]) * 10 ** -rng.uniform(5, 13))
            case 1:
                return sign * rng.uniform(1, 9.9) * 10 ** -rng.uniform(1, smallest)
            case 2:
                return sign * rng.uniform(1, 9.9) * 10 ** rng.uniform(0, digits)
            case 3:
                return sign * rng.choice([0.5, 1.0, 2.0, 3.0, 0.0625])
            case 4:
                return sign * round(rng.uniform(0.1, 9), 1)
        return sign * rng.uniform(0.1, 4)

    def constant(self) -> str:
        """A constant, perhaps folded of two."""
        match self.rng.randrange(8):
            case 0:
                small = self.rng.uniform(1, 9) * 10 ** -self.rng.uniform(9, 20)
                return f"({self.number()!r} / {small!r} * {small!r})"
            case 1:
                return f"({self.number()!r} - {self.rng.uniform(5, 9)!r})"
            case 2 if not self.functional:
                return f"{self.rng.choice('VW')}[{self.rng.randrange(3)}]"
        return repr(self.number())

    def operand(self, depth: int) -> str:
        if depth <= 0 or self.rng.random() < 0.2:
            return self.rng.choice(self.names) if self.rng.random() < 0.6 else self.constant()
        return self.expression(depth)

    def expression(self, depth: int) -> str:
        """An expression that reads a variable."""
        if depth <= 0:
            return self.rng.choice(self.names)
        e, other = self.expression(depth - 1), self.operand(depth - 1)
        match self.rng.randrange(12):
            case 0 | 1:
                return f"({e} + {other})"
            case 2:
                return f"({other} - {e})"
            case 3 | 4 | 5:
                return f"{e} * {self.constant()}"
            case 6:
                return f"({e} * {other})"
            case 7:
                return f"{e} / {self.constant()}"
            case 8:
                return f"({other} / (abs({e}) + {self.rng.choice([1.0, 1.0000000001, 2.5, 0.7])!r}))"
            case 9:
                return f"rg.sqrt(abs({e}) + {self.rng.uniform(0.5, 2)!r})"
            case 10:
                # Of a great angle the error would be great, and its square, too.
                angle = f"{e} / (abs({e}) + 1.0) * {self.rng.uniform(0.01, 3)!r}"
                return f"rg.{self.rng.choice(['sin', 'cos'])}({angle})"
        return f"rg.exp(-abs({e}) * {self.rng.uniform(0.01, 1)!r})"

    def body(self) -> list[str]:
        """The statements of a reversible function."""
        rng = self.rng
        out = []
        for k in range(rng.randrange(3)):
            constant = rng.choice(["t{} = {}", "t{}: fixed = number({})"]).format(k, self.constant())
            out.append(constant if rng.random() < 0.5 else f"t{k} = {self.expression(2)}")
            self.names.append(f"t{k}")
        for _ in range(rng.randrange(1, 4)):
            match rng.randrange(5):
                case 0:
                    e, factor = self.expression(1), rng.choice(["V[i]", "W[i]", "(i + 1) / (i + 3)", "(7 / (i - 5))"])
                    out += ["for i in range(3):", f"    y += {e} * {factor} * {self.constant()}"]
                case 1:
                    out += [f"if x0 > {self.number()!r}:", f"    y += {self.expression(2)}"]
                    out += ["else:", f"    y -= {self.expression(1)}"]
                case 2:
                    out.append(f"y += {self.constant()}")
                case _:
                    out.append(f"y {rng.choice('+-')}= {self.expression(3)}")
        return out

    def function(self) -> list[str]:
        """The result of a functional function."""
        del self.names[3:]
        return [f"return {self.expression(3)}"]

    def source(self, decorator: str, last: str) -> str:
        """The function with a decorator, and with a last line."""
        head = "x0: fixed, x1: fixed, x2: fixed"
        head = f"{head}" if self.functional else f"y: fixed, {head}, a: Array[fixed, 3]"
        return "\n".join([f"@{decorator}", f"def f({head}) -> Any:" if not self.functional else f"def f({head}) -> fixed:",
                          *(f"    {line}" for line in self.lines), f"    {last}", ""])  # fmt: skip


class _Index(int):
    """An index with an exact quotient."""

    def __add__(self, other: int) -> _Index:
        return _Index(int(self) + other)

    def __sub__(self, other: int) -> _Index:
        return _Index(int(self) - other)

    def __truediv__(self, other: int) -> mp.mpf:
        return mp.mpf(int(self)) / int(other)

    def __rtruediv__(self, other: int) -> mp.mpf:
        return mp.mpf(int(other)) / int(self)


def _folded(name: str) -> Any:
    """A function that is computed in float64 for constants, as when a program is compiled, and with many bits for other numbers."""
    return lambda x: getattr(math, name)(x) if isinstance(x, float) else getattr(mp, name)(x)


#: `rg` with numbers of many bits
_PRECISE = SimpleNamespace(**{name: _folded(name) for name in ("sqrt", "sin", "cos", "exp")})


@contextmanager
def defined(text: str, names: dict[str, Any]) -> Iterator[Any]:
    """The function of a text, whose source can be read while it is used."""
    file = f"<random program {next(_files)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(compile(text, file, "exec", dont_inherit=True), names)
        yield names["f"]
    finally:
        del linecache.cache[file]


def error_of(text: Text, result: Fraction) -> float:
    """How far a result is from that of Python with numbers of many bits in place of fixed ones."""
    x, a = text.arguments
    names = {"rg": _PRECISE, "Array": dict, "fixed": float, "Any": Any, "own": lambda f: f, **text.arrays}
    names |= {"number": mp.mpf, "range": lambda n: map(_Index, range(n))}
    with mp.workprec(BITS), defined(text.source("own", "pass" if text.functional else "return y"), names) as f:
        given = list(map(mp.mpf, x))
        exact = f(*given) if text.functional else f(mp.mpf(0), *given, list(map(mp.mpf, a)))
        return float(abs(mp.mpf(result.numerator) / result.denominator - exact))


def examine(seed: int) -> str:
    """How the run of one program went: near its bound, or fine, or the code of an error. Its error is within its bound."""
    text = Text(seed)
    x, a = text.arguments
    w = Format.named(text.format)
    decorator = f"rg.{'functional' if text.functional else 'reversible'}(format={text.format!r})"
    names = {"rg": rg, "Array": rg.Array, "fixed": rg.fixed, "Any": Any, **text.arrays}
    arguments = x if text.functional else [0.0, *x, a]
    source = text.source(decorator, "pass").replace("number(", "(")
    with warnings.catch_warnings(), defined(source, names) as f:
        warnings.simplefilter("ignore", rg.PrecisionWarning)
        try:
            found = rg.error_bound(f, *arguments, loss="out" if text.functional else "y")
            [word] = rg.run(f, *arguments).words["out" if text.functional else "y"]
        except rg.RetrogradError as error:
            # Of an overflow, and of a number that is too small or too large after it was folded.
            if error.code in ("RG0404", "RG0601", "RG0714", "RG0730"):
                return error.code
            raise
    got = w.to_real(word)
    assert found.value == float(got), source
    error, unit = error_of(text, got), 2.0**-w.frac
    assert error <= found.bound * 1.01 + 4 * found.bound**2 + unit / 64, (seed, error, found, arguments, source)
    return "near" if found.bound and error > found.bound / 10 else "fine"


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", range(QUICK))
def test_no_error_is_beyond_the_bound(seed: int) -> None:
    examine(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SHARD))
def test_no_error_of_many_programs_is_beyond_the_bound(first: int) -> None:
    went = Counter(examine(seed) for seed in range(first, first + SHARD))
    # Programs that say little are few, and the bound is not far too high.
    assert went["near"] + went["fine"] > SHARD * 2 / 3, went
    assert went["near"] > SHARD / 5, went
