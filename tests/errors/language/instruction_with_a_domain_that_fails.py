import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("root2", lambda x, w: root(x, w), domain=lambda x, w: x > 0)
