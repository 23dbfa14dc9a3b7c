"""Functional programs of the papers, with the numbers that they give.

Sources: T. Smeding, M. Vákár, Efficient Dual-Numbers Reverse AD via Well-Known Program Transformations, POPL 2023; B. Pearlmutter,
J. Siskind, Reverse-Mode AD in a Functional Framework: Lambda the Ultimate Backpropagator, TOPLAS 2008. Other numbers are closed forms.
"""

import math
from typing import Any, NamedTuple

import retrograd as rg
from retrograd import fixed


class Case(NamedTuple):
    """A function, its arguments, its value, and its gradient by its fixed arguments, None where it is not compared."""

    f: Any
    args: tuple[Any, ...]
    value: Any
    gradient: tuple[float, ...] | None = None
    tolerance: float = 1e-6


CASES: dict[str, Case] = {}


@rg.functional
def product_of_sum(x: fixed, y: fixed):
    z = x + y
    return x * z


CASES["x(x + y)"] = Case(product_of_sum, (3.0, 4.0), 21.0, (10.0, 3.0))


@rg.functional
def closures(x: fixed, y: fixed):
    def f(z):
        return x * z + y

    return f(y) * f(x)


CASES["a closure that captures both"] = Case(closures, (1.0, 2.0), 12.0, (14.0, 10.0))


@rg.functional
def composition(x: fixed, y: fixed):
    f = lambda z: z * z
    g = lambda z: 2.0 * (x - z) + y
    h = lambda z: g(f(z))
    return h(y) + f(g(x))


CASES["composed closures"] = Case(composition, (1.0, 2.0), 0.0, (2.0, -3.0))


@rg.functional
def captured_by_a_lambda(a: fixed):
    g = lambda b: lambda c: b
    h = lambda p: p(1.0) + p(1.0)
    return h(g(a))


CASES["the derivative of a captured value"] = Case(captured_by_a_lambda, (4.0,), 8.0, (2.0,))


@rg.functional
def curried(x: fixed):
    add = lambda a: lambda b: a + b
    return rg.grad(add(x))(7.0)


CASES["the derivative of a curried sum is 1"] = Case(curried, (3.0,), 1.0, (0.0,))


@rg.functional
def mutual(x: fixed):
    def f(t):
        return g(t * 0.6) + 1 if t < 10 else g(t * 0.1) + 2

    def g(t):
        return t if t < 1 else f(t - 1) + 2

    return f(x)


CASES["mutual recursion"] = Case(mutual, (7.0,), 7.552, (0.216,))


