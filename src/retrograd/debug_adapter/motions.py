"""Motions of a program for an editor: they can be paused and cancelled, show their progress, and end with `stopped`.

`poll` is called between the parts of a motion. It answers waiting requests, and raises where the motion is to end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from retrograd.debug_adapter.host import Host
from retrograd.debug_adapter.messages import bad_request
from retrograd.debug_adapter.server import Cancelled, Request
from retrograd.debugger.session import Event, Session, StopsChanged
from retrograd.isa.diagnostics import InputError

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
