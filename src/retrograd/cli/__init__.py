"""The command line: the parser, exit codes, files, reports and standard streams.

It imports all parts, each when a command needs it. Start with `main.py`, the list of commands, and `options.py`, their shared options.
`commands/` has a module for each command.
"""

from retrograd import errors as errors
