import retrograd as rg

@rg.data
class Leaf:
    value: rg.fixed

@rg.data
class Node:
    left: "Leaf | Node"
    right: "Leaf | Node"

@rg.functional
def depth(x: rg.fixed):
    def deep(t):
        match t:
            case Node(a, b):
                return 1 + deep(a)
    return deep(Node(Leaf(x), Leaf(x)))

depth(1.0)
