import retrograd as rg


@rg.functional
def second(x: rg.fixed):
    match [x, 2 * x]:
        case [_, [y, *_]]:
            return y
        case _:
            return 0.0


second(1.0)
