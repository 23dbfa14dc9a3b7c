"""Time against space for long chains of steps that have no inverse in place: Bennett's method, and checkpoints.

    bennett      state 1 += F(F(… F(state 0) …)), kⁿ steps, by (2k − 1)ⁿ calls and n(k − 1) + 2 states; erases nothing
    treeverse    L = loss(Fᴺ(x, p)) and its gradient, any N, by t(N, s) + N calls and s states; erases states
    revolve      the schedule of treeverse, as a list of actions for steps that another program takes

Without them, N steps would keep N + 1 states. Sources: Bennett, SIAM Journal on Computing 18 (1989), 766; Griewank,
Optimization Methods and Software 1 (1992), 35 (treeverse); Griewank and Walther, ACM Transactions on Mathematical
Software 26 (2000), 19 (revolve).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import comb
from typing import Any, NamedTuple

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


# -----------------------------------------------------------------------------
# Checkpoints. The gradient of a chain needs its states from the last to the first. s of them are kept, and the others
# are computed again from the nearest one before; a state that is not needed any more is erased, since nothing else
# could clear it.
#
# With β(s, r) = (s + r)! / (s! r!), at most r repetitions of each step suffice for N ≤ β(s, r) steps.


def treeverse_steps(steps: int, states: int) -> int:
    """t(N, s) = r N − β(s + 1, r − 1), r the least with β(s, r) ≥ N: the steps between states of a gradient.

    The step within each of the N gradients of a step is not counted. No schedule takes fewer (Griewank and Walther).
    Raises ValueError unless both are positive.
    """
    if steps < 1 or states < 1:
        raise ValueError(f"{steps} steps and {states} states: both must be positive")
    repeats = 0
    while comb(states + repeats, states) < steps:
        repeats += 1
    return repeats * steps - (comb(states + repeats, states + 1) if repeats else 0)


@reversible
def split(m: int, steps: int, states: int) -> None:
    """m += the step of the next checkpoint, of 1 … steps − 1. Inverse: m −= it. steps ≥ 2, states ≥ 2.

    `states`: s places, with that of the state before the steps. m = max(1, β(s, r − 2), N − β(s − 1, r)), with r and β
    of `treeverse_steps`: so the part after the checkpoint has N − m ≤ β(s − 1, r) steps, the part before it
    m ≤ β(s, r − 1).
    """
    with rg.routine() as r:
        n, repeats = 1, 0  # n = β(states, repeats)
        while (n < steps, repeats > 0):
            repeats += 1
            more = n * (states + repeats) // repeats
            n, more = more, n
            rg.free(more, n * repeats // (states + repeats))
        least = n * repeats // (states + repeats) * (repeats - 1) // (states + repeats - 1)
        after = n * states // (states + repeats)
    m += max(least, steps - after, 1)
    ~r


def treeverse(step: Reversible, loss: Reversible, *, keep: int = 4096) -> Reversible:
    """gradient(value, x_bar, p_bar, x, p, states, steps): value += L, x_bar += ∂L/∂x, p_bar += ∂L/∂p.

    L = loss(Fᴺ(x, p)), N = `steps`: step(y, x, p) adds F(x, p) to y, and loss(value, x) adds the loss of the last state
    to value. x is an array; p is a number, an array or a struct that all steps share, 0.0 where there is none.
    `states` has s ≥ 1 rows of the shape of x, which are zero before and afterwards. N may be known only when the
    program runs.

    t(N, s) + N calls of the step (`treeverse_steps`), and N gradients of a step. Memory: the s states, five more of
    their size, at most s + r frames of the recursion, and `keep` words for the cotangents of one step.
    Trap: the gradient has no inverse. A state or a cotangent is erased for each call, and a state for each checkpoint;
    running backward traps (RG0409).
    Cotangents have the places of numbers, as in every gradient within a program: multiply a small loss by a power of
    two. A step x := G(x) that has an inverse serves as `y += x; G(y)`; but a loop of it needs no checkpoints.
    Raises NotDifferentiable.
    """

    @reversible
    def weighted(s: fixed, y_bar: Array[fixed, ...], x: Array[fixed, ...], p: Any) -> None:
        """s += ȳ·F(x, p), whose gradient is the cotangent before the step."""
        with rg.routine() as r:
            y = rg.zeros_like(x)
            step(y, x, p)
        s += rg.sum(y_bar * y)
        ~r

    pull = rg.reversible_gradient(weighted, ("x", "p"), "s", keep=keep)
    seed = rg.reversible_gradient(loss, 1, 0, keep=keep)

    @reversible
    def advance(y: Array[fixed, ...], x: Array[fixed, ...], p: Any, n: int) -> None:
        """y += Fⁿ(x), from y = 0. The states in between are erased."""
        y += x
        following = rg.zeros_like(x)
        for _ in range(n):
            step(following, y, p)
            rg.swap(following, y)
            rg.erase(following)

    @reversible
    def turn(value: fixed, x_bar: Array[fixed, ...], p_bar: Any, x: Array[fixed, ...], p: Any, last: bool) -> None:
        """x_bar := the cotangent before the step from x, of that after it; from the last step on, of the loss."""
        if last:
            y = rg.zeros_like(x)
            step(y, x, p)
            loss(value, y)
            nothing = fixed(0)
            seed(nothing, y, x_bar)
            rg.erase(y)
        before = rg.zeros_like(x)
        nothing = fixed(0)
        pull(nothing, x_bar, x, p, before, p_bar)
        rg.swap(before, x_bar)
        rg.erase(before)

    @reversible
    def sweep(
        value: fixed,
        x_bar: Array[fixed, ...],
        p_bar: Any,
        states: Array[fixed, ...],
        p: Any,
        k: int,
        a: int,
        b: int,
        end: int,
    ) -> None:
        """The turns of the steps b … a + 1. states[k] is the state a; those from k + 1 on are free."""
        if b - a == 1:
            turn(value, x_bar, p_bar, states[k], p, b == end)
        elif k + 1 == len(states):
            for i in range(b - a):
                y = rg.zeros_like(x_bar)
                advance(y, states[k], p, b - a - 1 - i)
                turn(value, x_bar, p_bar, y, p, b - i == end)
                rg.erase(y)
        else:
            with rg.routine() as r:
                m = a + split(b - a, len(states) - k)
            advance(states[k + 1], states[k], p, m - a)
            sweep(value, x_bar, p_bar, states, p, k + 1, m, b, end)
            rg.erase(states[k + 1])
            sweep(value, x_bar, p_bar, states, p, k, a, m, end)
            ~r

    @reversible
    def gradient(
        value: fixed,
        x_bar: Array[fixed, ...],
        p_bar: Any,
        x: Array[fixed, ...],
        p: Any,
        states: Array[fixed, ...],
        steps: int,
    ) -> None:
        assert steps > 0
        states[0] += x
        bar = rg.zeros_like(x)
        sweep(value, bar, p_bar, states, p, 0, 0, steps, steps)
        x_bar += bar
        rg.erase(bar)
        states[0] -= x

    return gradient


class Action(NamedTuple):
    """A part of a schedule, on a current state and `states` places for others.

    advance    the current state, which is `first`, is replaced by the state `last`
    store      the current state, which is `first`, is copied to `place`
    restore    the state `first` is copied from `place`, and is the current state
    turn       the current state is `first`: the gradient of the step to the state `last`, first + 1, is taken
    """

    kind: str
    first: int
    last: int
    place: int


def revolve(steps: int, states: int) -> Iterator[Action]:
    """The actions of `treeverse` for N = `steps` and s = `states`: advances by t(N, s) steps in all, and N turns.

    Raises ValueError unless both are positive.
    """
    treeverse_steps(steps, states)  # raises
    yield Action("store", 0, 0, 0)
    yield from _sweep(0, steps, 0, states)


def _sweep(a: int, b: int, k: int, states: int) -> Iterator[Action]:
    """The turns of the steps b … a + 1, from the current state a, which is that of the place k."""
    while b - a > 1:
        m = int(split(0, b - a, states - k).m) if k + 1 < states else b - a - 1
        yield Action("advance", a, a + m, k)
        if k + 1 < states:
            yield Action("store", a + m, a + m, k + 1)
            yield from _sweep(a + m, b, k + 1, states)
            b = a + m
        else:
            yield Action("turn", b - 1, b, k)
            b -= 1
        yield Action("restore", a, a, k)
    yield Action("turn", a, b, k)
