"""Constants that would take memory or time without bound are refused before they are computed; all others are computed."""

from __future__ import annotations

import linecache
import math
import operator
import random
from typing import Any

import numpy as np
import pytest
from retrograd.compiler.language.arithmetic import Arithmetic
from retrograd.compiler.language.types import BITS, MOST, TooLarge, check_call
from retrograd.compiler.language.values import Constant
from retrograd.isa.words import Q32_32

import retrograd as rg
from retrograd import fixed, reversible

HUGE = (
    "1 << 10**12", "10**10**10", "-3 ** 10**15", "len('a' * 10**12)", "len(10**12 * (0, 1))", "len(list(range(10**12)))",
    "len(tuple(range(10**12)))", "len(set(range(10**12)))", "max(range(10**18))", "len(sorted(range(10**12)))", "len(bytes(10**12))",
    "np.zeros(10**12).size", "np.ones((10**6, 10**6)).size", "np.full(10**12, 1.0).size", "np.arange(10**12).size",
    "np.arange(0, 10**12, 3).size", "np.linspace(0, 1, 10**12).size", "np.eye(10**7).size", "np.identity(10**7).size",
    "np.repeat(ROW, 10**12).size", "np.tile(ROW, 10**12).size", "np.outer(LONG, LONG).size", "(LONG[:, None] * LONG).size",
    "np.bincount(np.array((10**12, 1))).size", "np.diag(LONG).size", "ROW.repeat(10**12).size", "np.pad(ROW, 10**12).size",
    "pow(10, 10**12)", "math.factorial(10**12)", "math.comb(10**12, 10**11)", "math.perm(10**12, 10**11)",
    "len('a'.ljust(10**12))", "len('{:1000000000000}'.format(1))", "len((1).to_bytes(10**12, 'big'))", "(1 << 4000) * (1 << 4000)",
    "len(DOUBLED + DOUBLED)",
)  # fmt: skip
SMALL = (
    "1 << 40", "(1 << 4000) >> 3990", "0 << 10**12", "1 ** 10**30", "(-1) ** (10**30 + 1)", "len(range(10**12))", "len('a' * 3) if False else 3",
    "np.zeros(1000).size", "np.arange(10**12, 10**12 + 5).size", "np.full(3, 10**15).size", "math.factorial(20)", "math.comb(60, 30)",
    "len('a'.ljust(10))", "pow(3, 10**12, 7)", "np.outer(ROW, ROW).size", "(LONG * 2).size",
)  # fmt: skip
NAMES: dict[str, Any] = {
    "rg": rg, "np": np, "math": math, "reversible": reversible, "fixed": fixed,
    "ROW": np.arange(3), "LONG": np.zeros(10_000), "DOUBLED": "a" * MOST,
}  # fmt: skip


def lowered(expression: str) -> None:
    text = f"@reversible\ndef f(x: fixed):\n    x += {expression}\n"
    file = f"<{expression}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(NAMES)
    exec(compile(text, file, "exec"), names)
    names["f"].lower()


@pytest.mark.parametrize("expression", HUGE)
def test_a_constant_without_bound_is_refused(expression: str) -> None:
    with pytest.raises(rg.CompileError) as refused:
        lowered(expression)
    assert refused.value.code == "RG0723"
    assert len(refused.value.diagnostics[0].message) < 200


@pytest.mark.parametrize("expression", SMALL)
def test_a_constant_of_few_words_is_computed(expression: str) -> None:
    found: list[str] = []
    try:
        lowered(expression)
    except rg.CompileError as error:
        found.append(error.code)
    assert found in ([], ["RG0714"])  # computed, and in some cases no number of this format


def test_an_operation_is_refused_exactly_if_its_result_has_too_many_bits() -> None:
    rng = random.Random(1)
    refused = 0
    for _ in range(2000):
        op, function = rng.choice(
            (("<<", operator.lshift), ("**", operator.pow), ("*", operator.mul), ("+", operator.add))
        )
        x = rng.getrandbits(rng.randrange(1, 300 if op == "**" else BITS)) * rng.choice((1, -1))
        y = rng.getrandbits(rng.randrange(1, 6)) if op == "**" else rng.randrange(BITS if op == "<<" else 1 << BITS - 1)
        exact = function(x, y)
        try:
            assert Arithmetic(Q32_32).folded(op, Constant(x), Constant(y)).value == exact
            assert exact.bit_length() <= BITS
        except TooLarge:
            refused += 1
            assert exact.bit_length() > BITS
    assert 200 < refused < 1800


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (np.zeros, ((3, 4),)), (np.eye, (3,)), (np.eye, (3, 5)), (np.arange, (2, 17, 3)), (np.arange, (5,)), (np.linspace, (0, 1)),
        (np.linspace, (0, 1, 7)), (np.repeat, (np.arange(4), 3)), (np.tile, (np.arange(4), (2, 3))), (np.outer, (np.arange(4), np.arange(5))),
        (np.kron, (np.eye(2), np.eye(3))), (np.meshgrid, (np.arange(4), np.arange(5))), (np.vander, (np.arange(4),)),
        (np.diag, (np.arange(4), 2)), (np.bincount, (np.array((1, 9)),)), (np.pad, (np.arange(4), 3)), (np.indices, ((3, 4),)),
        (np.append, (np.arange(4), np.arange(5))), (np.concatenate, ((np.arange(4), np.arange(5)),)), (np.hamming, (9,)), (np.resize, (np.arange(4), (3, 5))),
        (np.broadcast_to, (np.arange(4), (3, 4))), (np.fft.fft, (np.arange(4), 16)), (np.convolve, (np.arange(4), np.arange(5))),
        (math.factorial, (300,)), (math.comb, (300, 20)), (math.perm, (300, 20)),
    ],
)  # fmt: skip
def test_the_estimate_is_not_below_what_a_function_gives(
    function: Any, args: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limit just below the size of the result the call is refused."""
    found = function(*args)
    if isinstance(found, int):
        monkeypatch.setattr("retrograd.compiler.language.types.BITS", found.bit_length() - 1)
    else:
        monkeypatch.setattr("retrograd.compiler.language.types.MOST", int(np.size(found)) - 1)
    with pytest.raises(TooLarge):
        check_call(function, args)
