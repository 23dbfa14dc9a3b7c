import retrograd as rg


@rg.functional
def tail(xs: rg.Array[rg.fixed, "n"]):
    rest = xs[1:]
    return rest[0]


tail([1.0, 2.0])
