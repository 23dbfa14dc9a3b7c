"""Tier 1: an interpreter in threaded code, with handlers compiled from the instruction table.

It imports `engines/llvm` and `engines/state`. Start with `threaded.py`.
"""
