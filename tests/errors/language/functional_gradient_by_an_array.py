import retrograd as rg


@rg.functional
def slope(xs: rg.Array[rg.fixed, "n"]):
    def total(items):
        return sum(items[i] * items[i] for i in range(len(items)))

    g = rg.grad(total)(xs)
    return xs[0]


slope([1.0, 2.0])
