"""Time against space for long chains of steps that have no inverse in place: Bennett's method, and checkpoints.

    bennett      state 1 += F(F(… F(state 0) …)), kⁿ steps, by (2k − 1)ⁿ calls and n(k − 1) + 2 states; erases nothing
    bennett_any  the same for any N and s states besides the first and last, by the fewest calls; N may be computed
    treeverse    L = loss(Fᴺ(x, p)) and its gradient, any N, by t(N, s) + N calls and s states; erases states
    revolve      the schedule of treeverse, as a list of actions for steps that another program takes
    online       such a schedule where the number of steps is not known before the last

Without them, N steps would keep N + 1 states. Sources: Bennett, SIAM Journal on Computing 18 (1989), 766; Griewank,
Optimization Methods and Software 1 (1992), 35 (treeverse); Griewank and Walther, ACM Transactions on Mathematical
Software 26 (2000), 19 (revolve); Knill, arXiv math/9508218 (any N); Wang, Moin and Iaccarino, SIAM Journal on
Scientific Computing 31 (2009), 2549 (online).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from typing import Any, NamedTuple

import retrograd as rg
from retrograd import Array, Reversible, fixed, reversible
from retrograd.compiler.frontends.python.checkpoints import Checkpoints


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
# Any number of steps. With s free states, N steps are m steps into a free state, N − m from there with s − 1 others,
# and the m steps undone: a binary tree with N leaves, and a leaf at the left of j nodes is called 2^j times. A node at
# the left of j − 1 others adds 2^j calls, and a tree of depth s has C(s, j) such nodes: the fewest calls take the
# cheapest nodes first.


def bennett_any_calls(steps: int, states: int) -> int:
    """1 + Σⱼ 2^j min(C(s, j), what is left of N − 1): the calls of the step, forward and backward together.

    s = `states`, those besides the first and the last. No recursive schedule that erases nothing takes fewer. Raises
    ValueError unless 1 ≤ N ≤ 2^s.
    """
    if not 1 <= steps <= 2 ** max(states, 0):
        raise ValueError(f"{steps} steps with {states} states: at least 1 and at most 2^{states} steps")
    calls, left = 1, steps - 1
    for j in range(1, states + 1):
        nodes = min(comb(states, j), left)
        calls, left = calls + nodes * 2**j, left - nodes
    return calls


@reversible
def pebble_split(m: int, steps: int, states: int) -> None:
    """m += the steps before the first pebble, of 1 … steps − 1. Inverse: m −= it. 2 ≤ steps ≤ 2^states.

    All nodes of less than 2^J calls, and q of 2^J calls, are in the tree. Its left part has C(s − 1, j − 1) of those
    of 2^j.
    """
    with rg.routine() as r:
        left = steps - 1  # nodes that are not counted yet
        j = 1
        nodes = states + 0  # C(s, j)
        before = 1  # leaves of the left part
        while (left > nodes, j > 1):
            left -= nodes
            before += nodes * j // states if j > 1 else 0  # C(s − 1, j − 1) = C(s, j) j/s
            j += 1
            more = nodes * (states - j + 1) // j
            nodes, more = more, nodes
            rg.free(more, nodes * j // (states - j + 1))
        rest = nodes * (states - j) // states  # C(s − 1, J)
        more = max(left - rest, 0) if j > 1 else 0
    m += before + more
    ~r


@reversible
def bennett_any(step: Reversible, states: Array[fixed, ...], steps: int) -> None:
    """states[1] += F^N(states[0]), N = `steps`, any N ≥ 1. Inverse: states[1] −= the same.

    step(y, x) adds F(x) to y. With s + 2 rows (or numbers) in `states`, s ≥ log₂ N, by `bennett_any_calls(N, s)` calls.
    Rows from 1 on must be zero before; rows from 2 on are zero afterwards. N may be known only when the program runs.
    Traps (RG0804) where N is less than 1 or s too small.
    """
    assert steps > 0
    if len(states) < 32:
        assert steps <= 2 ** (len(states) - 2)
    stride(step, states, 0, 1, 2, steps)


@reversible
def stride(step: Reversible, states: Array[fixed, ...], a: int, b: int, free: int, n: int) -> None:
    """states[b] += Fⁿ(states[a]). The states from `free` on are zero before and after."""
    if n == 1:
        step(states[b], states[a])
    else:
        with rg.routine() as r:
            m = 0
            pebble_split(m, n, len(states) - free)
            stride(step, states, a, free, free + 1, m)
        stride(step, states, free, b, free + 1, n - m)
        ~r


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


def treeverse(step: Reversible, loss: Reversible, *, until: Reversible | None = None, keep: int = 4096) -> Reversible:
    """gradient(value, x_bar, p_bar, x, p, states, steps): value += L, x_bar += ∂L/∂x, p_bar += ∂L/∂p.

    L = loss(Fᴺ(x, p)), N = `steps`: step(y, x, p) adds F(x, p) to y, and loss(value, x) adds the loss of the last state
    to value. x is an array; p is a number, an array or a struct that all steps share, 0.0 where there is none.
    `states` has s ≥ 1 rows of the shape of x, which are zero before and afterwards. N may be known only when the
    program runs. With `until`, N is found by a first run: until(b, x) flips the bool b exactly if x is the last state;
    N is the least number from 1 on with such a state, and at most `steps`, else it traps (RG0804).

    t(N, s) + N calls of the step (`treeverse_steps`), N more with `until`, and N gradients of a step. Memory: the s
    states, five more of their size, at most s + r frames of the recursion, and `keep` words for the cotangents of one
    step.
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

    stop: Any = until
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
    def count(n: int, x: Array[fixed, ...], p: Any, most: int) -> None:
        """n += the steps until the last state. All states are erased."""
        assert most > 0
        y, following = rg.zeros_like(x), rg.zeros_like(x)
        y += x
        last = False
        for _ in rg.repeat(n == 0, until=last):
            step(following, y, p)
            rg.swap(following, y)
            rg.erase(following)
            n += 1
            stop(last, y)
            assert last or n < most
        rg.erase(y)
        rg.erase(last)

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

    @reversible
    def gradient_until(
        value: fixed,
        x_bar: Array[fixed, ...],
        p_bar: Any,
        x: Array[fixed, ...],
        p: Any,
        states: Array[fixed, ...],
        steps: int,
    ) -> None:
        n = 0
        count(n, x, p, steps)
        gradient(value, x_bar, p_bar, x, p, states, n)
        rg.erase(n)

    return gradient if until is None else gradient_until


