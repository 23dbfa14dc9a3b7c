import retrograd as rg


@rg.data
class Leaf:
    value: rg.fixed


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"


@rg.functional
def value(t):
    match t:
        case Leaf(v):
            return v


value(Leaf(1.0))
