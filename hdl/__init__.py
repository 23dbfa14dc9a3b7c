"""The co-processor: the instruction table as hardware, in Amaranth (docs/coprocessor.md).

It imports `isa` and amaranth. Its files are used by all of its folders: parameters, the microword, the microcode and
the control store. Start with `core/core.py`; `bus/device.py` drives the hardware from a host.
"""

from retrograd.hdl import errors as errors
