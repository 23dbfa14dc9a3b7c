import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for i in range(x):
        x += i
    return x


f(1.0, 3)
