import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for v in n:
        x += v
    return x


f(1.0, 3)
