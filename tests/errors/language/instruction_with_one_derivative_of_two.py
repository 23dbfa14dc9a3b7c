import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("area", lambda x, y, w: product(x, y, w), lambda x, y, w: y)
