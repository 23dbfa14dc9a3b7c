"""Netlists in files: circuits with names for their lines, `.real`, OpenQASM 3, drawings in SVG.

It imports `isa` and the circuits of `hdl/reversible`. Start with `netlists.py`.
"""
