import retrograd as rg

@rg.functional
def area(radius: rg.fixed):
    return 3.14 * radios * radius

area(1.0)
