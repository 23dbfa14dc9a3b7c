from retrograd import Array, fixed, reversible


@reversible
def explicit(p: Array[fixed, "n"]):
    for k in range(len(p) - 1):
        slope = p[k] * p[k]
        p[k] += slope / 8
        p[k + 1] += slope


explicit([1.0, 0.0, 0.0])
