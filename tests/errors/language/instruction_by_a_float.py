import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

rg.instruction("half", lambda x, w: x * 0.5)
