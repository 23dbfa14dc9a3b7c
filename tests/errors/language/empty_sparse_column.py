import retrograd as rg
from retrograd import Array, fixed, reversible


@reversible
def column_sum(total: fixed, values: Array[fixed], first: Array[int], column: int):
    """total += the values of one column of a sparse matrix: those from first[column] to first[column + 1]."""
    i = 0
    i += first[column]
    while (i != first[column + 1], i != 0):
        total += values[i]
        i += 1
    rg.free(i, first[column + 1])


@reversible
def sums(totals: Array[fixed], values: Array[fixed], first: Array[int]):
    for column in range(len(totals)):
        column_sum(totals[column], values, first, column)


sums([0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [0, 2, 2, 3])
