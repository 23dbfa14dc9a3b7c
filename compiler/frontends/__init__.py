"""Front ends: one folder for each source language that the compiler reads.

A front end imports `compiler/language`, `compiler/ir` and `isa`; no front end imports another.
"""
