import retrograd as rg

@rg.functional
def slope(x: rg.fixed):
    def total(items):
        match items:
            case []:
                return 0.0
            case [a, *rest]:
                return a + total(rest)
    g = rg.grad(total)([x, x])
    return x

slope(1.0)
