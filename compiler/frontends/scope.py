"""Symbol table of one function: the value of each name, and where a name lost its value."""

from __future__ import annotations

from retrograd.compiler.language.values import Value
from retrograd.isa.diagnostics import Span


class Scope:
    """The names that are visible at the current statement."""

    def __init__(self) -> None:
        self.names: dict[str, Value] = {}
        #: names that were freed, and where: for messages
        self.freed: dict[str, Span] = {}
        #: values that lost their names, and where: inner functions may use them
        self.lost: list[tuple[Value, Span]] = []
        #: names whose variables are changed through a view, and a predicate for messages: `is seen as `m``
        self.lent: dict[str, str] = {}

    def free(self, name: str, where: Span) -> None:
        """Remove a name; a later use of it is refused with this place."""
        if name in self.names:
            self.lost.append((self.names.pop(name), where))
        self.freed[name] = where
