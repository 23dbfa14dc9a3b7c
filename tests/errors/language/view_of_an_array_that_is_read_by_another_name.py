import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def f(a: Array[fixed, 3]):
    row = a[1:]
    with rg.view(-a[0]) as m:
        m += row[0]


f([1.0, 2.0, 3.0])
