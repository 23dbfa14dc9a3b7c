"""Micro-operations, their schedule, pipeline stages and cycle counts, shared by the co-processor and the cycle counter.

It imports `isa` and `isa/derivatives`. Start with `micro_operations.py`; `schedule.py` counts the cycles of an instruction.
"""
