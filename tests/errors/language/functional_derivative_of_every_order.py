import retrograd as rg


@rg.functional
def tower(x: rg.fixed, n: int):
    def derived(f, k):
        return f(x) if k == 0 else derived(lambda t: rg.grad(f)(t), k - 1)

    return derived(lambda t: rg.exp(t), n)


tower(1.0, 3)
