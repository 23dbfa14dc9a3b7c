"""Machines on compiled code: machines that move from tier to tier, and whole runs that need no machine.

They import the other folders of `engines` except `batch` and `cuda`, and the reference machine. Start with `native.py`.
"""
