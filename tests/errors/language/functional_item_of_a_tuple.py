import retrograd as rg


@rg.functional
def third(x: rg.fixed):
    pair = (x, 2 * x)
    return pair[2]


third(1.0)
