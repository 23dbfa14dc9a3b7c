"""LLVM: text of its intermediate language, folds of expression trees to it, machine code made in this process and kept on disk.

It imports `isa` and llvmlite. Start with `trees.py`.
"""
