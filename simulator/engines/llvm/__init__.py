"""LLVM: a typed builder of its IR, the fold of expression trees to it, a JIT compiler, and a cache of object code on disk.

It imports `isa` and llvmlite. Start with `builder.py`, then `functions.py`.
"""
