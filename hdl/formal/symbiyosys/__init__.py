"""The claims that a step is the table's, checked by SymbiYosys on the emitted RTLIL, without our own prover.

It imports `hdl/core`, `hdl/flow`, `hdl/formal/claims.py` and `isa`. Start with `runs.py`.
"""
