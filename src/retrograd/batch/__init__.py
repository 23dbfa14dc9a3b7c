"""One function on many inputs: arguments as a matrix of words, and its rows run by any engine.

Order of imports: values → functions → batch → differentiation → pricing; each folder imports only those on its left.
Start with `batches.py`.
"""
