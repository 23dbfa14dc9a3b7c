"""Function units of the core: each executes micro-operations, or counts what was executed.

It imports `hdl/microcode` and `isa`.
"""
