import time

from retrograd import fixed, reversible


@reversible
def f(y: fixed):
    def g(z, now=time.time()):
        z += now

    g(y)


f(0.0)
