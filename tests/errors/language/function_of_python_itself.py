from retrograd import reversible

reversible(len)([1.0])