# -----------------------------------------------------------------------------
# The schedules of `with rg.checkpoints(states=S)`, whose steps are functions of their numbers, too.


@reversible
def pebble_range(apply: Reversible, a: int, b: int, free: int, rows: int, first: int, n: int) -> None:
    """The state b += that n steps behind the state a, of the steps from `first` on; the rows from `free` on are free.

    apply(b, a, i): the state b += step i of the state a. The splits are those of `bennett_any`. 1 ≤ n ≤ 2^(rows −
    free).
    """
    if n == 1:
        apply(b, a, first)
    else:
        with rg.routine() as r:
            m = 0
            pebble_split(m, n, rows - free)
            pebble_range(apply, a, free, free + 1, rows, first, m)
        pebble_range(apply, free, b, free + 1, rows, first + m, n - m)
        ~r


@reversible
def need_states(steps: int, states: int) -> None:
    """A trap (RG0804) where the states are too few for the steps."""
    if states < 32:
        assert steps <= 2**states


@reversible
def sweep_range(act: Reversible, k: int, states: int, a: int, b: int) -> None:
    """The turns of the steps b − 1 … a by the splits of `treeverse`; row k is the state a, and the rows behind it are free.

    act(0, k, i, j): row k + 1 := the state j, from the state i in row k. act(1, k, i, 0): the gradient of step i, from
    the state in row k. act(2, k, 0, 0): row k is erased.
    """
    if b - a == 1:
        act(1, k, a, 0)
    elif k + 1 == states:
        for i in range(b - a - 1):
            act(0, k, a, b - 1 - i)
            act(1, k + 1, b - 1 - i, 0)
            act(2, k + 1, 0, 0)
        act(1, k, a, 0)
    else:
        with rg.routine() as r:
            m = a + split(b - a, states - k)
        act(0, k, a, m)
        sweep_range(act, k + 1, states, m, b)
        act(2, k + 1, 0, 0)
        sweep_range(act, k, states, a, m)
        ~r


checkpoints = Checkpoints(need_states, pebble_range, sweep_range, __name__)


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


def online(states: int, done: Callable[[int], bool]) -> Iterator[Action]:
    """The actions for a chain whose end is found while it runs, on s = `states` places.

    The steps are taken one by one, and done(n) is true where the state n is the last. The turns follow, as in `revolve`
    from each state that is kept. Until the end no step is taken twice. Each of the N steps is taken at most r + 1
    times, r of `treeverse_steps(N, s)`. Raises ValueError unless s is positive.

    A place that holds a state has a level. Where all places are taken, the state that is replaced is one that a later
    state of higher level follows; without such a state the last one is replaced, and the new one has a level more.
    """
    if states < 1:
        raise ValueError(f"{states} states: must be positive")
    yield Action("store", 0, 0, 0)
    #: (state, level, place) of the states that are kept, in their order
    kept, now = [(0, -1, 0)], 0
    while True:
        yield Action("advance", now, now + 1, kept[-1][2])
        now += 1
        if done(now):
            break
        if len(kept) < states:
            kept.append((now, 0, len(kept)))
        elif states > 1:
            spare = [i for i in range(1, len(kept)) if any(kept[i][1] < later[1] for later in kept[i + 1 :])]
            if spare:
                place = kept.pop(spare[-1])[2]
                kept.append((now, 0, place))
            else:
                _, level, place = kept.pop()
                kept.append((now, level + 1, place))
        else:
            continue
        yield Action("store", now, now, kept[-1][2])
    end = now
    while kept:
        first, _, place = kept.pop()
        yield Action("restore", first, first, place)
        free = sorted({*range(states)} - {p for _, _, p in kept} - {place})
        places = [place, *free]
        for action in _sweep(first, end, 0, len(places)):
            yield action._replace(place=places[action.place])
        end = first
