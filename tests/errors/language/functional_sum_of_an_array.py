import retrograd as rg


@rg.functional
def f(v):
    return rg.sum(v, axis=1)


f([1.0, 2.0])
