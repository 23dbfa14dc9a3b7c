import retrograd as rg


@rg.data
class Named:
    name: str


@rg.functional
def first(x: rg.fixed):
    return Named(x)


first(1.0)
