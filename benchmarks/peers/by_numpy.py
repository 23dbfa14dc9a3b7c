"""NumPy: whole arrays, products of matrices by its BLAS."""

from __future__ import annotations

from typing import Any

from retrograd.benchmarks.peers import Prepared
from retrograd.benchmarks.workload import Polynomial, Product, Regression

TASKS: dict[tuple[type, str], Any] = {
    (Product, "value"): lambda d: Prepared(lambda: d.a @ d.b),
    (Product, "gradient"): lambda d: Prepared(lambda: d.w @ d.b.T, note="adjoint by hand"),
    (Regression, "gradient"): lambda d: Prepared(d.gradient, note="adjoint by hand"),
    (Polynomial, "value"): lambda d: Prepared(d.value),
}
