import retrograd as rg


@rg.data
class Leaf:
    value: rg.fixed


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"


@rg.functional
def value(t: Leaf):
    return t.value


value(Leaf(1.0))
