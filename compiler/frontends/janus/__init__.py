"""Front end of Janus: the syntax tree and parser of the Jana interpreter's dialect; `lowering/` translates the tree to the IR.

May import: compiler/ir, compiler/language, other front ends' shared parts; isa. Start reading in syntax.py.
"""
