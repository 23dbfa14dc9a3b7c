"""Gradient descent in gradient descent: the saddle point of (x1² + y1²) − (x2² + y2²).

    (x1, y1) = argmin of max over (x2, y2)

The inner search for the greatest value is itself differentiated. Source: the example `saddle` of B. Pearlmutter and J. Siskind, TOPLAS 2008.
"""

import retrograd as rg
from retrograd import fixed


@rg.functional
def least(f, start):
    """The pair with the least value. The step doubles after ten successes, and halves after a failure."""
    slope = rg.grad(f)
    size = lambda p: rg.sqrt(p[0] * p[0] + p[1] * p[1])

    def descend(p, value, g, step, successes):
        if size(g) <= 1e-4:
            return p
        if successes == 10:
            return descend(p, value, g, 2 * step, 0)
        there = p[0] - step * g[0], p[1] - step * g[1]
        if size((p[0] - there[0], p[1] - there[1])) <= 1e-4:
            return p
        less = f(there)
        if less < value:
            return descend(there, less, slope(there), step, successes + 1)
        return descend(p, value, g, step / 2, 0)

    return descend(start, f(start), slope(start), 1e-2, 0)


@rg.functional(stack=1 << 16, heap=1 << 16)
def saddle(x: fixed, y: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    """(x1, y1, x2, y2), searched from (x, y)"""
    start = x, y
    f = lambda a, b: (a[0] * a[0] + a[1] * a[1]) - (b[0] * b[0] + b[1] * b[1])
    greatest = lambda a: least(lambda b: -f(a, b), start)
    low = least(lambda a: f(a, greatest(a)), start)
    high = greatest(low)
    return low[0], low[1], high[0], high[1]
