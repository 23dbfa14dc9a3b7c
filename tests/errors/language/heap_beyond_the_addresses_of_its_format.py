import retrograd as rg
from retrograd import fixed


@rg.functional(format="Q4.4", heap=300)
def f(x: fixed):
    def total(items):
        match items:
            case []:
                return 0.0
            case [first, *rest]:
                return first + total(rest)

    return total([x, x])


f(0.5)
