import retrograd as rg


@rg.functional
def wrong(x: rg.fixed):
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0.0


wrong(1.0)
