"""The manual of the instruction set: pages that are computed from the table.

It imports `isa`, `isa/derivatives`, `isa/folds` and `isa/microarchitecture`. Start with `pages.py`; `python -m retrograd.isa.manual docs/reference` writes the pages.
"""
