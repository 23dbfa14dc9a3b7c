"""One function on many inputs: arguments as a matrix of words, runs, and gradients of all elements.

It imports `functions`, `values` and `simulator/engines`. Start with `batches.py`.
"""
