"""The magnitudes of the numbers in runs, and the formats that hold them.

It imports `debugger`, `functions`, `differentiation` and `simulator`. Start with `ranges.py`; `meter.py` observes a machine.
"""
