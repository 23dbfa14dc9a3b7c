import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("cube", lambda x, w: product(x, product(x, x, w), w), lambda x, w: product(x, x, w) * 3)
