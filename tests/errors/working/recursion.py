from retrograd import reversible


@reversible
def f(n: int, out: int):
    if n > 1:
        m = n - 1
        f(m, out)
        out += m
    out += 1


ARGUMENTS = [(5, 0), (0, 1)]
