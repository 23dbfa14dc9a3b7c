from retrograd import fixed, reversible


@reversible
def f(y: fixed, *xs: fixed):
    for x in xs:
        y += x


@f.adjoint
def back(y: fixed, *xs: fixed):
    y += 1
