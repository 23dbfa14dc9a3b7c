"""Prices of netlists: reversible gates, garbage and held lines; irreversible gates.

It imports `simulator/energy`. Start with `pricing.py`; `shapes.py` has all that a price depends on.
"""
