import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    f = lambda a, b: a * b
    pair = (x, x)
    return f(*pair)


wrong(1.0)
