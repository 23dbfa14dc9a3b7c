"""The Turing machine against addition, forward and backward."""

from __future__ import annotations

from retrograd.examples.turing import BLANK, INCREMENT, increment, run


def test_all_numbers_of_four_digits() -> None:
    for n in range(16):
        after = increment(f"{n:04b}")
        assert after == f"{(n + 1) % 16:04b}"
        assert increment(after, backward=True) == f"{n:04b}"


def test_the_tape_comes_back() -> None:
    out = run(1, BLANK, [], [1, 2, 2], INCREMENT)
    assert (out.q, out.symbol, out.left, out.right) == (6, BLANK, [], [2, 1, 1])
    assert (~run)(*out)[:4] == (1, BLANK, [], [1, 2, 2])
