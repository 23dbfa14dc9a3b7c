import retrograd as rg


@rg.functional
def longer(x: rg.fixed) -> list[rg.fixed]:
    return [x, *x]


longer(1.0)
