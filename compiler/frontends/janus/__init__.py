"""Front end of Janus, in the dialects of the Jana interpreter and of 1982: text → syntax tree → IR.

May import: compiler/ir, compiler/language, other front ends' shared parts; isa. Start reading in syntax.py; parser.py reads texts;
expressions.py, statements.py and procedures.py lower the tree.
"""
