import retrograd as rg


@rg.data
class Leaf:
    value: rg.fixed


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"


@rg.functional
def total(t: Leaf | Node):
    match t:
        case Leaf(v):
            return v
        case Node(a, b):
            return total(a) + total(b)


t = Node(Leaf(1.0), Leaf(2.0))
t.right = t
total(t)
