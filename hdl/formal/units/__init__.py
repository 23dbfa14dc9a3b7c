"""Proofs of function units that take more than a few claims, for `unit_proofs`.

It imports `hdl/core` and the terms and symbolic execution of `hdl/formal`. Start with `scaled_divider.py`.
"""
