import retrograd as rg


@rg.functional
def f(v):
    return v.std()


f([1.0, 2.0])
