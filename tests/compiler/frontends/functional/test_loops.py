"""Tail calls are loops: values and gradients are those of the recursion, and a pass keeps the words that it loses."""

from __future__ import annotations

from typing import Any

import pytest

import retrograd as rg
from retrograd import fixed
from retrograd.derivatives._requests import plan_of


@rg.functional
def affine(x: fixed, n: int):
    def go(v, k):
        return v if k == 0 else go(0.5 * v + x, k - 1)

    return go(x, n)


@rg.functional
def sums(x: fixed, n: int):
    """Each pass adds to `total` and to `k`, and reads no sum: nothing is lost."""

    def go(total, k):
        return total if k == n else go(total + 0.001 * x * k, k + 1)

    return go(0.0, 0)


@rg.functional
def leapfrog(x: fixed, n: int):
    """Each sum reads the sum behind it, which is changed after it."""

    def go(p, q, k):
        return p if k == 0 else go(p + 0.25 * q, q - x, k - 1)

    return go(x, 1.0, n)


@rg.functional
def turns(x: fixed, n: int):
    """Two sums that read each other: one of them is lost in each pass."""

    def go(p, q, k):
        return p * q if k == 0 else go(p + 0.125 * q, q - 0.125 * p, k - 1)

    return go(x, 1.0, n)


@rg.functional
def exchanged(x: fixed, n: int):
    def go(p, q, k):
        return p - 2 * q if k == 0 else go(q, p * 0.5, k - 1)

    return go(x, 1.0, n)


@rg.functional
def mutual(x: fixed, n: int):
    """Two functions that call each other last."""

    def even(v, k):
        return v if k == 0 else odd(v * 0.5 + x, k - 1)

    def odd(v, k):
        return -v if k == 0 else even(v - 0.25, k - 1)

    return even(x, n)


@rg.functional
def decided(x: fixed, n: int):
    """Tail calls on several paths, and a value on two of them."""

    def go(low, high, k):
        middle = 0.5 * (low + high)
        if k == 0:
            return middle
        if middle * middle == x:
            return middle
        if middle * middle < x:
            return go(middle, high, k - 1)
        return go(low, middle, k - 1)

    return go(0.0, 2.0, n)


@rg.functional
def newton(x: fixed, n: int):
    """A function as an argument that stays the same, and a gradient in each pass."""

    def root(f, z, k):
        better = z - f(z) / rg.grad(f)(z)
        return better if k == 0 else root(f, better, k - 1)

    return root(lambda z: z * z - x, 1.0, n)


@rg.functional
def wrapped(x: fixed, n: int):
    """The call inside another call is a call, the other one is a pass of the loop."""

    def go(v, k):
        return v if k <= 0 else go(go(0.5 * v + x, k - 3), k - 1)

    return go(x, n)


@rg.functional
def pairs(x: fixed, n: int):
    """A pair and a truth among the arguments."""

    def go(p, up, k):
        a, b = p
        if k == 0:
            return a - b
        return go((b + x, 0.5 * a), not up, k - 1) if up else go((a * 0.5, b), a < b, k - 1)

    return go((x, 1.0), True, n)


def recursion(step: Any, *state: Any) -> Any:
    """The value of a recursion in float64: `step(state)` is a state, or a float at the end."""
    while isinstance(state, tuple):
        state = step(*state)
    return state


def _mutual(x: float, n: int) -> float:
    v, k, even = x, n, True
    while k:
        v, k, even = (v * 0.5 + x if even else v - 0.25), k - 1, not even
    return v if even else -v


def _decided(x: float, n: int) -> float:
    low, high = 0.0, 2.0
    for _ in range(n):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * middle < x else (low, middle)
    return (low + high) / 2


def _newton(x: float, n: int) -> float:
    z = 1.0
    for _ in range(n + 1):
        z -= (z * z - x) / (2 * z)
    return z


def _wrapped(x: float, n: int) -> float:
    def go(v: float, k: int) -> float:
        return v if k <= 0 else go(go(0.5 * v + x, k - 3), k - 1)

    return go(x, n)


def _pairs(x: float, n: int) -> float:
    a, b, up = x, 1.0, True
    for _ in range(n):
        a, b, up = (b + x, 0.5 * a, not up) if up else (a * 0.5, b, a < b)
    return a - b


def _affine(v: float, k: int, x: float) -> Any:
    return v if k == 0 else (0.5 * v + x, k - 1, x)


def _leapfrog(p: float, q: float, k: int, x: float) -> Any:
    return p if k == 0 else (p + 0.25 * q, q - x, k - 1, x)


def _turns(p: float, q: float, k: int) -> Any:
    return p * q if k == 0 else (p + q / 8, q - p / 8, k - 1)


def _exchanged(p: float, q: float, k: int) -> Any:
    return p - 2 * q if k == 0 else (q, p / 2, k - 1)


