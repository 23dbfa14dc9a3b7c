import retrograd as rg


@rg.data
class Leaf:
    value: rg.fixed


@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"


@rg.functional
def value(t: Node):
    return t.left.right


value(Node(Leaf(1.0), Leaf(1.0)))
