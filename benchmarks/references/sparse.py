"""Sparse products by SciPy, and their derivatives in closed form.

    L = trace(AᵀB):         ∂L/∂A = B where A has entries,   ∂L/∂B = A where B has
    L = Re tr(Wᴴ α A B):    ∂L/∂A = ᾱ W Bᴴ there,   ∂L/∂B = ᾱ Aᴴ W,   ∂L/∂α = tr((A B)ᴴ W)

A gradient by a complex number is ∂L/∂re + i ∂L/∂im.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, random_array  # type: ignore[import-untyped]

Numbers = NDArray[Any]


def random(generator: np.random.Generator, shape: tuple[int, int], density: float, dtype: type = float) -> Any:
    """A sparse matrix of normal numbers, rows ascending in each column."""

    def normal(size: int) -> Numbers:
        real = generator.normal(size=size)
        return real + 1j * generator.normal(size=size) if dtype is complex else real

    matrix = csc_array(random_array(shape, density=density, rng=generator, data_sampler=normal, dtype=dtype))
    matrix.sum_duplicates()
    return matrix


def entries(matrix: Any, pattern: Any) -> Numbers:
    """Elements of a matrix where a sparse one has entries, in the order of these."""
    columns = np.repeat(np.arange(pattern.shape[1]), np.diff(pattern.indptr))
    dense = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
    found: Numbers = dense[pattern.indices, columns]
    return found


def trace(a: Any, b: Any) -> tuple[float, tuple[Numbers, Numbers]]:
    """(trace(AᵀB), its gradient by the values of A and of B)."""
    return float((a.T @ b).trace()), (entries(b, a), entries(a, b))


def product(a: Any, b: Numbers, factor: complex, w: Numbers) -> tuple[Numbers, tuple[Numbers, Numbers, complex]]:
    """(α A B, the gradient of Re tr(Wᴴ α A B) by the values of A, by B and by α)."""
    ab = a @ b
    by_a = entries(np.conj(factor) * w @ b.conj().T, a)
    return factor * ab, (by_a, np.conj(factor) * (a.conj().T @ w), complex(np.sum(ab.conj() * w)))
