import retrograd as rg
from retrograd.compiler.language.instructions import product, quotient, root, select

import math

rg.instruction("cosine", lambda x, w: math.cos(x))
