"""Operations of kernels, counted and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from retrograd.benchmarks.measure import OPERATIONS, count, operations
from retrograd.benchmarks.peers import by_numba
from retrograd.benchmarks.workload import Sizes
from retrograd.benchmarks.workloads import ALL, functions


def test_a_wave_has_eight_operations_a_cell() -> None:
    n = 7
    fields = [np.zeros((n, n)) for _ in range(3)]
    assert count(by_numba.wave, (*fields, 3)) == 3 * 8 * (n - 2) ** 2


def test_a_series_has_as_many_as_its_passes() -> None:
    """(z/2)²/2 takes three operations, a pass of the loop nine, and its last test two."""
    z = np.array([0.1, 1.0, 4.0])
    passes = sum(functions.passes(x) for x in z)
    assert count(by_numba.bessel, (np.empty(3), z)) == 3 * 3 + 2 * 3 + 9 * passes


def test_a_product_of_matrices() -> None:
    a, b, c = np.ones((2, 3)), np.ones((3, 4)), np.empty((2, 4))
    assert count(by_numba.matmul, (c, a, b)) == 2 * 2 * 3 * 4
    assert (c != 24).all()  # on copies


@pytest.mark.parametrize("name", ["bessel", "sparse-dot", "graph", "gmm", "ba", "leapfrog", "wave"])
def test_results_of_counted_kernels_are_data(name: str) -> None:
    """Each workload with a kernel has a count, the same at each call."""
    problem = next(iter(next(w for w in ALL if w.name == name).problems(Sizes(quick=True))))
    data = problem.tasks[0].data
    assert type(data) in OPERATIONS
    assert operations(data) == operations(data)
    assert (operations(data) or 0) > 1
    assert operations(None) is None
