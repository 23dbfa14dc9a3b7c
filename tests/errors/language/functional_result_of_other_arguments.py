import retrograd as rg


@rg.functional
def squares(xs: list[rg.fixed]) -> list[rg.fixed]:
    match xs:
        case []:
            return []
        case [first, *rest]:
            return [first * first, *squares(rest)]


(~squares)([1.0, 2.0], [1.0, 9.0])
