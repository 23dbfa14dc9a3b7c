import retrograd as rg


@rg.functional
def chosen(w: rg.Array[rg.fixed, 4], at: rg.fixed):
    return w[at]


chosen([1.0, 2.0, 3.0, 4.0], 2.5)
