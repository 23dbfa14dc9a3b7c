import retrograd as rg

@rg.data
class Point:
    x: rg.fixed
    y: rg.fixed

@rg.functional
def norm(a: rg.fixed):
    match Point(a):
        case Point(x, y):
            return x * x + y * y

norm(1.0)
