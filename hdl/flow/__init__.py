"""Design flow: placed and routed designs, and counts of gates.

It imports `hdl/core`, `hdl/bus` and `isa`. Start with `synthesis.py`; it makes bitstreams, too.
"""
