"""Proofs of a lane of the core `lanes`: its steps beside another lane, and its mask.

It imports `hdl/core`, and the execution of a core in `hdl/formal`. Start with `execution.py`.
"""
