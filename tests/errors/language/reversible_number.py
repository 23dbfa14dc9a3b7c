from retrograd import reversible

reversible(3)
