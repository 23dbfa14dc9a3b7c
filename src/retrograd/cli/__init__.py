"""The command line: the parser, exit codes, files, reports and standard streams.

It imports all parts, each when a command needs it. Start with `main.py`; `commands/` has a file for each command.
"""
