"""Lowering of Janus to the reversible IR: expressions, statements, versions of procedures, and the entry of a program.

May import: compiler/ir, compiler/language; isa. Start reading in statements.py.
"""
