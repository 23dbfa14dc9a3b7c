import retrograd as rg
from retrograd import fixed


@rg.functional
def f(items: list[fixed]):
    match items:
        case [x, *rest]:
            return x * x
        case []:
            return 0.0


rg.hessian(f)([1.0, 2.0])
