"""Assembly text, programs and binary images, each translated to the others, and the static verifier.

It imports `isa` only. Start with `assemble.py`; `verify.py` proves that a program can run backward.
"""

from retrograd.assembler import errors as errors
