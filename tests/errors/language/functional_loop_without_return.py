import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for i in range(n):
        if i > 2:
            return x


f(1.0, 3)
