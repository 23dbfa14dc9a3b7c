from retrograd import reversible


@reversible
def step(a: int, b: int):
    a, b = b, a + b


step(1, 1)
