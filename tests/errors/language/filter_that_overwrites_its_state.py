from retrograd import Array, fixed, reversible


@reversible
def kalman(x: fixed, p: fixed, z: Array[fixed, "n"], r: fixed):
    for k in range(len(z)):
        gain = p / (p + r)
        x += gain * (z[k] - x)
        p -= gain * p


kalman(0.0, 1.0, [1.0, 2.0], 0.5)
