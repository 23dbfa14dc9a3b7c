import retrograd as rg


@rg.functional(stack=100)
def steps(x: rg.fixed, n: int):
    return x if n == 0 else rg.sin(steps(x, n - 1)) + x


steps(0.5, 1000)
