"""Proofs on the netlist of the core: every opcode, on all states, forward and backward.

It imports `hdl/core` and `isa`; z3 is imported when a proof runs. Start with `claims.py`, which states what is proved.
"""
