"""Requests about the state of a program that stands still: frames, scopes, variables, values, code and memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from retrograd.isa.diagnostics import InputError, RetrogradError
from retrograd.observe import _views
from retrograd.observe._server import Arguments, Cancelled, Connection, Launch, Launched, Request, bad_request
from retrograd.observe._session import Event, Session, StopsChanged
from retrograd.observe._timeline import Frame
from retrograd.observe._views import Host, Node, Sources, Stops, Views, address_of, completions, evaluated, reference

_Body = dict[str, Any] | None


class Inspection:
    """Answers the requests of one editor. The frames of a state are searched once."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._frames: list[Frame] = []
        self._whole = True
        self.requests: dict[str, Callable[[Arguments], _Body]] = {
            "stackTrace": self._stack_trace, "scopes": self._scopes, "variables": self._variables,
            "setVariable": self._set_variable, "setExpression": self._set_expression, "evaluate": self._evaluate,
            "completions": self._completions, "source": self._source, "loadedSources": self._loaded_sources,
            "disassemble": self._disassemble, "readMemory": self._read_memory, "writeMemory": self._write_memory,
        }  # fmt: skip

    def forget_frames(self) -> None:
        """Search the frames anew: the state is another one."""
        self._frames = []

    def _stack_trace(self, given: Arguments) -> _Body:
        session = self._host.standing
        self._host.check_thread(given)
        start, levels = given.maybe_integer("startFrame", 0), given.maybe_integer("levels", 0)
        if levels == 1 and not start and not self._frames:
            # The search for the callers is left for a request that needs them.
            top = session.calls.frame()
            return {"stackFrames": [self._stack_frame(1, top)], "totalFrames": 1 + bool(session.calls.addresses)}
        found, whole = self.frames()
        shown = [self._stack_frame(n + 1, f) for n, f in enumerate(found)]
        if not whole:
            shown.append(
                {
                    "id": len(found) + 1,
                    "name": "older calls lie too far back",
                    "line": 0,
                    "column": 0,
                    "presentationHint": "label",
                }
            )
        return {"stackFrames": shown[start : start + levels if levels else None], "totalFrames": len(shown)}

    def frames(self) -> tuple[list[Frame], bool]:
        """(the active calls, whether these are all)."""
        if not self._frames:
            with self._host.interruptible():
                found, self._whole = self._host.standing.frames()
            self._frames = list(found)
        return self._frames, self._whole

    def _stack_frame(self, number: int, frame: Frame) -> dict[str, Any]:
        assert self._host.launched is not None
        found: dict[str, Any] = {
            "id": number,
            "name": frame.procedure or self._host.launched.name,
            "line": 0,
            "column": 0,
            "instructionPointerReference": reference(frame.pc),
        }
        if frame.span is not None:
            span = frame.span
            found |= {
                "source": self._host.sources.as_source(span), "line": span.line + self._host.base - 1,
                "column": span.column + self._host.column - 1, "endLine": span.line + self._host.base - 1,
                "endColumn": max(span.end, span.column) + self._host.column - 1,
            }  # fmt: skip
        return found

    def frame(self, given: Arguments) -> Frame | None:
        """The frame of a request; None for the innermost one. Raises InputError RG1306."""
        self._host.standing  # noqa: B018
        number = given.maybe_integer("frameId", 1)
        if number == 1:
            return None
        found, _ = self.frames()
        if not 1 <= number <= len(found):
            raise bad_request(f"there is no frame {number}")
        return found[number - 1]

    def _scopes(self, given: Arguments) -> _Body:
        frame = self.frame(given)
        found = self._host.views.scopes() if frame is None else self._host.views.scopes_at(frame.step)
        hints = {"Variables": "locals", "Registers": "registers"}
        scopes = []
        for node in found:
            scope = {"name": node.name, "variablesReference": node.reference, "expensive": node.name == "Memory"}
            if node.name in hints:
                scope["presentationHint"] = hints[node.name]
            if node.indexed:
                scope["indexedVariables"] = node.indexed
            scopes.append(scope)
        return {"scopes": scopes}

    def shown(self, node: Node) -> dict[str, Any]:
        """A node as the fields that variables and results have."""
        found: dict[str, Any] = {"value": node.value, "variablesReference": self._host.views.registered(node).reference}
        if node.kind:
            found["type"] = node.kind
        if node.indexed:
            found["indexedVariables"] = node.indexed
        if node.place is not None and node.place.memory:
            found["memoryReference"] = str(node.place)
        return found

    def _variables(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        of = given.integer("variablesReference", 1)
        found = self._host.views.children(of, given.maybe_integer("start", 0), given.maybe_integer("count", 0))
        if given.maybe_text("filter") == "named" and self._host.views.node(of).indexed:
            found = []
        out = []
        for node in found:
            row = {"name": node.name, **self.shown(node)}
            if node.expression is not None:
                row["evaluateName"] = node.expression
            if not node.settable:
                row["presentationHint"] = {"attributes": ["readOnly"]}
            out.append(row)
        return {"variables": out}

    def _set_variable(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        of, name, value = given.integer("variablesReference", 1), given.text("name"), given.text("value")
        node = self._host.views.child(of, name)
        found = self.shown(self._host.views.set(node, value))
        self._host.changed()
        return found

    def _set_expression(self, given: Arguments) -> _Body:
        if self.frame(given) is not None:
            raise bad_request("variables of an outer frame are those of an earlier step")
        node = evaluated(self._host, given.text("expression"), "watch")
        found = self.shown(self._host.views.set(node, given.text("value")))
        self._host.changed()
        return found

    def _evaluate(self, given: Arguments) -> _Body:
        session, frame = self._host.standing, self.frame(given)
        text, context = given.text("expression"), given.maybe_text("context") or "repl"
        with self._host.interruptible(), nullcontext() if frame is None else session.at(frame.step):
            node = evaluated(self._host, text, context if frame is None else "hover")
        found = self.shown(node)
        found["result"] = found.pop("value")
        return found

    def _completions(self, given: Arguments) -> _Body:
        self._host.standing  # noqa: B018
        text = given.text("text")
        return {"targets": completions(self._host, text, given.integer("column") - self._host.column)}

    def _source(self, given: Arguments) -> _Body:
        number = given.inner("source").maybe_integer("sourceReference", 0) or given.integer("sourceReference")
        return {"content": self._host.sources.text(number)}

    def _loaded_sources(self, given: Arguments) -> _Body:
        return {"sources": self._host.sources.all()}

    def _disassemble(self, given: Arguments) -> _Body:
        session, far = self._host.standing, 1 << 40
        pc = address_of(given.text("memoryReference")) + given.maybe_integer("offset", 0, -far, far)
        pc += given.maybe_integer("instructionOffset", 0, -far, far)
        count = given.integer("instructionCount")
        return {"instructions": _views.disassemble(session, self._host.sources, pc, count, self._host.base)}

    def _read_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        return _views.read(self._host.standing, text, offset, given.integer("count"))

    def _write_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        written = _views.change(self._host.standing, text, offset, given.text("data"))
        self._host.changed()
        return {"bytesWritten": written}


# -----------------------------------------------------------------------------
# Motions of a program for an editor: they can be paused and cancelled, show their progress, and end with `stopped`.
#
# `poll` is called between the parts of a motion. It answers waiting requests, and raises where the motion is to end.

Motion = Callable[[], Event]
#: seconds of a motion before its progress is shown, and between two updates
_PATIENCE, _TICK = 0.5, 0.5
#: the exit code of a program that trapped
_TRAPPED = 3
#: reason of the session -> reason of the protocol, and its text
_REASONS = {
    "step": ("step", "a step"), "watch": ("data breakpoint", "a word changed"), "condition": ("breakpoint", "the condition holds"),
    "end": ("pause", "the end of the run"), "beginning": ("entry", "the beginning of the run"),
}  # fmt: skip
#: kind of a breakpoint -> reason of the protocol
_BREAKPOINTS = {"function": "function breakpoint", "instruction": "instruction breakpoint"}


class Motions:
    """The motions of one program. `lines`: whether its code has lines of a source."""

    def __init__(self, adapter: Host, session: Session, lines: bool) -> None:
        self._adapter, self._session, self._lines = adapter, session, lines
        self.running = self.stops_changed = False
        self._paused = self._resumes = False
        self._request: Request | None = None
        self._begun = self._shown = 0.0
        self._progress: str | None = None

    def of(self, command: str, granularity: str) -> Motion:
        """The motion of a request. Raises InputError RG1306."""
        session = self._session
        if granularity not in ("statement", "line", "instruction"):
            raise bad_request("`granularity` is statement, line or instruction")
        single = granularity == "instruction" or not self._lines
        match command:
            case "continue":
                return session.resume
            case "reverseContinue":
                return partial(session.resume, back=True)
            case "stepOut":
                return partial(session.stopping, session.step_out)
            case "stepIn":
                return session.step if single else partial(session.stopping, partial(session.step_line, over=False))
            case "next" | "stepBack":
                back = command == "stepBack"
                step = session.step_over if single else session.step_line
                return partial(session.stopping, partial(step, back=back))
            case _:
                raise bad_request(f"`{command}` is no motion")

    def begin(self) -> None:
        """The first motion, after the breakpoints are set."""
        settings = self._adapter.settings
        if settings.truth("noDebug"):
            self._session.breakpoints.clear()
            self._session.watches.clear()
        elif settings.truth("stopOnEntry"):
            self._stopped(Event("step", self._session.position, self._session.pc), ("entry", "the beginning"))
            return
        self.make(partial(self._session.resume, here=True), None)

    def pause(self) -> None:
        """End the motion that is under way; without one, nothing happens."""
        self._paused = self.running

    # ------------------------------------------------------------------ under way

    def make(self, motion: Motion, request: Request | None) -> None:
        """Make a motion, and report where it stopped."""
        adapter, session = self._adapter, self._session
        at = session.position
        adapter.moved()
        self._paused = self.stops_changed = False
        self._request = request
        # Only runs to a stop can go on with other stops from where they are.
        self._resumes = request is None or request.command in ("continue", "reverseContinue")
        try:
            with self._under_way():
                event = motion()
        except Cancelled:
            self._stopped(Event("step", session.position, session.pc), ("pause", "paused"))
        except InputError as error:
            adapter.connection.output("\n\n".join(d.render() for d in error.diagnostics) + "\n", "stderr")
            text = error.diagnostics[0].message
            self._stopped(Event("step", session.position, session.pc), ("pause", text))
        else:
            if not adapter.ended and not self._over(event, motion, at):
                self._stopped(event)

    def _over(self, event: Event, motion: Motion, at: int) -> bool:
        """Whether the event ends the program: a trap without a filter, or the end, where nothing stops there."""
        adapter, settings = self._adapter, self._adapter.settings
        debug = not settings.truth("noDebug")
        if event.trap is not None:
            if debug and adapter.stops_at_trap(event.trap.code):
                return False
            adapter.connection.output(f"{event.trap}\n", "stderr")
            adapter.terminated(_TRAPPED)
            return True
        if event.reason == "end" and (not debug or not settings.truth("stopAtEnd", True) or self._again(motion, at)):
            adapter.terminated(0)
            return True
        return False

    def _again(self, motion: Motion, at: int) -> bool:
        """Whether `continue` was asked for at the end."""
        asked = self._request is not None and self._request.command == "continue"
        return asked and at == self._session.position

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        self.running, self._begun, self._progress = True, time.monotonic(), None
        self._session.between = self._poll
        try:
            yield
        finally:
            self._session.between = None
            self.running = False
            if self._progress is not None:
                self._adapter.connection.event("progressEnd", progressId=self._progress)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """The request that is handled can be cancelled within the block."""
        asked = self._adapter.handling
        seq = None if asked is None else asked.seq
        cancelled = self._adapter.connection.cancelled

        def poll() -> None:
            if seq in cancelled or self._adapter.connection.hung_up:
                raise Cancelled

        before, self._session.between = self._session.between, poll
        try:
            yield
        finally:
            self._session.between = before
            if seq is not None:
                cancelled.discard(seq)

    def _poll(self) -> None:
        connection = self._adapter.connection
        while connection.urgent and not self._paused and not self._adapter.ended:
            waiting = connection.next(wait=False)
            if waiting is None:
                self._adapter.ended = connection.ended
                break
            self._adapter.handle(waiting, running=True)
        wanted = {self._progress, None if self._request is None else self._request.seq} - {None}
        if self._paused or self._adapter.ended or self._adapter.launched is None or wanted & connection.cancelled:
            connection.cancelled -= wanted
            raise Cancelled
        if self.stops_changed and self._resumes:
            self.stops_changed = False
            raise StopsChanged
        self._show_progress()

    def _show_progress(self) -> None:
        client, now = self._adapter.client, time.monotonic()
        if client is None or client.values.get("supportsProgressReporting") is not True:
            return
        text = f"step {self._session.position:,}"
        connection = self._adapter.connection
        if self._progress is None:
            if now - self._begun > _PATIENCE:
                number = 0 if self._request is None else self._request.seq
                self._progress = f"motion {number} {self._begun:.6f}"
                self._shown = now
                body: dict[str, Any] = {
                    "progressId": self._progress,
                    "title": "Running",
                    "cancellable": True,
                    "message": text,
                }
                if self._request is not None:
                    body["requestId"] = self._request.seq
                connection.event("progressStart", **body)
        elif now - self._shown > _TICK:
            self._shown = now
            connection.event("progressUpdate", progressId=self._progress, message=text)

    # ------------------------------------------------------------------ the end

    def _stopped(self, event: Event, reason: tuple[str, str] | None = None) -> None:
        adapter = self._adapter
        adapter.moved()
        if adapter.ended or adapter.launched is None:
            return
        adapter.event = event
        body: dict[str, Any] = {"threadId": 1, "allThreadsStopped": True}
        if reason is not None:
            body["reason"], body["description"] = reason
        elif event.trap is not None:
            d = event.trap.diagnostics[0]
            body |= {"reason": "exception", "description": f"trap {d.code}", "text": d.message}
        elif event.breakpoint is not None:
            number = event.breakpoint.number
            kind = _BREAKPOINTS.get(adapter.stops.kinds.get(number, ""), "breakpoint")
            body |= {"reason": kind, "description": kind, "hitBreakpointIds": [number]}
        else:
            body["reason"], body["description"] = _REASONS[event.reason]
            if event.watch is not None and event.write is not None:
                signed = self._session.machine.format.signed
                body["text"] = f"{event.watch.text}: {signed(event.write.before)} → {signed(event.write.after)}"
                body["hitBreakpointIds"] = [event.watch.number]
        adapter.connection.event("stopped", **body)

    def stopped_by_command(self) -> None:
        """Report that a command of the console moved the program."""
        trap = self._session.timeline.trap
        event = Event("step" if trap is None else "trap", self._session.position, self._session.pc, trap=trap)
        self._stopped(event, None if trap is not None else ("goto", f"step {self._session.position}"))


# -----------------------------------------------------------------------------
# The capabilities of the adapter, as `initialize` answers them.

#: the filter of traps
TRAPS = "trap"

CAPABILITIES: dict[str, Any] = {
    **dict.fromkeys(
        (
            "supportsConfigurationDoneRequest", "supportsFunctionBreakpoints", "supportsConditionalBreakpoints",
            "supportsHitConditionalBreakpoints", "supportsEvaluateForHovers", "supportsStepBack", "supportsSetVariable",
            "supportsSetExpression", "supportsCompletionsRequest", "supportsExceptionInfoRequest",
            "supportsDelayedStackTraceLoading", "supportsLoadedSourcesRequest", "supportsLogPoints",
            "supportsTerminateRequest", "supportsDataBreakpoints", "supportsReadMemoryRequest",
            "supportsWriteMemoryRequest", "supportsDisassembleRequest", "supportsCancelRequest",
            "supportsBreakpointLocationsRequest", "supportsSteppingGranularity", "supportsInstructionBreakpoints",
            "supportsExceptionFilterOptions", "supportsClipboardContext",
        ),
        True,
    ),
    "exceptionBreakpointFilters": [
        {
            "filter": TRAPS,
            "label": "Traps",
            "description": "Stop where an instruction cannot execute; without it a trap ends the session",
            "default": True,
            "supportsCondition": True,
            "conditionDescription": "Codes of traps, such as RG0407, RG0402; all if empty",
        }
    ],
}  # fmt: skip


# -----------------------------------------------------------------------------
# The requests of the Debug Adapter Protocol, carried out on a session.
#
#     initialize → launch → (event initialized) → breakpoints → configurationDone → motions … → disconnect
#
# A motion is answered first, then made, and ends with the event `stopped`. The end of the run is a stop as well, since the way back
# begins there; a further `continue` ends the session.

#: the only thread of a program
THREAD = 1


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
