"""Reversible functions: the decorator, compiled versions, requests and results of runs, traps in terms of the source, text, pickles.

Order of imports: values → functions → batch → differentiation → pricing; each folder imports only those on its left.
Start with `requests.py`, then `reversible.py`.
"""

from retrograd.functions import errors as errors
