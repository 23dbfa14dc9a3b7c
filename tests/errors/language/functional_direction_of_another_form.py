import retrograd as rg


@rg.functional
def pulled(x: rg.fixed):
    pair = lambda t: (t, t * t)
    return rg.vjp(pair)(x, 1.0)


pulled(1.0)
