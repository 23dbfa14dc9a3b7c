import retrograd as rg

@rg.functional
def call(x: rg.fixed):
    f = lambda a: a * x
    return f(1.0, 2.0)

call(1.0)
