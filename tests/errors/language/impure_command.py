from retrograd import reversible


@reversible
def f(x: int):
    x += __import__("os").system("true")


f(0)
