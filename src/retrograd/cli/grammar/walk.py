"""Commands, options and arguments of the command line as plain data, read from the parsers.

    grammar(parser())  =  Command("retrograd", options, arguments, (Command("demo", …), …))

A command or option that is added to a parser is in every text that follows from here: no list is kept beside the parsers.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

#: words in the name of a value that is a path
_PATHS = re.compile(r"FILE|PROG|DIR|PAGE|PATH|OUT|FOLDER")


class Parser(Protocol):
    """The part of `cli.options.Parser` that is read here."""

    prog: str
    description: str | None

    def filled(self) -> object:
        """Add the options of the command's module."""

    @property
    def options(self) -> Sequence[argparse.Action]: ...

    @property
    def commands(self) -> Mapping[str, Parser] | None: ...


@dataclass(frozen=True)
class Argument:
    """An option (with names) or a positional argument (without).

    `value`: the name of its value, None for a flag. `choices`: all values that it takes, where they are listed.
    """

    names: tuple[str, ...]
    value: str | None
    choices: tuple[str, ...]
    help: str
    repeated: bool
    needed: bool

    @property
    def is_path(self) -> bool:
        """Whether its value names a file or a folder."""
        return self.value is not None and not self.choices and _PATHS.search(self.value) is not None


@dataclass(frozen=True)
class Command:
    """A command: its path from `retrograd` on, its options and arguments, and its own commands."""

    path: tuple[str, ...]
    summary: str
    options: tuple[Argument, ...]
    arguments: tuple[Argument, ...]
    commands: tuple[Command, ...]

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def key(self) -> str:
        """The names after `retrograd`, separated by blanks."""
        return " ".join(self.path[1:])

    def all(self) -> Iterator[Command]:
        """This command and all below it, a command before its own commands."""
        yield self
        for command in self.commands:
            yield from command.all()


def grammar(p: Parser, path: tuple[str, ...] = ("retrograd",), summary: str = "") -> Command:
    """The grammar that starts at a parser. It imports the module of each command."""
    p.filled()
    found = [_argument(p, action) for action in p.options if action.help != argparse.SUPPRESS]
    commands = tuple(
        grammar(child, (*path, name), child.description or "") for name, child in (p.commands or {}).items()
    )
    options = tuple(a for a in found if a.names)
    return Command(path, summary or p.description or "", options, tuple(a for a in found if not a.names), commands)


def _argument(p: Parser, action: argparse.Action) -> Argument:
    names = tuple(sorted(action.option_strings, key=len))
    takes_value = not names or action.nargs != 0
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return Argument(
        names,
        value if takes_value else None,
        tuple(str(choice) for choice in action.choices or ()),
        " ".join((action.help or "").replace("%(prog)s", p.prog).replace("%%", "%").split()),
        repeated=action.nargs in ("*", "+") or isinstance(action, argparse._AppendAction),
        needed=action.nargs not in ("?", "*") if not names else action.required,
    )
