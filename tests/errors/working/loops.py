from retrograd import Array, fixed, reversible


@reversible
def f(total: fixed, xs: Array[fixed], n: int, steps: int):
    for i in range(len(xs)):
        total += xs[i] * i
    for x in xs:
        total += x
    for i, x in enumerate(xs):
        total -= i * x
    for i in range(n, 0, -1):
        total += i
    while (n > 0, steps > 0):
        n -= 1
        steps += 1


ARGUMENTS = [(1.0, [1.0, 2.0, 3.0], 4, 0), (0.0, [0.5], 0, 0)]
