"""Front end for functional programs: expressions with closures, sums, recursion, and derivatives of functions as values.

May import: compiler.ir, compiler.language, compiler.derivatives, and of the other front ends the builder and Python's.
Order of the stages: reading → core → inference → lowering → reversible IR. marshalling.py passes lists and data classes
in and out. Start reading in core.py.
"""
