import retrograd as rg


@rg.functional
def f(v):
    match [v, 2.0 * v]:
        case [first, *rest]:
            return rg.sum(first)
    return 0.0


f([1.0, 2.0])
