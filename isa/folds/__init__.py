"""Folds over expression trees that need no library: matching, simplification, Python source, SMT-LIB, the laws of the table, and formats that
hold a result.

It imports `isa` only. Start with `python_source.py`. Folds to LLVM and to hardware are in `simulator/engines/llvm/` and `hdl/`.
"""
