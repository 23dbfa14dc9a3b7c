"""Maximum likelihood through an interpreter of a probabilistic λ-calculus.

The program is `if a then 0 else if b then 1 else 2`, where a and b are true with probabilities p and q. The interpreter gives the list of its
results with their probabilities. Gradient ascent on the likelihood of the results 0, 1, 2, 2 finds p = 1/4 and q = 1/3. Source: the example
`probabilistic-lambda-calculus` of J. Siskind's benchmarks of automatic differentiation.
"""

import retrograd as rg
from retrograd import fixed


@rg.data
class Constant:
    value: int


@rg.data
class Variable:
    """The variable that is bound by the n-th function around."""

    index: int


@rg.data
class Abstraction:
    body: "Expression"


@rg.data
class Application:
    function: "Expression"
    argument: "Expression"


@rg.data
class Choice:
    """`then` with the probability of this number, and else `orelse`."""

    number: int
    then: "Expression"
    orelse: "Expression"


Expression = Constant | Variable | Abstraction | Application | Choice


@rg.data
class Number:
    value: int


@rg.data
class Closed:
    """A function with the values of its variables."""

    body: Expression
    values: "list[Number | Closed]"


@rg.functional
def joined(xs, ys):
    match xs:
        case []:
            return ys
        case [x, *rest]:
            return [x, *joined(rest, ys)]


@rg.functional
def spread(f, results):
    """The results of f for each result, with the products of the probabilities."""
    match results:
        case []:
            return []
        case [first, *rest]:
            return joined(weighted(first[0], f(first[1])), spread(f, rest))


@rg.functional
def weighted(p, results):
    match results:
        case []:
            return []
        case [first, *rest]:
            return [(p * first[0], first[1]), *weighted(p, rest)]


@rg.functional
def nth(items, k):
    match items:
        case []:
            return Number(0)
        case [first, *rest]:
            return first if k == 0 else nth(rest, k - 1)


@rg.functional
def evaluated(e, values, p):
    """The results of an expression: a list of (probability, value)."""
    match e:
        case Constant(n):
            return [(1.0, Number(n))]
        case Variable(k):
            return [(1.0, nth(values, k))]
        case Abstraction(body):
            return [(1.0, Closed(body, values))]
        case Choice(k, a, b):
            chance = p[0] if k == 0 else p[1]
            return joined(weighted(chance, evaluated(a, values, p)), weighted(1 - chance, evaluated(b, values, p)))
        case Application(f, x):
            return spread(
                lambda g: spread(lambda v: applied(g, v, p), evaluated(x, values, p)), evaluated(f, values, p)
            )


@rg.functional
def applied(g, v, p):
    match g:
        case Closed(body, values):
            return evaluated(body, [v, *values], p)
        case Number(n):
            return [(1.0, Number(n))]


@rg.functional
def chance_of(wanted, results):
    """The probability of a number."""
    match results:
        case []:
            return 0.0
        case [first, *rest]:
            match first[1]:
                case Number(n):
                    return (first[0] if n == wanted else 0.0) + chance_of(wanted, rest)
                case _:
                    return chance_of(wanted, rest)


@rg.functional(stack=1 << 14, heap=1 << 16)
def likeliest(p: fixed, q: fixed, rate: fixed, steps: int) -> tuple[fixed, fixed]:
    """The probabilities after this number of steps of gradient ascent."""
    inner = Choice(1, Constant(1), Constant(2))
    program = Application(Abstraction(Choice(0, Constant(0), Variable(0))), inner)

    def likelihood(ps):
        results = evaluated(program, [], ps)
        return chance_of(0, results) * chance_of(1, results) * chance_of(2, results) * chance_of(2, results)

    def ascend(ps, k):
        if k == 0:
            return ps
        with rg.forget():
            a, b = rg.grad(likelihood)(ps)
            better = ps[0] + rate * a, ps[1] + rate * b
        return ascend(better, k - 1)

    return ascend((p, q), steps)
