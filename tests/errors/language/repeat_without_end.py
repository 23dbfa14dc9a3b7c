import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int, x: int):
    for _ in rg.repeat(n == 0, until=n < 0):
        n += 1


rg.run(f, 0, 5, max_steps=1000)
