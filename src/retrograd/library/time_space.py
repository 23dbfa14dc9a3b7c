"""Bennett's method, a time–space trade-off: a long chain of steps that have no inverse in place, with few states at a time.

    state 1 += F(F(… F(state 0) …)),  kⁿ steps F,  by (2k − 1)ⁿ calls and n(k − 1) + 2 states

Without it, kⁿ steps would keep kⁿ + 1 states. Source: Bennett, SIAM Journal on Computing 18 (1989), 766.
"""

from __future__ import annotations

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible


@rg.pure
def bennett_steps(k: int, levels: int) -> int:
    """kⁿ: the steps that are simulated."""
    return int(k**levels)


@rg.pure
def bennett_calls(k: int, levels: int) -> int:
    """(2k − 1)ⁿ: the calls of the step, forward and backward together. k are made and k − 1 undone on each level."""
    return int((2 * k - 1) ** levels)


@rg.pure
def bennett_states(k: int, levels: int) -> int:
    """n(k − 1) + 2: the greatest number of states at one time, the first and the last included."""
    return levels * (k - 1) + 2


@reversible
def bennett(step: Reversible, k: rg.static, levels: rg.static, states: Array[fixed, ...]) -> None:
    """states[1] += F^(kⁿ)(states[0]), n = `levels`. Inverse: states[1] −= the same.

    step(y, x) adds F(x) to y. `states` has `bennett_states(k, levels)` rows (or numbers). Rows from 1 on must be zero
    before; rows from 2 on are zero afterwards.
    """
    assert len(states) == bennett_states(k, levels)
    pebble(step, k, levels, states, 0, 1)


@reversible
def pebble(step: Reversible, k: rg.static, level: rg.static, states: Array[fixed, ...], a: int, b: int) -> None:
    """states[b] += F^(k^level)(states[a]): k stretches of the level below; all but the last are undone."""
    if level == 0:
        step(states[b], states[a])
    elif k == 1:
        pebble(step, k, level - 1, states, a, b)
    else:
        # Only the states of this level: the states of the levels below are zero before and after each stretch.
        first = 2 + (level - 1) * (k - 1)
        last = first + k - 2
        pebble(step, k, level - 1, states, a, first)
        for i in range(first, last):
            pebble(step, k, level - 1, states, i, i + 1)
        pebble(step, k, level - 1, states, last, b)
        for i in range(last - 1, first - 1, -1):
            ~pebble(step, k, level - 1, states, i, i + 1)
        ~pebble(step, k, level - 1, states, a, first)
