import retrograd as rg

@rg.functional
def total(x: rg.fixed):
    s = 0.0
    for i in range(3):
        s += x
    else:
        s += 1.0
    return s

total(1.0)
