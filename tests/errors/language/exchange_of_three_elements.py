from retrograd import Array, reversible


@reversible
def turn(a: Array[int, 3]):
    a[0], a[1] = a[1], a[2]


turn([1, 2, 3])
