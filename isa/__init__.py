"""The instruction set: words, expression trees, effects, the table of instructions, encoding, programs and diagnostics.

It imports the standard library only, and nothing from its own folders. Every other part imports it, and the parts meet at
`isa.program.Program`. Start with `table.py`, which defines each instruction once; `expr.py` has the trees that the entries are
made of.
"""

from retrograd.isa import errors as errors
