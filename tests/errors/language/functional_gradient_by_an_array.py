import retrograd as rg


@rg.functional
def slope(xs: rg.Array[rg.fixed, "n"]):
    return rg.jvp(lambda v: rg.sum(v * v))(xs, xs)


slope([1.0, 2.0])
