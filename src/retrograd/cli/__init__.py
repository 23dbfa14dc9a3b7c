"""The command line: the parser, exit codes, files, reports and standard streams.

It imports all parts, each when a command needs it. Start with `main.py`, the list of commands, and `options.py`, their shared options.
`commands/` has a module for each command.
"""

from retrograd.cli import errors
from retrograd.runtime import errors as errors_of_values

__all__ = ["errors", "errors_of_values"]
