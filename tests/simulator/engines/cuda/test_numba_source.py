"""The fold of trees to Numba's source, run as plain Python: every word is that of `evaluate`; and the arithmetic of two words that it calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from math import isqrt
from typing import Any

import numpy as np
import pytest
from retrograd.isa.entries import Opcode
from retrograd.isa.expr import Expr, evaluate, inputs
from retrograd.isa.table import TABLE
from retrograd.isa.words import Format
from retrograd.simulator.engines.cuda import word_arithmetic
from retrograd.simulator.engines.cuda.numba_source import NumbaSource, Tables, arithmetic_source
from retrograd.simulator.engines.llvm.instructions import step

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

FORMATS = [
    Format(64, 32),
    Format(64, 63),
    Format(64, 0),
    Format(32, 16),
    Format(32, 31),
    Format(16, 8),
    Format(8, 4),
    Format(4, 2),
]
#: operands of the arithmetic
PAIRS = 600


@pytest.fixture(autouse=True)
def transformations() -> None:
    """Nothing is skipped here: each test runs once in the full tier, too."""


@cache
def _arithmetic(change: Callable[[str], str] | None = None) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    text = arithmetic_source("")
    exec(text if change is None else change(text), scope)
    return scope


def corners(w: Format) -> list[int]:
    return [0, 1, 2, w.mask, w.sign, w.sign - 1, w.sign + 1, 1 << w.frac, (1 << w.width // 2) - 1, 1 << w.width // 2]


def words(rng: random.Random, w: Format) -> int:
    return rng.choice(corners(w)) if rng.random() < 0.4 else rng.getrandbits(w.width) >> rng.randrange(w.width)


def differences(roots: Sequence[Expr], w: Format, rows: int, arithmetic: dict[str, Any]) -> list[Any]:
    """Rows on which a word, or its truth, is not that of `evaluate`."""
    given = sorted(inputs(*roots))
    names = {place: f"x{k}" for k, place in enumerate(given)}
    tables = Tables(w)
    source = NumbaSource(w, names, tables)
    out = [source.word(root) for root in roots] + [source.truth(root) for root in roots]
    body = "".join(f"  {line}\n" for line in source.lines)
    scope = dict(arithmetic)
    exec(f"{tables.source()}def f({', '.join(names.values())}):\n{body}  return [{', '.join(out)}]\n", scope)
    rng = random.Random(repr(given))
    wrong = []
    for _ in range(rows):
        env = {place: words(rng, w) for place in given}
        expected = [w.signed(evaluate(root, w, env)) for root in roots]
        found = scope["f"](*(np.int64(w.signed(env[place])) for place in given))
        if [*map(int, found)] != expected + [int(word != 0) for word in expected]:
            wrong.append(env)
    return wrong


def check_opcodes(opcodes: Sequence[Opcode], w: Format, rows: int) -> None:
    for opcode in opcodes:
        for differentiating in (False, True):
            roots = tuple(dict.fromkeys(step(opcode, w, differentiating, False).roots))
            assert not differences(roots, w, rows, _arithmetic()), (opcode.name, differentiating)


@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_a_share_of_the_opcodes(w: Format) -> None:
    check_opcodes(list(TABLE)[FORMATS.index(w) :: 8], w, 4)


@pytest.mark.long
@pytest.mark.parametrize("w", FORMATS, ids=str)
def test_every_opcode(w: Format) -> None:
    check_opcodes(list(TABLE), w, 40)


# ---------------------------------------------------------------- products, quotients, roots


def signed(value: int) -> int:
    return Format(64, 0).signed(value)


def check_arithmetic(arithmetic: dict[str, Any], seed: int, count: int) -> None:
    rng, w, narrow, word = random.Random(seed), Format(64, 0), Format(32, 0), np.int64
    for _ in range(count):
        x, y = signed(words(rng, w)), signed(words(rng, w))
        p = rng.choice((0, 1, 16, 31, 32, 33, 48, 62, 63, 64))
        assert arithmetic["high_word"](word(x), word(y)) == x * y >> 64
        assert [*map(int, arithmetic["long_quotient"](word(x), word(y), word(p)))] == _quotient(x, y, p, (64, 0))
        assert arithmetic["long_root"](word(x), word(p)) == _root(x, p)
        a, b, q = narrow.signed(words(rng, narrow)), narrow.signed(words(rng, narrow)), min(p, 32)
        assert [*map(int, arithmetic["short_quotient"](word(a), word(b), word(q)))] == _quotient(a, b, q, (0,))
        assert arithmetic["short_root"](word(a), word(q)) == _root(a, q)


def _quotient(x: int, y: int, p: int, parts: Sequence[int]) -> list[int]:
    if y == 0:
        return [0] * (len(parts) + 1)
    quotient = (x << p) // y
    rest = (x << p) - quotient * y
    return [*(signed(quotient >> part) for part in parts), int(2 * abs(rest) >= abs(y))]


def _root(x: int, s: int) -> int:
    return 0 if x < 0 else signed(isqrt(x << s + 2) + 1 >> 1)


def test_arithmetic() -> None:
    check_arithmetic(_arithmetic(), 1, PAIRS)


@pytest.mark.long
def test_more_arithmetic() -> None:
    check_arithmetic(_arithmetic(), 2, 50_000)


def test_the_module_is_its_own_source() -> None:
    """The functions that are imported, and the copies of their text, give the same."""
    check_arithmetic(vars(word_arithmetic), 3, 50)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(other >> 32)", "(other >> 31)"),
        ("digit -= U1", "digit -= U0"),
        (
            "rest >= divisor - rest else S(0)\n    return S(upper)",
            "rest > divisor - rest else S(0)\n    return S(upper)",
        ),
        ("root -= U1\n    following", "root -= U0\n    following"),
        ("above != U0 or ", ""),
    ],
)
def test_a_planted_fault_is_found(right: str, wrong: str) -> None:
    assert right in arithmetic_source("")
    with pytest.raises(AssertionError):
        check_arithmetic(_arithmetic(lambda text: text.replace(right, wrong)), 1, 5 * PAIRS)
