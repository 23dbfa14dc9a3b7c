"""The front end for functions in Python: syntax trees to intermediate code.

It imports `compiler/language`, `compiler/ir` and `isa`. Start with `elaborate.py`.
"""
