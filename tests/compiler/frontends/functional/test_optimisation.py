"""Programs that use gradients inside: descent by a line of steps, a trained network, and the paper's control of a particle."""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd import fixed


@rg.functional
def least(f, start):
    """The argument of the least value, by gradient descent whose step doubles after ten successes and halves after a failure."""
    slope = rg.grad(f)

    def descend(x, fx, gx, step, successes):
        if abs(gx) <= 1e-5:
            return x
        if successes == 10:
            return descend(x, fx, gx, 2 * step, 0)
        there = x - step * gx
        if abs(x - there) <= 1e-5:
            return x
        f_there = f(there)
        if f_there < fx:
            return descend(there, f_there, slope(there), step, successes + 1)
        return descend(x, fx, gx, step / 2, 0)

    return descend(start, f(start), slope(start), 1e-5, 0)


@rg.functional(stack=1 << 18, heap=1 << 20)
def particle(start: fixed):
    """The control that lets a particle between two charges hit the origin. Its path is integrated by Euler's method."""

    def miss(control):
        charges = (10.0, 10.0 - control), (10.0, 0.0)
        dt = 0.1

        def distance(a, b):
            ax, ay = a
            bx, by = b
            return rg.sqrt((ax - bx) ** 2 + (ay - by) ** 2)

        def potential(x):
            return 1 / distance(x, charges[0]) + 1 / distance(x, charges[1])

        def fly(x, v):
            gx, gy = rg.grad(potential)(x)
            nx, ny = x[0] + dt * v[0], x[1] + dt * v[1]
            if ny > 0:
                return fly((nx, ny), (v[0] - dt * gx, v[1] - dt * gy))
            left = (0 - x[1]) / v[1]
            landing = x[0] + left * v[0]
            return landing * landing

        return fly((0.0, 8.0), (0.75, 0.0))

    return least(miss, start)


@pytest.mark.long
def test_the_control_of_a_particle() -> None:
    """Source: Pearlmutter and Siskind 2008, the example `particle`."""
    assert abs(particle(0.0) - 0.2071918746486) < 1e-6


@rg.functional
def parabola(a: fixed):
    return least(lambda x: (x - a) * (x - a), 0.0)


def test_descent() -> None:
    assert abs(parabola(0.75) - 0.75) < 1e-4


@rg.functional
def trained(bias: fixed, rate: fixed, steps: int):
    """The error of a network for exclusive or, after some steps of gradient descent."""

    def squashed(v):
        return 1 / (1 + rg.exp(-v))

    def answer(w, a, b):
        first = squashed(w[0] * a + w[1] * b + w[2])
        second = squashed(w[3] * a + w[4] * b + w[5])
        return squashed(w[6] * first + w[7] * second + w[8])

    def error(w, data):
        match data:
            case []:
                return 0.0
            case [example, *rest]:
                a, b, wanted = example
                miss = wanted - answer(w, a, b)
                return 0.5 * miss * miss + error(w, rest)

    data = [(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 0.0)]

    def descend(w, k):
        if k == 0:
            return error(w, data)
        g = rg.grad(lambda v: error(v, data))(w)
        a, b, c, d, e, f, h, i, j = w
        da, db, dc, dd, de, df, dh, di, dj = g
        return descend(
            (
                a - rate * da, b - rate * db, c - rate * dc, d - rate * dd, e - rate * de,
                f - rate * df, h - rate * dh, i - rate * di, j - rate * dj,
            ),
            k - 1,
        )  # fmt: skip

    return descend((0.6, 0.3, 0.0, -0.3, 0.5, 0.1, 0.7, -0.6, bias), steps)


def by_differences(bias: float, rate: float, steps: int) -> float:
    """The same in float64, its gradient by central differences."""
    w = np.array([0.6, 0.3, 0.0, -0.3, 0.5, 0.1, 0.7, -0.6, bias])

    def squashed(v: float) -> float:
        return 1 / (1 + math.exp(-v))

    def error(w: np.ndarray) -> float:
        total = 0.0
        for a, b, wanted in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)):
            first = squashed(w[0] * a + w[1] * b + w[2])
            second = squashed(w[3] * a + w[4] * b + w[5])
            total += 0.5 * (wanted - squashed(w[6] * first + w[7] * second + w[8])) ** 2
        return total

    for _ in range(steps):
        gradient = [(error(w + d) - error(w - d)) / 2e-6 for d in 1e-6 * np.eye(9)]
        w = w - rate * np.array(gradient)
    return error(w)


def test_a_network_is_trained() -> None:
    assert abs(trained(0.2, 0.5, 5) - by_differences(0.2, 0.5, 5)) < 1e-6


def test_training_is_differentiated() -> None:
    """The derivative of the error after training by the learning rate: a gradient through gradients."""
    slope = (by_differences(0.2, 0.501, 5) - by_differences(0.2, 0.499, 5)) / 0.002
    assert abs(rg.grad(trained, "rate")(0.2, 0.5, 5) - slope) < 1e-5
