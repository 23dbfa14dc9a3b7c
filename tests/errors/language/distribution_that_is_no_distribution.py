import retrograd as rg


@rg.reversible
def add(y: int, x: int) -> None:
    y += x


rg.entropy(add, {(0, 1): 0.5, (0, 2): 0.25})
