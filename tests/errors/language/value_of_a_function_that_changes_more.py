from retrograd import fixed, reversible


@reversible
def step(x: fixed, v: fixed):
    x += v / 8
    v -= x / 8


@reversible
def f(y: fixed, v: fixed):
    y += step(v)


f(0.0, 1.0)
