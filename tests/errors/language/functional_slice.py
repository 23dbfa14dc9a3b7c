import retrograd as rg


@rg.functional
def f(v, n: int):
    return rg.sum(v[:n])


f([1.0, 2.0], 1)
