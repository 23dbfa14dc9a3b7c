"""The interface through which an adapter launches programs, so that it depends on no command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from retrograd.debug_adapter.messages import Arguments
from retrograd.debugger.session import Session


class Console(Protocol):
    """Commands of a session as text; they print their results."""

    @property
    def commands(self) -> Mapping[str, tuple[Any, str]]:
        """name -> (…, its summary)."""

    def execute(self, line: str) -> bool:
        """Carry out a line; True for the command that ends the session. Raises RetrogradError."""


@dataclass(frozen=True)
class Launched:
    """A program in a session, with the commands of its console."""

    name: str
    session: Session
    console: Console


#: the arguments of `launch` -> the program; raises RetrogradError
Launch = Callable[[Arguments], Launched]
