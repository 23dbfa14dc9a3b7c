import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    items = [x, 2 * x]
    return items[0]


wrong(1.0)
