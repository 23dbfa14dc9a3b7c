"""Tier 2: a program translated to one LLVM function.

It imports `engines/llvm` and `engines/state`. Start with `translate.py`.
"""
