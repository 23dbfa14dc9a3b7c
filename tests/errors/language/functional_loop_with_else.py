import retrograd as rg

@rg.functional
def total(x: rg.fixed):
    s = 0.0
    for i in range(3):
        s += x
    return s

total(1.0)
