import retrograd as rg
from retrograd import fixed, reversible


@reversible
def hypot(r: fixed, x: fixed, y: fixed) -> None:
    """r += √(x² + y²)"""
    r += rg.sqrt(x * x + y * y)
