import retrograd as rg


@rg.functional
def scaled(x: rg.fixed):
    f = lambda y, c: c * y
    return f(x, c=2.0)


scaled(1.0)
