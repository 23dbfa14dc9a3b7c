import retrograd as rg


@rg.functional
def f(v):
    return v.searchsorted(1.0)


f([1.0, 2.0])
