import retrograd as rg

@rg.functional(heap=100)
def count(n: int):
    def up(k):
        return [] if k == 0 else [k, *up(k - 1)]
    def size(items):
        match items:
            case []:
                return 0
            case [_, *rest]:
                return 1 + size(rest)
    return size(up(n))

count(1000)
