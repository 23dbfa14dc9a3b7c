"""Workloads on a GPU beside jax and Warp: `retrograd bench --gpu`.

It imports all parts except `reporting`. Start with `measured.py`.
"""
