"""Front end for functional programs: expressions with closures, sums, recursion, and derivatives of functions as values.

May import: compiler.ir, compiler.language, compiler.derivatives, and of the other front ends the builder and Python's source. Order of the
stages: reader → core → inference → lowering (body, calls, program) → reversible IR. Start reading in core.py.
"""
