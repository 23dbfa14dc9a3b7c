"""A list times an int of the run: Python repeats the list."""

from retrograd import fixed, reversible


@reversible
def f(y: fixed, n: int):
    v = [1.0, 2.0] * n
    y += v[0]


f(0.0, 3)
