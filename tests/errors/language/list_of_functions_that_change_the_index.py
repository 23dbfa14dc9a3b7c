from retrograd import fixed, reversible


@reversible
def f(y: fixed, i: int):
    def step(out: fixed):
        nonlocal i
        i += 1

    fs = [step, step]
    fs[i](y)


f(0.0, 1)
