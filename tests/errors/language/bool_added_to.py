from retrograd import reversible


@reversible
def f(b: bool, c: bool):
    b += c


f(True, False)
