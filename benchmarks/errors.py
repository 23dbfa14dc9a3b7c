"""Kinds of errors of benchmarks."""

from __future__ import annotations

from retrograd.isa.diagnostics import register

register(
    ("RG1202", "no such peer", "A peer is another system that workloads are written with, to be timed beside Retrograd.",
     "Peers: numba, enzyme, casadi, warp, jax, torch, autograd."),
    ("RG1203", "not the figures of a benchmark", "Figures are what `retrograd bench --json` writes: JSON of the schema retrograd.bench/2.",
     "Write them anew with this version."),
)  # fmt: skip
