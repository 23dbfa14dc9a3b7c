import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for a, b in [x, x]:
        x += a * b
    return x


f(1.0, 3)
