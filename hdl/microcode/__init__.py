"""Microcode: the fields of a microword, and the contents of the microcode memories for the whole table.

It imports `isa` and `isa/microarchitecture`. Start with `microword.py`.
"""
