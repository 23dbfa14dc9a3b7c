"""Whole functions of the language as reversible netlists (docs/gates.md).

It imports `compiler`, `functions`, `values` and `hdl`. Start with `function_netlists.py`; `_program_lowering.py` is the fold over the IR.
"""
