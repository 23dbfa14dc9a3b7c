import retrograd as rg

@rg.functional
def several(x: rg.fixed):
    return [x, x]

several(1.0)
