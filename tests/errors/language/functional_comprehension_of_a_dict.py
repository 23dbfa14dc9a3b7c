import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    return {i: x * x for i in range(3)}


wrong(1.0)
