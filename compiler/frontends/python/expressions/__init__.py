"""Expressions of reversible functions: syntax → value.

It imports `compiler/ir`, `compiler/language` and the files shared by all front ends. Start with the table in `function.py`.
"""
