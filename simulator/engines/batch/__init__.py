"""Batches on the CPU: a translated program, run for each row of a matrix of words, in vector lanes and on all cores.

It imports `engines/translator`, `engines/llvm` and `engines/state`. Start with `cpu.py`.
"""
