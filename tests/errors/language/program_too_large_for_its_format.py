import retrograd as rg
from retrograd import fixed


@rg.functional(format="Q4.4")
def f(x: fixed, n: int):
    def terms(v, k):
        return v if k == 0 else v * x + terms(0.5 * v, k - 1)

    return terms(x, n)


rg.grad(rg.grad(f, "x"), "x")(0.5, 2)
