import random

from retrograd import reversible


@reversible
def roll(x: int):
    x += random.randint(0, 9)


roll(0)
