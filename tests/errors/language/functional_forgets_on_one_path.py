import retrograd as rg


@rg.functional
def absolute(x: rg.fixed):
    with rg.forget():
        if x > 0:
            return x
    return -x


absolute(1.0)
