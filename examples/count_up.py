"""A sum in a loop, short enough to read its export to PISA (docs/pisa.md)."""

from retrograd import reversible


@reversible
def count_up(total: int, n: int) -> None:
    """total += 1 + 2 + … + n, n ≥ 0. Inverse: total −= 1 + 2 + … + n."""
    for i in range(n):
        total += i + 1
