"""Lowering of core with its types to reversible IR.

May import: the other stages of the functional front end, compiler.ir, compiler.derivatives. `program` has the procedures, `expressions` and
`conversions` the values, `calls` the calls, `body` the statements, `heap` the cells. Start reading in expressions.py.
"""
