"""The type `uint` in functional functions: literals, structures, derivatives, refusals.

tests/language/test_unsigned.py has its operators.
"""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import fixed, uint

#: format -> bits of a word
WIDTHS = {"16,8": 16, "32,16": 32, "64,32": 64}
HEAD = "import retrograd as rg\nfrom retrograd import Array, fixed, uint\n"


def defined(text: str, folder: Path) -> Any:
    """The function `f` of a module with this text."""
    # The text of a function is read when the function is compiled, so each has a file of its own.
    path = folder / f"unsigned{sum(1 for _ in folder.iterdir())}.py"
    path.write_text(HEAD + text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.f


# ---------------------------------------------------------------------- literals

#: a place for a literal L that is to be a uint → functions of (u: uint, b: bool) whose value is L >> 1, for b = True
PLACES = {
    "operand": "    return max(L, u) >> 1",
    "branch": "    return (L if b else u) >> 1",
    "assigned on a path": "    x = u\n    if b:\n        x = L\n    return x >> 1",
    "name": "    x = L\n    return (x if b else u) >> 1",
    "result": "    def g() -> uint:\n        return L\n    return g() >> 1",
    "result of a recursion": "    def g(k) -> uint:\n        return L if k == 0 else g(k - 1)\n    return g(2) >> 1",
    "argument": "    def g(v: uint):\n        return v >> 1\n    return g(L)",
    "argument of a recursion": "    def g(v: uint, k):\n        return g(v, k - 1) if k else v >> 1\n    return g(L, 2)",
    "argument of a function elsewhere": "    return half(L)",
    "branch of an argument": "    return half(L if b else u)",
    "field": "    return Held(L, 1.0).word >> 1",
    "item of a tuple": "    def g(t: tuple[uint, int]):\n        return t[0] >> 1\n    return g((L, 3))",
    "item of a list": "    def g(l: list[uint]):\n        match l:\n            case [x, *_]:\n"
    "                return x >> 1\n            case _:\n                return u\n    return g([L, 1])",
    "conversion": "    return uint(L) >> 1",
    "divisor": "    return L // (u | 2)",
}
ELSEWHERE = """
@rg.functional
def half(v: uint) -> uint:
    return v >> 1
@rg.data
class Held:
    word: uint
    real: fixed
@rg.functional
def f(u: uint, b: bool) -> uint:
"""


@pytest.mark.parametrize("w", WIDTHS)
@pytest.mark.parametrize("place", PLACES)
def test_a_whole_number_has_the_type_of_its_place(place: str, w: str, tmp_path: Path) -> None:
    top = 1 << WIDTHS[w]
    for number in (0, 5, top // 2 - 1, top // 2, top - 1):
        f = defined(ELSEWHERE + PLACES[place].replace("L", str(number)), tmp_path)
        assert f.with_options(format=w, heap=500)(0, True) == number >> 1, number


# ---------------------------------------------------------------------- structures


@rg.data
class Mixed:
    word: uint
    count: int
    real: fixed
    more: list[uint]


@rg.functional
def word(x: uint) -> uint:
    return x


@rg.functional
def pair(x: tuple[int, uint]) -> tuple[int, uint]:
    return x


@rg.functional
def words(x: list[uint]) -> list[uint]:
    return x


@rg.functional
def rows(x: list[tuple[uint, fixed, bool]]) -> list[tuple[uint, fixed, bool]]:
    return x


@rg.functional
def held(x: Mixed) -> Mixed:
    return x


def values(rng: random.Random, width: int) -> dict[Any, Any]:
    top = 1 << width

    def unsigned() -> int:
        return rng.choice((0, 1, top // 2 - 1, top // 2, top - 1, rng.randrange(top)))

    def signed() -> int:
        return unsigned() - top // 2

    some = [unsigned() for _ in range(rng.randrange(4))]
    return {
        word: unsigned(), pair: (signed(), unsigned()), words: some,
        rows: [(x, rng.randrange(-8, 8) / 4, rng.random() < 0.5) for x in some],
        held: Mixed(unsigned(), signed(), rng.randrange(-8, 8) / 4, some),
    }  # fmt: skip


@pytest.mark.parametrize("w", WIDTHS)
@pytest.mark.parametrize("engine", ["reference", "native"])
def test_structures_keep_their_uints(engine: str, w: str) -> None:
    rng = random.Random(w)
    for _ in range(2):
        for f, x in values(rng, WIDTHS[w]).items():
            ran = rg.run(f.with_options(format=w, heap=500), x, engine=engine)
            found = ran.values[1:]
            wanted = x if isinstance(x, tuple) else (x,)
            assert tuple(found) == wanted


@pytest.mark.parametrize("w", WIDTHS)
def test_a_uint_outside_of_its_range_is_refused_in_structures(w: str) -> None:
    top = 1 << WIDTHS[w]
    for number, code in ((-1, "RG0601"), (top, "RG0601"), (1.0, "RG0603"), (True, "RG0603")):
        for f, x in ((words, [0, number]), (pair, (0, number)), (held, Mixed(number, 0, 0.0, []))):
            with pytest.raises(rg.RetrogradError) as refused:
                f.with_options(format=w, heap=500)(x)
            assert refused.value.diagnostics[0].code == code, (f.__name__, number)


def test_batches_take_structures_of_uints() -> None:
    @rg.functional
    def folded(c: Mixed, k: list[uint]) -> uint:
        def total(items):
            match items:
                case []:
                    return 0
                case [first, *rest]:
                    return first ^ total(rest)

        return (c.word >> 1) + total(k)

    rng = random.Random(3)
    cs = [Mixed(rng.randrange(1 << 64), -1, 0.5, []) for _ in range(4)]
    ks = [[rng.randrange(1 << 64), 1 << 63] for _ in range(4)]
    got = rg.vmap(folded)(cs, ks).out
    assert got.dtype == np.uint64
    assert list(got) == [folded(c, k) for c, k in zip(cs, ks, strict=True)]
    assert list(got) == [((c.word >> 1) + (k[0] ^ k[1])) % 2**64 for c, k in zip(cs, ks, strict=True)]


# ---------------------------------------------------------------------- derivatives

#: functions of (u: KIND, x: fixed), where KIND is int or uint; u stays below 2^(W−1)
DISCRETE = {
    "a factor": "    return x * fixed(u & 3) + u % 5",
    "a branch": "    return x * x if u > 3 else 3 * x",
    "an exponent": "    return x ** (u & 3)",
    "a captured number": "    return rg.grad(lambda y: y * y * fixed(u & 3))(x)",
    "an argument": "    return rg.grad(lambda y, v: y * fixed(v & 3))(x, u)[0]",
    "an argument alone": "    return rg.grad(lambda v: x * fixed(v & 3))(u)",
    "a value": "    return rg.grad(lambda v, y: v + 1)(u, x)[1]",
    "a tuple": "    return rg.vjp(lambda t: (t[0] * t[0], t[1]))((x, u), (1.5, 9.0))[0]",
    "a direction": "    return rg.jvp(lambda t: (t[0] * t[0], t[1]))((x, u), (1.5, 9.0))[0]",
    "a list": "    def total(f, l):\n        match l:\n            case [first, *rest]:\n"
    "                return f(first) + total(f, rest)\n            case _:\n                return 0.0\n"
    "    squares = lambda l: total(lambda t: t[0] * t[0] * fixed(t[1] & 3), l)\n"
    "    return total(lambda t: t[0] + t[1], rg.grad(squares)([(x, u), (2 * x, u + 1)]))",
    "a data class": "    match rg.grad(lambda c: c.real * c.real * fixed(c.word & 3))(Held(u, x)):\n"
    "        case Held(v, y):\n            return y + fixed(v)",
}


@pytest.mark.parametrize("case", DISCRETE)
def test_uints_are_discrete_as_ints_are(case: str, tmp_path: Path) -> None:
    """Values and derivatives of a function of a uint, and of the same text with an int."""
    text = (
        "@rg.data\nclass Held:\n    word: KIND\n    real: fixed\n@rg.functional\ndef f(u: KIND, x: fixed) -> fixed:\n"
    )
    f, g = (defined((text + DISCRETE[case]).replace("KIND", kind), tmp_path) for kind in ("uint", "int"))
    for u in (0, 2, 7):
        assert f(u, 1.5) == g(u, 1.5)
        assert rg.grad(f, "x")(u, 1.5) == rg.grad(g, "x")(u, 1.5)


def test_the_gradient_of_a_uint_is_zero_for_every_word() -> None:
    """The number of a uint that is no fixed is no obstacle: its derivative is zero."""

    @rg.functional
    def slope(u: uint) -> fixed:
        return rg.grad(lambda v: v * 0xC2B2AE3D27D4EB4F)(u)

    assert slope(2**64 - 1) == 0.0


# ---------------------------------------------------------------------- refusals

#: what is refused, its code, and what the message advises in its place
REFUSED = [
    ("bool", "return u < n", "RG0703", "u < n", "u < uint(n)"),
    ("uint", "return u if n > 2 else n", "RG0703", "else n", "else uint(n)"),
    ("uint", "return shifted(n)", "RG0703", "shifted(n)", "shifted(uint(n))"),
    ("uint", "return (lambda g, v: g(v))(lambda v: v >> 1, half(n))", "RG0703", "half(n)", "half(uint(n))"),
    ("uint", "h = half if n > 0 else lambda v: v\n    return h(3)", "RG0703", "h(3)", "h(uint(3))"),
    ("int", "return halved(u)", "RG0703", "halved(u)", "halved(int(u))"),
    ("fixed", "return less(u)", "RG0703", "less(u)", "less(fixed(u))"),
    ("fixed", "def g(k) -> fixed:\n        return k\n    return g(u) - 2", "RG0703", "return k", "return fixed(k)"),
    ("bool", "def g(k) -> bool:\n        return k\n    return g(u)", "RG0703", "return k", "return bool(k)"),
    ("int", "return u", "RG0703", "return u", "return int(u)"),
    ("uint", "return n", "RG0703", "return n", "return uint(n)"),
    ("uint", "return 2.5 * n", "RG0703", "2.5 * n", "uint(rg.floor(2.5 * n))"),
    ("Held", "return Held(n)", "RG0703", "Held(n)", "Held(uint(n))"),
    ("list[uint]", "return [n, 1]", "RG0703", "[n,", "[uint(n),"),
    ("fixed", "return sum(1.0 for i in range(u))", "RG0703", "range(u)", "range(int(u))"),
    ("uint", "return u // -3", "RG0714", "-3", "uint(-3)"),
    ("uint", "return -3 if n > 0 else u", "RG0714", "-3", "uint(-3)"),
    ("uint", "return u + 2**70", "RG0714", "2**70", "uint(2**70)"),
]
AROUND = """
@rg.functional
def half(v: uint) -> uint:
    return v >> 1
@rg.data
class Held:
    word: uint
@rg.functional
def f(u: uint, n: int) -> RESULT:
    def shifted(v: uint):
        return v >> 1
    def halved(k: int):
        return k >> 1
    def less(x: fixed):
        return x - 2
    BODY
"""


@pytest.mark.parametrize(("result", "body", "code", "wrong", "right"), REFUSED)
def test_what_has_another_order_is_refused_and_the_advice_works(
    result: str, body: str, code: str, wrong: str, right: str, tmp_path: Path
) -> None:
    text = AROUND.replace("RESULT", result)
    with pytest.raises(rg.CompileError) as refused:
        defined(text.replace("BODY", body), tmp_path)(7, 5)
    found = refused.value.diagnostics[0]
    assert found.code == code
    assert found.span is not None
    assert found.hint is not None
    advised = next(name for name in re.findall(r"\b\w+\(", right) if name not in re.findall(r"\b\w+\(", wrong))
    assert advised in found.hint
    defined(text.replace("BODY", body.replace(wrong, right)), tmp_path)(7, 5)
