"""Derivatives of NumPy functions by a complex step.

    ∂f/∂xᵢ = Im f(x + i h eᵢ) / h,    h = 10⁻³⁰

Nothing is subtracted, so nothing cancels: the error is that of f itself, some 10⁻¹⁶. Trap: f must be analytic as it is written. No
abs, no conjugate, no norm of NumPy's; decisions (a maximum, a pivot, a branch) must use real parts.
Source: Squire and Trapp, SIAM Review 40 (1998), 110.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

H = 1e-30


def jacobian(f: Callable[[NDArray[Any]], Any], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """∂f/∂x, of shape f's shape + x's shape."""
    columns = []
    for i in np.ndindex(*x.shape):
        moved = x.astype(complex)
        moved[i] += 1j * H
        columns.append(np.imag(f(moved)) / H)
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)
