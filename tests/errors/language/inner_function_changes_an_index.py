from retrograd import Array, fixed, reversible


@reversible
def f(ys: Array[fixed, "n"]):
    for i in range(len(ys)):

        def step(out: fixed):
            nonlocal i
            i += 1

        step(ys[i])


f([0.0, 1.0])
