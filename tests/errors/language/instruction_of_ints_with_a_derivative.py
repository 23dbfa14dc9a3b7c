import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("twice", lambda x, w: x + x, lambda x, w: 2 << w.frac, kind="int")
