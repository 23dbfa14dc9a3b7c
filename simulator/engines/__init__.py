"""Engines: compiled interpreters, translators, batches and GPUs, each equal to the reference machine bit for bit.

It imports `simulator`, `isa`, numpy and llvmlite. Start with `tiering.py`, which decides which engine runs a program.
"""

from retrograd.simulator.engines import errors as errors
