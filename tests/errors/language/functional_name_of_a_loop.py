import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for i in range(n):
        y = x * i
    return y


f(1.0, 3)
