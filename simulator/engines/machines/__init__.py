"""Machines on compiled code: one that runs on a given tier, and one that moves from tier to tier.

They import the other folders of `engines` except `batch` and `cuda`, and the reference machine. Start with `native.py`.
"""
