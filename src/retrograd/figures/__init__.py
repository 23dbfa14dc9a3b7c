"""Figures of programs: control flow and mirrored code as SVG.

It imports `isa`. Start with `nesting.py`, which finds code that a later part of the program undoes; `graph.py` draws it.
"""
