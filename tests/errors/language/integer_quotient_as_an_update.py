from retrograd import reversible


@reversible
def halve(n: int):
    n //= 2


halve(8)
