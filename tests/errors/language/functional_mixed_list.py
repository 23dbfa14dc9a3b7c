import retrograd as rg

@rg.functional
def first(x: rg.fixed):
    items = [x, (x, x)]
    match items:
        case [a, *_]:
            return a
        case []:
            return 0.0

first(1.0)
