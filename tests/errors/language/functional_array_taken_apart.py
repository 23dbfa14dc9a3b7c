import retrograd as rg


@rg.functional
def f(v):
    match v:
        case [first, *rest]:
            return first
    return 0.0


f([1.0, 2.0])
