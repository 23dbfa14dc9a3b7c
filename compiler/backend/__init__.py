"""The back end: linear code with paired branches, register allocation, emission of a program.

It imports `compiler/ir` and `isa`. Start with `emission.py`.
"""
