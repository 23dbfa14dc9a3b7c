"""The requests of the Debug Adapter Protocol, carried out on a session.

    initialize → launch → (event initialized) → breakpoints → configurationDone → motions … → disconnect

A motion is answered first, then made, and ends with the event `stopped`. The end of the run is a stop as well, since the way back
begins there; a further `continue` ends the session.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from retrograd.debug_adapter import memory
from retrograd.debug_adapter.capabilities import CAPABILITIES, TRAPS
from retrograd.debug_adapter.evaluation import completions, evaluated
from retrograd.debug_adapter.messages import Arguments, bad_request
from retrograd.debug_adapter.motions import Motions
from retrograd.debug_adapter.programs import Launch, Launched
from retrograd.debug_adapter.server import Cancelled, Connection, Request
from retrograd.debug_adapter.sources import Sources
from retrograd.debug_adapter.stops import Stops, address_of, reference
from retrograd.debug_adapter.views import Node, Views
from retrograd.debugger.session import Event, Frame, Session
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
        self._frames: list[Frame] = []
        self._trap_codes: tuple[str, ...] | None = ()
        self.event: Event | None = None
        self.handling: Request | None = None
        self._after: list[Callable[[], None]] = []
        self._whole = True
        self._motions: Motions | None = None
        self._stops: Stops | None = None
        self._views: Views | None = None
        self._sources: Sources | None = None
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
            "stepOut": self._move, "stepBack": self._move,
            "stackTrace": self._stack_trace, "scopes": self._scopes, "variables": self._variables,
            "setVariable": self._set_variable, "setExpression": self._set_expression, "evaluate": self._evaluate,
            "completions": self._completions, "source": self._source, "loadedSources": self._loaded_sources,
            "disassemble": self._disassemble, "readMemory": self._read_memory, "writeMemory": self._write_memory,
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
        self._frames = []
        if self._views is not None:
            self._views.reset()

    def changed(self) -> None:
        """The words of the state were changed by hand."""
        self._frames = []
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
            node = next((n for n in self.views.children(number) if n.name == name), None)
            place = None if node is None or not node.settable else node.place
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
        self._thread(given)
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

    def _thread(self, given: Arguments) -> None:
        if given.maybe_integer("threadId", THREAD) != THREAD:
            raise bad_request(f"the only thread is {THREAD}")

    def _move(self, given: Arguments) -> _Body:
        self._thread(given)
        assert self.handling is not None
        request = self.handling
        motion = self.motions.of(request.command, given.maybe_text("granularity") or "line")
        self.then(lambda: self.motions.make(motion, request))
        return {"allThreadsContinued": True} if request.command == "continue" else None

    # ------------------------------------------------------------------ state

    def _stack_trace(self, given: Arguments) -> _Body:
        session = self.standing
        self._thread(given)
        start, levels = given.maybe_integer("startFrame", 0), given.maybe_integer("levels", 0)
        if levels == 1 and not start and not self._frames:
            # The search for the callers is left for a request that needs them.
            top = session.frame()
            return {"stackFrames": [self._stack_frame(1, top)], "totalFrames": 1 + session.has_calls}
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
            with self.motions.interruptible():
                found, self._whole = self.session.frames()
            self._frames = list(found)
        return self._frames, self._whole

    def _stack_frame(self, number: int, frame: Frame) -> dict[str, Any]:
        assert self.launched is not None
        found: dict[str, Any] = {
            "id": number,
            "name": frame.procedure or self.launched.name,
            "line": 0,
            "column": 0,
            "instructionPointerReference": reference(frame.pc),
        }
        if frame.span is not None:
            span = frame.span
            found |= {
                "source": self.sources.as_source(span), "line": span.line + self.base - 1,
                "column": span.column + self.column - 1, "endLine": span.line + self.base - 1,
                "endColumn": max(span.end, span.column) + self.column - 1,
            }  # fmt: skip
        return found

    def frame(self, given: Arguments) -> Frame | None:
        """The frame of a request; None for the innermost one. Raises InputError RG1306."""
        self.standing  # noqa: B018
        number = given.maybe_integer("frameId", 1)
        if number == 1:
            return None
        found, _ = self.frames()
        if not 1 <= number <= len(found):
            raise bad_request(f"there is no frame {number}")
        return found[number - 1]

    def _scopes(self, given: Arguments) -> _Body:
        frame = self.frame(given)
        found = self.views.scopes() if frame is None else self.views.scopes_at(frame.step)
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
        found: dict[str, Any] = {"value": node.value, "variablesReference": self.views.registered(node).reference}
        if node.kind:
            found["type"] = node.kind
        if node.indexed:
            found["indexedVariables"] = node.indexed
        if node.place is not None and node.place.memory:
            found["memoryReference"] = str(node.place)
        return found

    def _variables(self, given: Arguments) -> _Body:
        self.standing  # noqa: B018
        of = given.integer("variablesReference", 1)
        found = self.views.children(of, given.maybe_integer("start", 0), given.maybe_integer("count", 0))
        if given.maybe_text("filter") == "named" and self.views.node(of).indexed:
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
        self.standing  # noqa: B018
        of, name, value = given.integer("variablesReference", 1), given.text("name"), given.text("value")
        node = next((n for n in self.views.children(of) if n.name == name), None)
        if node is None:
            raise bad_request(f"there is no variable `{name[:60]}`")
        found = self.shown(self.views.set(node, value))
        self.changed()
        return found

    def _set_expression(self, given: Arguments) -> _Body:
        if self.frame(given) is not None:
            raise bad_request("variables of an outer frame are those of an earlier step")
        node = evaluated(self, given.text("expression"), "watch")
        found = self.shown(self.views.set(node, given.text("value")))
        self.changed()
        return found

    def _evaluate(self, given: Arguments) -> _Body:
        session, frame = self.standing, self.frame(given)
        text, context = given.text("expression"), given.maybe_text("context") or "repl"
        with self.motions.interruptible(), nullcontext() if frame is None else session.at(frame.step):
            node = evaluated(self, text, context if frame is None else "hover")
        found = self.shown(node)
        found["result"] = found.pop("value")
        return found

    def _completions(self, given: Arguments) -> _Body:
        self.standing  # noqa: B018
        text = given.text("text")
        return {"targets": completions(self, text, given.integer("column") - self.column)}

    def _source(self, given: Arguments) -> _Body:
        number = given.inner("source").maybe_integer("sourceReference", 0) or given.integer("sourceReference")
        return {"content": self.sources.text(number)}

    def _loaded_sources(self, given: Arguments) -> _Body:
        return {"sources": self.sources.all()}

    def _disassemble(self, given: Arguments) -> _Body:
        session, far = self.standing, 1 << 40
        pc = address_of(given.text("memoryReference")) + given.maybe_integer("offset", 0, -far, far)
        pc += given.maybe_integer("instructionOffset", 0, -far, far)
        count = given.integer("instructionCount")
        return {"instructions": memory.disassemble(session, self.sources, pc, count, self.base)}

    def _read_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        return memory.read(self.standing, text, offset, given.integer("count"))

    def _write_memory(self, given: Arguments) -> _Body:
        text, offset = given.text("memoryReference"), given.maybe_integer("offset", 0, -(1 << 53))
        written = memory.change(self.standing, text, offset, given.text("data"))
        self.changed()
        return {"bytesWritten": written}
