"""Fixed numbers with binary points of their own: random programs against rationals, and whole tables."""

from __future__ import annotations

import linecache
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from retrograd.isa.words import Format, nearest_point

import retrograd as rg
from retrograd import fixed
from retrograd.testing import check_gradient
from retrograd.testing import gradients as gradients_of_tests

_MODULES = iter(range(10**9))


def compiled(text: str, name: str = "f", format: str = "64,32") -> Any:
    file = f"<points {next(_MODULES)}>"
    text = text.replace("@rg.reversible", f'@rg.reversible(format="{format}")')
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = ModuleType("points_of_test")
    vars(module).update(rg=rg, fixed=fixed, __file__=file)
    exec(compile(text, file, "exec", dont_inherit=True), vars(module))
    return vars(module)[name]


# ------------------------------------------------------------------ random programs


def _within(point: int, w: Format) -> int:
    return nearest_point(point, w.width)


class Term(NamedTuple):
    """An expression: its text, exact value, greatest error in a word, point, and derivatives.

    The points are those that the page of the language states.
    """

    text: str
    value: Fraction
    point: int
    #: error of the words that it is made of, without its own rounding; None for a variable or a constant, which have
    #: none
    inner: Fraction
    slopes: dict[str, float]
    constant: bool = False
    #: Σ |∂t/∂x|·2^point over the terms t in it: the cotangent of a word of a point is rounded by so much
    noise: Mapping[str, float] = MappingProxyType({})
    #: the part of `inner` that is of second order, of products of errors
    second: Fraction = Fraction(0)
    #: the greatest error of each derivative, since partial derivatives are those at words
    doubt: Mapping[str, float] = MappingProxyType({})

    def at(self, point: int) -> Fraction:
        """The greatest error of the value as a word of this point."""
        return self.inner + Fraction(2) ** -point


def _size(value: Fraction) -> int:
    n = math.frexp(float(abs(value)))[1]
    return n + 1 if abs(value) >= Fraction(2) ** n else n


def _noisy(made: Term, *parts: tuple[Term, float, Fraction]) -> Term:
    """The term with the noise and the doubt of its parts, (part, partial derivative, its error), and its own noise."""
    noise = {name: abs(slope) * 2.0**made.point for name, slope in made.slopes.items()}
    doubt: dict[str, float] = {}
    for part, partial, error in parts:
        for name, size in part.noise.items():
            noise[name] = noise.get(name, 0.0) + size
        for name, slope in part.slopes.items():
            unsure = (abs(partial) + float(error)) * part.doubt.get(name, 0.0) + float(error) * abs(slope)
            doubt[name] = doubt.get(name, 0.0) + unsure
    return made._replace(noise=noise, doubt=doubt)


def _slopes(*parts: tuple[float, Term]) -> dict[str, float]:
    out: dict[str, float] = {}
    for factor, term in parts:
        for name, slope in term.slopes.items():
            out[name] = out.get(name, 0.0) + factor * slope
    return out


