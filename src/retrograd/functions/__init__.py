"""Reversible functions: the decorator, runs on machines, traps in the terms of the source, listings, pickles.

It imports all parts except `cli`. Start with `reversible.py`.
"""

from retrograd.functions import errors as errors
