import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    return rg.jvp(lambda a, b: a * b)(x, x, 1.0)


wrong(1.0)
