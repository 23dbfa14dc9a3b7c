"""The core as a device on a bus: host interface, Wishbone, serial line, and the host's side of each.

It imports `hdl/core`, `hdl/simulation` and `isa`. Start with `host_interface.py`; docs/coprocessor.md has the register map.
"""
