"""Folds over expression trees that need no library: to Python source and to SMT-LIB.

It imports `isa` only. Folds to LLVM and to hardware are in `simulator/engines/llvm/` and `hdl/microcode.py`.
"""
