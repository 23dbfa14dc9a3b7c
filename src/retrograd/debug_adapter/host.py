"""The interface of the adapter for its parts: the program, and the messages to the editor."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from retrograd.debug_adapter.messages import Arguments
from retrograd.debug_adapter.programs import Launched
from retrograd.debug_adapter.server import Connection, Request
from retrograd.debug_adapter.sources import Sources
from retrograd.debug_adapter.stops import Stops
from retrograd.debug_adapter.views import Views
from retrograd.debugger.session import Event, Session


class Host(Protocol):
    """The adapter, for motions, inspection and evaluation."""

    connection: Connection
    client: Arguments | None
    settings: Arguments
    launched: Launched | None
    ended: bool
    event: Event | None
    #: the numbers of an editor's first line and column
    base: int
    column: int
    #: the request that is carried out
    handling: Request | None

    @property
    def session(self) -> Session:
        """The session. Raises InputError RG1306 before `launch`."""

    @property
    def standing(self) -> Session:
        """The session of a program that is configured. Raises InputError RG1306."""

    @property
    def sources(self) -> Sources:
        """The sources of the program. Raises InputError RG1306 before `launch`."""

    @property
    def stops(self) -> Stops:
        """The breakpoints. Raises InputError RG1306 before `launch`."""

    @property
    def views(self) -> Views:
        """The trees of variables. Raises InputError RG1306 before `launch`."""

    def handle(self, request: Request, *, running: bool = False) -> None:
        """Carry out a request and respond."""

    def check_thread(self, given: Arguments) -> None:
        """Raise InputError RG1306 for another thread than that of the program."""

    def interruptible(self) -> AbstractContextManager[None]:
        """The request that is handled can be cancelled within the block."""

    def then(self, step: Callable[[], None]) -> None:
        """Do something once the request has its response."""

    def moved(self) -> None:
        """Forget frames and references: the state is another one."""

    def changed(self) -> None:
        """The words of the state were changed by hand."""

    def terminated(self, code: int) -> None:
        """End the program; the editor disconnects."""

    def stops_at_trap(self, code: str) -> bool:
        """Whether a trap stops the program."""

    def stopped_by_command(self) -> None:
        """Report that a command of the console moved the program."""
