"""Compile times, and the instructions that compiled programs execute, beside the same source compiled to erase.

The uncomputing level is log2(N_reversible / N_erasing): at 1, uncomputing doubles the work.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from retrograd.benchmarks.measure import Row
from retrograd.compiler.language.types import ArrayAnnotation, scalar_of, struct_of
from retrograd.examples import bessel, bundle_adjustment, gmm

import retrograd as rg
from retrograd import library
from retrograd.runtime._reversible import Reversible


def measure(quick: bool) -> list[Row]:
    """Compile times, and executed instructions of the workloads."""
    rows = []
    for name, function, args in _workloads(quick):
        fresh = function.with_options()
        begun = time.perf_counter()
        fresh.compiled(*args)
        bar = 1.0 if name.startswith("BA") else None
        rows.append(Row(f"compile {name}", time.perf_counter() - begun, "s", bar, lower_is_better=True))
        forward = rg.run(fresh, *args)
        plain = rg.run(function.with_options(level=0), *args)
        erasing = rg.run(function.with_options(erase=True), *args)
        rows.append(Row(f"instructions, {name}", forward.steps, ""))
        rows.append(Row(f"instructions, {name}, not optimised", plain.steps, ""))
        rows.append(Row(f"instructions, {name}, erasing", erasing.steps, ""))
        rows.append(Row(f"bits erased by that, {name}", erasing.erased_bits, ""))
        rows.append(Row(f"uncomputing level, {name}", math.log2(forward.steps / erasing.steps), ""))
    begun = time.perf_counter()
    count = 0
    for name, args in calls():
        _named(name).with_options().compiled(*args)
        count += 1
    rows.append(
        Row(f"compile the library, {count} functions", time.perf_counter() - begun, "s", 20, lower_is_better=True)
    )
    return rows


def _workloads(quick: bool) -> list[tuple[str, Reversible, tuple[Any, ...]]]:
    problem = bundle_adjustment.read(bundle_adjustment.DATA / "test.txt", 1)
    i, j = problem.observed[0]
    projection = (np.zeros(2), problem.cameras[i], problem.points[j], float(problem.weights[0]), problem.features[0])
    mixture = gmm.read(gmm.DATA / "test.txt")
    return [
        ("BA projection", bundle_adjustment.reprojection_error, projection),
        ("Bessel J₂(1), dirty product", bessel.bessel, (0.0, 1.0)),
        ("Bessel J₂(1), lognum", bessel.bessel_log, (0.0, 1.0)),
        ("GMM objective, test.txt", gmm.gmm_objective, (0.0, *mixture.arguments)),
    ]


#: lengths that annotations leave open, by function and parameter
_OPEN: dict[tuple[str, str], Any] = {
    ("bennett", "k"): 2, ("bennett", "levels"): 2, ("bennett", "states"): np.ones(9), ("covariance", "ddof"): 1,
    ("variance", "ddof"): 1, ("sparse_dot_scattered", "height"): 4, ("solve", "x"): np.ones(4), ("solve", "b"): np.ones(4),
}  # fmt: skip
#: functions that take functions of their own kind are compiled in their tests
_SKIPPED = {"bennett", "mapfold", "filter_into"}


def _named(name: str) -> Reversible:
    found: Reversible = getattr(library, name)
    return found


def calls() -> list[tuple[str, tuple[Any, ...]]]:
    """(name, arguments) of the library's functions: every named length is 4, half of it 2, every number 1."""
    found = []
    for name in library.__all__:
        function = getattr(library, name)
        if not isinstance(function, Reversible) or name in _SKIPPED:
            continue
        found.append((name, tuple(_example(name, p.name, p.annotation) for p in function.parameters)))
    return found


def _example(name: str, parameter: str, annotation: Any) -> Any:
    if (name, parameter) in _OPEN:
        return _OPEN[name, parameter]
    if isinstance(annotation, ArrayAnnotation):
        shape = tuple(d if isinstance(d, int) else 2 if d == "half" else 4 for d in annotation.dims or (4,))
        struct = struct_of(annotation.element)
        if struct is not None:
            return np.ones(shape, dtype=complex)
        return np.ones(shape, dtype=int if annotation.element is int else float)
    struct = struct_of(annotation)
    if struct is not None:
        return struct.cls(*[1.0] * len(struct.fields))
    scalar = scalar_of(annotation)
    make: Callable[[Any], Any] = int if scalar is not None and scalar.kind.value == "int" else float
    return make(1)
