import retrograd as rg
from retrograd import fixed


@rg.functional(format="Q8.8")
def f(x: fixed):
    return rg.hessian(lambda t: t * t * x)(x)


rg.grad(rg.grad(f, "x"), "x")(0.5)
