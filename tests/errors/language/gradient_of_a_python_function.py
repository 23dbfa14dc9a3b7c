import retrograd as rg


def f(x):
    return x * x


rg.grad(f)(2.0)
