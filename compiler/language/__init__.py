"""Types, values and operators of the language: what all front ends share.

It imports `compiler/ir` and `isa`, and nothing of Python's `ast`. Start with `types.py`.
"""
