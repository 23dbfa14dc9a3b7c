"""Loops of functional functions: the passes of ranges at the ends of a word, and names that some path does not assign."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import retrograd as rg

#: in words of eight bits
ENDS = (-128, -127, -51, -3, 0, 1, 5, 77, 126, 127)
STEPS = (1, -1, 2, -2, 3, -3, 50, -50, 127, -127)

RANGES = {f"range(a, b, {step})": step for step in STEPS} | {"reversed(range(a, b))": 0}
TEXT = """
@rg.functional(heap=64, stack=16)
def passes(a: int, b: int) -> tuple[int, int, int]:
    count, total, last = 0, 0, 99
    for i in {}:
        count += 1
        total = total * 3 + i
        last = i
        if count > 9:
            break
    return count, total, last
"""


def function(text: str, tmp_path: Any) -> Any:
    path = tmp_path / "ranges.py"
    path.write_text(f"import retrograd as rg\n{text}")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["passes"]


@pytest.mark.parametrize("text", RANGES)
def test_passes_at_the_ends_of_a_word(text: str, tmp_path: Any) -> None:
    """As in Python, whose ints have no end: no word beyond the last item makes a further pass."""
    passes = function(TEXT.format(text), tmp_path)
    for a, b in product(ENDS, ENDS):
        items = list(eval(text, {"a": a, "b": b}))[:10]
        total = 0
        for i in items:
            total = total * 3 + i
        found = rg.run(passes, a, b, format="8,4")
        wanted = len(items), (total + 128) % 256 - 128, items[-1] if items else 99
        assert tuple(found.values)[2:] == wanted, (a, b)
        assert found.erased_bits == 0


known = 3.0


def by_a_loop(n: int):
    for i in range(n):
        known = i * 1.0
    return known


def by_a_branch(n: int):
    if n > 1:
        known = 2.0
    return known


def by_a_case(n: int):
    match [1.0, 2.0]:
        case [known, *_]:
            n += 1
        case []:
            n += 2
    return known


def in_an_attribute(n: int):
    if n > 1:
        known = 2.0
    return known.real


@pytest.mark.parametrize("f", [by_a_loop, by_a_branch, by_a_case, in_an_attribute], ids=lambda f: f.__name__)
def test_a_name_of_the_function_is_not_looked_up_around_it(f: Any) -> None:
    """In Python it is the function's own wherever it assigns it. The module's value would be taken without a word."""
    with pytest.raises(rg.CompileError, match=r"RG0702.*`known` has no value on some path"):
        rg.functional(f)(3)
