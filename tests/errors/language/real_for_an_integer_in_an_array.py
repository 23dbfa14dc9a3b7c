from retrograd import Array, reversible


@reversible
def f(ns: Array[int]):
    ns += 1


f([1, 2.5])
