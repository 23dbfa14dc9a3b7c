from retrograd import fixed, reversible

WEIGHTS = (0.5, 0.25, 2.0)


@reversible
def f(y: fixed, x: fixed, i: int):
    k = 3

    def step(v: fixed, w: fixed):
        v += w * k

    for _ in range(2):
        step(y, x)
    y += WEIGHTS[i] * sum(WEIGHTS)
    for weight in WEIGHTS:
        y += weight * x
    y += max(x, 1.0) if i > 0 else abs(x)


ARGUMENTS = [(1.0, 2.0, 1), (1.0, -2.0, 0)]
