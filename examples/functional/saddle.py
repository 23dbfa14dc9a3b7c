"""Gradient descent in gradient descent: the saddle point of (x1² + y1²) − (x2² + y2²).

    (x1, y1) = argmin of max over (x2, y2)

Each step searches along the line of the gradient: parabolas and steps of the golden ratio bracket the least value, and golden sections
narrow the bracket. The inner search for the greatest value is itself differentiated, so outer and inner gradients may each be taken
backward (`rg.grad`) or forward (`rg.jvp`). Source: the example `saddle` of B. Pearlmutter and J. Siskind, TOPLAS 2008, with `mnbrak` and
`golden` of W. Press et al., Numerical Recipes.
"""

import retrograd as rg
from retrograd import fixed


@rg.functional
def bracket(f, a, b):
    """Three places, of which the middle one has the least value."""
    ratio = 1.61803399

    def descend(a, fa, b, fb, c, fc):
        if fb < fc:
            return a, b, c
        r, q = (b - a) * (fb - fc), (b - c) * (fb - fa)
        over = q - r
        size = max(abs(over), 1e-9)
        u = b - ((b - c) * q - (b - a) * r) / (2 * (size if over >= 0 else -size))
        limit = b + (c - b) * 100
        beyond = c + (c - b) * ratio
        if (b - u) * (u - c) > 0:
            fu = f(u)
            if fu < fc:
                return b, u, c
            return (a, b, u) if fu > fb else descend(b, fb, c, fc, beyond, f(beyond))
        if (c - u) * (u - limit) > 0:
            fu = f(u)
            further = u + (u - c) * ratio
            return descend(c, fc, u, fu, further, f(further)) if fu < fc else descend(b, fb, c, fc, u, fu)
        there = limit if (u - limit) * (limit - c) >= 0 else beyond
        return descend(b, fb, c, fc, there, f(there))

    fa, fb = f(a), f(b)
    back, on = a + (a - b) * ratio, b + (b - a) * ratio
    return descend(b, fb, a, fa, back, f(back)) if fb > fa else descend(a, fa, b, fb, on, f(on))


@rg.functional
def golden_section(f, places):
    """The place of the least value in a bracket."""
    a, b, c = places
    r = 0.61803399
    right = abs(c - b) > abs(b - a)
    x1, x2 = (b, b + (1 - r) * (c - b)) if right else (b - (1 - r) * (b - a), b)

    def narrow(x0, x1, f1, x2, f2, x3):
        if abs(x3 - x0) <= 1e-3 * (abs(x1) + abs(x2)):
            return x1 if f1 < f2 else x2
        if f2 < f1:
            right = r * x2 + (1 - r) * x3
            return narrow(x1, x2, f2, right, f(right), x3)
        left = r * x1 + (1 - r) * x0
        return narrow(x0, left, f(left), x1, f1, x2)

    return narrow(a, x1, f(x1), x2, f(x2), c)


@rg.functional
def least(gradient, f, start):
    """The pair with the least value: line searches along the gradient, until it is small."""
    slope = gradient(f)

    def descend(p):
        d = slope(p)
        if rg.sqrt(d[0] * d[0] + d[1] * d[1]) <= 1e-2:
            return p
        line = lambda k: (p[0] + k * d[0], p[1] + k * d[1])
        along = lambda k: f(line(k))
        return descend(line(golden_section(along, bracket(along, -100.0, 100.0))))

    return descend(start)


@rg.functional
def forward(f):
    """The gradient by two derivatives along the axes."""
    return lambda p: (rg.jvp(f)(p, (1.0, 0.0)), rg.jvp(f)(p, (0.0, 1.0)))


@rg.functional
def saddle_point(outer, inner, start):
    """(x1, y1, x2, y2): the outer and the inner gradient are `rg.grad` or `forward`."""
    f = lambda a, b: (a[0] * a[0] + a[1] * a[1]) - (b[0] * b[0] + b[1] * b[1])
    greatest = lambda a: least(inner, lambda b: -f(a, b), start)
    low = least(outer, lambda a: f(a, greatest(a)), start)
    high = greatest(low)
    return low[0], low[1], high[0], high[1]


@rg.functional(stack=1 << 16, heap=1 << 17)
def saddle(x: fixed, y: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    """(x1, y1, x2, y2), searched from (x, y)"""
    return saddle_point(rg.grad, rg.grad, (x, y))
