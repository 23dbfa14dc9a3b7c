from retrograd import reversible


@reversible
def collatz(n: int, steps: int):
    while (n != 1, steps > 0):
        if n % 2 == 0:
            n -= n // 2
        else:
            n += 2 * n + 1
        steps += 1


collatz(6, 0)
