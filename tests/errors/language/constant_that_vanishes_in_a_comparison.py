from retrograd import reversible, fixed


@reversible
def converged(n: int, error: fixed):
    n += error < 1e-12


converged(0, 0.0)
