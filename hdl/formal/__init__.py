"""Proofs on the netlist of the co-processor: every opcode, on all states, forward and backward; its units, and its host interface.

It imports `hdl/core`, `hdl/bus` and `isa`; z3 is imported when a proof runs. Start with `claims.py`, which states what is proved.
"""
