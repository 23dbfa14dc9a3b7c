"""The compiler: a function as source, reversible intermediate code, optimisation passes, a program.

It imports `isa` and numpy. Start with `compiled.py`, which runs the steps in a row; `pipeline.py` lists the passes.
"""

from retrograd.compiler import errors as errors
