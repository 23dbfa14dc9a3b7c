from retrograd import fixed, reversible


@reversible
def f(y: fixed, x: fixed):
    t = 0.0
    t += x
    y += t
    t -= y


(~f)(1.0, 3.0)
