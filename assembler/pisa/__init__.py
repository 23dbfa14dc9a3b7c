"""Pendulum PISA assembly text, as the compilers of ROOPL write it, to programs and back.

It imports `isa` and `assembler`. Start with `reader.py`; `branches.py` decides which end of a pair of branches is the jump.
"""
