import retrograd as rg


@rg.functional
def cost(x: rg.fixed):
    return x * (1.0 if x < 0.5 else -1e-11)


cost(0.25)
