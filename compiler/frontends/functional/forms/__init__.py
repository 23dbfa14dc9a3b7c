"""Lists and data classes as arguments and results of a program: their values in Python, and the functions that read and write them.

May import: the functional front end, compiler.ir, compiler.language. `encoding` is Python ↔ numbers and integers, `marshalling` the same in
core, `results` the statements that copy a result. Start reading in encoding.py.
"""
