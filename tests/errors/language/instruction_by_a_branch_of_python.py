import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("relu", lambda x, w: x if x.lt(0) else 0)
