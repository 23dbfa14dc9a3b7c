"""The manual of the instruction set: pages that are computed from the table.

It imports `isa` and its folders. Start with `pages.py`; `python -m retrograd.isa.manual docs/reference` writes the pages.
"""
