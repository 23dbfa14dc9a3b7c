import retrograd as rg
from retrograd import reversible


@reversible
def f(a: int, b: int, c: bool):
    a ^= b & 12 | 3
    a += (b << 2) - (b >> 1) % 5
    rg.rol(a, 3)
    rg.cswap(c, a, b)
    c ^= a > b
    b -= rg.select(c, a // 2, 7)
    assert b != 12345


ARGUMENTS = [(5, 9, True), (0, 3, False)]
