"""Front end for VLAD, a Scheme whose functions have derivatives as values (Pearlmutter and Siskind, TOPLAS 2008).

May import: compiler.ir, compiler.language, and of the other front ends the functional one, whose core it produces. Order of the
stages: reader → translation → core; definitions.py joins the definitions of a file with the prelude. Start reading in definitions.py.
"""
