"""Functions as Python source: their text, the meaning of their names, the values that they capture.

It imports `compiler/language` and `isa`. Start with `source.py`.
"""
