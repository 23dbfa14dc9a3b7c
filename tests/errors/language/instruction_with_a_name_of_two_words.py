import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("the cube", lambda x, w: product(x, x, w))
