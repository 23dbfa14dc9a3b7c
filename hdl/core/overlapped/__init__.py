"""The overlapped core: an instruction is fetched, decoded and read while the instruction before it executes.

It imports `hdl/core`, `hdl/core/units`, `hdl` and `isa`. Start with `core.py`.
"""
