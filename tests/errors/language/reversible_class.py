from retrograd import reversible


@reversible
class Counter:
    n: int


Counter(1)
