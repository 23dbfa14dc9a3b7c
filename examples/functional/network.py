"""Training of a neural network of any layers: weights are lists of lists of lists, and so is the gradient by them.

Source: the network for exclusive or of J. Siskind's benchmarks of automatic differentiation. Its error after 1, 10 and 100 steps of rate 0.3 is
0.510567888, 0.496749687 and 0.491116831.
"""

import retrograd as rg
from retrograd import fixed


@rg.functional
def zipped(f, xs, ys):
    """[f(x, y) …]"""
    match xs:
        case []:
            return []
        case [x, *more]:
            match ys:
                case []:
                    return []
                case [y, *others]:
                    return [f(x, y), *zipped(f, more, others)]


@rg.functional
def mapped(f, xs):
    """[f(x) …]"""
    match xs:
        case []:
            return []
        case [x, *rest]:
            return [f(x), *mapped(f, rest)]


@rg.functional
def folded(f, a, xs):
    """f(… f(f(a, x0), x1) …)"""
    match xs:
        case []:
            return a
        case [x, *rest]:
            return folded(f, f(a, x), rest)


@rg.functional
def total(xs):
    return folded(lambda a, x: a + x, 0.0, xs)


@rg.functional
def answer(layers, inputs):
    """The outputs: each layer is a list of neurons, and each neuron a list of its bias and its weights."""
    neuron = lambda weights, given: 1 / (1 + rg.exp(-total(zipped(lambda w, x: w * x, weights, [1.0, *given]))))
    return folded(lambda given, layer: mapped(lambda weights: neuron(weights, given), layer), inputs, layers)


@rg.functional
def error(layers, data):
    """Half the sum of the squares of the differences, over all examples."""

    def of(example):
        inputs, wanted = example
        return 0.5 * total(zipped(lambda y, z: (y - z) * (y - z), answer(layers, inputs), wanted))

    return total(mapped(of, data))


@rg.functional(stack=1 << 14, heap=1 << 17)
def exclusive_or(rate: fixed, steps: int):
    """The error after this number of steps of gradient descent."""
    data = [([0.0, 0.0], [0.0]), ([0.0, 1.0], [1.0]), ([1.0, 0.0], [1.0]), ([1.0, 1.0], [0.0])]
    start = [[[0.0, -0.284227, 1.16054], [0.0, 0.617194, 1.30467]], [[0.0, -0.084395, 0.648461]]]

    def moved(weights, slopes):
        return zipped(lambda w, s: zipped(lambda v, t: zipped(lambda x, g: x - rate * g, v, t), w, s), weights, slopes)

    def descend(weights, k):
        if k == 0:
            return error(weights, data)
        with rg.forget():
            better = moved(weights, rg.grad(lambda w: error(w, data))(weights))
        return descend(better, k - 1)

    return descend(start, steps)


@rg.functional(stack=1 << 16, heap=1 << 20)
def layers_of_a_classifier(scale: fixed, inputs: int, hidden: int) -> tuple[fixed, fixed]:
    """(largest slope, sum of squares of the slopes) of the sum of a softmax, which is constant: the slopes are zeros by cancellation."""
    weight = lambda i, j: rg.sin(scale * rg.fixed(i * 7 + j * 3))

    def range_of(f, i, n):
        return [] if i == n else [f(i), *range_of(f, i + 1, n)]

    layer = lambda rows, columns: range_of(lambda i: range_of(lambda j: weight(i, j), 0, columns), 0, rows)
    given = range_of(lambda i: weight(i, 1), 0, inputs)

    def applied(matrix, x):
        return mapped(lambda row: total(zipped(lambda a, b: a * b, row, x)), matrix)

    def softmax(xs):
        powers = mapped(lambda x: rg.exp(x * 0.0625), xs)
        whole = total(powers)
        return mapped(lambda p: p / whole, powers)

    def summed(layers):
        squashed = folded(lambda x, m: mapped(lambda v: max(v, 0.0), applied(m, x)), given, layers)
        return total(softmax(squashed))

    slopes = rg.grad(summed)([layer(hidden, inputs), layer(inputs, hidden)])
    over = lambda f, a: folded(lambda b, m: folded(lambda c, row: folded(f, c, row), b, m), a, slopes)
    return over(lambda a, x: max(a, abs(x)), 0.0), over(lambda a, x: a + x * x, 0.0)
