import retrograd as rg


@rg.functional
def product(x: rg.fixed):
    a, b = (x, 2 * x, 3 * x)
    return a * b


product(1.0)
