"""Symbol table of one function: the value of each name, and where a name lost its value."""

from __future__ import annotations

from dataclasses import dataclass

from retrograd.compiler.frontends.ir_builder import Versions
from retrograd.compiler.language.values import Scalar, Value
from retrograd.isa.diagnostics import Span


@dataclass(eq=False)
class Borrowed:
    """A number that a loop names: it lies in an array or a variable, and in Python the name keeps it when that changes.

    `versions`: of the places that it reads. `loops`: those around the name. `used`: the loops around its innermost use that may run again.
    """

    value: Value
    parts: tuple[Scalar, ...]
    versions: Versions
    loops: int
    used: int = 0


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
        #: names of numbers that lie elsewhere
        self.borrowed: dict[str, Borrowed] = {}
        #: loops around the current statement
        self.loops = 0

    def free(self, name: str, where: Span) -> None:
        """Remove a name; a later use of it is refused with this place."""
        if name in self.names:
            self.lost.append((self.names.pop(name), where))
        self.freed[name] = where
