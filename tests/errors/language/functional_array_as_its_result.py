import retrograd as rg


@rg.functional
def f(v):
    return 2.0 * v


rg.run(f, [1.0, 2.0])
