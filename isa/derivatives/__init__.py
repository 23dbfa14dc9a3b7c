"""Derivatives of instructions, computed from their expression trees: adjoints, partial derivatives, cotangent and tangent steps.

It imports `isa` only. Start with `adjoint.py`.
"""
