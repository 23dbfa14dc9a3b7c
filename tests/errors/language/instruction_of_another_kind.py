import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("square", lambda x, w: product(x, x, w), kind="float")
