import retrograd as rg


def f(y):
    return y


rg.run(f, 0.0)
