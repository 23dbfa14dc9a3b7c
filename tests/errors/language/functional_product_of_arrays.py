import retrograd as rg


@rg.functional
def f(v, w):
    return v @ w


f([1.0, 2.0], [1.0, 2.0, 3.0])
