"""Kinds of errors of benchmarks."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1202", "no such peer", "A peer is another system with the same workloads, timed beside Retrograd.",
     "Peers: numpy, numba, enzyme, casadi, warp, jax, torch, autograd."),
    ("RG1203", "not the figures of a benchmark", "A file of figures is JSON of the schema retrograd.bench/3, which `retrograd bench --json` writes.",
     "Write it again with this version."),
)  # fmt: skip
