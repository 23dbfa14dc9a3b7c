"""Micro-operations, their schedule, pipeline stages and cycle counts: what the co-processor and the cycle counter share.

It imports `isa` and `isa/derivatives`. Start with `micro_operations.py`; `timing.py` counts the cycles of an instruction.
"""
