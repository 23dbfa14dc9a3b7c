import retrograd as rg


@rg.functional
def adder(x: rg.fixed):
    return lambda y: x + y


adder(1.0)
