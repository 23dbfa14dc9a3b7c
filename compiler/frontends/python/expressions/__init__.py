"""Expressions of reversible functions: syntax → value.

It imports `compiler/ir`, `compiler/language` and what all front ends share. Start with `lowering.py`; the table is in `function.py`.
"""
