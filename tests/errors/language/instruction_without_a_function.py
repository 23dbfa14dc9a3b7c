import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("square", 2.0)
