from retrograd import fixed, reversible


@reversible
def f(y: fixed, ws, n: int):
    for i in range(n):
        y += ws[i][0]


f(0.0, [{"a": [1.0]}, {"b": [2.0]}], 2)
