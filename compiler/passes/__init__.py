"""Optimisation passes, one a file, each a function from module to module that keeps the meaning of the program.

They import `compiler/ir` and `isa`. `compiler/pipeline.py` lists them in the order in which they run.
"""
