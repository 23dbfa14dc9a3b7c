import retrograd as rg


@rg.reversible
def sum_to(y: int, n: int) -> None:
    for i in range(n):
        y += i


rg.netlist(sum_to)
