from retrograd import reversible


@reversible
def f(x: int):
    if print(x):
        x += 1


f(0)
