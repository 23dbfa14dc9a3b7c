"""Derivatives of instructions, computed from their expression trees: adjoints, cotangent and tangent steps.

It imports `isa` only. Start with `adjoint.py`.
"""
