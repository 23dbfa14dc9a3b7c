import retrograd as rg


@rg.functional
def squares(xs: list[rg.fixed]) -> list[rg.fixed]:
    match xs:
        case []:
            return []
        case [first, *rest]:
            return [first * first, *squares(rest)]


@rg.functional
def total(xs: list[rg.fixed]):
    match xs:
        case []:
            return 0.0
        case [first, *rest]:
            return first + total(rest)


@rg.reversible
def add(y: rg.fixed, xs: rg.Array[rg.fixed, "n"]):
    y += total(xs)


add(0.0, [1.0, 2.0])
