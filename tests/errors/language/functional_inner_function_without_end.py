import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    def f(v):
        return f(v + 1)

    return x if x > 0 else f(x)


wrong(1.0)
