"""The core: sequencer, decoder, register and memory ports, and what joins them.

It imports `hdl/core/units`, `hdl` and `isa`. Start with `core.py`.
"""
