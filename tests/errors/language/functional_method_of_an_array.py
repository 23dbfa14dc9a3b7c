import retrograd as rg


@rg.functional
def f(v):
    return v.sum()


f([1.0, 2.0])
