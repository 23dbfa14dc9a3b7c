import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    return [x] + [x]


wrong(1.0)
