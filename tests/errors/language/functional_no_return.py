import retrograd as rg

@rg.functional
def half(x: rg.fixed):
    if x > 0:
        return x / 2

half(1.0)
