"""The front end for functions in Python: syntax trees → reversible IR.

It imports the files shared by all front ends, `compiler/language`, `compiler/ir` and `isa`. Start with `context.py`.
"""
