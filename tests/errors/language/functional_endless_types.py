import retrograd as rg

@rg.functional
def grow(x: rg.fixed, n: int):
    def go(f, k):
        return f(x) if k == 0 else go(lambda v: f(v) + 1, k - 1)
    return go(lambda v: v, n)

grow(1.0, 3)
