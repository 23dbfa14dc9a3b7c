from retrograd import reversible

f = reversible(lambda y: y)
f(0.0)
