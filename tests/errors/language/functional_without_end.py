import retrograd as rg

@rg.functional
def without_end(x: rg.fixed):
    def f(a):
        return f(a + 1)
    return f(x)

without_end(1.0)
