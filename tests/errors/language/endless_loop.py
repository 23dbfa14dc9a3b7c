import retrograd as rg
from retrograd import reversible


@reversible
def f(n: int):
    while (n != 0, n != 5):
        n += 1


rg.run(f, 5, max_steps=1000)
