import retrograd as rg


@rg.functional
def f(v):
    return 1.0 if v > 0 else 2.0


f([1.0, 2.0])
