import retrograd as rg


@rg.functional
def f(x: rg.fixed, n: int):
    match (x, x):
        case []:
            return x


f(1.0, 3)
