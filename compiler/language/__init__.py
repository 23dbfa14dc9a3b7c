"""Types, values and operators of the language, shared by all front ends.

It imports `compiler/ir` and `isa`, and nothing of Python's `ast`. Start with `types.py`.
"""
