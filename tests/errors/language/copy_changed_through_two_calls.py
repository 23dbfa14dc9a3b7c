from retrograd import Array, fixed, reversible


@reversible
def add(y: fixed, x: fixed):
    y += x


@reversible
def both(y: fixed, x: fixed):
    add(y, x)


@reversible
def f(a: Array[fixed]):
    first = a[0]
    both(first, a[0])


f([1.0, 2.0])
