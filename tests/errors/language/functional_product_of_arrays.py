import retrograd as rg


@rg.functional
def f(v):
    return v @ v


f([1.0, 2.0])
