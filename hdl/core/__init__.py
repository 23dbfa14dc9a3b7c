"""The core: function units, memories, sequencer, and the cores that connect them.

It imports `hdl` and `isa`. Start with `core.py`; `units.py` and `divider.py` have the function units.
"""
