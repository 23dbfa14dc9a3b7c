"""Energy: counts of a run, and their prices by a technology model.

The simulator counts (`counts.py`); a technology model (`technology.py`, `models/`) prices by its laws (`laws.py`, `pricing.py`). The
two are separate, and a part that is not modelled is never 0. Start with `pricing.py`. It imports `isa` and `simulator/machine.py`.
"""
