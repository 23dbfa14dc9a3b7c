"""The state that compiled code shares with Python: control block, words, cotangents.

It imports `simulator` and `isa`. Start with `control_block.py`.
"""