class Generator:
    """Expressions over variables with random points, whose values are a random share of their ranges."""

    def __init__(self, seed: int, w: Format) -> None:
        self.random, self.w = random.Random(seed), w
        self.variables: dict[str, tuple[int, int]] = {}
        for name in "abc":
            point = self.random.randint(-w.width // 2, w.width * 5 // 4)
            bits = self.random.randint(w.width // 3, w.width - 8)
            word = self.random.choice((-1, 1)) * self.random.randint(1 << bits - 1, 1 << bits)
            # A float64 holds it.
            self.variables[name] = point, int(float(word))

    def term(self, depth: int) -> Term:
        if depth == 0 or self.random.random() < 0.2:
            if self.random.random() < 0.3:
                number = self.random.choice((3.0, 0.1, 1e-7, 6.674e-5, 12345.678, -2.5))
                return Term(
                    f"({number!r})",
                    Fraction(number),
                    0,
                    abs(Fraction(number)) * Fraction(2) ** (2 - self.w.width),
                    {},
                    True,
                )
            name = self.random.choice("abc")
            point, word = self.variables[name]
            return _noisy(Term(name, word * Fraction(2) ** -point, point, Fraction(0), {name: 1.0}))
        x, y = self.term(depth - 1), self.term(depth - 1)
        if x.constant and y.constant:
            return x
        match self.random.choice("++-**/rn"):
            case "+" | "-" as op:
                return self.sum(op, x, y)
            case "*":
                return self.product(x, y)
            case "/" if y.value:
                return self.quotient(x, y)
            case "r" if x.value > 0 and not x.constant and x.at(x.point - 1) * 1000 < x.value:
                root = Fraction(math.isqrt(int(x.value * (1 << 600)))) / (1 << 300)
                if root:
                    point = (x.point + self.w.frac) >> 1
                    inner = x.at(x.point - 1) / root
                    slopes = _slopes((0.5 / float(root), x))
                    made = Term(f"rg.sqrt({x.text})", root, _within(point, self.w), inner, slopes)
                    second = (x.second + x.at(x.point - 1) ** 2 / x.value) / root
                    error = x.at(x.point - 1) / root
                    wrong = (error + Fraction(2) ** -made.point) / (2 * root**2)
                    return _noisy(made._replace(second=second), (x, 0.5 / float(root), wrong))
            case "n" if not x.constant:
                return x._replace(text=f"(-{x.text})", value=-x.value, slopes=_slopes((-1.0, x)))
        return x if y.constant else y

    def sum(self, op: str, x: Term, y: Term) -> Term:
        sign = 1 if op == "+" else -1
        points = [t.point for t in (x, y) if not t.constant]
        most = min((self.w.width - 2 - _size(t.value) for t in (x, y) if t.constant), default=points[0])
        value = x.value + sign * y.value
        # A term is rounded where the sum is, or at its own point.
        point = _within(min(*points, most), self.w)
        inner = sum((t.at(t.point) for t in (x, y) if not t.constant and t.inner), Fraction(0)) + sum(
            t.inner + Fraction(2) ** -max(points) for t in (x, y) if t.constant
        )
        slopes = _slopes((1, x), (sign, y))
        made = Term(f"({x.text} {op} {y.text})", value, point, inner + Fraction(2) ** (1 - point), slopes)
        return _noisy(made._replace(second=x.second + y.second), (x, 1.0, Fraction(0)), (y, 1.0, Fraction(0)))

    def _held(self, t: Term) -> Fraction:
        """The greatest error of an operand in a register."""
        return t.inner if t.constant or not t.inner else t.at(t.point)

    def product(self, x: Term, y: Term) -> Term:
        if x.constant or y.constant:
            c, other = (x, y) if x.constant else (y, x)
            point = other.point - _size(c.value)
        else:
            point = x.point + y.point - self.w.frac
        ex, ey = self._held(x), self._held(y)
        inner = abs(x.value) * ey + abs(y.value) * ex + ex * ey + Fraction(1, 10**60)
        slopes = _slopes((float(y.value), x), (float(x.value), y))
        made = Term(f"({x.text} * {y.text})", x.value * y.value, _within(point, self.w), inner, slopes)
        second = abs(x.value) * y.second + abs(y.value) * x.second + 2 * ex * ey
        return _noisy(made._replace(second=second), (x, float(y.value), ey), (y, float(x.value), ex))

    def quotient(self, x: Term, y: Term) -> Term:
        if y.constant:
            point = x.point + _size(y.value) - 1
        elif x.constant:
            point = 2 * self.w.frac - y.point - _size(x.value) + 1
        else:
            point = x.point - y.point + self.w.frac
        ex, ey = self._held(x), self._held(y)
        if ey * 1000 > abs(y.value):
            return x if not x.constant else y
        value = x.value / y.value
        inner = (ex + abs(value) * ey) / (abs(y.value) - ey) + Fraction(1, 10**60)
        slopes = _slopes((float(1 / y.value), x), (float(-value / y.value), y))
        least = abs(y.value) - ey
        second = (x.second + abs(value) * y.second) / least + 2 * inner * ey / least
        made = Term(f"({x.text} / {y.text})", value, _within(point, self.w), inner, slopes)
        inverse = ey / least / abs(y.value)
        wrong = made.at(made.point) / least + abs(value) * inverse
        made = made._replace(second=second)
        made = _noisy(made, (x, float(1 / y.value), inverse), (y, float(value / y.value), wrong))
        for name, slope in y.slopes.items():
            # −(c·q)/b: the product is rounded, and then divided.
            made.noise[name] += abs(slope) * 2.0 ** (made.point - x.point + y.point) / abs(float(y.value))
        return made


def program(seed: int, w: Format) -> tuple[str, Term, int, list[float]]:
    """(text, the value of y, its point, the arguments)"""
    g = Generator(seed, w)
    term = g.term(3)
    while not term.slopes or not term.value:
        term = g.term(3)
    point = min(w.width - 3 - _size(term.value) - g.random.randint(0, w.width // 3), 2 * w.width)
    point = max(point, -w.width)
    declared = ", ".join(f"{name}: fixed[{p}]" for name, (p, _) in g.variables.items())
    text = f"@rg.reversible\ndef f(y: fixed[{point}], {declared}):\n    y += {term.text}\n"
    return text, term, point, [float(word * Fraction(2) ** -p) for p, word in g.variables.values()]


@pytest.mark.parametrize("first", range(0, 10_000, 25))
def test_random_programs_with_points_against_exact_rationals(first: int) -> None:
    """Values within the bound, the way back exact, three engines alike, slopes those of the expression."""
    ran = differentiated = 0
    for seed in range(first, first + 25):
        w = Format(*((64, 32), (64, 48), (32, 16))[seed % 3])
        text, term, point, args = program(seed, w)
        f = compiled(text, format=f"{w.width},{w.frac}")
        # Arguments of 64-bit words that a float64 holds.
        try:
            r = rg.run(f, 0.0, *args, engine="reference", precision="ignore").values
        except (rg.CompileError, rg.ProgramTrap) as error:
            refused = error.diagnostics[0].code
        else:
            refused = None
        # A constant beside coarse or narrow numbers; a term out of the range of its point.
        assert refused in (None, "RG0714", "RG0730", "RG0404", "RG0402", "RG0403"), text
        if refused is not None:
            continue
        exact = {name: Fraction(*float(x).as_integer_ratio()) for name, x in zip("abc", args, strict=True)}
        assert [float(exact[n]) for n in "abc"] == list(map(float, r[1:])), text
        error = abs(Fraction(*float(r[0]).as_integer_ratio()) - term.value)
        bound = 2 * term.at(point) + abs(term.value) * Fraction(1, 1 << 52)
        assert error <= bound, (text, float(term.value), r[0], float(error), float(bound))
        ran += 1
        for engine in ("threaded", "translated"):
            assert rg.run(f, 0.0, *args, engine=engine, precision="ignore").values == r, (text, engine)
        back = rg.run(~f, *r, engine="reference", precision="ignore").values
        assert list(back) == [0.0, *args], text
        if w.width < 64:
            continue
        try:
            found = rg.grad(f)(0.0, *args)
        except (rg.ProgramTrap, rg.RetrogradError):
            continue
        for name, g in zip("abc", found, strict=True):
            slope = term.slopes.get(name, 0.0)
            noise = term.noise.get(name, 0.0) * 2.0 ** (12 - w.frac - min(point, term.point))
            if noise + term.doubt.get(name, 0.0) <= 0.01 * abs(slope):
                assert g == pytest.approx(slope, rel=0.02), (text, name)
                differentiated += 1
    assert ran >= 5
    assert differentiated >= 1


# ------------------------------------------------------------------ whole tables

W8 = Format(8, 4)
_POINTS = range(-8, 17)


@pytest.mark.parametrize("p", _POINTS)
@pytest.mark.parametrize("q", _POINTS)
def test_an_update_rounds_once_for_all_words_and_points(p: int, q: int) -> None:
    """x: fixed[p] += v: fixed[q] is ⌊v·2^p + ½⌋ for every word of v, or a trap; x −= v undoes it."""
    f = compiled(f"@rg.reversible\ndef f(x: fixed[{p}], v: fixed[{q}]):\n    x += v\n", format="8,4")
    values = [W8.at(q).to_real(word) for word in range(256)]
    meant = [math.floor(v * Fraction(2) ** p + Fraction(1, 2)) for v in values]
    fits = [-128 <= n < 128 for n in meant]
    assert any(fits)
    given = np.array([float(v) for v, there in zip(values, fits, strict=True) if there])
    ran = rg.vmap(f)(np.zeros(len(given)), given)
    wanted = [float(W8.at(p).to_real(n & 255)) for n, there in zip(meant, fits, strict=True) if there]
    assert ran[0].tolist() == wanted
    back = rg.vmap(~f)(*ran)
    assert back[0].tolist() == [0.0] * len(given)
    if not all(fits):
        with pytest.raises(rg.ProgramTrap, match="RG0404"):
            f(0.0, float(values[fits.index(False)]))


@pytest.mark.parametrize("p", _POINTS)
@pytest.mark.parametrize("q", _POINTS)
def test_comparisons_compare_values_for_all_points(p: int, q: int) -> None:
    """All comparisons, in both orders, of words that lie near each other and at the ends."""
    text = (
        f"@rg.reversible\ndef f(n: int, x: fixed[{p}], z: fixed[{q}]):\n"
        "    n += (x < z) + 2 * (x <= z) + 4 * (x == z) + 8 * (z < x) + 16 * (z <= x) + 32 * (x != z)\n"
    )
    f = compiled(text, format="8,4")
    words = [0, 1, 2, 3, 64, 127, 128, 129, 254, 255]
    xs = [float(W8.at(p).to_real(a)) for a in words for _ in words]
    zs = [float(W8.at(q).to_real(b)) for _ in words for b in words]
    found = rg.vmap(f)(np.zeros(len(xs), dtype=int), np.array(xs), np.array(zs))[0].tolist()
    for n, x, z in zip(found, xs, zs, strict=True):
        assert n == (x < z) + 2 * (x <= z) + 4 * (x == z) + 8 * (z < x) + 16 * (z <= x) + 32 * (x != z), (x, z)


@pytest.mark.parametrize("p", _POINTS)
def test_comparisons_with_numbers_of_the_source_are_exact(p: int) -> None:
    """x < c, x <= c, x == c and their opposites, of every word of x: fixed[p] and numbers between two words, on one, and 0."""
    least, most = float(W8.at(p).to_real(128)), float(W8.at(p).to_real(127))
    unit = 2.0**-p
    for c in (0.0, unit, 1.25 * unit, -2.5 * unit, 20 * unit, most - 0.5 * unit, least):
        text = (
            f"@rg.reversible\ndef f(n: int, x: fixed[{p}]):\n    n += (x < {c!r}) + 2 * (x <= {c!r}) + 4 * (x == {c!r})"
            f" + 8 * ({c!r} < x) + 16 * ({c!r} <= x) + 32 * (x != {c!r})\n"
        )
        xs = [float(W8.at(p).to_real(word)) for word in range(256)]
        found = rg.vmap(compiled(text, format="8,4"))(np.zeros(256, dtype=int), np.array(xs))[0].tolist()
        for n, x in zip(found, xs, strict=True):
            assert n == (x < c) + 2 * (x <= c) + 4 * (x == c) + 8 * (c < x) + 16 * (c <= x) + 32 * (x != c), (x, c)


@pytest.mark.parametrize("p", _POINTS)
@pytest.mark.parametrize("kind", ["int", "uint", "bool"])
def test_an_integer_becomes_a_number_by_one_move(p: int, kind: str) -> None:
    """y: fixed[p] += n is ⌊n·2^p + ½⌋ for every n, or a trap; y −= n undoes it. At F = 7 no int but 0 has a word."""
    declared = "rg.uint" if kind == "uint" else kind
    text = f"@rg.reversible\ndef f(y: fixed[{p}], n: {declared}, z: fixed[{p}]):\n    y += n\n    z += fixed[{p}](n)\n"
    f = compiled(text, format="8,7")
    least, most = {"int": (-128, 127), "uint": (0, 255), "bool": (0, 1)}[kind]
    rows: list[tuple[int, Fraction]] = []
    for n in range(least, most + 1):
        word = math.floor(n * Fraction(2) ** p + Fraction(1, 2))
        if -128 <= word < 128 and n < 128:
            rows.append((n, word * Fraction(2) ** -p))
    given = np.array([n for n, _ in rows], dtype={"int": int, "uint": np.uint64, "bool": bool}[kind])
    zeros = np.zeros(len(given))
    ran = rg.vmap(f)(zeros, given, zeros)
    assert ran[0].tolist() == ran[2].tolist() == [float(value) for _, value in rows]
    assert rg.vmap(~f)(*ran)[0].tolist() == zeros.tolist()
    if rows[-1][0] < most:
        with pytest.raises(rg.ProgramTrap, match="RG0404"):
            f(0.0, rows[-1][0] + 1, 0.0)


def test_an_integer_has_no_derivative() -> None:
    """x − ⌊x⌋ has the slope 1, also where ⌊x⌋ is a move to the point 0 and back."""
    for p in (-10, 20):
        f = compiled(f"@rg.reversible\ndef f(y: fixed[20], x: fixed[{p}]):\n    y += x - fixed[20](rg.floor(x))\n")
        assert rg.grad(f)(0.0, 2048.0).x == 1.0


@pytest.mark.parametrize("p", _POINTS)
def test_comparisons_with_every_int_are_exact(p: int) -> None:
    """Also of ints beyond the range of fixed numbers, in both orders."""
    text = (
        f"@rg.reversible\ndef f(m: int, x: fixed[{p}], n: int):\n"
        "    m += (x < n) + 2 * (x <= n) + 4 * (x == n) + 8 * (n < x) + 16 * (n <= x) + 32 * (x != n)\n"
    )
    f = compiled(text, format="8,4")
    ns = [-128, -127, -9, -8, -1, 0, 1, 7, 8, 9, 126, 127]
    words = [0, 1, 2, 64, 127, 128, 129, 254, 255]
    pairs = [(float(W8.at(p).to_real(word)), n) for word in words for n in ns]
    xs, ms = (np.array(values) for values in zip(*pairs, strict=True))
    found = rg.vmap(f)(np.zeros(len(pairs), dtype=int), xs, ms)[0].tolist()
    for m, (x, n) in zip(found, pairs, strict=True):
        assert m == (x < n) + 2 * (x <= n) + 4 * (x == n) + 8 * (n < x) + 16 * (n <= x) + 32 * (x != n), (x, n)


_ARRAY = """
V = np.array([0.1, 6.674e-11, 3.7e-5])

@rg.reversible
def f(y: fixed[60], x: fixed[40]):
    for i in range(3):
        y += x * V[i]
    for v in (1e-9, 0.5):
        y += x * v
"""


def test_constant_arrays_beside_points_keep_their_bits() -> None:
    """As single numbers do, at the point at which the greatest element fills a word. At the point F the second would be 0."""
    f = compiled("import numpy as np\n" + _ARRAY)
    x = Fraction(0.7)
    x = Fraction(round(x * 2**40), 2**40)
    exact = x * sum(map(Fraction, (0.1, 6.674e-11, 3.7e-5, 1e-9, 0.5)))
    [word] = rg.run(f, 0.0, 0.7, precision="ignore").words["y"]
    y = Fraction(word, 2**60)
    assert abs(y - exact) < 2.0**-58
    assert rg.grad(f)(0.0, 0.7).x == pytest.approx(float(exact / x), rel=1e-15)
    found = rg.error_bound(f, 0.0, float(x))
    assert abs(y - exact) <= found.bound < 2.0**-57
    # Without points its elements keep their bits as factors, and y is at the point F.
    plain = compiled("import numpy as np\n" + _ARRAY.replace("[60]", "").replace("[40]", ""))(0.0, 0.7).y
    assert abs(Fraction(plain) - exact) < 2.0**-30


_SMALL = """
@rg.reversible
def f(y: fixed[50], x: fixed[40], a: rg.Array[fixed[10], 2], z: fixed):
    t = x * 6.674e-11
    y += t * a[0] + x * x / z + rg.sqrt(x) + fixed[50](a[1] * 1e-10) * rg.sin(z)
"""


def test_gradients_agree_with_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences are of words, whatever their points; a gradient that is wrong in the fifth place is found."""
    f, arguments = compiled(_SMALL), (0.0, 1.5, [3e9, -7e10], 2.0)
    found = check_gradient(f, *arguments)
    exact = (
        6.674e-11 * 3e9 + 1.5 + 0.5 / math.sqrt(1.5), 6.674e-11 * 1.5, 1e-10 * math.sin(2.0),
        -2.25 / 4 - 7 * math.cos(2.0),
    )  # fmt: skip
    assert [e.name for e in found.elements] == ["x", "a[0]", "a[1]", "z"]
    for element, d in zip(found.elements, exact, strict=True):
        assert element.gradient == pytest.approx(d, rel=1e-7)
        assert abs(element.difference - d) <= element.bound + abs(d) * 1e-7

    def wrong(*made: Any, **options: Any) -> Any:
        value, gradients = rg.value_and_grad(*made, **options)(*arguments)
        return lambda *_: (value, [g * (1 + 1e-5) for g in gradients])

    monkeypatch.setattr(gradients_of_tests, "value_and_grad", wrong)
    with pytest.raises(rg.RetrogradError, match="RG0902"):
        check_gradient(f, *arguments)


# ------------------------------------------------------------------ gradients within programs, and the user's adjoints

_GRADIENT = """
@rg.reversible
def loss(y: fixed[{q}], x: fixed[{p}], a: rg.Array[fixed[{s}], 2]):
    y += x * x * a[1]

gradient = rg.reversible_gradient(loss)

@rg.reversible
def f(x: fixed[{p}], a: rg.Array[fixed[{s}], 2], g: fixed[{r}], h: rg.Array[fixed[{t}], 2]):
    with rg.routine() as run:
        y: fixed[{q}] = fixed[{q}](0)
    gradient(y, x, a, g, h)
    ~run
"""


@pytest.mark.parametrize("seed", range(12))
def test_a_gradient_within_a_program_has_the_points_of_its_targets(seed: int) -> None:
    """g += 2·x·a at any point of g, within the roundings of cotangents, which have at least the places of g."""
    draw = random.Random(seed)
    x, a = draw.uniform(-1, 1), draw.uniform(0.5, 1)
    p, s = draw.randint(38, 46), draw.randint(40, 58)
    q, r, t = draw.randint(40, 55), draw.randint(20, 58), draw.randint(20, 58)
    f = compiled(_GRADIENT.format(p=p, q=q, r=r, s=s, t=t))
    start = x, [0.5, a], 0.25, [0.0, -1.0]
    there = f(*start)
    x, a = Fraction(there.x), Fraction(there.a.tolist()[1])
    # The product within is rounded at its own point, 2p − F, and its cotangent has F + q − (2p − F) + k places.
    k = min(30, max(0, r - (32 + q - p), t - (32 + q - s)))
    inner = Fraction(2) ** (32 - 2 * p) + Fraction(2) ** (2 * p - 64 - q - k)
    found = (there.g, Fraction(1, 4) + 2 * x * a, r), (there.h.tolist()[1], x * x - 1, t)
    for value, exact, point in found:
        assert abs(Fraction(value) - exact) <= 4 * (Fraction(2) ** -point + inner)
    assert there.h.tolist()[0] == 0.0
    back = (~f)(*there)
    assert (back.g, back.h.tolist()) == (0.25, [0.0, -1.0])
    assert repr(rg.run(f, *start, engine="reference").values) == repr(there)


def test_a_gradient_within_a_program_has_a_derivative() -> None:
    """out += x·∂(x³)/∂x = 3x³, and so its derivative is 9x²; from outside, too."""
    f = compiled(
        "@rg.reversible\ndef cube(y: fixed[50], x: fixed[55]):\n    y += fixed[55](x * x) * x\n"
        "gradient = rg.reversible_gradient(cube)\n"
        "@rg.reversible\ndef f(out: fixed[50], x: fixed[55]):\n"
        "    with rg.routine() as r:\n        y: fixed[50] = fixed[50](0)\n        g: fixed[55] = fixed[55](0)\n"
        "        gradient(y, x, g)\n    out += g * x\n    ~r\n"
    )
    assert f(0.0, 0.7).out == pytest.approx(3 * 0.7**3, rel=1e-14)
    assert rg.grad(f)(0.0, 0.7).x == pytest.approx(9 * 0.7**2, rel=1e-13)
    cube = f.fn.__globals__["cube"]
    assert rg.reversible_gradient(cube)(0.0, 0.7, 0.0).d_x == pytest.approx(3 * 0.7**2, rel=1e-13)
    assert rg.grad(rg.grad(cube, "x"), "x")(0.0, 0.7) == pytest.approx(6 * 0.7, rel=1e-12)


def test_from_outside_a_gradient_has_places_for_its_size() -> None:
    """Of 2·10^30 kg the derivative is 4·10^−22, which would be 0 with 32 places."""
    f = compiled("@rg.reversible\ndef f(y: fixed[30], m: fixed[-39], r: fixed[24]):\n    y += 6.674e-11 * m / r\n")
    found = rg.reversible_gradient(f)(0.0, 1.989e30, 1.496e11, 0.0, 0.0)
    assert found.d_m == pytest.approx(6.674e-11 / 1.496e11, rel=1e-9)


_ADJOINT = """
@rg.struct
class Pair:
    u: fixed[{s}]
    n: int
    l: rg.lognum

@rg.reversible
def f(y: fixed[{q}], x: fixed[{p}], a: rg.Array[fixed[{s}], 2], z: Pair):
    y += (x * a[0] + x * x) * 3 + z.u * a[1] + fixed(z.l)

@f.adjoint
def _(y, x, a, z, d_y, d_x, d_a, d_z):
    d_x += 3 * (a[0] * d_y + 2 * x * d_y)
    d_a[0] += 3 * x * d_y
    d_a[1] += z.u * d_y
    d_z.u += a[1] * d_y
    d_z.l += fixed(z.l) * d_y
"""


@pytest.mark.parametrize("seed", range(8))
def test_an_adjoint_of_the_users_has_the_cotangents_points(seed: int) -> None:
    """It gives the derivatives of the function itself, at any points."""
    draw = random.Random(seed)
    own = _ADJOINT.format(p=draw.randint(35, 46), q=draw.randint(35, 55), s=draw.randint(30, 46))
    automatic = own.partition("@f.adjoint")[0]
    x, a = draw.uniform(-1, 1), [draw.uniform(-1, 1), draw.uniform(-1, 1)]
    found = []
    for text in (own, automatic):
        f = compiled(text)
        pair = f.fn.__globals__["Pair"](0.25, 3, 0.75)
        found.append(rg.grad(f)(0.0, x, a, pair))
    one, other = found
    assert one.x == pytest.approx(other.x, rel=1e-9, abs=1e-9)
    assert one.a.tolist() == pytest.approx(other.a.tolist(), rel=1e-9, abs=1e-9)
    assert (one.z.u, one.z.l) == pytest.approx((other.z.u, other.z.l), rel=1e-9, abs=1e-9)
    assert one.x == pytest.approx(3 * (a[0] + 2 * x), rel=1e-8, abs=1e-8)


def test_points_at_both_ends_leave_points_for_cotangents() -> None:
    """c − p is a point of a type for each p, though 2F − p is none for −250."""
    text = (
        "@rg.reversible\ndef f(y: fixed[-250], x: fixed[-240]):\n    y += 2 * x\n"
        "@f.adjoint\ndef g(y, x, d_y, d_x):\n    d_x += 2 * d_y\n"
    )
    assert rg.grad(compiled(text))(0.0, 2.0**250).x == 2.0


def test_a_cotangent_of_another_point_is_refused() -> None:
    text = (
        "@rg.reversible\ndef f(y: fixed[50], x: fixed[40]):\n    y += x * x\n"
        "@f.adjoint\ndef g(y, x, d_y, d_x: fixed[{}]):\n    d_x += 2 * x * d_y\n"
    )
    with pytest.raises(rg.CompileError, match=r"RG0727(.|\n)*`d_x` .* which has the point of fixed\[24\]"):
        compiled(text.format(25))(0.0, 1.5)
    assert rg.grad(compiled(text.format(24)))(0.0, 1.5).x == 3.0


@pytest.mark.parametrize("body", ["c * (c * c)", "fixed[84](c * c)"])
@pytest.mark.parametrize("level", [0, 1])
def test_a_part_that_does_not_fit_traps_though_nothing_of_it_is_left(body: str, level: int) -> None:
    """At 13 and −60 places the value is always 0; c² at 84 places is a number below 2^−21, or traps."""
    point = 13 if body.startswith("c *") else -60
    f = compiled(f"@rg.reversible\ndef f(y: fixed[{point}], c: fixed[58]):\n    y += {body}\n").with_options(
        level=level
    )
    assert f(0.0, 1e-4).y == 0.0
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        f(0.0, 0.0578)


_FUNCTIONAL = """
@rg.functional
def g(xs{0}){1}:
    return {2}

@rg.reversible
def f(y: fixed[50], xs: rg.Array[fixed[45], 2], x: fixed[45]):
    y += g({3})
"""


@pytest.mark.parametrize(
    ("code", "given", "hint"),
    [
        ("RG0703", ("", "", "xs[0]", "xs"), "t = fixed(xs)"),
        ("RG0703", (": rg.Array[fixed, 2]", "", "xs[0]", "xs"), "t = fixed(xs)"),
        ("RG0703", ("", "", "fixed[40](xs)", "x"), "Write `fixed`"),
        ("RG0722", ("", " -> fixed[40]", "xs", "x"), "Write `fixed`"),
    ],
)
def test_functional_functions_compute_at_the_format_and_say_what_to_write(
    code: str, given: tuple[str, ...], hint: str
) -> None:
    with pytest.raises(rg.CompileError) as refused:
        compiled(_FUNCTIONAL.format(*given))(0.0, [0.5, 0.25], 0.5)
    assert refused.value.diagnostics[0].code == code
    assert hint in str(refused.value)
    assert "point" in str(refused.value)


def test_numbers_with_points_are_converted_for_functional_functions() -> None:
    """To F, rounded or with a trap; and what the messages say works."""
    f = compiled(_FUNCTIONAL.format("", "", "xs * xs", "x"))
    assert f(0.0, [0.0, 0.0], 0.75).y == 0.5625
    assert rg.grad(f)(0.0, [0.0, 0.0], 0.75).x == 1.5
    text = _FUNCTIONAL.format("", "", "xs[0] * xs[1]", "t").replace("    y +=", "    t = fixed(xs)\n    y +=")
    assert compiled(f"{text}    rg.free(t, fixed(xs))\n")(0.0, [0.5, 0.25], 0.0).y == 0.125
    large = _FUNCTIONAL.format("", "", "xs * 1e-9", "x").replace("45", "-20")
    with pytest.raises(rg.ProgramTrap, match="RG0404"):
        compiled(large)(0.0, [0.0, 0.0], 3e12)
    with pytest.raises(rg.CompileError, match="Write `fixed`"):
        compiled(_FUNCTIONAL.format(": fixed[40]", "", "xs", "x"), "g")(0.5)


ANNOTATED = """
@rg.reversible
def f(y: rg.Array[fixed, 3], x: rg.Array[fixed, 3], n: rg.Array[int, 3]):
    with rg.routine() as r:
        {}
    y += u
    ~r
"""


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        ("fixed[40]", "x / 3"),
        ("fixed[40]", "x"),
        ("int", "x / 3"),
        ("fixed", "n * 2"),
        ("fixed", "n"),
        ("rg.lognum", "x + 1"),
    ],
)
def test_an_annotation_does_not_convert_the_elements_of_an_array(annotation: str, value: str) -> None:
    """It says so, and the way out that it names compiles."""
    arguments = np.zeros(3), np.array([0.5, -1.0, 2.0]), np.array([1, 2, 3])
    with pytest.raises(rg.CompileError, match=r"RG0703.*the elements of `u` are") as error:
        compiled(ANNOTATED.format(f"u: {annotation} = {value}"))(*arguments)
    hint = error.value.diagnostics[0].hint
    assert hint is not None
    statement = hint.removeprefix("Write `").removesuffix("`.")
    if annotation == "rg.lognum":
        assert statement == "u = rg.lognum(x + 1)"
        return
    found = compiled(ANNOTATED.format(statement))(*arguments).y
    x, n = arguments[1:]
    exact = {"x / 3": x / 3, "x": x, "n * 2": n * 2.0, "n": n}[value]
    assert found == pytest.approx(np.floor(exact) if annotation == "int" else exact, abs=2**-31)


def test_an_annotation_that_is_the_type_of_the_elements() -> None:
    for value in ("x / 3", "x"):
        text = ANNOTATED.format(f"u: fixed = {value}")
        assert compiled(text)(np.zeros(3), np.ones(3), np.ones(3, int)).y == pytest.approx(
            np.ones(3) / (3 if "/" in value else 1)
        )


@pytest.mark.parametrize("w", [Format(8, 7), Format(16, 15), Format(32, 31), Format(64, 63)], ids=str)
def test_a_quotient_needs_no_room_where_one_does_not_fit(w: Format) -> None:
    """x/z for ½ ≤ |x| < |z|, at the point F = W − 1: as at any other."""
    f = compiled("@rg.reversible\ndef f(y: fixed, x: fixed, z: fixed):\n    y += x / z", format=str(w))
    for x, z in ((0.5, 0.75), (-0.625, 0.6875), (0.75, -1.0)):
        y = Fraction(w.signed(rg.run(f, 0.0, x, z).words["y"][0]), 1 << w.frac)
        assert abs(y - Fraction(x) / Fraction(z)) <= Fraction(1, 2 << w.frac)
