from retrograd import reversible


@reversible
def f(x: list[float]):
    x[0] += 1


f([1.0, 2.0, 3.0])