@rg.functional
def list_of_squares(x: fixed, y: fixed):
    def total(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first * first + total(rest)

    def mapped(f, items):
        match items:
            case []:
                return []
            case [first, *rest]:
                return [f(first), *mapped(f, rest)]

    return total(mapped(lambda v: v + v, [x, y, x * y]))


CASES["squares of a mapped list"] = Case(list_of_squares, (1.0, 2.0), 36.0, (40.0, 32.0))


@rg.functional
def prefix_sums(a: fixed, b: fixed, c: fixed, d: fixed, e: fixed):
    def sums(total, items):
        match items:
            case []:
                return []
            case [first, *rest]:
                return [total + first, *sums(total + first, rest)]

    def last(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                match rest:
                    case []:
                        return first
                    case _:
                        return last(rest)

    return last(sums(0.0, [a, b, c, d, e]))


CASES["transposed prefix sums"] = Case(prefix_sums, (1.0, 2.0, 3.0, 4.0, 5.0), 15.0, (1.0,) * 5)


@rg.functional
def doublings(x: fixed, n: int):
    def twice(v, k):
        return v if k == 0 else twice(v + v, k - 1)

    return twice(x, n)


CASES["twenty doublings"] = Case(doublings, (1.0, 20), 2.0**20, (2.0**20,))


@rg.functional
def sharing(x: fixed, y: fixed):
    def next_(a, b, k):
        return a * a if k == 0 else next_(a + b, a, k - 1)

    return next_(x + y, x, 9)


CASES["a chain that shares"] = Case(sharing, (1.0, 1.0), 144.0**2, (15842 + 9790, 9790 + 6050))


@rg.functional
def power(x, k):
    return x if k == 0 else x * power(x, k - 1)


@rg.functional
def powers(x: fixed, n: int):
    return sum(power(x, k) for k in range(n))


CASES["a sum whose terms leave cells"] = Case(powers, (2.0, 4), 30.0, (49.0,))


@rg.functional
def slopes(x: fixed):
    return sum(rg.grad(lambda t: rg.sin(t) * x)(x) for k in range(6))


CASES["a sum of derivatives"] = Case(slopes, (0.5,), 3 * math.cos(0.5), (6 * math.cos(0.5) - 3 * math.sin(0.5),))


@rg.functional
def rotated(x: fixed, y: fixed, z: fixed) -> tuple[fixed, fixed, fixed]:
    def times(p, q):
        a, b, c, d = p
        e, f, g, h = q
        return (
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        )

    q = (7.0, 4.0, 5.0, 6.0)
    _, i, j, k = times(times(q, (0.0, x, y, z)), (7.0, -4.0, -5.0, -6.0))
    return i, j, k


CASES["a quaternion"] = Case(rotated, (1.0, 2.0, 3.0), (270.0, 180.0, 342.0))


@rg.functional
def newton(x: fixed):
    def root(f, z):
        better = z - f(z) / rg.grad(f)(z)
        return better if abs(better - z) < 1e-2 else root(f, better)

    return root(lambda z: z * z - x, 1.0)


CASES["Newton's root by an inner derivative"] = Case(newton, (4.0,), 2.000000092922295, (0.2500002594080783,), 1e-9)


@rg.functional
def nested(x: fixed):
    return x * rg.grad(lambda y: x + y)(2.0)


CASES["d/dx x · d/dy (x + y)"] = Case(nested, (1.0,), 1.0, (1.0,))


@rg.functional
def nested_product(x: fixed):
    return rg.grad(lambda y: x * y * y)(x)


CASES["d/dx of 2xy at y = x"] = Case(nested_product, (3.0,), 18.0, (12.0,))


@rg.functional
def third(x: fixed):
    return rg.grad(rg.grad(rg.grad(lambda t: rg.exp(t))))(x)


CASES["the third derivative of exp"] = Case(third, (4.0,), math.exp(4), (math.exp(4),), 1e-5)


@rg.functional
def sines(x: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    d = rg.grad
    f = lambda t: rg.sin(t)
    return f(x), d(f)(x), d(d(f))(x), d(d(d(f)))(x)


CASES["derivatives of sin at 0"] = Case(sines, (0.0,), (0.0, 1.0, 0.0, -1.0))


@rg.functional
def hessian_times(x: fixed, y: fixed) -> tuple[fixed, fixed]:
    def f(p):
        a, b = p
        return 2 * a * a + 3 * a * b + 4 * b * b

    return rg.jvp(rg.grad(f))((x, y), (7.0, 8.0))


CASES["Hessian times a vector"] = Case(hessian_times, (3.0, 4.0), (52.0, 85.0))


@rg.functional
def hessian_of_it(x: fixed, y: fixed) -> tuple[fixed, fixed, fixed, fixed]:
    def f(p):
        a, b = p
        return 2 * a * a + 3 * a * b + 4 * b * b

    (a, b), [c, d] = rg.hessian(f)((x, y))
    return a, b, c, d


CASES["a Hessian, taken apart in one assignment"] = Case(hessian_of_it, (3.0, 4.0), (4.0, 3.0, 3.0, 8.0))


@rg.functional
def transposed(x: fixed, y: fixed) -> tuple[fixed, fixed]:
    f = lambda p: (p[0] * p[1], p[0] + p[1], rg.sin(p[0]))
    return rg.vjp(f)((x, y), (1.0, 10.0, 100.0))


CASES["a transposed Jacobian"] = Case(transposed, (2.0, 3.0), (13 + 100 * math.cos(2.0), 12.0))


@rg.functional
def tangents(x: fixed, y: fixed) -> tuple[fixed, fixed, fixed]:
    def squares(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first * first + squares(rest)

    def f(p):
        u, (v, k) = p
        s = squares([u, v, u * v])
        return (s, (v * k, u)) if x > 0 else (-s, (u, v))

    s, (a, b) = rg.jvp(f)((x, (y, 3)), (1.0, (2.0, 5)))
    return s, a, b


CASES["tangents of nested tuples, through a list"] = Case(tangents, (2.0, 3.0), (100.0, 6.0, 1.0))
CASES["the other branch of them"] = Case(tangents, (-2.0, 3.0), (-20.0, 1.0, 2.0))


@rg.functional
def tangents_of_functions(x: fixed) -> tuple[fixed, fixed]:
    one = lambda t: lambda z: t * z
    several = lambda t: (lambda z: t * z) if x > 0 else (lambda z: z + t * t)
    of_one = rg.jvp(one)(x, 5.0)
    of_several = rg.jvp(several)(x, 7.0)
    return of_one[0], of_several[1][0] + 10 * of_several[2][0]


CASES["tangents of closures"] = Case(tangents_of_functions, (2.0,), (5.0, 7.0))
CASES["tangents of the other closure"] = Case(tangents_of_functions, (-2.0,), (5.0, 70.0))


@rg.functional
def tangents_by_a_function(x: fixed):
    with rg.forget():
        slope = rg.jvp(lambda f: f(3.0) * f(x))(lambda t: t * x * x, (1.0,))
    return slope


CASES["tangents by a function, forgotten"] = Case(tangents_by_a_function, (2.0,), 12 * 2.0**4, (48 * 2.0**3,))


@rg.functional
def sum_of_tangents(x: fixed):
    return sum(rg.jvp(lambda t: t**3 * x)(x, 1.0) for k in range(4))


CASES["a sum of tangents"] = Case(sum_of_tangents, (2.0,), 12 * 2.0**3, (36 * 2.0**2,))


@rg.data
class Leaf:
    value: fixed


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"


@rg.functional
def tree(x: fixed):
    def grown(n, v):
        if n == 0:
            return Leaf(v)
        return Node(grown(n - 1, v * 2.0), grown(n - 1, v + 1.0))

    def total(t):
        match t:
            case Leaf(v):
                return v * v
            case Node(a, b):
                return total(a) + 2.0 * total(b)

    return total(grown(2, x))


CASES["a tree"] = Case(
    tree,
    (0.5,),
    (4 * 0.5) ** 2 + 2 * (2 * 0.5 + 1) ** 2 + 2 * (2 * 1.5) ** 2 + 4 * (1.5 + 1) ** 2,
    (2 * 2.0 * 4 + 4 * 2.0 * 2 + 4 * 3.0 * 2 + 8 * 2.5,),
)


@rg.functional
def chosen(x: fixed, k: int):
    def nth(items, i):
        match items:
            case []:
                return lambda v: 0.0
            case [first, *rest]:
                return first if i == 0 else nth(rest, i - 1)

    return nth([lambda v: v * v, lambda v: rg.sin(v) * x, lambda v: v + x], k)(x + 1.0)


CASES["a function out of a list"] = Case(chosen, (0.7, 0), 1.7**2, (3.4,))
CASES["another function out of it"] = Case(
    chosen, (0.7, 1), math.sin(1.7) * 0.7, (math.cos(1.7) * 0.7 + math.sin(1.7),)
)
CASES["a function that none of them is"] = Case(chosen, (0.7, 3), 0.0, (0.0,))


@rg.functional
def widened(x: fixed):
    def numbers(k):
        return [] if k == 0 else [k, *numbers(k - 1)]

    def total(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first * x + total(rest)

    return total([x, *numbers(3)])


CASES["a list of ints before a fixed"] = Case(widened, (0.5,), 0.25 + 3.0, (1.0 + 6.0,))


@rg.functional
def reassigned(x: fixed, n: int):
    y = x
    if n > 2:
        y = y * y
        z = 3.0
    else:
        z = 2.0
    if n == 1:
        y += 1
    elif n == 3:
        if x > 0:
            y += x
    return y * z


CASES["names that branches assign"] = Case(reassigned, (0.5, 3), (0.25 + 0.5) * 3, (6.0,))


@rg.functional
def distances(xs: rg.Array[fixed, "n", 2], scale: fixed):
    d = lambda i, j: sum((xs[i, k] - xs[j, k]) ** 2 for k in range(2))
    return scale * sum(rg.sqrt(d(i, j)) for i in range(len(xs)) for j in range(i))


@rg.functional
def oscillator(stiffness: fixed, damping: fixed, seen: rg.Array[fixed, 3]):
    x, v, total = 1.0, 0.0, 0
    for k, measured in enumerate(seen, 1):
        v += 0.5 * (-stiffness * x - damping * v)
        x += 0.5 * v
        total += k * (x - measured) ** 2
    return total


def _oscillator(stiffness: float, damping: float) -> tuple[float, float, float]:
    """The value and the derivatives, by tangents."""
    x, v, total = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
    for k, measured in enumerate((0.5, 0.25, -0.5), 1):
        force = (
            -stiffness * x[0] - damping * v[0],
            -x[0] - stiffness * x[1] - damping * v[1],
            -stiffness * x[2] - v[0] - damping * v[2],
        )
        v = (v[0] + 0.5 * force[0], v[1] + 0.5 * force[1], v[2] + 0.5 * force[2])
        x = (x[0] + 0.5 * v[0], x[1] + 0.5 * v[1], x[2] + 0.5 * v[2])
        off = x[0] - measured
        total = (total[0] + k * off**2, total[1] + 2 * k * off * x[1], total[2] + 2 * k * off * x[2])
    return total


_value, *_slopes = _oscillator(2.0, 0.25)
CASES["a loop over an array"] = Case(oscillator, (2.0, 0.25, [0.5, 0.25, -0.5]), _value)


@rg.functional
def slopes_of_it(stiffness: fixed, damping: fixed, seen: rg.Array[fixed, 3]) -> tuple[fixed, fixed]:
    return rg.grad(lambda s, d: oscillator(s, d, seen))(stiffness, damping)


CASES["the derivatives of a loop"] = Case(slopes_of_it, (2.0, 0.25, [0.5, 0.25, -0.5]), tuple(_slopes))


@rg.functional
def collatz(x: fixed, n: int):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return x * steps


CASES["a loop that ends by a test"] = Case(collatz, (0.5, 27), 55.5, (111.0,))


@rg.functional
def found(x: fixed, limit: int):
    for k in range(limit, -1, -3):
        for power in (x, x * x, x * x * x):
            if power * k < 2.0:
                return power
            if k > 8:
                break
    return x


CASES["a loop that returns"] = Case(found, (1.5, 9), 1.5, (1.0,))
CASES["a loop that returns from two loops"] = Case(found, (0.5, 9), 0.25, (1.0,))


CASES["sums over an array"] = Case(distances, ([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]], 2.0), 2 * (5 + 1 + math.sqrt(18)))


@rg.data
class Point:
    x: fixed
    y: fixed


@rg.data
class Segment:
    start: Point
    end: Point


@rg.functional
def fields(x: fixed):
    """Fields by their names, of calls and of derivatives too."""

    def area(s):
        return (s.end.x - s.start.x) * (s.end.y + s.start.y)

    def made(t):
        return Segment(Point(t, 2.0), Point(t * t, x))

    slope = rg.grad(area)(made(x))
    return area(made(x)) + 10.0 * slope.end.y + 100.0 * made(x).start.x


CASES["fields by name"] = Case(fields, (3.0,), 6.0 * 5.0 + 10.0 * 6.0 + 300.0, (25.0 + 6.0 + 10.0 * 5.0 + 100.0,))


@rg.functional
def later_names(x: fixed):
    """Lambdas that name themselves, and functions below them."""
    even = lambda n: x if n == 0 else odd(n - 1)
    odd = lambda n: -x if n == 0 else other(n - 1)

    def other(n):
        return even(n) * half(4)

    half = lambda n: 1.0 if n == 0 else 0.5 * half(n - 1)
    return even(4) + 10.0 * odd(2)


CASES["lambdas that name later ones"] = Case(later_names, (3.0,), 3.0 / 256 - 10.0 * 3.0 / 16, (1 / 256 - 10 / 16,))


@rg.functional
def patterns(x: fixed, shape: int):
    """Patterns within patterns. `shape`: which of the nodes are leaves."""

    def grown(n, v):
        return Leaf(v) if n > 6 or shape >> n & 1 else Node(grown(2 * n + 1, v + 1.0), grown(2 * n + 2, v * 2.0))

    def leaves(t):
        match t:
            case Leaf(v):
                return [v]
            case Node(Leaf(v), rest):
                return [v, *leaves(rest)]
            case Node(Node(a, b), rest):
                return leaves(Node(a, Node(b, rest)))

    def ends(t):
        match t:
            case Node(Leaf(a), Node(Leaf(b), Node(_, Leaf(c)))):
                return a + 10.0 * b + 100.0 * c
            case Node(_, Leaf(b)):
                return 7.0 * b
            case Leaf(b):
                return 5.0 * b
            case Node(Node(left=inner), Node() as other):
                return ends(inner) - ends(other)
            case Node(a, b):
                return ends(b) + x

    def folded(items):
        match items:
            case []:
                return 1.0
            case [a, b]:
                return a * b
            case [a, b, c, *rest]:
                return a * b - c * folded(rest)
            case [a, *rest]:
                return a + folded(rest)

    return ends(grown(0, x)) + 0.001 * folded(leaves(grown(0, x)))
