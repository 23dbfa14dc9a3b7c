"""Folds over expression trees that need no library: matching, simplification, Python source, SMT-LIB, and the laws of the table.

It imports `isa` only. Start with `python_source.py`. Folds to LLVM and to hardware are in `simulator/engines/llvm/` and `hdl/`.
"""
