import retrograd as rg


@rg.functional
def chosen(x: rg.fixed):
    return 1.0 if [x] else 2.0


chosen(1.0)
