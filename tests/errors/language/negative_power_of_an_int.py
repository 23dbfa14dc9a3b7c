from retrograd import reversible


@reversible
def power(y: int, x: int, n: int):
    y += x + x**n


power(0, 7, 2)
power(0, 7, -1)
