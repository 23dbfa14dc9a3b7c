import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("madd", lambda x, y, z, w: x + product(y, z, w))
