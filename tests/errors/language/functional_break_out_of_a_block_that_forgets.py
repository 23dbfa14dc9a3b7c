import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    for i in range(n):
        with rg.forget():
            x = 0.5 * x
            if x < 0.25:
                break
    return x


f(1.0, 3)
