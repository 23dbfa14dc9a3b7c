"""Assembly text, programs and binary images, each translated to the others, and the static verifier.

It imports `isa` only. Start with `assemble.py`; `verify.py` proves that a program can run backward. `pisa_reader.py` and `pisa_writer.py`
translate Pendulum PISA assembly, as the compilers of ROOPL write it, to programs and back.
"""

from retrograd.assembler import errors as errors
