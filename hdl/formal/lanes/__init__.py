"""Proofs of a lane of the core `lanes`: its steps beside another lane, its mask, and the order of lanes.

It imports `hdl/core`, and the execution of a core in `hdl/formal`. Start with `execution.py`.
"""
