"""The co-processor: the instruction table as hardware, in Amaranth (docs/coprocessor.md).

It imports `isa` and amaranth. Start with `core/core.py`; `bus/device.py` drives the hardware from a host.
"""

from retrograd.hdl import errors as errors
