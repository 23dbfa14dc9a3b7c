"""Front ends: one folder for each source language. The files here are shared by all of them: places and tokens of texts, numbers of the
source, construction of the IR, procedures for shapes of arguments.

A front end imports these files, `compiler/language`, `compiler/ir` and `isa`; no front end imports another, nor Python's `ast` but
the one for Python. Start with `builder.py`.
"""
