"""The structured reversible intermediate representation: statements, their effects, and analyses that passes share.

It imports `isa` only. Start with `statements.py`; `text.py` writes the IR as text and reads it.
"""
