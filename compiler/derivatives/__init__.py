"""Derivatives of programs: activity analysis, lifting to cotangents and tangents, gradient programs.

It imports `compiler/ir`, `isa` and `isa/derivatives.py`. Start with `gradients.py`.
"""
