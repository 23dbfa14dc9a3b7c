"""Values, gradients and `rg.error_bound` of random programs with random constants, against the same text executed by Python with 200 bits.

    |result − exact|  ≤  bound · 1.01 + 4 · bound² + 2^(−F − 6)
    |∂y/∂xₖ − exact|  ≤  sₖ + rₖ · 2^(−F − scale − 1)                   see `Number`

The bound of a value is of first order: the second term is for products of errors, and the third the roundings of cotangents. Exact
derivatives are those of dual numbers (forward mode), which carry the bound of the program's gradient (reverse mode) with them.
Constants are chosen where words deceive: beside 0, ±1 and powers of two, very small and very large ones, in arrays, in variables,
folded, in branches and loops, and in functional functions.
"""

from __future__ import annotations

import linecache
import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from types import SimpleNamespace
from typing import Any

import mpmath as mp
import pytest

import retrograd as rg
from retrograd import Format
from retrograd.derivatives._arguments import automatic

#: programs in the default tier, and in the long tier
QUICK, SLOW, SHARD = 160, 10_000, 250
BITS = 200
#: x0, x1, x2 and the elements of a
ARGUMENTS = 6
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


class Number:
    """A number x, its derivatives d by the arguments, and bounds of the errors that the program has in both.

        |word − x| ≤ e,   |δₖ − dₖ| ≤ sₖ      δₖ: derivative at the program's words, free of the roundings of cotangents

    An operation adds its rounding to e (half a unit for products, quotients and roots, a unit for functions), and to s the errors of the
    words that its partial derivatives read. A cotangent that the program rounds by half a unit is that of an operand w, and reaches
    the gradient multiplied by ∂w/∂xₖ, whose bound |dₖ| + sₖ of w is known here: r of the run adds it up. Products round the cotangent of
    each operand once; z = a / b rounds c̄/b, and for b̄ both c̄·z and its quotient by b; functions and roots once.
    """

    def __init__(self, run: Reference, x: mp.mpf, e: float, d: list[mp.mpf], s: list[float]) -> None:
        self.run, self.x, self.e, self.d, self.s = run, x, e, d, s

    def combined(self, x: mp.mpf, e: float, *parts: tuple[Number, mp.mpf, float, float]) -> Number:
        """The result x of an operation: (operand, partial derivative p, error of p, roundings of its cotangent) for each operand."""
        d, s = [mp.mpf(0)] * ARGUMENTS, [0.0] * ARGUMENTS
        for w, p, error, rounded in parts:
            for k in range(ARGUMENTS):
                if w.d[k] or w.s[k]:
                    size = float(abs(w.d[k])) + w.s[k]
                    d[k] += p * w.d[k]
                    s[k] += float(abs(p)) * w.s[k] + size * error
                    self.run.rounded[k] += size * rounded
        return Number(self.run, x, e, d, s)

    def __add__(self, other: Any) -> Number:
        b = self.run.number(other)
        return self.combined(self.x + b.x, self.e + b.e, (self, mp.mpf(1), 0, 0), (b, mp.mpf(1), 0, 0))

    def __neg__(self) -> Number:
        return self.combined(-self.x, self.e, (self, mp.mpf(-1), 0, 0))

    def __sub__(self, other: Any) -> Number:
        return self + -self.run.number(other)

    def __rsub__(self, other: Any) -> Number:
        return -self + other

    def __mul__(self, other: Any) -> Number:
        b = self.run.number(other)
        e = float(abs(self.x)) * b.e + float(abs(b.x)) * self.e + self.e * b.e + self.run.half
        return self.combined(self.x * b.x, e, (self, b.x, b.e, 1), (b, self.x, self.e, 1))

    def __truediv__(self, other: Any) -> Number:
        b = self.run.number(other)
        x, least = self.x / b.x, float(abs(b.x)) - b.e
        if least <= 0:
            raise ZeroDivisionError("a divisor may be 0")
        size, inverse = float(abs(x)), b.e / least / float(abs(b.x))
        e = (self.e + size * b.e) / least + self.run.half
        return self.combined(
            x, e, (self, 1 / b.x, inverse, 1), (b, -x / b.x, size * inverse + e / least, 1 + 1 / least)
        )

    def __rtruediv__(self, other: Any) -> Number:
        return self.run.number(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __abs__(self) -> Number:
        # The word of a number near 0 may have the other sign, or none.
        sign, unsure = mp.sign(self.x), 2 if abs(self.x) <= self.e else 0
        return self.combined(abs(self.x), self.e, (self, sign, unsure, 0))

    def __gt__(self, other: float) -> bool:
        return bool(self.x > other)

    def sqrt(self) -> Number:
        x = mp.sqrt(self.x)
        size = float(x)
        e = self.e / size + self.run.half
        if e >= size:
            raise ZeroDivisionError("a root may be 0")
        return self.combined(x, e, (self, 1 / (2 * x), e / (size - e) / size / 2, 1))

    def exp(self) -> Number:
        x = mp.exp(self.x)
        e = float(x) * math.expm1(self.e) + 2 * self.run.half
        return self.combined(x, e, (self, x, e, 1))

    def sin(self) -> Number:
        e = self.e + 2 * self.run.half
        return self.combined(mp.sin(self.x), e, (self, mp.cos(self.x), e, 1))

    def cos(self) -> Number:
        e = self.e + 2 * self.run.half
        return self.combined(mp.cos(self.x), e, (self, -mp.sin(self.x), e, 1))


class Reference:
    """A run of a text by Python with dual numbers, beside words with a number of places."""

    def __init__(self, text: Text) -> None:
        self.text, self.half = text, 2.0 ** (-text.frac - 1)
        self.rounded = [0.0] * ARGUMENTS
        x, a = text.arguments
        names = {"rg": _PRECISE, "Array": dict, "fixed": float, "Any": Any, "own": lambda f: f, **text.arrays}
        names |= {"number": self.number, "range": lambda n: map(_Index, range(n))}
        with mp.workprec(BITS), defined(text.source("own", "pass" if text.functional else "return y"), names) as f:
            given = [self.number(v, k) for k, v in enumerate(x + a)]
            self.result: Number = self.number(
                f(*given[:3]) if text.functional else f(self.number(0), *given[:3], given[3:])
            )

    def number(self, value: Any, place: int | None = None) -> Number:
        """A constant, with the error of its word, or the argument at a place."""
        if isinstance(value, Number):
            return value
        x = mp.mpf(value)
        word = mp.ldexp(mp.nint(mp.ldexp(x, self.text.frac)), -self.text.frac)
        return Number(self, x, float(abs(x - word)), [mp.mpf(k == place) for k in range(ARGUMENTS)], [0.0] * ARGUMENTS)

    def error(self, result: Fraction) -> float:
        """How far a result is from the exact one."""
        with mp.workprec(BITS):
            return float(abs(mp.mpf(result.numerator) / result.denominator - self.result.x))

    def bounds(self, scale: int) -> list[float]:
        """Of the derivatives by the arguments, with cotangents of this scale; those of float64, in which they are given."""
        return [
            s * 1.001 + r * self.half * 2.0**-scale * 1.001 + float(abs(d)) * 2.0**-52
            for s, r, d in zip(self.result.s, self.rounded, self.result.d, strict=True)
        ]


def _folded(name: str) -> Any:
    """A function that is computed in float64 for constants, as when a program is compiled, and with many bits for other numbers."""
    return lambda x: getattr(math, name)(x) if isinstance(x, float) else getattr(x, name)()


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


def gradient(text: Text, f: Any) -> tuple[list[float], int]:
    """The derivatives by the arguments, and the scale of the cotangents at which they were found."""
    x, a = text.arguments
    arguments, loss = (x, "out") if text.functional else ((0.0, *x, a), "y")
    found = rg.grad(f, loss=loss)(*arguments)
    w = Format.named(text.format)
    for scale in automatic(w):
        try:
            at_scale = rg.grad(f, loss=loss, scale=scale)(*arguments)
        except rg.RetrogradError as error:
            if error.code not in ("RG0404", "RG0601"):
                raise
            continue
        assert repr(at_scale) == repr(found)
        each = [found.x0, found.x1, found.x2]
        return each + ([0.0] * 3 if text.functional else list(found.a)), scale
    raise AssertionError("there is no scale of this gradient")


def examine(seed: int) -> Counter[str]:
    """How the run of one program went: near its bound, or fine, or the code of an error. Its errors are within their bounds.

    sharp: the bound of its greatest derivative is less than a thousandth of it.
    """
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
            derivatives, scale = gradient(text, f)
        except rg.RetrogradError as error:
            # Of an overflow, and of a number that is too small or too large after it was folded.
            if error.code in ("RG0404", "RG0601", "RG0714", "RG0730"):
                return Counter([error.code])
            raise
    got = w.to_real(word)
    assert found.value == float(got), source
    try:
        reference, unit = Reference(text), 2.0**-w.frac
    except (OverflowError, ZeroDivisionError):
        return Counter(["without a bound"])
    error = reference.error(got)
    assert error <= found.bound * 1.01 + 4 * found.bound**2 + unit / 64, (seed, error, found, arguments, source)
    exact, bounds = reference.result.d, reference.bounds(scale)
    for k, derivative in enumerate(derivatives):
        wrong = float(abs(derivative - exact[k]))
        assert wrong <= bounds[k], (seed, k, derivative, float(exact[k]), wrong, bounds[k], scale, arguments, source)
    greatest, bound = max(zip(map(float, map(abs, exact)), bounds, strict=True))
    went = Counter(["near" if found.bound and error > found.bound / 10 else "fine"])
    return went + Counter(sharp=int(greatest > 1000 * bound))


def examined(first: int, count: int) -> Counter[str]:
    return sum((examine(seed) for seed in range(first, first + count)), Counter[str]())


@pytest.mark.parametrize("seed", range(QUICK))
def test_no_error_is_beyond_the_bound(seed: int) -> None:
    examine(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(QUICK, QUICK + SLOW, SHARD))
def test_no_error_of_many_programs_is_beyond_the_bound(first: int) -> None:
    went = examined(first, SHARD)
    # Programs that say little are few, and the bounds are not far too high.
    assert went["near"] + went["fine"] > SHARD * 2 / 3, went
    assert went["near"] > SHARD / 5, went
    assert went["sharp"] > SHARD * 2 / 3, went
    assert went["without a bound"] < SHARD / 50, went


#: operation -> its result's derivatives with a fault, for each kind
FAULTS: dict[str, Callable[..., list[mp.mpf]]] = {
    "cos, another sign": lambda result, _: [-d for d in result.d],
    "sqrt, a constant is lost": lambda result, _: [2 * d for d in result.d],
    "exp, wrong in the sixth place": lambda result, _: [d * (1 + 1e-6) for d in result.d],
    "__mul__, a term is lost": lambda result, a, b: [d - a.x * e for d, e in zip(result.d, a.run.number(b).d, strict=True)],
    "__mul__, a factor is lost": lambda result, a, b: a.d if isinstance(b, float) else result.d,
    "__truediv__, another sign of a term": lambda result, a, b: [2 * t / a.run.number(b).x - d for d, t in zip(result.d, a.d, strict=True)],
    "__add__, a term is lost": lambda result, a, b: a.d,
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_derivative_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name = fault.partition(",")[0]
    right = getattr(Number, name)

    def wrong(*operands: Any) -> Number:
        result: Number = right(*operands)
        with mp.workprec(BITS):
            return Number(result.run, result.x, result.e, FAULTS[fault](result, *operands), result.s)

    monkeypatch.setattr(Number, name, wrong)
    with pytest.raises(AssertionError):
        examined(0, QUICK)