#: function, the same in float64, number of passes, and whether it has a derivative by x
LOOPS = [
    (affine, lambda x, n: recursion(_affine, x, n, x), 9, True),
    (sums, lambda x, n: sum(0.001 * x * k for k in range(n)), 9, True),
    (leapfrog, lambda x, n: recursion(_leapfrog, x, 1.0, n, x), 9, True),
    (turns, lambda x, n: recursion(_turns, x, 1.0, n), 9, True),
    (exchanged, lambda x, n: recursion(_exchanged, x, 1.0, n), 9, True),
    (mutual, _mutual, 9, True),
    (decided, _decided, 20, False),
    (newton, _newton, 4, True),
    (wrapped, _wrapped, 6, True),
    (pairs, _pairs, 9, True),
]


@pytest.mark.parametrize(("f", "expected", "n", "smooth"), LOOPS, ids=[f.__name__ for f, *_ in LOOPS])
def test_values_gradients_and_the_way_back(f: Any, expected: Any, n: int, smooth: bool) -> None:
    for passes in (0, 1, n):
        x = 0.375
        there = rg.run(f, x, passes, engine="reference")
        assert there.values.out == pytest.approx(expected(x, passes), abs=1e-7)
        assert there.erased_bits == 0
        assert not any(there.machine.memory[there.compiled.argument_words :])
        assert (~f)(*there.values) == (x, passes, 0.0)
        if smooth:
            slope = (expected(x + 1e-5, passes) - expected(x - 1e-5, passes)) / 2e-5
            assert rg.grad(f, "x")(x, passes) == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("engine", ["threaded", "translated"])
def test_engines_agree(engine: str) -> None:
    for f, _, n, _ in LOOPS:
        there, again = (rg.run(f, 0.375, n, engine=e) for e in ("reference", engine))
        assert again.values == there.values
        assert (again.steps, again.erased_bits) == (there.steps, 0)


def test_second_derivatives() -> None:
    """d²/dx² of the value of the chain v ↦ v² / 2 + x."""

    @rg.functional
    def chain(x: fixed, n: int):
        def go(v, k):
            return v if k == 0 else go(0.5 * v * v + x, k - 1)

        return go(x, n)

    def exact(x: float, n: int) -> tuple[float, float]:
        v, d, dd = x, 1.0, 0.0
        for _ in range(n):
            v, d, dd = 0.5 * v * v + x, v * d + 1, d * d + v * dd
        return d, dd

    first = rg.grad(chain, "x")
    assert (first(0.25, 6), rg.grad(first, "x")(0.25, 6)) == pytest.approx(exact(0.25, 6), abs=1e-6)


@pytest.mark.parametrize(
    ("f", "lost", "instructions"),
    [(affine, 1, 18), (sums, 0, 18), (leapfrog, 0, 14), (turns, 1, 22), (exchanged, 2, 26), (mutual, 1, 34)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_a_pass_keeps_the_words_that_it_loses(f: Any, lost: int, instructions: int) -> None:
    """`lost` words a pass in the heap, few instructions a pass, and no stack."""
    few, many = 8, 40
    for n in (few, many):
        small = f.with_options(stack=0, heap=6 + lost * n)
        assert rg.run(small, 0.125, n).values.out == f(0.125, n)
    steps = [rg.run(f, 0.125, n).steps for n in (few, many)]
    assert steps[1] - steps[0] <= instructions * (many - few)


def test_a_full_heap_is_reported() -> None:
    with pytest.raises(rg.ProgramTrap) as caught:
        affine.with_options(heap=16)(0.25, 40)
    assert caught.value.code == "RG0811"


def test_a_sum_that_does_not_fit_is_a_trap() -> None:
    """A word that is added to in place is checked like the sum of the recursion."""

    @rg.functional
    def large(x: fixed, n: int):
        def go(total, k):
            return 0.0 * total if k == 0 else go(total + x, k - 1)

        return go(0.0, n)

    assert large(1e9, 2) == 0.0
    with pytest.raises(rg.ProgramTrap):
        large(1e9, 3)


@rg.functional
def orbiting(x: fixed, n: int):
    """A body about a centre: `step` is larger than a function that is inlined at each call."""

    def step(p, v):
        a, b = p
        square = a * a + b * b + 0.1
        pull = 0.01 / (square * rg.sqrt(square))
        u, w = v
        c, d = u - a * pull, w - b * pull
        return (a + 0.01 * c + 0.0 * d, b + 0.01 * d + 0.0 * c), (c - 0.001 * c, d - 0.001 * d)

    def go(p, v, k):
        if k == 0:
            a, b = p
            return a * a + b * b
        q, u = step(p, v)
        return go(q, u, k - 1)

    return go((1.0, 0.0), (0.0, x), n)


@pytest.mark.parametrize(
    ("f", "value", "gradient"), [(affine, 18, 21), (orbiting, 106, 133)], ids=["affine", "orbiting"]
)
def test_instructions_of_a_pass_with_its_gradient(f: Any, value: int, gradient: int) -> None:
    """The way there has no cotangents, and temporaries are computed once in each direction."""

    def counted(n: int) -> tuple[int, int]:
        request = rg.grad(f, "x", scale=0).request
        values = request.values((0.5, n), {})
        program = plan_of(request, request.compiled(values)).program
        return rg.run(f, 0.5, n).steps, program.run(values, {}, "auto").retired

    few, many = counted(10), counted(110)
    assert many[0] - few[0] <= 100 * value
    assert many[1] - few[1] <= 100 * gradient
