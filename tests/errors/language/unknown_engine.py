import retrograd as rg
from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    y += 1


rg.run(f, 1.0, engine="natve")
