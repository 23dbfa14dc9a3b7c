import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

from retrograd.isa.expr import place

rg.instruction("peek", lambda x, w: x + place("d"))
