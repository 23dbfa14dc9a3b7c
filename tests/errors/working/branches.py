import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed, b: bool):
    if x > 0 and not b:
        y += x
    elif x == 0:
        y -= 1
    else:
        y += 2 * x
    if (y > 10, y < -5):
        y -= 100
    if (x * x > 4, y < -100):
        y -= 1000
    rg.flip(b)


ARGUMENTS = [(1.0, 3.0, True), (0.5, 0.0, False), (20.0, -1.0, True)]
