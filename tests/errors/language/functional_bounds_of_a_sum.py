import retrograd as rg


@rg.functional
def harmonic(n: rg.fixed):
    return sum(1 / i for i in range(1, n))


harmonic(10.0)
