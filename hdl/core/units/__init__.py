"""Function units of the core: each executes micro-operations, or counts what was executed.

It imports `hdl` and `isa`. Start with `logic.py`; `branch.py` has PC, BR and DIR.
"""
