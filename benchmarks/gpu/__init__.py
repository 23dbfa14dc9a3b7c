"""Batches on a GPU beside jax and Warp: `python -m retrograd.benchmarks.gpu`.

It imports all parts. Start with `batches.py`.
"""
