import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("gray", lambda x, w: x ^ x.shr(1))
