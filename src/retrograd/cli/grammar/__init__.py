"""The grammar of the command line as data, and the texts that follow from it: completion scripts and the manual page.

It imports nothing of the command line. Start with `walk.py`, from which all others start.
"""
