import retrograd as rg


@rg.functional
def curved(x: rg.fixed):
    def total(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first * first + total(rest)

    h = rg.hessian(total)([x, x])
    return x


curved(1.0)
