"""Support for editors: highlighting of assembly text in Pygments and TextMate grammars, and a language server.

It imports `isa`, `assembler`, words of the front ends of Janus and VLAD, Pygments, and pygls where its extra is installed. Start with `vocabulary.py`, which the others follow from.
"""
