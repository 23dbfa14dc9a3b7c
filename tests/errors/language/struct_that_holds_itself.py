import retrograd as rg


@rg.struct
class Node:
    value: int
    next: "Node"
