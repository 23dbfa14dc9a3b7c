"""Front end for VLAD, a Scheme whose functions have derivatives as values (Pearlmutter and Siskind, TOPLAS 2008).

May import: compiler.ir, compiler.language, and of the other front ends the functional one, whose core it produces. Start reading in
translation.py, which produces the core; primitives.py has the rules of VLAD's primitives and of forward mode.
"""
