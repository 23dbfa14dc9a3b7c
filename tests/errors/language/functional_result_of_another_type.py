import retrograd as rg


@rg.functional
def pair(x: rg.fixed) -> rg.fixed:
    return x, 2 * x


pair(1.0)
