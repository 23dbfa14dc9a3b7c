import retrograd as rg

@rg.functional
def call(x: rg.fixed):
    return x(1.0)

call(1.0)
