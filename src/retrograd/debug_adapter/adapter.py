"""The requests of the Debug Adapter Protocol, carried out on a session.

    initialize → launch → (event initialized) → breakpoints → configurationDone → motions … → disconnect

A motion is answered first, then made, and ends with the event `stopped`. The end of the run is a stop as well, since the way back
begins there; a further `continue` ends the session.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from retrograd.debug_adapter.capabilities import CAPABILITIES, TRAPS
from retrograd.debug_adapter.inspection import Inspection
from retrograd.debug_adapter.messages import Arguments, bad_request
from retrograd.debug_adapter.motions import Motions
from retrograd.debug_adapter.programs import Launch, Launched
from retrograd.debug_adapter.server import Cancelled, Connection, Request
from retrograd.debug_adapter.sources import Sources
from retrograd.debug_adapter.stops import Stops
from retrograd.debug_adapter.views import Views
from retrograd.debugger.session import Event, Session
from retrograd.isa.diagnostics import RetrogradError

#: the only thread of a program
THREAD = 1
_Body = dict[str, Any] | None


class Adapter:
    """One session of an editor."""

    def __init__(self, connection: Connection, launch: Launch) -> None:
        self.connection, self._launch = connection, launch
        #: the numbers of an editor's first line and column
        self.base = self.column = 1
        self.client: Arguments | None = None
        self.launched: Launched | None = None
        self.settings = Arguments({})
        self.configured = self.ended = False
        self._trap_codes: tuple[str, ...] | None = ()
        self.event: Event | None = None
        self.handling: Request | None = None
        self._after: list[Callable[[], None]] = []
        self._motions: Motions | None = None
        self._stops: Stops | None = None
        self._views: Views | None = None
        self._sources: Sources | None = None
        self._inspection = Inspection(self)
        self._requests: dict[str, Callable[[Arguments], _Body]] = {
            "initialize": self._initialize, "launch": self._launch_program, "attach": self._attach,
            "configurationDone": self._configuration_done, "disconnect": self._disconnect, "terminate": self._terminate,
            "threads": self._threads, "cancel": self._cancel, "pause": self._pause,
            "setBreakpoints": self._set_breakpoints, "setFunctionBreakpoints": self._set_function_breakpoints,
            "setInstructionBreakpoints": self._set_instruction_breakpoints,
            "setDataBreakpoints": self._set_data_breakpoints, "dataBreakpointInfo": self._data_breakpoint_info,
            "setExceptionBreakpoints": self._set_exception_breakpoints, "exceptionInfo": self._exception_info,
            "breakpointLocations": self._breakpoint_locations,
            "continue": self._move, "reverseContinue": self._move, "next": self._move, "stepIn": self._move,
            "stepOut": self._move, "stepBack": self._move, **self._inspection.requests,
        }  # fmt: skip

    # ------------------------------------------------------------------ dispatch

    def serve(self) -> None:
        """Carry out requests until `disconnect` or the end of the input."""
        while not self.ended:
            request = self.connection.next()
            if request is None:
                return
            self.handle(request)

    #: requests that need no program that stands still
    ANYTIME = frozenset(
        (
            "initialize", "launch", "attach", "disconnect", "terminate", "threads", "cancel", "pause", "setBreakpoints",
            "setFunctionBreakpoints", "setInstructionBreakpoints", "setDataBreakpoints", "setExceptionBreakpoints",
            "breakpointLocations", "loadedSources", "source",
        )
    )  # fmt: skip

    def handle(self, request: Request, *, running: bool = False) -> None:
        """Carry out a request and respond. A motion that it starts follows the response."""
        if request.seq in self.connection.cancelled and request.command not in ("cancel", "disconnect"):
            self.connection.cancelled.discard(request.seq)
            self.connection.refuse(request, "cancelled")
            return
        if request.fault is not None:
            self.connection.refuse(request, request.fault)
            return
        carry_out = self._requests.get(request.command)
        before = self.handling, self._after
        after: list[Callable[[], None]] = []
        self.handling, self._after = request, after
        try:
            if carry_out is None:
                raise bad_request(f"there is no request `{request.command[:60]}`")
            if running and request.command not in self.ANYTIME:
                raise bad_request("the program runs; pause it first")
            body = carry_out(request.arguments)
        except Cancelled:
            self.connection.refuse(request, "cancelled")
        except RetrogradError as error:
            self.connection.refuse(request, error)
        except (RecursionError, MemoryError):
            self.connection.refuse(request, bad_request("the request is too large for this machine"))
        else:
            self.connection.respond(request, body)
        try:
            for step in after:
                step()
        finally:
            self.handling, self._after = before

    def interruptible(self) -> AbstractContextManager[None]:
        """The request that is handled can be cancelled within the block."""
        return self.motions.interruptible()

    def then(self, step: Callable[[], None]) -> None:
        """Do something once the request has its response."""
        self._after.append(step)

    # ------------------------------------------------------------------ the program

    @property
    def session(self) -> Session:
        """The session. Raises InputError RG1306 before `launch`."""
        if self.launched is None:
            raise bad_request("no program is launched")
        return self.launched.session

    @property
    def standing(self) -> Session:
        """The session of a program that is configured. Raises InputError RG1306."""
        session = self.session
        if not self.configured:
            raise bad_request("the program begins at `configurationDone`")
        return session

    @property
    def sources(self) -> Sources:
        """The sources of the program. Raises InputError RG1306 before `launch`."""
        if self._sources is None:
            raise bad_request("no program is launched")
        return self._sources

    @property
    def stops(self) -> Stops:
        """The breakpoints. Raises InputError RG1306 before `launch`."""
        if self._stops is None:
            raise bad_request("no program is launched")
        return self._stops

    @property
    def views(self) -> Views:
        """The trees of variables. Raises InputError RG1306 before `launch`."""
        self.session  # noqa: B018
        assert self._views is not None
        return self._views

    @property
    def motions(self) -> Motions:
        """The motions. Raises InputError RG1306 before `configurationDone`."""
        self.standing  # noqa: B018
        assert self._motions is not None
        return self._motions

    def moved(self) -> None:
        """Forget frames and references: the state is another one."""
        self._inspection.forget_frames()
        if self._views is not None:
            self._views.reset()

    def changed(self) -> None:
        """The words of the state were changed by hand."""
        self._inspection.forget_frames()
        if self.client is not None and self.client.values.get("supportsInvalidatedEvent") is True:
            self.then(lambda: self.connection.event("invalidated", areas=["variables"]))

    def stopped_by_command(self) -> None:
        """Report that a command of the console moved the program."""
        self.motions.stopped_by_command()

    # ------------------------------------------------------------------ life

    def _initialize(self, given: Arguments) -> _Body:
        if self.client is not None:
            raise bad_request("`initialize` comes once")
        lines, columns = given.truth("linesStartAt1", True), given.truth("columnsStartAt1", True)
        if given.maybe_text("pathFormat") not in (None, "path"):
            raise bad_request("`pathFormat` is `path`")
        self.base, self.column, self.client = int(lines), int(columns), given
        return CAPABILITIES

    def _attach(self, given: Arguments) -> _Body:
        raise bad_request("there is no running program to attach to", "use `launch`")

    def _launch_program(self, given: Arguments) -> _Body:
        if self.client is None:
            raise bad_request("`initialize` comes before `launch`")
        if self.launched is not None:
            raise bad_request("a program is launched already")
        for name in ("stopOnEntry", "stopAtEnd", "noDebug"):
            given.truth(name)
        launched = self._launch(given)
        self.launched, self.settings = launched, given
        session = launched.session
        self._sources = Sources(session.machine.program)
        self._stops = Stops(session, self._sources, self.base)
        self._views = Views(session)
        self._motions = Motions(self, session, self._sources.known)
        session.log = lambda text: self.connection.output(text + "\n")
        self.then(lambda: self.connection.event("process", name=launched.name, startMethod="launch"))
        self.then(lambda: self.connection.event("initialized"))
        return None

    def _configuration_done(self, given: Arguments) -> _Body:
        self.session  # noqa: B018
        if self.configured:
            raise bad_request("`configurationDone` comes once")
        self.configured = True
        self.then(self.motions.begin)
        return None

    def _disconnect(self, given: Arguments) -> _Body:
        self.ended = True
        return None

    def _terminate(self, given: Arguments) -> _Body:
        self.then(lambda: self.terminated(0))
        return None

    def terminated(self, code: int) -> None:
        """End the program; the editor disconnects."""
        self.connection.event("exited", exitCode=code)
        self.connection.event("terminated")
        self.launched = self._stops = self._sources = None
        self.configured = False

    def _threads(self, given: Arguments) -> _Body:
        if self.launched is None:
            return {"threads": []}
        return {"threads": [{"id": THREAD, "name": self.launched.name}]}

    def _cancel(self, given: Arguments) -> _Body:
        if "requestId" in given.values:
            given.integer("requestId")
        given.maybe_text("progressId")
        return None

    def _pause(self, given: Arguments) -> _Body:
        self.motions.pause()
        return None

    # ------------------------------------------------------------------ breakpoints

    def _stops_set(self, found: list[Any]) -> _Body:
        self.then(self.motions_changed)
        return {"breakpoints": found}

    def motions_changed(self) -> None:
        """Let a motion that is under way use the new breakpoints."""
        if self._motions is not None and self._motions.running:
            self._motions.stops_changed = True

    def _set_breakpoints(self, given: Arguments) -> _Body:
        return self._stops_set(self.stops.set_lines(given.inner("source"), given.objects("breakpoints")))

    def _set_function_breakpoints(self, given: Arguments) -> _Body:
        return self._stops_set(self.stops.set_functions(given.objects("breakpoints")))

    def _set_instruction_breakpoints(self, given: Arguments) -> _Body:
        return self._stops_set(self.stops.set_instructions(given.objects("breakpoints")))

    def _set_data_breakpoints(self, given: Arguments) -> _Body:
        return self._stops_set(self.stops.set_data(given.objects("breakpoints")))

    def _data_breakpoint_info(self, given: Arguments) -> _Body:
        session, name = self.standing, given.text("name")
        number = given.maybe_integer("variablesReference", 0)
        if number:
            node = self.views.child(number, name)
            place = node.place if node.settable else None
        else:
            try:
                place = session.place(name)
            except RetrogradError as error:
                return {"dataId": None, "description": error.diagnostics[0].message}
        if place is None:
            return {"dataId": None, "description": f"`{name[:60]}` is no single word"}
        return {"dataId": str(place), "description": f"{name[:60]} ({place})", "accessTypes": ["write"]}

    def _set_exception_breakpoints(self, given: Arguments) -> _Body:
        filters = given.texts("filters")
        options = [(item.text("filterId"), item.maybe_text("condition")) for item in given.objects("filterOptions")]
        unknown = next((name for name in (*filters, *(n for n, _ in options)) if name != TRAPS), None)
        if unknown is not None:
            raise bad_request(f"there is no exception filter `{unknown[:60]}`")
        conditions = [None for _ in filters] + [condition for _, condition in options]
        codes = [() if text is None else tuple(text.replace(",", " ").upper().split()) for text in conditions]
        # All traps, if one filter has no condition; none, if there is no filter.
        self._trap_codes = None if not codes else () if () in codes else tuple(c for of in codes for c in of)
        return None

    def stops_at_trap(self, code: str) -> bool:
        """Whether a trap stops the program by the filters that are set; an empty list of codes stands for all."""
        return self._trap_codes is not None and (not self._trap_codes or code in self._trap_codes)

    def _exception_info(self, given: Arguments) -> _Body:
        self.check_thread(given)
        trap = None if self.event is None else self.event.trap
        if trap is None:
            raise bad_request("the program stands at no trap")
        d = trap.diagnostics[0]
        details = {"message": d.message, "typeName": d.kind.title, "stackTrace": d.render()}
        return {"exceptionId": d.code, "description": d.message, "breakMode": "always", "details": details}

    def _breakpoint_locations(self, given: Arguments) -> _Body:
        first = given.integer("line")
        last = given.maybe_integer("endLine", first)
        return {"breakpoints": self.stops.locations(given.inner("source"), first, last)}

    # ------------------------------------------------------------------ motion

    def check_thread(self, given: Arguments) -> None:
        """Raise InputError RG1306 for another thread than that of the program."""
        if given.maybe_integer("threadId", THREAD) != THREAD:
            raise bad_request(f"the only thread is {THREAD}")

    def _move(self, given: Arguments) -> _Body:
        self.check_thread(given)
        assert self.handling is not None
        request = self.handling
        motion = self.motions.of(request.command, given.maybe_text("granularity") or "line")
        self.then(lambda: self.motions.make(motion, request))
        return {"allThreadsContinued": True} if request.command == "continue" else None
